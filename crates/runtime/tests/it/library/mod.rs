//! The library: what source 004 describes, by the numbered behaviours of the SDKs that it documents
//! (`docs/openai-agents.md` has the table). A test's name begins with the group and the number.

mod basics;

use std::sync::{Arc, Mutex};

use countersign::{Agent, Interruption, RunResult, ToolEntry, model::scripted::Scripted, run, tool::function};
use serde_json::Value;

/// What ran: the tool and its arguments.
pub type Ran = Arc<Mutex<Vec<String>>>;

/// A model that follows a script.
pub fn model(script: &str) -> Scripted {
    Scripted::from_json(script).expect("script")
}

/// A tool that writes down what it is run with, and says so.
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

/// The tool, about which a person is always asked; the wait has no end.
pub fn gated(name: &str, ran: &Ran) -> ToolEntry {
    tool(name, ran).needs_approval(countersign::tool::Approval::always().timeout(0))
}

pub fn ran(ran: &Ran) -> Vec<String> {
    ran.lock().expect("ran").clone()
}

/// Decides about all that waits, and goes on.
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
