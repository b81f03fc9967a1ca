//! The entries of a state as version 5 writes them: without what follows from the entries before.
//!
//! A list in which stand, in order: records; whole numbers, the milliseconds that have passed since the entry before (the
//! first since 1970-01-01T00:00:00Z), where there are any; `"sN"`, the first attempt of call N was begun; `"gN"`, nobody
//! needs to be asked about the N calls of the answer before. Where an entry stands in the event stream follows from the one before.

use std::{fmt, sync::Arc};

use countersign_core::{
    call::gate::{Gate, Verdict},
    journal::record::{Entry, Millis, Record},
    wire::cursor::Cursor,
};
use serde::{
    Deserialize, Deserializer, Serialize, Serializer,
    de::{self, Error as _, MapAccess, SeqAccess, Visitor, value::MapAccessDeserializer},
    ser::SerializeSeq as _,
};
use serde_json::value::RawValue;

use super::{RunStateError, damaged};

/// Writes entries.
pub(super) struct Compact<'a>(pub(super) &'a [Arc<Entry>]);

impl Serialize for Compact<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut list = serializer.serialize_seq(None)?;
        let mut at: Millis = 0;
        let free = Gate::of(Verdict::Allow);
        for entry in self.0 {
            if entry.at != at {
                list.serialize_element(&(entry.at - at))?;
                at = entry.at;
            }
            match &entry.record {
                Record::CallStarted { call, attempt: 1 } => list.serialize_element(&format_args!("s{call}"))?,
                Record::CallsGated(gates) if gates.iter().all(|gate| *gate == free) => {
                    list.serialize_element(&format_args!("g{}", gates.len()))?;
                }
                record => list.serialize_element(record)?,
            }
        }
        list.end()
    }
}

/// The entries of a text, read in one go. Where they stand in the event stream is left for the fold to say.
///
/// It does not say which entry is wrong; [`read`] does.
pub(super) struct Entries(pub(super) Vec<Arc<Entry>>);

impl<'de> Deserialize<'de> for Entries {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_seq(List).map(Entries)
    }
}

/// Reads entries one by one, so that what is wrong has its place.
pub(super) fn read(list: &[&RawValue]) -> Result<Vec<Arc<Entry>>, RunStateError> {
    let mut entries = Building::default();
    for raw in list {
        let pos = entries.next();
        let item = one(raw.get()).map_err(|error| damaged(pos, error.to_string()))?;
        entries.take(item).map_err(|what| damaged(pos, what))?;
    }
    Ok(entries.list)
}

/// What a text in the list is. Its first character says it: where an application has serde_json keep numbers as they are
/// written (`arbitrary_precision`), a reader of anything is not told that it has a number, and [`Entries`] cannot be read.
fn one(text: &str) -> serde_json::Result<Item> {
    match text.as_bytes().first() {
        Some(b'-' | b'0'..=b'9') => serde_json::from_str(text).map(Item::Passed),
        Some(b'"') => One.visit_string(serde_json::from_str(text)?),
        _ => serde_json::from_str(text).map(Item::of),
    }
}

/// What stands in the list.
enum Item {
    Passed(Millis),
    /// An entry that has its record, and is told its place by the list.
    Entry(Arc<Entry>),
}

impl Item {
    /// The record is put where it stays at once: it is large.
    fn of(record: Record) -> Item {
        Item::Entry(Arc::new(Entry { pos: 0, at: 0, cursor: Cursor::default(), record }))
    }
}

#[derive(Default)]
struct Building {
    list: Vec<Arc<Entry>>,
    at: Millis,
}

impl Building {
    /// The position of the next entry.
    fn next(&self) -> u64 {
        self.list.len() as u64 + 1
    }

    fn take(&mut self, item: Item) -> Result<(), &'static str> {
        match item {
            Item::Passed(passed) => self.at = self.at.checked_add(passed).ok_or("its time is none")?,
            Item::Entry(mut entry) => {
                let own = Arc::make_mut(&mut entry);
                (own.pos, own.at) = (self.next(), self.at);
                self.list.push(entry);
            }
        }
        Ok(())
    }
}

struct List;

impl<'de> Visitor<'de> for List {
    type Value = Vec<Arc<Entry>>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of records and times")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
        let mut entries = Building::default();
        while let Some(item) = seq.next_element()? {
            entries.take(item).map_err(A::Error::custom)?;
        }
        Ok(entries.list)
    }
}

impl<'de> Deserialize<'de> for Item {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(One)
    }
}

struct One;

impl<'de> Visitor<'de> for One {
    type Value = Item;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a record, a number of milliseconds, \"sN\" or \"gN\"")
    }

    fn visit_i64<E: de::Error>(self, passed: i64) -> Result<Item, E> {
        Ok(Item::Passed(passed))
    }

    fn visit_u64<E: de::Error>(self, passed: u64) -> Result<Item, E> {
        Millis::try_from(passed).map(Item::Passed).map_err(|_| E::custom("its time is none"))
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Item, E> {
        short(text).map(Item::of).ok_or_else(|| E::custom(format_args!("{text:?} is no record")))
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Item, A::Error> {
        Record::deserialize(MapAccessDeserializer::new(map)).map(Item::of)
    }
}

fn short(text: &str) -> Option<Record> {
    let number = text.get(1..)?.parse::<u32>().ok()?;
    match text.as_bytes().first()? {
        b's' => Some(Record::CallStarted { call: number, attempt: 1 }),
        b'g' if number as usize <= countersign_core::limits::CALLS_PER_RESPONSE => {
            Some(Record::CallsGated(vec![Gate::of(Verdict::Allow); number as usize]))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn s21_what_stands_in_the_list_is_known_by_its_first_character() {
        assert!(matches!(one("-12"), Ok(Item::Passed(-12))));
        let record = |text: &str| match one(text) {
            Ok(Item::Entry(entry)) => Some(entry.record.clone()),
            _ => None,
        };
        assert!(matches!(record(r#""s7""#), Some(Record::CallStarted { call: 7, attempt: 1 })));
        assert!(matches!(record(r#""g2""#), Some(Record::CallsGated(gates)) if gates.len() == 2));
        assert!(matches!(record(r#"{"call_lost":{"call":3}}"#), Some(Record::CallLost { call: 3 })));
        for wrong in ["1.5", "9223372036854775808", r#""x1""#, "true", "[]", "null", r#"{"unknown":{}}"#] {
            assert!(one(wrong).is_err(), "{wrong}");
        }
    }
}
