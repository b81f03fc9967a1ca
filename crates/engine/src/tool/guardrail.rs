//! Guardrails of a tool: checks of what goes in and of what comes out (spec S11).

use std::{any::Any, future::Future, panic::AssertUnwindSafe, sync::Arc};

use futures::{FutureExt as _, future::BoxFuture};
use serde_json::Value;

use super::condition::ProposedCall;

/// What a guardrail of a tool says.
#[derive(Clone, Debug, PartialEq)]
pub enum ToolGuardrailOutput {
    /// The call goes on.
    Allow,
    /// The call does not run, or its result is withheld: the model gets this text in its place.
    Reject(String),
    /// The run stops, with what the guardrail found.
    Trip(Value),
}

/// How much is kept of what went wrong, and logged of what a guardrail found, in bytes.
pub const KEPT_BYTES: usize = 2048;

/// The beginning of a text that may be long.
pub fn bounded(text: &str) -> String {
    match text.floor_char_boundary(KEPT_BYTES) {
        all if all == text.len() => text.to_owned(),
        end => format!("{}…", &text[..end]),
    }
}

/// Says what a guardrail panicked with.
#[must_use]
pub fn panicked(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    format!("it panicked: {}", text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no text"))
}

type OnCall =
    dyn Fn(ProposedCall, Option<String>) -> BoxFuture<'static, Result<ToolGuardrailOutput, String>> + Send + Sync;

/// A guardrail of a tool, on what goes in or on what comes out. One that panics stops the run.
#[derive(Clone)]
pub struct ToolGuardrail {
    /// Its name.
    pub name: Arc<str>,
    check: Arc<OnCall>,
}

impl ToolGuardrail {
    /// One that looks at a call.
    pub fn input<F, Fut>(name: &str, check: F) -> ToolGuardrail
    where
        F: Fn(ProposedCall) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = ToolGuardrailOutput> + Send + 'static,
    {
        ToolGuardrail::fallible(name, move |call, _| check(call).map(Ok))
    }

    /// One that looks at a call and its result.
    pub fn output<F, Fut>(name: &str, check: F) -> ToolGuardrail
    where
        F: Fn(ProposedCall, String) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = ToolGuardrailOutput> + Send + 'static,
    {
        ToolGuardrail::fallible(name, move |call, output| check(call, output.unwrap_or_default()).map(Ok))
    }

    /// One that may fail to look. It is given the call's result, if it looks at that.
    pub fn fallible<F, Fut>(name: &str, check: F) -> ToolGuardrail
    where
        F: Fn(ProposedCall, Option<String>) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<ToolGuardrailOutput, String>> + Send + 'static,
    {
        ToolGuardrail { name: name.into(), check: Arc::new(move |call, output| Box::pin(check(call, output))) }
    }

    /// What it says, or why it could not look.
    pub async fn check(&self, call: ProposedCall, output: Option<String>) -> Result<ToolGuardrailOutput, String> {
        let check = AssertUnwindSafe(async { (self.check)(call, output).await });
        let said = check.catch_unwind().await.unwrap_or_else(|panic| Err(panicked(&*panic)));
        said.map_err(|error| bounded(&error))
    }
}

/// The guardrails of a tool.
#[derive(Clone, Default)]
pub struct ToolGuardrails {
    /// Of what goes in.
    pub input: Vec<ToolGuardrail>,
    /// Of what comes out.
    pub output: Vec<ToolGuardrail>,
}
