//! Hooks: callbacks for the events of a run.

use futures::future::BoxFuture;

use crate::{agent::context::RunContext, interruption::Interruption, tool::condition::ProposedCall};

fn nothing() -> BoxFuture<'static, ()> {
    Box::pin(async {})
}

/// Receives the events of a run. Every method does nothing by default.
///
/// A hook only observes: a run waits for it, but one that panics changes nothing. Rejected calls do not
/// run, and have no `tool_start` and no `tool_end`.
#[expect(unused_variables, reason = "the names say what a hook is given")]
pub trait RunHooks: Send + Sync {
    /// An agent begins its part of a turn.
    fn agent_start<'a>(&'a self, run: &'a RunContext) -> BoxFuture<'a, ()> {
        nothing()
    }
    /// An agent has given the turn's answer.
    fn agent_end<'a>(&'a self, run: &'a RunContext, output: &'a str) -> BoxFuture<'a, ()> {
        nothing()
    }
    /// A model is about to be asked.
    fn model_start<'a>(&'a self, run: &'a RunContext) -> BoxFuture<'a, ()> {
        nothing()
    }
    /// A model has answered, with this many tool calls.
    fn model_end<'a>(&'a self, run: &'a RunContext, text: &'a str, calls: usize) -> BoxFuture<'a, ()> {
        nothing()
    }
    /// A call is about to run.
    fn tool_start<'a>(&'a self, call: &'a ProposedCall) -> BoxFuture<'a, ()> {
        nothing()
    }
    /// A call has run: its result, or its error.
    fn tool_end<'a>(&'a self, call: &'a ProposedCall, outcome: &'a Result<String, String>) -> BoxFuture<'a, ()> {
        nothing()
    }
    /// An agent has handed the conversation to another one, which is `run.agent`.
    fn handoff<'a>(&'a self, run: &'a RunContext, from: &'a str) -> BoxFuture<'a, ()> {
        nothing()
    }
    /// A call needs a person's decision or answer.
    fn approval_requested<'a>(&'a self, interruption: &'a Interruption) -> BoxFuture<'a, ()> {
        nothing()
    }
    /// An approval request was resolved.
    fn approval_resolved<'a>(&'a self, interruption: &'a Interruption) -> BoxFuture<'a, ()> {
        nothing()
    }
}
