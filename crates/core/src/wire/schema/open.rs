//! Enumerations that the server writes are open: a later server may have more values, and a client generated from an
//! earlier document reads them as strings.
//!
//! Unions stay as they are, since generators need a fixed value of the discriminating member in each alternative. So a
//! member that discriminates stays closed too.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

/// Opens the enumerations of definitions that are only `written`. One that clients also send stays closed.
pub(super) fn open(definitions: &mut Map<String, Value>, written: &BTreeSet<String>, place: &str) {
    let tags = tags(definitions, place);
    for (name, definition) in
        definitions.iter_mut().filter(|(name, _)| written.contains(*name) && !tags.contains(*name))
    {
        let Value::Object(definition) = definition else { continue };
        if definition.get("enum").and_then(Value::as_array).is_none_or(|values| values.len() <= 1) {
            continue;
        }
        let known = json!({ "type": "string", "enum": definition.remove("enum"), "title": format!("Known{name}") });
        definition.remove("type");
        definition.insert("anyOf".to_owned(), json!([known, { "type": "string" }]));
    }
}

/// The opposite, for a reader that knows all values.
pub(super) fn close(schema: &mut Map<String, Value>) {
    let Some([known, any]) = schema.get("anyOf").and_then(Value::as_array).map(Vec::as_slice) else { return };
    if known["enum"].is_array() && *any == json!({ "type": "string" }) {
        let values = known["enum"].clone();
        schema.remove("anyOf");
        schema.extend([("type".to_owned(), json!("string")), ("enum".to_owned(), values)]);
    }
}

/// The definitions of members that discriminate between the alternatives of a union.
fn tags(definitions: &Map<String, Value>, place: &str) -> BTreeSet<String> {
    let name = |schema: &Value| schema["$ref"].as_str()?.strip_prefix(place).map(str::to_owned);
    let unions = definitions.values().filter_map(|union| {
        let tag = union["discriminator"]["propertyName"].as_str()?;
        Some((tag, union["oneOf"].as_array()?))
    });
    unions
        .flat_map(|(tag, alternatives)| alternatives.iter().map(move |alternative| (tag, alternative)))
        .filter_map(|(tag, alternative)| name(&definitions.get(&name(alternative)?)?["properties"][tag]))
        .collect()
}
