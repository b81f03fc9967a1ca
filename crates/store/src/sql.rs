//! Shared by the stores that speak SQL: how values are stored and read.

use countersign_core::{audit::AuditRecord, journal::record::Millis, session::Session, wire::event::Resolution};
use serde_json::value::RawValue;

use super::{
    Due, Page, StoreError,
    page::{self, LOOKS_AT},
};

/// A number as SQL has it. Larger ones become the largest: no limit and no position is beyond it.
pub(super) fn int(n: impl TryInto<i64>) -> i64 {
    n.try_into().unwrap_or(i64::MAX)
}

/// A query under construction: its conditions, in each of which `?` is a value, and the values in order. A list is several
/// of them, each of which reads the rows visible for one reason from an index, in the list's order, and no other rows.
#[derive(Clone)]
pub(super) struct Query<V> {
    /// The statement up to the conditions.
    from: String,
    conditions: Vec<&'static str>,
    values: Vec<V>,
    /// Conditions that each row is checked for, under this name.
    filters: Vec<&'static str>,
    sought: Vec<V>,
    name: &'static str,
}

impl<V: From<i64>> Query<V> {
    pub(super) fn new(from: impl Into<String>) -> Query<V> {
        let (conditions, values) = (Vec::new(), Vec::new());
        Query { from: from.into(), conditions, values, filters: Vec::new(), sought: Vec::new(), name: "looked" }
    }

    pub(super) fn and<const N: usize>(&mut self, condition: &'static str, values: [V; N]) {
        self.conditions.push(condition);
        self.values.extend(values);
    }

    pub(super) fn with<const N: usize>(mut self, condition: &'static str, values: [V; N]) -> Query<V> {
        self.and(condition, values);
        self
    }

    /// Adds a condition that no index covers. It is about columns of a row of this name.
    pub(super) fn filter<const N: usize>(&mut self, name: &'static str, condition: &'static str, values: [V; N]) {
        self.name = name;
        self.filters.push(condition);
        self.sought.extend(values);
    }

    /// Whether it has such conditions. Then its rows have two more columns: `nth`, its number among those examined, and
    /// `fits`, whether the conditions hold. The last one examined is always among them.
    pub(super) fn is_filtered(&self) -> bool {
        !self.filters.is_empty()
    }

    /// The statement up to its limit of rows.
    pub(super) fn read(&self, order: &str) -> String {
        let begin = if self.conditions.is_empty() { "" } else { " WHERE " };
        format!("{}{begin}{} ORDER BY {order} LIMIT ", self.from, self.conditions.join(" AND "))
    }

    /// The whole statement, with the number of its rows as one more value.
    pub(super) fn sql(&self, order: &str) -> String {
        let read = self.read(order);
        if !self.is_filtered() {
            return read + "?";
        }
        let (name, fits) = (self.name, self.filters.join(" AND "));
        // Numbered and given in the order in which they are read: sorting the result would read all of them, even where
        // the first few are enough.
        format!(
            "SELECT * FROM (SELECT {name}.*, row_number() OVER () AS nth, ({fits}) AS fits FROM ({read}{LOOKS_AT}) AS {name}) AS looked
             WHERE fits OR nth = {LOOKS_AT} LIMIT ?"
        )
    }

    /// Its values, for at most this many rows.
    pub(super) fn into_values(self, limit: i64) -> Vec<V> {
        self.sought.into_iter().chain(self.values).chain([limit.into()]).collect()
    }
}

/// The rows of a page, and one more.
pub(super) fn limit(page: &Page) -> i64 {
    int(page::limit(page)).saturating_add(1)
}

/// How a resolution is stored.
pub(super) fn resolution_name(resolution: Resolution) -> &'static str {
    match resolution {
        Resolution::Decided => "decided",
        Resolution::Timeout => "timeout",
        Resolution::Cancelled => "cancelled",
    }
}

/// The resolution that is stored as `name`.
pub(super) fn resolution(name: &str) -> Option<Resolution> {
    [Resolution::Decided, Resolution::Timeout, Resolution::Cancelled].into_iter().find(|r| resolution_name(*r) == name)
}

/// A record in its stored form.
pub(super) fn json<T: serde::Serialize + ?Sized>(value: &T) -> Result<String, StoreError> {
    serde_json::to_string(value).map_err(|e| StoreError::Failed(format!("a record cannot be written as JSON: {e}")))
}

/// The snapshot of a session that ends at `pos`. It is a cache: one that cannot be read, or that is not the session's, is
/// ignored.
pub(super) fn snapshot(session_id: &str, pos: u64, body: &[u8]) -> Option<Session> {
    match serde_json::from_slice::<Session>(body) {
        Ok(snapshot) if snapshot.pos <= pos && *snapshot.session_id == *session_id => Some(snapshot),
        Ok(_) => None,
        Err(e) => {
            tracing::info!("the snapshot of session {session_id} is not used: {e}");
            None
        }
    }
}

/// The earliest of deadlines and reminders, each interruption once.
pub(super) fn earliest(mut due: Vec<(Millis, Due)>, limit: usize) -> Vec<Due> {
    due.sort_unstable();
    let mut earliest: Vec<Due> = Vec::new();
    for (_, one) in due {
        if earliest.len() < limit && !earliest.contains(&one) {
            earliest.push(one);
        }
    }
    earliest
}

/// A record of the audit log. A body that is not JSON is returned as `null`, which does not match its hash: the reader
/// has to name it.
pub(super) fn audit_record(n: u64, prev: String, hash: &[u8], body: String) -> Result<AuditRecord, StoreError> {
    let body = RawValue::from_string(body)
        .or_else(|_| RawValue::from_string("null".to_owned()))
        .map_err(|e| StoreError::Corrupt(format!("audit record {n}: {e}")))?;
    Ok(AuditRecord { n, prev, hash: hex::encode(hash), body })
}
