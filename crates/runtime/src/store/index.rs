//! What the entries of an append change in the index of interruptions.

use std::sync::Arc;

use countersign_core::{
    journal::{
        record::{Entry, Millis, Record},
        state::State,
    },
    wire::event::Resolution,
};

use super::InterruptionRow;

/// One change of the index.
#[derive(Clone, Debug)]
pub enum Change {
    /// A new interruption waits.
    Asked(InterruptionRow),
    /// A waiting one ended.
    Resolved {
        /// Its number.
        n: u32,
        /// How.
        resolution: Resolution,
        /// When.
        at: Millis,
        /// The position of the entry that ended it.
        pos: u64,
    },
}

/// The changes of one append, in order. `state` is the state after it.
#[must_use]
pub fn changes(state: &State, entries: &[Arc<Entry>]) -> Vec<Change> {
    let mut changes = Vec::new();
    for entry in entries {
        let resolved = |n: u32, resolution| Change::Resolved { n, resolution, at: entry.at, pos: entry.pos };
        match &entry.record {
            Record::Interrupted(asked) => {
                let mut tools: Vec<Arc<str>> = asked.actions.iter().map(|a| a.name.clone()).collect();
                tools.sort();
                tools.dedup();
                changes.push(Change::Asked(InterruptionRow {
                    session_id: state.session_id.clone(),
                    n: asked.n,
                    subject: state.subject.clone(),
                    role: asked.actions.first().and_then(|a| a.role()).map(str::to_owned),
                    agent: asked.actions.first().map_or_else(|| state.agent.clone(), |a| a.agent.clone()),
                    tools,
                    asked_at: entry.at,
                    expires_at: asked.expires_at,
                    asked_pos: entry.pos,
                    resolution: None,
                    resolved_at: None,
                    resolved_pos: None,
                }));
            }
            Record::Decided(decided) if decided.last => changes.push(resolved(decided.n, Resolution::Decided)),
            Record::TimedOut { n } => changes.push(resolved(*n, Resolution::Timeout)),
            Record::Withdrawn { n, .. } => changes.push(resolved(*n, Resolution::Cancelled)),
            _ => {}
        }
    }
    changes
}
