//! Hooks: callbacks for the events of a run.

use countersign_core::journal::record::{Cut, Usage};
use futures::future::BoxFuture;

use crate::{agent::context::RunContext, interruption::Interruption, tool::condition::ProposedCall};

/// A model's answer, for [`RunHooks::model_end`].
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ModelEnd<'a> {
    /// Its text.
    pub text: &'a str,
    /// How many tool calls it has.
    pub calls: usize,
    /// Its tokens.
    pub usage: &'a Usage,
    /// Why it is incomplete, if it is.
    pub cut: Option<Cut>,
}

/// An approval request that no longer needs a person, for [`RunHooks::approval_resolved`].
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ApprovalResolved<'a> {
    /// The request, as it was.
    pub interruption: &'a Interruption,
}

fn nothing() -> BoxFuture<'static, ()> {
    Box::pin(async {})
}

/// Receives the events of a run. Every method does nothing by default.
///
/// A hook only observes: a run waits for it, but one that panics changes nothing. Rejected calls do not
/// run, and have no `tool_start` and no `tool_end`.
#[expect(unused_variables, reason = "the names say what a hook is given")]
pub trait RunHooks: Send + Sync {
    /// An agent begins its part of a turn. A pause does not begin another one.
    fn agent_start<'a>(&'a self, run: &'a RunContext) -> BoxFuture<'a, ()> {
        nothing()
    }
    /// An agent has given its answer. Where a tool's result is the answer of the turn
    /// ([`ToolUseBehavior`](crate::agent::team::ToolUseBehavior)), this is called just before the run returns or
    /// pauses. It is not called where a tool's result is the answer of an agent that works for another one.
    fn agent_end<'a>(&'a self, run: &'a RunContext, output: &'a str) -> BoxFuture<'a, ()> {
        nothing()
    }
    /// A model is about to be called.
    fn model_start<'a>(&'a self, run: &'a RunContext) -> BoxFuture<'a, ()> {
        nothing()
    }
    /// A model has answered.
    fn model_end<'a>(&'a self, run: &'a RunContext, answer: &'a ModelEnd<'a>) -> BoxFuture<'a, ()> {
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
    fn approval_resolved<'a>(&'a self, resolved: &'a ApprovalResolved<'a>) -> BoxFuture<'a, ()> {
        nothing()
    }
}
