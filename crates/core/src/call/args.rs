//! The arguments of a call: canonical bytes and their digest, made once, then shown and run unchanged.

use std::{
    fmt,
    sync::{Arc, OnceLock},
};

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;
use sha2::{Digest as _, Sha256};

use super::json::{Json, JsonError};
use crate::{limits, plain};

/// Canonical arguments (RFC 8785 order, numbers as written) with their SHA-256 (spec R1, W4).
///
/// Always a JSON object. The text is what is stored, shown and executed; it is never rebuilt from a parsed value.
/// Cloning is cheap.
#[derive(Clone)]
pub struct Args(Arc<Canonical>);

struct Canonical {
    text: Box<str>,
    /// Computed on first use, for all clones: most calls run without anybody being asked.
    digest: OnceLock<Digest>,
}

/// No arguments.
impl Default for Args {
    fn default() -> Args {
        Args::of(&Json::Object(Vec::new()))
    }
}

impl PartialEq for Args {
    fn eq(&self, other: &Args) -> bool {
        self.text() == other.text()
    }
}

impl Eq for Args {}

/// Lower-case hexadecimal SHA-256.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Digest([u8; 32]);

/// Why an argument text was refused. The text is for the model or the person that sent it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ArgsError(pub String);

impl Args {
    /// Reads a model's or a person's argument text. An empty text means `{}`, as some models send it.
    ///
    /// # Errors
    /// Not strict JSON (see [`Json::parse`]), not an object, or longer than [`limits::ARGS_BYTES`].
    pub fn parse(text: &str) -> Result<Args, ArgsError> {
        Args::object(text).map(|members| Args::of(&Json::Object(members)))
    }

    /// The same without the member `key`, whose value is returned separately.
    ///
    /// # Errors
    /// As [`Args::parse`].
    pub fn parse_without(text: &str, key: &str) -> Result<(Args, Option<Json>), ArgsError> {
        // Some models send `null` for no arguments.
        let mut members = Args::object(if text.trim() == "null" { "" } else { text })?;
        let at = members.iter().position(|(name, _)| name == key);
        let taken = at.map(|at| members.remove(at).1);
        Ok((Args::of(&Json::Object(members)), taken))
    }

    fn object(text: &str) -> Result<Vec<(String, Json)>, ArgsError> {
        if text.len() > limits::ARGS_BYTES {
            return Err(ArgsError(format!(
                "the arguments have {} bytes; at most {} are allowed",
                text.len(),
                limits::ARGS_BYTES
            )));
        }
        let text = if text.trim().is_empty() { "{}" } else { text };
        let json = Json::parse(text, limits::JSON_DEPTH)
            .map_err(|e: JsonError| ArgsError(format!("the arguments are not valid JSON: {e}")))?;
        match json {
            Json::Object(members) => Ok(members),
            _ => Err(ArgsError("the arguments must be a JSON object".to_owned())),
        }
    }

    fn of(object: &Json) -> Args {
        Args(Arc::new(Canonical { text: object.canonical().into(), digest: OnceLock::new() }))
    }

    /// The canonical JSON text.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.0.text
    }

    /// SHA-256 of [`Args::text`].
    #[must_use]
    pub fn digest(&self) -> Digest {
        *self.0.digest.get_or_init(|| Digest::of(self.text().as_bytes()))
    }

    /// The arguments as a parsed value, for schema checks and conditions. Never the source of what runs.
    #[must_use]
    pub fn value(&self) -> serde_json::Value {
        // Canonical text is always valid JSON; null fails every schema, which is the safe side.
        plain::value(self.text()).unwrap_or(serde_json::Value::Null)
    }
}

impl fmt::Debug for Args {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Args({})", self.text())
    }
}

impl Serialize for Args {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let raw: &RawValue = serde_json::from_str(self.text()).map_err(serde::ser::Error::custom)?;
        raw.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Args {
    /// Reads any JSON object; the text is canonicalised again, which leaves canonical text unchanged.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw = Box::<RawValue>::deserialize(deserializer)?;
        Args::parse(raw.get()).map_err(serde::de::Error::custom)
    }
}

impl schemars::JsonSchema for Args {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Args".into()
    }
    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({ "type": "object", "description": "The arguments of a tool call.", "additionalProperties": true })
    }
}

impl Digest {
    /// The SHA-256 of `bytes`.
    #[must_use]
    pub fn of(bytes: &[u8]) -> Digest {
        Digest(Sha256::digest(bytes).into())
    }

    /// The SHA-256 of the concatenation of these texts.
    pub(crate) fn of_all(parts: &[&str]) -> Digest {
        let mut hash = Sha256::new();
        parts.iter().for_each(|part| hash.update(part));
        Digest(hash.finalize().into())
    }
}

impl Digest {
    /// Its 32 bytes.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const HEX: &[u8; 16] = b"0123456789abcdef";
        let mut out = [0_u8; 64];
        for (i, byte) in self.0.iter().enumerate() {
            out[2 * i] = HEX[usize::from(byte >> 4)];
            out[2 * i + 1] = HEX[usize::from(byte & 15)];
        }
        f.write_str(std::str::from_utf8(&out).unwrap_or_default())
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn w4_the_digest_is_of_the_canonical_arguments() {
        let a = Args::parse(r#"{ "b": 1.10, "a": "x" }"#).expect("a");
        assert_eq!(a.text(), r#"{"a":"x","b":1.10}"#);
        // printf '%s' '{"a":"x","b":1.10}' | sha256sum
        assert_eq!(a.digest().to_string(), "73a384341c2e269e5e80b98d32280c1e9bf7931b89af684e2b80804e03fb3e87");
        assert_eq!(a.digest(), Args::parse(r#"{"a":"x","b":1.10}"#).expect("b").digest());
        assert_ne!(a.digest(), Args::parse(r#"{"a":"x","b":1.1}"#).expect("c").digest());
    }

    #[test]
    fn stored_arguments_read_back_to_the_same_bytes() {
        let a = Args::parse(r#"{"n":9007199254740993,"p":1.10,"s":"\u0000\u202e"}"#).expect("a");
        let stored = serde_json::to_string(&a).expect("write");
        assert_eq!(stored, a.text());
        let back: Args = serde_json::from_str(&stored).expect("read");
        assert_eq!(back, a);
    }

    #[test]
    fn arguments_that_are_no_object_are_refused() {
        assert!(Args::parse("[]").is_err());
        assert!(Args::parse("\"x\"").is_err());
        assert_eq!(Args::parse("  ").expect("empty").text(), "{}");
    }
}
