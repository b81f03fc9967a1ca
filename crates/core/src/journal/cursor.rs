//! The position of a session's event stream between two appends. `wire` computes it; the session's state does not
//! depend on it.
//!
//! Every append carries the cursor before it: `seq`, messages, the open message, block index, groups, the open block,
//! and the open group with its summary. So an append expands to its own events alone, and a replay or a page of history
//! can begin anywhere without folding earlier appends.
//!
//! Message ids are `msg-N`, counted in the session. They come from the fold: a replay makes the same ones, and the core
//! needs no source of ids.

use std::{fmt, sync::Arc};

use serde::{
    Deserialize, Deserializer, Serialize, Serializer,
    de::{Error as _, SeqAccess, Visitor},
    ser::SerializeSeq as _,
};

/// The position in the event stream before an append: everything needed to expand that append alone.
///
/// Stored as an array, since every append has one: `[seq, messages, open, index, groups, began]`, then the open group's
/// `filled` (0 or 1), then its `summary` if it has one. A `failed` message is written as a negative `open`: none is open then.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cursor {
    /// The `seq` of the last event so far; 0 before the first.
    pub seq: u64,
    /// How many messages have begun so far.
    pub messages: u32,
    /// The number of the open assistant message; 0 if none is open.
    pub open: u32,
    /// The number of the assistant message that the turn's failure has ended, until it is retried; 0 if there is none. What
    /// people say in a turn is in separate messages, which may be newer.
    pub failed: u32,
    /// The index of the next block in the open assistant message, or in the one that failed.
    pub index: u32,
    /// How many groups have begun so far.
    pub groups: u32,
    /// The `seq` of the start of the block that is open between appends; 0 if none is. A model is writing it, at
    /// `index`.
    pub began: u64,
    /// The open group, which is the latest one.
    pub group: Option<OpenGroup>,
}

/// The state of the open group.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OpenGroup {
    /// Whether it already contains something that history shows.
    pub filled: bool,
    /// The newest line on the purpose of one of its calls (spec H5).
    pub summary: Option<Arc<str>>,
}

impl Serialize for Cursor {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut seq = serializer.serialize_seq(None)?;
        seq.serialize_element(&self.seq)?;
        seq.serialize_element(&self.messages)?;
        let open = if self.failed == 0 { i64::from(self.open) } else { -i64::from(self.failed) };
        seq.serialize_element(&open)?;
        seq.serialize_element(&self.index)?;
        seq.serialize_element(&self.groups)?;
        seq.serialize_element(&self.began)?;
        if let Some(group) = &self.group {
            seq.serialize_element(&u8::from(group.filled))?;
            if let Some(summary) = &group.summary {
                seq.serialize_element(summary)?;
            }
        }
        seq.end()
    }
}

impl<'de> Deserialize<'de> for Cursor {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Parts;
        impl<'de> Visitor<'de> for Parts {
            type Value = Cursor;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an array of 6 to 8 parts")
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Cursor, A::Error> {
                let first = seq.next_element()?.ok_or_else(|| A::Error::invalid_length(0, &self))?;
                let mut numbers = [0_i64; 4];
                for (i, number) in (1..).zip(&mut numbers) {
                    *number = seq.next_element()?.ok_or_else(|| A::Error::invalid_length(i, &self))?;
                }
                let [messages, open, index, groups] = numbers;
                let number =
                    |n: i64| u32::try_from(n).map_err(|_| A::Error::custom(format!("{n} is no number of the cursor")));
                let began = seq.next_element()?.ok_or_else(|| A::Error::invalid_length(5, &self))?;
                let group = match seq.next_element::<u8>()? {
                    Some(filled) => Some(OpenGroup { filled: filled != 0, summary: seq.next_element()? }),
                    None => None,
                };
                Ok(Cursor {
                    seq: first,
                    messages: number(messages)?,
                    open: number(open.max(0))?,
                    failed: number(open.saturating_neg().max(0))?,
                    index: number(index)?,
                    groups: number(groups)?,
                    began,
                    group,
                })
            }
        }
        deserializer.deserialize_seq(Parts)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_reads_back_whatever_is_open() {
        let group = |filled, summary: Option<&str>| Some(OpenGroup { filled, summary: summary.map(Arc::from) });
        for (groups, began, group, text) in [
            (0, 0, None, "[7,2,2,3,0,0]"),
            (4, 7, None, "[7,2,2,3,4,7]"),
            (4, 0, group(false, None), "[7,2,2,3,4,0,0]"),
            (4, 6, group(true, None), "[7,2,2,3,4,6,1]"),
            (4, 0, group(true, Some("đọc")), "[7,2,2,3,4,0,1,\"đọc\"]"),
        ] {
            let cursor = Cursor { seq: 7, messages: 2, open: 2, failed: 0, index: 3, groups, began, group };
            assert_eq!(serde_json::to_string(&cursor).expect("write"), text);
            assert_eq!(serde_json::from_str::<Cursor>(text).expect("read"), cursor);
        }
        let failed = Cursor { seq: 7, messages: 3, failed: 2, index: 3, groups: 4, ..Cursor::default() };
        assert_eq!(serde_json::to_string(&failed).expect("write"), "[7,3,-2,3,4,0]");
        assert_eq!(serde_json::from_str::<Cursor>("[7,3,-2,3,4,0]").expect("read"), failed);
        for wrong in ["[7,2,2,3,0]", "[7,-2,2,3,0,0]", "[7,2,-9223372036854775808,3,0,0]"] {
            assert!(serde_json::from_str::<Cursor>(wrong).is_err(), "{wrong}");
        }
    }
}
