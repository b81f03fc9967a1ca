//! The numbers of a run.

use std::{collections::BTreeMap, fmt};

use crate::{checker::Counts, world::Switch};

/// The label of kills that were not at a failpoint.
pub const OUTSIDE: &str = "SIGKILL from outside";

/// A kind of run, by what it tries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// One server after another, each dead at a failpoint.
    Enumerated,
    /// One after another, killed at any moment.
    One,
    /// Several nodes.
    Nodes,
    /// A round of a long run on SQLite: both of the first, and races.
    LongOne,
    /// A round of a long run on PostgreSQL: nodes, and races.
    LongNodes,
}

/// What is counted, and the least of it in each round of a run of each [`Kind`], in the order of the kinds: 0 where a
/// run can have none.
type Required = (&'static str, fn(&Report) -> u64, [u64; 5]);

/// All requirements. Each is a small part of what such a run has on two slow processor cores.
const REQUIRED: [Required; 27] = [
    ("acknowledged messages", |r| r.counts.messages_acked, [100, 80, 100, 200, 200]),
    ("acknowledged decisions", |r| r.counts.decisions_acked, [100, 60, 60, 200, 200]),
    ("acknowledged answers", |r| r.counts.answers_acked, [20, 8, 10, 40, 40]),
    ("acknowledged cancels", |r| r.counts.cancels_acked, [0, 3, 3, 10, 10]),
    ("acknowledged forks", |r| r.counts.forks_acked, [2, 3, 3, 10, 10]),
    ("requests sent again", |r| r.counts.sent_again, [10, 30, 10, 90, 30]),
    ("calls", |r| r.counts.calls, [200, 120, 120, 400, 400]),
    ("gated effects", |r| r.counts.gated_effects, [60, 30, 30, 150, 150]),
    ("free effects", |r| r.counts.free_effects, [30, 30, 30, 90, 90]),
    ("edited effects", |r| r.counts.edited_effects, [10, 8, 8, 30, 30]),
    ("rejected calls", |r| r.counts.rejected, [10, 8, 8, 30, 30]),
    ("calls answered by a person", |r| r.counts.responded, [5, 3, 3, 12, 12]),
    ("questions declined", |r| r.counts.declined, [3, 2, 2, 8, 8]),
    ("interruptions that were decided", |r| r.counts.resolved[0], [100, 60, 60, 200, 200]),
    ("interruptions that timed out", |r| r.counts.resolved[1], [2, 5, 5, 30, 30]),
    ("interruptions that were withdrawn", |r| r.counts.resolved[2], [0, 1, 1, 10, 10]),
    ("late deadlines", |r| r.counts.late.len() as u64, [2, 3, 5, 30, 30]),
    ("calls in doubt", |r| r.counts.in_doubt, [10, 10, 3, 30, 9]),
    ("calls started again by a person", |r| r.counts.again_by_person, [1, 1, 1, 2, 1]),
    ("idempotent calls started again", |r| r.counts.again_idempotent, [3, 3, 1, 10, 3]),
    ("groups", |r| r.groups, [50, 30, 30, 100, 100]),
    ("blocks that began again", |r| r.restarts, [3, 3, 1, 10, 3]),
    ("replays compared", |r| r.replays, [20, 4, 4, 30, 10]),
    ("records of the audit log", |r| r.counts.audited, [300, 200, 200, 900, 900]),
    ("sessions taken over", |r| r.takeovers.len() as u64, [0, 0, 3, 0, 9]),
    ("deciders who were told that they had lost", |r| r.told, [0, 0, 0, 400, 400]),
    ("races of each kind", |r| r.races.into_iter().min().unwrap_or_default(), [0, 0, 0, 20, 20]),
];

/// What a run did and saw.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// Worlds that were played to their end.
    pub worlds: u64,
    /// The faults of servers: the failpoint at which one was killed, or the fault from outside.
    pub faults: BTreeMap<String, u64>,
    /// What was different in the whole run ([`Switch::label`]), and how often it made a difference.
    pub switched: BTreeMap<&'static str, u64>,
    /// Connections that people made.
    pub connections: u64,
    /// Connections that people ended themselves.
    pub hung_up: u64,
    /// Notifications that the last nodes got from others.
    pub notifications: u64,
    /// Blocks that started over.
    pub restarts: u64,
    /// Groups that people saw.
    pub groups: u64,
    /// Sessions whose folded events were compared with a full replay.
    pub replays: u64,
    /// How much the checker checked.
    pub counts: Counts,
    /// Races of deciders, of a decision with a deadline, of one with a cancel, and of all of these at once.
    pub races: [u64; 4],
    /// Deciders who lost a race, and learned who had won.
    pub told: u64,
    /// How many milliseconds after the death of a node all its sessions had another one.
    pub takeovers: Vec<u64>,
}

/// A list of times in milliseconds, in a few words.
#[must_use]
pub fn spread(times: &[u64]) -> String {
    let mut times = times.to_vec();
    times.sort_unstable();
    // This many per mille are no longer than that.
    let at = |per_mille: usize| times.get((times.len() * per_mille).div_ceil(1000).saturating_sub(1));
    match (at(500), at(990), at(1000)) {
        (Some(half), Some(most), Some(longest)) => format!("p50 {half} ms, p99 {most} ms, at most {longest} ms"),
        _ => "none".to_owned(),
    }
}

impl Report {
    /// Adds another report.
    pub fn add(&mut self, other: &Report) {
        self.worlds += other.worlds;
        other.faults.iter().for_each(|(point, kills)| *self.faults.entry(point.clone()).or_default() += kills);
        other.switched.iter().for_each(|(what, times)| *self.switched.entry(what).or_default() += times);
        self.connections += other.connections;
        self.hung_up += other.hung_up;
        self.notifications += other.notifications;
        self.restarts += other.restarts;
        self.groups += other.groups;
        self.replays += other.replays;
        self.counts.add(&other.counts);
        self.races.iter_mut().zip(other.races).for_each(|(mine, theirs)| *mine += theirs);
        self.told += other.told;
        self.takeovers.extend(&other.takeovers);
    }

    /// One more fault; `point` is `NAME` or `NAME:N`.
    pub fn struck(&mut self, point: &str) {
        let name = point.split(':').next().unwrap_or_default();
        *self.faults.entry(name.to_owned()).or_default() += 1;
    }

    /// How often this fault has happened.
    #[must_use]
    pub fn times(&self, fault: &str) -> u64 {
        self.faults.get(fault).copied().unwrap_or_default()
    }

    /// The event that a switch causes happened this often.
    pub fn switched(&mut self, switch: Switch, times: u64) {
        if times > 0 {
            *self.switched.entry(switch.label()).or_default() += times;
        }
    }

    /// All faults.
    #[must_use]
    pub fn all_faults(&self) -> u64 {
        self.faults.values().sum()
    }

    /// Those of these faults and switches that did not happen this often.
    #[must_use]
    pub fn missing(&self, faults: &[&str], least: u64) -> Vec<String> {
        let happened =
            |fault: &str| self.faults.get(fault).or_else(|| self.switched.get(fault)).copied().unwrap_or_default();
        let missing = faults.iter().filter(|fault| happened(fault) < least);
        missing.map(|fault| format!("this happened {} times of {least}: {fault}", happened(fault))).collect()
    }

    /// What this run did not try often enough: a run that did not exercise a promise, or in which one of these faults did not
    /// happen in each round, does not count.
    #[must_use]
    pub fn untried(&self, kind: Kind, rounds: u64, faults: &[&str]) -> Vec<String> {
        let mut untried = self.missing(faults, rounds);
        for (what, count, least) in REQUIRED {
            let (count, least) = (count(self), least[kind as usize] * rounds);
            if count < least {
                untried.push(format!("there were {count} of {least} {what} to check"));
            }
        }
        untried
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Report { worlds, connections, hung_up, .. } = self;
        writeln!(f, "{} faults in {worlds} worlds, {connections} connections, {hung_up} hung up", self.all_faults())?;
        for (point, kills) in &self.faults {
            writeln!(f, "  {kills:6}  {point}")?;
        }
        for (what, times) in &self.switched {
            writeln!(f, "  {times:6}  {what}")?;
        }
        writeln!(f, "{} replays compared, {} blocks began again", self.replays, self.restarts)?;
        writeln!(
            f,
            "races: {:?}, {} losers told; taken over after: {}",
            self.races,
            self.told,
            spread(&self.takeovers)
        )?;
        writeln!(f, "{} deadlines, late by: {}", self.counts.late.len(), spread(&self.counts.late))?;
        writeln!(f, "{:#?}", Counts { late: Vec::new(), ..self.counts.clone() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_told_by_half_of_them_nearly_all_and_the_longest() {
        assert_eq!(spread(&[]), "none");
        assert_eq!(spread(&[7]), "p50 7 ms, p99 7 ms, at most 7 ms");
        let times: Vec<u64> = (1..=200).rev().collect();
        assert_eq!(spread(&times), "p50 100 ms, p99 198 ms, at most 200 ms");
    }

    #[test]
    fn a_run_without_one_of_its_faults_does_not_count() {
        let mut report = Report::default();
        report.struck("start.before_commit:3");
        let untried = report.untried(Kind::Nodes, 1, &["start.before_commit", "a storm"]);
        assert!(!untried.iter().any(|what| what.contains("start.")), "{untried:?}");
        assert!(untried.contains(&"this happened 0 times of 1: a storm".to_owned()), "{untried:?}");
        let twice = report.untried(Kind::Nodes, 2, &["start.before_commit"]);
        assert!(twice.contains(&"this happened 1 times of 2: start.before_commit".to_owned()), "{twice:?}");
    }

    #[test]
    fn a_run_with_too_few_cases_of_a_promise_does_not_count() {
        let mut report = Report { takeovers: vec![1000; 5], ..Report::default() };
        report.counts.messages_acked = 150;
        let untried = report.untried(Kind::Nodes, 1, &[]);
        assert!(!untried.iter().any(|what| what.contains("acknowledged messages")), "{untried:?}");
        assert!(!untried.iter().any(|what| what.contains("taken over") || what.contains("races")), "{untried:?}");
        assert!(untried.contains(&"there were 0 of 3 calls in doubt to check".to_owned()), "{untried:?}");
        let rounds = report.untried(Kind::Nodes, 2, &[]);
        assert!(rounds.contains(&"there were 150 of 200 acknowledged messages to check".to_owned()), "{rounds:?}");
        assert!(rounds.contains(&"there were 5 of 6 sessions taken over to check".to_owned()), "{rounds:?}");
        let long = report.untried(Kind::LongNodes, 1, &[]);
        assert!(long.iter().any(|what| what.ends_with("races of each kind to check")), "{long:?}");
    }
}
