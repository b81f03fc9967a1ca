//! Turns that have failed and go on: what their end took back is open again (spec S22).
//!
//! The end of a turn withdraws what waits and gives every open call a result. All of that was told, so it stays on
//! record. [`TurnReopened`] follows it and says what is open again: calls that were given up have no result any more,
//! and what waited is asked again, under new keys, since everybody was told that the old ones are over. Nothing that
//! had its result before is done again, and nothing that was decided is lost: only votes that did not end their
//! request are given again.
//!
//! [`TurnReopened`] says what is open again as a whole, so it folds without looking back, and reading a state checks it
//! against the journal.
//! - Requests get all of their time again, since nobody could decide meanwhile. Deferred ones keep their deadline,
//!   reassigned ones their person. The audit log says `reopened` of the old ones.
//! - What was approved stays approved. A call that ran when the turn failed is in doubt, as after a crash, unless it is
//!   idempotent.
//! - The turn continues in a new message of the stream, after `run_status: running`. What the model was writing when it
//!   failed is part of no conversation any more.
//! - A cancelled turn, and the past of a fork, is not reopened.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::{
    agents::Nested,
    draft::{Catalog, Draft, MessageInput, Transition},
    fits::{check_images, check_message},
    parts::{Call, Deadline, Open, Phase},
    record::{EndReason, Entry, HandedOff, Interrupted, Kind, Millis, Note, Noted, Record, TurnEnded, UserMessage},
    run::{GraphRun, Step},
    state::{State, Status},
};
use crate::refusal::Refusal;

/// See [`Record::TurnReopened`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TurnReopened {
    /// The calls of the latest answers, as they stand again. Those that waited for people do so by the records that follow.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub calls: Vec<Call>,
    /// The agents that work for calls of others.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub nested: Vec<Nested>,
    /// Whether the latest answer has no calls.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub answered: bool,
    /// Where an agent's loop that has nodes of the user's stands. What failed in it is tried again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<Arc<GraphRun>>,
}

/// A turn that has failed, as it stands again.
#[derive(Clone, Debug)]
pub struct Reopening {
    /// What is open again.
    pub reopened: TurnReopened,
    /// What waited for people when it failed, oldest first.
    pub asked: Vec<Open>,
}

impl Reopening {
    /// Of the session that these entries are, from the first. `None` if its last turn did not fail, or if something has
    /// begun since: another turn, or a fork, in which nothing counts that was decided before.
    #[must_use]
    pub fn of(session_id: &Arc<str>, entries: &[Arc<Entry>]) -> Option<Reopening> {
        let end = ending(entries)?;
        let mut state = State::new(session_id.clone());
        entries.iter().take(end).for_each(|entry| state.apply(entry));
        Reopening::at(state, entries.get(end)?)
    }

    /// The same, of the append in which the turn ended, and the state before that.
    #[must_use]
    pub fn at(mut state: State, end: &Entry) -> Option<Reopening> {
        let before = end.records.len().checked_sub(1 + failed_with(end)? as usize)?;
        state.begin(end.pos, end.at);
        end.records.iter().take(before).for_each(|record| state.take(record));
        Reopening::before(&state)
    }

    /// The same, of the state before its turn ended.
    fn before(state: &State) -> Option<Reopening> {
        let State { calls, nested, open, answered, run, .. } = state;
        let own_graph = run.as_ref().is_some_and(|run| !run.agent_loop);
        if !state.status.is_active() || own_graph || calls.iter().any(|call| call.phase == Phase::Proposed) {
            return None;
        }
        let kind = |n: u32| state.waiting(n).map(|open| open.asked.kind);
        let mut calls = calls.clone();
        for call in &mut calls {
            match &call.phase {
                Phase::Waiting(n) if kind(*n) == Some(Kind::InDoubt) => call.phase = Phase::Lost,
                Phase::Waiting(_) => call.phase = Phase::Gated,
                // Its result came with the end.
                Phase::Settled(..) => call.phase = Phase::Finished,
                _ => {}
            }
            for asked in call.input.iter_mut().flat_map(|input| &mut input.questions) {
                asked.n = asked.n.filter(|n| kind(*n).is_none());
            }
        }
        let run = run.as_ref().filter(|run| !run.frames.is_empty()).map(|run| Arc::new(loop_again(run, open)));
        let reopened = TurnReopened { calls, nested: nested.clone(), answered: *answered, run };
        Some(Reopening { reopened, asked: open.clone() })
    }
}

/// An agent's loop in which nothing is asked yet, and what failed is tried again.
fn loop_again(run: &GraphRun, open: &[Open]) -> GraphRun {
    let mut run = run.clone();
    for asked in open.iter().map(|open| &open.asked).filter(|asked| asked.kind != Kind::Input) {
        let Some((at, task)) = asked.at.as_ref().and_then(|at| Some((at, run.task(at.task)?))) else { continue };
        task.questions.retain(|_, question| question.n != asked.n);
        if asked.kind == Kind::InDoubt {
            task.steps.insert(at.question.clone(), Step::Started);
        }
    }
    run.retry();
    run
}

/// Where among the appends of a session its last turn ended, if that failed and nothing has begun since. What is said about
/// the session itself may follow it.
#[must_use]
pub fn ending(entries: &[Arc<Entry>]) -> Option<usize> {
    let beside =
        |record: &Record| matches!(record, Record::RuleRevoked(_) | Record::HandedOff(HandedOff { call: 0, .. }));
    let end = entries.iter().rposition(|entry| !entry.records.iter().all(beside))?;
    failed_with(&entries[end]).map(|_| end)
}

/// How many records of an append belong to the end of the turn beside its last one, if with that a turn failed.
fn failed_with(entry: &Entry) -> Option<u32> {
    let (Record::TurnEnded(ended), before) = entry.records.split_last()? else { return None };
    let TurnEnded { reason: EndReason::Error { .. } | EndReason::MaxTurns, with, .. } = &**ended else { return None };
    let is_part = |record: &Record| matches!(record, Record::Withdrawn { .. } | Record::CallFinished(_));
    let begin = before.len().checked_sub((*with)? as usize)?;
    before[begin..].iter().all(is_part).then_some((*with)?)
}

impl State {
    pub(super) fn turn_reopened(&mut self, reopened: &TurnReopened) {
        self.status = Status::Running;
        self.held = false;
        self.output = None;
        self.answered = reopened.answered;
        self.calls.clone_from(&reopened.calls);
        self.nested.clone_from(&reopened.nested);
        if let Some(run) = &reopened.run {
            self.run = Some(run.clone());
        }
    }

    /// Whether somebody is still to be asked about something.
    fn is_to_ask(&self) -> bool {
        self.calls.iter().any(|call| match call.phase {
            Phase::Gated | Phase::Lost => true,
            Phase::Asking => !call.is_asked(self),
            _ => false,
        })
    }
}

impl Draft {
    /// The turn goes on: what waited is asked again, exactly as it was. With a `catalog` also what nobody was asked about
    /// yet. What else follows by itself does when the turn is [settled](Draft::settled).
    pub fn reopen(mut self, reopening: Reopening, catalog: Option<&dyn Catalog>) -> Transition {
        self.push(Record::TurnReopened(Arc::new(reopening.reopened)));
        for open in &reopening.asked {
            self.ask_once_more(open);
        }
        if let Some(catalog) = catalog {
            self.ask(catalog);
        }
        if self.must_wait() && !self.state.is_to_ask() {
            let pending = self.state.open.iter().map(|open| open.asked.n).collect();
            self.push(Record::Status { pending, awaiting: true });
        }
        self.finish()
    }

    /// Takes what the user says before a turn goes on that nobody drives: if the model is to be asked, that is the next thing it
    /// hears. Else it is a [message](Draft::message).
    ///
    /// # Errors
    /// As [`Draft::message`].
    pub fn says_first(mut self, input: MessageInput, catalog: &dyn Catalog) -> Result<Transition, Refusal> {
        if self.state.held || !self.state.queued.is_empty() || !self.state.wants_answer(0) {
            return self.message(input, catalog);
        }
        check_message(&input.content, "content")?;
        check_images(&input.content, &self.state.agent, catalog)?;
        let MessageInput { content, by, roles, request_id, .. } = input;
        self.push(Record::UserMessage(UserMessage { content, by, roles, agent: None, request_id, queued: 0 }));
        Ok(self.settle(catalog))
    }

    /// Makes records once more that were made on this state before and are not stored: now. Whoever is asked in them has all of
    /// their time from now on; numbers and keys stay.
    pub fn again(mut self, made: &[Arc<Entry>]) -> Transition {
        for entry in made {
            for record in &entry.records {
                match record {
                    Record::Interrupted(asked) => {
                        self.ask_people(Interrupted { expires_at: self.due(asked), ..(**asked).clone() });
                    }
                    record => self.push(record.clone()),
                }
            }
            self.end_append();
        }
        self.finish()
    }

    /// The same people are asked the same, under a new key and with all of their time: while the turn was over nobody could
    /// decide. What was deferred keeps its deadline.
    fn ask_once_more(&mut self, open: &Open) {
        let n = self.state.interruptions + 1;
        let again = Interrupted { n, expires_at: self.due(&open.asked), ..(*open.asked).clone() };
        self.ask_people(again);
        if open.assignee.is_some() {
            let note = Note::Reassigned { role: None, subject: open.assignee.clone(), text: None };
            self.push(Record::Noted(Noted { n, note, by: None, request_id: None }));
        }
    }

    /// When the time is over of those who are asked now. What was deferred keeps its deadline.
    fn due(&self, asked: &Interrupted) -> Option<Millis> {
        let deadline = |call: u32| {
            let call = self.state.calls.iter().find(|found| found.call == call);
            call.filter(|_| matches!(asked.kind, Kind::Approval | Kind::Question)).map(|call| call.deadline)
        };
        let due = asked.actions.iter().filter_map(|action| match deadline(action.call).unwrap_or_default() {
            Deadline::Fresh => self.due_in(asked.kind, action.ask.timeout),
            Deadline::Never => None,
            Deadline::At(at) => Some(at),
        });
        due.min()
    }
}
