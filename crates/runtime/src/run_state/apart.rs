//! Records that are made on a state outside its store, and are stored when the run resumes.
//!
//! They are folded onto the store's journal (`onto` in `run/settle.rs`), after a check that its last entry is the
//! state's. A text with another history of the same length is `Claimed`, and its approvals have no effect.

use std::sync::Arc;

use countersign_core::{
    call::json::same_json,
    journal::record::{Entry, HandedOff, Millis, Record},
    number::CallNo,
};

use super::{RunState, RunStateError};
use crate::{run::settle::Origin, store::Store};

impl RunState {
    /// The entries that its store does not have yet.
    pub(crate) fn unstored(&self) -> &[Arc<Entry>] {
        self.entries.get(self.stored..).unwrap_or_default()
    }

    /// Where it resumes at this time.
    pub(crate) fn origin(&self, at: Millis) -> Origin {
        let pos = self.last_of(self.stored).map_or(0, |entry| entry.pos);
        // A store in which the state is the session's end has no call that has begun since.
        let (unstored, taken) = (self.unstored().to_vec(), self.taken.clone().filter(|_| !self.in_store));
        Origin { pos, unstored, at, taken, request_id: None, is_repeat: false }
    }

    /// The last of the first `count` entries.
    fn last_of(&self, count: usize) -> Option<&Arc<Entry>> {
        count.checked_sub(1).and_then(|last| self.entries.get(last))
    }

    /// Puts it into a store that does not have it, where it continues: the application's (`durable`), or one that exists
    /// only for this part of the run.
    pub(crate) async fn begins_in(&mut self, store: &dyn Store, durable: bool) -> Result<(), RunStateError> {
        if durable {
            self.save(store).await?
        } else {
            self.put_into(store).await?
        }
        self.stored = self.entries.len();
        Ok(())
    }

    /// Whether a store that ends at `pos` has this state's journal, and nothing after it: it was taken from there, or
    /// restored into it. Another history of the same length is another session.
    pub(crate) async fn is_at_end_of(&mut self, store: &dyn Store, pos: u64) -> Result<bool, RunStateError> {
        let counts = [self.stored, self.entries.len()];
        let found =
            counts.into_iter().find_map(|count| Some((count, self.last_of(count).filter(|own| own.pos == pos)?)));
        let Some((count, own)) = found else { return Ok(false) };
        let last = store.read(&self.session.session_id, pos.saturating_sub(1), 1).await?;
        let same = last.first().is_some_and(|last| is_same(last, own));
        if same {
            self.stored = count;
        }
        Ok(same)
    }
}

/// Whether two entries are the same one. A text may have been reformatted since, and its first entry may have other
/// application data.
fn is_same(one: &Entry, other: &Entry) -> bool {
    let records = |entry: &Entry| serde_json::to_string(&entry.records).unwrap_or_default();
    (one.pos, one.at, &one.cursor) == (other.pos, other.at, &other.cursor)
        && (one.pos == 1 || same_json(&records(one), &records(other)))
}

/// The first of the entries that cannot be made on a state outside its store.
pub(super) fn not_made_apart(entries: &[Arc<Entry>]) -> Option<&Arc<Entry>> {
    let is_not = |record: &Record| {
        !matches!(record, Record::HandedOff(HandedOff { call: CallNo::NONE, .. }) | Record::RuleRevoked(_))
    };
    entries.iter().find(|entry| entry.records.iter().any(is_not))
}
