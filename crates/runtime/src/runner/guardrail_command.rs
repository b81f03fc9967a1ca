//! Programs as guardrails, for those who write no Rust (SPEC S11, M2).

use std::sync::Arc;

use countersign_core::locale::Locale;
use serde::Deserialize;
use serde_json::{Value, json, value::RawValue};

use super::{
    context::RunContext,
    guardrail::{GuardrailOutput, ToolGuardrailOutput},
};
use crate::{
    agent::Agent,
    tool::{ToolEntry, command::CommandTool, condition::ProposedCall},
};

/// A program as a guardrail. It is started for each text or call with one JSON object on its standard input, and says what it
/// found on its standard output:
///
/// * in: `{"kind": "input" | "output", "session_id", "agent", "text"}` of an agent, or `{"kind": "tool_input" | "tool_output",
///   "session_id", "agent", "tool", "tool_use_id", "args", "output"?}` of a tool;
/// * out: nothing at all if it lets it pass, else `{"trip": true, "info"?}`, which stops the run, or of tools `{"reject": "…"}`,
///   which gives the model this text in place of the result.
///
/// One that fails, or says something else, stops the run: it has not said that all is well.
#[derive(Clone)]
pub struct CommandGuardrail {
    name: Arc<str>,
    command: CommandTool,
}

/// What the program says.
#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Said {
    trip: bool,
    info: Value,
    reject: Option<String>,
}

impl CommandGuardrail {
    /// A guardrail of this name.
    pub fn new(name: &str, command: CommandTool) -> CommandGuardrail {
        CommandGuardrail { name: name.into(), command }
    }

    /// Lets it look at what the user says.
    #[must_use]
    pub fn on_input(&self, agent: Agent) -> Agent {
        let guardrail = self.clone();
        agent.input_guardrail(&self.name, move |context, text| guardrail.clone().text("input", context, text))
    }

    /// Lets it look at the agent's last answer.
    #[must_use]
    pub fn on_output(&self, agent: Agent) -> Agent {
        let guardrail = self.clone();
        agent.output_guardrail(&self.name, move |context, text| guardrail.clone().text("output", context, text))
    }

    /// Lets it look at a tool's arguments, before the tool runs.
    #[must_use]
    pub fn on_tool_input(&self, tool: ToolEntry) -> ToolEntry {
        let guardrail = self.clone();
        tool.input_guardrail(&self.name, move |call| guardrail.clone().call("tool_input", call, None))
    }

    /// Lets it look at a tool's result.
    #[must_use]
    pub fn on_tool_output(&self, tool: ToolEntry) -> ToolEntry {
        let guardrail = self.clone();
        tool.output_guardrail(&self.name, move |call, output| guardrail.clone().call("tool_output", call, Some(output)))
    }

    async fn text(self, kind: &'static str, context: RunContext, text: String) -> GuardrailOutput {
        let RunContext { session_id, agent, locale, .. } = context;
        let input = json!({ "kind": kind, "session_id": session_id, "agent": agent, "text": text });
        match self.ask(&input.to_string(), locale).await {
            Ok(Said { reject: Some(_), .. }) => GuardrailOutput::trip("only a tool's guardrail can say \"reject\""),
            Ok(Said { trip: true, info, .. }) => GuardrailOutput::trip(info),
            Ok(Said { info, .. }) => GuardrailOutput::pass().info(info),
            Err(error) => GuardrailOutput::trip(error),
        }
    }

    async fn call(self, kind: &'static str, call: ProposedCall, output: Option<String>) -> ToolGuardrailOutput {
        let ProposedCall { session_id, agent, tool, tool_use_id, args, .. } = call;
        // The arguments go digit for digit, as they will run.
        let args = match RawValue::from_string(args.text().to_owned()) {
            Ok(args) => args,
            Err(error) => return ToolGuardrailOutput::Trip(error.to_string().into()),
        };
        #[derive(serde::Serialize)]
        struct Input<'a> {
            kind: &'static str,
            session_id: &'a str,
            agent: &'a str,
            tool: &'a str,
            tool_use_id: &'a str,
            args: Box<RawValue>,
            #[serde(skip_serializing_if = "Option::is_none")]
            output: Option<String>,
        }
        let input = Input {
            kind,
            session_id: &session_id,
            agent: &agent,
            tool: &tool,
            tool_use_id: &tool_use_id,
            args,
            output,
        };
        let said = match serde_json::to_string(&input) {
            Ok(input) => self.ask(&input, Locale::default()).await,
            Err(error) => Err(error.to_string()),
        };
        match said {
            Ok(Said { trip: true, info, .. }) => ToolGuardrailOutput::Trip(info),
            Ok(Said { reject: Some(message), .. }) => ToolGuardrailOutput::Reject(message),
            Ok(_) => ToolGuardrailOutput::Allow,
            Err(error) => ToolGuardrailOutput::Trip(error.into()),
        }
    }

    async fn ask(&self, input: &str, locale: Locale) -> Result<Said, String> {
        let said = self.command.answer(input, locale).await.map_err(|error| error.message)?;
        if said.trim().is_empty() {
            return Ok(Said::default());
        }
        serde_json::from_str(&said)
            .map_err(|error| format!("the guardrail said something that is none of its words: {error}"))
    }
}
