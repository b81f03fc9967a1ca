//! Programs that decide instead of a person (spec S12).
//!
//! The result is a verdict, not a decision: the program is called once, while the answer is gated, after standing
//! rules, and its verdict is recorded with the gate. So neither a restart nor a retry of the append calls the program
//! again. Where a rule of the policy asks, the program can only reject; otherwise the author of a tool could overrule
//! the policy.

use std::{future::Future, sync::Arc};

use futures::future::BoxFuture;

use super::{CallFacts, condition::ProposedCall};

/// A program that decides on calls in place of a person (spec S12).
///
/// It is called once for a call, when a person would be asked and no standing rule has decided, and never about a
/// person's own edit or decision. It can approve what only the tool's own [`Approval`](super::Approval) asks about.
/// Where a rule of the policy asks, only a person can approve, and the program can only reject. Its verdict is recorded
/// before anything happens, as that of a program.
pub trait OnApproval: Send + Sync {
    /// The decision. An error or a panic means that a person is asked.
    fn decide<'a>(&'a self, call: &'a CallFacts<'a>) -> BoxFuture<'a, Result<OnApprovalOutput, String>>;
}

/// A program's decision on a call; see [`OnApproval`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum OnApprovalOutput {
    /// It runs.
    Approve,
    /// It does not run, and the model gets this text; without one, a standard text.
    Reject(Option<String>),
    /// A person is asked.
    Ask,
}

/// An async function that decides.
///
/// ```
/// # use countersign_engine::tool::{OnApprovalOutput, ToolEntry, condition::ProposedCall, on_approval};
/// # fn with(shell: ToolEntry) -> ToolEntry {
/// shell.on_approval(on_approval(|call: ProposedCall| async move {
///     let harmless = call.args.text() == r#"{"commands":["git status"]}"#;
///     Ok(if harmless { OnApprovalOutput::Approve } else { OnApprovalOutput::Ask })
/// }))
/// # }
/// ```
pub fn on_approval<F, Fut>(function: F) -> Arc<dyn OnApproval>
where
    F: Fn(ProposedCall) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<OnApprovalOutput, String>> + Send + 'static,
{
    Arc::new(Function(function))
}

struct Function<F>(F);

impl<F, Fut> OnApproval for Function<F>
where
    F: Fn(ProposedCall) -> Fut + Send + Sync,
    Fut: Future<Output = Result<OnApprovalOutput, String>> + Send + 'static,
{
    fn decide<'a>(&'a self, call: &'a CallFacts<'a>) -> BoxFuture<'a, Result<OnApprovalOutput, String>> {
        Box::pin((self.0)(ProposedCall::from(call)))
    }
}
