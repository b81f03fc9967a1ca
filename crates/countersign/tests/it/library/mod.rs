//! The library: what the OpenAI Agents SDKs do with approvals, by the numbers of `docs/openai-agents.md`,
//! and spec S. A test's name begins with the group and the number.

pub(crate) mod at_work;
mod basics;
mod builders;
mod claimed;
mod claims;
mod contexts;
mod deadlines;
#[cfg(feature = "postgres")]
mod dropped;
mod failed;
mod failed_work;
mod guardrails;
mod identity;
mod kept;
mod layouts;
mod nested_streams;
mod once;
mod partial;
mod policy;
mod principals;
mod same_line;
mod size;
mod slow_readers;
mod states;
mod sticky;
mod stored_ids;
mod streams;
mod surface;
mod taken_again;
mod turns;
mod typed;

use std::sync::{
    Arc, Mutex,
    atomic::{AtomicBool, Ordering},
};

use countersign::{
    Agent, Interruption, Message, Principal, RunConfig, RunError, RunResult, RunState, Runner, ToolGuardrailOutput,
    model::scripted::Scripted,
    policy::Timeout,
    run,
    tool::{ToolEntry, function},
};
use countersign_core::journal::record::Block;
use serde_json::Value;

/// The state as another process would read it: it can run once more.
pub fn copy(state: &RunState) -> RunState {
    RunState::from_json(&state.to_json()).expect("read")
}

/// In another process, which has only the text.
pub fn elsewhere(error: &RunError) -> RunState {
    RunState::from_json(&error.state().expect("a state").to_json()).expect("read")
}

/// The tool, whose first result stops the run.
pub fn leaks_once(entry: ToolEntry) -> ToolEntry {
    let first = Arc::new(AtomicBool::new(true));
    entry.output_guardrail("leak", move |_, _| {
        let trips = first.swap(false, Ordering::SeqCst);
        async move { if trips { ToolGuardrailOutput::Trip("secret".into()) } else { ToolGuardrailOutput::Allow } }
    })
}

/// Runs what anybody has decided, also in place of certain people.
pub fn trusted() -> Runner {
    Runner::new(RunConfig::new().principal(Principal::trusted()))
}

/// What ran: the tool and its arguments.
pub type Ran = Arc<Mutex<Vec<String>>>;

/// A model that follows a script.
pub fn model(script: &str) -> Scripted {
    Scripted::from_json(script).expect("script")
}

/// A tool that records its arguments, and returns them.
pub fn tool(name: &str, ran: &Ran) -> ToolEntry {
    let (own, ran) = (name.to_owned(), ran.clone());
    function::tool(name, "A tool of the tests.", move |args: serde_json::Map<String, Value>| {
        let (own, ran) = (own.clone(), ran.clone());
        async move {
            let said = format!("{own} {}", Value::Object(args));
            ran.lock().expect("ran").push(said.clone());
            Ok(said)
        }
    })
}

/// The tool, which always needs approval, without a deadline.
pub fn gated(name: &str, ran: &Ran) -> ToolEntry {
    tool(name, ran).needs_approval(countersign::tool::Approval::always().timeout(Timeout::Never))
}

pub fn ran(ran: &Ran) -> Vec<String> {
    ran.lock().expect("ran").clone()
}

/// Calls of one answer, as a script has them: name, id and arguments.
pub fn calls(calls: &[(&str, &str, &str)]) -> String {
    let one = |(name, id, args): &(&str, &str, &str)| format!(r#"{{"name":"{name}","id":"{id}","args":{args}}}"#);
    format!(r#"{{"tool_calls":[{}]}}"#, calls.iter().map(one).collect::<Vec<_>>().join(","))
}

/// A script of these answers, then one that is a text.
pub fn script(answers: &[String]) -> Scripted {
    let last = r#"{"text":"done"}"#.to_owned();
    let all: Vec<String> = answers.iter().cloned().chain([last]).collect();
    model(&format!(r#"{{"turns":[{}]}}"#, all.join(",")))
}

/// The conversation in short: texts, calls and results, in order.
pub fn told(result: &RunResult) -> Vec<String> {
    in_short(result.history())
}

/// Messages in short: texts, calls and results, in order.
pub fn in_short(messages: Vec<Message>) -> Vec<String> {
    let mut told = Vec::new();
    for message in messages {
        match message {
            Message::User(text) => told.push(format!("user: {text}")),
            Message::Assistant(answer) => {
                for block in answer.blocks.clone() {
                    match block {
                        Block::Text { text, .. } => told.push(format!("says: {text}")),
                        Block::ToolUse(call) => told.push(format!("{} {}", call.name, call.id)),
                        Block::Thinking { .. } => {}
                    }
                }
            }
            Message::ToolResult(result) => told.push(format!("{}: {}", result.call_id, result.text)),
        }
    }
    told
}

/// The item of this call.
pub fn item(result: &RunResult, call_id: &str) -> Interruption {
    let found = result.interruptions.iter().find(|item| &*item.call_id == call_id);
    found.unwrap_or_else(|| panic!("{call_id} waits: {:?}", ids(result))).clone()
}

/// The ids of the pending calls.
pub fn ids(result: &RunResult) -> Vec<String> {
    result.interruptions.iter().map(|item| item.call_id.to_string()).collect()
}

/// Decides everything pending, and resumes.
pub async fn decide_all(
    agent: &Agent,
    mut result: RunResult,
    decide: impl Fn(&mut countersign::RunState, &Interruption),
) -> RunResult {
    for item in &result.interruptions {
        decide(&mut result.state, item);
    }
    run(agent, result.state).await.expect("goes on")
}
