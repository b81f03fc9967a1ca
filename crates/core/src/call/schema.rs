//! Replaced by the tools helper's version on merge.
use super::args::Args;
/// Compiled schema.
pub struct ArgsSchema(jsonschema::Validator);
/// One violation.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, schemars::JsonSchema)]
pub struct SchemaError {
    /// JSON pointer
    pub pointer: String,
    /// message
    pub message: String,
}
impl ArgsSchema {
    /// Compile.
    pub fn compile(schema: &serde_json::Value) -> Result<ArgsSchema, String> {
        jsonschema::validator_for(schema).map(ArgsSchema).map_err(|e| e.to_string())
    }
    /// Check.
    pub fn check(&self, args: &Args) -> Vec<SchemaError> {
        self.0
            .iter_errors(&args.value())
            .take(16)
            .map(|e| SchemaError { pointer: e.instance_path().to_string(), message: e.to_string() })
            .collect()
    }
}
