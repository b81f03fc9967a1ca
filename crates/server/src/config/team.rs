//! What agents have of one another, and what is laid around them: agents as tools, handoffs, guardrails (spec S11, S24, S25).

use countersign::{OnCut, team::ToolUse};
use countersign_core::call::{
    display::{ContentMessage, StreamRule},
    schema::ArgsSchema,
};

use super::{
    agents::name_error,
    approval::{self, ConfigApproval, RoleAt},
    reader::{At, Section},
    server::unknown,
    tools,
};

/// An agent as a tool of others (spec S5).
#[derive(Clone, Debug, PartialEq)]
pub struct ConfigAgentTool {
    /// Its name.
    pub name: String,
    /// The agent, one of the declared ones.
    pub agent: String,
    /// What the model is told about it.
    pub description: String,
    /// Where the line that says what a call is for comes from (spec H5).
    pub content_message: Option<ContentMessage>,
    /// When a person is asked before the agent begins.
    pub approval: ConfigApproval,
    /// What of its calls a client sees, and where it stands (spec Q5).
    pub stream: StreamRule,
}

/// A program that looks at what goes in and out (spec S11).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigGuardrail {
    /// Its name.
    pub name: String,
    /// The program and its arguments.
    pub command: Vec<String>,
    /// Its folder.
    pub cwd: std::path::PathBuf,
    /// Names of variables to pass on.
    pub env: Vec<String>,
    /// Seconds until it is stopped, which counts as its no.
    pub time_limit: u32,
}

/// Whether it is declared as an agent, and as nothing else.
pub(super) fn is_agent(section: &Section<'_>) -> bool {
    tools::KINDS.into_iter().all(|kind| section.has(kind).is_some() == (kind == "agent"))
}

/// Reads one agent as a tool. The second part is each role its approval needs, with its place in the file.
pub(super) fn tool(name: &str, section: &Section<'_>, agents: &[&str]) -> (Option<ConfigAgentTool>, Vec<RoleAt>) {
    name_error(section, "tool", name, tools::TOOL_NAME_BYTES);
    if let Some(at) = section.has("parameters") {
        section.value("parameters");
        section.bad(at, "parameters", "cannot be set: an agent takes {\"input\": \"…\"}");
    }
    let agent = section.required("agent").filter(|agent| known(section, agent, agents));
    let (approval, roles) = approval::read(section);
    let description = section.string("description").map(|text| text.value).unwrap_or_default();
    let (content_message, stream) = (tools::content_message(section), tools::stream(section));
    section.finish();
    let tool = agent.map(|agent| ConfigAgentTool {
        name: name.to_owned(),
        agent: agent.value,
        description,
        content_message,
        approval,
        stream,
    });
    (tool, roles)
}

/// Reads one guardrail.
pub(super) fn guardrail(name: &str, section: &Section<'_>) -> Option<ConfigGuardrail> {
    name_error(section, "guardrail", name, tools::TOOL_NAME_BYTES);
    if section.has("command").is_none() {
        let what = format!("missing \"command\"{}: what the guardrail runs", section.place());
        section.document.error(section.at, what);
    }
    let command = tools::command(section);
    let (cwd, env, time_limit) = (tools::cwd(section), tools::env(section), tools::time_limit(section));
    section.finish();
    Some(ConfigGuardrail { name: name.to_owned(), command: command?, cwd, env, time_limit })
}

/// The agents that an agent may hand the conversation to.
pub(super) fn handoffs(section: &Section<'_>, agents: &[&str]) -> Vec<String> {
    names(section, "handoffs", |section, name| known(section, name, agents))
}

/// The guardrails that are named under a key.
pub(super) fn guardrails(section: &Section<'_>, key: &'static str, declared: &[&str]) -> Vec<String> {
    names(section, key, |section, name| {
        let is = declared.contains(&name.value.as_str());
        if !is {
            unknown(section, "guardrail", name, declared.iter().copied());
        }
        is
    })
}

/// What follows when an answer of an agent's model is not whole.
pub(super) fn on_cut(section: &Section<'_>) -> OnCut {
    const NAMES: [(&str, OnCut); 3] = [("end", OnCut::End), ("fail", OnCut::Fail), ("continue", OnCut::Continue)];
    let Some(said) = section.string("on_cut") else { return OnCut::default() };
    match NAMES.iter().find(|(name, _)| *name == said.value) {
        Some((_, on_cut)) => *on_cut,
        None => {
            let what = format!("is {:?}; it must be \"end\", \"fail\" or \"continue\"", said.value);
            section.bad(said.at, "on_cut", what);
            OnCut::default()
        }
    }
}

/// What ends an agent's turn (spec S24).
pub(super) fn tool_use(section: &Section<'_>, own: &[String]) -> ConfigToolUse {
    let Some(At { value, at }) = section.json("tool_use") else { return ConfigToolUse::RunAgain };
    match Some(value) {
        Some(serde_json::Value::String(word)) if word == "run_again" => ConfigToolUse::RunAgain,
        Some(serde_json::Value::String(word)) if word == "stop_on_first_tool" => ConfigToolUse::StopOnFirst,
        Some(serde_json::Value::Array(names))
            if names.iter().all(serde_json::Value::is_string) && !names.is_empty() =>
        {
            let names: Vec<String> = names.iter().filter_map(|name| name.as_str().map(str::to_owned)).collect();
            for name in names.iter().filter(|name| !own.contains(name)) {
                let name = At { value: name.clone(), at };
                unknown(section, "tool of this agent", &name, own.iter().map(String::as_str));
            }
            ConfigToolUse::StopAt(names)
        }
        _ => {
            let right =
                "must be \"run_again\", \"stop_on_first_tool\", or a list of the tools whose result is the last word";
            section.bad(at, "tool_use", right);
            ConfigToolUse::RunAgain
        }
    }
}

/// See [`ToolUse`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ConfigToolUse {
    /// The model is told the results.
    #[default]
    RunAgain,
    /// The first result is the last word.
    StopOnFirst,
    /// The result of one of these tools is.
    StopAt(Vec<String>),
}

impl ConfigToolUse {
    /// What the runtime is told.
    #[must_use]
    pub fn rule(&self) -> ToolUse {
        match self {
            ConfigToolUse::RunAgain => ToolUse::RunAgain,
            ConfigToolUse::StopOnFirst => ToolUse::StopOnFirst,
            ConfigToolUse::StopAt(names) => ToolUse::StopAt(names.iter().map(|name| name.as_str().into()).collect()),
        }
    }
}

/// The JSON Schema that an agent's answers must fit (spec S23).
pub(super) fn output_schema(section: &Section<'_>) -> Option<serde_json::Value> {
    let schema = section.json("output_schema")?;
    if let Err(error) = ArgsSchema::of_any(&schema.value) {
        section.bad(schema.at, "output_schema", format!("is no valid JSON Schema: {error}"));
        return None;
    }
    Some(schema.value)
}

fn known(section: &Section<'_>, agent: &At<String>, agents: &[&str]) -> bool {
    let is = agents.contains(&agent.value.as_str());
    if !is {
        unknown(section, "agent", agent, agents.iter().copied());
    }
    is
}

/// A list of names without repetitions.
fn names(
    section: &Section<'_>,
    key: &'static str,
    is_known: impl Fn(&Section<'_>, &At<String>) -> bool,
) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for name in section.strings(key).unwrap_or_default() {
        if names.contains(&name.value) {
            section.bad(name.at, key, format!("has {:?} twice", name.value));
        } else if is_known(section, &name) {
            names.push(name.value);
        }
    }
    names
}
