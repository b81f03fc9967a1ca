//! Describes who decides about the calls of a tool.

use std::path::PathBuf;

use countersign_core::approval::question;
use countersign_server::config::{Config, ConfigComputer, ConfigRequire, ConfigRuns, by_default};
use countersign_tools::builtin::{COMPUTER, COMPUTER_USE_PREVIEW, WORKSPACE_NAMES};

/// Describes a tool of an agent, and who decides about its calls according to the tool itself; rules of the policy come
/// on top.
pub(crate) fn of_tool(config: &Config, name: &str) -> String {
    let declared = config.tool(name);
    let said = declared.and_then(|tool| tool.approval.as_ref());
    let decides = || decides(said.map_or(&ConfigRequire::Never, |approval| &approval.require));
    match declared.map(|tool| &tool.runs) {
        Some(ConfigRuns::Mcp { server, tool }) => {
            let asks = said.map_or_else(|| format!("as [mcp.{server}] says"), |said| self::decides(&said.require));
            format!("{tool} of the MCP server {server}; {asks}")
        }
        Some(ConfigRuns::Http(request)) => format!("{}; {}", request.describe(), decides()),
        Some(ConfigRuns::Command { .. }) => decides(),
        Some(ConfigRuns::Agent(agent)) => format!("the agent {agent} works on it; {}", decides()),
        _ if name == question::TOOL => "the user answers".to_owned(),
        _ => {
            let on_screen = config.computer.as_ref().filter(|_| [COMPUTER, COMPUTER_USE_PREVIEW].contains(&name));
            let on_screen = on_screen.map(|there| computer(config, there));
            on_screen.or_else(|| on_folder(config, name)).unwrap_or_else(decides)
        }
    }
}

/// Who decides.
pub(crate) fn decides(require: &ConfigRequire) -> String {
    match require {
        ConfigRequire::Always => "a person decides".to_owned(),
        ConfigRequire::When(condition) => format!("a person decides if {condition}"),
        ConfigRequire::Never => "runs without approval".to_owned(),
    }
}

/// A built-in tool on a folder.
fn on_folder(config: &Config, name: &str) -> Option<String> {
    let declared = config.tool(name);
    let (builtin, folder) = match declared.map(|tool| &tool.runs) {
        Some(ConfigRuns::Folder { builtin, workspace, .. }) => (builtin.as_str(), workspace),
        _ => (name, config.workspace.as_ref()?),
    };
    if !WORKSPACE_NAMES.contains(&builtin) {
        return None;
    }
    let asks = declared.and_then(|tool| tool.approval.as_ref()).map(|approval| &approval.require);
    let asks = decides(asks.unwrap_or_else(|| by_default(builtin)));
    let kind = if builtin == name { String::new() } else { format!("{builtin} ") };
    // Without the trailing dot that "." leaves.
    let folder: PathBuf = folder.components().collect();
    Some(format!("{kind}in {}; {asks}", folder.display()))
}

fn computer(config: &Config, computer: &ConfigComputer) -> String {
    let changed = config.tools.iter().find(|tool| tool.runs == ConfigRuns::Computer);
    let changed = changed.and_then(|tool| tool.approval.as_ref());
    let asks = match changed.map(|approval| &approval.require) {
        Some(ConfigRequire::When(condition)) => format!("a person decides if {condition}, for any of its actions"),
        require => decides(require.unwrap_or(&ConfigRequire::Always)),
    };
    let ConfigComputer { program, width, height, start_page, hosts, .. } = computer;
    let reaches = hosts.as_ref().map_or_else(|| "any host".to_owned(), |hosts| hosts.as_slice().join(", "));
    let program = program.display();
    format!("{program} with {width} x {height} pixels, which starts at {start_page} and may reach {reaches}; {asks}")
}

#[cfg(test)]
mod tests {
    use countersign_engine::tool::Require;
    use countersign_tools::builtin::{self, Workspace};

    use super::*;

    #[test]
    fn s12_built_in_tools_are_described_as_they_behave() {
        let folder = tempfile::tempdir().expect("folder");
        let workspace = Workspace::open(folder.path()).expect("workspace");
        for name in WORKSPACE_NAMES {
            let entry = builtin::on(&workspace, name).expect("a tool");
            let asks = !matches!(entry.approval.require, Require::Never);
            assert_eq!(asks, matches!(by_default(name), ConfigRequire::Always), "{name}");
        }
    }
}
