//! Where a session's event stream stands between two records.

use serde::{Deserialize, Serialize};

/// The place in the event stream before a record: all that is needed to expand the record alone.
///
/// Stored as an array `[seq, messages, open, index]`, since one stands on every entry.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "(u64, u32, u32, u32)", into = "(u64, u32, u32, u32)")]
pub struct Cursor {
    /// The `seq` of the last event so far; 0 before the first.
    pub seq: u64,
    /// How many messages have begun so far.
    pub messages: u32,
    /// The number of the open assistant message; 0 if none is open.
    pub open: u32,
    /// The index of the next block in the open assistant message.
    pub index: u32,
}

impl From<(u64, u32, u32, u32)> for Cursor {
    fn from((seq, messages, open, index): (u64, u32, u32, u32)) -> Self {
        Cursor { seq, messages, open, index }
    }
}

impl From<Cursor> for (u64, u32, u32, u32) {
    fn from(c: Cursor) -> Self {
        (c.seq, c.messages, c.open, c.index)
    }
}

/// The wire's id of the session's `n`-th message.
#[must_use]
pub fn message_id(n: u32) -> String {
    format!("msg-{n}")
}
