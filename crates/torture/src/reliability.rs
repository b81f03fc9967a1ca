//! What long runs prove, as a page: the trials of each promise, and the bound that they give. A run writes its own
//! section and leaves the others.

use std::fmt::Write as _;

use crate::report::{Report, spread};

/// What the page begins with.
pub const HEAD: &str = "\
# Reliability

The results of `cargo xtask torture`: it kills servers, stops them and cuts them off while people talk to them, and at the end compares the
journal, the audit log, an outside ledger of effects and the people's memories. Each server on PostgreSQL (except in the races) reaches it
through a proxy, which ends connections in the middle of a message, passes nothing for longer than a lease, and loses the replies to
commits; its machine's clock is set forward and back by days; and now and then one shuts down in order. The disk of a server on SQLite is
full now and then, or fails to sync, and its clock is set forward and back by days too; and when such a server loses power, at any moment,
right after an acknowledgement or at a failpoint, its disk loses what was not synced, all of it or any pages.

With SQLite the machine's clock decides about deadlines: set forward, it passes those in between, and they fire at once; set back, those
that were set before fire that much later. With PostgreSQL the database's clock decides, whatever a node's clock shows.

If a SQLite log is cut at any byte, it still has each append before that byte as a whole, with its audit records, and no part of another.
A database that is cut is refused by name or, if it has a log, nothing is read that was not stored. This is tried at each byte of a log's
last two frames, and at samples of the rest
(`r3_r8_a_log_that_is_cut_at_any_byte_has_the_appends_before_it_and_no_part_of_another`,
`r9_a_database_that_is_cut_at_any_byte_is_refused_by_name_and_left_alone`,
`r3_r9_of_a_cut_database_with_a_log_nothing_is_read_that_was_not_stored`). SQLite takes a file of at most one byte for a new store.

With `--as evicted`, `polling`, `hopping`, `reconnecting` or `timerless` a whole run keeps no paused session in memory, notifies no
server of what others do, sends each request of a session to another server than the one before, has people reconnect after every 3
events, or lets no server look for the deadlines of its own requests: another server that reads the store fires them, or a decision or
an answer that comes too late, at any server. None has timers for them.

A run ends at its first violation, so this page has none; it says how often each promise was put to the test, and how rare a violation must
be to have stayed hidden. A run also fails if a failpoint, a fault or a power cut that lost something came up less often than there were
rounds, or if there were fewer cases of a promise than `REQUIRED` in `crates/torture/src/report.rs` says for each round. The tests run
the same for a minute or two (`r1_r2_r3_r4_r7_kills_and_power_cuts_at_any_moment_under_load_break_nothing`,
`r3_acknowledged_requests_survive_a_kill_or_a_power_cut_at_that_very_moment`, `r1_r2_r3_r4_r7_a_kill_at_every_hit_of_every_failpoint_breaks_nothing`,
`r1_r2_r3_r4_r5_r7_nodes_that_are_killed_stopped_and_cut_off_break_nothing`,
`r2_r5_of_two_to_64_deciders_at_three_nodes_one_wins_and_all_others_are_told_who`,
`r2_r5_several_deciders_the_deadline_and_a_cancel_at_three_nodes_have_one_winner`,
`r2_r4_r5_r6_r7_each_request_at_another_node_and_none_is_notified_or_has_paused_sessions_or_timers_in_memory`,
`r6_deadlines_fire_from_the_store_though_whoever_asked_fires_none`,
`r7_people_who_connect_anew_after_every_3_events_see_in_all_what_a_replay_shows`,
`r1_r3_r4_r7_sessions_that_leave_memory_whenever_they_pause_lose_nothing_in_kills`).

The tool writes this page, one section for each run: `cargo xtask torture --store postgres --minutes 30 --report docs/reliability.md`.

Whether the tests would notice a bug is tested too: `cargo xtask mutants` puts the bugs of [tests/mutants](../tests/mutants) into a copy of
the sources, one at a time, and fails unless the tests that each bug names fail; with `--report docs/reliability.md` it writes its
section here.
";

/// Where and how a run was made.
#[derive(Clone, Debug)]
pub struct Setting {
    /// The section's heading: the servers and their store.
    pub title: String,
    /// The platform, with versions.
    pub on: String,
    /// The command.
    pub command: String,
    /// The seed of the first round, and that of the last.
    pub seeds: (u64, u64),
    /// How long it took, in minutes.
    pub minutes: u64,
}

/// The page with this run's section, in place of an earlier one of the same title.
#[must_use]
pub fn page(before: &str, report: &Report, setting: &Setting) -> String {
    let title = format!("\n## {}\n", setting.title);
    let mut sections: Vec<String> = before.split("\n## ").skip(1).map(|section| format!("\n## {section}")).collect();
    let mut new = format!("{title}\n{}", section(report, setting));
    match sections.iter_mut().find(|section| section.starts_with(&title)) {
        Some(old) => std::mem::swap(old, &mut new),
        None => sections.push(new),
    }
    let sections = sections.iter().map(|section| section.trim_end().to_owned() + "\n");
    HEAD.to_owned() + &sections.collect::<String>()
}

/// The section of a run without violations: a run with one ends there.
fn section(report: &Report, setting: &Setting) -> String {
    let counts = &report.counts;
    let Setting { on, command, seeds: (first, last), minutes, .. } = setting;
    let mut text = format!(
        "```sh\n{command}\n```\n\nVersion {}, {on}; seeds {first} to {last}, {minutes} minutes, {} faults in {} worlds with {} sessions, \
         {} connections.\n\n| promise | trials | violations | true rate, with 95 % confidence |\n|---|---|---|---|\n",
        env!("CARGO_PKG_VERSION"),
        report.all_faults(),
        report.worlds,
        counts.sessions,
        report.connections,
    );
    for (promise, trials) in [
        ("R3 an acknowledged message is stored once", counts.messages_acked),
        ("R3 an acknowledged decision is stored once, as it was sent", counts.decisions_acked + counts.answers_acked),
        ("R3 an acknowledged cancel is stored once", counts.cancels_acked),
        ("G6 an acknowledged fork is stored once, with the past of its original", counts.forks_acked),
        ("W1 a request that is sent again counts once", counts.sent_again),
        ("R1 an approved call runs with the arguments that were approved", counts.gated_effects),
        ("R1 an edited call runs with the edited arguments", counts.edited_effects),
        ("R1 a rejected or answered call does not run", counts.rejected + counts.responded),
        ("R2 an interruption is resolved once", counts.resolved.iter().sum()),
        ("R2 of deciders at once one wins, and each other is told who", report.told),
        ("R2 of a decision and a deadline one wins", report.races[1]),
        ("R2 of a decision and a cancel one wins", report.races[2]),
        ("R2 of several decisions, a deadline and a cancel at once one wins", report.races[3]),
        ("R4 a call begins once, unless it is idempotent or a person lets it run again", counts.calls),
        ("R4 a call whose outcome is unknown is asked about", counts.in_doubt),
        ("R5 the sessions of a dead node have another within 15 s", report.takeovers.len() as u64),
        ("R6 no deadline fires early", counts.late.len() as u64),
        ("R7 what was seen over all connections is what a full replay shows", report.replays),
        ("R8 what happens is in the audit log, whose chain has no gap", counts.audited),
    ] {
        // A promise that was not tried is not claimed.
        if trials > 0 {
            let _ = writeln!(text, "| {promise} | {trials} | 0 | {} |", bound(trials));
        }
    }
    text += "\n| fault | times |\n|---|---|\n";
    for (fault, times) in &report.faults {
        let _ = writeln!(text, "| {fault} | {times} |");
    }
    if !report.switched.is_empty() {
        text += "\n| different in the whole run | times |\n|---|---|\n";
        for (what, times) in &report.switched {
            let _ = writeln!(text, "| {what} | {times} |");
        }
    }
    text += "\n| time | measured |\n|---|---|\n";
    for (what, times) in [
        ("from the death of a node until others have its sessions", &report.takeovers),
        ("from a deadline until it is stored that nobody decided, with the time in which no server ran", &counts.late),
    ] {
        if !times.is_empty() {
            let _ = writeln!(text, "| {what} | {} |", spread(times));
        }
    }
    text
}

/// The upper bound of a rate when all trials passed: at that rate, one in twenty runs would pass this many trials.
fn bound(trials: u64) -> String {
    #[expect(clippy::cast_precision_loss, reason = "three digits are printed")]
    let rate = 1.0 - 0.05_f64.powf(1.0 / trials as f64);
    format!("at most 1 in {:.0}", (1.0 / rate).floor())
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::world::Switch;

    fn setting(title: &'static str) -> Setting {
        Setting {
            title: title.to_owned(),
            on: "SQLite".to_owned(),
            command: "torture".to_owned(),
            seeds: (1, 2),
            minutes: 3,
        }
    }

    #[test]
    fn a_rate_without_violations_is_bounded_by_three_in_as_many_trials() {
        assert_eq!(bound(1), "at most 1 in 1");
        assert_eq!(bound(3000), "at most 1 in 1001");
    }

    #[test]
    fn a_section_has_each_promise_each_fault_and_each_time() {
        let mut report = Report { takeovers: vec![1500, 900], ..Report::default() };
        report.struck("start.before_commit:3");
        report.counts.calls = 300;
        report.switched(Switch::Hopping, 5);
        let page = page("", &report, &setting("One server"));
        assert!(page.starts_with(HEAD) && page.contains("\n## One server\n"), "{page}");
        assert!(page.contains("| start.before_commit | 1 |") && page.contains(" 1 faults in "), "{page}");
        assert!(page.contains(&format!("| {} | 5 |", Switch::Hopping.label())), "{page}");
        assert!(page.contains("lets it run again | 300 | 0 | at most 1 in 100 |"), "{page}");
        assert!(!page.contains("is asked about |") && !page.contains("from a deadline"), "not tried: {page}");
        assert!(page.contains("others have its sessions | p50 900 ms, p99 1500 ms, at most 1500 ms |"), "{page}");
    }

    #[test]
    fn a_run_writes_its_own_section_and_leaves_the_others() {
        let mut report = Report { worlds: 7, ..Report::default() };
        let one = page("# Something old\n\n## Two\n\nkept\n", &report, &setting("One"));
        assert!(one.starts_with(HEAD) && one.contains("\n## Two\n\nkept\n\n## One\n"), "{one}");
        report.worlds = 8;
        let again = page(&one, &report, &setting("One"));
        assert_eq!(again, one.replace("in 7 worlds", "in 8 worlds"));
    }

    #[test]
    fn the_page_in_the_documents_is_the_tools() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reliability.md");
        let text = std::fs::read_to_string(path).expect("a page");
        let rest = text.strip_prefix(HEAD).expect("what the tool writes");
        for title in ["One server after another, on SQLite", "Several servers at once, on PostgreSQL"] {
            assert!(rest.contains(&format!("\n## {title}\n\n```sh\ncargo xtask torture ")), "{title}");
        }
    }
}
