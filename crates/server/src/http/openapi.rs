//! `/openapi.json`, generated from the table of routes and the types they actually use.

use std::sync::LazyLock;

use countersign_core::{refusal::Code, wire::schema::Schemas};
use serde_json::{Map, Value, json};

use super::{
    route::{Answer, Kind, Parameter, Route},
    routes,
};
use crate::problem::{PROBLEM_JSON, Problem};

/// The tags' descriptions, in display order.
const TAGS: &[(&str, &str)] = &[
    ("sessions", "Conversations, and everything that is stored about them."),
    ("approvals", "Pending requests, and deciding them."),
    ("rules", "Decisions that apply to later calls too."),
    ("agents", "The agents, and the graphs they run on."),
    ("graphs", "Graphs of the program that embeds the server."),
    ("audit", "Who was asked what, and who decided what."),
    ("websocket", "The same conversation over one connection."),
    ("operation", "For operators and client generators."),
];

/// The OpenAPI 3.1 document of the HTTP interface. A copy is checked in as `docs/openapi.json`, and a test fails when
/// the two differ.
#[must_use]
pub fn openapi() -> &'static Value {
    static DOCUMENT: LazyLock<Value> = LazyLock::new(made);
    &DOCUMENT
}

fn made() -> Value {
    let mut schemas = Schemas::new("#/components/schemas/");
    let problem = schemas.output::<Problem>();
    let mut paths = Map::new();
    for route in routes::all() {
        let operation = operation(route, &mut schemas);
        let path = paths.entry(route.path).or_insert_with(|| json!({}));
        path[route.method] = operation;
    }
    let tags: Vec<Value> = TAGS.iter().map(|(name, about)| json!({ "name": name, "description": about })).collect();
    let mut document = json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Countersign",
            "version": env!("CARGO_PKG_VERSION"),
            "license": { "name": env!("CARGO_PKG_LICENSE"), "identifier": env!("CARGO_PKG_LICENSE") },
            "description": "Agents whose dangerous tool calls wait for a person. The WebSocket at /v1/ws, for messages, \
                            decisions and events, is described by /asyncapi.json and /wire.schema.json.",
        },
        "servers": [{ "url": "/", "description": "The server that returned this document." }],
        "tags": tags,
        "paths": paths,
        "components": {
            "securitySchemes": { "token": { "type": "http", "scheme": "bearer" } },
            "responses": {
                "Problem": {
                    "description": "Refused; nothing changed, except as `code` says: `outcome_unknown`, `store_closed` (RFC 9457).",
                    "content": { (PROBLEM_JSON): { "schema": problem } },
                },
            },
        },
    });
    let definitions = schemas.finish(&mut document);
    document["components"]["schemas"] = Value::Object(definitions);
    document
}

/// The tag of a path, by its prefix; all others are for operators.
fn tag(path: &str) -> &'static str {
    let under = path.strip_prefix("/v1/").unwrap_or_default().split('/').next().unwrap_or_default();
    let under = if under == "ws" { "websocket" } else { under };
    TAGS.iter().map(|(name, _)| *name).find(|name| *name == under).unwrap_or("operation")
}

fn operation(route: &Route, schemas: &mut Schemas) -> Value {
    let mut parameters: Vec<Value> = path_parameters(route.path).collect();
    parameters.extend(route.parameters.iter().map(parameter));
    let mut operation = json!({
        "operationId": route.id,
        "tags": [tag(route.path)],
        "summary": route.summary,
        "parameters": parameters,
        "responses": responses(route, schemas),
    });
    if let Some(body) = route.body {
        let schema = (body.schema)(schemas);
        operation["requestBody"] =
            json!({ "required": !body.optional, "content": { "application/json": { "schema": schema } } });
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
        Kind::UpTo(u64::MAX) => json!({ "type": "integer", "minimum": 1 }),
        Kind::UpTo(most) => json!({ "type": "integer", "minimum": 1, "maximum": most }),
        Kind::Flag => json!({ "type": "boolean" }),
        Kind::OneOf(values) => json!({ "type": "string", "enum": values }),
        Kind::SomeOf(values) => json!({ "type": "array", "items": { "type": "string", "enum": values } }),
    };
    let mut said =
        json!({ "in": parameter.place, "name": parameter.name, "description": parameter.about, "schema": schema });
    if matches!(parameter.kind, Kind::SomeOf(_)) {
        said["explode"] = json!(false);
    }
    said
}

/// The status of an answer that says where the created resource is.
const CREATED: u16 = 201;

fn responses(route: &Route, schemas: &mut Schemas) -> Value {
    let mut responses = json!({ "default": { "$ref": "#/components/responses/Problem" } });
    for answer in route.answers {
        add(&mut responses[answer.status.to_string()], answer, schemas);
    }
    let mut codes: Vec<(u16, Code)> = route.refusals.iter().map(|code| (code.http_status(), *code)).collect();
    // For its query, if for nothing else.
    let mut more = vec![Code::InvalidMessage];
    if route.body.is_some() {
        more.extend([Code::BadJson, Code::RequestTimeout, Code::TooLarge, Code::UnsupportedMediaType]);
    }
    if route.refusals.contains(&Code::StoreUnavailable) {
        more.extend([Code::OutcomeUnknown, Code::NewerVersionRequired, Code::StoreClosed]);
    }
    if !route.open {
        more.push(Code::Unauthenticated);
    }
    // Foreign origins and unknown host names are refused everywhere.
    more.extend([Code::Forbidden, Code::Internal]);
    codes.extend(more.into_iter().map(|code| (code.http_status(), code)));
    for (status, code) in codes {
        let response = &mut responses[status.to_string()];
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

/// Adds an answer; two of the same status are alternatives.
fn add(response: &mut Value, answer: &Answer, schemas: &mut Schemas) {
    let known = response["description"].as_str().unwrap_or_default();
    let about = if known.is_empty() { answer.about.to_owned() } else { format!("{known} {}", answer.about) };
    response["description"] = json!(about);
    if answer.status == CREATED {
        let schema = json!({ "type": "string", "format": "uri-reference" });
        let location = json!({ "description": "The created resource's path.", "required": true, "schema": schema });
        response["headers"] = json!({ "Location": location });
    }
    if answer.media.is_empty() {
        return;
    }
    let schema = answer.schema.map_or_else(|| json!({ "type": "string" }), |schema| schema(schemas));
    let media = &mut response["content"][answer.media]["schema"];
    *media = match media.take() {
        Value::Null => schema,
        first => json!({ "oneOf": [first, schema] }),
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `UPDATE_GOLDEN=1 cargo test` regenerates the files.
    fn golden(name: &str, value: &Value) {
        let path = format!("{}/../../docs/{name}", env!("CARGO_MANIFEST_DIR"));
        // Key order must not depend on serde_json features that other crates enable.
        let value = countersign_core::plain::as_plain(value);
        let text = serde_json::to_string_pretty(&*value).expect("JSON") + "\n";
        if std::env::var_os("UPDATE_GOLDEN").is_some() {
            std::fs::write(&path, &text).expect("docs can be written");
        }
        let stored = std::fs::read_to_string(&path).unwrap_or_default();
        assert!(stored == text, "docs/{name} is not what the code says; run UPDATE_GOLDEN=1 cargo test");
    }

    #[test]
    fn w8_the_checked_in_openapi_document_is_this_one() {
        golden("openapi.json", openapi());
    }

    #[test]
    fn w8_a_number_of_a_query_is_published_with_the_bounds_that_are_checked() {
        let mut bounded = 0;
        for operation in openapi()["paths"].as_object().into_iter().flatten().map(|(_, path)| &path["get"]) {
            for parameter in operation["parameters"].as_array().into_iter().flatten() {
                let (name, schema) = (parameter["name"].as_str(), &parameter["schema"]);
                let (least, most) = match name {
                    Some("limit" | "last") => (json!(1), true),
                    Some("before") => (json!(1), false),
                    _ if schema["type"] == "integer" => (json!(0), false),
                    _ => continue,
                };
                bounded += usize::from(least == 1);
                assert_eq!((&schema["minimum"], schema["maximum"].is_u64()), (&least, most), "{parameter}");
            }
        }
        assert!(bounded >= 8, "{bounded}");
    }

    #[test]
    fn r12_a_body_that_may_be_left_out_is_documented_so() {
        let mut left_out = Vec::new();
        for (path, operation) in openapi()["paths"].as_object().into_iter().flatten() {
            let Some(post) = operation.get("post") else { continue };
            let schema = &post["requestBody"]["content"]["application/json"]["schema"];
            let schema = schema["$ref"].as_str().and_then(|path| openapi().pointer(path.strip_prefix('#')?));
            let needs_members = schema.is_some_and(|schema| schema.get("required").is_some());
            // It is about nothing without one of its members.
            let needs_one = post["operationId"] == "decideApproval" || post["operationId"] == "reassignApproval";
            let required = &post["requestBody"]["required"];
            assert_eq!(*required, needs_members || needs_one, "{path}");
            left_out.extend((*required == false).then(|| post["operationId"].clone()));
        }
        for id in ["createSession", "cancelTurn", "retrySession", "forkSession", "testWebhook"] {
            assert!(left_out.contains(&json!(id)), "{id}: {left_out:?}");
        }
    }

    #[test]
    fn r12_what_makes_something_is_documented_to_say_where_it_is() {
        let mut made = Vec::new();
        each(openapi(), "", &mut |responses, _| {
            made.extend(responses.get("201").map(|created| created["headers"]["Location"].clone()));
        });
        assert_eq!(made.len(), 3, "a session, a run and a fork");
        assert!(made.iter().all(|location| location["required"] == true), "{made:?}");
    }

    #[test]
    fn r12_the_checked_in_asyncapi_document_is_this_one() {
        golden("asyncapi.json", &crate::http::asyncapi::asyncapi());
    }

    /// Calls `check` with every schema of a document and its path.
    fn each(value: &Value, path: &str, check: &mut impl FnMut(&Map<String, Value>, &str)) {
        match value {
            Value::Object(object) => {
                check(object, path);
                object.iter().for_each(|(key, inner)| each(inner, &format!("{path}/{key}"), check));
            }
            Value::Array(items) => items.iter().for_each(|inner| each(inner, path, check)),
            _ => {}
        }
    }

    #[test]
    fn r12_generators_of_clients_get_along_with_the_documents() {
        for document in [openapi(), &countersign_core::wire::schema::wire_schema()] {
            let mut unions = 0;
            each(document, "", &mut |schema, path| {
                if path.ends_with("/properties") {
                    return;
                }
                for keyword in ["items", "anyOf", "oneOf", "properties"] {
                    let inner = schema.get(keyword).cloned().unwrap_or_default();
                    let none = inner.is_boolean()
                        || inner.as_array().into_iter().flatten().any(Value::is_boolean)
                        || inner.as_object().into_iter().flatten().any(|(_, value)| value.is_boolean());
                    assert!(!none || path.ends_with("/properties"), "a boolean schema at {path}: {schema:?}");
                }
                assert!(schema.get("default") != Some(&Value::Null), "a default of null at {path}");
                assert!(!schema.contains_key("allOf"), "an intersection at {path}");
                let union = ["oneOf", "anyOf", "$ref"].iter().any(|keyword| schema.contains_key(*keyword));
                assert!(!union || !schema.contains_key("properties"), "a union that is an object at {path}");
                unions += usize::from(schema.contains_key("discriminator"));
                if let Some(text) = schema.get("description").and_then(Value::as_str) {
                    for citation in ["(spec", "Spec ", "source 0", "[`"] {
                        assert!(!text.contains(citation), "{path} cites what its reader does not have: {text}");
                    }
                }
            });
            assert!(unions > 4, "unions say what tells their alternatives apart");
        }
    }

    #[test]
    fn r12_decisions_that_are_allowed_are_open_and_those_that_are_sent_are_not() {
        let wire = countersign_core::wire::schema::wire_schema();
        for schemas in [&openapi()["components"]["schemas"], &wire["$defs"]] {
            for name in ["ReviewConfig", "QuestionReview"] {
                let items = &schemas[name]["properties"]["allowed_decisions"]["items"]["$ref"];
                let allowed = &schemas[items.as_str().and_then(|path| path.rsplit('/').next()).expect("a reference")];
                assert_eq!(allowed["anyOf"][0]["enum"], schemas["DecisionType"]["enum"], "{name}: {allowed}");
                assert_eq!(allowed["anyOf"][1], json!({ "type": "string" }), "{name}: {allowed}");
            }
        }
    }

    #[test]
    fn w1_the_checked_in_wire_schema_is_this_one() {
        golden("wire.schema.json", &countersign_core::wire::schema::wire_schema());
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
        walk(openapi(), openapi());
    }
}
