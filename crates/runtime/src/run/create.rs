//! Creating sessions.

use std::sync::Arc;

use countersign_core::{
    approval::principal::Principal,
    journal::{draft::Draft, record::SessionCreated, state::State},
    locale::Locale,
    refusal::{Code, Refusal},
};
use serde_json::{json, value::RawValue};

use super::{
    command::to_the_end,
    ids::{session_id, unique},
    inner::Runtime,
    inputs::NewSession,
    live::uses::LiveRef,
    nodes::contested,
    refusals::visible,
    view::SessionView,
};
use crate::store::Durability;

impl Runtime {
    /// Creates a session. If its owner sends the same id again, the session is returned as it is.
    ///
    /// # Errors
    /// `invalid_session_id`, `unknown_agent`, `session_not_found` (another owner's id), `store_unavailable`.
    pub async fn create_session(&self, by: &Principal, new: NewSession) -> Result<SessionView, Refusal> {
        let live = self.inner.live(&session_id(new.session_id.as_deref())?);
        let (runtime, by) = (self.clone(), by.clone());
        to_the_end(async move { contested!(runtime.create_session_in(&live, &by, &new).await) }).await
    }

    async fn create_session_in(
        &self,
        live: &LiveRef,
        by: &Principal,
        new: &NewSession,
    ) -> Result<SessionView, Refusal> {
        let mut guard = live.lock().await;
        let existing = self.inner.load(live, &mut guard).await?;
        if existing.pos > 0 {
            self.inner.store.mark_unsynced();
            self.inner.confirmed().await?;
            return visible(by, &existing).map(|()| SessionView::of_state(&existing));
        }
        let created = self.created(by, new.agent.as_deref(), new.locale, new.context.clone())?;
        let at = self.inner.now();
        let make = |state: &Arc<State>| {
            let mut draft = Draft::of(state.clone(), at);
            draft.create(created);
            Ok(draft.finish())
        };
        self.inner.transact(live, &mut guard, Durability::Synced, make).await?;
        Ok(SessionView::of_state(&*guard.state()?))
    }

    pub(super) fn created(
        &self,
        by: &Principal,
        agent: Option<&str>,
        locale: Option<Locale>,
        context: Option<Box<RawValue>>,
    ) -> Result<SessionCreated, Refusal> {
        let agents = &self.inner.agents;
        let agent: Arc<str> = match agent {
            Some(name) if agents.get(name).is_none() => {
                return Err(Refusal::new(Code::UnknownAgent, format!("there is no agent {name:?}"))
                    .with_details(json!({ "agents": agents.names })));
            }
            Some(name) => name.into(),
            // A program may have only graphs.
            None => agents
                .names
                .first()
                .cloned()
                .ok_or_else(|| Refusal::new(Code::UnknownAgent, "this program has no agents"))?,
        };
        let locale = locale.unwrap_or(self.inner.locale);
        Ok(SessionCreated {
            agent,
            locale,
            subject: by.subject.clone(),
            tenant: by.tenant.clone(),
            context,
            birth: unique(),
        })
    }
}
