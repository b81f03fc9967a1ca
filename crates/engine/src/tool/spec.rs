//! A tool as a model sees it, and what may be one.

use std::sync::Arc;

use countersign_core::{
    call::{display::MESSAGE_ARGUMENT, schema::ArgsSchema},
    limits,
};

/// A tool as a model sees it.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ToolSpec {
    /// Its name.
    pub name: Arc<str>,
    /// What it does.
    pub description: Arc<str>,
    /// The JSON Schema of its arguments, an object schema.
    pub parameters: Arc<serde_json::Value>,
}

impl ToolSpec {
    /// What the model sees of a tool: its name, its description, and the JSON Schema of its arguments.
    pub fn new(
        name: impl Into<Arc<str>>,
        description: impl Into<Arc<str>>,
        parameters: impl Into<Arc<serde_json::Value>>,
    ) -> ToolSpec {
        ToolSpec { name: name.into(), description: description.into(), parameters: parameters.into() }
    }

    /// Its schema, to check arguments by, compiled by `compile` as [`ArgsSchema::compile`] does.
    ///
    /// # Errors
    /// Why no agent can have it.
    #[doc(hidden)]
    pub fn checked<S>(&self, compile: impl FnOnce(&Arc<serde_json::Value>) -> Result<S, String>) -> Result<S, String> {
        if self.name.is_empty() || self.name.len() > limits::NAME_BYTES {
            return Err(format!("a tool's name has 1 to {} bytes", limits::NAME_BYTES));
        }
        if self.parameters.get("properties").and_then(|properties| properties.get(MESSAGE_ARGUMENT)).is_some() {
            return Err(format!("{MESSAGE_ARGUMENT:?} cannot be an argument of a tool, it is reserved"));
        }
        compile(&self.parameters).map_err(|error| format!("its schema is not valid: {error}"))
    }

    /// Why no agent can have it, if so.
    #[doc(hidden)]
    #[must_use]
    pub fn mistake(&self) -> Option<String> {
        self.checked(|parameters| ArgsSchema::compile(parameters)).err()
    }
}
