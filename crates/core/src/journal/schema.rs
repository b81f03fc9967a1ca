//! Recorded JSON Schemas, of a tool's arguments or of an answer, and the digest of a tool.

use std::sync::{Arc, OnceLock};

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::{
    call::{
        args::Digest,
        gate::Target,
        json::{Json, same_json},
    },
    limits,
};

/// A JSON Schema, kept as text. Its canonical form and the digest of the tool that has it are made on first use and
/// shared: requests about the tool's calls need both.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Schema(pub Box<RawValue>, #[serde(skip)] OnceLock<Box<RawValue>>, #[serde(skip)] OnceLock<Box<Words>>);

impl Schema {
    /// A schema of this text.
    #[must_use]
    pub fn new(text: Box<RawValue>) -> Schema {
        Schema(text, OnceLock::new(), OnceLock::new())
    }

    /// The canonical text. Text that is not strict JSON, which a foreign schema may be, is kept as it is.
    #[must_use]
    pub fn canonical(&self) -> &RawValue {
        self.1.get_or_init(|| {
            let canonical = Json::parse(self.0.get(), limits::JSON_DEPTH + 8).ok().map(|json| json.canonical());
            canonical.and_then(|text| RawValue::from_string(text).ok()).unwrap_or_else(|| self.0.clone())
        })
    }
}

impl PartialEq for Schema {
    fn eq(&self, other: &Self) -> bool {
        same_json(self.0.get(), other.0.get())
    }
}
impl Eq for Schema {}

/// A tool's description and source, with the digest of these and its schema.
#[derive(Clone, Debug)]
pub(super) struct Words {
    description: Option<Arc<str>>,
    source: Option<Arc<str>>,
    digest: Arc<str>,
}

impl Words {
    /// The digest, kept with the schema: each call of a tool needs it several times.
    pub(super) fn digest(
        description: Option<&Arc<str>>,
        schema: Option<&Schema>,
        source: Option<&Arc<str>>,
    ) -> Arc<str> {
        let made = || digest(description.map(|text| &**text), schema, source.map(|text| &**text), None);
        let Some(schema) = schema else { return made() };
        let words = schema.2.get_or_init(|| {
            Box::new(Words { description: description.cloned(), source: source.cloned(), digest: made() })
        });
        let same = words.description.as_ref() == description && words.source.as_ref() == source;
        if same { words.digest.clone() } else { made() }
    }
}

/// The digest of a tool's description, schema and source, and of the agent that it targets.
pub(super) fn digest(
    description: Option<&str>,
    schema: Option<&Schema>,
    source: Option<&str>,
    target: Option<&Target>,
) -> Arc<str> {
    // A JSON text cannot contain the separator that ends a description here.
    let mut parts = vec![description.unwrap_or_default(), "\0", schema.map_or("", |schema| schema.0.get())];
    if let Some(source) = source {
        parts.extend(["\0", source]);
    }
    if let Some(target) = target {
        // Nor can a source be empty.
        let (kind, agent) = match target {
            Target::Agent(agent) => ("agent", agent),
            Target::Handoff(agent) => ("handoff", agent),
        };
        parts.extend(["\0\0", kind, "\0", agent]);
    }
    Digest::of_all(&parts).to_string().into()
}
