//! Times.

use jiff::{SignedDuration, Timestamp, civil::DateTime, fmt::temporal::Pieces};

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

/// The time that an RFC 3339 text names, at most [`MAX_TIME`]; `None` if it names none.
#[must_use]
pub fn of_rfc3339(text: &str) -> Option<Millis> {
    text.parse::<Timestamp>().map(Timestamp::as_millisecond).ok().or_else(|| of_the_last_day(text))
}

/// `Timestamp` ends a day before the year 9999 does, for its time zones. People write that end for "always".
fn of_the_last_day(text: &str) -> Option<Millis> {
    let pieces = Pieces::parse(text).ok()?;
    let (time, offset) = (pieces.time()?, pieces.to_numeric_offset()?);
    let since = pieces.date().to_datetime(time).duration_since(EPOCH);
    let at = Millis::try_from(since.as_millis()).ok()?.checked_sub(Millis::from(offset.seconds()) * 1000)?;
    (at > Timestamp::MAX.as_millisecond()).then(|| at.min(MAX_TIME))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn s7_every_time_that_is_written_can_be_read_to_the_end_of_the_year_9999() {
        for at in [0, 1_700_000_000_500, MAX_TIME - 100_000_000, MAX_TIME] {
            assert_eq!(of_rfc3339(&rfc3339(at)), Some(at), "{}", rfc3339(at));
        }
        for (text, at) in [
            ("2027-01-31T07:00:00+07:00", 1_801_353_600_000),
            ("9999-12-31T23:59:59Z", MAX_TIME - 999),
            ("9999-12-31T23:59:59+07:00", MAX_TIME - 999 - 7 * 3_600_000),
            ("9999-12-31T23:59:59-07:00", MAX_TIME),
        ] {
            assert_eq!(of_rfc3339(text), Some(at), "{text}");
        }
        for none in ["", "tomorrow", "2027-01-31", "2027-01-31T00:00:00", "9999-12-31T23:59:59", "9999-12-32T00:00:00Z"]
        {
            assert_eq!(of_rfc3339(none), None, "{none}");
        }
    }

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
