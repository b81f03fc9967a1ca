//! Creating sessions.

use std::sync::Arc;

use countersign_core::{
    approval::principal::Principal,
    call::json::Json,
    journal::{
        draft::Draft,
        record::{Record, SessionCreated},
        state::State,
    },
    limits,
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
    refusals::{owned, store_refusal},
    view::SessionView,
};
use crate::store::Durability;

impl Runtime {
    /// Creates a session. If its owner sends the same id again, the session is returned as it is; with a `request_id` only
    /// if it was created with the same content.
    ///
    /// # Errors
    /// `invalid_session_id`, `unknown_agent`, `session_not_found` and `forbidden` (another owner's id), `request_id_reused`,
    /// `store_unavailable`.
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
            // A reviewer may see it too, but what they say next would be said in another person's session.
            owned(by, &existing)?;
            if let Some(request_id) = &new.request_id {
                self.was_created_like(live, new, request_id).await?;
            }
            return Ok(SessionView::of_state(&existing));
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

    /// Spec W1: the same request id for a session of other content is refused.
    async fn was_created_like(&self, live: &LiveRef, new: &NewSession, request_id: &str) -> Result<(), Refusal> {
        let first = self.inner.store.read(&live.session_id, 0, 1).await.map_err(store_refusal)?;
        let created = first.iter().flat_map(|entry| &entry.records).find_map(|record| match record {
            Record::SessionCreated(created) => Some(created),
            _ => None,
        });
        let canonical = |context: &Option<Box<RawValue>>| {
            let text = context.as_ref().map_or("null", |context| context.get());
            Json::parse(text, limits::JSON_DEPTH).map_or_else(|_| text.to_owned(), |json| json.canonical())
        };
        let is_like = |created: &SessionCreated| {
            new.agent.as_deref().is_none_or(|agent| *created.agent == *agent)
                && new.locale.is_none_or(|locale| created.locale == locale)
                && canonical(&created.context) == canonical(&new.context)
        };
        if created.is_some_and(is_like) {
            return Ok(());
        }
        let what = format!(
            "request_id: {request_id:?} is for session {:?}, which was created with another agent, locale or context; use \
             another id for another session",
            live.session_id
        );
        Err(Refusal::new(Code::RequestIdReused, what))
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
