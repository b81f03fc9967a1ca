//! How long people have to respond to a request (spec W7, Q4).

use std::{num::NonZeroU32, time::Duration};

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// How long people have. Written as seconds, with 0 for no limit, and left out where it is not configured: an explicit
/// default differs from a missing setting.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Timeout {
    /// Not configured: each kind of request has a default, see
    /// [`Kind::timeout_seconds`](crate::journal::record::Kind::timeout_seconds).
    #[default]
    Default,
    /// This many seconds.
    After(NonZeroU32),
    /// No limit.
    Never,
}

impl Timeout {
    /// The timeout of this many seconds, 0 for no limit: the written form. A program gives a [`Duration`], or
    /// [`Timeout::Never`].
    #[doc(hidden)]
    #[must_use]
    pub fn of(seconds: u32) -> Timeout {
        NonZeroU32::new(seconds).map_or(Timeout::Never, Timeout::After)
    }

    /// The seconds, 0 for no limit; `default` seconds if not configured.
    #[must_use]
    pub fn seconds(self, default: u32) -> u32 {
        match self {
            Timeout::Default => default,
            Timeout::After(seconds) => seconds.get(),
            Timeout::Never => 0,
        }
    }

    /// Whether it is not configured.
    #[must_use]
    pub fn is_default(&self) -> bool {
        *self == Timeout::Default
    }

    /// This timeout, or the other where this one is not configured.
    #[must_use]
    pub fn or(self, other: Timeout) -> Timeout {
        if self.is_default() { other } else { self }
    }

    /// The shorter of the configured ones.
    #[must_use]
    pub fn shorter(self, other: Timeout) -> Timeout {
        match (self, other) {
            (Timeout::Default, said) | (said, Timeout::Default) => said,
            (Timeout::Never, time) | (time, Timeout::Never) => time,
            (Timeout::After(mine), Timeout::After(theirs)) => Timeout::After(mine.min(theirs)),
        }
    }
}

/// Whole seconds, rounded up, and at least one: no time at all is a mistake, and not [no limit](Timeout::Never).
impl From<Duration> for Timeout {
    fn from(time: Duration) -> Timeout {
        let seconds = time.as_secs().saturating_add(u64::from(time.subsec_nanos() > 0)).max(1);
        Timeout::of(u32::try_from(seconds).unwrap_or(u32::MAX))
    }
}

impl Serialize for Timeout {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Timeout::Default => serializer.serialize_none(),
            Timeout::After(seconds) => serializer.serialize_u32(seconds.get()),
            Timeout::Never => serializer.serialize_u32(0),
        }
    }
}
impl<'de> Deserialize<'de> for Timeout {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Timeout, D::Error> {
        Ok(Option::<u32>::deserialize(deserializer)?.map_or(Timeout::Default, Timeout::of))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{call::gate::Ask, limits};

    #[test]
    fn w7_a_time_out_that_was_said_is_told_from_the_default_of_the_same_length() {
        let said = Timeout::of(limits::APPROVAL_TIMEOUT_SECONDS);
        assert!(said != Timeout::Default && said.seconds(1) == limits::APPROVAL_TIMEOUT_SECONDS);
        for timeout in [Timeout::Default, said, Timeout::of(600), Timeout::of(7), Timeout::Never] {
            let ask = Ask { timeout, ..Ask::default() };
            let text = serde_json::to_string(&ask).expect("JSON");
            assert_eq!(serde_json::from_str::<Ask>(&text).expect("read").timeout, timeout, "{text}");
        }
        assert_eq!(serde_json::to_string(&Ask::default()).expect("JSON"), "{}");
    }

    #[test]
    fn w7_a_duration_is_whole_seconds_and_never_no_limit() {
        for (time, seconds) in [
            (Duration::ZERO, 1),
            (Duration::from_millis(1), 1),
            (Duration::from_secs(60), 60),
            (Duration::from_millis(60_001), 61),
            (Duration::MAX, u32::MAX),
        ] {
            assert_eq!(Timeout::from(time), Timeout::of(seconds), "{time:?}");
        }
    }

    #[test]
    fn p1_of_two_the_shorter_counts_and_who_says_nothing_leaves_it_to_the_other() {
        let (default, never, short, long) = (Timeout::Default, Timeout::Never, Timeout::of(300), Timeout::of(900));
        for (one, other, both) in [
            (default, default, default),
            (default, never, never),
            (default, long, long),
            (never, never, never),
            (never, long, long),
            (short, long, short),
            (short, default, short),
        ] {
            assert_eq!((one.shorter(other), other.shorter(one)), (both, both), "{one:?} {other:?}");
        }
    }
}
