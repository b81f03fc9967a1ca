//! Guardrails: checks around agents and tools that can stop a run, or refuse a call (spec S11).

use std::{any::Any, future::Future, panic::AssertUnwindSafe, sync::Arc};

use futures::{FutureExt as _, future::BoxFuture};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::context::RunContext;
use crate::tool::condition::ProposedCall;

/// What a guardrail of an agent says.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct GuardrailOutput {
    /// Whether the run stops.
    pub tripped: bool,
    /// What it found, for the caller.
    pub info: Value,
}

impl GuardrailOutput {
    /// The run goes on.
    #[must_use]
    pub fn pass() -> GuardrailOutput {
        GuardrailOutput::default()
    }
    /// The run stops, with what the guardrail found.
    pub fn trip(info: impl Into<Value>) -> GuardrailOutput {
        GuardrailOutput { tripped: true, info: info.into() }
    }
    /// The same with what it found.
    #[must_use]
    pub fn info(mut self, info: impl Into<Value>) -> GuardrailOutput {
        self.info = info.into();
        self
    }
}

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

/// Where a guardrail stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GuardrailKind {
    /// Before an agent's first model call of a turn.
    Input,
    /// After its last.
    Output,
    /// Before a tool runs.
    ToolInput,
    /// After it ran.
    ToolOutput,
}

/// What a guardrail has said in a run. They are kept with the run's state.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct GuardrailResult {
    /// Where it stands.
    pub kind: GuardrailKind,
    /// Its name.
    pub guardrail: String,
    /// The agent.
    pub agent: Arc<str>,
    /// The tool, if it is one of a tool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool: Option<Arc<str>>,
    /// The call's id in the model's words, if it is one of a tool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call_id: Option<Arc<str>>,
    /// Whether it stopped the run.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub tripped: bool,
    /// What it told the model in place of the call's result.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rejected: Option<String>,
    /// What it found.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub info: Value,
    /// What went wrong where it failed, and so stopped the run without having found anything.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// How much is kept of what went wrong, and logged of what a guardrail found, in bytes.
pub(crate) const KEPT_BYTES: usize = 2048;

/// The beginning of a text that may be long.
pub(crate) fn bounded(text: &str) -> String {
    match text.floor_char_boundary(KEPT_BYTES) {
        all if all == text.len() => text.to_owned(),
        end => format!("{}…", &text[..end]),
    }
}

/// Says what a guardrail panicked with.
fn panicked(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    format!("it panicked: {}", text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no text"))
}

type OnText = dyn Fn(RunContext, String) -> BoxFuture<'static, Result<GuardrailOutput, String>> + Send + Sync;
type OnCall =
    dyn Fn(ProposedCall, Option<String>) -> BoxFuture<'static, Result<ToolGuardrailOutput, String>> + Send + Sync;

/// A guardrail of an agent: an async function of the run's context and a text. One that panics stops the run.
#[derive(Clone)]
pub struct Guardrail {
    pub(crate) name: Arc<str>,
    check: Arc<OnText>,
}

impl Guardrail {
    pub(crate) fn new<F, Fut>(name: &str, check: F) -> Guardrail
    where
        F: Fn(RunContext, String) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = GuardrailOutput> + Send + 'static,
    {
        Guardrail::fallible(name, move |context, text| check(context, text).map(Ok))
    }

    /// One that may fail to look.
    pub(crate) fn fallible<F, Fut>(name: &str, check: F) -> Guardrail
    where
        F: Fn(RunContext, String) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<GuardrailOutput, String>> + Send + 'static,
    {
        Guardrail { name: name.into(), check: Arc::new(move |context, text| Box::pin(check(context, text))) }
    }

    /// Whether both are one.
    pub(crate) fn is(&self, other: &Guardrail) -> bool {
        Arc::ptr_eq(&self.check, &other.check)
    }

    /// What it says, or why it could not look.
    pub(crate) async fn check(&self, context: RunContext, text: String) -> Result<GuardrailOutput, String> {
        let check = AssertUnwindSafe(async { (self.check)(context, text).await });
        let said = check.catch_unwind().await.unwrap_or_else(|panic| Err(panicked(&*panic)));
        said.map_err(|error| bounded(&error))
    }
}

/// A guardrail of a tool, on what goes in or on what comes out. One that panics stops the run.
#[derive(Clone)]
pub(crate) struct ToolGuardrail {
    pub(crate) name: Arc<str>,
    check: Arc<OnCall>,
}

impl ToolGuardrail {
    pub(crate) fn input<F, Fut>(name: &str, check: F) -> ToolGuardrail
    where
        F: Fn(ProposedCall) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = ToolGuardrailOutput> + Send + 'static,
    {
        ToolGuardrail::fallible(name, move |call, _| check(call).map(Ok))
    }

    pub(crate) fn output<F, Fut>(name: &str, check: F) -> ToolGuardrail
    where
        F: Fn(ProposedCall, String) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = ToolGuardrailOutput> + Send + 'static,
    {
        ToolGuardrail::fallible(name, move |call, output| check(call, output.unwrap_or_default()).map(Ok))
    }

    /// One that may fail to look. It is given the call's result, if it looks at that.
    pub(crate) fn fallible<F, Fut>(name: &str, check: F) -> ToolGuardrail
    where
        F: Fn(ProposedCall, Option<String>) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<ToolGuardrailOutput, String>> + Send + 'static,
    {
        ToolGuardrail { name: name.into(), check: Arc::new(move |call, output| Box::pin(check(call, output))) }
    }

    /// What it says, or why it could not look.
    pub(crate) async fn check(
        &self,
        call: ProposedCall,
        output: Option<String>,
    ) -> Result<ToolGuardrailOutput, String> {
        let check = AssertUnwindSafe(async { (self.check)(call, output).await });
        let said = check.catch_unwind().await.unwrap_or_else(|panic| Err(panicked(&*panic)));
        said.map_err(|error| bounded(&error))
    }
}

/// The guardrails of a tool.
#[derive(Clone, Default)]
pub struct ToolGuardrails {
    pub(crate) input: Vec<ToolGuardrail>,
    pub(crate) output: Vec<ToolGuardrail>,
}
