//! Messages of users: received, checked and stored.

use std::sync::Arc;

use countersign_core::{
    approval::principal::Principal,
    journal::{
        draft::{Draft, MessageInput, OnPending},
        request_id::RequestId,
        state::State,
    },
    refusal::{Code, Refusal},
};

use super::{
    command::to_the_end,
    failpoint,
    ids::{kept_id, session_id},
    inner::Runtime,
    inputs::{NewMessage, Stored, TurnOutcome},
    live::uses::LiveRef,
    nodes::contested,
    refusals::{may_continue, owned},
    subscription::Subscription,
};
use crate::store::{Durability, index::Purpose};

impl Runtime {
    /// Accepts a message and starts the turn. The message is stored when this returns; the turn continues in the
    /// background.
    ///
    /// # Errors
    /// `invalid_session_id`, `unknown_agent`, `images_not_supported`, `session_not_found` (another owner's),
    /// `approval_pending`, `session_busy`, `session_full`, `queue_full`, `forbidden` (`by` may not decide, and rejects
    /// pending interruptions, or continues a turn of a restored store), `request_id_reused`, `store_unavailable`.
    pub async fn message(&self, by: &Principal, message: NewMessage) -> Result<Stored, Refusal> {
        self.send(by, message, false).await
    }

    /// Like [`Runtime::message`], with the session's events from this message on ([`Stored::follow`]).
    ///
    /// # Errors
    /// As [`Runtime::message`].
    pub async fn message_followed(&self, by: &Principal, message: NewMessage) -> Result<Stored, Refusal> {
        self.send(by, message, true).await
    }

    async fn send(&self, by: &Principal, message: NewMessage, follow: bool) -> Result<Stored, Refusal> {
        let (runtime, by) = (self.clone(), by.clone());
        to_the_end(async move {
            let taken = runtime.take_message(&by, message, follow, Durability::Synced).await;
            let (live, stored) = runtime.inner.or_refused(taken).await?;
            runtime.inner.spawn_driver(live);
            Ok(stored)
        })
        .await
    }

    /// Accepts a message and runs the turn here, until it pauses or ends.
    ///
    /// Dropping the future stops the turn in the middle, as a crash would.
    ///
    /// # Errors
    /// As [`Runtime::message`].
    pub async fn run(&self, by: &Principal, message: NewMessage) -> Result<TurnOutcome, Refusal> {
        let taken = self.take_message(by, message, false, Durability::Buffered).await;
        let (live, _) = self.inner.or_refused(taken).await?;
        self.inner.clone().drive_here(live, None).await
    }

    /// Accepts a message; nothing runs yet.
    pub(crate) async fn take_message(
        &self,
        by: &Principal,
        message: NewMessage,
        follow: bool,
        durability: Durability,
    ) -> Result<(LiveRef, Stored), Refusal> {
        let session_id = session_id(message.session_id.as_deref())?;
        let live = self.inner.live(&session_id);
        let taken = contested!(self.take_message_in(&live, by, message.clone(), follow, durability).await);
        let (follow, repeated) = taken?;
        Ok((live, Stored { session_id, follow, repeated }))
    }

    async fn take_message_in(
        &self,
        live: &LiveRef,
        by: &Principal,
        message: NewMessage,
        follow: bool,
        durability: Durability,
    ) -> Result<(Option<Subscription>, bool), Refusal> {
        let asked = (message.content.clone(), message.agent.clone(), message.on_pending);
        let id = message.request_id.as_deref();
        let mut guard = live.lock().await;
        let state = self.inner.load(live, &mut guard).await?;
        let mut kept = None;
        if state.pos > 0 {
            owned(by, &state)?;
            self.inner.takes_messages(&state)?;
            may_continue(by, &state)?;
            if message.on_pending == Some(OnPending::Reject) {
                // It decides the pending interruptions.
                by.check_may_decide()?;
            }
            kept = kept_id(by, &state, id, &asked);
            if self.inner.is_repeat(&live.session_id, kept.as_ref(), Purpose::MESSAGE).await? {
                self.inner.confirmed().await?;
                return Ok((self.inner.follow_if(follow, live, &mut guard)?, true));
            }
            if let Some(full) = self.inner.full(&state) {
                return Err(Refusal::new(Code::SessionFull, full));
            }
        }
        // Rejecting the pending interruptions must happen before their deadline, like any decision.
        let decides = if message.on_pending == Some(OnPending::Reject) { state.pending() } else { Vec::new() };
        let (mut guard, guards) = self.inner.in_time(live, guard, &decides).await?;
        let at = self.inner.now();
        let created = if state.pos == 0 { Some(self.created(by, message.agent.as_deref(), None, None)?) } else { None };
        if let Some(created) = &created {
            kept = id.map(|id| RequestId::of(id, None, &created.birth, &asked));
        }
        let input = MessageInput {
            content: message.content,
            by: by.subject.clone(),
            roles: by.roles.clone(),
            agent: message.agent.map(Arc::from),
            request_id: kept,
            on_pending: message.on_pending,
        };
        let followed = self.inner.follow_if(follow, live, &mut guard)?;
        let make = |state: &Arc<State>| {
            let mut draft = Draft::of(state.clone(), at);
            if let Some(created) = created {
                draft.create(created);
            }
            draft.message(input, &self.inner.agents)
        };
        failpoint::hit("message.before_commit");
        self.inner.transact_if(guards, live, &mut guard, durability, make).await?;
        failpoint::hit("message.after_commit");
        live.wake();
        Ok((followed, false))
    }
}
