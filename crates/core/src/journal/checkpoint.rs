//! Checkpoints: the positions of a journal at which a session stood whole (spec G6).
//!
//! A session is stored in transitions, each whole or not at all. A checkpoint is the end of one, as far as the
//! records tell: after it nothing follows by itself but what the session does next, and no answer is half there.
//! That is a function of the records alone, and no record marks them.
//!
//! After a checkpoint every call has its verdict or a known result, nobody is still to be asked, no answer is half
//! shown, the status has been told, and the next record does not merely follow by itself. A property over random
//! sessions checks that these positions are exactly the ends of transitions. Listing checkpoints, or reading the state
//! at one, is a fold: nothing else knows the numbers of calls and what was pending, and a snapshot is of the end only.

use std::{borrow::Cow, sync::Arc};

use serde::{Deserialize, Serialize};

use super::{
    graph,
    record::{EndReason, Entry, Millis, Note, Noted, Record},
    run::{Step, Task, TaskPhase},
    state::{Call, Phase, State, Status},
};

/// Which way of folding records, and of writing [`Checkpoints`] down, this is. Raised whenever either changes: a walk that was
/// written down in another way is not gone on with.
pub const FOLD_VERSION: u32 = 1;

/// A position at which the session stood whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Checkpoint {
    /// The position of the last record that counts.
    pub pos: u64,
    /// When that was appended.
    pub at: Millis,
    /// What brought the session there: a short name that stays as it is.
    pub after: Cow<'static, str>,
    /// The session's status.
    pub status: Status,
    /// Where in its graph it stood: the nodes.
    pub node: String,
    /// The numbers of the interruptions that waited.
    pub pending: Vec<u32>,
}

/// Finds the checkpoints of a journal, from its first record on. It can be written down on the way and gone on with.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Checkpoints {
    state: State,
    /// What began what is happening since the last checkpoint.
    began: Option<Cow<'static, str>>,
    /// What the last record is called.
    last: Option<Cow<'static, str>>,
    /// The last record is ahead of what it belongs to.
    ahead: bool,
}

impl Checkpoints {
    /// Before the first record of the session.
    #[must_use]
    pub fn new(session_id: Arc<str>) -> Checkpoints {
        Checkpoints { state: State::new(session_id), began: None, last: None, ahead: false }
    }

    /// Goes on at a checkpoint, where the session stood as `state` and `last` was its last record. `None` unless it is one, if
    /// `next` comes next.
    #[must_use]
    pub fn resume(state: State, last: &Entry, next: &Entry) -> Option<Checkpoints> {
        let mut walk = Checkpoints { state, began: None, last: None, ahead: false };
        walk.pass(&last.record);
        walk.is_checkpoint(Some(next)).then_some(walk)
    }

    /// The same walk of a session that has the same records.
    #[must_use]
    pub fn of_session(mut self, session_id: Arc<str>) -> Checkpoints {
        self.state.session_id = session_id;
        self
    }

    /// The state after the records so far.
    #[must_use]
    pub fn state(&self) -> &State {
        &self.state
    }

    /// The state after the records so far.
    #[must_use]
    pub fn into_state(self) -> State {
        self.state
    }

    /// Takes the next record. What comes back is the place before it, if that is a checkpoint.
    pub fn take(&mut self, entry: &Entry) -> Option<Checkpoint> {
        let before = if self.is_checkpoint(Some(entry)) { self.here() } else { None };
        if before.is_some() {
            self.began = None;
        }
        if self.began.is_none() || matches!(entry.record, Record::TurnEnded(_)) {
            self.began = Some(Cow::Borrowed(name(&entry.record)));
        }
        self.pass(&entry.record);
        self.state.apply(entry);
        before
    }

    /// Remembers what the last record was.
    fn pass(&mut self, last: &Record) {
        self.last = Some(Cow::Borrowed(name(last)));
        self.ahead = matches!(last, Record::Group { .. } | Record::Replaced { .. });
    }

    /// The end of the journal, if that is a checkpoint.
    #[must_use]
    pub fn end(&self) -> Option<Checkpoint> {
        if self.is_checkpoint(None) { self.here() } else { None }
    }

    /// Whether the end so far is a checkpoint, if `next` comes next.
    #[must_use]
    pub fn is_checkpoint(&self, next: Option<&Entry>) -> bool {
        !self.ahead && is_whole(&self.state) && next.is_none_or(|next| !self.follows_by_itself(next))
    }

    fn here(&self) -> Option<Checkpoint> {
        Some(Checkpoint {
            pos: self.state.pos,
            at: self.state.updated_at,
            after: self.began.clone()?,
            status: self.state.status,
            node: graph::nodes(&self.state),
            pending: self.state.open.iter().map(|open| open.asked.n).collect(),
        })
    }

    /// Whether this record was stored together with the one before it: it can only have been, or both are steps of the
    /// same kind at the same time.
    fn follows_by_itself(&self, next: &Entry) -> bool {
        let (state, last) = (&self.state, self.last.as_deref());
        match &next.record {
            // It is how a fork that was left standing goes on: by itself, or with the message that lets it.
            Record::Status { awaiting: false, .. } if state.held => last == Some("queued") && state.open.is_empty(),
            Record::CallsGated(_)
            | Record::Interrupted(_)
            | Record::Status { .. }
            | Record::TaskWaits { .. }
            | Record::States(_)
            | Record::MakeRoom(_)
            | Record::Noted(Noted { note: Note::Approved { .. }, .. }) => true,
            // What only one person may decide stays theirs when a turn goes on that has failed.
            Record::Noted(Noted { note: Note::Reassigned { .. }, .. }) => {
                last == Some("asked") && next.at == state.updated_at
            }
            // The loop of an agent begins with the message that begins its turn.
            Record::FrameBegan(began) => began.task == 0,
            // Within a turn a message comes with a decision, with the results it has waited for, or lets a fork go on.
            Record::UserMessage(message) => state.status.is_active() || message.queued != 0,
            Record::TurnEnded(ended) => match ended.reason {
                EndReason::EndTurn | EndReason::MaxTurns => true,
                // The calls that were open got their results with it.
                EndReason::Cancelled | EndReason::Error { .. } => last == Some("result") && next.at == state.updated_at,
            },
            Record::CallStarted { .. } | Record::CallLost { .. } => {
                matches!(last, Some("start" | "lost")) && next.at == state.updated_at
            }
            Record::CallOutdated { .. } => last == Some("tool_changed") && next.at == state.updated_at,
            Record::HandedOff(_) => true,
            Record::ApprovalSent { .. } => last == Some("fork"),
            Record::CallFinished(_) if last == Some("handoff") => true,
            Record::CallFinished(_) => matches!(last, Some("result" | "reopen")) && next.at == state.updated_at,
            Record::AgentBegan(_) => matches!(last, Some("start")) && next.at == state.updated_at,
            // What a task asked and did not wait for is withdrawn with its end.
            Record::TasksDone(_) | Record::TaskFailed(_) => last == Some("end") && next.at == state.updated_at,
            _ => false,
        }
    }
}

/// Whether nothing is half there: no call without its verdict or its result where that is known, nobody still to be
/// asked, no answer of which only the beginning is on record.
#[must_use]
pub fn is_whole(state: &State) -> bool {
    let calls = || state.calls.iter().map(|call| &call.phase);
    let runs = state.calls.iter().any(Call::goes_on) || state.asking().next().is_some();
    let active = state.status.is_active();
    let run = state.run.as_ref().filter(|_| active);
    // The end of a run is in the record after its last task's, and its failure in the one after the task's.
    if run.is_some_and(|run| run.failure().is_some() || (!run.agent_loop && run.frames.is_empty())) {
        return false;
    }
    // What it asked was just withdrawn, and the reason is the next record.
    let asks_nothing = |task: &Arc<Task>| {
        task.phase == TaskPhase::Waiting
            && task.questions.values().all(|question| question.answer.is_some())
            && task.steps.values().all(|step| *step != Step::Lost)
    };
    if run.is_some_and(|run| run.tasks.values().any(asks_nothing)) {
        return false;
    }
    let waits = active && !runs && calls().any(|phase| matches!(phase, Phase::Waiting(_) | Phase::Asking))
        || run.is_some_and(|run| run.waits());
    state.pos > 0
        && state.shown.is_empty()
        && calls().all(|phase| match phase {
            Phase::Proposed | Phase::Settled(..) | Phase::Lost => false,
            // Asked about once the calls that need nobody have run.
            Phase::Gated => runs || state.loop_node().is_some_and(|node| node != graph::APPROVAL),
            Phase::Asking => true,
            Phase::Waiting(n) => state.waiting(*n).is_some(),
            Phase::Permitted | Phase::Started(_) | Phase::Delegated | Phase::Finished => true,
        })
        && state.calls.iter().all(|call| call.phase != Phase::Asking || call.is_asked(state))
        && state.nested.iter().all(|nested| !nested.answered)
        && !state.hands_off()
        && (state.status == Status::AwaitingInput) == waits
        && !(state.status.is_active() && state.answered)
}

/// What a record is called where checkpoints are listed.
fn name(record: &Record) -> &'static str {
    match record {
        Record::SessionCreated(_) => "created",
        Record::UserMessage(_) => "message",
        Record::MessageQueued(_) => "queued",
        Record::BlockShown(_)
        | Record::Group { .. }
        | Record::Replaced { .. }
        | Record::ModelResponded(_)
        | Record::CallsGated(_) => "answer",
        Record::Interrupted(_) => "asked",
        Record::Decided(_) | Record::Answered(_) => "decision",
        Record::TimedOut { .. } => "timeout",
        Record::Noted(_) => "note",
        Record::RuleRevoked(_) => "rule",
        Record::CallStarted { .. } | Record::AgentBegan(_) => "start",
        Record::HandedOff(_) => "handoff",
        Record::CallFinished(_) => "result",
        Record::CallLost { .. } => "lost",
        Record::InputRequired(_) => "input",
        Record::CallOutdated { .. } => "tool_changed",
        Record::Status { .. } => "status",
        Record::Withdrawn { .. } | Record::TurnEnded(_) => "end",
        Record::TurnReopened(_) => "reopen",
        Record::Forked(_) => "fork",
        Record::Restarted(_) => "restart",
        Record::ApprovalSent { .. } => "approval_sent",
        Record::RunStarted(_) => "run",
        Record::FrameBegan(_) => "graph",
        Record::TasksDone(_) => "node",
        Record::TaskFailed(_) => "failure",
        Record::TaskWaits { .. } => "pause",
        Record::StepStarted { .. } | Record::StepDone { .. } => "step",
        Record::Resumed(_) => "resume",
        Record::RunRetried(_) => "retry",
        Record::StateEdited(_) => "edit",
        Record::States(_) => "states",
        Record::MakeRoom(_) | Record::Compressed(_) => "compression",
    }
}
