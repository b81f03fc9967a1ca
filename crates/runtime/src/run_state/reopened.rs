//! A turn that has failed goes on, in the store that it failed in or in another (SPEC S22).

use std::sync::Arc;

use countersign_core::journal::{
    draft::{Catalog, Draft},
    record::{Entry, Record, TurnReopened},
    reopen::{Reopening, ending},
    state::State,
};

use super::{RunState, RunStateError};
use crate::{run::now, store::Store};

impl RunState {
    /// Lets the last turn go on, if it has failed: what waited for people waits again, under new keys, and can be decided; what
    /// was given up is open again, and people are asked about it where they must be once it goes on; what was done stays done. The state of an error is like that already, and a failed one that
    /// is run is, too; this is for one that was [saved](RunState::save), to decide on it before it goes on. Nothing is stored
    /// until it does, and then it does once: of several that go on from one failed turn, one runs.
    ///
    /// `false`: the last turn did not fail, or is one of a graph, whose run is
    /// [taken up again](crate::run::Runs::retry) by its runtime.
    pub fn reopen(&mut self) -> bool {
        self.reopen_by(None)
    }

    /// The same; with a `catalog`, people are also asked about what nobody was asked about yet.
    pub(crate) fn reopen_by(&mut self, catalog: Option<&dyn Catalog>) -> bool {
        let Some(reopening) = Reopening::of(&self.state.session_id, &self.entries) else { return false };
        let reopened = Draft::new(&self.state, now()).reopen(reopening, catalog);
        self.entries.extend(reopened.entries().iter().cloned());
        self.state = reopened.state().clone();
        true
    }

    /// The entries that its store does not have yet.
    pub(crate) fn unstored(&self) -> &[Arc<Entry>] {
        self.entries.get(self.stored..).unwrap_or_default()
    }

    /// The position at which its store stands.
    pub(crate) fn stored_pos(&self) -> u64 {
        self.stored.checked_sub(1).and_then(|last| self.entries.get(last)).map_or(0, |entry| entry.pos)
    }

    /// Puts the session into a store as it stood in the one that it is of: what was made on the state since is not stored yet.
    pub(crate) async fn restore_stored(&self, store: &dyn Store) -> Result<(), RunStateError> {
        if self.unstored().is_empty() {
            return self.restore(store).await;
        }
        let mut state = State::new(self.state.session_id.clone());
        if let Some(first) = self.entries.first() {
            state.cursor.groups = first.cursor.groups;
        }
        let entries: Vec<Arc<Entry>> = self.entries.iter().take(self.stored).cloned().collect();
        entries.iter().for_each(|entry| state.apply(entry));
        RunState::of_session(entries, Arc::new(state)).restore(store).await
    }
}

/// The ends of turns in a journal that went on afterwards, and the states before them: each is looked at once, however often
/// turns have failed.
pub(super) struct Endings {
    /// Where they begin, the latest first.
    begin: Vec<usize>,
    before: Option<State>,
}

impl Endings {
    pub(super) fn of(entries: &[Arc<Entry>]) -> Endings {
        let reopened = (0..entries.len()).rev().filter(|i| matches!(entries[*i].record, Record::TurnReopened(_)));
        Endings { begin: reopened.filter_map(|i| ending(&entries[..i])).collect(), before: None }
    }

    /// Keeps the state before an entry, if an end begins with that.
    pub(super) fn at(&mut self, state: &State) {
        if self.begin.last().is_some_and(|begin| *begin as u64 == state.pos) {
            self.begin.pop();
            self.before = Some(state.clone());
        }
    }

    /// Whether what is open again is what was open when the turn failed.
    pub(super) fn leads_to(&mut self, reopened: &TurnReopened) -> Result<(), &'static str> {
        let before = self.before.take().and_then(|state| Reopening::before(&state));
        match before {
            Some(before) if before.reopened == *reopened => Ok(()),
            _ => Err("the turn that has failed did not stand like that"),
        }
    }
}
