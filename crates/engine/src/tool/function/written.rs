//! Called by the expansion of `#[tool]`; hidden, except what `needs_approval_if` takes.

use std::{fmt::Display, future::Future, time::Duration};

use countersign_core::call::timeout::Timeout;
use serde::{Serialize, de::DeserializeOwned};

use super::super::{Approval, Hints, ToolError, condition::ProposedCall};

/// The tool of a function.
pub use super::tool_with_context as entry;

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

/// The time that `#[tool]` writes in seconds; 0: no limit.
#[must_use]
pub fn seconds(limit: u32) -> Option<Duration> {
    (limit > 0).then(|| Duration::from_secs(limit.into()))
}

/// The time to decide that `#[tool]` writes in seconds; 0: no limit.
#[must_use]
pub fn timeout(limit: u32) -> Timeout {
    Timeout::of(limit)
}
