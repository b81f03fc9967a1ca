//! What a schema check must catch, and what a hostile schema cannot do.

use std::time::{Duration, Instant};

use proptest::prelude::*;
use serde_json::json;

use super::*;

fn errors(schema: &Value, args: &str) -> Vec<(String, String)> {
    let schema = ArgsSchema::compile(schema).expect("a schema");
    let args = Args::parse(args).expect("args");
    schema.check(&args).into_iter().map(|e| (e.pointer, e.message)).collect()
}

fn refused(schema: &Value) -> String {
    ArgsSchema::compile(schema).map(|_| ()).expect_err("refused")
}

#[test]
fn m3_arguments_that_break_the_schema_are_told_where_and_why() {
    let schema = json!({
        "type": "object",
        "required": ["symbol"],
        "properties": {
            "symbol": { "type": "string", "pattern": "^[A-Z]{1,5}$" },
            "quantity": { "type": "integer", "minimum": 1 },
            "legs": { "type": "array", "items": { "enum": ["a", "b"] } },
        },
        "additionalProperties": false,
    });
    assert_eq!(errors(&schema, r#"{"symbol":"ABC","quantity":9007199254740993,"legs":["a"]}"#), []);
    let one = |args: &str, pointer: &str, message: &str| {
        assert_eq!(errors(&schema, args), [(pointer.to_owned(), message.to_owned())]);
    };
    one("{}", "", "\"symbol\" is a required property");
    one(r#"{"symbol":"abc"}"#, "/symbol", "\"abc\" does not match \"^[A-Z]{1,5}$\"");
    one(r#"{"symbol":"A","quantity":0}"#, "/quantity", "0 is less than the minimum of 1");
    // A number as it is written, also below a name that a pointer escapes.
    one(r#"{"symbol":"A","quantity":1.10}"#, "/quantity", "1.10 is not of type \"integer\"");
    let inner = json!({ "properties": { "a/b~": { "items": { "maximum": 9 } } } });
    let found = errors(&inner, r#"{"a/b~":[1,1e2]}"#);
    assert_eq!(found, [("/a~1b~0/1".to_owned(), "1e2 is greater than the maximum of 9".to_owned())]);
    one(r#"{"symbol":"A","quantity":"1"}"#, "/quantity", "\"1\" is not of type \"integer\"");
    one(r#"{"symbol":"A","legs":["a","c"]}"#, "/legs/1", "\"c\" is not one of \"a\" or \"b\"");
    one(r#"{"symbol":"A","x":1}"#, "", "Additional properties are not allowed ('x' was unexpected)");
    assert_eq!(errors(&schema, r#"{"quantity":0,"symbol":1}"#).len(), 2);
}

#[test]
fn m3_errors_are_few_and_short() {
    let schema = json!({ "properties": { "l": { "items": { "type": "integer" } } } });
    let items = vec![format!("{:?}", "ü".repeat(1000)); 100].join(",");
    let found = errors(&schema, &format!(r#"{{"l":[{items}]}}"#));
    assert_eq!(found.len(), SCHEMA_ERRORS);
    assert!(found.iter().all(|(_, message)| message.chars().count() <= MESSAGE_CHARS));
    let names = (0..1000).map(|i| format!("\"property_{i}\":1")).collect::<Vec<_>>().join(",");
    let found = errors(&json!({ "additionalProperties": false }), &format!("{{{names}}}"));
    assert!(found.iter().all(|(_, message)| message.chars().count() <= MESSAGE_CHARS));
}

#[test]
fn x_a_schema_never_reads_a_file_or_the_network() {
    for reference in [
        "http://127.0.0.1:1/schema.json",
        "https://example.com/schema.json",
        "file:///etc/passwd",
        "other.json",
        "//example.com/x",
        "#anchor",
        "#/%24defs/a",
        "",
    ] {
        for schema in [
            json!({ "$ref": reference }),
            json!({ "properties": { "a": { "allOf": [{ "$ref": reference }] } } }),
            json!({ "patternProperties": { "x": { "items": [{ "$ref": reference }] } } }),
        ] {
            assert!(refused(&schema).contains("only places in the same schema"), "{reference}");
        }
    }
    assert!(refused(&json!({ "$schema": "http://127.0.0.1:1/meta.json" })).contains("127.0.0.1"));
    assert!(refused(&json!({ "properties": { "a": { "$id": "http://x/" } } })).contains("inner `$id`"));
    assert!(refused(&json!({ "$dynamicRef": "#a" })).contains("`$dynamicRef` is not supported"));
    // A reference in a keyword that is not walked must not be fetched either.
    let hidden = json!({ "$defs": { "a": { "$ref": "http://127.0.0.1:1/x" } } });
    let start = Instant::now();
    let _ = ArgsSchema::compile(&hidden);
    assert!(start.elapsed() < Duration::from_secs(2));
}

#[test]
fn a_property_may_have_the_name_of_a_keyword() {
    let schema = json!({ "properties": { "$ref": { "type": "string" }, "$id": { "type": "integer" }, "id": { "type": "string" } } });
    assert_eq!(errors(&schema, r#"{"$ref":"http://x","$id":1,"id":"a"}"#), []);
    assert_eq!(errors(&schema, r#"{"$ref":1}"#).len(), 1);
    let schema = json!({ "$schema": "http://json-schema.org/draft-07/schema#", "$id": "http://x/", "type": "object" });
    assert_eq!(errors(&schema, "{}"), []);
}

#[test]
fn the_schema_of_a_type_does_not_name_the_draft_that_is_meant_anyway() {
    let schema = schema_of::<SchemaError>();
    assert_eq!((&schema["type"], schema.get("$schema")), (&json!("object"), None), "{schema}");
}

#[test]
fn what_is_no_schema_for_arguments_is_refused() {
    assert_eq!(
        refused(&json!({ "type": "string" })),
        "arguments are always an object, but the schema's `type` is \"string\""
    );
    assert_eq!(refused(&json!([])), "a schema must be a JSON object");
    assert_eq!(refused(&json!({ "$ref": "#/$defs/none" })), "`$ref` \"#/$defs/none\" leads to nothing");
    let error = refused(&json!({ "properties": { "a": { "type": "strnig" } } }));
    assert!(error.contains("strnig") || error.contains("/properties/a/type"), "{error}");
    assert!(refused(&json!({ "minProperties": "two" })).contains("minProperties"));
}

#[test]
fn r9_a_pattern_cannot_take_for_ever() {
    let schema = json!({ "properties": { "a": { "pattern": "^(a+)+$" } } });
    let start = Instant::now();
    assert_eq!(errors(&schema, &format!(r#"{{"a":"{}!"}}"#, "a".repeat(100_000))).len(), 1);
    assert!(start.elapsed() < Duration::from_secs(5));
    assert!(!refused(&json!({ "properties": { "a": { "pattern": "(?<=a)b" } } })).is_empty());
    assert!(!refused(&json!({ "properties": { "a": { "pattern": "((a{1000}){1000}){1000}" } } })).is_empty());
    assert!(!refused(&json!({ "properties": { "a": { "pattern": "(" } } })).is_empty());
}

#[test]
fn r9_references_in_a_circle_are_refused() {
    for schema in [
        json!({ "$ref": "#" }),
        json!({ "allOf": [{ "$ref": "#" }] }),
        json!({ "$ref": "#/$defs/a", "$defs": { "a": { "$ref": "#/$defs/b" }, "b": { "not": { "$ref": "#/$defs/a" } } } }),
    ] {
        assert!(refused(&schema).contains("circle"), "{schema}");
    }
}

#[test]
fn r9_references_that_multiply_are_refused() {
    for (one, two) in [
        (r#"{"allOf":[NEXT,NEXT]}"#, "allOf"),
        (r#"{"patternProperties":{"a":NEXT,"b":NEXT},"anyOf":[NEXT,NEXT]}"#, "patternProperties"),
    ] {
        let mut definitions = serde_json::Map::new();
        for i in 0..60 {
            let next = format!("{{\"$ref\":\"#/$defs/d{}\"}}", i + 1);
            definitions.insert(format!("d{i}"), serde_json::from_str(&one.replace("NEXT", &next)).expect("json"));
        }
        definitions.insert("d60".to_owned(), json!({ "type": "string" }));
        let start = Instant::now();
        let error = refused(&json!({ "$ref": "#/$defs/d0", "$defs": definitions }));
        assert!(error.contains("too long to check"), "{two}: {error}");
        assert!(start.elapsed() < Duration::from_secs(2), "{two}");
    }
    // Different members are different values: this is wide and not slow.
    let mut definitions = serde_json::Map::new();
    for i in 0..40 {
        let next = json!({ "$ref": format!("#/$defs/d{}", i + 1) });
        definitions.insert(format!("d{i}"), json!({ "properties": { "a": next, "b": next } }));
    }
    definitions.insert("d40".to_owned(), json!({ "type": "string" }));
    let start = Instant::now();
    let _ = ArgsSchema::compile(&json!({ "$ref": "#/$defs/d0", "$defs": definitions })).expect("wide");
    assert!(start.elapsed() < Duration::from_secs(5), "{:?}", start.elapsed());
}

#[test]
fn r9_a_recursive_schema_limits_how_deep_arguments_may_be() {
    let tree = json!({
        "type": "object",
        "properties": { "left": { "$ref": "#" }, "right": { "$ref": "#" }, "n": { "type": "integer" } },
    });
    let nested = |n: usize, key: &str| format!("{}{{}}{}", format!("{{\"{key}\":").repeat(n), "}".repeat(n));
    assert_eq!(errors(&tree, &nested(60, "left")), []);
    // Every branch is tried at every level: 3 to the power of the depth.
    let expression = json!({
        "anyOf": [
            { "properties": { "kind": { "const": "and" }, "of": { "$ref": "#" } }, "required": ["kind"] },
            { "properties": { "kind": { "const": "or" }, "of": { "$ref": "#" } }, "required": ["kind"] },
            { "properties": { "kind": { "const": "not" }, "of": { "$ref": "#" } }, "required": ["kind"] },
        ],
    });
    let start = Instant::now();
    let found = errors(&expression, &nested(60, "of"));
    assert!(found[0].1.starts_with("nested too deeply for this schema; at most "), "{found:?}");
    assert_eq!(errors(&expression, r#"{"kind":"and","of":{"kind":"not","of":{"kind":"or"}}}"#), []);
    assert!(!errors(&expression, &nested(7, "of")).is_empty());
    assert!(start.elapsed() < Duration::from_secs(5), "{:?}", start.elapsed());
}

#[test]
fn r9_a_large_or_deep_schema_is_refused() {
    let mut deep = json!({});
    for _ in 0..70 {
        deep = json!({ "not": deep });
    }
    assert!(refused(&deep).contains("nested too deeply"));
    let mut allowed = json!({});
    for _ in 0..30 {
        allowed = json!({ "properties": { "a": allowed } });
    }
    let _ = ArgsSchema::compile(&allowed).expect("60 levels");
    assert!(refused(&json!({ "description": "x".repeat(SCHEMA_BYTES) })).contains("bytes"));
    let chain = |links: usize| {
        let mut chain: serde_json::Map<String, Value> = (0..links)
            .map(|i| (format!("d{i}"), json!({ "allOf": [{ "$ref": format!("#/$defs/d{}", i + 1) }] })))
            .collect();
        chain.insert(format!("d{links}"), json!({ "type": "object" }));
        json!({ "$ref": "#/$defs/d0", "$defs": chain })
    };
    assert!(refused(&chain(1000)).contains("too long a chain"));
    let schema = chain(70);
    assert_eq!(errors(&schema, "{}"), []);
}

#[test]
fn r9_large_arguments_are_checked_in_time() {
    let unique =
        json!({ "properties": { "l": { "uniqueItems": true, "contains": { "const": 0 }, "maxContains": 2 } } });
    let required: Vec<String> = (0..2000).map(|i| format!("p{i}")).collect();
    let many = json!({ "additionalProperties": { "required": required, "enum": (0..2000).collect::<Vec<_>>() } });
    let start = Instant::now();
    for item in ["[N]", "{\"a\":N}", "N", "\"N\"", "[[[N]]]", "N.5"] {
        let items = (0..17_000).map(|i| item.replace('N', &i.to_string())).collect::<Vec<_>>().join(",");
        let _ = errors(&unique, &format!(r#"{{"l":[{items}]}}"#));
    }
    let members = (0..17_000).map(|i| format!("\"m{i}\":{{}}")).collect::<Vec<_>>().join(",");
    let found = errors(&many, &format!("{{{members}}}"));
    assert_eq!(found, [(String::new(), "does not fit the tool's schema (too large to say where)".to_owned())]);
    assert!(start.elapsed() < Duration::from_secs(20), "{:?}", start.elapsed());
}

fn any_schema() -> impl Strategy<Value = Value> {
    let keyword = prop::sample::select(vec![
        "type",
        "properties",
        "items",
        "$ref",
        "allOf",
        "anyOf",
        "oneOf",
        "not",
        "if",
        "then",
        "enum",
        "const",
        "pattern",
        "patternProperties",
        "required",
        "minimum",
        "multipleOf",
        "maxLength",
        "additionalProperties",
        "$defs",
        "unevaluatedProperties",
        "contains",
        "minContains",
        "propertyNames",
        "dependencies",
        "$schema",
        "$id",
        "prefixItems",
        "dependentSchemas",
        "dependentRequired",
        "a",
        "uniqueItems",
        "format",
    ]);
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        prop::sample::select(vec![
            "#",
            "#/$defs/a",
            "#/properties/a",
            "object",
            "string",
            "^a*$",
            "[",
            "http://x",
            "a"
        ])
        .prop_map(Value::from),
    ];
    leaf.prop_recursive(5, 40, 5, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::vec((keyword.clone(), inner), 0..5)
                .prop_map(|m| Value::Object(m.into_iter().map(|(k, v)| (k.to_owned(), v)).collect())),
        ]
    })
}

proptest! {
    #[test]
    fn r9_any_schema_gives_an_answer(schema in any_schema()) {
        if let Ok(schema) = ArgsSchema::compile(&schema) {
            for args in ["{}", r#"{"a":{"a":[1,"a",{"a":null}]}}"#, r#"{"a":1.5,"b":"aaa"}"#] {
                let _ = schema.check(&Args::parse(args).expect("args"));
            }
        }
    }
}

#[test]
fn s13_what_is_wrong_with_one_of_several_alternatives_is_said_at_its_place() {
    let schema = ArgsSchema::of_any(&json!({ "type": "object", "oneOf": [
        { "type": "object", "required": ["action", "content"], "properties": {
            "action": { "const": "accept" },
            "content": { "type": "object", "required": ["n"], "properties": {
                "n": { "type": "integer", "minimum": 1 }, "size": { "enum": ["s", "m"] } } } } },
        { "type": "object", "required": ["action"], "properties": { "action": { "enum": ["decline", "cancel"] } },
          "additionalProperties": false },
    ] }))
    .unwrap();
    let pointers =
        |value: Value| -> Vec<String> { schema.check_value(&value).into_iter().map(|e| e.pointer).collect() };
    let mut wrong = pointers(json!({ "action": "accept", "content": { "n": 0, "size": "xl" } }));
    wrong.sort();
    assert_eq!(wrong, ["/content/n", "/content/size"]);
    assert_eq!(pointers(json!({ "action": "accept", "content": {} })), ["/content"]);
    assert!(schema.check_value(&json!({ "action": "decline", "why": 1 }))[0].message.contains("why"));
    // Nothing shows which one was meant.
    for unclear in [json!({}), json!({ "action": "maybe" }), json!("accept")] {
        assert!(pointers(unclear).iter().all(String::is_empty));
    }
}
