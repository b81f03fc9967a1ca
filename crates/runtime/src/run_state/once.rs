//! In one process a state runs once, together with its clones (spec S17).
//!
//! Without a store nobody else knows what has run: a state that could run twice would repeat its approved calls. Where
//! the run's store has the state, the position of its journal says so already.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use super::RunState;

/// Whether a state has run, shared by its clones. It is in no text: a state that is read is another one.
#[derive(Clone, Debug, Default)]
pub(crate) struct Once(Arc<AtomicBool>);

impl Once {
    /// The right to run it; `None` if it has run, or runs.
    pub(crate) fn take(&self) -> Option<Taken> {
        (!self.0.swap(true, Ordering::SeqCst)).then(|| Taken(Some(self.clone())))
    }
}

impl RunState {
    /// The run of the given state changed nothing: this is the same state, and one of the two can still run.
    pub(crate) fn is_still(&mut self, given: &RunState) {
        given.suspended.keep(&self.suspended);
        self.suspended = given.suspended.clone();
        self.once = given.once.clone();
        self.once.0.store(false, Ordering::SeqCst);
    }
}

/// The right to run a state, given back unless something begins.
#[derive(Debug)]
pub(crate) struct Taken(Option<Once>);

impl Taken {
    /// The state has run from here on.
    pub(crate) fn begins(mut self) {
        self.0 = None;
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        if let Some(once) = &self.0 {
            once.0.store(false, Ordering::SeqCst);
        }
    }
}
