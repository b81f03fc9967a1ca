//! Notes on a pending interruption: comments and reassignment.

use std::sync::Arc;

use countersign_core::{
    approval::{key::parse_approval_key, principal::Principal},
    decide::{
        note::{self, NoteInput},
        resolve,
    },
    journal::state::State,
    refusal::Refusal,
};

use super::{command::to_the_end, ids::kept_id, inner::Runtime, inputs::Stored, live::uses::LiveRef, nodes::contested};
use crate::store::{Durability, index::Purpose};
pub use countersign_core::decide::note::NewNote;

impl Runtime {
    /// Comments on a pending interruption, or reassigns it to another reviewer. Any person who may see it may comment;
    /// a person who may decide it may reassign it. Repeating a `request_id` has no further effect.
    ///
    /// # Errors
    /// `approval_not_found`, `approval_already_resolved`, `forbidden`, `invalid_message`, `request_id_reused`,
    /// `store_unavailable`.
    pub async fn note(
        &self,
        by: &Principal,
        approval_key: &str,
        note: NewNote,
        request_id: Option<String>,
    ) -> Result<Stored, Refusal> {
        self.note_with(by, (approval_key, note, request_id), false).await
    }

    /// Like [`Runtime::note`], with the session's events from this note on ([`Stored::follow`]).
    ///
    /// # Errors
    /// As [`Runtime::note`].
    pub async fn note_followed(
        &self,
        by: &Principal,
        approval_key: &str,
        note: NewNote,
        request_id: Option<String>,
    ) -> Result<Stored, Refusal> {
        self.note_with(by, (approval_key, note, request_id), true).await
    }

    async fn note_with(
        &self,
        by: &Principal,
        (approval_key, note, request_id): (&str, NewNote, Option<String>),
        follow: bool,
    ) -> Result<Stored, Refusal> {
        let not_found = || resolve::not_found(approval_key);
        let (session_id, n) = parse_approval_key(approval_key).ok_or_else(not_found)?;
        let live = self.inner.named(session_id).map_err(|_| not_found())?;
        let input = NoteInput { n, note, by: by.clone(), request_id: None };
        let (runtime, key) = (self.clone(), approval_key.to_owned());
        to_the_end(async move {
            let of = (&*key, request_id.as_deref());
            let noted = contested!(runtime.note_in(&live, of, input.clone(), follow).await);
            let (follow, repeated) = runtime.inner.or_refused(noted).await?;
            Ok(Stored { session_id: live.session_id.clone(), follow, repeated })
        })
        .await
    }

    async fn note_in(
        &self,
        live: &LiveRef,
        (approval_key, request_id): (&str, Option<&str>),
        mut input: NoteInput,
        follow: bool,
    ) -> Result<(Option<super::subscription::Subscription>, bool), Refusal> {
        let mut guard = live.lock().await;
        let state = self.inner.load(live, &mut guard).await?;
        if state.pos == 0 || !input.by.may_see(&state) {
            return Err(resolve::not_found(approval_key));
        }
        // People decide by these comments: an agent must not influence them.
        input.by.check_may_decide()?;
        input.request_id = kept_id(&input.by, &state, request_id, &input.note);
        let purpose = match &input.note {
            NewNote::Comment(_) => Purpose::comment(input.n),
            NewNote::Reassign { .. } => Purpose::reassignment(input.n),
        };
        if self.inner.is_repeat(&live.session_id, input.request_id.as_ref(), purpose).await? {
            self.inner.confirmed().await?;
            return Ok((self.inner.follow_if(follow, live, &mut guard)?, true));
        }
        if state.waiting(input.n).is_none() {
            return Err(self.inner.already_resolved(&live.session_id, input.n).await?);
        }
        let at = self.inner.now();
        let (mut guard, guards) = self.inner.in_time(live, guard, &[input.n]).await?;
        let followed = self.inner.follow_if(follow, live, &mut guard)?;
        let authorities = &self.inner.settings.authorities;
        let make = |state: &Arc<State>| {
            let (n, asked) = (input.n, input.note.clone());
            let noted = note::note(state, at, input)?;
            authorities.check_assignee(state, n, &asked)?;
            Ok(noted)
        };
        self.inner.transact_if(guards, live, &mut guard, Durability::Synced, make).await?;
        Ok((followed, false))
    }
}
