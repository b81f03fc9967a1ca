//! Programs that decide in a person's place (spec S12).

use std::{future::Future, sync::Arc};

use futures::future::BoxFuture;

use super::{CallFacts, condition::ProposedCall};

/// Decides in a program what a person would be asked about (spec S12).
///
/// It is asked once for a call, when a person would be and no standing rule has decided; never about what a person has
/// written or decided. It speaks for the tool: what the tool's own approval asks it can approve, but where a rule of the
/// policy asks, only a person can, and a rejection is all that it may add. What it says is recorded before anything happens, under the name [`ON_APPROVAL`].
pub trait OnApproval: Send + Sync {
    /// The decision. An error or a panic means that a person is asked.
    fn decide<'a>(&'a self, call: &'a CallFacts<'a>) -> BoxFuture<'a, Result<Decision, String>>;
}

/// What a program decides about a call; see [`OnApproval`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// It runs.
    Approve,
    /// It does not run, and the model is told this; without a text, that it was rejected.
    Reject(Option<String>),
    /// A person is asked.
    Ask,
}

/// The name under which the audit has what [`OnApproval`] decided, where a standing rule's id would be.
pub const ON_APPROVAL: &str = "on_approval";

/// What an async function decides.
///
/// ```
/// # use countersign_engine::tool::{Decision, ToolEntry, condition::ProposedCall, on_approval};
/// # fn with(shell: ToolEntry) -> ToolEntry {
/// shell.on_approval(on_approval(|call: ProposedCall| async move {
///     let harmless = call.args.text() == r#"{"commands":["git status"]}"#;
///     Ok(if harmless { Decision::Approve } else { Decision::Ask })
/// }))
/// # }
/// ```
pub fn on_approval<F, Fut>(function: F) -> Arc<dyn OnApproval>
where
    F: Fn(ProposedCall) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<Decision, String>> + Send + 'static,
{
    Arc::new(Function(function))
}

struct Function<F>(F);

impl<F, Fut> OnApproval for Function<F>
where
    F: Fn(ProposedCall) -> Fut + Send + Sync,
    Fut: Future<Output = Result<Decision, String>> + Send + 'static,
{
    fn decide<'a>(&'a self, call: &'a CallFacts<'a>) -> BoxFuture<'a, Result<Decision, String>> {
        Box::pin((self.0)(ProposedCall::from(call)))
    }
}
