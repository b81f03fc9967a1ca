//! What the fixtures in `tests/formats` cover: each member that an entry or an audit record can have, and each value that is
//! one of a few. What no fixture has could be renamed unseen.
//!
//! A type that is read through another one, such as `Decision`, `Always` or a `Part` with an image, shows its members to no such
//! test: only `r9_entries_of_version_1_…` sees that its fixtures are still read.

use std::{
    cell::RefCell,
    collections::{BTreeMap, BTreeSet},
    fs,
    path::PathBuf,
};

use countersign_core::journal::record::Entry;
use serde::{
    Deserialize, Deserializer,
    de::{DeserializeSeed, EnumAccess, IntoDeserializer as _, MapAccess, SeqAccess, VariantAccess, Visitor, value},
    forward_to_deserialize_any,
};
use serde_json::{Error, Value};

/// The members and variants that types have, and those of them that were read.
#[derive(Default)]
struct Seen {
    known: BTreeSet<String>,
    read: BTreeSet<String>,
}

/// Reads a value as its type asks for it, and notes what the type knows and what the value has.
#[derive(Clone, Copy)]
struct Watched<'a> {
    value: &'a Value,
    seen: &'a RefCell<Seen>,
}

impl<'a> Watched<'a> {
    fn of(self, value: &'a Value) -> Watched<'a> {
        Watched { value, ..self }
    }

    fn note(self, of: &str, known: &[&str], read: impl Iterator<Item = &'a str>) {
        let mut seen = self.seen.borrow_mut();
        seen.known.extend(known.iter().map(|name| format!("{of}.{name}")));
        seen.read.extend(read.map(|name| format!("{of}.{name}")));
    }

    /// The members of a type.
    fn members(self, of: &str, known: &[&str]) {
        let read = self.value.as_object().into_iter().flat_map(|object| object.keys().map(String::as_str));
        self.note(of, known, read);
    }
}

impl<'de> Deserializer<'de> for Watched<'de> {
    type Error = Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match self.value {
            Value::Object(object) => visitor.visit_map(Members { of: self, left: object.iter(), next: None }),
            Value::Array(list) => visitor.visit_seq(Items { of: self, left: list.iter() }),
            plain => plain.deserialize_any(visitor),
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        if self.value.is_null() { visitor.visit_none() } else { visitor.visit_some(self) }
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(self, name: &'static str, visitor: V) -> Result<V::Value, Error> {
        // A value that is kept as text has no members of ours.
        if name.starts_with('$') {
            return self.value.deserialize_newtype_struct(name, visitor);
        }
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        self.members(name, fields);
        self.deserialize_any(visitor)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        name: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        let (variant, content) = match self.value {
            Value::Object(object) => object.iter().next().map_or(("", &Value::Null), |(name, value)| (&**name, value)),
            plain => (plain.as_str().unwrap_or_default(), &Value::Null),
        };
        self.note(name, variants, [variant].into_iter());
        visitor.visit_enum(Variant { of: self.of(content), name, variant })
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit unit_struct seq tuple
        tuple_struct map identifier ignored_any
    }
}

struct Members<'a> {
    of: Watched<'a>,
    left: serde_json::map::Iter<'a>,
    next: Option<&'a Value>,
}

impl<'de> MapAccess<'de> for Members<'de> {
    type Error = Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, Error> {
        let Some((name, value)) = self.left.next() else { return Ok(None) };
        self.next = Some(value);
        seed.deserialize(value::BorrowedStrDeserializer::new(name)).map(Some)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, Error> {
        seed.deserialize(self.of.of(self.next.take().expect("a member")))
    }
}

struct Items<'a> {
    of: Watched<'a>,
    left: std::slice::Iter<'a, Value>,
}

impl<'de> SeqAccess<'de> for Items<'de> {
    type Error = Error;

    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>, Error> {
        self.left.next().map(|value| seed.deserialize(self.of.of(value))).transpose()
    }
}

struct Variant<'a> {
    of: Watched<'a>,
    name: &'static str,
    variant: &'a str,
}

impl<'de> EnumAccess<'de> for Variant<'de> {
    type Error = Error;
    type Variant = Self;

    fn variant_seed<V: DeserializeSeed<'de>>(self, seed: V) -> Result<(V::Value, Self), Error> {
        let variant: value::StrDeserializer<'_, Error> = self.variant.into_deserializer();
        Ok((seed.deserialize(variant)?, self))
    }
}

impl<'de> VariantAccess<'de> for Variant<'de> {
    type Error = Error;

    fn unit_variant(self) -> Result<(), Error> {
        Ok(())
    }

    fn newtype_variant_seed<T: DeserializeSeed<'de>>(self, seed: T) -> Result<T::Value, Error> {
        seed.deserialize(self.of)
    }

    fn tuple_variant<V: Visitor<'de>>(self, _: usize, visitor: V) -> Result<V::Value, Error> {
        self.of.deserialize_any(visitor)
    }

    fn struct_variant<V: Visitor<'de>>(self, fields: &'static [&'static str], visitor: V) -> Result<V::Value, Error> {
        self.of.members(&format!("{}.{}", self.name, self.variant), fields);
        self.of.deserialize_any(visitor)
    }
}

fn file(name: &str) -> String {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..").join(name);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

#[test]
fn r9_the_fixture_has_each_member_and_each_variant_of_what_is_stored() {
    let seen = RefCell::new(Seen::default());
    for line in file("tests/formats/journals.jsonl").lines() {
        let journal: Value = serde_json::from_str(line).expect("a journal");
        for value in journal["entries"].as_array().expect("entries") {
            Entry::deserialize(Watched { value, seen: &seen }).unwrap_or_else(|error| panic!("{error}: {value}"));
        }
    }
    let seen = seen.into_inner();
    assert!(seen.known.len() > 300, "{}", seen.known.len());
    // What is left out, since it is the default.
    let never = "Kind.approval";
    let missing: Vec<&String> = seen.known.difference(&seen.read).filter(|name| *name != never).collect();
    assert!(missing.is_empty(), "no journal of the fixture has these: {missing:#?}");
    let unknown: Vec<&String> = seen.read.difference(&seen.known).collect();
    assert!(unknown.is_empty(), "no build reads these: {unknown:#?}");
}

/// The members of each event, as the published schema has them, by the event's name.
fn published() -> BTreeMap<String, BTreeSet<String>> {
    let document: Value = serde_json::from_str(&file("docs/openapi.json")).expect("JSON");
    let schemas = &document["components"]["schemas"];
    let events = schemas["AuditBody"]["oneOf"].as_array().expect("a schema for each event");
    let of = |event: &Value| {
        let name = event["$ref"].as_str().and_then(|place| place.rsplit('/').next()).expect("a name");
        let members = schemas[name]["properties"].as_object().expect("members");
        let event = members["event"]["const"].as_str().expect("its name").to_owned();
        (event, members.keys().cloned().collect())
    };
    events.iter().map(of).collect()
}

#[test]
fn r8_the_fixture_has_each_event_of_the_audit_log_with_each_of_its_members() {
    let mut read: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let records = file("tests/formats/audit.jsonl");
    let records = records.lines().map(|line| serde_json::from_str::<Value>(line).expect("a record")["body"].take());
    let deletions = file("tests/formats/deletions.jsonl");
    for body in records.chain(deletions.lines().map(|line| serde_json::from_str(line).expect("a body"))) {
        let body = body.as_object().expect("a body");
        read.entry(body["event"].as_str().expect("its name").to_owned()).or_default().extend(body.keys().cloned());
    }
    let published = published();
    assert_eq!(read.keys().collect::<Vec<_>>(), published.keys().collect::<Vec<_>>());
    // Whose session it is, and how it came into the store, is the same for all events.
    let anywhere: BTreeSet<&String> = read.values().flatten().collect();
    for (event, members) in &published {
        let missing: Vec<&String> = members.difference(&read[event]).collect();
        let missing: Vec<_> = missing
            .into_iter()
            .filter(|name| !(["tenant", "via"].contains(&&***name) && anywhere.contains(name)))
            // It is decided before its first attempt.
            .filter(|name| (&**event, &***name) != ("decided_unasked", "attempts"))
            .collect();
        assert!(missing.is_empty(), "no {event} has {missing:?}");
        let unknown: Vec<&String> = read[event].difference(members).collect();
        assert!(unknown.is_empty(), "{event} has {unknown:?}, which no schema names");
    }
}
