//! `[agents.*]`.

use countersign_core::{call::schema::ArgsSchema, limits};
use countersign_runtime::agent::{OnCut, team::ToolUse};
use countersign_tools::builtin::WORKSPACE_NAMES;
use serde_json::{Value, json};

use super::{
    compression::ConfigCompression,
    computer,
    reader::{Entry, Names, Section},
    table::{Kind, any, choice, choice_or, declared, list, names, own_name, table, text, whole},
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
        /// The agents it may hand the conversation to, by the tool `transfer_to_NAME`. The other agent answers from
        /// then on, until it hands off itself or a message names an agent.
        handoffs: Vec<String> = names(one("agent", "names under `[agents]`", |names| &names.agents)).or(Vec::new());
        /// Description for agents that may hand the conversation to it.
        handoff_description: Option<String> = text().optional("none");
        /// `"run_again"`: the model gets the results; `"stop_on_first_tool"`: the result of an answer's first call
        /// ends the turn; or a list of its tools whose results do. No result ends the turn while a call is pending.
        tool_use: ConfigToolUse = tool_use(tools.as_deref().unwrap_or_default()).or_as("`\"run_again\"`", ConfigToolUse::default);
        /// JSON Schema of its final answer of a turn. The model is given the schema, and an answer that does not
        /// match fails the turn (`invalid_output`). A code fence around it is removed.
        output_schema: Option<Value> = any().try_map(output_schema).called("JSON Schema").optional("none");
        /// Guardrails that check the user's input before the first model call of a turn.
        input_guardrails: Vec<String> = guardrails().or(Vec::new());
        /// Guardrails that check its final answer before it counts. Cannot be combined with a `tool_use` that ends
        /// turns.
        output_guardrails: Vec<String> = guardrails().or(Vec::new());
        /// Most model calls in one turn, including those of agents called as tools; summaries do not count.
        max_turns: u32 = whole(1..=MAX_TURNS_MAX, "").or(limits::MAX_TURNS);
        /// What happens when an answer [is incomplete](protocol.md#answers-that-are-not-whole): `"end"`: it counts as
        /// it is; `"fail"`: the turn fails (`model_error`); `"continue"`: text cut at the token limit is continued by
        /// the model, at most 8 times and within `max_turns`, and becomes one text of one answer. Anything but cut
        /// text counts as it is.
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
    pub fn rule(&self) -> ToolUse {
        match self {
            ConfigToolUse::RunAgain => ToolUse::RunAgain,
            ConfigToolUse::StopOnFirst => ToolUse::StopOnFirst,
            ConfigToolUse::StopAt(names) => ToolUse::StopAt(names.iter().map(|name| name.as_str().into()).collect()),
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
    ArgsSchema::of_any(&schema).map_err(|error| format!("is no valid JSON Schema: {error}"))?;
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
