//! The two clocks: the database's, and this machine's, which nobody sets.

use rustix::time::{ClockId, clock_gettime};

/// The database's time, in Unix milliseconds.
macro_rules! clock {
    () => {
        "floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint"
    };
}
pub(super) use clock;

/// Milliseconds since the machine started, with those in which it was suspended.
pub(super) fn boot_time() -> u64 {
    #[cfg(target_os = "linux")]
    let clock = ClockId::Boottime;
    #[cfg(not(target_os = "linux"))]
    let clock = ClockId::Monotonic;
    let now = clock_gettime(clock);
    u64::try_from(now.tv_sec).unwrap_or_default() * 1000 + u64::try_from(now.tv_nsec).unwrap_or_default() / 1_000_000
}
