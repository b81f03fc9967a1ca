//! The state of a session: the fold of its records, and everything needed to continue it.
//!
//! The state holds what can still happen, never the conversation, so it stays small however long the session grows
//! (spec R10). It is a cache: folding the journal from the start gives the same state.
//!
//! Its parts are in the files of this folder, and for graphs in [`progress`](super::progress). How records change it is in
//! `apply.rs`, and in the file of each subject beside this one.

use std::{
    collections::{BTreeSet, VecDeque},
    sync::Arc,
};

use serde::{Deserialize, Serialize};

use super::{
    progress::GraphRun,
    record::{Action, Block, Cut, Failure, ForkedFrom, Millis, ModelResponded, Unshown, Usage, UserMessage},
};
use crate::{
    approval::{key::approval_key, rule::Rule},
    locale::Locale,
    number::{CallNo, InterruptionNo, RunNo, is_zero},
    todo::Todo,
};

pub mod answers;
pub mod input;
pub(super) mod parts;
mod speakers;
mod status;
pub mod window;

use self::{answers::AnswersByModel, window::Window};
pub use self::{
    parts::{Call, Deadline, Nested, Open, Phase, Shown},
    speakers::Speakers,
    status::Status,
};

/// The state of a session.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct State {
    /// The session.
    pub session_id: Arc<str>,
    /// Distinguishes it from every other session, whatever its name and store. Digests and idempotency keys derive from
    /// it.
    pub birth: Arc<str>,
    /// The position of the last append; 0 before the first.
    pub pos: u64,
    /// When the session was made.
    pub created_at: Millis,
    /// When the last record was appended.
    pub updated_at: Millis,
    /// The agent that answers.
    pub agent: Arc<str>,
    /// The language of the server's own texts.
    pub locale: Locale,
    /// The owner.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subject: Option<Arc<str>>,
    /// The owner's tenant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant: Option<Arc<str>>,
    /// The beginning of the first user message, or the graph that runs: the automatic title.
    #[serde(default, rename = "title", skip_serializing_if = "Option::is_none")]
    pub first_words: Option<Arc<str>>,
    /// The title that a person gave it (`Record::Renamed`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub given_title: Option<Arc<str>>,
    /// The status.
    pub status: Status,
    /// Why it has failed, if it has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<Arc<Failure>>,
    /// How many turns have begun.
    pub turns: u32,
    /// Model calls of the current turn.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub turn_calls: u32,
    /// How many of them gave an answer that was discarded.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub discarded_calls: u32,
    /// How often the turn has failed.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub failures: u32,
    /// The turn's model calls as raised by a retry, where that is more than its agent's limit.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub allowed_calls: u32,
    /// Answers so far, by model.
    pub answers: AnswersByModel,
    /// Tokens so far.
    #[serde(default, skip_serializing_if = "Usage::is_zero")]
    pub usage: Usage,
    /// Whether the latest answer has no calls, so that the turn can end.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub answered: bool,
    /// Why the latest answer is incomplete, if it is; once the turn has ended, for the answer that ended it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cut: Option<Cut>,
    /// The position of the latest answer; 0 before the first.
    pub answer_pos: u64,
    /// Calls so far.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub call_count: u32,
    /// The calls of the latest answer, in the model's order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub calls: Vec<Call>,
    /// Interruptions so far.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub interruptions: u32,
    /// The pending interruptions, oldest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub open: Vec<Open>,
    /// Roles that have ever been asked, whose holders may see the session (spec P1).
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub reviewers: BTreeSet<String>,
    /// The roles held by the user of the current turn.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub roles: Vec<String>,
    /// Who has spoken in the current turn.
    #[serde(default, skip_serializing_if = "Speakers::is_empty")]
    pub speakers: Speakers,
    /// Standing rules of this session alone, oldest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sticky: Vec<Rule>,
    /// Queued messages, oldest first.
    #[serde(default, skip_serializing_if = "VecDeque::is_empty")]
    pub queued: VecDeque<UserMessage>,
    /// How many messages have ever been queued: the number of the last one.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub queued_count: u32,
    /// Blocks of the coming answer that were already shown.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub shown: Vec<Block>,
    /// How many blocks at the end of the failed message belong to an answer that broke off.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub broken_off: u32,
    /// Events since the turn failed that followers have not been shown yet.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unshown: Vec<Arc<Unshown>>,
    /// The begun block of the coming answer that people see streamed, without its content.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub begun: Option<Block>,
    /// The agent's to-do list (spec Q6).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub todos: Vec<Todo>,
    /// The progress of its graph's run: in a graph's session, or in an agent's loop that has custom nodes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<Arc<GraphRun>>,
    /// The part of the conversation that models still read (spec G5).
    pub window: Window,
    /// Roughly how many bytes its records have: their texts, and a constant for each record.
    pub bytes: u64,
    /// The session and checkpoint that it was forked from, if it is a fork.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub forked_from: Option<ForkedFrom>,
    /// Held until a person resumes it: a fork, or a turn that ends processes (`Record::Restarted`).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub held: bool,
    /// How many processes in a row have resumed the turn without progress (`Record::Restarted`).
    #[serde(default, skip_serializing_if = "is_zero")]
    pub restarts: u32,
    /// The last hold is for a store that was restored from a backup (`Record::Restarted`).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub restored: bool,
    /// The application is known to have given no data, so no lookup is needed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub no_context: bool,
    /// The final output of the last turn, where that was a tool's result (spec S24).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<Arc<str>>,
    /// The running nested agents, in the order in which they began.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub nested: Vec<Nested>,
}

impl State {
    /// The state before the first append.
    #[must_use]
    pub fn new(session_id: Arc<str>) -> State {
        State { session_id, ..State::default() }
    }

    /// The number that the first call of an answer gets; 0 if the answer has no calls.
    pub(super) fn first_call(&self, answer: &ModelResponded) -> CallNo {
        let shown = if answer.run.is_root() { answer.shown as usize } else { 0 };
        let shown = self.shown.iter().rev().take(shown);
        let has_calls = shown.chain(&answer.blocks).any(|block| block.tool_use().is_some());
        if has_calls { CallNo::new(self.call_count.checked_add(1).unwrap_or_default()) } else { CallNo::NONE }
    }

    /// The number that the next interruption gets.
    pub(super) fn next_interruption(&self) -> InterruptionNo {
        InterruptionNo::new(self.interruptions + 1)
    }

    /// The call of this number, if it belongs to a latest answer.
    #[must_use]
    pub fn call(&self, number: CallNo) -> Option<&Call> {
        self.calls.iter().find(|call| call.call == number)
    }

    /// The same, to change it.
    pub(super) fn call_mut(&mut self, number: CallNo) -> Option<&mut Call> {
        self.calls.iter_mut().find(|call| call.call == number)
    }

    /// The call whose running attempt this is.
    pub(super) fn attempt(&self, number: CallNo, attempt: u32) -> Option<&Call> {
        self.call(number).filter(|call| call.phase == Phase::Started(attempt))
    }

    /// The call that a nested run works for.
    #[must_use]
    pub fn caller(&self, run: RunNo) -> Option<&Call> {
        self.calls.iter().find(|call| call.call.run() == run)
    }

    /// The numbers of the pending interruptions, oldest first.
    #[must_use]
    pub fn pending(&self) -> Vec<InterruptionNo> {
        self.open.iter().map(|open| open.asked.n).collect()
    }

    /// What is pending, oldest first.
    pub fn pending_actions(&self) -> impl Iterator<Item = &Action> {
        self.open.iter().flat_map(|open| &open.asked.actions)
    }

    /// The keys of the pending interruptions, oldest first.
    #[must_use]
    pub fn pending_keys(&self) -> Vec<String> {
        self.open.iter().map(|open| approval_key(&self.session_id, open.asked.n)).collect()
    }

    /// The pending interruption of this number.
    #[must_use]
    pub fn waiting(&self, n: InterruptionNo) -> Option<&Open> {
        self.open.iter().find(|open| open.asked.n == n)
    }
}
