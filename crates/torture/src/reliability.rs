//! What a long run proves, as a page: trials of each promise, and what they say at most about the next one.

use std::fmt::Write as _;

use crate::report::Report;

/// Where and how a run was made.
#[derive(Clone, Debug)]
pub struct Setting {
    /// The servers and their store.
    pub servers: &'static str,
    /// The seed of the first round, and that of the last.
    pub seeds: (u64, u64),
    /// How long it took, in minutes.
    pub minutes: u64,
}

/// The page of a run without violations: a run with one ends there.
#[must_use]
pub fn page(report: &Report, setting: &Setting) -> String {
    let counts = &report.counts;
    let Setting { servers, seeds: (first, last), minutes } = setting;
    let mut page = format!(
        "Version {}, {servers}; seeds {first} to {last}, {minutes} minutes, {} faults in {} worlds with {} \
         sessions, {} connections.\n\n| promise | trials | violations | true rate, with 95 % confidence |\n|---|---|---|---|\n",
        env!("CARGO_PKG_VERSION"),
        report.all_faults(),
        report.worlds,
        counts.sessions,
        report.connections,
    );
    for (promise, trials) in [
        ("R3 an acknowledged message is stored once", counts.messages_acked),
        ("R3 an acknowledged decision is stored once, as it was sent", counts.decisions_acked + counts.answers_acked),
        ("W1 a request that is sent again counts once", counts.sent_again),
        ("R1 an approved call runs with the arguments that were approved", counts.gated_effects),
        ("R1 an edited call runs with the edited arguments", counts.edited_effects),
        ("R1 a rejected or answered call does not run", counts.rejected + counts.responded),
        ("R2 an interruption is resolved once", counts.resolved.iter().sum()),
        ("R4 a call begins once, unless it is idempotent or a person lets it run again", counts.calls),
        ("R4 a call whose outcome is unknown is asked about", counts.in_doubt),
        ("R7 what was seen over all connections is what a full replay shows", report.replays),
    ] {
        let _ = writeln!(page, "| {promise} | {trials} | 0 | {} |", bound(trials));
    }
    page += "\n| fault | times |\n|---|---|\n";
    for (fault, times) in &report.faults {
        let _ = writeln!(page, "| {fault} | {times} |");
    }
    page
}

/// The upper bound of a rate of which no trial showed anything: with it so many trials would have passed in one of twenty
/// runs.
fn bound(trials: u64) -> String {
    if trials == 0 {
        return "not tried".to_owned();
    }
    #[expect(clippy::cast_precision_loss, reason = "three digits are printed")]
    let rate = 1.0 - 0.05_f64.powf(1.0 / trials as f64);
    format!("at most 1 in {:.0}", (1.0 / rate).floor())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_without_violations_is_bounded_by_three_in_as_many_trials() {
        assert_eq!(bound(0), "not tried");
        assert_eq!(bound(1), "at most 1 in 1");
        assert_eq!(bound(3000), "at most 1 in 1001");
    }

    #[test]
    fn a_page_has_each_promise_and_each_fault() {
        let mut report = Report::default();
        report.struck("start.before_commit:3");
        report.counts.calls = 300;
        let page = page(&report, &Setting { servers: "one server", seeds: (1, 2), minutes: 3 });
        assert!(page.contains("| start.before_commit | 1 |"), "{page}");
        assert!(page.contains("lets it run again | 300 | 0 | at most 1 in 100 |"), "{page}");
        assert!(page.contains("is asked about | 0 | 0 | not tried |"), "{page}");
    }
}
