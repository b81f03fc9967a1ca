//! Giving a session a title.

use std::sync::Arc;

use countersign_core::{
    approval::principal::Principal,
    journal::{
        draft::Draft,
        record::Renamed,
        rename::{self},
        state::State,
    },
    refusal::{Code, Refusal},
};

use super::{
    command::to_the_end, inner::Runtime, live::uses::LiveRef, nodes::contested, refusals::owned, view::SessionView,
};
use crate::store::Durability;

impl Runtime {
    /// Gives a session a title; an empty text restores its automatic one. Requires the right to send messages to the
    /// session. If two people set a title, the later one wins. Setting the current title changes nothing.
    ///
    /// # Errors
    /// `invalid_message` (the title), `session_not_found`, `forbidden`, `session_full`, `store_unavailable`.
    pub async fn rename_session(&self, by: &Principal, session_id: &str, title: &str) -> Result<SessionView, Refusal> {
        let live = self.inner.named(session_id)?;
        let renamed = Renamed { title: rename::title(title)?, by: by.subject.clone() };
        let (runtime, by) = (self.clone(), by.clone());
        to_the_end(async move { contested!(runtime.rename_session_in(&live, &by, renamed.clone()).await) }).await
    }

    async fn rename_session_in(
        &self,
        live: &LiveRef,
        by: &Principal,
        renamed: Renamed,
    ) -> Result<SessionView, Refusal> {
        let mut guard = live.lock().await;
        let state = self.inner.load(live, &mut guard).await?;
        owned(by, &state)?;
        if state.given_title == renamed.title {
            self.inner.confirmed().await?;
            return Ok(SessionView::of_state(&state));
        }
        if let Some(full) = self.inner.full(&state) {
            return Err(Refusal::new(Code::SessionFull, full));
        }
        let at = self.inner.now();
        let make = |state: &Arc<State>| Ok(Draft::of(state.clone(), at).rename(renamed.title, renamed.by));
        self.inner.transact(live, &mut guard, Durability::Synced, make).await?;
        Ok(SessionView::of_state(&*guard.state()?))
    }
}
