//! Arguments with which a file tool could run: others never reach a person.

use countersign_engine::tool::ToolError;
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, de::Error as _};

/// What is known of arguments without a look at the files.
pub(super) trait Fits {
    /// # Errors
    /// No file could be changed by them: why.
    fn fits(&self) -> Result<(), ToolError>;
}

/// Arguments that fit.
#[derive(Clone, JsonSchema)]
#[schemars(transparent)]
pub(super) struct Fitting<T>(pub(super) T);

impl<'de, T: Deserialize<'de> + Fits> Deserialize<'de> for Fitting<T> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Fitting<T>, D::Error> {
        let args = T::deserialize(from)?;
        args.fits().map_err(|error| D::Error::custom(error.message))?;
        Ok(Fitting(args))
    }
}
