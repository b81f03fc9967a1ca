//! Reading a session from the store, with the entries that others have stored since.

use std::sync::Arc;

use countersign_core::{
    journal::record::Entry,
    refusal::{Code, Refusal},
    session::Session,
};

use super::{
    super::{
        inner::{Inner, READ_BYTES, READ_PAGE},
        refusals::store_refusal,
    },
    Live, LiveState,
};
use crate::store::{self, StoreError};

impl Inner {
    /// The session as it is stored now, also by other nodes. One that is not stored has `pos` 0.
    pub(in crate::run) async fn load(&self, live: &Live, guard: &mut LiveState) -> Result<Session, Refusal> {
        let (Some(nodes), Some(session)) = (self.store.nodes(), guard.session.clone()) else {
            return self.known(live, guard).await;
        };
        let stored = nodes.positions(vec![live.session_id.clone()]).await.map_err(|error| self.refused(error))?;
        if guard.generation != nodes.generation() {
            // Another append may be at its position.
            guard.load_again();
            return self.known(live, guard).await;
        }
        let pos = stored.first().map_or(0, |(_, pos)| *pos);
        if pos == session.pos {
            return self.known(live, guard).await;
        }
        if pos < session.pos {
            self.is_deleted(live, guard);
            return self.known(live, guard).await;
        }
        self.fold(live, guard, session, (pos, Vec::new())).await
    }

    /// The session as this node last read or stored it, which may be behind: enough for a driver, since the store
    /// refuses an append at an old position.
    pub(in crate::run) async fn known(&self, live: &Live, guard: &mut LiveState) -> Result<Session, Refusal> {
        self.check_open()?;
        if guard.gone {
            return Err(self.why_gone(&live.session_id).await);
        }
        if let Some(session) = &guard.session {
            return Ok(session.clone());
        }
        if guard.reads_in(self.generation()) {
            self.forget_folds(&live.session_id);
        }
        let tail = match self.store.tail(&live.session_id, READ_PAGE, READ_BYTES).await {
            Err(error @ StoreError::Deleted(_)) => {
                self.is_deleted(live, guard);
                return Err(self.refused(error));
            }
            tail => tail.map_err(|error| self.refused(error))?,
        };
        let (end, snapshot, tail) =
            tail.map_or_else(Default::default, |tail| (tail.head.pos, tail.head.snapshot, tail.entries));
        let session = snapshot.unwrap_or_else(|| Session::new(live.session_id.clone()));
        guard.snapshot = session.pos;
        self.fold(live, guard, session, (end, tail)).await
    }

    /// A session that is deleted, or was lost: nothing in memory is valid any more, and its followers are notified.
    pub(in crate::run) fn is_deleted(&self, live: &Live, guard: &mut LiveState) {
        guard.forget();
        self.forget(&live.session_id);
        self.agents.session_ended(&live.session_id);
        live.wake();
    }

    /// Folds the entries stored after a state, up to `end`, and publishes those that followers have not received. The
    /// entries that follow it may have been read with it.
    async fn fold(
        &self,
        live: &Live,
        guard: &mut LiveState,
        mut session: Session,
        (end, mut read): (u64, Vec<Arc<Entry>>),
    ) -> Result<Session, Refusal> {
        // The snapshot may include an append that was abandoned half way, which followers have not received.
        let heard = guard.published;
        let mut pos = if heard > 0 { session.pos.min(heard) } else { session.pos };
        let mut unheard = Vec::new();
        while pos < end {
            let mut page = std::mem::take(&mut read);
            if page.first().is_none_or(|entry| entry.pos != pos + 1) {
                let next = self.store.read_within(&live.session_id, pos, READ_PAGE, READ_BYTES).await;
                page = next.map_err(|error| self.refused(error))?;
            }
            let Some(last) = page.last() else { return Err(self.no_entries(&live.session_id).await) };
            pos = last.pos;
            for entry in page.iter() {
                if entry.pos > session.pos {
                    store::apply(&mut session, &live.session_id, entry).map_err(|error| self.refused(error))?;
                }
            }
            unheard.extend(page.into_iter().filter(|entry| heard > 0 && entry.pos > heard));
        }
        if !unheard.is_empty() {
            guard.publish(&live.session_id, &unheard);
        }
        guard.published = session.pos;
        guard.session = Some(session.clone());
        Ok(session)
    }

    /// Why a session's journal has no next entry: it was deleted or lost meanwhile, or has a gap.
    pub(in crate::run) async fn no_entries(&self, session_id: &str) -> Refusal {
        match self.store.head(session_id).await {
            Ok(Some(_)) => Refusal::new(Code::Internal, "the session's journal has a gap"),
            _ => self.why_gone(session_id).await,
        }
    }

    /// Why a session has changed: it was deleted, or a fail-over of the store has lost appends that were never
    /// acknowledged.
    pub(in crate::run) async fn why_gone(&self, session_id: &str) -> Refusal {
        match self.store.head(session_id).await {
            // The driver of the session stops; the next one reads it as it is.
            Ok(_) => store_refusal(StoreError::Unknown).fenced(),
            Err(error) => self.refused(error),
        }
    }
}
