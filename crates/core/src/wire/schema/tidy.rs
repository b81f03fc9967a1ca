//! Schemas in the form that client generators accept.

use serde_json::{Map, Value, json};

/// Keywords whose value is one schema.
const ONE: [&str; 4] = ["items", "additionalProperties", "contains", "not"];
/// Keywords whose value is a list of schemas.
const LIST: [&str; 4] = ["anyOf", "oneOf", "allOf", "prefixItems"];
/// Keywords whose value maps names to schemas.
const NAMED: [&str; 5] = ["properties", "$defs", "schemas", "patternProperties", "definitions"];

/// No `true` for "anything", no `default: null`; an optional member is left out, never `null`, and a union of single
/// strings becomes an `enum`.
pub(super) fn tidy(document: &mut Value) {
    each_schema(document, &mut |schema| {
        texts(schema);
        // `minimum` covers it; as a format only Rust knows it.
        if schema.get("format").and_then(Value::as_str).is_some_and(|format| format.starts_with("uint")) {
            schema.remove("format");
        }
        for keyword in ONE.iter().filter(|keyword| **keyword != "additionalProperties") {
            schema.get_mut(*keyword).map(some);
        }
        for keyword in LIST {
            schema.get_mut(keyword).and_then(Value::as_array_mut).into_iter().flatten().for_each(some);
        }
        let required = schema.get("required").cloned().unwrap_or_default();
        let required = |name: &str| required.as_array().is_some_and(|all| all.iter().any(|known| known == name));
        for (name, member) in schema.get_mut("properties").and_then(Value::as_object_mut).into_iter().flatten() {
            some(member);
            if let Value::Object(member) = member {
                if member.get("default").is_some_and(Value::is_null) {
                    member.remove("default");
                }
                if !required(name) {
                    not_null(member);
                }
            }
        }
    });
}

/// Turns a union of single strings into an `enum`, with the meaning of each in its description.
fn texts(schema: &mut Map<String, Value>) {
    let Some(alternatives) = schema.get("oneOf").and_then(Value::as_array) else { return };
    let Some(values) = alternatives.iter().map(|one| one["const"].as_str()).collect::<Option<Vec<&str>>>() else {
        return;
    };
    let mut about = schema.get("description").and_then(Value::as_str).unwrap_or_default().to_owned();
    for (value, alternative) in values.iter().zip(alternatives) {
        if let Some(meaning) = alternative["description"].as_str() {
            about.push_str(&format!("\n- `{value}`: {meaning}"));
        }
    }
    let values = json!(values);
    schema.remove("oneOf");
    schema.extend([("type".to_owned(), json!("string")), ("enum".to_owned(), values)]);
    schema.insert("description".to_owned(), Value::String(about));
}

fn some(schema: &mut Value) {
    if *schema == Value::Bool(true) {
        *schema = json!({});
    }
}

/// The same without `null`, if that is one of several types.
fn not_null(schema: &mut Map<String, Value>) {
    if let Some(Value::Array(types)) = schema.get_mut("type")
        && types.len() > 1
    {
        types.retain(|kind| kind != "null");
        if let [one] = &types[..] {
            let one = one.clone();
            schema.insert("type".to_owned(), one);
        }
    }
    if let Some(Value::Array(values)) = schema.get_mut("enum") {
        values.retain(|value| !value.is_null());
    }
    if let Some(Value::Array(any)) = schema.get_mut("anyOf")
        && any.len() > 1
    {
        any.retain(|schema| schema["type"] != "null");
        if let [Value::Object(one)] = &any[..] {
            let one = one.clone();
            schema.remove("anyOf");
            for (key, value) in one {
                schema.entry(key).or_insert(value);
            }
        }
    }
}

/// Calls `change` with each schema of a document, which may be a schema itself, inner ones first. A member that merely
/// has the name of a keyword is visited too: only schemas have the keywords that are looked for.
pub(super) fn each_schema(value: &mut Value, change: &mut impl FnMut(&mut Map<String, Value>)) {
    match value {
        Value::Object(object) => {
            for (key, inner) in object.iter_mut() {
                if NAMED.contains(&key.as_str()) {
                    inner.as_object_mut().into_iter().flatten().for_each(|(_, inner)| each_schema(inner, change));
                } else if key != "default" && key != "const" && key != "enum" && key != "example" {
                    each_schema(inner, change);
                }
            }
            change(object);
        }
        Value::Array(values) => values.iter_mut().for_each(|inner| each_schema(inner, change)),
        _ => {}
    }
}

/// Calls `change` with each reference of a document.
pub(super) fn each_reference(value: &mut Value, change: &mut impl FnMut(&mut String)) {
    match value {
        Value::Object(object) => {
            for (key, inner) in object {
                match inner {
                    Value::String(reference) if key == "$ref" => change(reference),
                    _ => each_reference(inner, change),
                }
            }
        }
        Value::Array(values) => values.iter_mut().for_each(|inner| each_reference(inner, change)),
        _ => {}
    }
}
