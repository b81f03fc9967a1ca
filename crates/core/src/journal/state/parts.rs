//! The parts of a session's state: its calls and its pending interruptions.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::input::CallInput;
use crate::{
    approval::decision::EditedAction,
    call::{
        args::Args,
        display::Display,
        gate::{Ask, StoodIn, Target},
        preview::Preview,
        reviewer::Reviewer,
    },
    journal::{
        record::{Action, CallFinished, CallStatus, Interrupted, Millis, Record, after},
        schema::Words,
    },
    limits,
    locale::{Locale, Text},
    number::{CallNo, InterruptionNo, RunNo, is_zero},
    todo::{Todo, Todos},
};

/// The state of one call of the latest answer.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// Proposed by the model; its verdict follows in the same transaction.
    #[default]
    Proposed,
    /// Needs a person who is not asked yet, because ungated calls of the answer run first.
    Gated,
    /// Pending in the interruption of this number.
    Waiting(InterruptionNo),
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
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Call {
    /// Its number in the session, from 1.
    pub call: CallNo,
    /// Its id as the model wrote it.
    pub id: Arc<str>,
    /// The nonce of its answer ([`ModelResponded::nonce`](crate::journal::record::ModelResponded::nonce)). A call that a fork has copied has none: there the
    /// fork's own birth distinguishes it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nonce: Option<Arc<str>>,
    /// The agent that proposed it.
    pub agent: Arc<str>,
    /// The tool that runs: the model's, or the reviewer's after an edit.
    pub name: Arc<str>,
    /// The arguments it runs with; `None` if the model's could not be read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub args: Option<Args>,
    /// The state of the call.
    pub phase: Phase,
    /// How people are asked about it.
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
    /// The deadline of its decision, once it is asked about.
    #[serde(default, skip_serializing_if = "Deadline::is_fresh")]
    pub deadline: Deadline,
    /// Who decides in place of the level's reviewer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instead: Option<Reviewer>,
    /// The only person who may decide it, if it was reassigned to one who has deferred it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub assignee: Option<Arc<str>>,
    /// How many of its escalations have been used.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub escalated: u32,
    /// Who has approved it at the levels so far.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub approved_by: Vec<Arc<str>>,
    /// Who has changed it, each once.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub edited_by: Vec<Arc<str>>,
    /// Whether a standing rule, or the program, decided about it in a person's place.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub by_rule: bool,
    /// What that decision allowed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stood_in: Option<Arc<StoodIn>>,
    /// In an agent's loop that has custom nodes: as it is now, it was permitted when the loop last continued from the
    /// model's answer or from people's decisions, so it has passed every node since.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub cleared: bool,
    /// The run of the agent that made it.
    #[serde(default, skip_serializing_if = "RunNo::is_root")]
    pub run: RunNo,
    /// The agent that it targets, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<Target>,
    /// Its agent may end with its result (spec S24).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub ends: bool,
    /// Its result, if its agent may end with that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<(CallStatus, Arc<str>)>,
    /// The preview shown to its reviewers (spec S12).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub preview: Option<Preview>,
    /// The tool as its latest reviewers have seen it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shown: Option<Shown>,
    /// Its questions and their answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input: Option<Box<CallInput>>,
}

impl Call {
    /// Whether it runs, or will run without a decision. A handoff waits for the other calls of its answer.
    #[must_use]
    pub fn goes_on(&self) -> bool {
        match self.phase {
            Phase::Permitted => !matches!(self.target, Some(Target::Handoff(_))),
            Phase::Started(_) => true,
            _ => false,
        }
    }

    /// How people are asked about it, or would be if no rule or program had decided in their place.
    #[must_use]
    pub fn asks(&self) -> Option<&Ask> {
        self.ask.as_deref().or_else(|| self.stood_in.as_deref().map(|stood_in| &stood_in.ask))
    }

    /// Drops the decision that replaced a person's.
    pub(in crate::journal) fn asks_after_all(&mut self) {
        if let Some(stood_in) = self.stood_in.take() {
            self.ask.get_or_insert_with(|| Arc::new(stood_in.ask.clone()));
        }
    }

    /// These people have approved it as this action, at the action's level.
    pub(in crate::journal) fn approved(&mut self, action: &Action, people: &[Arc<str>]) -> Phase {
        self.approved_by.extend(people.iter().cloned());
        if action.ask.is_last(action.level) {
            return Phase::Permitted;
        }
        self.restart_levels();
        self.level = action.level + 1;
        self.deadline = Deadline::Fresh;
        Phase::Gated
    }

    /// A reviewer has changed it, and from now on it is asked about like this.
    ///
    /// An edit at the first level approves what will run, which its reviewer has seen, if one approval is enough. What the
    /// first level has not seen goes back to it; and where requesters may not approve, an edit makes its author a
    /// requester of the edited call. `tool` is the digest of the tool that it has become, if it was another.
    pub(in crate::journal) fn edited(
        &mut self,
        action: &Action,
        (to, tool): (&EditedAction, Option<&Arc<str>>),
        ask: Ask,
        by: Option<&Arc<str>>,
    ) -> Phase {
        self.changed(to, by);
        if let Some(digest) = tool {
            self.shown = Some(Shown { tool: self.name.clone(), digest: digest.clone() });
        }
        self.deadline = Deadline::Fresh;
        self.approved_by.clear();
        self.restart_levels();
        let counts = action.edit_approves(&ask);
        let last = ask.is_last(0);
        self.ask = Some(Arc::new(ask));
        if !counts {
            return Phase::Gated;
        }
        self.approved_by.extend(by.cloned());
        if last {
            return Phase::Permitted;
        }
        self.level = 1;
        Phase::Gated
    }

    /// The call is this from now on. Others' changes may still be in it, so they stay its editors.
    pub(in crate::journal) fn changed(&mut self, to: &EditedAction, by: Option<&Arc<str>>) {
        if *self.name != *to.name {
            // Nobody has been shown this tool yet.
            self.shown = None;
        }
        self.name = Arc::from(to.name.as_str());
        self.args = Some(to.args.clone());
        self.cleared = false;
        self.display.edited();
        let new = by.filter(|by| !self.edited_by.contains(by)).cloned();
        self.edited_by.extend(new);
    }

    /// It is asked about from the first level again.
    pub(in crate::journal) fn restart_levels(&mut self) {
        self.level = 0;
        self.instead = None;
        self.assignee = None;
        self.escalated = 0;
    }
}

/// The tool of a call as its reviewers have seen it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shown {
    /// The tool.
    pub tool: Arc<str>,
    /// The digest of its description, its schema and its source; empty if not all levels have seen the same.
    pub digest: Arc<str>,
}

impl Shown {
    pub(in crate::journal) fn of(action: &Action) -> Shown {
        let digest = Words::digest(action.description.as_ref(), action.schema.as_deref(), action.source.as_ref());
        Shown { tool: action.name.clone(), digest }
    }
}

/// The deadline of a call about which people will be asked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Deadline {
    /// Its timeout begins when it is asked.
    #[default]
    Fresh,
    /// It was deferred without a deadline.
    Never,
    /// It was deferred and keeps this deadline.
    At(Millis),
}

impl Deadline {
    fn is_fresh(&self) -> bool {
        *self == Deadline::Fresh
    }
}

/// A pending interruption.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Open {
    /// What was asked.
    pub asked: Arc<Interrupted>,
    /// When it was asked.
    pub asked_at: Millis,
    /// Who has approved it so far, where it has a quorum.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub votes: Vec<Option<Arc<str>>>,
    /// The only person who may decide it, if it was reassigned to one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub assignee: Option<Arc<str>>,
    /// How many of its reminders have come due; those missed while nothing ran count too, though they were sent as one.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub reminded: u32,
    /// How many comments and reassignments it has.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub comments: u32,
}

/// An agent that works for another agent's call.
///
/// Calls and interruptions of every run are in the session's lists, by [`RunNo`](crate::number::RunNo); here is what each nested
/// run has of its own, and it goes with its call. The session's own run is not an entry of this list: it never goes, and what it has
/// besides (shown blocks, the queue, the window, retries, nodes of its own) no nested run can have.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Nested {
    /// The call it works for, which identifies the run.
    pub call: CallNo,
    /// The agent that answers in it.
    pub agent: Arc<str>,
    /// Its model calls.
    pub turn_calls: u32,
    /// The position of the append that began it.
    pub began: u64,
    /// It has given its last answer, which is the call's result.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub answered: bool,
}

/// The next reviewer when a call's deadline expires.
pub(in crate::journal) fn next_reviewer<'a>(call: &Call, action: &'a Action) -> Option<&'a Reviewer> {
    action.ask.escalate.get(call.escalated as usize)
}

impl Open {
    /// How many different people must approve it.
    #[must_use]
    pub fn quorum(&self) -> u32 {
        let quorum = self.asked.actions.iter().map(Action::quorum).max().unwrap_or(1);
        if self.asked.kind.takes_votes() { quorum } else { 1 }
    }

    /// The time of the next reminder, if there is one.
    #[must_use]
    pub fn next_reminder(&self) -> Option<Millis> {
        self.asked.reminder(self.asked_at, self.reminded)
    }
}

impl Interrupted {
    /// Reassigns it to this reviewer.
    pub fn hand_to(&mut self, reviewer: &Reviewer) {
        for action in &mut self.actions {
            action.instead = Some(reviewer.clone());
        }
    }

    /// The time of the next reminder after `reminded` of them, if it was asked at `asked_at`.
    #[must_use]
    pub fn reminder(&self, asked_at: Millis, reminded: u32) -> Option<Millis> {
        let mut seconds: Vec<u32> = self.actions.iter().flat_map(|action| &action.ask.reminders).copied().collect();
        seconds.sort_unstable();
        seconds.dedup();
        let at = after(asked_at, *seconds.get(reminded as usize)?);
        self.expires_at.is_none_or(|end| at < end).then_some(at)
    }
}

/// The record of a result, truncated to [`limits::RESULT_BYTES`].
pub(in crate::journal) fn finished(
    call: &Call,
    status: CallStatus,
    output: &str,
    todos: Option<Vec<Todo>>,
    locale: Locale,
) -> Record {
    let output = if output.len() > limits::RESULT_BYTES {
        let end = output.floor_char_boundary(limits::RESULT_BYTES);
        let (bytes, kept) = (output.len().to_string(), end.to_string());
        let note = locale.fill(Text::ResultCut, &[("bytes", &bytes), ("kept", &kept)]);
        format!("{}\n{note}", &output[..end])
    } else {
        output.to_owned()
    };
    Record::CallFinished(CallFinished {
        call: call.call,
        tool_use_id: call.id.clone(),
        name: call.name.clone(),
        status,
        output,
        hidden: !call.display.stream.stream_tool_result,
        display_as_content: call.display.stream.display_as_content,
        todos,
        run: call.run,
    })
}

/// The list that a call of `write_todos` wrote.
pub(in crate::journal) fn todos(call: &Call) -> Option<Vec<Todo>> {
    let written: Todos = serde_json::from_str(call.args.as_ref()?.text()).ok()?;
    Some(written.todos)
}
