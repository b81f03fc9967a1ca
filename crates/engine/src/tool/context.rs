//! The application's own data, as tools, rules and instructions see it (spec S18).

use std::sync::Arc;

use countersign_core::call::{finite, json::same_json};
use serde::{Serialize, de::DeserializeOwned, ser::Error as _};
use serde_json::value::{RawValue, to_raw_value};

tokio::task_local! {
    /// The data of the run whose tool is executing: a tool gets only its permit.
    static CURRENT: AppContext;
}

/// The data that the application gave a run: JSON, kept unchanged in the session's journal. Do not put secrets in it.
#[derive(Clone, Debug, Default)]
pub struct AppContext(Option<Arc<RawValue>>);

/// Compares the values, whatever the layout of their texts.
impl PartialEq for AppContext {
    fn eq(&self, other: &AppContext) -> bool {
        match (self.json(), other.json()) {
            (Some(one), Some(other)) => same_json(one, other),
            (one, other) => one == other,
        }
    }
}

impl Eq for AppContext {}

/// Why the application's data could not be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ContextError {
    /// The run has none.
    #[error("the run has no context; give it one with RunConfig::context")]
    None,
    /// It does not fit the type.
    #[error("the run's context does not fit the type: {0}")]
    Other(String),
}

impl AppContext {
    /// The JSON of a value, which reads as that value again.
    ///
    /// # Errors
    /// The value has no such JSON: it has a map with keys that are not strings, a number that is not finite, or more
    /// than 127 arrays and objects in each other.
    pub fn new<T: Serialize + ?Sized>(value: &T) -> Result<AppContext, serde_json::Error> {
        finite::check(value).map_err(serde_json::Error::custom)?;
        to_raw_value(value).map(AppContext::of)
    }

    /// The data in this JSON text.
    #[must_use]
    pub fn of(json: Box<RawValue>) -> AppContext {
        AppContext(Some(json.into()))
    }

    /// The JSON text, if there is any.
    #[must_use]
    pub fn json(&self) -> Option<&str> {
        self.0.as_deref().map(RawValue::get)
    }

    /// The JSON text, for creating a session.
    pub fn to_raw(&self) -> Option<Box<RawValue>> {
        self.0.as_deref().map(ToOwned::to_owned)
    }

    /// The data as a value of a custom type.
    ///
    /// # Errors
    /// There is none, or it does not fit the type.
    pub fn read<T: DeserializeOwned>(&self) -> Result<T, ContextError> {
        let json = self.json().ok_or(ContextError::None)?;
        countersign_core::plain::read(json).map_err(|error| ContextError::Other(error.to_string()))
    }

    /// The data of the run whose tool is executing here.
    pub fn current() -> AppContext {
        CURRENT.try_with(AppContext::clone).unwrap_or_default()
    }

    /// Runs a tool with this data.
    pub async fn within<F: Future>(self, tool: F) -> F::Output {
        CURRENT.scope(self, tool).await
    }
}
