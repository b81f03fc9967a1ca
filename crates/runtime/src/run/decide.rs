//! Decisions and answers: received, checked and stored (spec S6, W5, Q3, G3).

use std::{sync::Arc, time::Duration};

use countersign_core::{
    approval::{
        key::{approval_key, parse_approval_key},
        principal::Principal,
    },
    call::{
        gate::{DecisionType, Verdict},
        preview::Preview,
    },
    decide::{
        reply::Reply,
        resolve::{self, DecideInput},
    },
    journal::{
        draft::Transition,
        record::Millis,
        request_id::RequestId,
        state::{Open, State},
    },
    limits::DECISION_SECONDS,
    number::InterruptionNo,
    refusal::{Code, Refusal},
    session::Session,
};
use futures::future::BoxFuture;
use tokio::time::{Instant, timeout_at};

use super::{
    command::to_the_end,
    failpoint,
    ids::kept_id,
    inner::{Inner, Runtime},
    inputs::{Stored, TurnOutcome},
    live::uses::LiveRef,
    nodes::contested,
    refusals::store_refusal,
    subscription::Subscription,
};
use crate::store::{Durability, StoreError, index::Purpose};

/// A reply to the interruption with a key.
#[derive(Clone, Debug)]
pub struct NewDecision {
    /// The interruption.
    pub approval_key: String,
    /// The decisions or answers; a missing decision repeats the first.
    pub reply: Reply,
    /// The digest of one of the actions or questions that were shown. If none of the pending ones has it, the decision
    /// is refused as `stale_action`.
    pub digest: Option<String>,
    /// The reviewer's comment, shown in history and to the model; refused beside a reply to a node of a graph.
    pub user_edit_content: Option<String>,
    /// Idempotency key: makes a retry of the decision safe.
    pub request_id: Option<String>,
}

impl NewDecision {
    /// A reply alone, such as a list of decisions.
    pub fn new(approval_key: impl Into<String>, reply: impl Into<Reply>) -> NewDecision {
        NewDecision {
            approval_key: approval_key.into(),
            reply: reply.into(),
            digest: None,
            user_edit_content: None,
            request_id: None,
        }
    }

    /// Its whole content.
    fn asked(&self) -> (&Reply, &Option<String>) {
        (&self.reply, &self.user_edit_content)
    }

    /// As `by` decides interruption `n` with it, under this id as it is [kept](kept_id).
    fn by(self, by: &Principal, n: InterruptionNo, request_id: Option<RequestId>) -> DecideInput {
        DecideInput {
            digest: self.digest,
            user_edit_content: self.user_edit_content.filter(|text| !text.trim().is_empty()).map(Arc::from),
            request_id,
            ..DecideInput::new(n, self.reply, by.clone())
        }
    }
}

/// A decision that is stored.
struct Taken {
    follow: Option<Subscription>,
    repeated: bool,
    /// The beginning of what follows from it.
    start: Option<BoxFuture<'static, ()>>,
}

impl Runtime {
    /// Decides the interruption with a key. The decision is stored when this returns; the agent continues in the
    /// background.
    ///
    /// # Errors
    /// `approval_not_found`, `approval_already_resolved`, `forbidden`, `decisions_mismatch`,
    /// `decision_not_allowed`, `invalid_edit`, `stale_action`, `unresolvable`, `answers_required`, `decisions_required`,
    /// `invalid_answers`, `invalid_message`, `request_id_reused`, `store_unavailable`, `internal` (judging its edits takes
    /// too long). The interruption is then unchanged. `outcome_unknown`: the decision may have been accepted.
    pub async fn decide(&self, by: &Principal, decision: NewDecision) -> Result<Stored, Refusal> {
        self.decide_with(by, decision, false).await
    }

    /// Like [`Runtime::decide`], with the session's events from this decision on ([`Stored::follow`]).
    ///
    /// # Errors
    /// As [`Runtime::decide`].
    pub async fn decide_followed(&self, by: &Principal, decision: NewDecision) -> Result<Stored, Refusal> {
        self.decide_with(by, decision, true).await
    }

    async fn decide_with(&self, by: &Principal, decision: NewDecision, follow: bool) -> Result<Stored, Refusal> {
        let (runtime, by) = (self.clone(), by.clone());
        to_the_end(async move {
            let taken = runtime.take_decision(&by, decision, follow, Durability::Synced).await;
            let (live, stored, start) = runtime.inner.or_refused(taken).await?;
            runtime.inner.spawn_driver_from(live, start);
            Ok(stored)
        })
        .await
    }

    /// Decides the interruption with a key and runs the agent here, until it pauses or ends. A future that is dropped
    /// leaves the outcome of a call that it has started unknown, as a crash does.
    ///
    /// # Errors
    /// As [`Runtime::decide`]; `session_busy`: another node has the session, and stores nothing.
    pub async fn decide_and_run(&self, by: &Principal, decision: NewDecision) -> Result<TurnOutcome, Refusal> {
        let taken = self.take_decision(by, decision, false, Durability::Buffered).await;
        let (live, _, start) = self.inner.or_refused(taken).await?;
        self.inner.clone().drive_here(live, start).await
    }

    async fn take_decision(
        &self,
        by: &Principal,
        decision: NewDecision,
        follow: bool,
        durability: Durability,
    ) -> Result<(LiveRef, Stored, Option<BoxFuture<'static, ()>>), Refusal> {
        let not_found = || resolve::not_found(&decision.approval_key);
        let (session_id, n) = parse_approval_key(&decision.approval_key).ok_or_else(not_found)?;
        let live = self.inner.named(session_id).map_err(|_| not_found())?;
        let until = Instant::now() + Duration::from_secs(DECISION_SECONDS);
        let taken =
            contested!(self.take_decision_in(&live, by, n, decision.clone(), (follow, durability), until).await);
        let session_id = live.session_id.clone();
        let Taken { follow, repeated, start } = taken?;
        Ok((live, Stored { session_id, follow, repeated }, start))
    }

    async fn take_decision_in(
        &self,
        live: &LiveRef,
        by: &Principal,
        n: InterruptionNo,
        decision: NewDecision,
        (follow, durability): (bool, Durability),
        until: Instant,
    ) -> Result<Taken, Refusal> {
        let has_edits = decision.reply.decisions().iter().any(|decision| decision.edited().is_some());
        let ahead = if has_edits { self.judged_ahead(live, by, n, decision.clone(), until).await? } else { None };
        let mut guard = live.lock().await;
        let state = self.inner.load(live, &mut guard).await?;
        check_seen(by, &state, &decision)?;
        let kept = kept_id(by, &state, decision.request_id.as_deref(), &decision.asked());
        if self.inner.is_repeat(&live.session_id, kept.as_ref(), Purpose::decision(n)).await? {
            self.inner.confirmed().await?;
            let follow = self.inner.follow_if(follow, live, &mut guard)?;
            return Ok(Taken { follow, repeated: true, start: None });
        }
        let Some(open) = state.waiting(n) else {
            return Err(self.inner.already_resolved(&live.session_id, n).await?);
        };
        let at = self.inner.now();
        let (mut guard, guards) = self.inner.in_time(live, guard, &[n]).await?;
        let judged = match ahead {
            Some((was, judged))
                if was.waiting(n).map(|open| &open.asked) == Some(&open.asked) && was.speakers == state.speakers =>
            {
                self.inner.settings.authorities.check_still(by)?;
                judged
            }
            None if !has_edits => self.inner.judged(&state, open, decision.by(by, n, kept)).await,
            // The request or its requesters changed while the edit was judged: the whole decision is retried.
            _ => return Err(store_refusal(StoreError::Conflict)),
        };
        let decided = judged.decide(&self.inner, &state, at)?;
        let followed = self.inner.follow_if(follow, live, &mut guard)?;
        failpoint::hit("decide.before_commit");
        let start = self.inner.store_input(live, &mut guard, decided, guards, durability).await?;
        failpoint::hit("decide.after_commit");
        live.wake();
        Ok(Taken { follow: followed, repeated: false, start })
    }

    /// A reply that edits calls, with the state by which it was judged; `None` if there is nothing to judge.
    ///
    /// Conditions and previews are the application's code and may take any time, so the session is not locked
    /// meanwhile: deadlines, cancels and other inputs proceed. Nobody waits for them longer than `until`.
    async fn judged_ahead(
        &self,
        live: &LiveRef,
        by: &Principal,
        n: InterruptionNo,
        decision: NewDecision,
        until: Instant,
    ) -> Result<Option<(Session, Judged)>, Refusal> {
        let state = self.inner.load(live, &mut *live.lock().await).await?;
        check_seen(by, &state, &decision)?;
        let kept = kept_id(by, &state, decision.request_id.as_deref(), &decision.asked());
        if self.inner.is_repeat(&live.session_id, kept.as_ref(), Purpose::decision(n)).await? {
            return Ok(None);
        }
        let Some(open) = state.waiting(n) else { return Ok(None) };
        resolve::check_shown(&state, open, by, decision.digest.as_deref())?;
        let Ok(judged) = timeout_at(until, self.inner.judged(&state, open, decision.by(by, n, kept))).await else {
            let what = format!(
                "judging the edited calls and previewing them took more than {DECISION_SECONDS} s; try again, or decide \
                 without editing"
            );
            return Err(Refusal::new(Code::Internal, what));
        };
        Ok(Some((state, judged)))
    }
}

/// Whether this person may see the interruption that they reply to, and may decide at all.
fn check_seen(by: &Principal, state: &State, decision: &NewDecision) -> Result<(), Refusal> {
    if state.pos == 0 || !by.may_see(state) {
        return Err(resolve::not_found(&decision.approval_key));
    }
    by.check_may_decide()
}

/// A reply, with the policy's current verdicts on the calls that it edits.
pub(super) struct Judged {
    input: DecideInput,
    /// Whether somebody could approve the edited calls.
    approvable: Result<(), Refusal>,
}

impl Judged {
    /// The preview of this action's edited call.
    pub(super) fn preview(&self, action: usize) -> Option<Preview> {
        self.input.previews.get(action).cloned().flatten()
    }

    /// The transition that it leads to.
    ///
    /// # Errors
    /// As [`resolve::decide`]; `forbidden` for an edit that nobody could approve.
    pub(super) fn decide(self, inner: &Inner, state: &State, at: Millis) -> Result<Transition, Refusal> {
        let transition = resolve::decide(state, at, self.input, &inner.agents)?;
        self.approvable.map(|()| transition)
    }
}

impl Inner {
    /// Judges the calls that a reply edits, and has them previewed.
    pub(super) async fn judged(&self, state: &State, open: &Open, mut input: DecideInput) -> Judged {
        let mut approvable = Ok(());
        for (i, (action, decision)) in open.asked.actions.iter().zip(input.reply.decisions()).enumerate() {
            let Some(edited) = decision.edited() else {
                input.verdicts.push(None);
                continue;
            };
            let verdict = self.edited_verdict(state, action, edited).await;
            let ask = match &verdict {
                Some(Verdict::Ask(new)) => action.ask.stricter(new),
                _ => (*action.ask).clone(),
            };
            let authorities = &self.settings.authorities;
            approvable = approvable.and_then(|()| authorities.check_edit(state, action.call, &ask, &input.by));
            // If an edit is refused anyway, the tool is not asked for a preview.
            let may_be = matches!(verdict, Some(Verdict::Allow | Verdict::Ask(_))) && approvable.is_ok();
            input.verdicts.push(verdict);
            if may_be
                && action.allowed().contains(&DecisionType::Edit)
                && let Some(preview) = self.edited_preview(state, action, edited, &ask).await
            {
                input.previews.resize(open.asked.actions.len(), None);
                input.previews[i] = Some(preview);
            }
        }
        Judged { input, approvable }
    }

    /// The refusal for a key that is not pending: who resolved it first, or that it never existed (spec W5).
    pub(super) async fn already_resolved(&self, session_id: &str, n: InterruptionNo) -> Result<Refusal, Refusal> {
        let row = self.store.interruption(session_id, n).await.map_err(store_refusal)?;
        match row {
            Some(row) if row.resolution.is_some() => {
                // A sender who repeats it learns from the refusal that it was accepted.
                self.store.mark_unsynced();
                self.released().await?;
                self.resolved_refusal(&row).await
            }
            _ => Ok(resolve::not_found(&approval_key(session_id, n))),
        }
    }
}
