//! `/openapi.json`, made of the table of routes and of the types they really use.

use countersign::core::refusal::Code;
use schemars::{SchemaGenerator, generate::SchemaSettings};
use serde_json::{Map, Value, json};

use super::{
    route::{Answer, Kind, Parameter, Route},
    routes::ROUTES,
};
use crate::problem::{PROBLEM_JSON, Problem};

/// The OpenAPI 3.1 document of the HTTP interface. It is checked in as `docs/openapi.json`, and a test fails
/// when the two differ.
#[must_use]
pub fn openapi() -> Value {
    let settings = SchemaSettings::draft2020_12().with(|settings| {
        settings.definitions_path = "/components/schemas".into();
        settings.meta_schema = None;
    });
    let mut generator = settings.into_generator();
    let problem = generator.subschema_for::<Problem>();
    let mut paths = Map::new();
    for route in ROUTES {
        let operation = operation(route, &mut generator);
        let path = paths.entry(route.path).or_insert_with(|| json!({}));
        path[route.method] = operation;
    }
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Countersign",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "Agents whose dangerous tool calls wait for a person. \
                            All of the WebSocket protocol, without a WebSocket.",
        },
        "paths": paths,
        "components": {
            "securitySchemes": { "token": { "type": "http", "scheme": "bearer" } },
            "responses": {
                "Problem": {
                    "description": "Refused; nothing changed. `code` says why (RFC 9457).",
                    "content": { (PROBLEM_JSON): { "schema": problem } },
                },
            },
            "schemas": generator.take_definitions(true),
        },
    })
}

fn operation(route: &Route, generator: &mut SchemaGenerator) -> Value {
    let mut parameters: Vec<Value> = path_parameters(route.path).collect();
    parameters.extend(route.parameters.iter().map(parameter));
    let mut operation = json!({
        "operationId": route.id,
        "summary": route.summary,
        "parameters": parameters,
        "responses": responses(route, generator),
    });
    if let Some(body) = route.body {
        operation["requestBody"] = json!({ "content": { "application/json": { "schema": body(generator) } } });
    }
    // Without [auth] no token is needed.
    if !route.open {
        operation["security"] = json!([{ "token": [] }, {}]);
    }
    operation
}

fn path_parameters(path: &str) -> impl Iterator<Item = Value> {
    path.split('/')
        .filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'))
        .map(|name| json!({ "in": "path", "name": name, "required": true, "schema": { "type": "string" } }))
}

fn parameter(parameter: &Parameter) -> Value {
    let schema = match parameter.kind {
        Kind::Text => json!({ "type": "string" }),
        Kind::Whole => json!({ "type": "integer", "minimum": 0 }),
        Kind::Flag => json!({ "type": "boolean" }),
        Kind::OneOf(values) => json!({ "enum": values }),
    };
    json!({ "in": parameter.place, "name": parameter.name, "description": parameter.about, "schema": schema })
}

fn responses(route: &Route, generator: &mut SchemaGenerator) -> Value {
    let mut responses = json!({ "default": { "$ref": "#/components/responses/Problem" } });
    for answer in route.answers {
        add(&mut responses[answer.status.to_string()], answer, generator);
    }
    let mut codes: Vec<Code> = route.refusals.to_vec();
    if codes.contains(&Code::StoreUnavailable) {
        codes.push(Code::StoreClosed);
    }
    if !route.open {
        codes.extend([Code::Unauthenticated, Code::Forbidden]);
    }
    for code in codes {
        let response = &mut responses[code.http_status().to_string()];
        if response.is_null() {
            *response = json!({ "$ref": "#/components/responses/Problem", "description": "" });
        }
        let known = response["description"].as_str().unwrap_or_default();
        let name = format!("`{}`", code.name());
        if !known.contains(&name) {
            let all = if known.is_empty() { name } else { format!("{known}, {name}") };
            response["description"] = json!(all);
        }
    }
    responses
}

/// Two answers of one status are alternatives.
fn add(response: &mut Value, answer: &Answer, generator: &mut SchemaGenerator) {
    let known = response["description"].as_str().unwrap_or_default();
    let about = if known.is_empty() { answer.about.to_owned() } else { format!("{known} {}", answer.about) };
    response["description"] = json!(about);
    if answer.media.is_empty() {
        return;
    }
    let schema = answer.schema.map_or_else(|| json!({ "type": "string" }), |schema| schema(generator).to_value());
    let media = &mut response["content"][answer.media]["schema"];
    *media = match media.take() {
        Value::Null => schema,
        first => json!({ "oneOf": [first, schema] }),
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `UPDATE_GOLDEN=1 cargo test` writes the files anew.
    fn golden(name: &str, value: &Value) {
        let path = format!("{}/../../docs/{name}", env!("CARGO_MANIFEST_DIR"));
        // In the order that it has without features of serde_json that other crates turn on.
        let value = countersign::core::call::plain::as_plain(value);
        let text = serde_json::to_string_pretty(&*value).expect("JSON") + "\n";
        if std::env::var_os("UPDATE_GOLDEN").is_some() {
            std::fs::write(&path, &text).expect("docs can be written");
        }
        let stored = std::fs::read_to_string(&path).unwrap_or_default();
        assert!(stored == text, "docs/{name} is not what the code says; run UPDATE_GOLDEN=1 cargo test");
    }

    #[test]
    fn w8_the_checked_in_openapi_document_is_this_one() {
        golden("openapi.json", &openapi());
    }

    #[test]
    fn w1_the_checked_in_wire_schema_is_this_one() {
        golden("wire.schema.json", &countersign::core::wire::schema::wire_schema());
    }

    #[test]
    fn w8_every_reference_of_the_document_has_its_definition() {
        fn walk(value: &Value, root: &Value) {
            if let Some(reference) = value.get("$ref").and_then(Value::as_str) {
                let pointer = reference.strip_prefix('#').expect("a local reference");
                assert!(root.pointer(pointer).is_some(), "{reference}");
            }
            match value {
                Value::Object(map) => map.values().for_each(|value| walk(value, root)),
                Value::Array(items) => items.iter().for_each(|value| walk(value, root)),
                _ => {}
            }
        }
        let document = openapi();
        walk(&document, &document);
    }
}
