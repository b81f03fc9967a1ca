//! Which sessions are in memory: those in use.

use std::{
    collections::HashMap,
    ops::Deref,
    sync::{Arc, PoisonError},
};

use countersign_core::{refusal::Refusal, wire::client::check_session_id};

use super::{
    super::{failpoint, inner::Inner},
    Live, LiveState,
};
use crate::store::nodes::TextPlace;

/// A use of a live session. Dropping the last one lets the session leave memory.
pub(crate) struct LiveRef {
    inner: Arc<Inner>,
    live: Option<Arc<Live>>,
}

impl Deref for LiveRef {
    type Target = Live;
    fn deref(&self) -> &Live {
        match &self.live {
            Some(live) => live,
            None => unreachable!("only drop takes it"),
        }
    }
}

impl LiveRef {
    /// The runtime that has it in memory.
    pub(in crate::run) fn runtime(&self) -> &Arc<Inner> {
        &self.inner
    }
}

impl Clone for LiveRef {
    fn clone(&self) -> Self {
        LiveRef { inner: self.inner.clone(), live: self.live.clone() }
    }
}

impl Drop for LiveRef {
    fn drop(&mut self) {
        let Some(live) = self.live.take() else { return };
        let mut sessions = self.inner.live_sessions();
        let is_known = sessions.get(&live.session_id).is_some_and(|known| Arc::ptr_eq(known, &live));
        if is_known && Arc::strong_count(&live) > 2 {
            // Released under the map's lock, so that exactly one of the last two uses sees that it is the last.
            drop(live);
            return;
        }
        let last = if is_known { sessions.remove(&live.session_id) } else { None };
        drop(sessions);
        // A session's state may be large: it is freed after the map's lock is released.
        drop((last, live));
    }
}

impl Inner {
    fn live_sessions(&self) -> std::sync::MutexGuard<'_, HashMap<Arc<str>, Arc<Live>>> {
        // The map is never left half changed, so a panic elsewhere does not spoil it.
        self.live.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Removes all live sessions from the map.
    pub(in crate::run) fn take_live(&self) -> Vec<Arc<Live>> {
        std::mem::take(&mut *self.live_sessions()).into_values().collect()
    }

    pub(in crate::run) fn forget(&self, session_id: &Arc<str>) {
        self.live_sessions().remove(session_id);
        self.forget_folds(session_id);
    }

    /// Drops what was made of a session's entries, and the nodes that wait in memory.
    pub(super) fn forget_folds(&self, session_id: &Arc<str>) {
        self.warm.forget(Some(session_id));
        self.conversations.forget(Some(session_id));
    }

    /// For crash tests: drops everything of a session from memory but its followers.
    pub(in crate::run) fn evict(&self, live: &Live, guard: &mut LiveState) {
        (guard.session, guard.answer, guard.shown) = (None, None, None);
        self.forget_folds(&live.session_id);
        tracing::warn!(session = &*live.session_id, "{}", failpoint::EVICTED);
    }

    /// A session, if it is in memory.
    pub(in crate::run) fn if_live(self: &Arc<Self>, session_id: &Arc<str>) -> Option<LiveRef> {
        let live = self.live_sessions().get(session_id).cloned();
        live.map(|live| LiveRef { inner: self.clone(), live: Some(live) })
    }

    /// The sessions in memory, and up to which position; one that is in use is left out.
    pub(in crate::run) fn in_memory(&self) -> Vec<(Arc<str>, u64)> {
        let sessions = self.live_sessions();
        let known = |live: &Arc<Live>| Some(live.try_lock()?.published);
        sessions.iter().filter_map(|(id, live)| Some((id.clone(), known(live)?))).collect()
    }

    /// The sessions with followers here that have not been read again since an input of theirs was abandoned half way,
    /// or collided with another node's; one that is in use is left out.
    pub(in crate::run) fn unread(self: &Arc<Self>) -> Vec<LiveRef> {
        let is_unread =
            |live: &Arc<Live>| live.try_lock().is_some_and(|guard| guard.session.is_none() && guard.has_followers());
        let unread = |live: &Arc<Live>| LiveRef { inner: self.clone(), live: Some(live.clone()) };
        self.live_sessions().values().filter(|live| is_unread(live)).map(unread).collect()
    }

    /// The sessions with followers here whose open block another node's model writes, and the end of the text they have
    /// seen; one that is in use is left out.
    pub(in crate::run) fn wanted(&self) -> Vec<(Arc<str>, TextPlace)> {
        let sessions = self.live_sessions();
        let wants = |live: &Arc<Live>| live.try_lock()?.wants();
        sessions.iter().filter_map(|(id, live)| Some((id.clone(), wants(live)?))).collect()
    }

    pub(crate) fn live(self: &Arc<Self>, session_id: &Arc<str>) -> LiveRef {
        let mut sessions = self.live_sessions();
        let live = sessions.entry(session_id.clone()).or_insert_with(|| Arc::new(Live::new(session_id.clone())));
        LiveRef { inner: self.clone(), live: Some(live.clone()) }
    }

    /// The same for an id that a client gives.
    ///
    /// # Errors
    /// `invalid_session_id`.
    pub(in crate::run) fn named(self: &Arc<Self>, session_id: &str) -> Result<LiveRef, Refusal> {
        check_session_id(session_id)?;
        Ok(self.live(&Arc::from(session_id)))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use countersign::model::scripted::Scripted;
    use countersign_core::approval::principal::Principal;

    use crate::{
        agent::Agent,
        run::{inner::Runtime, inputs::NewMessage},
        store::memory::MemoryStore,
    };

    /// An unused session is rows in the store and nothing in memory.
    #[tokio::test]
    async fn r10_a_session_at_rest_costs_no_memory() {
        let model = Scripted::from_json(r#"{"turns":[{"text":"hi"}],"at_end":"repeat"}"#).expect("script");
        let agent = Agent::new("a", ("m", Arc::new(model)));
        let runtime = Runtime::builder(Arc::new(MemoryStore::new())).agent(agent).build().expect("runtime");
        let me = Principal::trusted();
        for i in 0..50 {
            runtime.run(&me, NewMessage::text(format!("s{i}"), "hello")).await.expect("run");
        }
        assert_eq!(runtime.inner.live_sessions().len(), 0);
        let stored = runtime.message_followed(&me, NewMessage::text("s", "hello")).await.expect("message");
        runtime.wait(&me, "s").await.expect("wait");
        assert_eq!(runtime.inner.live_sessions().len(), 1, "followed");
        drop(stored);
        tokio::task::yield_now().await;
        assert_eq!(runtime.inner.live_sessions().len(), 0);
    }
}
