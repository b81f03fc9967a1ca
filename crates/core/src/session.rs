//! A session: its state, and the position of its event stream. Both are folds of the journal, and the state does not
//! need the stream: transitions are made from the state alone, and their appends get their cursors here, before they
//! are stored.

use std::{ops::Deref, sync::Arc};

use serde::{Deserialize, Serialize};

use crate::{
    journal::{cursor::Cursor, draft::Transition, legal::Illegal, permit::Permit, record::Entry, state::State},
    number::CallNo,
    wire::expand,
};

/// A session after the appends so far. Its state and its cursor move together: by
/// [`Session::append`] and [`Session::place`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Session {
    /// The position of its event stream.
    pub cursor: Cursor,
    /// Its state.
    pub state: Arc<State>,
}

impl Deref for Session {
    type Target = State;
    fn deref(&self) -> &State {
        &self.state
    }
}

impl Session {
    /// A session before its first append.
    #[must_use]
    pub fn new(session_id: Arc<str>) -> Session {
        Session { cursor: Cursor::default(), state: Arc::new(State::new(session_id)) }
    }

    /// Applies the next append, if it is legal: the one rulebook for every journal that is read, whether it was stored
    /// here, restored, copied or made by a fuzzer. If it is not legal, the session must be discarded.
    ///
    /// # Errors
    /// The rule it breaks.
    pub fn append(&mut self, entry: &Entry) -> Result<(), Illegal> {
        if entry.cursor != self.cursor {
            return Err(Illegal("its cursor is not where the entries before it end"));
        }
        Arc::make_mut(&mut self.state).append(entry)?;
        pass(&mut self.cursor, entry)
    }

    /// Gives the appends of a transition of this session their cursors.
    ///
    /// # Errors
    /// The rule of journals that they break: stored, they could not be read again, nor could their session.
    pub fn place(&self, transition: Transition) -> Result<Placed, Illegal> {
        let (state, mut entries, started) = transition.into_parts()?;
        debug_assert!(state.session_id == self.session_id && entries.first().is_none_or(|e| e.pos == self.pos + 1));
        let mut cursor = self.cursor.clone();
        for entry in &mut entries {
            if entry.cursor != cursor {
                Arc::make_mut(entry).cursor = cursor.clone();
            }
            pass(&mut cursor, entry)?;
        }
        #[cfg(debug_assertions)]
        self.check(&entries);
        Ok(Placed { before: self.state.clone(), after: Session { cursor, state }, entries, started })
    }

    /// What a draft checks record by record is what a reader checks.
    #[cfg(debug_assertions)]
    fn check(&self, entries: &[Arc<Entry>]) {
        let mut read = self.clone();
        for entry in entries {
            let legal = read.append(entry);
            debug_assert!(legal.is_ok(), "a transition breaks the rules of journals, {legal:?}: {entry:?}");
        }
    }
}

/// Advances the cursor past an append that begins at it.
///
/// # Errors
/// It is in the middle of a block that the model has begun.
fn pass(cursor: &mut Cursor, entry: &Entry) -> Result<(), Illegal> {
    for record in &entry.records {
        let begun = (cursor.began != 0 && record.first_block().is_none()).then(|| cursor.clone());
        expand::pass(cursor, record);
        if begun.is_some_and(|begun| begun != *cursor) {
            return Err(Illegal::WITHIN_A_BLOCK);
        }
    }
    Ok(())
}

/// A transition that is ready to be stored.
#[derive(Debug)]
#[must_use = "a transition does nothing until it is stored and committed"]
pub struct Placed {
    before: Arc<State>,
    after: Session,
    entries: Vec<Arc<Entry>>,
    started: Vec<CallNo>,
}

impl Placed {
    /// Says how it comes into the store: see [`Entry::via`].
    pub fn via(mut self, via: &str) -> Placed {
        self.entries.iter_mut().for_each(|entry| Arc::make_mut(entry).via = Some(via.into()));
        self
    }

    /// What to store, at the positions after the session's: one append, none if nothing follows from the input, and
    /// several only [where they were made apart](Transition::made) or [after each other](Transition::add).
    #[must_use]
    pub fn entries(&self) -> &[Arc<Entry>] {
        &self.entries
    }

    /// The state before them.
    #[must_use]
    pub fn before(&self) -> &Arc<State> {
        &self.before
    }

    /// The session after them.
    #[must_use]
    pub fn after(&self) -> &Session {
        &self.after
    }

    /// Confirms that the records are stored. Call it only after the store has confirmed them: this is the only source
    /// of permits.
    #[must_use]
    pub fn commit(self) -> Committed {
        let permits = self.started.iter().filter_map(|call| Permit::of(&self.after, *call)).collect();
        Committed { after: self.after, entries: self.entries, permits }
    }
}

/// The result of a stored transition.
#[derive(Debug)]
pub struct Committed {
    /// The session now.
    pub after: Session,
    /// What was stored.
    pub entries: Vec<Arc<Entry>>,
    /// The right to run each call whose start was stored.
    pub permits: Vec<Permit>,
}
