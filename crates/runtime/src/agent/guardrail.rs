//! Guardrails: checks around agents and tools that can stop a run, or refuse a call (spec S11).

use std::{future::Future, panic::AssertUnwindSafe, sync::Arc};

use futures::{FutureExt as _, future::BoxFuture};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::context::RunContext;
pub use countersign_engine::tool::guardrail::ToolGuardrailOutput;
use countersign_engine::tool::guardrail::panicked;
pub(crate) use countersign_engine::tool::guardrail::{ToolGuardrail, bounded};

/// The result of an agent's guardrail.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct GuardrailOutput {
    /// Whether the run stops.
    pub tripped: bool,
    /// Its finding, for the caller.
    pub info: Value,
}

impl GuardrailOutput {
    /// The run continues.
    #[must_use]
    pub fn pass() -> GuardrailOutput {
        GuardrailOutput::default()
    }
    /// The run stops, with the guardrail's finding.
    pub fn trip(info: impl Into<Value>) -> GuardrailOutput {
        GuardrailOutput { tripped: true, info: info.into() }
    }
    /// The same result, with this finding.
    #[must_use]
    pub fn info(mut self, info: impl Into<Value>) -> GuardrailOutput {
        self.info = info.into();
        self
    }
}

/// The place of a guardrail.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
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

/// The result of a guardrail in a run, kept with the run's state.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct GuardrailResult {
    /// Its place.
    pub kind: GuardrailKind,
    /// Its name.
    pub guardrail: String,
    /// The agent.
    pub agent: Arc<str>,
    /// The tool, if it is a tool's guardrail.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool: Option<Arc<str>>,
    /// The call's id from the model, if it is a tool's guardrail.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call_id: Option<Arc<str>>,
    /// Whether it stopped the run.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub tripped: bool,
    /// The text for the model that replaces the call's result.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rejected: Option<String>,
    /// Its finding.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub info: Value,
    /// Its error, if it failed, and so stopped the run without a finding.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

type OnText = dyn Fn(RunContext, String) -> BoxFuture<'static, Result<GuardrailOutput, String>> + Send + Sync;
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

    /// A guardrail whose check may fail.
    pub fn fallible<F, Fut>(name: &str, check: F) -> Guardrail
    where
        F: Fn(RunContext, String) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<GuardrailOutput, String>> + Send + 'static,
    {
        Guardrail { name: name.into(), check: Arc::new(move |context, text| Box::pin(check(context, text))) }
    }

    /// Whether both are the same one.
    pub(crate) fn is(&self, other: &Guardrail) -> bool {
        Arc::ptr_eq(&self.check, &other.check)
    }

    /// Its result, or why it failed.
    pub(crate) async fn check(&self, context: RunContext, text: String) -> Result<GuardrailOutput, String> {
        let check = AssertUnwindSafe(async { (self.check)(context, text).await });
        let said = check.catch_unwind().await.unwrap_or_else(|panic| Err(panicked(&*panic)));
        said.map_err(|error| bounded(&error))
    }
}
