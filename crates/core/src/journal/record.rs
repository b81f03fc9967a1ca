//! The appends a session is made of, and the records in them.
//!
//! An append is the atom of a journal: the effect of one input on the session, stored whole or not at all. Every append
//! therefore leads to a consistent state, which is a [checkpoint](super::checkpoint).
//!
//! A record is self-contained: it expands to wire events and folds into history without the records before it, so a
//! replay can begin at any append (spec W2). An optional field carries meaning by its absence; all other fields are in
//! every record.
//!
//! What each record holds is in the files of this folder, by subject, and for graphs in [`run`](super::run). They know nothing of
//! the state that records fold to, nor of the transitions that make them: those are in the files beside this one.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::{
    cursor::Cursor,
    request_id::RequestId,
    run::{FrameBegan, FrameState, Raw, Resumed, RunStarted, StateEdited, TaskFailed, TasksDone},
};
use crate::{
    call::{
        gate::{Gate, Target},
        reviewer::Reviewer,
    },
    locale::Locale,
    number::{CallNo, InterruptionNo, TaskNo},
};

mod agents;
mod answer;
mod asked;
pub mod block;
mod call;
mod compression;
mod decided;
mod failure;
mod fork;
pub mod input;
mod restart;
mod turn;

pub use self::{
    agents::{AgentBegan, HandedOff},
    answer::{AnswersDiscarded, ModelResponded, Usage},
    asked::{Action, Interrupted, Kind, PathStep},
    block::{Block, Cut, ToolUse},
    call::{CallFinished, CallStatus, Loss},
    compression::{Compressed, MakeRoom},
    decided::{Answered, Decided, Note, Noted, RuleRevoked, Withdrawal},
    failure::{Failure, Retried, TurnFailed, Unshown, Why},
    fork::{Forked, ForkedFrom, Judged},
    input::{InputQuestion, InputRequired},
    restart::{Held, Hold, Restart, Restarted},
    turn::{EndReason, TurnEnded, UserMessage},
};
pub use super::schema::Schema;
pub use crate::time::Millis;

/// `at` plus `seconds`, saturating at the largest time.
#[must_use]
pub fn after(at: Millis, seconds: u32) -> Millis {
    at.saturating_add(Millis::from(seconds) * 1000)
}

/// [`Entry::via`] of a program that had opened the store itself, such as `countersign chat`, and trusted its caller to
/// say who acts. No server authenticated that person.
pub const VIA_STORE: &str = "store";

/// One append at its position in a session's journal: the effect of one input on the session.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Entry {
    /// Position in the session, from 1 without gaps. Stores keep it beside the body.
    #[serde(skip)]
    pub pos: u64,
    /// When it was appended.
    #[serde(rename = "t")]
    pub at: Millis,
    /// How it entered the store, if that is stated: [`VIA_STORE`]. The audit log states it too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub via: Option<Arc<str>>,
    /// The wire position before this append, so that it can be expanded on its own.
    #[serde(rename = "c")]
    pub cursor: Cursor,
    /// What happened, in order; at least one record. The first is the input, the others follow from it.
    #[serde(rename = "r")]
    pub records: Vec<Record>,
}

impl Entry {
    /// The lowest [`FORMAT`] of the builds that know all of it: its records, and what is stored beside them.
    #[must_use]
    pub fn format(&self) -> u32 {
        self.records.iter().map(Record::format).max().unwrap_or(1)
    }

    /// Whether it only records the part of an unfinished answer that people have already seen; not a step of the
    /// session.
    #[must_use]
    pub fn is_progress(&self) -> bool {
        let progress =
            |record: &Record| matches!(record, Record::BlockBegan(_) | Record::BlockShown(_) | Record::Replaced { .. });
        self.records.iter().all(progress)
    }
}

/// The records of appends, in order.
pub fn records(entries: &[Arc<Entry>]) -> impl DoubleEndedIterator<Item = &Record> {
    entries.iter().flat_map(|entry| &entry.records)
}

/// The format of entries that this build knows. Anything in an entry that an earlier build would not know, or would
/// misread, raises it and gets the new number in [`Entry::format`]: stores keep the highest of each session, and builds
/// leave alone the sessions that they do not fully know.
pub const FORMAT: u32 = 1;

/// What happened in a session.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Record {
    /// The session was created. Always the first record.
    SessionCreated(SessionCreated),
    /// A user's message reached the conversation.
    UserMessage(UserMessage),
    /// A user's message is queued until the turn can take it (`on_pending: queue`).
    MessageQueued(UserMessage),
    /// A reviewer's message with a decision while the turn had failed. It belongs to that turn, whose model reads it
    /// after the retry.
    ReviewerSaid(UserMessage),
    /// The model begins a block of its answer, which people see streamed from now on. Its content comes with the record
    /// that closes it: the next [`Record::BlockShown`], the first block of [`Record::ModelResponded`],
    /// [`TurnEnded::partial`], or [`TurnFailed::partial`].
    BlockBegan(Block),
    /// A block of the model's answer, complete or partial, that followers see before the answer is complete.
    BlockShown(Block),
    /// Blocks shown of an interrupted answer are not part of the conversation: the model has answered differently
    /// since.
    Replaced {
        /// How many of the latest blocks in the stream are replaced.
        blocks: u32,
    },
    /// The model's answer is complete.
    ModelResponded(ModelResponded),
    /// A model has given answers that do not become part of the conversation, such as one that a guardrail stops or
    /// that does not fit the agent's output schema. They count like any other.
    AnswersDiscarded(AnswersDiscarded),
    /// The verdicts on the calls of the answer just before, in the same order.
    CallsGated(Vec<Gate>),
    /// A person is asked.
    Interrupted(Arc<Interrupted>),
    /// A person decided: with one vote of a quorum, or finally.
    Decided(Box<Decided>),
    /// The user answered the questions.
    Answered(Answered),
    /// The deadline expired first.
    TimedOut {
        /// The interruption's number.
        n: InterruptionNo,
        /// The reviewers it escalates to; empty if the pending actions are rejected.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        escalated: Vec<Reviewer>,
    },
    /// A comment on, or a change to, an interruption that stays pending.
    Noted(Noted),
    /// A standing rule was revoked.
    RuleRevoked(RuleRevoked),
    /// A person gave the session a title, or its automatic one back.
    Renamed(Renamed),
    /// The interruption ended without an answer.
    Withdrawn {
        /// The interruption's number.
        n: InterruptionNo,
        /// Who cancelled.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        by: Option<Arc<str>>,
        /// Why.
        why: Withdrawal,
    },
    /// An attempt of a call is about to begin. Stored before the effect (spec R4).
    CallStarted {
        /// The call's number.
        call: CallNo,
        /// From 1.
        attempt: u32,
    },
    /// Another agent begins to work for a call.
    AgentBegan(AgentBegan),
    /// Another agent answers from now on.
    HandedOff(HandedOff),
    /// An attempt of a call has ended with questions in place of a result (spec S13).
    InputRequired(Arc<InputRequired>),
    /// A call has its result.
    CallFinished(CallFinished),
    /// An allowed call does not begin: the description or schema of its tool differs from what its reviewers saw, or it
    /// now targets another agent. It is requested again (spec S13).
    CallOutdated {
        /// The call's number.
        call: CallNo,
        /// The agent that it targets now, if any.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        target: Option<Target>,
    },
    /// The outcome of a started call is unknown: after a crash, or because the tool no longer knows its questions (spec
    /// R4).
    CallLost {
        /// The call's number.
        call: CallNo,
        /// Why.
        why: Loss,
    },
    /// The turn continues, or waits for these interruptions.
    Status {
        /// The numbers of the pending interruptions; empty while running.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        pending: Vec<InterruptionNo>,
        /// Whether the turn is blocked until one of them is resolved.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        awaiting: bool,
        /// The turn is held, and stays so: nobody has continued it. Absent: it is held no longer.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        hold: Option<Hold>,
    },
    /// A run of a graph begins.
    RunStarted(Box<RunStarted>),
    /// A graph inside the run begins, or an agent's loop that has custom nodes.
    FrameBegan(Box<FrameBegan>),
    /// Tasks of a round have their results, and the next round may begin.
    TasksDone(TasksDone),
    /// A task failed, until a retry.
    TaskFailed(TaskFailed),
    /// A resumed task waits again, for its earlier questions.
    TaskWaits {
        /// The task.
        task: TaskNo,
        /// It has been answered meanwhile, so it resumes at once.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        answered: bool,
    },
    /// A step of a task is about to begin. Stored before the effect.
    StepStarted {
        /// The task.
        task: TaskNo,
        /// The step's name in its node.
        step: Arc<str>,
    },
    /// A step has ended.
    StepDone {
        /// The task.
        task: TaskNo,
        /// The step's name in its node.
        step: Arc<str>,
        /// Its result; absent if it failed and may be retried.
        #[serde(default, deserialize_with = "super::run::given", skip_serializing_if = "Option::is_none")]
        value: Option<Raw>,
    },
    /// A person answered a graph's question.
    Resumed(Resumed),
    /// A person changed the state of a graph.
    StateEdited(StateEdited),
    /// The states of all frames, so that a fold can begin here.
    States(Vec<FrameState>),
    /// The approval of these calls is about to be sent to the model's provider, which alone can make them. It may have
    /// made them from here on, so the approval is sent again only after [`Record::ApprovalNotSent`].
    ApprovalSent {
        /// Their numbers.
        calls: Vec<CallNo>,
    },
    /// Each request with the approvals of these calls was refused outright, or reached nobody: the provider has no
    /// approval after all, and a retry sends it.
    ApprovalNotSent {
        /// Their numbers.
        calls: Vec<CallNo>,
    },
    /// The turn has ended.
    TurnEnded(Box<TurnEnded>),
    /// The turn has failed. Requests stay pending, and nothing is executed before a retry.
    TurnFailed(Box<TurnFailed>),
    /// The failed turn, or the failed run of a graph, continues.
    Retried(Arc<Retried>),
    /// The next model call would exceed the agent's `context_tokens`: earlier conversation must be compressed first (spec G5).
    MakeRoom(MakeRoom),
    /// Models no longer read the earlier conversation; a summary may replace it (spec G5).
    Compressed(Compressed),
    /// A process has resumed the turn after another one ended in the middle of it, or holds it.
    Restarted(Restarted),
    /// The appends before this record's were copied from the session that this one is a fork of.
    Forked(Arc<Forked>),
}

/// See [`Record::SessionCreated`].
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct SessionCreated {
    /// The agent that answers.
    pub agent: Arc<str>,
    /// The language of the server's own texts.
    pub locale: Locale,
    /// Who the session belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subject: Option<Arc<str>>,
    /// The creator's tenant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant: Option<Arc<str>>,
    /// The application's own data, a JSON object.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context: Option<Box<RawValue>>,
    /// Random; distinguishes it from every other session, whatever its name and store.
    pub birth: Arc<str>,
}

/// See [`Record::Renamed`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Renamed {
    /// The title; absent: the automatic one again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<Arc<str>>,
    /// Who gave it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<Arc<str>>,
}

impl Record {
    /// The lowest [`FORMAT`] of the builds that know it.
    #[must_use]
    pub fn format(&self) -> u32 {
        1
    }

    /// The first visible block of the session's own model: it closes the one that has begun.
    #[must_use]
    pub fn first_block(&self) -> Option<&Block> {
        match self {
            Record::BlockShown(block) => Some(block),
            Record::ModelResponded(answer) if answer.run.is_root() => answer.blocks.first(),
            Record::TurnEnded(ended) => ended.partial.as_ref(),
            Record::TurnFailed(failed) => failed.partial.as_ref(),
            _ => None,
        }
    }

    /// The `request_id` that this record acknowledges, if any (spec W1).
    #[must_use]
    pub fn request_id(&self) -> Option<&RequestId> {
        match self {
            Record::UserMessage(m) | Record::MessageQueued(m) => m.request_id.as_ref(),
            Record::Decided(d) => d.request_id.as_ref(),
            Record::Answered(a) => a.request_id.as_ref(),
            Record::Noted(n) => n.request_id.as_ref(),
            Record::RunStarted(run) => run.request_id.as_ref(),
            Record::Resumed(resumed) => resumed.request_id.as_ref(),
            Record::Retried(retried) => retried.request_id.as_ref(),
            Record::StateEdited(edited) => edited.request_id.as_ref(),
            Record::TurnEnded(t) => t.request_id.as_ref(),
            Record::Forked(f) => f.request_id.as_ref(),
            _ => None,
        }
    }
}
