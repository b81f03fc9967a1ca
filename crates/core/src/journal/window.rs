//! The part of a session's conversation that its models still read, and its size (spec G5).
//!
//! When the next model call would exceed the agent's `context_tokens`, [`Record::MakeRoom`] is recorded; models no
//! longer read what [`Record::Compressed`] covers. Cuts are made between turns only: there every call has its result
//! and nothing is pending. Events, history and the audit log are unaffected and keep everything.
//!
//! Two records and no event: `MakeRoom` keeps the session's current node a function of its state, `Compressed` has the
//! summary and the position up to which it covers. A conversation is folded from there on, so a model call costs the
//! same however long the session has become, and a fold can begin at a cut with only the number of calls so far.
//! Followers see nothing of it, since nothing they were shown has changed. A single turn that exceeds the limit is not
//! cut.

use super::{
    draft::{Catalog, ContextLimit, Draft, Transition},
    record::{Compressed, MakeRoom, Record},
    state::{Phase, State},
};

impl State {
    /// The size to compress before the next model call, if it is the model's turn and something may be cut. `None` also
    /// if it is recorded already.
    fn wants_room(&self, catalog: &dyn Catalog) -> Option<MakeRoom> {
        let ContextLimit { context_tokens, keep_turns, overhead } = catalog.context_limit(&self.agent)?;
        let window = &self.window;
        let asks_next = self.status.is_active()
            && !self.answered
            && self.open.is_empty()
            && self.calls.iter().all(|call| call.phase == Phase::Finished);
        if !asks_next || window.due.is_some() {
            return None;
        }
        let (keep_turns, overhead) = (keep_turns.max(1), if window.whole { 0 } else { overhead });
        let tokens = window.tokens.saturating_add(overhead);
        (tokens > context_tokens && window.turns > keep_turns).then_some(MakeRoom {
            tokens,
            context_tokens,
            keep_turns,
        })
    }
}

impl Draft {
    /// Records that the conversation must be compressed before the next model call, if the session's agent exceeds its
    /// `context_tokens` and something may be cut.
    pub(super) fn ask_for_room(&mut self, catalog: &dyn Catalog) {
        if let Some(room) = self.state.wants_room(catalog) {
            self.push(Record::MakeRoom(room));
        }
    }

    /// The conversation was compressed. `None` if that is no longer required.
    #[must_use]
    pub fn compressed(mut self, compressed: Compressed) -> Option<Transition> {
        self.state.window.due?;
        self.push(Record::Compressed(compressed));
        Some(self.finish())
    }
}
