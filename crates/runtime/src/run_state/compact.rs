//! The entries of a state as version 5 writes them: without what follows from the entries before.
//!
//! A list in which stand, in order: records; whole numbers, the milliseconds that have passed since the entry before (the
//! first since 1970-01-01T00:00:00Z), where there are any; `"sN"`, the first attempt of call N was begun; `"gN"`, nobody
//! needs to be asked about the N calls of the answer before. Where an entry stands in the event stream follows from the one before.

use std::sync::Arc;

use countersign_core::{
    call::gate::{Gate, Verdict},
    journal::record::{Entry, Millis, Record},
    wire::{cursor::Cursor, expand},
};
use serde::{Serialize, Serializer, ser::SerializeSeq as _};
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

/// Reads entries, the first of which stands at `cursor`.
pub(super) fn read(mut cursor: Cursor, list: &[&RawValue]) -> Result<Vec<Arc<Entry>>, RunStateError> {
    let mut entries: Vec<Arc<Entry>> = Vec::with_capacity(list.len());
    let mut at: Millis = 0;
    for raw in list {
        let pos = entries.last().map_or(1, |entry: &Arc<Entry>| entry.pos + 1);
        let text = raw.get();
        let record = match text.as_bytes().first() {
            Some(b'-' | b'0'..=b'9') => {
                let passed: Millis = serde_json::from_str(text).map_err(|error| damaged(pos, error.to_string()))?;
                at = at.checked_add(passed).ok_or_else(|| damaged(pos, "its time is none"))?;
                continue;
            }
            Some(b'"') => short(text).ok_or_else(|| damaged(pos, format!("{text} is no record")))?,
            _ => serde_json::from_str(text).map_err(|error| damaged(pos, error.to_string()))?,
        };
        let entry = Entry { pos, at, cursor, record };
        cursor = expand::after(&entry);
        entries.push(Arc::new(entry));
    }
    Ok(entries)
}

fn short(text: &str) -> Option<Record> {
    let text = text.trim_matches('"');
    let number = text.get(1..)?.parse::<u32>().ok()?;
    match text.as_bytes().first()? {
        b's' => Some(Record::CallStarted { call: number, attempt: 1 }),
        b'g' if number as usize <= countersign_core::limits::CALLS_PER_RESPONSE => {
            Some(Record::CallsGated(vec![Gate::of(Verdict::Allow); number as usize]))
        }
        _ => None,
    }
}
