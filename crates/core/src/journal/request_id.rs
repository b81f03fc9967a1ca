//! The `request_id` of an input as its session keeps it (spec W1): as its sender gave it, whose it is if that is not the
//! owner, and a fingerprint of what it asks for, which tells a repeat from another request under the same id. Control
//! characters separate them, which no client can send; a journal keeps them [apart](stored).
//!
//! The fingerprint depends on the session's birth, which an encrypted store keeps encrypted: beside it, it tells nothing
//! of what was asked for.

use serde::{Deserialize, Serialize};

use crate::{
    call::{args::Digest, json::Json},
    limits,
};

const WHOSE: char = '\u{1f}';
const ASKED: char = '\u{1e}';
/// What is around a client's own JSON is not deep.
const DEPTH: usize = limits::JSON_DEPTH + 16;
/// Hexadecimal digits of a fingerprint.
const FINGERPRINT: usize = 16;

/// The id to keep. `whose`: its sender, unless the owner; `birth`: the session's; `asked`: all that the input says.
#[must_use]
pub fn kept(sent: &str, whose: Option<&str>, birth: &str, asked: &impl Serialize) -> String {
    let mut kept = sent.to_owned();
    if let Some(whose) = whose {
        kept.push(WHOSE);
        kept.push_str(whose);
    }
    // What has no JSON form has no fingerprint: then only the kind of input is compared. The same JSON is the same however
    // it is written.
    let asked = serde_json::to_string(asked).ok();
    if let Some(asked) = asked.and_then(|text| Json::parse(&text, DEPTH).ok()).map(|json| json.canonical()) {
        let digest = Digest::of_all(&[birth, "\0", &asked]).to_string();
        kept.push(ASKED);
        kept.extend(digest.chars().filter(char::is_ascii_hexdigit).take(FINGERPRINT));
    }
    kept
}

/// What is unique in its session: all but the fingerprint.
#[must_use]
pub fn key(kept: &str) -> &str {
    kept.split_once(ASKED).map_or(kept, |(key, _)| key)
}

/// As its sender gave it.
#[must_use]
pub fn sent(kept: &str) -> &str {
    kept.split([WHOSE, ASKED]).next().unwrap_or_default()
}

/// Its fingerprint, if it has one.
#[must_use]
pub fn fingerprint(kept: &str) -> Option<&str> {
    kept.split_once(ASKED).map(|(_, fingerprint)| fingerprint)
}

/// How records keep it: `{"id", "by"?, "fingerprint"?}`.
pub mod stored {
    use std::{borrow::Cow, sync::Arc};

    use serde::{Deserializer, Serializer};

    use super::{ASKED, Deserialize, Serialize, WHOSE, fingerprint, key, sent};

    #[derive(Serialize, Deserialize)]
    struct Stored<'a> {
        /// As its sender gave it.
        id: Cow<'a, str>,
        /// Whose it is, if that is not the session's owner.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        by: Option<Cow<'a, str>>,
        /// Tells a repeat from another request under the same id.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        fingerprint: Option<Cow<'a, str>>,
    }

    /// Writes a kept id.
    ///
    /// # Errors
    /// Only the serializer's own.
    pub fn serialize<S: Serializer>(kept: &Option<Arc<str>>, serializer: S) -> Result<S::Ok, S::Error> {
        let stored = kept.as_deref().map(|kept| Stored {
            id: sent(kept).into(),
            by: key(kept).split_once(WHOSE).map(|(_, by)| by.into()),
            fingerprint: fingerprint(kept).map(Into::into),
        });
        stored.serialize(serializer)
    }

    /// Reads one.
    ///
    /// # Errors
    /// Only the deserializer's own.
    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Arc<str>>, D::Error> {
        Ok(Option::<Stored<'_>>::deserialize(deserializer)?.map(|Stored { id, by, fingerprint }| {
            let mut kept = id.into_owned();
            for (mark, part) in [(WHOSE, by), (ASKED, fingerprint)] {
                if let Some(part) = part {
                    kept.push(mark);
                    kept.push_str(&part);
                }
            }
            kept.into()
        }))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::value::RawValue;

    use super::*;
    use crate::journal::run::Raw;

    #[test]
    fn w1_a_kept_id_gives_back_what_was_sent_whose_it_is_and_a_fingerprint_of_what_it_asks_for() {
        let own = kept("r1", None, "birth", &("buy", 5));
        let others = kept("r1", Some("ann"), "birth", &("buy", 5));
        assert_eq!((sent(&own), key(&own), sent(&others), key(&others)), ("r1", "r1", "r1", "r1\u{1f}ann"));
        let print = |kept: &str| fingerprint(kept).expect("a fingerprint").to_owned();
        assert_eq!((print(&own).len(), print(&own)), (FINGERPRINT, print(&others)));
        assert_ne!(print(&own), print(&kept("r1", None, "birth", &("buy", 6))));
        let raw = |text: &str| Raw::of(&serde_json::from_str::<Box<RawValue>>(text).expect("JSON")).expect("JSON");
        let written = |text: &str| print(&kept("r1", None, "birth", &raw(text)));
        assert_eq!(written(r#"{"a":"dry","b":1}"#), written(r#"{ "b": 1, "a": "\u0064ry" }"#), "the same JSON");
        assert_ne!(print(&own), print(&kept("r1", None, "another", &("buy", 5))), "it tells nothing by itself");
        assert_eq!((key("r1"), fingerprint("r1")), ("r1", None));

        #[derive(Debug, PartialEq, Serialize, Deserialize)]
        struct Keeps {
            #[serde(with = "stored")]
            request: Option<std::sync::Arc<str>>,
        }
        let text = |kept: &str| {
            let keeps = Keeps { request: Some(kept.into()) };
            let text = serde_json::to_string(&keeps).expect("text");
            assert_eq!(serde_json::from_str::<Keeps>(&text).expect("read"), keeps);
            text
        };
        assert_eq!(text("r1"), r#"{"request":{"id":"r1"}}"#);
        assert!(text(&others).starts_with(r#"{"request":{"id":"r1","by":"ann","fingerprint":""#));
    }
}
