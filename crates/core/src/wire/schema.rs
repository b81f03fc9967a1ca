//! The JSON Schema of the wire protocol, from which clients' types are generated.
//!
//! The schema is derived from the types: output by how it is written, input by how it is read, and closed, since
//! unknown keys are refused. Unions have named, self-contained alternatives with a discriminating member, because
//! client generators handle those and fail on intersections, boolean schemas and `default: null`. The test clients
//! check everything they receive against a closed copy, so any test that meets an unpublished member fails.

mod open;
mod tidy;
mod unions;

use std::{borrow::Cow, collections::BTreeSet};

use schemars::{JsonSchema, Schema, SchemaGenerator, generate::SchemaSettings, json_schema};
use serde_json::{Map, Value, json};

use super::{
    client::ClientMessage,
    event::{ConnectionEvent, SessionEvent},
};

/// Where the definitions of [`wire_schema`] are.
const DEFS: &str = "#/$defs/";

/// The schema of every frame: `client` for what clients send, `session_event` and `connection_event` for what they
/// receive. It is checked in as `docs/wire.schema.json`, and a test fails when the two differ.
#[must_use]
pub fn wire_schema() -> Value {
    let mut schemas = Schemas::new(DEFS);
    let properties = json!({
        "client": schemas.input::<ClientMessage>(),
        "session_event": schemas.output::<SessionEvent>(),
        "connection_event": schemas.output::<ConnectionEvent>(),
    });
    let mut document = json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "countersign.v1",
        "description": "The frames of the WebSocket protocol countersign.v1, by direction.",
        "type": "object",
        "properties": properties,
    });
    let definitions = schemas.finish(&mut document);
    document["$defs"] = Value::Object(definitions);
    document
}

/// The same document, closed: no object may have members, and no enumeration values, that it does not name. A response
/// that fits it has nothing undocumented. Clients use the open document, since members and values may be added.
#[must_use]
pub fn closed(document: &Value) -> Value {
    let mut document = document.clone();
    close(&mut document);
    tidy::each_schema(&mut document, &mut open::close);
    document
}

fn close(document: &mut Value) {
    tidy::each_schema(document, &mut |schema| {
        if schema.contains_key("properties") && !schema.contains_key("additionalProperties") {
            schema.insert("additionalProperties".to_owned(), Value::Bool(false));
        }
    });
}

/// The schema of any JSON object.
#[derive(Debug)]
pub struct AnyObject;

impl JsonSchema for AnyObject {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "AnyObject".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "object", "additionalProperties": true })
    }
}

/// The schema of answers as people send them: question text → the answer, or several for a multiple choice.
#[derive(Debug)]
pub struct GivenAnswers;

impl JsonSchema for GivenAnswers {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "GivenAnswers".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "object",
            "additionalProperties": { "anyOf": [{ "type": "string" }, { "type": "array", "items": { "type": "string" } }] },
        })
    }
}

/// Schemas of a document's types and the definitions that they share.
///
/// Input is described as it is read, output as it is written: there an optional field is not required and never `null`.
/// A type that differs between the two has two definitions, the one for reading with the suffix `Input`. Unions are
/// made of named, self-contained alternatives, which client generators can handle.
#[derive(Debug)]
pub struct Schemas {
    read: SchemaGenerator,
    written: SchemaGenerator,
    /// The prefix of every reference, such as `#/$defs/`.
    place: &'static str,
}

const READ: &str = "#/read/";
const WRITTEN: &str = "#/written/";

impl Schemas {
    /// No schemas yet; their references will begin with `place`, such as `#/$defs/`.
    #[must_use]
    pub fn new(place: &'static str) -> Schemas {
        let settings = |path: &str| {
            SchemaSettings::draft2020_12().with(|settings| {
                settings.definitions_path = path.trim_matches(['#', '/']).to_owned().into();
                settings.definitions_path = format!("/{}", settings.definitions_path).into();
                settings.meta_schema = None;
            })
        };
        Schemas {
            read: settings(READ).for_deserialize().into_generator(),
            written: settings(WRITTEN).for_serialize().into_generator(),
            place,
        }
    }

    /// The schema for reading a `T`.
    pub fn input<T: JsonSchema>(&mut self) -> Value {
        self.read.subschema_for::<T>().to_value()
    }

    /// The schema for writing a `T`.
    pub fn output<T: JsonSchema>(&mut self) -> Value {
        self.written.subschema_for::<T>().to_value()
    }

    /// Makes the schemas in `document` refer to the definitions, and returns those.
    pub fn finish(mut self, document: &mut Value) -> Map<String, Value> {
        let mut read = self.read.take_definitions(true);
        let mut written = self.written.take_definitions(true);
        for definition in read.values_mut().chain(written.values_mut()).chain([&mut *document]) {
            tidy::tidy(definition);
        }
        // An unknown key is refused at every level.
        read.values_mut().for_each(close);
        let twice = in_two_ways(&read, &written);
        let input = |name: &str| if twice.contains(name) { format!("{name}Input") } else { name.to_owned() };
        let only_written = written.keys().filter(|name| !read.contains_key(*name) || twice.contains(*name));
        let only_written: BTreeSet<String> = only_written.cloned().collect();
        let mut all = Map::new();
        for (name, definition) in written {
            all.insert(name, definition);
        }
        for (name, definition) in read {
            all.entry(input(&name)).or_insert(definition);
        }
        for schema in all.values_mut().chain([&mut *document]) {
            tidy::each_reference(schema, &mut |reference| {
                if let Some(name) = reference.strip_prefix(READ) {
                    *reference = format!("{}{}", self.place, input(name));
                } else if let Some(name) = reference.strip_prefix(WRITTEN) {
                    *reference = format!("{}{name}", self.place);
                }
            });
        }
        let mut all = unions::plain(&all, self.place);
        open::open(&mut all, &only_written, self.place);
        let used = reached(document, &all, self.place);
        all.retain(|name, _| used.contains(name));
        all
    }
}

/// The names of definitions that differ between reading and writing, in themselves or in what they refer to.
fn in_two_ways(read: &Map<String, Value>, written: &Map<String, Value>) -> BTreeSet<String> {
    let as_written = |definition: &Value| {
        let mut definition = definition.clone();
        tidy::each_reference(&mut definition, &mut |reference| *reference = reference.replace(READ, WRITTEN));
        definition
    };
    let mut twice: BTreeSet<String> = read
        .iter()
        .filter(|(name, definition)| written.get(*name).is_some_and(|other| *other != as_written(definition)))
        .map(|(name, _)| name.clone())
        .collect();
    loop {
        let known = twice.len();
        for (name, definition) in read {
            let mut definition = definition.clone();
            let mut refers = false;
            tidy::each_reference(&mut definition, &mut |reference| {
                refers |= reference.strip_prefix(READ).is_some_and(|name| twice.contains(name));
            });
            if refers && written.contains_key(name) {
                twice.insert(name.clone());
            }
        }
        if twice.len() == known {
            return twice;
        }
    }
}

/// The names of the definitions that a document needs.
fn reached(document: &Value, definitions: &Map<String, Value>, place: &str) -> BTreeSet<String> {
    let mut used = BTreeSet::new();
    let mut next = vec![document.clone()];
    while let Some(mut schema) = next.pop() {
        tidy::each_reference(&mut schema, &mut |reference| {
            if let Some(name) = reference.strip_prefix(place)
                && used.insert(name.to_owned())
            {
                next.extend(definitions.get(name).cloned());
            }
        });
    }
    used
}
