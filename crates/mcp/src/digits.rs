//! Numbers in a result that the protocol's library would round.

use std::{borrow::Cow, collections::BTreeMap};

use countersign_core::{call::json::Json, limits};
use serde_json::value::RawValue;

const STRUCTURED: &str = "structuredContent";

/// The message with every number of its structured content that would lose digits as a string; `None` if there is none.
/// Nothing else changes: in a schema a string would mean something else.
pub(crate) fn kept(message: &str) -> Option<String> {
    if !message.contains(STRUCTURED) {
        return None;
    }
    let structured = member(member(message, "result")?, STRUCTURED)?;
    let start = structured.as_ptr().addr().checked_sub(message.as_ptr().addr())?;
    let kept = as_strings(structured)?;
    Some([&message[..start], &kept, &message[start + structured.len()..]].concat())
}

/// JSON with every number that would lose digits as a string; `None` if there is none.
pub(crate) fn as_strings(json: &str) -> Option<String> {
    let (mut kept, mut copied) = (String::new(), 0);
    let mut rest = json;
    while let Some(first) = rest.chars().next() {
        let at = json.len() - rest.len();
        let length = match first {
            '"' => text(rest),
            '-' | '0'..='9' => {
                let is_of_it = |c: char| c.is_ascii_digit() || matches!(c, '-' | '+' | '.' | 'e' | 'E');
                let length = rest.find(|c| !is_of_it(c)).unwrap_or(rest.len());
                if is_lost(&rest[..length]) {
                    kept.extend([&json[copied..at], "\"", &rest[..length], "\""]);
                    copied = at + length;
                }
                length
            }
            other => other.len_utf8(),
        };
        rest = &rest[length..];
    }
    (copied > 0).then(|| kept + &json[copied..])
}

/// A member of an object, as it is written.
fn member<'j>(object: &'j str, name: &str) -> Option<&'j str> {
    let members: BTreeMap<Cow<'_, str>, &RawValue> = serde_json::from_str(object).ok()?;
    members.get(name).map(|member| member.get())
}

/// The length of the text with which this begins, its quotes too.
fn text(json: &str) -> usize {
    let mut escaped = false;
    let end = json[1..].find(|c| {
        let closes = c == '"' && !escaped;
        escaped = c == '\\' && !escaped;
        closes
    });
    end.map_or(json.len(), |end| end + 2)
}

/// Neither a 64-bit integer nor a double holds it.
fn is_lost(number: &str) -> bool {
    Json::parse(number, limits::JSON_DEPTH).is_err()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn s13_numbers_of_a_structured_content_that_would_lose_digits_become_texts() {
        let message = |structured: &str| {
            format!(
                r#"{{"id":1,"result":{{"content":[],"max":1234567890123456789012,"structuredContent":{structured}}}}}"#
            )
        };
        let many = r#"{"id":123456789012345678901234567890,"p":1.10,"a\"1":[-0.12345678901234567890123,"1234567890123456789012"],"n":18446744073709551615}"#;
        let text = r#"{"id":"123456789012345678901234567890","p":1.10,"a\"1":["-0.12345678901234567890123","1234567890123456789012"],"n":18446744073709551615}"#;
        assert_eq!(kept(&message(many)), Some(message(text)));
        for same in [r#"{"a":1,"b":0.1,"c":1e3,"d":9007199254740993}"#, "null", "{", "\"1234567890123456789012\""] {
            assert_eq!(kept(&message(same)), None, "{same}");
        }
    }
}
