//! People's reads of a whole journal take turns: past states and checkpoints, forks, and states of graphs that are not in
//! memory; and so does the verification of the audit log. Work on a session, its driver and edits of its state, needs
//! no turn. Previews of undecided edits have separate turns, since a tool may take any time for them.
//!
//! A runtime runs a few of them at a time, one per person; a person's others queue behind it and block nobody else. So
//! heavy users wait for their own requests, and others for at most one of those.

use std::{
    collections::{HashMap, hash_map},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use countersign_core::{
    approval::principal::Principal,
    limits::{EDITS_AT_ONCE, EDITS_WAITING, HEAVY_AT_ONCE, HEAVY_WAITING},
    refusal::{Code, Refusal},
};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// A person, by tenant and name.
type Person = (Option<Arc<str>>, Option<Arc<str>>);

/// The turns of a runtime.
pub(super) struct Heavy {
    at_once: Arc<Semaphore>,
    /// How many of one person's may wait.
    waiting: usize,
    /// Their purpose.
    what: &'static str,
    people: Mutex<HashMap<Person, Line>>,
}

/// One person's queue.
struct Line {
    one: Arc<Semaphore>,
    /// How many run or wait.
    asked: usize,
}

/// A turn, released when it is dropped.
pub(super) struct Turn<'a> {
    _shared: OwnedSemaphorePermit,
    _own: OwnedSemaphorePermit,
    _place: Place<'a>,
}

/// A place in a person's queue, released when it is dropped.
struct Place<'a> {
    heavy: &'a Heavy,
    person: Person,
}

impl Heavy {
    /// The turns of reads of whole journals.
    pub(super) fn reads() -> Heavy {
        Heavy::new(HEAVY_AT_ONCE, HEAVY_WAITING, "reads of the past and forks")
    }

    /// The turns of previews of edits.
    pub(super) fn edits() -> Heavy {
        Heavy::new(EDITS_AT_ONCE, EDITS_WAITING, "previews of edits")
    }

    fn new(at_once: usize, waiting: usize, what: &'static str) -> Heavy {
        Heavy { at_once: Arc::new(Semaphore::new(at_once)), waiting, what, people: Mutex::default() }
    }

    fn people(&self) -> MutexGuard<'_, HashMap<Person, Line>> {
        // Nothing panics while holding the lock.
        self.people.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for a turn.
    ///
    /// # Errors
    /// `too_busy`: too many of the person's requests are waiting already.
    pub(super) async fn turn(&self, by: &Principal) -> Result<Turn<'_>, Refusal> {
        let person = (by.tenant.clone(), by.subject.clone());
        // The program itself may queue without limit; people are refused beyond a limit.
        let most = if by.trusted { usize::MAX } else { self.waiting };
        let (place, one) = self.enter(person, most)?;
        let closed = |_| Refusal::new(Code::Internal, "the runtime has shut down");
        // The person's own turn first: then only the first of theirs waits for the others.
        let own = one.acquire_owned().await.map_err(closed)?;
        let shared = self.at_once.clone().acquire_owned().await.map_err(closed)?;
        Ok(Turn { _shared: shared, _own: own, _place: place })
    }

    /// A place in the person's queue, which has at most `most` waiters.
    fn enter(&self, person: Person, most: usize) -> Result<(Place<'_>, Arc<Semaphore>), Refusal> {
        let mut people = self.people();
        let line = match people.entry(person.clone()) {
            hash_map::Entry::Occupied(line) => line.into_mut(),
            hash_map::Entry::Vacant(new) => new.insert(Line { one: Arc::new(Semaphore::new(1)), asked: 0 }),
        };
        if line.asked > most {
            return Err(Refusal::new(
                Code::TooBusy,
                format!(
                    "at most {most} {} of one person wait at a time; try again when some of yours have ended",
                    self.what
                ),
            ));
        }
        line.asked += 1;
        let one = line.one.clone();
        Ok((Place { heavy: self, person }, one))
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        let mut people = self.heavy.people();
        if let hash_map::Entry::Occupied(mut line) = people.entry(self.person.clone()) {
            line.get_mut().asked -= 1;
            if line.get().asked == 0 {
                line.remove();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn person(name: &str) -> Principal {
        Principal { subject: Some(name.into()), ..Principal::default() }
    }

    async fn soon<T>(future: impl Future<Output = T>) -> Option<T> {
        tokio::time::timeout(Duration::from_millis(50), future).await.ok()
    }

    #[tokio::test]
    async fn r9_who_asks_for_much_waits_for_themselves_and_others_do_not() {
        let heavy = Heavy::reads();
        let (ann, bob) = (person("ann"), person("bob"));
        let first = heavy.turn(&ann).await.expect("free");
        assert!(soon(heavy.turn(&ann)).await.is_none(), "one at a time");
        {
            let _other = soon(heavy.turn(&bob)).await.expect("at once").expect("free");
        }
        let many: Vec<_> = (0..HEAVY_WAITING)
            .map(|_| heavy.enter((None, ann.subject.clone()), HEAVY_WAITING).expect("room").0)
            .collect();
        let refused = heavy.turn(&ann).await.err().expect("too many");
        assert_eq!(refused.code, Code::TooBusy);
        assert!(soon(heavy.turn(&bob)).await.is_some_and(|turn| turn.is_ok()), "others have room");
        drop((first, many));
        assert!(heavy.people().is_empty(), "nobody is remembered");
        assert!(soon(heavy.turn(&ann)).await.is_some_and(|turn| turn.is_ok()));
    }
}
