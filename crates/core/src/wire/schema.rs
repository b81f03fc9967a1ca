//! The JSON Schema of the wire protocol, from which clients' types are made.
//!
//! The schema is made of the types: what goes out by how it is written, what comes in by how it is read, closed, since
//! unknown keys are refused. Unions have named alternatives that stand alone, with the member that tells them apart,
//! because generators of clients handle those and fail on intersections, boolean schemas and `default: null`. The test
//! clients check everything they receive against a closed copy, so any test that meets an unpublished member fails.

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

/// The schema of every frame: `client` for what clients send, `session_event` and `connection_event` for
/// what they get. It is checked in as `docs/wire.schema.json`, and a test fails when the two differ.
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

/// The same document, in which no object has members that it does not name: what an answer must fit of which nothing is
/// undocumented. Clients use the open one, since members may be added.
#[must_use]
pub fn closed(document: &Value) -> Value {
    let mut document = document.clone();
    close(&mut document);
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

/// The schema of answers as people send them: question text → the answer, or several where several may be chosen.
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
/// What comes from outside is described as it is read, what goes out as it is written: there a field that may be left out is
/// not required and never `null`. A type that is not the same in both has two definitions, the one for reading with the ending
/// `Input`. Unions are made of named alternatives that stand for themselves, since generators of clients get along with those.
#[derive(Debug)]
pub struct Schemas {
    read: SchemaGenerator,
    written: SchemaGenerator,
    /// The beginning of every reference, such as `#/$defs/`.
    place: &'static str,
}

const READ: &str = "#/read/";
const WRITTEN: &str = "#/written/";

impl Schemas {
    /// None yet. References will begin with `place`, such as `#/$defs/`.
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

    /// The schema of what is read as a `T`.
    pub fn input<T: JsonSchema>(&mut self) -> Value {
        self.read.subschema_for::<T>().to_value()
    }

    /// The schema of what a `T` is written as.
    pub fn output<T: JsonSchema>(&mut self) -> Value {
        self.written.subschema_for::<T>().to_value()
    }

    /// Makes the schemas in `document` refer to the definitions, and gives those.
    pub fn finish(mut self, document: &mut Value) -> Map<String, Value> {
        let mut read = self.read.take_definitions(true);
        let mut written = self.written.take_definitions(true);
        for definition in read.values_mut().chain(written.values_mut()).chain([&mut *document]) {
            tidy::tidy(definition);
        }
        // A key that is not known is refused, wherever it stands.
        read.values_mut().for_each(close);
        let twice = in_two_ways(&read, &written);
        let input = |name: &str| if twice.contains(name) { format!("{name}Input") } else { name.to_owned() };
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
        let used = reached(document, &all, self.place);
        all.retain(|name, _| used.contains(name));
        all
    }
}

/// The names of definitions that are one thing when read and another when written, by themselves or by what they refer to.
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
