//! Resolving pending interruptions together: all of them or none.
//!
//! Timeouts, decisions, answers and new input of a resumed state take effect in one append, or none of them does.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use countersign_core::{
    approval::{key::approval_key, principal::Principal},
    content::Content,
    decide::{
        reply::Reply,
        resolve::{self, DecideInput},
    },
    journal::{
        draft::{Draft, MessageInput, OnPending, Transition},
        record::{Entry, Millis, Retried},
        request_id::RequestId,
        state::{Call, Open, Phase, State, Status},
    },
    number::{CallNo, InterruptionNo},
    refusal::Refusal,
    session::Session,
};
use serde::{Deserialize, Serialize};

use super::{
    inner::Runtime,
    refusals::{may_continue, owned, store_refusal, visible},
};
use crate::{
    agent::Agents,
    store::{Durability, Guards},
};

/// Why the inputs were refused. Nothing is stored then.
pub(crate) enum Unsettled {
    /// The session is at another position: another writer has continued it.
    Moved,
    /// It was cancelled while the application's rules were judging the replies.
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
    /// The position in its store.
    pub(crate) pos: u64,
    /// Entries that were added to its state since then, and are not stored yet.
    pub(crate) unstored: Vec<Arc<Entry>>,
    pub(crate) at: Millis,
    /// How far its calls were when another process took the same state.
    pub(crate) taken: Option<WhenTaken>,
    /// The `request_id` of all these inputs, as it is kept: one of their records has it.
    pub(crate) request_id: Option<RequestId>,
    /// Whether the session has these inputs already, so that none is left.
    pub(crate) is_repeat: bool,
}

/// How far the calls of a state were when a process took it: which of them it has begun since is unknown.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct WhenTaken {
    /// How many there were.
    calls: u32,
    /// The attempts of those of the latest answers that had begun by then, such as calls with a question.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    attempts: BTreeMap<CallNo, u32>,
}

impl WhenTaken {
    pub(crate) fn of(state: &State) -> WhenTaken {
        let begun = state.calls.iter().filter(|call| call.attempts > 0).map(|call| (call.call, call.attempts));
        WhenTaken { calls: state.call_count, attempts: begun.collect() }
    }

    /// Whether the next attempt of the call may be one that the other process has begun.
    pub(crate) fn may_have_begun(&self, call: &Call) -> bool {
        call.call.get() <= self.calls && call.attempts == self.attempts.get(&call.call).copied().unwrap_or_default()
    }

    /// The same of a call that may still run, and about which nobody is asked yet because of that. Calls for which an agent
    /// works have no effect but those of that agent's own calls.
    pub(crate) fn leaves_open(&self, call: &Call) -> bool {
        let is_over = matches!(call.phase, Phase::Finished | Phase::Settled(..) | Phase::Lost);
        !is_over && !call.question && !call.idempotent && call.target.is_none() && self.may_have_begun(call)
    }
}

impl Runtime {
    /// Times out overdue interruptions, accepts all replies to pending interruptions, then the user's next input: in
    /// one transition, on the session's current state. Returns the position after it. Nothing runs yet. Abandoned when
    /// `cancelled` completes, which is checked only during waits that may never end.
    pub(crate) async fn settle(
        &self,
        by: &Principal,
        session_id: &Arc<str>,
        Origin { pos, unstored, at, taken, request_id, is_repeat }: Origin,
        replies: Vec<(InterruptionNo, Reply)>,
        messages: Vec<Content>,
        cancelled: impl Future<Output = ()>,
    ) -> Result<u64, Unsettled> {
        let mut cancelled = std::pin::pin!(cancelled);
        let live = self.inner.live(session_id);
        let mut guard = live.lock().await;
        let session = self.inner.load(&live, &mut guard).await?;
        if session.pos != pos {
            return Err(Unsettled::Moved);
        }
        visible(by, &session)?;
        // Beside nodes that wait, failed ones are retried only by a program that says nothing else.
        let says_nothing = replies.is_empty() && !is_repeat;
        let retries = session.needs_a_retry() || session.has_failed_nodes() && says_nothing;
        if retries || !messages.is_empty() {
            may_continue(by, &session)?;
        }
        let mut made = Transition::made(session.state.clone(), Vec::new());
        if !unstored.is_empty() {
            made.add(onto(session, unstored).ok_or(Unsettled::Moved)?);
        }
        let (agents, mut guards) = (&self.inner.agents, Guards::default());
        continue_turn(&mut made, retries, &mut guards, by, at, agents)?;
        let mut request_id = request_id;
        for (n, reply) in replies {
            by.check_may_decide()?;
            let open = made.state().waiting(n);
            guards.not_after = guards.not_after.into_iter().chain(open.and_then(due)).min();
            let open = open.ok_or_else(|| resolve::not_found(&approval_key(session_id, n)))?;
            let mut input = DecideInput { staged: true, ..DecideInput::new(n, reply, by.clone()) };
            if messages.is_empty() {
                input.request_id = request_id.take();
            }
            let judged = tokio::select! { biased;
                judged = self.inner.judged(made.state(), open, input) => judged,
                () = &mut cancelled => return Err(Unsettled::Cancelled),
            };
            made.add(judged.decide(&self.inner, made.state(), at)?);
        }
        if let Some(taken) = taken {
            for transition in begun_elsewhere(made.state(), at, &taken, agents) {
                made.add(transition);
            }
        }
        for content in messages {
            self.inner.takes_messages(made.state())?;
            let input = MessageInput { request_id: request_id.take(), ..message(by, made.state(), content)? };
            made.add(Draft::new(made.state(), at).says_first(input, agents)?);
        }
        if made.is_empty() {
            return Ok(pos);
        }
        let stored = self.inner.transact_if(guards, &live, &mut guard, Durability::Buffered, |_| Ok(made)).await;
        let Err(refusal) = stored else {
            live.wake();
            return Ok(guard.state()?.pos);
        };
        // Whether another writer was first is decided by the store, not by an error's text.
        match self.inner.store.head(session_id).await.map_err(store_refusal)? {
            Some(head) if head.pos == pos => Err(refusal.into()),
            _ => Err(Unsettled::Moved),
        }
    }
}

/// Continues the turn before any new input: one that has failed or is held is retried, and overdue interruptions time
/// out.
fn continue_turn(
    made: &mut Transition,
    retries: bool,
    guards: &mut Guards,
    by: &Principal,
    at: Millis,
    agents: &Agents,
) -> Result<(), Refusal> {
    if retries {
        let retried = Retried { by: by.subject.clone(), ..Retried::default() };
        made.add(Draft::new(made.state(), at).retry(retried, agents)?);
    } else if made.state().status == Status::Running {
        made.add(Draft::new(made.state(), at).settled(agents));
    }
    for n in overdue(made.state(), at) {
        guards.not_before = guards.not_before.max(made.state().waiting(n).and_then(due));
        if let Some(timed_out) = Draft::new(made.state(), at).time_out(n, agents) {
            made.add(timed_out);
        }
    }
    Ok(())
}

/// Another process took the same state before: each of its calls that may begin here may have begun there, so a person
/// is asked about it (spec R4), at whichever node its agent is.
fn begun_elsewhere(state: &State, at: Millis, taken: &WhenTaken, agents: &Agents) -> Vec<Transition> {
    let may_begin = |call: &&Call| call.phase == Phase::Permitted && call.target.is_none();
    // One that may repeat begins again under the same key.
    let is_unknown = |call: &&Call| may_begin(call) && taken.may_have_begun(call) && !call.may_repeat(agents);
    let calls: Vec<CallNo> = state.calls.iter().filter(is_unknown).map(|call| call.call).collect();
    if calls.is_empty() {
        return Vec::new();
    }
    let started = Draft::new(state, at).start(&calls);
    let lost = Draft::new(started.state(), at).recover(&BTreeSet::new(), agents);
    std::iter::once(started).chain(lost).collect()
}

/// The owner's next message; while interruptions are pending it is queued.
fn message(by: &Principal, state: &State, content: Content) -> Result<MessageInput, Refusal> {
    owned(by, state)?;
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
    let late = state.open.iter().filter(|open| due(open).is_some_and(|due| at >= due));
    late.map(|open| open.asked.n).collect()
}

fn due(open: &Open) -> Option<Millis> {
    open.asked.expires_at
}

/// Entries that were made outside a store, as a transition of this session. `None`: they do not follow from it. Only
/// the session's state counts, not the text's earlier states.
fn onto(mut session: Session, made: Vec<Arc<Entry>>) -> Option<Transition> {
    made.iter().try_for_each(|entry| session.append(entry)).ok()?;
    Some(Transition::made(session.state, made))
}
