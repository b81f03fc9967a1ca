//! The type of an agent's answers.

use std::sync::Arc;

use countersign_core::{
    call::schema::{ArgsSchema, SchemaError},
    locale::{Locale, Text},
    plain,
};
use serde_json::Value;

use crate::model::OutputSchema;

/// The type of an agent's answers: JSON that fits a schema (spec S23).
pub(crate) struct Output {
    name: Arc<str>,
    schema: Arc<Value>,
    compiled: ArgsSchema,
}

impl Output {
    pub(crate) fn new(name: &str, schema: Value) -> Result<Output, String> {
        let compiled = ArgsSchema::of_any(&schema)?;
        // A name that providers accept.
        let plain = |letter: char| if letter.is_ascii_alphanumeric() || letter == '-' { letter } else { '_' };
        let name: String = name.chars().map(plain).take(64).collect();
        let name = if name.is_empty() { "output".into() } else { name.into() };
        Ok(Output { name, schema: Arc::new(schema), compiled })
    }

    /// Its description for the model.
    pub(crate) fn for_model(&self) -> OutputSchema {
        OutputSchema::new(self.name.clone(), self.schema.clone())
    }

    /// The JSON of an answer: models often put it into a code fence, although they are asked not to.
    pub(crate) fn json(text: &str) -> &str {
        let text = text.trim();
        let inside = || {
            let (info, rest) = text.strip_prefix("```")?.split_once('\n')?;
            let inside = rest.trim_end().strip_suffix("```")?;
            (!info.contains(['`', '{', '[', '"']) && !inside.contains("\n```")).then_some(inside.trim())
        };
        inside().unwrap_or(text)
    }

    /// Why an answer is invalid; empty if it fits.
    pub(crate) fn check(&self, text: &str, locale: Locale) -> Vec<String> {
        let text = Output::json(text);
        // Readers would disagree on which of the two counts.
        if let Some(name) = plain::member_twice(text) {
            return vec![locale.fill(Text::OutputTwice, &[("name", &format!("{name:?}"))])];
        }
        match plain::value(text) {
            Ok(value) => self.compiled.check_written(&value, text).iter().map(SchemaError::to_string).collect(),
            Err(error) => vec![locale.fill(Text::OutputNotJson, &[("error", &error.to_string())])],
        }
    }
}
