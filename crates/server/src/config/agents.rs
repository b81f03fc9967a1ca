//! `[agents.*]`.

use std::{collections::BTreeMap, path::Path};

use countersign_core::{call::schema::ArgsSchema, limits};
use countersign_engine::{model::hosted_mcp::HostedMcp, tool::Require};
use countersign_mcp::RequireApproval;
use countersign_runtime::agent::{OnCut, team::ToolUseBehavior};
use countersign_tools::builtin::WORKSPACE_NAMES;
use serde_json::{Value, json};

use super::{
    approval::ConfigRequire,
    compression::ConfigCompression,
    computer,
    mcp::ConfigMcp,
    models::ConfigModel,
    reader::{Entry, Names, Section},
    table::{Kind, any, choice, choice_or, declared, list, names, own_name, table, text, whole},
    tools::{ConfigRuns, ConfigTool, TOOL_NAME_BYTES, by_default},
};

/// Most model calls per turn that can be configured.
pub const MAX_TURNS_MAX: u32 = 1000;
/// Tools of the product that this version does not have yet.
const LATER_TOOLS: [&str; 4] = ["read_todos", "task", "web_fetch", "web_search"];

table! {
    /// A declared agent (spec C).
    #[derive(Clone, Debug, PartialEq)]
    pub struct ConfigAgent(section) {
        /// Its name.
        name: String = own_name("agent", limits::NAME_BYTES);
        /// Its model.
        model: String = declared("model", "name under `[models]`", |names| &names.models).required();
        /// Description for people.
        description: Option<String> = text().optional("none");
        /// Instructions for its model.
        instructions: String = text().or(String::new());
        /// Names under [`[tools]`](#toolsname), and [built-in tools](#built-in-tools).
        tools: Vec<String> = names(text().and(tool)).or(Vec::new());
        /// Names under [`[mcp]`](#mcpname): the agent gets all tools of these servers that are used.
        mcp: Vec<String> = names(declared("MCP server", "names under `[mcp]`", |names| &names.mcp)).or(Vec::new());
        /// The agents it may hand the conversation to, by the tool `transfer_to_NAME`: names of at most 52 bytes. The other
        /// agent answers from then on, until it hands off itself or a message names an agent.
        handoffs: Vec<String> = names(one("agent", "names under `[agents]`", |names| &names.agents)).or(Vec::new());
        /// Description for agents that may hand the conversation to it.
        handoff_description: Option<String> = text().optional("none");
        /// `"run_again"`: the model gets the results; `"stop_on_first_tool"`: the result of an answer's first call
        /// ends the turn; or a list of its tools whose results do. No result ends the turn while a call is pending.
        tool_use: ConfigToolUse = tool_use(tools.as_deref().unwrap_or_default()).or_as("`\"run_again\"`", ConfigToolUse::default);
        /// JSON Schema of its final answer of a turn. The model is given the schema, and an answer that does not
        /// match fails the turn (`invalid_output`). A code fence around it is removed.
        output_schema: Option<Value> = any().try_map(output_schema).called("JSON Schema").optional("none");
        /// Guardrails that check the user's input before the first model call of a turn; not of one that another agent began.
        input_guardrails: Vec<String> = guardrails().or(Vec::new());
        /// Guardrails that check its final answer before it counts. Cannot be combined with a `tool_use` that ends
        /// turns.
        output_guardrails: Vec<String> = guardrails().or(Vec::new());
        /// The maximum number of model calls in one turn, including those of agents called as tools; summaries do not count.
        max_turns: u32 = whole(1..=MAX_TURNS_MAX, "").or(limits::MAX_TURNS);
        /// What happens when an answer [is incomplete](protocol.md#answers-that-are-not-whole): `"end"`: it counts as
        /// it is; `"fail"`: the turn fails (`model_error`); `"continue"`: text cut at the token limit is continued by
        /// the model, at most 8 times and within `max_turns`, and becomes one text of one answer. Anything but cut
        /// text counts as it is, and so does what an agent answers whose model has `hosted_mcp`.
        on_cut: OnCut = choice("on_cut", vec![("end", OnCut::End), ("fail", OnCut::Fail), ("continue", OnCut::Continue)])
            .or_as("`\"end\"`", OnCut::default);
        /// [When its conversation is compressed](#agentsnamecompression).
        compression: Option<ConfigCompression> = table(ConfigCompression::read).optional("never");
    }
    then check;
}

/// A tool that an agent names.
fn tool(entry: &Entry<'_>, name: String) -> Option<String> {
    let known = entry.section.document.names.borrow();
    let of_tool = format!("the tool {name:?}");
    if known.tools.contains(&name) {
        return Some(name);
    } else if WORKSPACE_NAMES.contains(&&*name) {
        entry.say(&of_tool, " needs a folder; set \"path\" in [workspace]");
    } else if computer::NAMES.contains(&&*name) {
        entry.say(&of_tool, " needs a browser; set \"program\" in [computer]");
    } else if LATER_TOOLS.contains(&&*name) {
        entry.say(&of_tool, " is not available in this version");
    } else {
        entry.unknown("tool", &name, known.tools.iter().map(String::as_str));
    }
    None
}

/// Names of declared guardrails.
pub(super) fn guardrails<'k>() -> Kind<'k, Vec<String>> {
    names(declared("guardrail", "names under `[guardrails]`", |names| &names.guardrails))
}

fn one<'k>(what: &'k str, words: &'k str, known: fn(&Names) -> &Vec<String>) -> Kind<'k, String> {
    declared(what, words, known).and(|entry, name| {
        let own = entry.section.label == name;
        if own {
            entry.bad(format!("names {name:?} itself; name other agents"));
        }
        (!own).then_some(name)
    })
}

/// What ends an agent's turn (spec S24).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ConfigToolUse {
    /// The model gets the results.
    #[default]
    RunAgain,
    /// The first result ends the turn.
    StopOnFirst,
    /// The result of one of these tools does.
    StopAt(Vec<String>),
}

impl ConfigToolUse {
    /// The runtime's form of it.
    #[must_use]
    pub fn rule(&self) -> ToolUseBehavior {
        match self {
            ConfigToolUse::RunAgain => ToolUseBehavior::RunAgain,
            ConfigToolUse::StopOnFirst => ToolUseBehavior::StopOnFirst,
            ConfigToolUse::StopAt(names) => {
                ToolUseBehavior::StopAt(names.iter().map(|name| name.as_str().into()).collect())
            }
        }
    }
}

fn tool_use(own: &[String]) -> Kind<'_, ConfigToolUse> {
    const RIGHT: &str = "\"run_again\", \"stop_on_first_tool\", or a list of the tools whose result is the last word";
    let known = vec![("run_again", ConfigToolUse::RunAgain), ("stop_on_first_tool", ConfigToolUse::StopOnFirst)];
    let of_agent = text().and(|entry, name| {
        if !own.contains(&name) {
            entry.unknown("tool of this agent", &name, own.iter().map(String::as_str));
        }
        Some(name)
    });
    let listed = list(of_agent).schema(json!({ "minItems": 1 })).try_map(|names| {
        if names.is_empty() { Err(format!("must be {RIGHT}")) } else { Ok(ConfigToolUse::StopAt(names)) }
    });
    choice_or("tool use", known, RIGHT.to_owned()).or_a(listed).expected(RIGHT)
}

/// The JSON Schema that an agent's final answer must match (spec S23).
fn output_schema(schema: Value) -> Result<Value, String> {
    ArgsSchema::of_any(&schema).map_err(|error| format!("is not a valid JSON Schema: {error}"))?;
    Ok(schema)
}

fn check(section: &Section<'_>, agent: ConfigAgent) -> Option<ConfigAgent> {
    let browser = &section.document.names.borrow().browser;
    if computer::NAMES.iter().all(|name| browser.contains(name) && agent.tools.iter().any(|own| own == name)) {
        let [computer, preview] = computer::NAMES;
        section.bad("tools", format!("has {computer:?} and {preview:?}, which are one tool"));
    }
    for handoff in &agent.handoffs {
        let tool = format!("transfer_to_{handoff}");
        if agent.tools.contains(&tool) {
            section.bad("tools", format!("has {tool:?}, which is what hands the conversation to {handoff:?}"));
        }
        if tool.len() > TOOL_NAME_BYTES {
            let most = TOOL_NAME_BYTES - (tool.len() - handoff.len());
            let what = format!(
                "has {handoff:?}: the tool {tool:?} is longer than the {TOOL_NAME_BYTES} bytes that providers accept; give \
                 that agent a name of at most {most}"
            );
            section.bad("handoffs", what);
        }
    }
    if agent.tool_use != ConfigToolUse::RunAgain
        && (agent.output_schema.is_some() || !agent.output_guardrails.is_empty())
    {
        let what =
            "cannot be combined with \"output_schema\" or \"output_guardrails\", which look at the model's last answer";
        section.bad("tool_use", what);
    }
    Some(agent)
}

/// An error for each tool name that an agent would get from two sources, as far as the file names the servers' tools.
/// Others are known only once the servers are connected.
pub(super) fn one_name_twice(root: &Section<'_>, agent: &ConfigAgent, servers: &[ConfigMcp], tools: &[ConfigTool]) {
    let own = agent.tools.iter().map(|name| {
        let place = match tools.iter().find(|tool| tool.name == *name).map(|tool| &tool.runs) {
            Some(ConfigRuns::Mcp { server, .. }) => format!("[tools.{name}] (of the MCP server {server:?})"),
            _ => format!("\"tools\" ({name:?})"),
        };
        (name.clone(), place)
    });
    let handoffs = agent.handoffs.iter().map(|to| (format!("transfer_to_{to}"), format!("the handoff to {to:?}")));
    let mut known: BTreeMap<String, String> = own.chain(handoffs).collect();
    for server in agent.mcp.iter().filter_map(|name| servers.iter().find(|server| server.name == *name)) {
        for tool in server.allowed_tools.iter().flatten().filter(|tool| !server.blocked_tools.contains(tool)) {
            let name = format!("{}{tool}", server.prefix.as_deref().unwrap_or_default());
            let place = format!("[mcp.{}]", server.name);
            if let Some(other) = known.insert(name.clone(), place.clone()) {
                let what =
                    format!("has two tools called {name:?}: from {other} and from {place}; give a server a \"prefix\"");
                for section in root.below("agents").iter().filter(|section| section.label == agent.name) {
                    section.bad("mcp", &what);
                }
            }
        }
    }
}

/// An error for each tool that is named like those of an MCP server that the provider of the agent's model calls.
pub(super) fn named_as_hosted(root: &Section<'_>, agent: &ConfigAgent, models: &[ConfigModel]) {
    let Some(model) = models.iter().find(|model| model.name == agent.model) else { return };
    // Their addresses do not matter here, and wrong labels have been reported.
    let servers: Vec<HostedMcp> =
        model.hosted_mcp.iter().filter_map(|server| HostedMcp::new(&server.label, "http://localhost").ok()).collect();
    for (name, server) in agent.tools.iter().filter_map(|name| Some((name, servers.iter().find(|one| one.has(name))?)))
    {
        let label = server.label();
        for section in root.below("agents").iter().filter(|section| section.label == agent.name) {
            let what = format!(
                "has {name:?}, which is the name of a tool of the MCP server {label:?} that the provider of its model \
                 calls; give it another name"
            );
            section.bad("tools", what);
        }
    }
}

/// An agent's names for one tool: those that ask, and those that do not.
type BothNames = (Vec<String>, Vec<String>);

/// Warns of each tool that asks under one of an agent's names and runs without asking under another.
pub(super) fn asked_under_one_name(
    root: &Section<'_>,
    agent: &ConfigAgent,
    servers: &[ConfigMcp],
    tools: &[ConfigTool],
    workspace: Option<&Path>,
) {
    let mut known: BTreeMap<String, BothNames> = BTreeMap::new();
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
                    && !of.blocked_tools.contains(tool)
                    && of.allowed_tools.as_ref().is_none_or(|only| only.contains(tool));
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
        root.document.warn(
            at,
            format!("[agents.{agent}] has {what} twice: as {asking} it asks, as {free} it runs without approval"),
        );
    }
}
