//! Times.

/// Milliseconds since 1970-01-01T00:00:00Z.
pub type Millis = i64;

/// RFC 3339 text of a time, in UTC.
#[must_use]
pub fn rfc3339(at: Millis) -> String {
    jiff::Timestamp::from_millisecond(at).map(|t| t.to_string()).unwrap_or_default()
}
