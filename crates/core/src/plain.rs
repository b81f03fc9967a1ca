//! Values and types that read the same in every build.
//!
//! Cargo builds serde_json once for a program, with the features that any of its crates enables. Two of them change
//! what a [`Value`] is: with `preserve_order` its members are in written order, not sorted by name; with
//! `arbitrary_precision` a number is its text, so that 1.0 is not 1.00, and types that serde buffers get an object in
//! place of a number. Nothing here may depend on another crate's choice: what one build has stored, another loads.
//!
//! Schemas, conditions, digests and types that serde buffers therefore get what serde_json makes without either
//! feature, and `cargo xtask test` runs the tests of the core and of the library once in a build that has both.
//!
//! With `raw_value`, which is needed here, serde_json reads another value in place of an object with a member of its own
//! (`OWN_MEMBERS`): what comes from outside must have none.

use std::{borrow::Cow, collections::HashSet, fmt, sync::LazyLock};

use serde::de::{DeserializeOwned, DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Number, Value};

/// The features that other crates have enabled, as detected.
struct Features {
    preserve_order: bool,
    arbitrary_precision: bool,
}

static FEATURES: LazyLock<Features> = LazyLock::new(|| {
    let written = |text: &str| serde_json::from_str::<Value>(text).unwrap_or_default().to_string();
    let kept = |text: &str| written(text) == text;
    Features { preserve_order: kept(r#"{"b":0,"a":0}"#), arbitrary_precision: kept("1.00") }
});

/// The value as serde_json makes it without these features: members sorted by name, numbers as 64-bit integers or
/// doubles.
///
/// For schemas, conditions and comparisons; arguments run as their own text ([`crate::call::args::Args::text`]).
#[must_use]
pub fn as_plain(value: &Value) -> Cow<'_, Value> {
    if FEATURES.preserve_order || FEATURES.arbitrary_precision {
        Cow::Owned(made_plain(value.clone()))
    } else {
        Cow::Borrowed(value)
    }
}

/// Like [`as_plain`], for a value whose original is not needed.
#[must_use]
pub fn made_plain(mut value: Value) -> Value {
    if FEATURES.preserve_order {
        value.sort_all_objects();
    }
    if FEATURES.arbitrary_precision {
        doubles(&mut value);
    }
    value
}

/// Turns numbers that are not 64-bit integers into doubles.
fn doubles(value: &mut Value) {
    match value {
        Value::Number(number) => {
            let double = match number.as_i64() {
                // serde_json reads it as a double, the only one that is written without a point.
                Some(0) if number.to_string().starts_with('-') => Some(-0.0),
                Some(_) => None,
                None if number.is_u64() => None,
                None => number.as_f64(),
            };
            if let Some(double) = double.and_then(Number::from_f64) {
                *number = double;
            }
        }
        Value::Array(items) => items.iter_mut().for_each(doubles),
        Value::Object(members) => members.values_mut().for_each(doubles),
        Value::Null | Value::Bool(_) | Value::String(_) => {}
    }
}

/// Reads a value in the form that [`as_plain`] gives it.
///
/// # Errors
/// The text is not JSON, or has a number that no double can hold.
pub fn value(text: &str) -> Result<Value, serde_json::Error> {
    let value = serde_json::from_str(text)?;
    // Without the feature it is not read at all.
    if FEATURES.arbitrary_precision && is_beyond_doubles(&value) {
        return Err(serde::de::Error::custom("number out of range"));
    }
    Ok(made_plain(value))
}

/// The name of a duplicate member in an object of a JSON text, at any depth: ordinary parsers silently keep the last
/// one. `None` if there is none, or the text is not JSON.
#[must_use]
pub fn member_twice(text: &str) -> Option<String> {
    let mut twice = None;
    // The reader reports text that is not JSON.
    let _ = Once(&mut twice).deserialize(&mut serde_json::Deserializer::from_str(text));
    twice
}

/// Reads a value, and notes a duplicate member.
struct Once<'a>(&'a mut Option<String>);

impl<'de> DeserializeSeed<'de> for Once<'_> {
    type Value = ();
    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Once<'_> {
    type Value = ();
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }
    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }
    fn visit_bool<E>(self, _: bool) -> Result<(), E> {
        Ok(())
    }
    fn visit_i64<E>(self, _: i64) -> Result<(), E> {
        Ok(())
    }
    fn visit_u64<E>(self, _: u64) -> Result<(), E> {
        Ok(())
    }
    fn visit_f64<E>(self, _: f64) -> Result<(), E> {
        Ok(())
    }
    fn visit_str<E>(self, _: &str) -> Result<(), E> {
        Ok(())
    }
    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        while items.next_element_seed(Once(self.0))?.is_some() {}
        Ok(())
    }
    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<(), A::Error> {
        let mut known = HashSet::new();
        while let Some(name) = members.next_key::<String>()? {
            members.next_value_seed(Once(self.0))?;
            if let Some(twice) = known.replace(name) {
                self.0.get_or_insert(twice);
            }
        }
        Ok(())
    }
}

/// How serde_json begins the names of members that are its own. In place of an object with one it reads what the member's
/// text says, as JSON: a program would get another value than a person was shown.
pub(crate) const OWN_MEMBERS: &str = "$serde_json::private::";
/// The name under which it asks for raw text.
pub(crate) const RAW_TEXT: &str = "$serde_json::private::RawValue";

/// Whether an object of a JSON text, at any depth, has a member with such a name: nobody has counted the values in its
/// text.
#[must_use]
pub fn has_own_members(text: &str) -> bool {
    let is_own = |name: &str| {
        // Most names have no escapes.
        (name.contains('\\') || name[1..].starts_with(OWN_MEMBERS))
            && serde_json::from_str::<String>(name).is_ok_and(|name| name.starts_with(OWN_MEMBERS))
    };
    let mut rest = text;
    while let Some(at) = rest.find('"') {
        let (string, after) = rest[at..].split_at(string_bytes(&rest[at..]));
        if after.trim_start().starts_with(':') && is_own(string) {
            return true;
        }
        rest = after;
    }
    false
}

/// The length of the string with which a JSON text begins, its quotes too.
fn string_bytes(json: &str) -> usize {
    let mut escaped = false;
    let end = json.bytes().skip(1).position(|byte| {
        let closes = byte == b'"' && !escaped;
        escaped = byte == b'\\' && !escaped;
        closes
    });
    end.map_or(json.len(), |end| end + 2)
}

fn is_beyond_doubles(value: &Value) -> bool {
    match value {
        Value::Number(number) => number.as_f64().is_none(),
        Value::Array(items) => items.iter().any(is_beyond_doubles),
        Value::Object(members) => members.values().any(is_beyond_doubles),
        Value::Null | Value::Bool(_) | Value::String(_) => false,
    }
}

/// Reads a type from a JSON text, including one that serde buffers (`tag`, `untagged`, `flatten`), which needs the
/// numbers of [`as_plain`] values wherever `arbitrary_precision` is enabled.
///
/// # Errors
/// The text is not JSON, or not of that type.
pub fn read<T: DeserializeOwned>(text: &str) -> Result<T, serde_json::Error> {
    serde_json::from_str(text).or_else(|error| buffered(text).ok_or(error))
}

/// What [`read`] finds in plain values, where reading the text directly fails.
#[must_use]
pub fn buffered<T: DeserializeOwned>(text: &str) -> Option<T> {
    if !FEATURES.arbitrary_precision {
        return None;
    }
    let value = serde_json::from_str(text).ok()?;
    serde_json::from_value(made_plain(value)).ok()
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::*;

    #[test]
    fn s23_a_member_that_stands_twice_is_found_at_any_depth() {
        for (text, twice) in [
            (r#"{"a":1,"n":1,"n":2}"#, Some("n")),
            (r#"{"a":1,"\u0061":2}"#, Some("a")),
            (r#"[{"a":{"b":[{"c":1.5,"c":null}]}}]"#, Some("c")),
            (r#"{"a":{"a":{"a":"a"}},"b":[{"a":-1},{"a":true}]}"#, None),
            (r#"{"n":18446744073709551616,"m":1e400}"#, None),
            ("[1,2,2]", None),
            ("not JSON", None),
        ] {
            assert_eq!(member_twice(text).as_deref(), twice, "{text}");
        }
    }

    #[test]
    fn r1_r9_members_of_serde_jsons_own_are_found_however_they_are_written() {
        for (text, has) in [
            (r#"[{"a":{"$serde_json::private::RawValue":"1"}}]"#, true),
            (r#"{"b\"":1.5,"\u0024serde_json::private::Number" : "1"}"#, true),
            (r#"{"\u0024serde_json":["$serde_json::private::RawValue"],"\\":"$serde_json::private::Number"}"#, false),
            (r#"{"$serde_json::private::RawVal"#, false),
            ("{\"", false),
        ] {
            assert_eq!(has_own_members(text), has, "{text}");
        }
        // What the check is for.
        let read: Value = serde_json::from_str(r#"{"$serde_json::private::RawValue":"[1]"}"#).expect("JSON");
        assert_eq!(read, serde_json::json!([1]));
    }

    /// As it is written where neither feature is enabled.
    #[test]
    fn s21_a_value_is_the_same_whatever_features_other_crates_ask_for() {
        let text = r#"{"z":[1.00,-0,1e2,18446744073709551615,-9223372036854775808,0.1,18446744073709551616],"a":{"c":1,"b":2}}"#;
        let value: Value = serde_json::from_str(text).expect("JSON");
        assert_eq!(
            as_plain(&value).to_string(),
            r#"{"a":{"b":2,"c":1},"z":[1.0,-0.0,100.0,18446744073709551615,-9223372036854775808,0.1,1.8446744073709552e+19]}"#
        );
        assert_eq!(as_plain(&as_plain(&value)), as_plain(&value));
        assert_eq!(super::value(text).expect("JSON"), *as_plain(&value));
        assert!(super::value("[1e400]").is_err());
    }

    #[test]
    fn s1_types_that_serde_buffers_have_their_numbers() {
        #[derive(Debug, PartialEq, Deserialize)]
        #[serde(tag = "kind", rename_all = "snake_case")]
        enum Shape {
            Circle { radius: f64, at: (i64, u64) },
        }
        #[derive(Debug, PartialEq, Deserialize)]
        struct Drawn {
            #[serde(flatten)]
            shape: Shape,
            layer: u32,
        }
        let drawn: Drawn =
            read(r#"{"kind":"circle","radius":1.50,"at":[-9007199254740993,9007199254740993],"layer":2}"#)
                .expect("read");
        let shape = Shape::Circle { radius: 1.5, at: (-9_007_199_254_740_993, 9_007_199_254_740_993) };
        assert_eq!(drawn, Drawn { shape, layer: 2 });
        let refused = read::<Drawn>(r#"{"kind":"circle","radius":"1.5","at":[1,2],"layer":2}"#);
        assert!(refused.is_err(), "{refused:?}");
        assert!(read::<u8>("{").is_err());
    }
}
