//! Which runtime of this process carries out a session's effects. A call still running here is not lost: without this,
//! another runtime over the same store would assume a crash, and ask a person whether the call ran (spec R4).
//!
//! The key includes the store's address, since a session restored into two stores is two.

use std::{
    collections::{HashMap, hash_map::Entry},
    sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError},
};

use tokio::sync::watch;

use super::inner::Inner;
use crate::store::Store;

/// The store, by its address, and the session.
type Key = (usize, Arc<str>);

static HELD: LazyLock<Mutex<HashMap<Key, Held>>> = LazyLock::new(Mutex::default);

struct Held {
    /// The runtime, by its address.
    owner: usize,
    holds: usize,
    /// Whether it carries out effects; before that it only checks whether it may.
    works: watch::Sender<bool>,
    /// Kept so that no other store gets this address.
    _store: Arc<dyn Store>,
}

fn held() -> MutexGuard<'static, HashMap<Key, Held>> {
    // Nothing panics while holding the lock.
    HELD.lock().unwrap_or_else(PoisonError::into_inner)
}

/// While it lives, no other runtime of this process carries out the effects of the session in this store.
pub(crate) struct Hold {
    key: Key,
}

/// Another runtime of this process has the session.
pub(crate) struct Busy(watch::Receiver<bool>);

impl Busy {
    /// Whether it carries out effects. Otherwise not yet, or it is about to end.
    pub(crate) fn works(&self) -> bool {
        *self.0.borrow()
    }

    /// Waits until that changes, or it has ended.
    pub(crate) async fn changed(&mut self) {
        // An error means that it has ended.
        let _ = self.0.changed().await;
    }
}

/// Signals that a holder is about to end, though its task may not have been dropped yet.
pub(crate) struct Ending(watch::Sender<bool>);

impl Ending {
    pub(crate) fn ends(&self) {
        self.0.send_replace(false);
    }
}

impl Hold {
    /// Takes the session for a runtime, which may hold it more than once.
    pub(crate) fn take(inner: &Arc<Inner>, session_id: &Arc<str>) -> Result<Hold, Busy> {
        let (owner, store) = (Arc::as_ptr(inner) as usize, &inner.store);
        let key = (Arc::as_ptr(store).cast::<()>() as usize, session_id.clone());
        match held().entry(key.clone()) {
            Entry::Occupied(mut known) if known.get().owner == owner => known.get_mut().holds += 1,
            Entry::Occupied(known) => return Err(Busy(known.get().works.subscribe())),
            Entry::Vacant(free) => {
                let works = watch::Sender::new(false);
                free.insert(Held { owner, holds: 1, works, _store: store.clone() });
            }
        }
        Ok(Hold { key })
    }

    /// Takes it as soon as no other runtime has it.
    pub(crate) async fn wait(inner: &Arc<Inner>, session_id: &Arc<str>) -> Hold {
        loop {
            match Hold::take(inner, session_id) {
                Ok(hold) => return hold,
                Err(mut busy) => busy.changed().await,
            }
        }
    }

    /// Effects are carried out from now on.
    pub(crate) fn works(&self) {
        self.ending().0.send_replace(true);
    }

    /// The signal that it is about to end.
    pub(crate) fn ending(&self) -> Ending {
        let works = held().get(&self.key).map(|held| held.works.clone());
        Ending(works.unwrap_or_default())
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        if let Entry::Occupied(mut known) = held().entry(self.key.clone()) {
            known.get_mut().holds -= 1;
            if known.get().holds == 0 {
                known.remove().works.send_replace(false);
            }
        }
    }
}
