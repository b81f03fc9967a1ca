//! Forks: a new session with the past of another up to a checkpoint, perhaps edited there (spec G6).

use std::{sync::Arc, time::Duration};

use countersign_core::{
    approval::{decision::EditedAction, principal::Principal},
    call::{
        args::Args,
        gate::{Gate, Verdict},
    },
    content::Content,
    journal::{
        draft::Draft,
        fork::{ForkInput, is_open_to_edits, must_be_judged},
        record::{Judged, Record, UserMessage},
        request_id::RequestId,
        state::{Call, Phase, State},
    },
    limits::FORK_SECONDS,
    refusal::{Code, Refusal},
    session::Session,
    wire::client::check_session_id,
};
use serde::Serialize;
use tokio::time::timeout;

use super::{
    command::to_the_end,
    ids::{kept_id, session_id as session_id_of, unique},
    inner::Runtime,
    live::{LiveState, uses::LiveRef},
    nodes::contested,
    past::Then,
    refusals::{may_continue, owned, visible},
    view::SessionView,
};
use crate::store::{Durability, index::Purpose};

/// A fork to create.
#[derive(Clone, Debug, Default)]
pub struct NewFork {
    /// The checkpoint it forks from; the newest if absent.
    pub checkpoint: Option<u64>,
    /// Its id; generated if absent.
    pub session_id: Option<String>,
    /// What is edited there.
    pub edit: ForkEdit,
    /// Whether it continues automatically. If not, it stays idle until an interruption is decided, a message arrives,
    /// it is retried, or the same request comes with `run`; a deadline only resolves its interruption.
    pub run: bool,
    /// Makes a retry of the request safe, with the same `session_id`.
    pub request_id: Option<String>,
}

impl NewFork {
    /// Everything it asks for; a repeat may also ask that the fork continue.
    fn asked(&self) -> impl Serialize + use<> {
        let NewFork { checkpoint, edit, .. } = self;
        let call = |call: &EditedCall| (call.tool_use_id.clone(), call.name.clone(), call.args.clone());
        let calls: Vec<_> = edit.calls.iter().map(call).collect();
        (*checkpoint, edit.message.clone(), calls)
    }
}

/// What to edit in a fork: at most one of the two fields.
#[derive(Clone, Debug, Default)]
pub struct ForkEdit {
    /// A user's message. It replaces the message that began the turn, if the checkpoint is right after that; otherwise
    /// it is the next message.
    pub message: Option<Content>,
    /// Calls of the latest answer that have not begun, and the calls that run instead.
    pub calls: Vec<EditedCall>,
}

/// A call that is edited.
#[derive(Clone, Debug, Default)]
pub struct EditedCall {
    /// The call's id from the model.
    pub tool_use_id: String,
    /// The tool; the call's own if absent.
    pub name: Option<String>,
    /// The arguments.
    pub args: Args,
}

/// A fork that was created.
#[derive(Debug)]
pub struct MadeFork {
    /// The new session.
    pub session: SessionView,
    /// Whether it was created now, and not by an earlier attempt of the same request.
    pub made: bool,
}

impl Runtime {
    /// Creates a new session with the past of another up to a checkpoint. The original is not changed.
    ///
    /// Only the session's owner may fork it, and owns the new session too. No earlier decision applies in the fork:
    /// pending interruptions are requested again under new keys, and so are calls that were approved and had not begun.
    /// The current policy judges every call that may begin, and the stricter of the original verdict and the current
    /// one applies.
    ///
    /// # Errors
    /// `session_not_found` (also for an id that is taken by a session that `by` may not see), `forbidden`,
    /// `invalid_session_id`, `session_exists` (the id is that of another session), `invalid_message` (no checkpoint, or
    /// nothing editable there), `invalid_edit`, `unresolvable` (a call's tool is unreachable now), `too_busy`,
    /// `internal` (judging took too long), `request_id_reused`, `store_unavailable`.
    pub async fn fork(&self, by: &Principal, session_id: &str, new: NewFork) -> Result<MadeFork, Refusal> {
        let original = self.read_state(by, session_id).await?;
        owned(by, &original)?;
        if new.run {
            may_continue(by, &original)?;
        }
        if !new.edit.calls.is_empty() {
            // Editing a call is otherwise part of a decision, so it requires the right to decide.
            by.check_may_decide()?;
        }
        if let Some(id) = &new.session_id {
            check_session_id(id)?;
        }
        let id = session_id_of(new.session_id.as_deref())?;
        let (runtime, by, live) = (self.clone(), by.clone(), self.inner.live(&id));
        to_the_end(async move {
            // Another node may be making the same fork: then it is found on the next attempt.
            let made = contested!(runtime.fork_in(&live, &by, &original, new.clone()).await)?;
            if new.run {
                runtime.inner.spawn_driver(live);
            }
            Ok(made)
        })
        .await
    }

    async fn fork_in(
        &self,
        live: &LiveRef,
        by: &Principal,
        original: &State,
        new: NewFork,
    ) -> Result<MadeFork, Refusal> {
        let mut guard = live.lock().await;
        let existing = self.inner.load(live, &mut guard).await?;
        if existing.pos > 0 {
            return self.made_before(live, &mut guard, (by, &existing), original, &new).await;
        }
        let birth = unique();
        let request_id = new.request_id.as_deref().map(|id| RequestId::of(id, None, &birth, &new.asked()));
        let _turn = self.inner.heavy.turn(by).await?;
        let checkpoint = match new.checkpoint {
            Some(checkpoint) => checkpoint,
            None => self.inner.newest_checkpoint(original).await?,
        };
        let mut then = self.inner.at_checkpoint(original, &live.session_id, checkpoint).await?;
        let message = match new.edit.message {
            Some(_) if !new.edit.calls.is_empty() => {
                let message = "edit: send either \"message\" or \"calls\"; each is for other checkpoints";
                return Err(Refusal::new(Code::InvalidMessage, message));
            }
            Some(content) => {
                let (agent, queued, earlier) = replaced(&then);
                if let Some(earlier) = earlier {
                    then = self.inner.at_checkpoint(original, &live.session_id, earlier).await?;
                }
                self.inner.takes_messages(&then.session)?;
                let (by, roles) = (by.subject.clone(), by.roles.clone());
                Some(UserMessage { content, by, roles, agent, queued, ..UserMessage::default() })
            }
            None => None,
        };
        let past = then.session;
        let state = &past.state;
        let roles = if by.subject == state.subject { by.roles.clone() } else { state.roles.clone() };
        // No rule was made in the new session.
        let today = State { roles: roles.clone(), sticky: Vec::new(), ..State::clone(state) };
        let judging = timeout(Duration::from_secs(FORK_SECONDS), self.judged(&today, &new.edit.calls));
        let Ok(judged) = judging.await else {
            let what = format!(
                "judging the calls of the fork and previewing them took more than {FORK_SECONDS} s; try again, or fork an \
                 earlier checkpoint"
            );
            return Err(Refusal::new(Code::Internal, what));
        };
        let judged = judged?;
        if !new.edit.calls.is_empty() {
            self.inner.settings.authorities.check_still(by)?;
        }
        let input = ForkInput {
            from: original.session_id.clone(),
            by: by.subject.clone(),
            roles,
            request_id,
            run: new.run,
            restored: original.is_unknown_since_a_backup(),
            judged,
            message,
            birth,
            approved: self.inner.hosted_calls(state),
        };
        let transition = Draft::new(state, self.inner.now()).fork(input, &self.inner.agents)?;
        self.inner.begin_with(live, &mut guard, (&original.session_id, &past), transition).await?;
        Ok(MadeFork { session: SessionView::of_state(&*guard.state()?), made: true })
    }

    /// The fork that an earlier attempt of the same request created; with `run` it continues, if it is still held.
    ///
    /// # Errors
    /// `session_exists`: it is another session; `request_id_reused`.
    async fn made_before(
        &self,
        live: &LiveRef,
        guard: &mut LiveState,
        (by, existing): (&Principal, &Session),
        original: &State,
        new: &NewFork,
    ) -> Result<MadeFork, Refusal> {
        visible(by, existing)?;
        let kept = kept_id(by, existing, new.request_id.as_deref(), &new.asked());
        let same = existing.forked_from.as_ref().is_some_and(|from| from.session_id == original.session_id)
            && self.inner.is_repeat(&live.session_id, kept.as_ref(), Purpose::FORK).await?;
        if !same {
            let message = format!("session_id: there is a session {:?} already", &*live.session_id);
            return Err(Refusal::new(Code::SessionExists, message));
        }
        if new.run {
            may_continue(by, existing)?;
            if let Some(transition) = Draft::new(existing, self.inner.now()).go_on(&self.inner.agents) {
                self.inner.transact(live, guard, Durability::Synced, |_| Ok(transition)).await?;
                live.wake();
            }
        }
        self.inner.confirmed().await?;
        Ok(MadeFork { session: SessionView::of_state(&*guard.state()?), made: false })
    }

    /// The current verdicts on the calls that may begin in a fork, as they are or as edited (spec P4).
    async fn judged(&self, state: &State, edits: &[EditedCall]) -> Result<Vec<Judged>, Refusal> {
        let mut judged = Vec::new();
        let mut agents: Vec<&str> =
            state.calls.iter().filter(|call| must_be_judged(call)).map(|call| &*call.agent).collect();
        agents.sort_unstable();
        agents.dedup();
        self.inner.agents.prepare(agents).await;
        for (i, edit) in edits.iter().enumerate() {
            let call = editable(state, edit, i)?;
            if edits[..i].iter().any(|before| before.tool_use_id == edit.tool_use_id) {
                return Err(invalid(i, "is changed twice"));
            }
            let action = EditedAction {
                name: edit.name.clone().unwrap_or_else(|| call.name.to_string()),
                args: edit.args.clone(),
            };
            let verdict = self.inner.verdict_on_edit(state, call, &action, i).await?;
            let preview = self.inner.preview_of(state, &call.agent, &call.id, &action, None).await;
            judged.push(Judged {
                call: call.call,
                tool_use_id: call.id.clone(),
                verdict,
                decided_by: None,
                said_by: None,
                edited: Some(action),
                preview,
            });
        }
        for call in state.calls.iter().filter(|call| must_be_judged(call)) {
            if judged.iter().all(|one| one.call != call.call) {
                let Gate { verdict, decided_by, said_by, .. } = self.inner.verdict_today(state, call).await?;
                let preview = match (&verdict, &call.preview, &call.args) {
                    (Verdict::Ask(_), None, Some(args)) => {
                        let action = EditedAction { name: call.name.to_string(), args: args.clone() };
                        self.inner.preview_of(state, &call.agent, &call.id, &action, None).await
                    }
                    _ => None,
                };
                judged.push(Judged {
                    call: call.call,
                    tool_use_id: call.id.clone(),
                    edited: None,
                    verdict,
                    decided_by,
                    said_by,
                    preview,
                });
            }
        }
        Ok(judged)
    }
}

/// If the checkpoint is right after a message that began a turn: the agent that the message named, its number if it had
/// been queued, and the checkpoint before it, from which another message can be sent.
fn replaced(then: &Then) -> (Option<Arc<str>>, u32, Option<u64>) {
    let last = &then.last;
    match last.records.first() {
        Some(Record::UserMessage(message)) if last.cursor.open == 0 && last.pos > 1 => {
            // Before it no turn was open, so that is a checkpoint.
            (message.agent.clone(), message.queued, Some(last.pos - 1))
        }
        _ => (None, 0, None),
    }
}

/// The call that an edit refers to, if it can be edited.
fn editable<'a>(state: &'a State, edit: &EditedCall, i: usize) -> Result<&'a Call, Refusal> {
    let open: Vec<&Call> = state.calls.iter().filter(|call| is_open_to_edits(call, state)).collect();
    let mut named = open.iter().filter(|call| *call.id == *edit.tool_use_id);
    match (named.next(), named.next()) {
        (Some(call), None) => return Ok(call),
        (Some(one), Some(other)) => {
            // Agents that work for one another may use the same ids.
            let (id, one, other) = (&edit.tool_use_id, &*one.agent, &*other.agent);
            let what = format!(
                "{id:?} is a call of the agent {one:?} and one of {other:?} at this checkpoint; decide them in the new session"
            );
            return Err(invalid(i, &what));
        }
        (None, _) => {}
    }
    let why = match state.calls.iter().find(|call| *call.id == *edit.tool_use_id) {
        None => "is not a call of the latest answer at this checkpoint",
        Some(call) if call.question => "asks the user; answer or decline it in the new session",
        Some(call) if call.phase == Phase::Finished => "has its result at this checkpoint; take an earlier one",
        Some(_) => "has begun at this checkpoint; take an earlier one",
    };
    let known: Vec<String> = open.iter().map(|call| format!("{:?}", &*call.id)).collect();
    let known = if known.is_empty() { "none can be changed here".to_owned() } else { known.join(", ") };
    Err(invalid(i, &format!("{:?} {why}; calls that can be changed: {known}", edit.tool_use_id)))
}

fn invalid(i: usize, what: &str) -> Refusal {
    Refusal::new(Code::InvalidMessage, format!("edit.calls[{i}].tool_use_id: {what}"))
}
