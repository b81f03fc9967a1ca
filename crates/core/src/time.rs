//! Times.

/// Milliseconds since 1970-01-01T00:00:00Z.
pub type Millis = i64;

/// The end of the year 9999, the last that RFC 3339 can write.
pub const MAX_TIME: Millis = 253_402_300_799_999;

/// RFC 3339 text of a time, in UTC.
#[must_use]
pub fn rfc3339(at: Millis) -> String {
    jiff::Timestamp::from_millisecond(at).map(|t| t.to_string()).unwrap_or_default()
}
