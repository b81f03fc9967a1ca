//! `[agents.*]`.

use countersign::{OnCut, tool::builtin::WORKSPACE_NAMES};
use countersign_core::limits;

use super::{
    compression::{self, ConfigCompression},
    computer,
    reader::{At, Section},
    server::unknown,
    team::{self, ConfigToolUse},
};

/// Most model calls of one turn that can be configured.
pub const MAX_TURNS_MAX: u32 = 1000;

/// An agent as it is declared (spec C).
#[derive(Clone, Debug, PartialEq)]
pub struct ConfigAgent {
    /// Its name.
    pub name: String,
    /// What people are told about it.
    pub description: Option<String>,
    /// What its model is told; may be empty.
    pub instructions: String,
    /// The name of its model, one of the declared ones.
    pub model: String,
    /// The names of its tools, all of them declared or built in.
    pub tools: Vec<String>,
    /// The MCP servers whose tools it has, all of them declared.
    pub mcp: Vec<String>,
    /// The agents it may hand the conversation to, all of them declared (spec S25).
    pub handoffs: Vec<String>,
    /// What is told about it to those that may hand the conversation to it.
    pub handoff_description: Option<String>,
    /// When a tool's result is its last word (spec S24).
    pub tool_use: ConfigToolUse,
    /// What its answers must be, as a JSON Schema (spec S23).
    pub output_schema: Option<serde_json::Value>,
    /// The guardrails that look at what the user says, all of them declared.
    pub input_guardrails: Vec<String>,
    /// The guardrails that look at its last answer, all of them declared.
    pub output_guardrails: Vec<String>,
    /// Most model calls in one turn (spec S24).
    pub max_turns: u32,
    /// What follows when an answer is not whole.
    pub on_cut: OnCut,
    /// When its conversation is made shorter (spec G5).
    pub compression: Option<ConfigCompression>,
}

/// Tools that are part of the product, but not of this version.
const LATER_TOOLS: [&str; 4] = ["read_todos", "task", "web_fetch", "web_search"];

/// The names that an agent can refer to.
pub(super) struct Names<'a> {
    pub(super) models: &'a [&'a str],
    pub(super) tools: &'a [&'a str],
    /// Those of them that are the browser's.
    pub(super) browser: &'a [&'a str],
    pub(super) servers: &'a [&'a str],
    pub(super) agents: &'a [&'a str],
    pub(super) guardrails: &'a [&'a str],
}

pub(super) fn read(name: &str, section: &Section<'_>, names: &Names<'_>) -> Option<ConfigAgent> {
    let Names { models, tools, browser, servers, agents, guardrails } = *names;
    name_error(section, "agent", name, limits::NAME_BYTES);
    let model = section.required("model");
    let description = section.string("description").map(|text| text.value);
    let instructions = section.string("instructions").map(|text| text.value).unwrap_or_default();
    let used = section.strings("tools").unwrap_or_default();
    let used_servers = section.strings("mcp").unwrap_or_default();
    let max_turns = section.whole("max_turns", 1..=MAX_TURNS_MAX, "").map_or(limits::MAX_TURNS, |n| n.value);
    let on_cut = team::on_cut(section);
    let handoffs = team::handoffs(section, agents);
    let handoff_description = section.string("handoff_description").map(|text| text.value);
    let output_schema = team::output_schema(section);
    let input_guardrails = team::guardrails(section, "input_guardrails", guardrails);
    let output_guardrails = team::guardrails(section, "output_guardrails", guardrails);
    let said_tool_use = section.has("tool_use").is_some();
    let compression = section.table("compression").map(|below| compression::read(&below, models));
    if let Some(model) = &model
        && !models.contains(&model.value.as_str())
    {
        unknown(section, "model", model, models.iter().copied());
    }
    let mut own: Vec<String> = Vec::new();
    for tool in used {
        if tools.contains(&tool.value.as_str()) {
            if own.contains(&tool.value) {
                section.bad(tool.at, "tools", format!("has {:?} twice", tool.value));
            } else {
                own.push(tool.value);
            }
        } else if WORKSPACE_NAMES.contains(&&*tool.value) {
            let At { value, at } = tool;
            let place = section.place();
            let what = format!("the tool {value:?}{place} needs a folder; set \"path\" in [workspace]");
            section.document.error(at, what);
        } else if computer::NAMES.contains(&&*tool.value) {
            let At { value, at } = tool;
            let place = section.place();
            let what = format!("the tool {value:?}{place} needs a browser; set \"program\" in [computer]");
            section.document.error(at, what);
        } else if LATER_TOOLS.contains(&tool.value.as_str()) {
            let At { value, at } = tool;
            section
                .document
                .error(at, format!("the tool {value:?}{} is not available in this version", section.place()));
        } else {
            unknown(section, "tool", &tool, tools.iter().copied());
        }
    }
    if let (true, Some(at)) = (
        computer::NAMES.iter().all(|name| browser.contains(name) && own.iter().any(|own| own == name)),
        section.has("tools"),
    ) {
        section.bad(
            at,
            "tools",
            format!("has {:?} and {:?}, which are one tool", computer::NAMES[0], computer::NAMES[1]),
        );
    }
    let mut mcp: Vec<String> = Vec::new();
    for server in used_servers {
        if !servers.contains(&server.value.as_str()) {
            unknown(section, "MCP server", &server, servers.iter().copied());
        } else if mcp.contains(&server.value) {
            section.bad(server.at, "mcp", format!("has {:?} twice", server.value));
        } else {
            mcp.push(server.value);
        }
    }
    if let (true, Some(at)) = (handoffs.iter().any(|other| other == name), section.has("handoffs")) {
        section.bad(at, "handoffs", format!("names {name:?} itself; name other agents"));
    }
    for handoff in &handoffs {
        let tool = format!("transfer_to_{handoff}");
        if let (true, Some(at)) = (own.contains(&tool), section.has("tools")) {
            section.bad(at, "tools", format!("has {tool:?}, which is what hands the conversation to {handoff:?}"));
        }
    }
    let tool_use = if said_tool_use { team::tool_use(section, &own) } else { ConfigToolUse::default() };
    if let (true, Some(at)) = (tool_use != ConfigToolUse::RunAgain, section.has("tool_use"))
        && (output_schema.is_some() || !output_guardrails.is_empty())
    {
        let what =
            "cannot stand beside \"output_schema\" or \"output_guardrails\", which look at the model's last answer";
        section.bad(at, "tool_use", what);
    }
    section.finish();
    let model = model?.value;
    // What is wrong with it was reported.
    let compression = compression.flatten();
    Some(ConfigAgent {
        name: name.to_owned(),
        description,
        instructions,
        model,
        tools: own,
        mcp,
        handoffs,
        handoff_description,
        tool_use,
        output_schema,
        input_guardrails,
        output_guardrails,
        max_turns,
        on_cut,
        compression,
    })
}

/// Reports a name that is not one. Model providers take no others for tools.
pub(super) fn name_error(section: &Section<'_>, what: &str, name: &str, most: usize) {
    let right = !name.is_empty()
        && name.len() <= most
        && name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-'));
    if !right {
        let message = format!(
            "{name:?} is no name of {} {what}; it must have 1 to {most} letters, digits, _ or -",
            article(what)
        );
        section.document.error(section.at, message);
    }
}

fn article(what: &str) -> &'static str {
    if what.starts_with(['a', 'e', 'i', 'o', 'u']) { "an" } else { "a" }
}
