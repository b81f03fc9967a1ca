//! Times.

use jiff::{SignedDuration, civil::DateTime};

/// Milliseconds since 1970-01-01T00:00:00Z.
pub type Millis = i64;

/// The end of the year 9999, the last that RFC 3339 can write.
pub const MAX_TIME: Millis = 253_402_300_799_999;

const EPOCH: DateTime = DateTime::constant(1970, 1, 1, 0, 0, 0, 0);

/// RFC 3339 text of a time, in UTC. It always has milliseconds, so that texts sort as times do, and is the nearest time
/// from 1970 to [`MAX_TIME`]: no journal has others.
#[must_use]
pub fn rfc3339(at: Millis) -> String {
    let since = SignedDuration::from_millis(at.clamp(0, MAX_TIME));
    format!("{:.3}Z", EPOCH.saturating_add(since))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn w3_the_text_of_a_time_has_three_digits_of_a_second_and_is_never_empty() {
        for (at, text) in [
            (0, "1970-01-01T00:00:00.000Z"),
            (1_700_000_000_500, "2023-11-14T22:13:20.500Z"),
            (MAX_TIME, "9999-12-31T23:59:59.999Z"),
            (i64::MAX, "9999-12-31T23:59:59.999Z"),
            (i64::MIN, "1970-01-01T00:00:00.000Z"),
        ] {
            assert_eq!(rfc3339(at), text);
        }
    }
}
