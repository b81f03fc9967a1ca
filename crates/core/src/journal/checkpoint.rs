//! Checkpoints: the places of a journal at which a session can be looked at and forked (spec G6).
//!
//! A journal is made of appends, each stored whole or not at all, and after it the session stands whole: every call has
//! its verdict or a known result, nobody is still to be asked, and the status has been told. So every append is a
//! checkpoint, but for those that only say what people have already seen of an answer that is not complete, and those
//! after which an agent's loop still has a node of its own to pass. No record marks them, and nothing has to be guessed
//! from the records.

use super::{
    graph,
    record::{Entry, Millis, Record},
    run::{Step, Task, TaskPhase},
    state::{Call, Phase, State, Status},
};
use std::sync::Arc;

/// Which way of folding records this is. Raised whenever that changes: a snapshot or a waypoint of another one is not used.
pub const FOLD_VERSION: u32 = 1;

/// A place at which the session stood whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Checkpoint {
    /// The position of the last append that counts.
    pub pos: u64,
    /// When that was appended.
    pub at: Millis,
    /// What brought the session there: a short name that stays as it is.
    pub after: &'static str,
    /// The session's status.
    pub status: Status,
    /// Where in its graph it stood: the nodes.
    pub node: String,
    /// The numbers of the interruptions that waited.
    pub pending: Vec<u32>,
}

impl Checkpoint {
    /// The place after an append that has led to `state`; `None` if it is no checkpoint.
    #[must_use]
    pub fn of(state: &State, entry: &Entry) -> Option<Checkpoint> {
        is_checkpoint(state, entry).then(|| Checkpoint {
            pos: entry.pos,
            at: entry.at,
            after: after(entry),
            status: state.status,
            node: graph::nodes(state),
            pending: state.open.iter().map(|open| open.asked.n).collect(),
        })
    }
}

/// Whether the place after an append that has led to `state` is a checkpoint.
#[must_use]
pub fn is_checkpoint(state: &State, entry: &Entry) -> bool {
    is_whole(state) && !entry.is_progress()
}

/// What an append is called where checkpoints are listed. With the end of a turn comes what it ends.
fn after(entry: &Entry) -> &'static str {
    let ends = |record: &&Record| matches!(record, Record::TurnEnded(_) | Record::TurnFailed(_));
    entry.records.iter().find(ends).or_else(|| entry.records.first()).map_or("", name)
}

/// Whether nothing is half there: no call without its verdict or its result where that is known, nobody still to be
/// asked, no answer of which only the beginning is on record.
#[must_use]
pub fn is_whole(state: &State) -> bool {
    let calls = || state.calls.iter().map(|call| &call.phase);
    if state.status == Status::Failed {
        // A failed turn draws its consequences when it is retried.
        return calls().all(|phase| *phase != Phase::Proposed);
    }
    let runs = state.calls.iter().any(Call::goes_on) || state.asking().next().is_some();
    let active = state.status.is_active();
    let run = state.run.as_ref().filter(|_| active);
    // The end of a run comes with its last task's, and its failure with the task's.
    if run.is_some_and(|run| run.failure().is_some() || (!run.agent_loop && run.frames.is_empty())) {
        return false;
    }
    // What it asked is withdrawn together with what ends it.
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
        && state.begun.is_none()
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
        Record::ReviewerSaid(_) => "decision",
        Record::BlockBegan(_)
        | Record::BlockShown(_)
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
        Record::Withdrawn { .. } | Record::TurnEnded(_) | Record::TurnFailed(_) => "end",
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
        Record::Retried(_) => "retry",
        Record::StateEdited(_) => "edit",
        Record::States(_) => "states",
        Record::MakeRoom(_) | Record::Compressed(_) => "compression",
    }
}
