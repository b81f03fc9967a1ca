//! Conditions over a call: when a tool needs a person (spec S1, P1, P2).

#[cfg(feature = "cel")]
mod cel;
#[cfg(not(feature = "cel"))]
#[path = "condition/no_cel.rs"]
mod cel;
#[cfg(feature = "cel")]
mod made;
#[cfg(feature = "cel")]
mod numbers;

use std::{fmt, future::Future, sync::Arc};

use countersign_core::{call::args::Args, journal::permit::Permit, setting::SettingError};
use futures::future::BoxFuture;
use serde::de::DeserializeOwned;

pub use self::cel::{CelCondition, CelScope};
#[cfg(feature = "cel")]
pub use self::cel::{EXPRESSION_BYTES, EXPRESSION_NESTING, EXPRESSION_TIME};
use super::{AppContext, Approval, CallFacts, Condition, ContextError, function::read_args};

/// The facts that a condition may use: an owned copy of [`CallFacts`], for an async function.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ProposedCall {
    /// The session.
    pub session_id: String,
    /// The session's owner, if any.
    pub subject: Option<String>,
    /// The session's tenant, if any.
    pub tenant: Option<String>,
    /// The requester's roles at the start of the turn.
    pub roles: Vec<String>,
    /// The agent that calls.
    pub agent: String,
    /// The tool.
    pub tool: String,
    /// The call's id from the model.
    pub call_id: String,
    /// The arguments.
    pub args: Args,
    /// The application's own data.
    pub context: AppContext,
}

impl ProposedCall {
    /// The call that a permit is for, with the same facts as the condition and the reviewer had.
    #[doc(hidden)]
    #[must_use]
    pub fn of(permit: &Permit, context: AppContext) -> ProposedCall {
        ProposedCall {
            session_id: permit.session_id().to_owned(),
            subject: permit.subject().map(str::to_owned),
            tenant: permit.tenant().map(str::to_owned),
            roles: permit.roles().to_vec(),
            agent: permit.agent().to_owned(),
            tool: permit.tool().to_owned(),
            call_id: permit.call_id().to_owned(),
            args: permit.args().clone(),
            context,
        }
    }

    /// The arguments as a value of a custom type.
    ///
    /// # Errors
    /// The arguments do not fit the type. If a condition returns this error, a person is asked.
    pub fn args<T: DeserializeOwned>(&self) -> Result<T, String> {
        read_args(self.args.text()).map_err(|error| format!("the arguments do not fit the condition: {error}"))
    }

    /// The application's own data as a value of a custom type.
    ///
    /// # Errors
    /// There is none, or it does not fit the type.
    pub fn context<T: DeserializeOwned>(&self) -> Result<T, ContextError> {
        self.context.read()
    }
}

impl From<&CallFacts<'_>> for ProposedCall {
    fn from(call: &CallFacts<'_>) -> ProposedCall {
        ProposedCall {
            session_id: call.session_id.to_owned(),
            subject: call.subject.map(str::to_owned),
            tenant: call.tenant.map(str::to_owned),
            roles: call.roles.to_vec(),
            agent: call.agent.to_owned(),
            tool: call.tool.to_owned(),
            call_id: call.call_id.to_owned(),
            args: call.args.clone(),
            context: call.context.clone(),
        }
    }
}

type Function = dyn Fn(ProposedCall) -> BoxFuture<'static, Result<bool, String>> + Send + Sync;

/// A condition that is an async Rust function (spec S1). An error or a panic means that a person is asked (P2).
#[derive(Clone)]
pub struct FnCondition {
    function: Arc<Function>,
    description: Option<Arc<str>>,
}

impl FnCondition {
    /// A condition: `Ok(true)` asks a person.
    pub fn new<F, Fut>(function: F) -> FnCondition
    where
        F: Fn(ProposedCall) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<bool, String>> + Send + 'static,
    {
        FnCondition { function: Arc::new(move |call| Box::pin(function(call))), description: None }
    }

    /// Sets the description of the condition, shown to the reviewer as the reason.
    #[must_use]
    pub fn described_as(mut self, words: &str) -> FnCondition {
        self.description = Some(words.into());
        self
    }
}

impl Condition for FnCondition {
    fn check<'a>(&'a self, call: &'a CallFacts<'a>) -> BoxFuture<'a, Result<bool, String>> {
        (self.function)(ProposedCall::from(call))
    }

    fn describe(&self) -> Option<&str> {
        self.description.as_deref()
    }
}

impl fmt::Debug for FnCondition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FnCondition").field("description", &self.description).finish_non_exhaustive()
    }
}

impl Approval {
    /// Asks a person when the async function returns `Ok(true)` or fails (spec S1); see [`FnCondition`].
    pub fn when_fn<F, Fut>(function: F) -> Approval
    where
        F: Fn(ProposedCall) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<bool, String>> + Send + 'static,
    {
        Approval::when(Arc::new(FnCondition::new(function)))
    }

    /// Asks a person when the expression is true of the call, or fails (spec P1); see [`CelCondition`].
    ///
    /// # Errors
    /// The expression is invalid, or has an unknown name.
    pub fn when_cel(expression: &str) -> Result<Approval, SettingError> {
        Ok(Approval::when(Arc::new(CelCondition::compile(expression)?)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn s1_a_function_decides_by_the_parsed_arguments_and_the_call() {
        let args = Args::parse(r#"{"amount":9007199254740993}"#).expect("args");
        let facts = CallFacts {
            session_id: "s1",
            subject: Some("alice"),
            tenant: None,
            roles: &[],
            agent: "trader",
            tool: "pay",
            call_id: "call_1",
            args: &args,
            context: &AppContext::default(),
        };
        #[derive(serde::Deserialize)]
        struct Pay {
            amount: i64,
        }
        let condition = FnCondition::new(|call| async move {
            Ok(call.args::<Pay>()?.amount > 9_007_199_254_740_992 && call.subject.as_deref() == Some("alice"))
        })
        .described_as("large payments");
        assert_eq!(condition.check(&facts).await, Ok(true));
        assert_eq!(condition.describe(), Some("large payments"));
        let wrong = FnCondition::new(|call| async move { call.args::<Vec<u8>>().map(|_| false) });
        assert!(wrong.check(&facts).await.is_err());
    }
}
