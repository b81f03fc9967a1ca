//! The context of a run, and instructions made from it.

use std::{fmt, future::Future, panic::AssertUnwindSafe, sync::Arc};

use countersign_core::{
    journal::{record::Usage, state::State},
    locale::Locale,
    number::RunNo,
};
use futures::{FutureExt as _, future::BoxFuture};
use serde::de::DeserializeOwned;

use crate::tool::{AppContext, ContextError};

/// The context of a run: the facts for instructions, guardrails and hooks.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct RunContext {
    /// The session.
    pub session_id: Arc<str>,
    /// The session's owner, if any.
    pub subject: Option<Arc<str>>,
    /// The current agent.
    pub agent: Arc<str>,
    /// The session's language.
    pub locale: Locale,
    /// Tokens so far, of the whole session.
    pub usage: Usage,
    /// Model calls of the turn so far.
    pub model_calls: u32,
    /// The application's own data.
    pub context: AppContext,
}

impl RunContext {
    pub(crate) fn of(state: &State, run: RunNo, context: AppContext) -> RunContext {
        RunContext {
            session_id: state.session_id.clone(),
            subject: state.subject.clone(),
            agent: state.agent_of(run).clone(),
            locale: state.locale,
            usage: state.usage,
            model_calls: state.turn_calls,
            context,
        }
    }

    /// The application's own data as a value of your own type.
    ///
    /// # Errors
    /// There is none, or it does not fit the type.
    pub fn context<T: DeserializeOwned>(&self) -> Result<T, ContextError> {
        self.context.read()
    }
}

type Make = dyn Fn(RunContext) -> BoxFuture<'static, Result<String, String>> + Send + Sync;

/// The instructions of an agent: a text, or an async function of the run's context.
#[derive(Clone)]
pub struct Instructions(Kind);

#[derive(Clone)]
enum Kind {
    Text(Arc<str>),
    Function(Arc<Make>),
}

impl Default for Instructions {
    fn default() -> Instructions {
        Instructions(Kind::Text(Arc::from("")))
    }
}

impl fmt::Debug for Instructions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Kind::Text(text) => write!(f, "Instructions({text:?})"),
            Kind::Function(_) => write!(f, "Instructions(a function)"),
        }
    }
}

/// Two functions are equal if they are the same function.
impl PartialEq for Instructions {
    fn eq(&self, other: &Instructions) -> bool {
        match (&self.0, &other.0) {
            (Kind::Text(mine), Kind::Text(theirs)) => mine == theirs,
            (Kind::Function(mine), Kind::Function(theirs)) => Arc::ptr_eq(mine, theirs),
            _ => false,
        }
    }
}

impl Instructions {
    /// The text; empty if a function creates it.
    #[must_use]
    pub fn text(&self) -> &str {
        match &self.0 {
            Kind::Text(text) => text,
            Kind::Function(_) => "",
        }
    }

    /// The instructions of a run; `context` is called only if they need it.
    pub(crate) async fn make<Fut: Future<Output = RunContext>>(
        &self,
        context: impl FnOnce() -> Fut,
    ) -> Result<Arc<str>, String> {
        match &self.0 {
            Kind::Text(text) => Ok(text.clone()),
            Kind::Function(function) => {
                let context = context().await;
                let made = AssertUnwindSafe(async move { function(context).await }).catch_unwind().await;
                made.unwrap_or_else(|_| Err("they panicked".to_owned())).map(Arc::from)
            }
        }
    }
}

impl From<&str> for Instructions {
    fn from(text: &str) -> Instructions {
        Instructions(Kind::Text(text.into()))
    }
}

impl From<String> for Instructions {
    fn from(text: String) -> Instructions {
        Instructions(Kind::Text(text.into()))
    }
}

impl From<Arc<str>> for Instructions {
    fn from(text: Arc<str>) -> Instructions {
        Instructions(Kind::Text(text))
    }
}

/// An async function; its error fails the run before the model is called.
impl<F, Fut> From<F> for Instructions
where
    F: Fn(RunContext) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<String, String>> + Send + 'static,
{
    fn from(function: F) -> Instructions {
        Instructions(Kind::Function(Arc::new(move |context| Box::pin(function(context)))))
    }
}
