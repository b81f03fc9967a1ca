//! JSON Schemas for arguments: compiled once, checked in bounded time, never fetching anything.

mod cost;

use std::fmt;

use jsonschema::{ValidationError, error::ValidationErrorKind};
use schemars::{JsonSchema, generate::SchemaSettings};
use serde::Serialize;
use serde_json::Value;

use super::{args::Args, json::Json};
use crate::{limits, plain::as_plain};

/// Largest schema, as JSON text in bytes.
pub const SCHEMA_BYTES: usize = 64 * 1024;
/// Deepest nesting of arrays and objects in a schema.
pub const SCHEMA_DEPTH: usize = 64;
/// Most errors one check reports.
pub const SCHEMA_ERRORS: usize = 16;
/// Longest message of one error, in characters.
pub const MESSAGE_CHARS: usize = 200;
/// Above this product of the values in the arguments and the bytes of the schema, wrong arguments are refused without
/// details.
const EXPLAINED: usize = 1_000_000;
/// Largest compiled pattern (`pattern`, `patternProperties`), in bytes.
const PATTERN_BYTES: usize = 256 * 1024;

/// A compiled JSON Schema for the arguments of a tool (spec M3, S10).
///
/// All drafts of JSON Schema are supported, 2020-12 unless `$schema` names another. Anything that makes a schema
/// dangerous or slow is refused when it is compiled, not discovered while a session waits:
/// * a `$ref` to anything but a place in the same schema (`#`, `#/…`): nothing is ever read from a file or
///   the network; `$dynamicRef`, `$recursiveRef`, anchors and an inner `$id` are refused too;
/// * look-around and back-references in patterns: patterns are matched in linear time;
/// * more than [`SCHEMA_BYTES`] or [`SCHEMA_DEPTH`];
/// * `$ref`s that lead back to the same value, or that multiply without bound.
///
/// `format` is an annotation, as in 2020-12: it is not checked.
pub struct ArgsSchema {
    validator: jsonschema::Validator,
    max_depth: usize,
    bytes: usize,
}

/// The JSON Schema of a type. It goes to models with each call and is stored with each request about one, so it does
/// not name its draft: without a name it is 2020-12.
#[must_use]
pub fn schema_of<T: JsonSchema>() -> Value {
    let settings = SchemaSettings::draft2020_12().with(|settings| settings.meta_schema = None);
    settings.into_generator().into_root_schema_for::<T>().to_value()
}

/// One reason why arguments do not fit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct SchemaError {
    /// Where, as a JSON Pointer into the arguments; empty for the arguments as a whole.
    pub pointer: String,
    /// What is wrong, at most [`MESSAGE_CHARS`] characters.
    pub message: String,
}

/// An error with the JSON Pointer to its place, for people and models. The pointer to the whole value is empty, and is
/// left out.
#[must_use]
pub fn located(pointer: &str, message: &str) -> String {
    if pointer.is_empty() { message.to_owned() } else { format!("{pointer}: {message}") }
}

impl fmt::Display for SchemaError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&located(&self.pointer, &self.message))
    }
}

impl ArgsSchema {
    /// Compiles a schema.
    ///
    /// # Errors
    /// As text: it is not a JSON Schema, it does not describe an object, or see [`ArgsSchema`].
    pub fn compile(schema: &Value) -> Result<ArgsSchema, String> {
        if let Some(of) = schema.get("type").filter(|of| !names_object(of)) {
            return Err(format!("arguments are always an object, but the schema's `type` is {of}"));
        }
        ArgsSchema::of_any(schema)
    }

    /// Compiles a schema of values that need not be objects, such as answers to a graph's questions (spec G3).
    ///
    /// # Errors
    /// As [`ArgsSchema::compile`].
    pub fn of_any(schema: &Value) -> Result<ArgsSchema, String> {
        // Before anything that recurses over the schema.
        if deeper_than(schema, SCHEMA_DEPTH) {
            return Err(format!("the schema is nested too deeply; at most {SCHEMA_DEPTH} levels are allowed"));
        }
        let plain = as_plain(schema);
        let schema = &*plain;
        let bytes = schema.to_string().len();
        if bytes > SCHEMA_BYTES {
            return Err(format!("the schema has {bytes} bytes; at most {SCHEMA_BYTES} are allowed"));
        }
        if !schema.is_object() {
            return Err("a schema must be a JSON object".to_owned());
        }
        let max_depth = cost::deepest_instance(schema)?;
        let patterns = jsonschema::PatternOptions::regex().size_limit(PATTERN_BYTES).dfa_size_limit(PATTERN_BYTES);
        let validator = jsonschema::options()
            .offline()
            .with_pattern_options(patterns)
            .should_validate_formats(false)
            .build(schema)
            .map_err(|error| {
                let place = error.instance_path().to_string();
                let place = if place.is_empty() { String::new() } else { format!(" (at {place})") };
                shortened(&format!("{}{place}", error.masked_with("the value")))
            })?;
        Ok(ArgsSchema { validator, max_depth, bytes })
    }

    /// The errors of these arguments; empty if they fit. At most [`SCHEMA_ERRORS`]; very many values (not long ones)
    /// against a large schema get only one error, without a place.
    #[must_use]
    pub fn check(&self, args: &Args) -> Vec<SchemaError> {
        self.check_written(&args.value(), args.text())
    }

    /// The errors of a value, like [`ArgsSchema::check`].
    #[must_use]
    pub fn check_value(&self, value: &Value) -> Vec<SchemaError> {
        self.check_written(value, "")
    }

    /// Like [`ArgsSchema::check_value`], for a value that was read from this JSON text: errors quote numbers as they
    /// are written there.
    #[must_use]
    pub fn check_written(&self, value: &Value, text: &str) -> Vec<SchemaError> {
        if deeper_than(value, self.max_depth) {
            let message = format!("nested too deeply for this schema; at most {} levels are allowed", self.max_depth);
            return vec![SchemaError { pointer: String::new(), message }];
        }
        let plain = as_plain(value);
        let value = &*plain;
        if self.validator.is_valid(value) {
            return Vec::new();
        }
        // The library makes all errors before it returns the first; their number is at most about this.
        if values(value).saturating_mul(self.bytes) > EXPLAINED {
            let message = "does not fit the tool's schema (too large to say where)".to_owned();
            return vec![SchemaError { pointer: String::new(), message }];
        }
        let written = Json::parse(text, limits::JSON_DEPTH).unwrap_or(Json::Null);
        let said = |error: &ValidationError<'_>| SchemaError {
            pointer: error.instance_path().to_string(),
            message: shortened(&message(error, &written)),
        };
        self.validator
            .iter_errors(value)
            .flat_map(|error| match meant(&error) {
                Some(errors) => errors.iter().take(SCHEMA_ERRORS).map(said).collect(),
                None => vec![said(&error)],
            })
            .take(SCHEMA_ERRORS)
            .collect()
    }
}

impl fmt::Debug for ArgsSchema {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ArgsSchema").finish_non_exhaustive()
    }
}

/// For alternatives, the errors of the one that was meant: the only one whose own `const` and `enum` members fit, such
/// as the `action` of an answer. The error that none of them fits would help nobody.
fn meant<'e>(error: &'e ValidationError<'_>) -> Option<&'e [ValidationError<'static>]> {
    let (ValidationErrorKind::OneOfNotValid { context } | ValidationErrorKind::AnyOf { context }) = error.kind() else {
        return None;
    };
    let depth = |error: &ValidationError<'_>| error.instance_path().iter().count();
    let member = depth(error) + 1;
    let other = |inner: &ValidationError<'_>| {
        matches!(inner.kind(), ValidationErrorKind::Constant { .. } | ValidationErrorKind::Enum { .. })
            && depth(inner) <= member
    };
    let mut left = context.iter().filter(|errors| !errors.iter().any(other));
    let only = left.next()?;
    (left.next().is_none() && context.len() > 1 && !only.is_empty()).then_some(only)
}

/// The library's message, with the value itself if it is short; a number as it is `written`.
fn message(error: &ValidationError<'_>, written: &Json) -> String {
    match &**error.instance() {
        Value::Array(_) | Value::Object(_) => error.masked_with("the value").to_string(),
        Value::Number(_) => match written.pointed(&error.instance_path().to_string()) {
            Some(Json::Number(text)) => error.masked_with(text.as_str()).to_string(),
            _ => error.to_string(),
        },
        Value::String(text) if text.len() > MESSAGE_CHARS / 2 => error.masked_with("the value").to_string(),
        _ => error.to_string(),
    }
}

fn shortened(text: &str) -> String {
    match text.char_indices().nth(MESSAGE_CHARS - 1) {
        Some((end, c)) if end + c.len_utf8() < text.len() => format!("{}…", &text[..end]),
        _ => text.to_owned(),
    }
}

fn names_object(of: &Value) -> bool {
    match of {
        Value::String(name) => name == "object",
        Value::Array(names) => names.iter().any(|name| name == "object"),
        // Not a type at all: the compiler reports that better.
        _ => true,
    }
}

/// Whether arrays and objects nest deeper than `levels`; recurses no deeper than that.
fn deeper_than(value: &Value, levels: usize) -> bool {
    match value {
        Value::Array(items) => levels == 0 || items.iter().any(|item| deeper_than(item, levels - 1)),
        Value::Object(members) => levels == 0 || members.values().any(|member| deeper_than(member, levels - 1)),
        _ => false,
    }
}

/// How many values there are, at all levels.
fn values(value: &Value) -> usize {
    match value {
        Value::Array(items) => 1 + items.iter().map(values).sum::<usize>(),
        Value::Object(members) => 1 + members.values().map(values).sum::<usize>(),
        _ => 1,
    }
}

#[cfg(test)]
#[path = "schema/tests.rs"]
mod tests;
