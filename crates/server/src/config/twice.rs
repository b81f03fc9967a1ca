//! One tool that an agent has under two names, of which only one asks.

use std::{collections::BTreeMap, path::Path};

use countersign_engine::tool::Require;
use countersign_mcp::RequireApproval;
use countersign_tools::builtin::WORKSPACE_NAMES;

use super::{
    agents::ConfigAgent,
    approval::ConfigRequire,
    mcp::ConfigMcp,
    reader::Section,
    tools::{ConfigRuns, ConfigTool, by_default},
};

/// An agent's names for one tool: those that ask, and those that do not.
type Names = (Vec<String>, Vec<String>);

/// Warns of each tool that asks under one of an agent's names and runs without asking under another.
pub(super) fn asked_under_one_name(
    root: &Section<'_>,
    agent: &ConfigAgent,
    servers: &[ConfigMcp],
    tools: &[ConfigTool],
    workspace: Option<&Path>,
) {
    let mut known: BTreeMap<String, Names> = BTreeMap::new();
    let mut add = |what: String, name: String, asks: bool| {
        let (asking, free) = known.entry(what).or_default();
        if asks { asking.push(name) } else { free.push(name) }
    };
    let of_server = |server: &ConfigMcp, tool: &str| {
        let require = RequireApproval::from_json(&server.require_approval);
        require.map_or(true, |require| !matches!(require.of(tool), Require::Never))
    };
    for name in &agent.tools {
        let declared = tools.iter().find(|tool| tool.name == *name);
        let own = declared.and_then(|tool| tool.approval.as_ref()).map(|asks| asks.require != ConfigRequire::Never);
        let on_folder = |builtin: &str, folder: &Path| {
            let folder = folder.canonicalize().unwrap_or_else(|_| folder.to_owned());
            let asks = own.unwrap_or_else(|| *by_default(builtin) != ConfigRequire::Never);
            (format!("{builtin} in {}", folder.display()), asks)
        };
        match (declared.map(|tool| &tool.runs), workspace) {
            (Some(ConfigRuns::Folder { builtin, workspace, .. }), _) => {
                let (what, asks) = on_folder(builtin, workspace);
                add(what, name.clone(), asks);
            }
            (None, Some(folder)) if WORKSPACE_NAMES.contains(&name.as_str()) => {
                let (what, asks) = on_folder(name, folder);
                add(what, name.clone(), asks);
            }
            (Some(ConfigRuns::Mcp { server, tool }), _) => {
                let Some(of) = servers.iter().find(|of| of.name == *server) else { continue };
                let what = format!("the tool {tool:?} of the MCP server {server:?}");
                add(what.clone(), name.clone(), own.unwrap_or_else(|| of_server(of, tool)));
                let is_used = agent.mcp.contains(server)
                    && !of.without.contains(tool)
                    && of.tools.as_ref().is_none_or(|only| only.contains(tool));
                if is_used {
                    let prefix = of.prefix.as_deref().unwrap_or_default();
                    add(what, format!("{prefix}{tool}"), of_server(of, tool));
                }
            }
            _ => {}
        }
    }
    let at = root.below("agents").iter().find(|section| section.label == agent.name).map_or(0, |section| section.at);
    for (what, (asking, free)) in known.into_iter().filter(|(_, (asking, free))| !asking.is_empty() && !free.is_empty())
    {
        let named = |names: &[String]| names.iter().map(|name| format!("{name:?}")).collect::<Vec<_>>().join(", ");
        let (agent, asking, free) = (&agent.name, named(&asking), named(&free));
        root.document
            .warn(at, format!("[agents.{agent}] has {what} twice: as {asking} it asks, as {free} it runs by itself"));
    }
}
