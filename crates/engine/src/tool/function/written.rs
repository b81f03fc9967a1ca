//! Called by the expansion of `#[tool]`; hidden, except what `needs_approval_if` takes.

use std::{fmt::Display, future::Future, sync::Arc, time::Duration};

use countersign_core::{
    call::args::Args,
    journal::{input::CallInput, permit::Permit},
};
use futures::future::BoxFuture;
use schemars::JsonSchema;
use serde::{Serialize, de::DeserializeOwned};

use super::{
    super::{Approval, Hints, Tool, ToolEntry, ToolError, condition::ProposedCall},
    FunctionTool, ToolContext,
};
use crate::tool::guardrail::ToolGuardrails;

/// The tool of a function.
pub fn entry<T, R, F, Fut>(name: &str, description: &str, function: F) -> ToolEntry
where
    T: DeserializeOwned + JsonSchema + Send + 'static,
    R: Serialize,
    F: Fn(ToolContext, T) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<R, ToolError>> + Send + 'static,
{
    FunctionTool::with_context(name, description, function).entry()
}

/// Autoref specialisation: `(&returned).kind()` is this one for a `Result` under any name, and [`KindOfValue`]'s, which
/// needs one more reference, otherwise.
pub trait KindOfResult {
    /// Its kind.
    fn __countersign_kind(&self) -> Fallible {
        Fallible
    }
}

impl<R, E> KindOfResult for Result<R, E> {}

/// `(&returned).kind()` for anything else.
pub trait KindOfValue {
    /// Its kind.
    fn __countersign_kind(&self) -> Infallible {
        Infallible
    }
}

impl<R> KindOfValue for &R {}

/// A function that returns a `Result`.
pub struct Fallible;

impl Fallible {
    /// The outcome of the function.
    ///
    /// # Errors
    /// The function's own.
    pub fn outcome<R: Serialize, E: Display + 'static>(self, returned: Result<R, E>) -> Result<R, ToolError> {
        returned.map_err(ToolError::of)
    }
}

/// A function that returns anything else.
pub struct Infallible;

impl Infallible {
    /// The outcome of the function.
    ///
    /// # Errors
    /// None.
    pub fn outcome<R: Serialize>(self, returned: R) -> Result<R, ToolError> {
        Ok(returned)
    }
}

/// A tool that changes nothing.
#[must_use]
pub fn read_only() -> Hints {
    Hints { read_only: true, destructive: false, ..Hints::default() }
}

/// The outcome of a rule: whether a person is asked. An error asks too, and is shown as the reason.
pub trait Need: Send {
    /// Whether a person is asked.
    ///
    /// # Errors
    /// The rule failed, with this text.
    fn outcome(self) -> Result<bool, String>;
}

impl Need for bool {
    fn outcome(self) -> Result<bool, String> {
        Ok(self)
    }
}

impl<E: Display + Send> Need for Result<bool, E> {
    fn outcome(self) -> Result<bool, String> {
        self.map_err(|error| error.to_string())
    }
}

/// Asks when a function of the call and its arguments says so.
pub fn when<T, N, F>(rule: F) -> Approval
where
    T: DeserializeOwned + Send + 'static,
    N: Need,
    F: Fn(ProposedCall, T) -> N + Send + Sync + 'static,
{
    Approval::when_fn(move |call| {
        let said = call.args::<T>().and_then(|args| rule(call, args).outcome());
        async { said }
    })
}

/// Asks when an async function of the call and its arguments says so.
pub fn when_async<T, N, F, Fut>(rule: F) -> Approval
where
    T: DeserializeOwned + Send + 'static,
    N: Need,
    F: Fn(ProposedCall, T) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = N> + Send + 'static,
{
    Approval::when_fn(move |call| {
        let said = call.args::<T>().map(|args| rule(call, args));
        async move {
            match said {
                Ok(rule) => rule.await.outcome(),
                Err(error) => Err(error),
            }
        }
    })
}

/// A tool with a time limit.
pub struct Limited {
    /// The tool.
    pub tool: Arc<dyn Tool>,
    /// The time limit.
    pub limit: Duration,
}

impl Tool for Limited {
    fn fits(&self, args: &Args) -> Result<(), String> {
        self.tool.fits(args)
    }

    fn guardrails(&self) -> Option<&ToolGuardrails> {
        self.tool.guardrails()
    }

    fn has_parked(&self, session_id: &str, call: u32, input: &CallInput) -> bool {
        self.tool.has_parked(session_id, call, input)
    }

    fn unasked(&self, session_id: &str, call: u32, input: &CallInput) -> BoxFuture<'static, bool> {
        self.tool.unasked(session_id, call, input)
    }

    fn session_ended(&self, session_id: &str) {
        self.tool.session_ended(session_id);
    }

    fn run(&self, permit: Permit) -> BoxFuture<'static, Result<String, ToolError>> {
        let (tool, limit) = (self.tool.clone(), self.limit);
        Box::pin(async move {
            tokio::time::timeout(limit, tool.run(permit)).await.unwrap_or_else(|_| {
                let seconds = limit.as_secs();
                Err(ToolError::new(format!(
                    "the tool did not end within {seconds} seconds and was stopped; it may have done a part of its work"
                )))
            })
        })
    }
}
