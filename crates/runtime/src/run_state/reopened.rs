//! A turn that has failed goes on, in the store that it failed in or in another (spec S22).
//!
//! The state of an error is reopened already, while the store has it as failed until it resumes (`RunState::stored`).
//! So decisions can be made on it at once, here or from its text, and resuming stores reopening and decisions in one
//! append: of several processes one runs, the others get `RunError::Claimed`. Reopening is made again at the time of
//! resuming, so no deadline passes in a state that only its program has. Records that are made on a state
//! (`set_current_agent`) are stored likewise: they are folded onto what the store has (`onto`), after its last entry
//! was found to be the state's. A text that has another history of the same length is `Claimed`, and what it says was
//! approved counts for nothing.

use std::sync::Arc;

use countersign_core::{
    call::json::same_json,
    journal::{
        draft::{Catalog, Draft, Transition},
        record::{Entry, HandedOff, Millis, Note, Noted, Record, TurnReopened},
        reopen::{Reopening, ending},
        state::State,
    },
};

use super::{RunState, RunStateError};
use crate::{run::now, store::Store};

impl RunState {
    /// Lets the last turn go on, if it has failed. What waited for people waits again, under new keys, and can be decided. What
    /// was given up is open again; people are asked about it, where they must be, once it goes on. What was done stays done.
    ///
    /// The state of an error is like that already, and a failed one that is run is, too. This is for one that was
    /// [saved](RunState::save), to decide on it before it goes on. Nothing is stored until it does, and then it does once: of
    /// several that go on from one failed turn, one runs.
    ///
    /// `false`: nothing has changed. The last turn ended otherwise, was cancelled, is not over, or is open again already; a
    /// message or a fork has come since; or it is one of a graph of the application's own, whose run is
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
        self.last_of(self.stored).map_or(0, |entry| entry.pos)
    }

    /// The last one of the first so many entries.
    fn last_of(&self, count: usize) -> Option<&Arc<Entry>> {
        count.checked_sub(1).and_then(|last| self.entries.get(last))
    }

    /// How many entries it has in a store that it is restored into: those before a failed turn is open again. That one is
    /// stored when it goes on, since it tells who was first.
    pub(super) fn restored(&self) -> usize {
        self.unstored().iter().position(reopens).map_or(self.entries.len(), |at| self.stored + at)
    }

    /// The state after the first so many entries.
    pub(super) fn state_at(&self, count: usize) -> Arc<State> {
        if count == self.entries.len() {
            return self.state.clone();
        }
        let mut state = State::new(self.state.session_id.clone());
        self.entries.iter().take(count).for_each(|entry| state.apply(entry));
        Arc::new(state)
    }

    /// Puts it into a store that does not have it, where it goes on.
    pub(crate) async fn begins_in(&mut self, store: &dyn Store) -> Result<(), RunStateError> {
        self.restore(store).await?;
        self.stored = self.restored();
        Ok(())
    }

    /// Whether a store that ends at `pos` has what this state is of, and nothing after it: it was taken from there, or
    /// restored into it. Another history of the same length is another session.
    pub(crate) async fn is_at_end_of(&mut self, store: &dyn Store, pos: u64) -> Result<bool, RunStateError> {
        let counts = [self.stored, self.restored()];
        let found =
            counts.into_iter().find_map(|count| Some((count, self.last_of(count).filter(|own| own.pos == pos)?)));
        let Some((count, own)) = found else { return Ok(false) };
        let last = store.read(&self.state.session_id, pos.saturating_sub(1), 1).await?;
        let same = last.first().is_some_and(|last| is_same(last, own));
        if same {
            self.stored = count;
        }
        Ok(same)
    }

    /// What is open again since a turn failed is so from now on. While that was known to nobody but this state, no time has
    /// passed for those who are asked.
    pub(crate) fn reopen_now(&mut self, at: Millis) {
        if !self.unstored().iter().any(reopens) {
            return;
        }
        let again = Draft::new(&self.state_at(self.stored), at).again(self.unstored());
        self.entries.truncate(self.stored);
        self.entries.extend(again.entries().iter().cloned());
        self.state = again.state().clone();
    }
}

fn reopens(entry: &Arc<Entry>) -> bool {
    entry.records.iter().any(|record| matches!(record, Record::TurnReopened(_)))
}

/// Whether two entries are the same one. A text may have been laid out differently since, and its first entry may have
/// other data of the application's.
fn is_same(one: &Entry, other: &Entry) -> bool {
    let records = |entry: &Entry| serde_json::to_string(&entry.records).unwrap_or_default();
    (one.pos, one.at, &one.cursor) == (other.pos, other.at, &other.cursor)
        && (one.pos == 1 || same_json(&records(one), &records(other)))
}

/// The first of the entries that nothing makes on a state apart from its store.
pub(super) fn not_made_apart(entries: &[Arc<Entry>]) -> Option<&Arc<Entry>> {
    let mut reopened = false;
    let mut is_not = |record: &Record| match record {
        Record::HandedOff(HandedOff { call: 0, .. }) | Record::RuleRevoked(_) => false,
        Record::TurnReopened(_) => std::mem::replace(&mut reopened, true),
        Record::Interrupted(_) | Record::Status { .. } | Record::Noted(Noted { note: Note::Reassigned { .. }, .. }) => {
            !reopened
        }
        _ => true,
    };
    entries.iter().find(|entry| entry.records.iter().any(&mut is_not))
}

/// Entries that were made apart from a store, on the state that this has; `journal` is what it has, if a failed turn is open
/// again in them. `None`: they are not what follows there. What a text says of the state before them counts for nothing.
pub(crate) fn onto(state: &State, journal: &[Arc<Entry>], made: Vec<Arc<Entry>>) -> Option<Transition> {
    let mut after = state.clone();
    let mut journal = journal.to_vec();
    for entry in &made {
        let own = |reopened: &TurnReopened| {
            Reopening::of(&state.session_id, &journal).is_some_and(|failed| failed.reopened == *reopened)
        };
        let fits = entry.records.iter().all(|record| match record {
            Record::TurnReopened(reopened) => own(reopened),
            _ => true,
        });
        if !fits || after.append(entry).is_err() {
            return None;
        }
        journal.push(entry.clone());
    }
    Some(Transition::made(Arc::new(after), made))
}

/// The ends of turns in a journal that went on afterwards, and how they stood before them: each is looked at once, however
/// often turns have failed.
pub(super) struct Endings {
    /// Where they are, the latest first.
    ends: Vec<usize>,
    before: Option<Reopening>,
}

impl Endings {
    pub(super) fn of(entries: &[Arc<Entry>]) -> Endings {
        let reopened = (0..entries.len()).rev().filter(|i| reopens(&entries[*i]));
        Endings { ends: reopened.filter_map(|i| ending(&entries[..i])).collect(), before: None }
    }

    /// Keeps how a turn stood that ends in the entry that comes next, if it goes on afterwards.
    pub(super) fn at(&mut self, state: &State, next: &Entry) {
        if self.ends.last().is_some_and(|end| *end as u64 == state.pos) {
            self.ends.pop();
            self.before = Reopening::at(state.clone(), next);
        }
    }

    /// Whether what is open again is what was open when the turn failed.
    pub(super) fn leads_to(&mut self, reopened: &TurnReopened) -> Result<(), &'static str> {
        match self.before.take() {
            Some(before) if before.reopened == *reopened => Ok(()),
            _ => Err("the turn that has failed did not stand like that"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        agent::Agent,
        model::scripted::Scripted,
        runner::run,
        tool::{Approval, function},
    };

    const CALLS: &str = r#"{"tool_calls":[{"name":"a","id":"c1","args":{}}]}"#;

    /// The state of an error; without a person's approval the call has not run.
    async fn failed(approved: bool) -> RunState {
        let script = format!(r#"{{"turns":[{CALLS},{{"error":"down"}}]}}"#);
        let tool = function::tool("a", "", |_: serde_json::Map<String, serde_json::Value>| async { Ok("done") });
        let agent = Agent::new("Helper", Scripted::from_json(&script).expect("script"))
            .tool(tool.needs_approval(Approval::always()));
        let mut paused = run(&agent, "go").await.expect("paused");
        let item = &paused.interruptions[0];
        if approved {
            paused.state.approve(item).expect("approved");
        } else {
            paused.state.reject(item).expect("rejected");
        }
        run(&agent, paused.state).await.expect_err("down").into_state().expect("a state")
    }

    #[tokio::test]
    async fn s17_what_a_store_has_counts_not_what_a_text_says_of_it() {
        let (approved, rejected) = (failed(true).await, failed(false).await);
        let has = rejected.state_at(rejected.stored);
        let journal = &rejected.entries()[..rejected.stored];
        let own = onto(&has, journal, rejected.unstored().to_vec()).expect("it follows");
        assert_eq!(own.state(), &rejected.state);
        // What the other one has open again, put where it would be here.
        let other = Draft::new(&has, has.updated_at).again(approved.unstored()).entries().to_vec();
        assert!(onto(&has, journal, other).is_none());
        // Nor with a journal that is not that of the state.
        let other = approved.state_at(approved.stored);
        assert!(onto(&other, journal, approved.unstored().to_vec()).is_none());
    }
}
