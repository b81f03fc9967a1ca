//! The JSON Schema of the wire protocol, from which clients' types are made.

use serde_json::{Value, json};

use super::{
    client::ClientMessage,
    event::{ConnectionEvent, SessionEvent},
};

/// The schema of every frame: `client` for what clients send, `session_event` and `connection_event` for
/// what they get. It is checked in as `docs/wire.schema.json`, and a test fails when the two differ.
#[must_use]
pub fn wire_schema() -> Value {
    let mut generator = schemars::SchemaGenerator::default();
    let properties = json!({
        "client": generator.subschema_for::<ClientMessage>(),
        "session_event": generator.subschema_for::<SessionEvent>(),
        "connection_event": generator.subschema_for::<ConnectionEvent>(),
    });
    let definitions = generator.take_definitions(true);
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "countersign.v1",
        "description": "The frames of the WebSocket protocol countersign.v1, by direction.",
        "type": "object",
        "properties": properties,
        "$defs": definitions,
    })
}
