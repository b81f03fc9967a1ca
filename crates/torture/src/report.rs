//! The numbers of a run.

use std::{collections::BTreeMap, fmt};

use countersign_runtime::run::failpoint::POINTS;

use crate::checker::Counts;

/// The label of kills that were not at a failpoint.
pub const OUTSIDE: &str = "SIGKILL from outside";

/// What a run did and saw.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// Worlds that were played to their end.
    pub worlds: u64,
    /// What servers suffered: the failpoint at which one was killed, or what came from outside.
    pub faults: BTreeMap<String, u64>,
    /// Connections that people made.
    pub connections: u64,
    /// Connections that people ended themselves.
    pub hung_up: u64,
    /// Blocks that started over.
    pub restarts: u64,
    /// Groups that people saw.
    pub groups: u64,
    /// Sessions whose folded events were compared with a full replay.
    pub replays: u64,
    /// What the checker had to check.
    pub counts: Counts,
}

impl Report {
    /// Adds another report.
    pub fn add(&mut self, other: &Report) {
        self.worlds += other.worlds;
        other.faults.iter().for_each(|(point, kills)| *self.faults.entry(point.clone()).or_default() += kills);
        self.connections += other.connections;
        self.hung_up += other.hung_up;
        self.restarts += other.restarts;
        self.groups += other.groups;
        self.replays += other.replays;
        self.counts.add(&other.counts);
    }

    /// One more fault; `point` is `NAME` or `NAME:N`.
    pub fn struck(&mut self, point: &str) {
        let name = point.split(':').next().unwrap_or_default();
        *self.faults.entry(name.to_owned()).or_default() += 1;
    }

    /// All faults.
    #[must_use]
    pub fn all_faults(&self) -> u64 {
        self.faults.values().sum()
    }

    /// What this run did not try: a run that did not exercise a promise does not count.
    #[must_use]
    pub fn untried(&self, points: bool) -> Vec<String> {
        let counts = &self.counts;
        let mut untried: Vec<String> = POINTS
            .iter()
            .filter(|point| points && !self.faults.contains_key(**point))
            .map(|point| format!("the failpoint {point} never fired"))
            .collect();
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
        writeln!(f, "{} replays compared, {} blocks began again", self.replays, self.restarts)?;
        writeln!(f, "{:#?}", self.counts)
    }
}
