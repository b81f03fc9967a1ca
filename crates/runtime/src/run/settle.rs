//! Resolving pending interruptions together: all of them or none.
//!
//! Timeouts, decisions, answers and new input of a resumed state take effect in one append, or none of them does.

use std::sync::Arc;

use countersign_core::{
    approval::{key::parse_approval_key, principal::Principal},
    content::Content,
    decide::resolve,
    journal::{
        draft::{Draft, MessageInput, OnPending, Transition},
        failure::Retried,
        record::{Entry, Millis},
        state::{State, Status},
    },
    number::InterruptionNo,
    refusal::Refusal,
    session::Session,
};

use super::{NewDecision, Runtime, decide::Judged, graph_runs::takes_messages, owned, store_refusal, visible};
use crate::store::{Durability, Guards};

/// Why the inputs were refused. Nothing is stored then.
pub(crate) enum Unsettled {
    /// The session is at another position: another writer has continued it.
    Moved,
    /// It was cancelled while the application's rules still judged the replies.
    Cancelled,
    /// One of the replies or messages is invalid.
    Refused(Refusal),
}

impl From<Refusal> for Unsettled {
    fn from(refusal: Refusal) -> Unsettled {
        Unsettled::Refused(refusal)
    }
}

/// The position from which a session resumes.
#[derive(Clone)]
pub(crate) struct Origin {
    /// The position of its store.
    pub(crate) pos: u64,
    /// Entries that were added to its state since, and are not stored yet.
    pub(crate) unstored: Vec<Arc<Entry>>,
    pub(crate) at: Millis,
}

impl Runtime {
    /// Times out overdue interruptions, accepts all replies to pending interruptions, then the user's next input: in
    /// one transition, on the session's current state. Nothing runs yet. It is abandoned when `cancelled` ends, which
    /// is checked only while waiting for something that may never come.
    pub(crate) async fn settle(
        &self,
        by: &Principal,
        session_id: &Arc<str>,
        Origin { pos, unstored, at }: Origin,
        replies: Vec<NewDecision>,
        messages: Vec<Content>,
        cancelled: impl Future<Output = ()>,
    ) -> Result<(), Unsettled> {
        let mut cancelled = std::pin::pin!(cancelled);
        let live = self.inner.live(session_id);
        let mut guard = live.lock().await;
        let session = self.inner.load(&live, &mut guard).await?;
        if session.pos != pos {
            return Err(Unsettled::Moved);
        }
        visible(by, &session)?;
        let mut all = Together { state: session.state.clone(), made: None };
        if !unstored.is_empty() {
            all.add(onto(session, unstored).ok_or(Unsettled::Moved)?);
        }
        if all.state.status == Status::Failed {
            let retried = Retried { by: by.subject.clone(), ..Retried::default() };
            all.add(Draft::new(&all.state, at).retry(retried, &self.inner.agents)?);
        } else if all.state.status == Status::Running {
            let settled = Draft::new(&all.state, at).settled(&self.inner.agents);
            if !settled.is_empty() {
                all.add(settled);
            }
        }
        let due = |state: &State, n: InterruptionNo| state.waiting(n).and_then(|open| open.asked.expires_at);
        let mut guards = Guards::default();
        for n in overdue(&all.state, at) {
            guards.not_before = guards.not_before.max(due(&all.state, n));
            if let Some(timed_out) = Draft::new(&all.state, at).time_out(n, &self.inner.agents) {
                all.add(timed_out);
            }
        }
        for reply in replies {
            by.check_may_decide()?;
            let until = parse_approval_key(&reply.approval_key).and_then(|(_, n)| due(&all.state, n));
            guards.not_after = guards.not_after.into_iter().chain(until).min();
            let judged = tokio::select! { biased;
                judged = self.read(by, &all.state, reply) => judged?,
                () = &mut cancelled => return Err(Unsettled::Cancelled),
            };
            all.add(judged.decide(&self.inner, &all.state, at)?);
        }
        for content in messages {
            let input = message(by, &all.state, content)?;
            all.add(Draft::new(&all.state, at).says_first(input, &self.inner.agents)?);
        }
        let Some(made) = all.made else { return Ok(()) };
        let stored = self.inner.transact_if(guards, &live, &mut guard, Durability::Buffered, |_| Ok(made)).await;
        let Err(refusal) = stored else {
            live.wake();
            return Ok(());
        };
        // Whether another writer was first is decided by the store, not by an error's text.
        match self.inner.store.head(session_id).await.map_err(store_refusal)? {
            Some(head) if head.pos == pos => Err(refusal.into()),
            _ => Err(Unsettled::Moved),
        }
    }

    /// A reply with this runtime's verdicts on the edited calls.
    async fn read(&self, by: &Principal, state: &State, reply: NewDecision) -> Result<Judged, Refusal> {
        let not_found = || resolve::not_found(&reply.approval_key);
        let (_, n) = parse_approval_key(&reply.approval_key).ok_or_else(not_found)?;
        let open = state.waiting(n).ok_or_else(not_found)?;
        Ok(self.inner.judged(by, state, open, reply, true).await)
    }
}

/// The owner's next message; while interruptions are pending it is queued.
fn message(by: &Principal, state: &State, content: Content) -> Result<MessageInput, Refusal> {
    owned(by, state)?;
    takes_messages(state)?;
    Ok(MessageInput {
        content,
        by: by.subject.clone(),
        roles: by.roles.clone(),
        on_pending: Some(OnPending::Queue),
        ..MessageInput::default()
    })
}

/// The interruptions whose deadline has passed at `at`.
pub(crate) fn overdue(state: &State, at: Millis) -> Vec<InterruptionNo> {
    let due = state.open.iter().filter(|open| open.asked.expires_at.is_some_and(|due| at >= due));
    due.map(|open| open.asked.n).collect()
}

struct Together {
    state: Arc<State>,
    made: Option<Transition>,
}

impl Together {
    fn add(&mut self, next: Transition) {
        self.state = next.state().clone();
        self.made = Some(match self.made.take() {
            Some(made) => made.then(next),
            None => next,
        });
    }
}

/// Entries that were made outside a store, as a transition of this session. `None`: they do not follow from it. Only
/// the session's state counts, not the text's earlier states.
fn onto(mut session: Session, made: Vec<Arc<Entry>>) -> Option<Transition> {
    made.iter().try_for_each(|entry| session.append(entry)).ok()?;
    Some(Transition::made(session.state, made))
}
