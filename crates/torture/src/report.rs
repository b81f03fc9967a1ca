//! The numbers of a run.

use std::{collections::BTreeMap, fmt};

use crate::{checker::Counts, world::Switch};

/// The label of kills that were not at a failpoint.
pub const OUTSIDE: &str = "SIGKILL from outside";

/// What a run did and saw.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// Worlds that were played to their end.
    pub worlds: u64,
    /// What servers suffered: the failpoint at which one was killed, or what came from outside.
    pub faults: BTreeMap<String, u64>,
    /// What was different in the whole run ([`Switch::label`]), and how often it made a difference.
    pub switched: BTreeMap<&'static str, u64>,
    /// Connections that people made.
    pub connections: u64,
    /// Connections that people ended themselves.
    pub hung_up: u64,
    /// Notifications that the last nodes heard of others.
    pub notifications: u64,
    /// Blocks that started over.
    pub restarts: u64,
    /// Groups that people saw.
    pub groups: u64,
    /// Sessions whose folded events were compared with a full replay.
    pub replays: u64,
    /// What the checker had to check.
    pub counts: Counts,
    /// Races of deciders, of a decision with a deadline, and of one with a cancel.
    pub races: [u64; 3],
    /// Deciders who lost a race, and were told who had won.
    pub told: u64,
    /// How many milliseconds after the death of a node all sessions that it had worked on had another one.
    pub takeovers: Vec<u64>,
}

/// A list of times in milliseconds, in a few words.
#[must_use]
pub fn spread(times: &[u64]) -> String {
    let mut times = times.to_vec();
    times.sort_unstable();
    // Of so many per mille none is longer.
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

    /// What a switch makes happen did so often.
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

    /// Those of these faults and switches that did not happen.
    #[must_use]
    pub fn missing(&self, faults: &[&str]) -> Vec<String> {
        let happened = |fault: &str| self.faults.contains_key(fault) || self.switched.contains_key(fault);
        let missing = faults.iter().filter(|fault| !happened(fault));
        missing.map(|fault| format!("this did not happen: {fault}")).collect()
    }

    /// What this run did not try: a run that did not exercise a promise, or in which one of these faults did not happen, does
    /// not count.
    #[must_use]
    pub fn untried(&self, faults: &[&str]) -> Vec<String> {
        let counts = &self.counts;
        let mut untried = self.missing(faults);
        for (count, what) in [
            (counts.messages_acked, "acknowledged message"),
            (counts.decisions_acked, "acknowledged decision"),
            (counts.sent_again, "request sent again"),
            (counts.gated_effects, "gated effect"),
            (counts.free_effects, "free effect"),
            (counts.edited_effects, "edited effect"),
            (counts.rejected, "rejected call"),
            (counts.responded, "call answered by a person"),
            (counts.answers_acked, "acknowledged answer"),
            (counts.declined, "question declined"),
            (self.groups, "group"),
            (counts.in_doubt, "call in doubt"),
            (counts.again_by_person, "call started again by a person"),
            (counts.again_idempotent, "idempotent call started again"),
            (self.restarts, "block that began again"),
            (self.replays, "replay compared"),
        ] {
            if count == 0 {
                untried.push(format!("there was no {what} to check"));
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
        let untried = report.untried(&["start.before_commit", "a storm"]);
        assert!(!untried.iter().any(|what| what.contains("start.")), "{untried:?}");
        assert!(untried.contains(&"this did not happen: a storm".to_owned()), "{untried:?}");
        assert!(untried.contains(&"there was no group to check".to_owned()), "{untried:?}");
    }
}
