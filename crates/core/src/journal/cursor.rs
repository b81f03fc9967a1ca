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
/// `filled` (0 or 1), then its `summary` if it has one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cursor {
    /// The `seq` of the last event so far; 0 before the first.
    pub seq: u64,
    /// How many messages have begun so far.
    pub messages: u32,
    /// The number of the open assistant message; 0 if none is open.
    pub open: u32,
    /// The index of the next block in the open assistant message.
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
        for n in [self.messages, self.open, self.index, self.groups] {
            seq.serialize_element(&n)?;
        }
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
                let mut numbers = [0_u32; 4];
                for (i, number) in (1..).zip(&mut numbers) {
                    *number = seq.next_element()?.ok_or_else(|| A::Error::invalid_length(i, &self))?;
                }
                let [messages, open, index, groups] = numbers;
                let began = seq.next_element()?.ok_or_else(|| A::Error::invalid_length(5, &self))?;
                let group = match seq.next_element::<u8>()? {
                    Some(filled) => Some(OpenGroup { filled: filled != 0, summary: seq.next_element()? }),
                    None => None,
                };
                Ok(Cursor { seq: first, messages, open, index, groups, began, group })
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
            let cursor = Cursor { seq: 7, messages: 2, open: 2, index: 3, groups, began, group };
            assert_eq!(serde_json::to_string(&cursor).expect("write"), text);
            assert_eq!(serde_json::from_str::<Cursor>(text).expect("read"), cursor);
        }
        assert!(serde_json::from_str::<Cursor>("[7,2,2,3,0]").is_err());
    }
}
