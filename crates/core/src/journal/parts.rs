//! The parts of a session's state: its calls, and what waits for people.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::{
    input::CallInput,
    outdated::Shown,
    record::{Action, CallStatus, Interrupted, Kind, Millis, after, is_zero},
};
use crate::call::{
    args::Args,
    display::Display,
    gate::{Ask, StoodIn, Target},
    preview::Preview,
    reviewer::Reviewer,
};

/// Where one call of the latest answer stands.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// Proposed by the model, verdict to follow in the same transaction.
    Proposed,
    /// Needs a person who is not asked yet, because ungated calls of the answer run first.
    Gated,
    /// Waits in the interruption of this number.
    Waiting(u32),
    /// May run.
    Permitted,
    /// This attempt was begun.
    Started(u32),
    /// A crash left its outcome unknown.
    Lost,
    /// It has asked something and waits for the answers.
    Asking,
    /// Another agent works for it.
    Delegated,
    /// Will not run (any more): its result is known but not yet recorded.
    Settled(CallStatus, String),
    /// Has its result.
    Finished,
}

/// One call of the latest answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Call {
    /// Its number in the session, from 1.
    pub call: u32,
    /// Its id in the model's words.
    pub id: Arc<str>,
    /// The agent that proposed it.
    pub agent: Arc<str>,
    /// The tool that runs: the model's, or the reviewer's after an edit.
    pub name: Arc<str>,
    /// The arguments it runs with; `None` if the model's could not be read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub args: Option<Args>,
    /// Where it stands.
    pub phase: Phase,
    /// How a person is asked about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ask: Option<Arc<Ask>>,
    /// Whether its verdict was a question (spec Q).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub question: bool,
    /// How it is shown.
    pub display: Display,
    /// Declared idempotent when it was gated.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub idempotent: bool,
    /// Attempts so far.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub attempts: u32,
    /// The level that decides next.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub level: u32,
    /// When it must be decided, once it is asked about.
    #[serde(default, skip_serializing_if = "Deadline::is_fresh")]
    pub deadline: Deadline,
    /// Who decides in place of the level's reviewer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instead: Option<Reviewer>,
    /// How many of those it escalates to have been asked.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub escalated: u32,
    /// Who has approved it at the levels so far.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub approved_by: Vec<Arc<str>>,
    /// Who changed it last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub edited_by: Option<Arc<str>>,
    /// Whether a standing rule decided about it in a person's place.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub by_rule: bool,
    /// What that let through.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stood_in: Option<Arc<StoodIn>>,
    /// In an agent's loop that has nodes of the user's: it was permitted when the loop last went on from the model's answer
    /// or from people's decisions, so every node since has stood before it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub cleared: bool,
    /// The call for which its agent works; 0: it is of the session's own agent.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub run: u32,
    /// The other agent that it is for, if it is for one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<Target>,
    /// Its agent may end with its result (spec S24).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub ends: bool,
    /// Its result, if its agent may end with that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<(CallStatus, Arc<str>)>,
    /// What a reviewer is shown of what it would do (spec S12).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub preview: Option<Preview>,
    /// What those who were last asked about it have seen of its tool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shown: Option<Shown>,
    /// What it has asked, and was told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input: Option<CallInput>,
}

impl Call {
    /// Whether it runs, or will without anybody's word. A handoff waits for the other calls of its answer.
    #[must_use]
    pub fn goes_on(&self) -> bool {
        match self.phase {
            Phase::Permitted => !matches!(self.target, Some(Target::Handoff(_))),
            Phase::Started(_) => true,
            _ => false,
        }
    }

    /// How a person is asked about it, or would have been if nothing had stood in their place.
    #[must_use]
    pub fn asks(&self) -> Option<&Ask> {
        self.ask.as_deref().or_else(|| self.stood_in.as_deref().map(|stood_in| &stood_in.ask))
    }

    /// Nothing stands in a person's place any more.
    pub(super) fn asks_after_all(&mut self) {
        if let Some(stood_in) = self.stood_in.take() {
            self.ask.get_or_insert_with(|| Arc::new(stood_in.ask.clone()));
        }
    }

    /// Asked about from the first level on.
    pub(super) fn restart_levels(&mut self) {
        self.level = 0;
        self.instead = None;
        self.escalated = 0;
    }
}

/// The deadline of a call that is to be asked about.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Deadline {
    /// Its timeout begins when it is asked.
    #[default]
    Fresh,
    /// It was deferred and waits for ever.
    Never,
    /// It was deferred and keeps this deadline.
    At(Millis),
}

impl Deadline {
    fn is_fresh(&self) -> bool {
        *self == Deadline::Fresh
    }
}

/// An interruption that waits for a person.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Open {
    /// What was asked.
    pub asked: Arc<Interrupted>,
    /// When.
    pub asked_at: Millis,
    /// Who has approved it so far, where more than one must.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub votes: Vec<Option<Arc<str>>>,
    /// The only person who may decide it, if it was handed to one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub assignee: Option<Arc<str>>,
    /// How often it was said again.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub reminded: u32,
    /// How many comments it has.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub comments: u32,
}

/// Who is asked when nobody has decided about a call in time.
pub(super) fn next_reviewer<'a>(call: &Call, action: &'a Action) -> Option<&'a Reviewer> {
    action.ask.escalate.get(call.escalated as usize)
}

impl Open {
    /// How many different people must approve it.
    #[must_use]
    pub fn quorum(&self) -> u32 {
        let quorum = self.asked.actions.iter().map(Action::quorum).max().unwrap_or(1);
        if matches!(self.asked.kind, Kind::Approval | Kind::InDoubt) { quorum } else { 1 }
    }

    /// When it is to be said again, if it is.
    #[must_use]
    pub fn next_reminder(&self) -> Option<Millis> {
        self.asked.reminder(self.asked_at, self.reminded)
    }
}

impl Interrupted {
    /// This reviewer decides it from now on.
    pub fn hand_to(&mut self, reviewer: &Reviewer) {
        for action in &mut self.actions {
            action.instead = Some(reviewer.clone());
        }
    }

    /// When it is to be said again after it was said `reminded` times, if it was asked at `asked_at`.
    #[must_use]
    pub fn reminder(&self, asked_at: Millis, reminded: u32) -> Option<Millis> {
        let mut seconds: Vec<u32> = self.actions.iter().flat_map(|action| &action.ask.reminders).copied().collect();
        seconds.sort_unstable();
        seconds.dedup();
        let at = after(asked_at, *seconds.get(reminded as usize)?);
        self.expires_at.is_none_or(|end| at < end).then_some(at)
    }
}

impl PartialEq for Interrupted {
    fn eq(&self, other: &Self) -> bool {
        self.n == other.n
            && self.kind == other.kind
            && self.actions == other.actions
            && self.expires_at == other.expires_at
            && self.content == other.content
            && self.at == other.at
            && self.clock == other.clock
    }
}
