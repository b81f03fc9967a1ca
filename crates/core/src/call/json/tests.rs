//! Tests of reading and writing JSON.

use std::collections::BTreeMap;

use super::*;
use proptest::prelude::*;

fn parse(text: &str) -> Result<Json, JsonError> {
    Json::parse(text, 64)
}

#[test]
fn r8_a_recorded_text_keeps_any_number_and_nests_as_deep_as_a_record() {
    let deep = limits::RECORDED_JSON_DEPTH;
    let nested = format!("{}1{}", "[".repeat(deep), "]".repeat(deep));
    let text = format!("{{\"id\":340282366920938463463374607431768211455,\"nested\":{nested},\"t\":\"a\u{200b}\"}}");
    assert!(Json::parse(&text, deep + 8).is_err());
    let read = Json::parse_recorded(&text, deep + 8).expect("a body");
    assert_eq!(read.canonical(), text);
}

#[test]
fn what_would_be_shown_wrong_is_refused() {
    for (text, part) in [
        (r#"{"to":"a","to":"b"}"#, "duplicate key"),
        (r#"{"to":"a","\u0074o":"b"}"#, "duplicate key"),
        (r#""\ud800""#, "lone surrogate"),
        (r#""\ud800\u0041""#, "lone surrogate"),
        ("01", "not a JSON number"),
        ("[1,]", "expected a JSON value"),
        ("{} {}", "after the JSON value"),
        ("\"a\u{1}\"", "control character"),
        ("\"a", "does not end"),
        ("nul", "expected a JSON value"),
        ("", "ends where a value"),
    ] {
        let error = parse(text).expect_err(text);
        assert!(error.message.contains(part), "{text}: {error}");
    }
}

/// The forms of the TypeScript packages follow the same rule, and are tested with the same numbers.
#[test]
fn numbers_keep_their_text_or_are_refused() {
    let text = include_str!("../../../../../tests/formats/numbers.json");
    let numbers: BTreeMap<String, Vec<String>> = serde_json::from_str(text).expect("numbers");
    for text in &numbers["exact"] {
        assert_eq!(parse(text).expect(text).canonical(), *text);
    }
    for text in &numbers["inexact"] {
        let error = parse(text).expect_err(text);
        assert!(error.message.contains("cannot be held exactly"), "{text}: {error}");
    }
}

#[test]
fn deep_nesting_is_an_error_and_not_a_stack_overflow() {
    let text = "[".repeat(10_000) + &"]".repeat(10_000);
    assert!(parse(&text).expect_err("deep").message.contains("too deeply"));
}

#[test]
fn canonical_form_is_rfc_8785_but_for_numbers() {
    // The key order of RFC 8785 §3.2.3.
    let text = r#"{"\u20ac":"Euro Sign","\r":"Carriage Return","\ufb33":"Hebrew","1":"One","\ud83d\ude00":"Emoji","\u0080":"Control","\u00f6":"o"}"#;
    let canonical = parse(text).expect("rfc").canonical();
    let order: Vec<usize> = ["Carriage", "One", "Control", "\"o\"", "Euro", "Emoji", "Hebrew"]
        .iter()
        .map(|w| canonical.find(w).expect("word"))
        .collect();
    assert!(order.is_sorted(), "{canonical}");
}

fn any_json() -> impl Strategy<Value = Json> {
    let leaf = prop_oneof![
        Just(Json::Null),
        any::<bool>().prop_map(Json::Bool),
        any::<i64>().prop_map(|n| Json::Number(n.to_string())),
        any::<f64>().prop_filter("finite", |f| f.is_finite()).prop_map(|n| Json::Number(format!("{n:e}"))),
        any::<String>().prop_map(Json::String),
    ];
    leaf.prop_recursive(4, 40, 6, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..6).prop_map(Json::Array),
            proptest::collection::btree_map(any::<String>(), inner, 0..6)
                .prop_map(|m| Json::Object(m.into_iter().collect())),
        ]
    })
}

/// A program that reads it with serde_json gets the path `/etc/passwd`, of which a reviewer reads only escapes.
#[test]
fn r1_a_key_in_whose_place_programs_read_something_else_is_refused() {
    for key in ["$serde_json::private::RawValue", "\\u0024serde_json::private::Number"] {
        let text = format!(r#"{{"path":{{"{key}":"\"\\u002fetc\\u002fpasswd\""}}}}"#);
        let refused = Json::parse(&text, 64).expect_err(key);
        assert!(refused.message.contains("is reserved") && refused.offset == 9, "{refused}");
    }
    // As any other text it is what it says.
    assert!(parse(r#"["$serde_json::private::RawValue"]"#).is_ok());
}

proptest! {
    #[test]
    fn canonical_text_reads_back_as_itself(json in any_json()) {
        let text = json.canonical();
        let back = Json::parse(&text, 64).expect("own output");
        prop_assert_eq!(&back.canonical(), &text);
        let serde: serde_json::Value = serde_json::from_str(&text).expect("serde reads it too");
        let again: serde_json::Value = serde_json::from_str(&back.canonical()).expect("again");
        prop_assert_eq!(serde, again);
    }

    #[test]
    fn any_text_gives_an_answer(text in ".{0,200}") {
        let ours = Json::parse(&text, 64);
        if ours.is_ok() {
            prop_assert!(serde_json::from_str::<serde_json::Value>(&text).is_ok());
        }
    }
}
