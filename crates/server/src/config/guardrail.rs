//! Programs as guardrails, for those who write no Rust (spec S11, M2).

use std::sync::Arc;

use countersign_core::{locale::Locale, plain};
use countersign_engine::tool::{
    ToolEntry,
    condition::ProposedCall,
    guardrail::{ToolGuardrail, ToolGuardrailOutput, bounded},
};
use countersign_runtime::agent::{
    Agent,
    context::RunContext,
    guardrail::{Guardrail, GuardrailOutput},
};
use countersign_tools::command::CommandTool;
use serde_json::{Value, json, value::RawValue};

/// A program as a guardrail. It is started for each text or call with one JSON object on its standard input, and writes
/// its finding to its standard output:
///
/// * in: `{"kind": "input" | "output", "session_id", "agent", "text"}` of an agent, or `{"kind": "tool_input" |
///   "tool_output", "session_id", "agent", "tool", "tool_use_id", "args", "output"?}` of a tool;
/// * out: nothing at all, or `{"trip": false, "info"?}`, to pass, else `{"trip": true, "info"?}`, which stops the run,
///   or for tools `{"reject": "…"}`, which gives the model this text instead of the result.
///
/// One that fails, or writes anything else, stops the run: it has not passed. Anything else includes an object with
/// other members, with members of other types, with duplicate members, or with neither `trip` nor `reject`.
#[derive(Clone)]
pub struct CommandGuardrail {
    name: Arc<str>,
    command: CommandTool,
}

/// The program's output.
#[derive(Debug, Default, PartialEq)]
struct Said {
    trip: bool,
    info: Value,
    reject: Option<String>,
}

impl Said {
    /// Parses it strictly: output that is not understood may be a warning.
    fn read(text: &str) -> Result<Said, String> {
        if text.trim().is_empty() {
            return Ok(Said::default());
        }
        let wrong = |what: &str| {
            format!(
                "its output is not a verdict: {what}; it says nothing, {{\"trip\": true}} or \
                 {{\"reject\": \"…\"}}, not {:?}",
                bounded(text.trim())
            )
        };
        let members = match plain::value(text) {
            Ok(Value::Object(members)) => members,
            Ok(_) => return Err(wrong("that is not an object")),
            Err(error) => return Err(wrong(&format!("that is not JSON: {error}"))),
        };
        if let Some(name) = plain::member_twice(text) {
            return Err(wrong(&format!("the member {name:?} appears twice")));
        }
        if !members.contains_key("trip") && !members.contains_key("reject") {
            return Err(wrong("it has neither \"trip\" nor \"reject\""));
        }
        let mut said = Said::default();
        for (name, value) in members {
            match (&*name, value) {
                ("trip", Value::Bool(trip)) => said.trip = trip,
                ("reject", Value::String(text)) => said.reject = Some(text),
                ("info", info) => said.info = info,
                ("trip", _) => return Err(wrong("\"trip\" is true or false")),
                ("reject", _) => return Err(wrong("\"reject\" is a text")),
                _ => return Err(wrong(&format!("there is no member {name:?}"))),
            }
        }
        Ok(said)
    }
}

impl CommandGuardrail {
    /// A guardrail of this name.
    pub fn new(name: &str, command: CommandTool) -> CommandGuardrail {
        CommandGuardrail { name: name.into(), command }
    }

    /// Checks the user's input.
    #[must_use]
    pub fn on_input(&self, agent: Agent) -> Agent {
        agent.guardrail(self.of_text("input"), true)
    }

    /// Checks the agent's last answer.
    #[must_use]
    pub fn on_output(&self, agent: Agent) -> Agent {
        agent.guardrail(self.of_text("output"), false)
    }

    /// Checks a tool's arguments, before the tool runs.
    #[must_use]
    pub fn on_tool_input(&self, tool: ToolEntry) -> ToolEntry {
        tool.guardrail(self.of_call("tool_input"), true)
    }

    /// Checks a tool's result.
    #[must_use]
    pub fn on_tool_output(&self, tool: ToolEntry) -> ToolEntry {
        tool.guardrail(self.of_call("tool_output"), false)
    }

    fn of_text(&self, kind: &'static str) -> Guardrail {
        let guardrail = self.clone();
        Guardrail::fallible(&self.name, move |context, text| guardrail.clone().text(kind, context, text))
    }

    fn of_call(&self, kind: &'static str) -> ToolGuardrail {
        let guardrail = self.clone();
        ToolGuardrail::fallible(&self.name, move |call, output| guardrail.clone().call(kind, call, output))
    }

    async fn text(self, kind: &'static str, context: RunContext, text: String) -> Result<GuardrailOutput, String> {
        let RunContext { session_id, agent, .. } = context;
        let input = json!({ "kind": kind, "session_id": session_id, "agent": agent, "text": text });
        match self.ask(&input.to_string()).await? {
            Said { reject: Some(_), .. } => Err("only a guardrail of a tool can say \"reject\"".to_owned()),
            Said { trip: true, info, .. } => Ok(GuardrailOutput::trip(info)),
            Said { info, .. } => Ok(GuardrailOutput::pass().info(info)),
        }
    }

    async fn call(
        self,
        kind: &'static str,
        call: ProposedCall,
        output: Option<String>,
    ) -> Result<ToolGuardrailOutput, String> {
        let ProposedCall { session_id, agent, tool, call_id, args, .. } = call;
        // The arguments keep every digit, as they will run.
        let args = RawValue::from_string(args.text().to_owned()).map_err(|error| error.to_string())?;
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
        let input =
            Input { kind, session_id: &session_id, agent: &agent, tool: &tool, tool_use_id: &call_id, args, output };
        let input = serde_json::to_string(&input).map_err(|error| error.to_string())?;
        Ok(match self.ask(&input).await? {
            Said { trip: true, info, .. } => ToolGuardrailOutput::Trip(info),
            Said { reject: Some(message), .. } => ToolGuardrailOutput::Reject(message),
            _ => ToolGuardrailOutput::Allow,
        })
    }

    async fn ask(&self, input: &str) -> Result<Said, String> {
        // Errors are for the operators, not for the people of the session.
        let said = self.command.answer(input, Locale::default()).await.map_err(|error| error.message)?;
        Said::read(&said)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use countersign_engine::tool::function;
    use countersign_models::scripted::Scripted;
    use countersign_runtime::{agent::guardrail::GuardrailKind, runner::run};

    use super::*;

    #[test]
    fn s11_a_command_says_one_of_its_words_or_has_failed() {
        let trip = |info| Said { trip: true, info, reject: None };
        for (text, said) in [
            ("", Said::default()),
            (" \n", Said::default()),
            (r#"{"trip":false,"info":[1]}"#, Said { info: json!([1]), ..Said::default() }),
            (r#"{"trip":true}"#, trip(Value::Null)),
            (r#" {"trip":true,"info":{"score":0.50000000000000000000000}} "#, trip(json!({ "score": 0.5 }))),
            (r#"{"reject":"no"}"#, Said { reject: Some("no".to_owned()), ..Said::default() }),
        ] {
            assert_eq!(Said::read(text), Ok(said), "{text}");
        }
        for (text, why) in [
            ("[]", "not an object"),
            ("[false]", "not an object"),
            ("null", "not an object"),
            ("false", "not an object"),
            ("ok", "not JSON"),
            (r#"{"trip":true}{"trip":true}"#, "not JSON"),
            ("{}", "neither"),
            (r#"{"info":1}"#, "neither"),
            (r#"{"reject":null}"#, "\"reject\" is a text"),
            (r#"{"reject":["no"]}"#, "\"reject\" is a text"),
            (r#"{"trip":null}"#, "\"trip\" is true or false"),
            (r#"{"trip":"false"}"#, "\"trip\" is true or false"),
            (r#"{"trip":0}"#, "\"trip\" is true or false"),
            (r#"{"trip":false,"tripped":true}"#, "no member \"tripped\""),
            (r#"{"trip":true,"trip":false}"#, "\"trip\" appears twice"),
            (r#"{"trip":false,"info":{"a":1,"a":2}}"#, "\"a\" appears twice"),
        ] {
            let error = Said::read(text).expect_err(text);
            assert!(error.contains(why) && error.contains("not a verdict"), "{text}: {error}");
        }
    }

    const KINDS: [GuardrailKind; 4] =
        [GuardrailKind::Input, GuardrailKind::Output, GuardrailKind::ToolInput, GuardrailKind::ToolOutput];

    fn agent(script: &str) -> Agent {
        Agent::new("Helper", Scripted::from_json(script).expect("a script"))
    }

    #[tokio::test]
    async fn s11_a_command_that_says_none_of_its_words_or_fails_stops_the_run() {
        for (program, error) in [
            ("echo '[]'", "not a verdict"),
            ("echo '[false]'", "not a verdict"),
            (r#"echo '{"reject": null}'"#, "not a verdict"),
            (r#"echo '{"trip": false, "trip": true}'"#, "not a verdict"),
            ("echo no such token >&2; exit 9", "the command failed with exit code 9: no such token"),
            ("cat > /dev/null; while :; do :; done", "within 1 seconds"),
        ] {
            let command =
                CommandTool::new(["sh", "-c", program]).expect("a command").time_limit(Duration::from_secs(1));
            let guardrail = CommandGuardrail::new("g", command);
            for kind in KINDS {
                let tool = function::tool("a", "A tool.", |_: serde_json::Map<String, Value>| async { Ok("done") });
                let agent =
                    |tool| agent(r#"{"turns":[{"tool_calls":[{"name":"a","args":{}}]},{"text":"done"}]}"#).tool(tool);
                let agent = match kind {
                    GuardrailKind::Input => guardrail.on_input(agent(tool)),
                    GuardrailKind::Output => guardrail.on_output(agent(tool)),
                    GuardrailKind::ToolInput => agent(guardrail.on_tool_input(tool)),
                    _ => agent(guardrail.on_tool_output(tool)),
                };
                let stopped = run(&agent, "go").await.expect_err(program);
                let result = stopped.guardrail().expect(program);
                assert_eq!((result.kind, result.tripped), (kind, true), "{program}");
                assert!(result.error.as_ref().is_some_and(|said| said.contains(error)), "{program}: {result:?}");
                if error == "within 1 seconds" {
                    break; // It takes its time.
                }
            }
        }
        for (program, over) in [("cat > /dev/null", true), (r#"echo '{"trip": false}'"#, true), ("echo '{}'", false)] {
            let command = CommandTool::new(["sh", "-c", program]).expect("a command");
            let agent = agent(r#"{"turns":[{"text":"hi"}]}"#);
            let agent = CommandGuardrail::new("g", command).on_output(agent);
            assert_eq!(run(&agent, "go").await.is_ok(), over, "{program}");
        }
    }
}
