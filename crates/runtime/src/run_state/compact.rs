//! The entries of a state as they are written: without what follows from the entries before.
//!
//! A list in which stand, in order: records; whole numbers, the milliseconds that have passed since the entry before (the
//! first since 1970-01-01T00:00:00Z), where there are any; `"sN"`, the first attempt of call N was begun; `"gN"`, nobody
//! needs to be asked about the N calls of the answer before. Where an entry stands in the event stream follows from the one before.
//! There are lists, too: `["g", [N, gate], …]`, verdicts of which N after each other are the same; and what `repeats` says of what
//! people are asked. So what is asked about is in the text once, as the model wrote it.

use std::{fmt, sync::Arc};

use countersign_core::{
    call::gate::{Gate, Verdict},
    journal::record::{Entry, Millis, Record},
    limits::CALLS_PER_RESPONSE,
    wire::cursor::Cursor,
};
use serde::{
    Deserialize, Deserializer, Serialize, Serializer,
    de::{self, DeserializeSeed, MapAccess, SeqAccess, Visitor, value::MapAccessDeserializer},
    ser::SerializeSeq as _,
};
use serde_json::value::RawValue;

use super::{
    RunStateError, damaged,
    repeats::{self, Short},
};

/// Writes entries.
pub(super) struct Compact<'a>(pub(super) &'a [Arc<Entry>]);

impl Serialize for Compact<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut list = serializer.serialize_seq(None)?;
        let mut at: Millis = 0;
        let free = Gate::of(Verdict::Allow);
        for (i, entry) in self.0.iter().enumerate() {
            if entry.at != at {
                list.serialize_element(&(entry.at - at))?;
                at = entry.at;
            }
            match &entry.record {
                Record::CallStarted { call, attempt: 1 } => list.serialize_element(&format_args!("s{call}"))?,
                Record::CallsGated(gates) if gates.iter().all(|gate| *gate == free) => {
                    list.serialize_element(&format_args!("g{}", gates.len()))?;
                }
                Record::CallsGated(gates) if repeats::are(gates) => {
                    list.serialize_element(&repeats::Gates(gates))?;
                }
                Record::Interrupted(asked) => match Short::of(&self.0[..i], asked) {
                    Some(short) => list.serialize_element(&short)?,
                    None => list.serialize_element(&entry.record)?,
                },
                record => list.serialize_element(record)?,
            }
        }
        list.end()
    }
}

/// The entries of a text, read in one go. Where they stand in the event stream is left for the fold to say.
///
/// It does not say which entry is wrong; [`read`] does, which also takes times where a serde_json with `arbitrary_precision`
/// does not say of a number that it is one.
#[derive(Default)]
pub(super) struct Entries {
    pub(super) list: Vec<Arc<Entry>>,
    at: Millis,
}

/// Reads entries one by one, so that what is wrong has its place.
pub(super) fn read(list: &[&RawValue]) -> Result<Vec<Arc<Entry>>, RunStateError> {
    let mut entries = Entries::default();
    for raw in list {
        let (pos, text) = (entries.next(), raw.get());
        let wrong = |error: serde_json::Error| damaged(pos, error.to_string());
        let read = match text.as_bytes().first() {
            Some(b'-' | b'0'..=b'9') => entries.passed(serde_json::from_str(text).map_err(wrong)?),
            Some(b'"') => entries.short(&serde_json::from_str::<String>(text).map_err(wrong)?),
            Some(b'[') => {
                let mut text = serde_json::Deserializer::from_str(text);
                Next(&mut entries).deserialize(&mut text).map_err(wrong)?;
                Ok(())
            }
            _ => {
                entries.record(serde_json::from_str(text).map_err(wrong)?);
                Ok(())
            }
        };
        read.map_err(|what| damaged(pos, what))?;
    }
    Ok(entries.list)
}

impl Entries {
    /// The position of the next entry.
    fn next(&self) -> u64 {
        self.list.len() as u64 + 1
    }

    fn passed(&mut self, passed: Millis) -> Result<(), &'static str> {
        self.at = self.at.checked_add(passed).ok_or("its time is none")?;
        Ok(())
    }

    fn record(&mut self, record: Record) {
        let (pos, at, cursor) = (self.next(), self.at, Cursor::default());
        self.list.push(Arc::new(Entry { pos, at, cursor, record }));
    }

    fn short(&mut self, text: &str) -> Result<(), &'static str> {
        let number = text.get(1..).and_then(|number| number.parse::<u32>().ok());
        match (text.as_bytes().first(), number) {
            (Some(b's'), Some(call)) => self.record(Record::CallStarted { call, attempt: 1 }),
            (Some(b'g'), Some(calls)) if calls as usize <= CALLS_PER_RESPONSE => {
                self.record(Record::CallsGated(vec![Gate::of(Verdict::Allow); calls as usize]));
            }
            _ => return Err("it is no record"),
        }
        Ok(())
    }
}

impl<'de> Deserialize<'de> for Entries {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_seq(List)
    }
}

struct List;

impl<'de> Visitor<'de> for List {
    type Value = Entries;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of records and times")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Entries, A::Error> {
        let mut entries = Entries::default();
        while seq.next_element_seed(Next(&mut entries))?.is_some() {}
        Ok(entries)
    }
}

/// Reads what stands next in the list. A record goes to its place at once: it is large.
struct Next<'a>(&'a mut Entries);

impl<'de> DeserializeSeed<'de> for Next<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Next<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a record, a number of milliseconds, \"sN\", \"gN\", or a list of what repeats")
    }

    fn visit_i64<E: de::Error>(self, passed: i64) -> Result<(), E> {
        self.0.passed(passed).map_err(E::custom)
    }

    fn visit_u64<E: de::Error>(self, passed: u64) -> Result<(), E> {
        let passed = Millis::try_from(passed).map_err(E::custom)?;
        self.0.passed(passed).map_err(E::custom)
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<(), E> {
        self.0.short(text).map_err(E::custom)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, list: A) -> Result<(), A::Error> {
        let record = repeats::read(&self.0.list, list)?;
        self.0.record(record);
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<(), A::Error> {
        self.0.record(Record::deserialize(MapAccessDeserializer::new(map))?);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is read in one go is what is read entry by entry, and so is what is refused.
    #[test]
    fn s17_both_ways_to_read_entries_read_the_same() {
        let both = |text: &str| {
            let at_once = serde_json::from_str::<Entries>(text).map(|entries| format!("{:?}", entries.list));
            let list: Vec<&RawValue> = serde_json::from_str(text).unwrap();
            (at_once.ok(), read(&list).map(|list| format!("{list:?}")).map_err(|error| error.to_string()))
        };
        let (at_once, one_by_one) = both(
            r#"[1795301107415, {"session_created":{"agent":"a","locale":"en","birth":"b"}}, {"user_message":{"text":["\u0068i"]}}, 7,
            {"model_responded":{"model":"m","blocks":[{"tool_use":{"id":"c","name":"n","input":"{}"}}]}}, "g1", -3, "s1"]"#,
        );
        assert_eq!(at_once, one_by_one.ok());
        assert!(at_once.is_some_and(|list| list.contains("1795301107419") && list.contains("pos: 5")));
        for (text, what) in [
            (r#"["s1", "x1"]"#, "damaged at entry 2: it is no record"),
            (r#"["s1", "g257"]"#, "damaged at entry 2: it is no record"),
            (r#"["s1", 9223372036854775807, 1]"#, "damaged at entry 2: its time is none"),
            (r#"["s1", 9223372036854775808]"#, "damaged at entry 2: invalid value"),
            (r#"[{"user_message":{"text":[]},"status":{}}]"#, "damaged at entry 1:"),
            (r#"[{"nothing":{}}]"#, "damaged at entry 1: unknown variant `nothing`"),
            ("[null]", "damaged at entry 1:"),
            ("[1.5]", "damaged at entry 1:"),
        ] {
            let (at_once, one_by_one) = both(text);
            assert_eq!(at_once, None, "{text}");
            let error = one_by_one.unwrap_err();
            assert!(error.contains(what), "{text}: {error}");
        }
    }
}
