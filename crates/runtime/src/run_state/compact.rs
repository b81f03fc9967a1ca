//! The entries of a state in their written form: without data that follows from earlier entries.
//!
//! They are a list. A whole number starts an entry: the milliseconds since the previous one (for the first, since
//! 1970-01-01T00:00:00Z). Its records follow; `"sN"`: the first attempt of call N was started; `"gN"`: the N calls of
//! the previous answer need no approval. An entry's position in the event stream follows from the previous one.
//!
//! A record may also be a list: `["g", [N, gate], …]`, verdicts, where each `gate` stands for N equal ones in a row; or
//! a form that `repeats` defines for interruptions. So the content of a request is in the text once, as the model wrote
//! it.

use std::{fmt, sync::Arc};

use countersign_core::{
    call::gate::{Gate, Verdict},
    journal::{
        cursor::Cursor,
        record::{Entry, Millis, Record, VIA_STORE},
    },
    limits::CALLS_PER_RESPONSE,
    number::CallNo,
};
use serde::{
    Deserialize, Deserializer, Serialize, Serializer,
    de::{self, DeserializeSeed, MapAccess, SeqAccess, Visitor, value::MapAccessDeserializer},
    ser::SerializeSeq as _,
};
use serde_json::value::RawValue;

use super::{
    RunStateError, damaged,
    repeats::{self, Before, Short},
};

pub(super) struct Compact<'a>(pub(super) &'a [Arc<Entry>]);

impl Serialize for Compact<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut list = serializer.serialize_seq(None)?;
        let mut at: Millis = 0;
        let free = Gate::of(Verdict::Allow);
        for (i, entry) in self.0.iter().enumerate() {
            list.serialize_element(&(entry.at - at))?;
            at = entry.at;
            if entry.via.as_deref() == Some(VIA_STORE) {
                list.serialize_element(&format_args!("v{VIA_STORE}"))?;
            }
            for (j, record) in entry.records.iter().enumerate() {
                match record {
                    Record::CallStarted { call, attempt: 1 } => list.serialize_element(&format_args!("s{call}"))?,
                    Record::CallsGated(gates) if gates.iter().all(|gate| *gate == free) => {
                        list.serialize_element(&format_args!("g{}", gates.len()))?;
                    }
                    Record::CallsGated(gates) if repeats::are(gates) => {
                        list.serialize_element(&repeats::Gates(gates))?;
                    }
                    Record::Interrupted(asked) => match Short::of(Before(&self.0[..i], &entry.records[..j]), asked) {
                        Some(short) => list.serialize_element(&short)?,
                        None => list.serialize_element(record)?,
                    },
                    record => list.serialize_element(record)?,
                }
            }
        }
        list.end()
    }
}

/// The entries of a text, read in one pass. Their positions in the event stream are left to the fold.
///
/// It does not say which entry is wrong; [`read`] does, which also accepts times if serde_json's `arbitrary_precision`
/// hides that they are numbers.
#[derive(Default)]
pub(super) struct Entries {
    /// The complete entries.
    list: Vec<Arc<Entry>>,
    /// The time of the incomplete entry, and its records so far.
    at: Millis,
    via: Option<Arc<str>>,
    records: Vec<Record>,
    /// Whether that entry has begun.
    begun: bool,
}

/// Reads entries one by one, to give an error its position.
pub(super) fn read(list: &[&RawValue]) -> Result<Vec<Arc<Entry>>, RunStateError> {
    let mut entries = Entries::default();
    for raw in list {
        let text = raw.get();
        if matches!(text.as_bytes().first(), Some(b'-' | b'0'..=b'9')) {
            let pos = entries.next();
            entries.complete().map_err(|what| damaged(pos, what))?;
        }
        let pos = entries.next();
        let wrong = |error: serde_json::Error| damaged(pos, error.to_string());
        let read = match text.as_bytes().first() {
            Some(b'-' | b'0'..=b'9') => entries.passed(serde_json::from_str(text).map_err(wrong)?),
            Some(b'"') => entries.short(&serde_json::from_str::<String>(text).map_err(wrong)?),
            Some(b'[') => {
                let mut text = serde_json::Deserializer::from_str(text);
                Next(&mut entries).deserialize(&mut text).map_err(wrong)?;
                Ok(())
            }
            _ => entries.record(serde_json::from_str(text).map_err(wrong)?),
        };
        read.map_err(|what| damaged(pos, what))?;
    }
    let pos = entries.next();
    entries.end().map_err(|what| damaged(pos, what))
}

impl Entries {
    /// The position of the entry being read.
    fn next(&self) -> u64 {
        self.list.len() as u64 + 1
    }

    pub(super) fn end(mut self) -> Result<Vec<Arc<Entry>>, &'static str> {
        self.complete()?;
        Ok(self.list)
    }

    fn complete(&mut self) -> Result<(), &'static str> {
        if std::mem::take(&mut self.begun) {
            if self.records.is_empty() {
                return Err("nothing happens in it");
            }
            // Most entries have one record: a list that grows allocates room for four, each of them large.
            let (pos, at, records) = (self.next(), self.at, self.records.drain(..).collect());
            let via = self.via.take();
            self.list.push(Arc::new(Entry { pos, at, via, cursor: Cursor::default(), records }));
        }
        Ok(())
    }

    fn passed(&mut self, passed: Millis) -> Result<(), &'static str> {
        self.complete()?;
        self.begun = true;
        self.at = self.at.checked_add(passed).ok_or("its time is none")?;
        Ok(())
    }

    fn record(&mut self, record: Record) -> Result<(), &'static str> {
        if !self.begun {
            return Err("an entry begins with its time");
        }
        self.records.push(record);
        Ok(())
    }

    fn short(&mut self, text: &str) -> Result<(), &'static str> {
        if let Some(via) = text.strip_prefix('v').filter(|via| *via == VIA_STORE) {
            if !self.begun || !self.records.is_empty() || self.via.is_some() {
                return Err("how it was stored follows its time");
            }
            self.via = Some(via.into());
            return Ok(());
        }
        let number = text.get(1..).and_then(|number| number.parse::<u32>().ok());
        match (text.as_bytes().first(), number) {
            (Some(b's'), Some(call)) => self.record(Record::CallStarted { call: CallNo::new(call), attempt: 1 }),
            (Some(b'g'), Some(calls)) if calls as usize <= CALLS_PER_RESPONSE => {
                self.record(Record::CallsGated(vec![Gate::of(Verdict::Allow); calls as usize]))
            }
            _ => Err("it is no record"),
        }
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

/// Reads the next item of the list. A record goes to its place at once: it is large.
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
        let record = repeats::read(Before(&self.0.list, &self.0.records), list)?;
        self.0.record(record).map_err(de::Error::custom)
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<(), A::Error> {
        self.0.record(Record::deserialize(MapAccessDeserializer::new(map))?).map_err(de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reading in one pass and entry by entry accept and refuse the same texts.
    #[test]
    fn s17_both_ways_to_read_entries_read_the_same() {
        let both = |text: &str| {
            let at_once = serde_json::from_str::<Entries>(text)
                .ok()
                .and_then(|entries| entries.end().ok())
                .map(|list| format!("{list:?}"));
            let list: Vec<&RawValue> = serde_json::from_str(text).unwrap();
            (at_once, read(&list).map(|list| format!("{list:?}")).map_err(|error| error.to_string()))
        };
        let (at_once, one_by_one) = both(
            r#"[1795301107415, {"session_created":{"agent":"a","locale":"en","birth":"b"}}, {"user_message":{"content":["\u0068i"]}}, 7,
            {"model_responded":{"model":"m","blocks":[{"tool_use":{"id":"c","name":"n","input":"{}"}}]}}, "g1", -3, "s1"]"#,
        );
        assert_eq!(at_once, one_by_one.ok());
        assert!(
            at_once.is_some_and(|list| list.contains("1795301107419")
                && list.contains("pos: 3")
                && !list.contains("pos: 4"))
        );
        for (text, what) in [
            (r#"["s1"]"#, "damaged at entry 1: an entry begins with its time"),
            (r#"[0, 0, "s1"]"#, "damaged at entry 1: nothing happens in it"),
            (r#"[0, "s1", 0]"#, "damaged at entry 2: nothing happens in it"),
            (r#"[0, "s1", 0, "s2", "x1"]"#, "damaged at entry 2: it is no record"),
            (r#"[0, "s1", 0, "g257"]"#, "damaged at entry 2: it is no record"),
            (r#"[0, "s1", 9223372036854775807, "s1", 1]"#, "damaged at entry 3: its time is none"),
            (r#"[0, "s1", 9223372036854775808]"#, "damaged at entry 2: invalid value"),
            (r#"[0, {"user_message":{"content":[]},"status":{}}]"#, "damaged at entry 1:"),
            (r#"[0, {"nothing":{}}]"#, "damaged at entry 1: unknown variant `nothing`"),
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
