//! The `request_id` of an input as its session keeps it (spec W1): as its sender gave it, whose it is if that is not the
//! owner, and a fingerprint of what it asks for, which tells a repeat from another request under the same id.
//!
//! The fingerprint depends on the session's birth, which an encrypted store keeps encrypted, so the fingerprint beside
//! it reveals nothing of the request.

use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, de::Error as _};

use crate::{
    call::{args::Digest, json::Json},
    limits,
};

/// What surrounds a client's own JSON is not deep.
const DEPTH: usize = limits::JSON_DEPTH + 16;
/// Hexadecimal digits of a fingerprint.
const FINGERPRINT: usize = 16;

/// A `request_id` that a session keeps. Records have it as `{"id", "by"?, "fingerprint"?}`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct RequestId(Arc<Kept>);

#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Kept {
    /// As its sender gave it.
    id: Box<str>,
    /// Whose it is, if that is not the session's owner.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "somebody")]
    by: Option<Box<str>>,
    /// Tells a repeat from another request under the same id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    fingerprint: Option<Box<str>>,
}

/// An empty text is refused: stores keep it as the owner's.
fn somebody<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Box<str>>, D::Error> {
    let by = Option::<Box<str>>::deserialize(from)?;
    if by.as_deref() == Some("") {
        return Err(D::Error::custom("\"by\" is empty; the owner's request ids have none"));
    }
    Ok(by)
}

impl RequestId {
    /// The id to keep for one that was `sent`. `whose`: its sender, unless the owner; an empty text names nobody.
    /// `birth`: the session's; `asked`: all that the input says.
    #[must_use]
    pub fn of(sent: &str, whose: Option<&str>, birth: &str, asked: &impl Serialize) -> RequestId {
        // What has no JSON form has no fingerprint: then only the kind of input is compared. The same JSON is the same however
        // it is written.
        let asked = serde_json::to_string(asked).ok();
        let asked = asked.and_then(|text| Json::parse(&text, DEPTH).ok()).map(|json| json.canonical());
        let fingerprint = asked.map(|asked| {
            let digest = Digest::of_all(&[birth, "\0", &asked]).to_string();
            digest.chars().filter(char::is_ascii_hexdigit).take(FINGERPRINT).collect()
        });
        let by = whose.filter(|whose| !whose.is_empty()).map(Box::from);
        RequestId(Arc::new(Kept { id: sent.into(), by, fingerprint }))
    }

    /// The id as its sender gave it.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.0.id
    }

    /// The sender, if that is not the session's owner.
    #[must_use]
    pub fn by(&self) -> Option<&str> {
        self.0.by.as_deref()
    }

    /// Its fingerprint, if it has one.
    #[must_use]
    pub fn fingerprint(&self) -> Option<&str> {
        self.0.fingerprint.as_deref()
    }

    /// The part that is unique in its session: all but the fingerprint.
    #[must_use]
    pub fn key(&self) -> (&str, Option<&str>) {
        (self.id(), self.by())
    }
}

/// The owner's, without a fingerprint.
impl From<&str> for RequestId {
    fn from(id: &str) -> RequestId {
        RequestId(Arc::new(Kept { id: id.into(), by: None, fingerprint: None }))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::value::RawValue;

    use super::*;
    use crate::journal::run::Raw;

    #[test]
    fn w1_a_kept_id_has_what_was_sent_whose_it_is_and_a_fingerprint_of_what_it_asks_for() {
        let own = RequestId::of("r1", None, "birth", &("buy", 5));
        let others = RequestId::of("r1", Some("ann"), "birth", &("buy", 5));
        assert_eq!((own.key(), others.key()), (("r1", None), ("r1", Some("ann"))));
        assert_eq!(RequestId::of("r1", Some(""), "birth", &("buy", 5)), own, "nobody is named so");
        let print = |kept: &RequestId| kept.fingerprint().expect("a fingerprint").to_owned();
        assert_eq!((print(&own).len(), print(&own)), (FINGERPRINT, print(&others)));
        assert_ne!(print(&own), print(&RequestId::of("r1", None, "birth", &("buy", 6))));
        let raw = |text: &str| Raw::of(&serde_json::from_str::<Box<RawValue>>(text).expect("JSON")).expect("JSON");
        let written = |text: &str| print(&RequestId::of("r1", None, "birth", &raw(text)));
        assert_eq!(written(r#"{"a":"dry","b":1}"#), written(r#"{ "b": 1, "a": "\u0064ry" }"#), "the same JSON");
        assert_ne!(
            print(&own),
            print(&RequestId::of("r1", None, "another", &("buy", 5))),
            "it tells nothing by itself"
        );
        assert_eq!(RequestId::from("r1").fingerprint(), None);

        let text = |kept: &RequestId| {
            let text = serde_json::to_string(kept).expect("text");
            assert_eq!(serde_json::from_str::<RequestId>(&text).expect("read"), *kept);
            text
        };
        assert_eq!(text(&"r1".into()), r#"{"id":"r1"}"#);
        assert!(text(&others).starts_with(r#"{"id":"r1","by":"ann","fingerprint":""#));
    }

    #[test]
    fn w1_a_kept_id_of_nobody_is_refused() {
        let read = |text| serde_json::from_str::<RequestId>(text).map_err(|error| error.to_string());
        assert!(read(r#"{"id":"r1","by":""}"#).expect_err("nobody").contains("\"by\" is empty"));
        assert_eq!(read(r#"{"id":"r1","by":null}"#), Ok("r1".into()));
    }
}
