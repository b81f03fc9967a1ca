//! Guardrails of a tool: checks of its input and of its output (spec S11).

use std::{any::Any, future::Future, panic::AssertUnwindSafe, sync::Arc};

use futures::{FutureExt as _, future::BoxFuture};
use serde_json::Value;

use super::condition::ProposedCall;

/// The verdict of a tool's guardrail.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum ToolGuardrailOutput {
    /// The call continues.
    Allow,
    /// The call does not run, or its result is withheld: the model gets this text instead.
    Reject(String),
    /// The run stops, with the guardrail's finding.
    Trip(Value),
}

/// The maximum number of bytes kept of an error, and logged of a guardrail's finding.
pub const KEPT_BYTES: usize = 2048;

/// A text, cut if it is long.
pub fn bounded(text: &str) -> String {
    match text.floor_char_boundary(KEPT_BYTES) {
        all if all == text.len() => text.to_owned(),
        end => format!("{}…", &text[..end]),
    }
}

/// Describes a guardrail's panic.
#[must_use]
pub fn panicked(panic: &(dyn Any + Send)) -> String {
    format!("it panicked: {}", panic_text(panic))
}

/// The text that code panicked with.
pub(super) fn panic_text(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no text")
}

type OnCall =
    dyn Fn(ProposedCall, Option<String>) -> BoxFuture<'static, Result<ToolGuardrailOutput, String>> + Send + Sync;

/// A guardrail on a tool's input or output. One that panics stops the run.
#[derive(Clone)]
pub struct ToolGuardrail {
    /// Its name.
    pub name: Arc<str>,
    check: Arc<OnCall>,
}

impl ToolGuardrail {
    /// A guardrail that checks a call before it runs.
    pub fn input<F, Fut>(name: &str, check: F) -> ToolGuardrail
    where
        F: Fn(ProposedCall) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = ToolGuardrailOutput> + Send + 'static,
    {
        ToolGuardrail::fallible(name, move |call, _| check(call).map(Ok))
    }

    /// A guardrail that checks a call and its result.
    pub fn output<F, Fut>(name: &str, check: F) -> ToolGuardrail
    where
        F: Fn(ProposedCall, String) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = ToolGuardrailOutput> + Send + 'static,
    {
        ToolGuardrail::fallible(name, move |call, output| check(call, output.unwrap_or_default()).map(Ok))
    }

    /// A guardrail whose check may fail. On the output, the check also gets the call's result.
    pub fn fallible<F, Fut>(name: &str, check: F) -> ToolGuardrail
    where
        F: Fn(ProposedCall, Option<String>) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<ToolGuardrailOutput, String>> + Send + 'static,
    {
        ToolGuardrail { name: name.into(), check: Arc::new(move |call, output| Box::pin(check(call, output))) }
    }

    /// Its verdict, or why it failed.
    pub async fn check(&self, call: ProposedCall, output: Option<String>) -> Result<ToolGuardrailOutput, String> {
        let check = AssertUnwindSafe(async { (self.check)(call, output).await });
        let said = check.catch_unwind().await.unwrap_or_else(|panic| Err(panicked(&*panic)));
        said.map_err(|error| bounded(&error))
    }
}

/// The guardrails of a tool.
#[derive(Clone, Default)]
pub struct ToolGuardrails {
    /// On the input.
    pub input: Vec<ToolGuardrail>,
    /// On the output.
    pub output: Vec<ToolGuardrail>,
}
