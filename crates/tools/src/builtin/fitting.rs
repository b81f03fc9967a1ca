//! Arguments with which a file tool could run: no approval is requested for others.

use std::borrow::Cow;

use countersign_engine::tool::ToolError;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Deserializer, de::Error as _};

/// A check of arguments that does not read the files.
pub(super) trait Fits {
    /// # Errors
    /// Why they could not change any file.
    fn fits(&self) -> Result<(), ToolError>;
}

/// Arguments that fit.
#[derive(Clone)]
pub(super) struct Fitting<T>(pub(super) T);

impl<'de, T: Deserialize<'de> + Fits> Deserialize<'de> for Fitting<T> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Fitting<T>, D::Error> {
        let args = T::deserialize(from)?;
        args.fits().map_err(|error| D::Error::custom(error.message))?;
        Ok(Fitting(args))
    }
}

/// Written out: the derived form refers to the schema of the arguments instead of being it.
impl<T: JsonSchema> JsonSchema for Fitting<T> {
    fn schema_name() -> Cow<'static, str> {
        T::schema_name()
    }
    fn schema_id() -> Cow<'static, str> {
        T::schema_id()
    }
    fn inline_schema() -> bool {
        T::inline_schema()
    }
    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        T::json_schema(generator)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Clone, JsonSchema)]
    #[expect(dead_code, reason = "only its schema is used")]
    struct Args {
        /// The file.
        path: String,
    }

    #[test]
    fn s12_the_schema_of_arguments_that_fit_is_that_of_the_arguments() {
        let [own, fitting] = [schemars::schema_for!(Args), schemars::schema_for!(Fitting<Args>)];
        assert_eq!(own, fitting);
        assert!(fitting.pointer("/properties/path").is_some(), "{fitting:?}");
    }
}
