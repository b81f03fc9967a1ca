//! Approval keys: `{session_id}_{n}` (spec W4).

use crate::number::InterruptionNo;

/// The key of a session's `n`-th interruption.
#[must_use]
pub fn approval_key(session_id: &str, n: InterruptionNo) -> String {
    format!("{session_id}_{n}")
}

/// The session id and the number in a key; `None` if it is not one.
#[must_use]
pub fn parse_approval_key(key: &str) -> Option<(&str, InterruptionNo)> {
    let (session_id, n) = key.rsplit_once('_')?;
    // `u32::from_str` also accepts `+1` and `01`, which are not keys.
    if n.starts_with('0') || !n.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    n.parse().ok().map(|n| (session_id, InterruptionNo::new(n)))
}
