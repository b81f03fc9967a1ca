//! `/asyncapi.json`: the WebSocket protocol, generated from the types of its frames.

use std::collections::BTreeSet;

use countersign_core::wire::{
    client::ClientMessage,
    event::{ConnectionEvent, SessionEvent},
    schema::Schemas,
};
use serde_json::{Map, Value, json};

const SCHEMAS: &str = "#/components/schemas/";

/// The AsyncAPI 3 document of the WebSocket, from the server's side: it receives what clients send. A copy is checked
/// in as `docs/asyncapi.json`, and a test fails when the two differ.
#[must_use]
pub fn asyncapi() -> Value {
    let mut schemas = Schemas::new(SCHEMAS);
    let mut unions = json!([
        schemas.input::<ClientMessage>(),
        schemas.output::<SessionEvent>(),
        schemas.output::<ConnectionEvent>(),
    ]);
    let mut definitions = schemas.finish(&mut unions);
    let from_clients = messages(&unions[0], &definitions);
    let mut from_server = messages(&unions[1], &definitions);
    from_server.extend(messages(&unions[2], &definitions));
    // AsyncAPI gives it another meaning than OpenAPI.
    for definition in definitions.values_mut().filter_map(Value::as_object_mut) {
        definition.remove("discriminator");
    }
    let refer = |messages: &Map<String, Value>, to: &str| -> Vec<Value> {
        // The order of a map's keys depends on features that other crates turn on in serde_json.
        let names: BTreeSet<&String> = messages.keys().collect();
        names.into_iter().map(|name| json!({ "$ref": format!("{to}{name}") })).collect()
    };
    let (received, sent) = (
        refer(&from_clients, "#/channels/connection/messages/"),
        refer(&from_server, "#/channels/connection/messages/"),
    );
    let all: Map<String, Value> = from_clients.into_iter().chain(from_server).collect();
    let of_channel: Map<String, Value> =
        all.keys().map(|name| (name.clone(), json!({ "$ref": format!("#/components/messages/{name}") }))).collect();
    json!({
        "asyncapi": "3.0.0",
        "info": {
            "title": "Countersign",
            "version": env!("CARGO_PKG_VERSION"),
            "license": { "name": env!("CARGO_PKG_LICENSE") },
            "description": "Agents whose dangerous tool calls wait for a person: messages, decisions and events over one \
                            connection. /openapi.json describes the same over HTTP, and what else there is.",
        },
        "defaultContentType": "application/json",
        "servers": {
            "this": {
                "host": "127.0.0.1:7410",
                "protocol": "ws",
                "description": "Where a server listens by default; behind TLS the protocol is wss.",
                "security": [{ "$ref": "#/components/securitySchemes/token" }],
            },
        },
        "channels": {
            "connection": {
                "address": "/v1/ws",
                "description": "A WebSocket with the subprotocol countersign.v1; browsers send a token as a second one, \
                                bearer.TOKEN. Each text frame is one JSON object. The first frame is hello.",
                "messages": of_channel,
                "bindings": { "ws": { "method": "GET" } },
            },
        },
        "operations": {
            "receive": {
                "action": "receive",
                "channel": { "$ref": "#/channels/connection" },
                "summary": "What a client sends.",
                "messages": received,
            },
            "send": {
                "action": "send",
                "channel": { "$ref": "#/channels/connection" },
                "summary": "What the server sends.",
                "messages": sent,
            },
        },
        "components": {
            "securitySchemes": {
                "token": { "type": "http", "scheme": "bearer", "description": "Only where tokens are needed." },
            },
            "messages": all,
            "schemas": definitions,
        },
    })
}

/// One message per alternative of a union.
fn messages(union: &Value, definitions: &Map<String, Value>) -> Map<String, Value> {
    let named = |schema: &Value| Some(schema["$ref"].as_str()?.strip_prefix(SCHEMAS)?.to_owned());
    let alternatives = named(union).and_then(|name| definitions.get(&name)?["oneOf"].as_array().cloned());
    let message = |alternative: &Value| {
        let name = named(alternative)?;
        let schema = definitions.get(&name)?;
        let about = schema["description"].as_str().unwrap_or_default();
        Some((name.clone(), json!({ "name": name, "title": name, "summary": about, "payload": alternative })))
    };
    alternatives.iter().flatten().filter_map(message).collect()
}
