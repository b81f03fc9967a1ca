//! The schema of a tool's arguments as providers take it.
//!
//! Providers refuse a request, and with it every later one of the session, if the schema of a single tool has
//! alternatives at its top: an enum of a Rust function, or a rule of an MCP server that one of two members must be there.
//! They get a wider schema, with the members of all alternatives, and the rest in words. Arguments are checked by the
//! tool's own schema (spec M3), so what it refuses still goes back to the model.

use std::{
    borrow::Cow,
    collections::{BTreeMap, BTreeSet},
    ptr,
};

use serde_json::{Map, Value, json};

/// What the top of a schema must not have.
const REFUSED: [&str; 6] = ["$ref", "allOf", "anyOf", "oneOf", "not", "enum"];
/// How many parts and members of a schema are looked at: those of a third party may refer to each other many times.
const MEMBERS: usize = 5_000;
/// How deep they are looked for.
const DEPTH: usize = 32;
/// The longest text about what is not in the wider schema, in bytes.
const WORDS: usize = 8 * 1024;

/// The schema, or a wider one that every provider takes.
pub(super) fn for_providers(schema: &Value) -> Cow<'_, Value> {
    let Some(own) = schema.as_object() else { return Cow::Borrowed(schema) };
    if own.get("type").is_some_and(|of| of == "object") && !REFUSED.iter().any(|key| own.contains_key(*key)) {
        return Cow::Borrowed(schema);
    }
    let mut wide = own.clone();
    let rest: Map<String, Value> = REFUSED.iter().filter_map(|key| wide.remove_entry(*key)).collect();
    let members = Members::of(schema, schema, &mut Vec::new(), &mut { MEMBERS });
    wide.insert("type".to_owned(), json!("object"));
    wide.insert(
        "properties".to_owned(),
        members.properties.into_iter().map(|(name, of)| (name.to_owned(), any_of(&of))).collect(),
    );
    if !members.required.is_empty() {
        wide.insert("required".to_owned(), json!(members.required));
    }
    if !rest.is_empty() {
        // They would close it to the members of the alternatives.
        ["additionalProperties", "unevaluatedProperties"].iter().for_each(|key| drop(wide.remove(*key)));
        let words = Value::Object(rest).to_string();
        if words.len() <= WORDS {
            let told =
                own.get("description").and_then(Value::as_str).map(|told| format!("{told}\n\n")).unwrap_or_default();
            let words = format!("{told}The arguments as a whole must also fit this JSON Schema: {words}");
            wide.insert("description".to_owned(), json!(words));
        }
    }
    Cow::Owned(Value::Object(wide))
}

/// One of these schemas.
fn any_of(of: &[&Value]) -> Value {
    if let [only] = of { (*only).clone() } else { json!({ "anyOf": of }) }
}

/// The members that arguments may have, each with its schemas, and those that they must have.
#[derive(Default)]
struct Members<'a> {
    properties: BTreeMap<&'a str, Vec<&'a Value>>,
    required: BTreeSet<&'a str>,
}

impl<'a> Members<'a> {
    /// Those of a part of the schema `root`, within the parts of `path`; `left` is how many more may be looked at.
    fn of(part: &'a Value, root: &'a Value, path: &mut Vec<&'a Value>, left: &mut usize) -> Members<'a> {
        let mut members = Members::default();
        // What is within itself says nothing more about it.
        if path.len() == DEPTH || path.iter().any(|outer| ptr::eq(*outer, part)) {
            return members;
        }
        let properties = part["properties"].as_object();
        let Some(rest) = left.checked_sub(1 + properties.map_or(0, Map::len)) else { return members };
        *left = rest;
        path.push(part);
        members.properties.extend(properties.into_iter().flatten().map(|(name, of)| (name.as_str(), vec![of])));
        members.required.extend(part["required"].as_array().into_iter().flatten().filter_map(Value::as_str));
        let target = part["$ref"].as_str().and_then(|to| root.pointer(to.strip_prefix('#')?));
        for part in target.into_iter().chain(part["allOf"].as_array().into_iter().flatten()) {
            let more = Members::of(part, root, path, left);
            members.required.extend(&more.required);
            members.add(more);
        }
        for key in ["anyOf", "oneOf"] {
            let mut in_all: Option<BTreeSet<&str>> = None;
            for part in part[key].as_array().into_iter().flatten() {
                let one = Members::of(part, root, path, left);
                in_all = Some(in_all.map_or_else(|| one.required.clone(), |all| &all & &one.required));
                members.add(one);
            }
            members.required.extend(in_all.unwrap_or_default());
        }
        path.pop();
        members
    }

    fn add(&mut self, more: Members<'a>) {
        for (name, of) in more.properties {
            let known = self.properties.entry(name).or_default();
            for of in of {
                if !known.iter().any(|one| ptr::eq(*one, of) || *one == of) {
                    known.push(of);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn m1_a_schema_of_members_only_is_sent_as_it_is() {
        let plain = json!({"type": "object", "properties": {"a": {"oneOf": [{"type": "string"}]}}, "additionalProperties": false});
        assert!(matches!(for_providers(&plain), Cow::Borrowed(_)));
    }

    #[test]
    fn m1_alternatives_at_the_top_become_members_and_words() {
        let tagged = json!({
            "$defs": {"Square": {"type": "object", "properties": {"kind": {"const": "square"}, "side": {"type": "number"}}, "required": ["kind", "side"]}},
            "description": "A shape.",
            "properties": {"layer": {"type": "integer"}},
            "required": ["layer"],
            "unevaluatedProperties": false,
            "oneOf": [
                {"type": "object", "properties": {"kind": {"const": "circle"}, "radius": {"type": "number"}}, "required": ["kind", "radius"]},
                {"$ref": "#/$defs/Square"},
            ],
        });
        let wide = for_providers(&tagged).into_owned();
        assert_eq!(wide["type"], "object");
        assert_eq!(
            wide["properties"],
            json!({
                "kind": {"anyOf": [{"const": "circle"}, {"const": "square"}]},
                "layer": {"type": "integer"},
                "radius": {"type": "number"},
                "side": {"type": "number"},
            })
        );
        assert_eq!(wide["required"], json!(["kind", "layer"]), "what every alternative must have");
        let told = wide["description"].as_str().unwrap();
        assert!(
            told.starts_with("A shape.\n\nThe arguments") && told.contains(r##"{"$ref":"#/$defs/Square"}"##),
            "{told}"
        );
        for key in ["oneOf", "unevaluatedProperties"] {
            assert!(wide.get(key).is_none(), "{key}");
        }
        // A rule of a server about members that are there already.
        let rule = json!({"type": "object", "properties": {"a": {}, "b": {}}, "anyOf": [{"required": ["a"]}, {"required": ["b"]}]});
        let wide = for_providers(&rule).into_owned();
        assert_eq!(
            (&wide["properties"], wide.get("required"), wide.get("anyOf")),
            (&json!({"a": {}, "b": {}}), None, None)
        );
    }

    #[test]
    fn r9_a_schema_that_refers_to_itself_many_times_costs_little() {
        let refs = vec![json!({"$ref": "#"}); 100];
        let schema = json!({"type": "object", "properties": {"a": {"type": "string"}}, "allOf": refs});
        assert_eq!(for_providers(&schema)["properties"], json!({"a": {"type": "string"}}));
        // A large part that each of many alternatives is: it is in the wider schema once.
        let large = json!({"properties": {"a": {"enum": (0..10_000).collect::<Vec<_>>()}}, "required": ["a"]});
        let refs = vec![json!({"$ref": "#/$defs/large"}); 250];
        let wide = for_providers(&json!({"$defs": {"large": large}, "anyOf": refs})).into_owned();
        assert_eq!((&wide["properties"], &wide["required"]), (&large["properties"], &json!(["a"])));
        // One behind another.
        let chain: Map<String, Value> =
            (0..3_000).map(|n| (n.to_string(), json!({"$ref": format!("#/$defs/{}", n + 1)}))).collect();
        assert_eq!(for_providers(&json!({"$defs": chain, "$ref": "#/$defs/0"}))["properties"], json!({}));
    }
}
