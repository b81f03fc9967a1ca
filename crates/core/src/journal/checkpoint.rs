//! Checkpoints: the positions of a journal at which a session can be inspected and forked (spec G6).
//!
//! A journal is made of appends, each stored whole or not at all, and after each one the session is consistent: every
//! call has its verdict or a known result, every due request has been made, and the status has been recorded. So every
//! append is a checkpoint, except those that only record the visible part of an unfinished answer, and those after
//! which an agent's loop still has a custom node to pass. No record marks checkpoints, and nothing has to be inferred
//! from the records.

use super::{
    graph,
    progress::{Step, Task, TaskPhase},
    record::{Entry, Millis, Record, Withdrawal},
    state::{Call, Phase, State, Status},
};
use std::sync::Arc;

use crate::number::InterruptionNo;

/// The version of the fold. Raise it whenever folding changes: a snapshot or waypoint of another version is not used.
pub const FOLD_VERSION: u32 = 10;

/// A position at which the session was consistent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Checkpoint {
    /// The position of the last append included.
    pub pos: u64,
    /// When that was appended.
    pub at: Millis,
    /// What led there: a short, stable name.
    pub after: &'static str,
    /// Who did that, if a person did and is known.
    pub by: Option<Arc<str>>,
    /// The session's status.
    pub status: Status,
    /// Its position in its graph.
    pub nodes: Vec<String>,
    /// The numbers of the interruptions that were pending.
    pub pending: Vec<InterruptionNo>,
}

impl Checkpoint {
    /// The checkpoint after an append that led to `state`; `None` if there is none.
    #[must_use]
    pub fn of(state: &State, entry: &Entry) -> Option<Checkpoint> {
        let led = leading(entry);
        is_checkpoint(state, entry).then(|| Checkpoint {
            pos: entry.pos,
            at: entry.at,
            after: led.map_or("", name),
            by: led.and_then(author).cloned(),
            status: state.status,
            nodes: graph::nodes(state),
            pending: state.pending(),
        })
    }
}

/// Whether there is a checkpoint after an append that led to `state`.
#[must_use]
pub fn is_checkpoint(state: &State, entry: &Entry) -> bool {
    is_whole(state) && !entry.is_progress()
}

/// What an append is named after in lists of checkpoints: the turn's end if it contains one, else its first record.
fn leading(entry: &Entry) -> Option<&Record> {
    let ends = |record: &&Record| matches!(record, Record::TurnEnded(_) | Record::TurnFailed(_));
    entry.records.iter().find(ends).or_else(|| entry.records.first())
}

/// Whether nothing is incomplete: no call without its verdict or its known result, no request still to be made, no
/// answer with only its beginning recorded.
#[must_use]
pub fn is_whole(state: &State) -> bool {
    let calls = || state.calls.iter().map(|call| &call.phase);
    if state.status == Status::Failed {
        // The rest of a failed turn follows when it is retried.
        return calls().all(|phase| *phase != Phase::Proposed);
    }
    // What a restored store may have run is asked about once a person continues the turn.
    let in_doubt = state.is_unknown_since_a_backup() && calls().any(|phase| *phase == Phase::Lost);
    let runs = state.calls.iter().any(Call::goes_on) || state.asking().next().is_some() || in_doubt;
    let active = state.status.is_active();
    let run = state.run.as_ref().filter(|_| active);
    // A run's end is recorded with its last task's, and its failure with the task's.
    if run.is_some_and(|run| run.failure().is_some() || (!run.agent_loop && run.frames.is_empty())) {
        return false;
    }
    // Its requests are withdrawn together with the record that ends it.
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
            Phase::Proposed | Phase::Settled(..) => false,
            Phase::Lost => in_doubt,
            // Requested once the calls that need no approval have run.
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

/// The name of a record in lists of checkpoints.
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
        | Record::AnswersDiscarded(_)
        | Record::CallsGated(_) => "answer",
        Record::Interrupted(_) => "asked",
        Record::Decided(_) | Record::Answered(_) => "decision",
        Record::TimedOut { .. } => "timeout",
        Record::Noted(_) => "approval_updated",
        Record::RuleRevoked(_) => "rule_revoked",
        Record::Renamed(_) => "renamed",
        Record::CallStarted { .. } | Record::AgentBegan(_) => "call_started",
        Record::HandedOff(_) => "handoff",
        Record::CallFinished(_) => "result",
        Record::CallLost { .. } => "outcome_unknown",
        Record::InputRequired(_) => "input",
        Record::CallOutdated { .. } => "tool_changed",
        Record::Status { .. } => "status",
        Record::Withdrawn { why: Withdrawal::TakenBack, .. } => "input",
        Record::Withdrawn { .. } | Record::TurnEnded(_) | Record::TurnFailed(_) => "end",
        Record::Forked(_) => "fork",
        Record::Restarted(_) => "restart",
        Record::ApprovalSent { .. } => "approval_sent",
        Record::ApprovalNotSent { .. } => "approval_not_sent",
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

/// The person whose input a record is.
fn author(record: &Record) -> Option<&Arc<str>> {
    match record {
        Record::UserMessage(said) | Record::MessageQueued(said) | Record::ReviewerSaid(said) => said.by.as_ref(),
        Record::Decided(decided) => decided.by.as_ref(),
        Record::Answered(answered) => answered.by.as_ref(),
        Record::Resumed(resumed) => resumed.by.as_ref(),
        Record::Noted(noted) => noted.by.as_ref(),
        Record::RuleRevoked(revoked) => revoked.by.as_ref(),
        Record::Renamed(renamed) => renamed.by.as_ref(),
        Record::Forked(forked) => forked.by.as_ref(),
        Record::RunStarted(run) => run.by.as_ref(),
        Record::Retried(retried) => retried.by.as_ref(),
        Record::StateEdited(edited) => edited.by.as_ref(),
        _ => None,
    }
}
