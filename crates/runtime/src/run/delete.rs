//! Deleting sessions.

use std::sync::Arc;

use countersign_core::{
    approval::{principal::Principal, rule::RuleId},
    audit::{Deleted, Deletion, Event},
    journal::{
        draft::Draft,
        record::VIA_STORE,
        state::{Phase, State},
    },
    refusal::{Code, Refusal},
};

use super::{
    command::to_the_end,
    inner::{Inner, Runtime},
    live::{LiveState, uses::LiveRef},
    nodes::contested,
    of_stored::of_half,
    refusals::{owned, store_refusal},
    rules::may_end,
    view::PAGE,
};
use crate::store::{Durability, Page, RuleFilter};

impl Runtime {
    /// Deletes a session: running work is stopped, and all of its data is removed, including its standing rules. If any
    /// of those rules apply to other sessions too, only who may [revoke](Runtime::revoke_rule) them may delete it. A turn
    /// with open requests or calls is cancelled first, and then the rules are revoked, so that the audit log has the
    /// outcomes of the requests and calls, and who ended the rules (spec R8).
    ///
    /// # Errors
    /// `session_not_found`, `forbidden`, `store_unavailable`; `outcome_unknown` also if the turn was cancelled or rules were
    /// revoked, and the session is not deleted all the same: delete it again.
    pub async fn delete_session(&self, by: &Principal, session_id: &str) -> Result<(), Refusal> {
        let live = self.inner.named(session_id)?;
        let (runtime, by) = (self.clone(), by.clone());
        to_the_end(async move {
            let mut changed = false;
            let deleted = contested!(runtime.try_delete(&live, &by, &mut changed).await);
            deleted.map_err(|refusal| if changed { half_done(refusal) } else { refusal })
        })
        .await
    }

    /// Sets `changed` once something of the session is stored for its deletion.
    async fn try_delete(&self, live: &LiveRef, by: &Principal, changed: &mut bool) -> Result<(), Refusal> {
        let session_id = &live.session_id;
        let mut guard = live.lock().await;
        let state = self.inner.load(live, &mut guard).await?;
        owned(by, &state)?;
        let rules = self.rules_to_end(by, session_id).await?;
        *changed |= self.inner.ended_for_good(live, &mut guard, &state, by.subject.as_ref()).await?;
        // Not what another node has stored since: whoever deletes has not looked at that.
        let mut state = self.inner.known(live, &mut guard).await?;
        // Last, since rules that reject calls of other sessions are gone even if the deletion then fails.
        for rules in rules.chunks(PAGE) {
            let revoke =
                |state: &Arc<State>| Ok(Draft::of(state.clone(), self.inner.now()).revoke(rules, by.subject.as_ref()));
            self.inner.transact(live, &mut guard, Durability::Synced, revoke).await?;
            *changed = true;
            state = self.inner.known(live, &mut guard).await?;
        }
        // Anything that another node has stored meanwhile is checked first: a rule, or the outcome of a call.
        if !self.inner.delete_as(&state, Deleted::Requested, by.subject.clone()).await? {
            guard.load_again();
            return Err(Refusal::new(Code::StoreUnavailable, "the session has moved on").overtaken());
        }
        self.inner.is_deleted(live, &mut guard);
        Ok(())
    }

    /// The rules that were made in the session and also apply to others, if `by` may end them.
    async fn rules_to_end(&self, by: &Principal, session_id: &str) -> Result<Vec<RuleId>, Refusal> {
        let filter = RuleFilter {
            standing: Some(true),
            now: self.inner.now(),
            everywhere: Some(true),
            session_id: Some(session_id.to_owned()),
            ..RuleFilter::default()
        };
        let (mut found, mut cursor) = (Vec::new(), None);
        loop {
            let page = Page { cursor, limit: PAGE };
            let rules = self.inner.store.rules(filter.clone(), page).await.map_err(store_refusal)?;
            let refused = rules.rows.iter().find_map(|row| may_end(by, row).err());
            // One that cannot be read may reject calls.
            let unread = rules
                .unread
                .into_iter()
                .next()
                .filter(|_| !by.trusted || by.check_may_decide().is_err())
                .map(|(_, error)| store_refusal(error));
            if let Some(why) = refused.or(unread) {
                let what = "standing rules of this session are for other sessions too and would end with it";
                return Err(Refusal::new(Code::Forbidden, format!("{what}: {}", why.message)));
            }
            found.extend(rules.rows.iter().map(|row| row.rule.id));
            cursor = rules.next;
            if cursor.is_none() {
                return Ok(found);
            }
        }
    }
}

impl Inner {
    /// Deletes a session that is still in this state, and says so in the audit log. `false`: it has moved on.
    pub(super) async fn delete_as(
        &self,
        state: &State,
        reason: Deleted,
        by: Option<Arc<str>>,
    ) -> Result<bool, Refusal> {
        let via = self.direct.then_some(VIA_STORE);
        let told = Event::deleted(state, Deletion { reason, by, at: self.now(), via });
        let deleted = self.store.delete(&state.session_id, Some(state.pos), told.as_ref()).await;
        deleted.map_err(|error| self.refused(error))
    }

    /// Cancels the turn of a session that is about to be deleted if that has open requests or calls, so that the audit log
    /// has their outcomes (spec R8). `false`: it has none.
    pub(super) async fn ended_for_good(
        &self,
        live: &LiveRef,
        guard: &mut LiveState,
        state: &State,
        by: Option<&Arc<str>>,
    ) -> Result<bool, Refusal> {
        let unfinished = !state.open.is_empty() || state.calls.iter().any(|call| call.phase != Phase::Finished);
        if !state.status.is_open() || !unfinished {
            return Ok(false);
        }
        let (at, partial) = (self.now(), guard.written());
        let cancel = |state: &Arc<State>| Draft::of(state.clone(), at).cancel_for_good(by, partial);
        self.transact(live, guard, Durability::Synced, cancel).await?;
        Ok(true)
    }
}

/// Why a session was not deleted of which something was stored already: nobody must take it for untouched.
fn half_done(refusal: Refusal) -> Refusal {
    let what = "its turn was cancelled or its rules were revoked, and it is not known to be deleted; delete it again";
    of_half(refusal, |why| format!("{what}: {why}"))
}
