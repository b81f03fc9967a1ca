//! Transitions: the effect of an input on a session, as appends that are stored together or not at all. The beginning of
//! a turn has its own append, and so have the creation of a session and what follows from an input in each
//! step (`step.rs`).
//!
//! Each input is checked against the state, then becomes records; `Draft::settle` adds the consequences (results of
//! refused calls, interruptions, the end of the turn). Nothing has happened until the transition is stored and
//! [committed](crate::session::Placed::commit); only then do permits exist.

use std::{collections::BTreeSet, sync::Arc};

pub use super::{
    catalog::{CallResult, Catalog, ContextLimit, ToolFacts, ToolKind},
    message::{MessageInput, OnPending},
};
use super::{
    cursor::Cursor,
    illegal::Illegal,
    record::{
        Answered, Block, Decided, Entry, Kind, Loss, Millis, ModelResponded, Note, Noted, Record, RuleRevoked,
        SessionCreated, Withdrawal, block::text_of, records,
    },
    state::{Call, Open, Phase, State, parts::next_reviewer},
};
use crate::{
    approval::rule::RuleId,
    call::{gate::Gate, reviewer::Reviewer},
    locale::Text,
    number::{CallNo, InterruptionNo},
};

/// Records in the making, and the state they lead to.
#[derive(Debug)]
pub struct Draft {
    pub(super) state: Arc<State>,
    /// The appends that are complete, not yet placed in the event stream.
    entries: Vec<Arc<Entry>>,
    /// The records of the open append so far.
    pub(super) records: Vec<Record>,
    pub(super) started: Vec<CallNo>,
    /// The first rule of journals that they break: then they must not be stored.
    illegal: Option<Illegal>,
    /// The clock's time, from which deadlines are counted.
    pub(super) now: Millis,
}

/// An append, not yet placed in the event stream; or several: see the module.
#[derive(Debug)]
#[must_use = "a transition does nothing until it is placed, stored and committed"]
pub struct Transition {
    state: Arc<State>,
    entries: Vec<Arc<Entry>>,
    started: Vec<CallNo>,
    illegal: Option<Illegal>,
}

/// The state after a transition, its entries, and the calls that it starts.
type Parts = (Arc<State>, Vec<Arc<Entry>>, Vec<CallNo>);

impl Transition {
    /// Its records, in order; none, if nothing follows from the input.
    pub fn records(&self) -> impl DoubleEndedIterator<Item = &Record> {
        records(&self.entries)
    }

    /// Whether nothing follows from the input.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// How many appends it has, and how many calls it starts, if it is legal.
    pub(super) fn extent(&self) -> Option<(usize, usize)> {
        self.illegal.is_none().then_some((self.entries.len(), self.started.len()))
    }

    /// This transition, unless it has become illegal after a legal beginning: then that beginning alone, folded again
    /// from the state `before` it. One without such a beginning is returned as it is.
    pub(super) fn or_only(self, before: &State, extent: Option<(usize, usize)>) -> Result<Transition, Transition> {
        let Some((entries, started)) = extent.filter(|(entries, _)| *entries > 0 && self.illegal.is_some()) else {
            return Ok(self);
        };
        let mut state = before.clone();
        let entries: Vec<_> = self.entries.into_iter().take(entries).collect();
        let illegal = entries.iter().find_map(|entry| state.append(entry).err());
        let started = self.started.into_iter().take(started).collect();
        Err(Transition { state: Arc::new(state), entries, started, illegal })
    }

    /// Whether it starts calls.
    #[must_use]
    pub fn starts_calls(&self) -> bool {
        !self.started.is_empty()
    }

    /// Records that were made outside the store, and the state they lead to. They come next in the store, and give no
    /// permits.
    pub fn made(state: Arc<State>, entries: Vec<Arc<Entry>>) -> Transition {
        Transition { state, entries, started: Vec::new(), illegal: None }
    }

    /// The state after them.
    #[must_use]
    pub fn state(&self) -> &Arc<State> {
        &self.state
    }

    /// Adds a transition made from the state after this one.
    pub fn add(&mut self, next: Transition) {
        self.entries.extend(next.entries);
        self.started.extend(next.started);
        self.illegal = self.illegal.or(next.illegal);
        self.state = next.state;
    }

    /// What it consists of.
    ///
    /// # Errors
    /// The rule of journals that it breaks.
    pub(crate) fn into_parts(self) -> Result<Parts, Illegal> {
        self.illegal.map_or(Ok((self.state, self.entries, self.started)), Err)
    }
}

impl Draft {
    /// Begins a transition at `now`, by the clock.
    #[must_use]
    pub fn new(state: &State, now: Millis) -> Draft {
        Draft::of(Arc::new(state.clone()), now)
    }

    /// The same from a shared state, which is copied only when something happens.
    #[must_use]
    pub fn of(state: Arc<State>, now: Millis) -> Draft {
        Draft::after(Transition::made(state, Vec::new()), now)
    }

    /// Continues after a transition that is not stored yet, at `now`: what follows is stored with it.
    #[must_use]
    pub fn after(made: Transition, now: Millis) -> Draft {
        let Transition { state, entries, started, illegal } = made;
        Draft { now, state, entries, records: Vec::new(), started, illegal }
    }

    /// The times of records never run backwards within a session, whatever the clock does. They only order records:
    /// deadlines use the clock.
    pub(crate) fn push(&mut self, record: Record) {
        let state = Arc::make_mut(&mut self.state);
        if self.records.is_empty() {
            state.begin(state.pos + 1, self.now.max(state.updated_at));
        }
        if self.illegal.is_none() {
            self.illegal = state.may_come(self.records.first(), &record).err();
        }
        state.take(&record);
        if self.records.is_empty() {
            // Most appends have one.
            self.records.reserve_exact(1);
        }
        self.records.push(record);
    }

    /// Creates the session, in a separate append, so that there is a checkpoint before its first message, from which a
    /// fork may begin with another.
    pub fn create(&mut self, created: SessionCreated) {
        self.push(Record::SessionCreated(created));
        self.end_append();
    }

    /// Takes a decision that [`crate::decide::resolve::decide`] has checked and filled in.
    pub(crate) fn decided(
        mut self,
        decided: Decided,
        user_edit_content: Option<Arc<str>>,
        catalog: &dyn Catalog,
    ) -> Transition {
        let (n, last, by) = (decided.n, decided.last, decided.by.clone());
        self.push(Record::Decided(Box::new(decided)));
        if !last && let Some(open) = self.state.waiting(n) {
            let approved = u32::try_from(open.votes.len()).unwrap_or(u32::MAX);
            let quorum = open.quorum();
            let note = Note::Approved { approved, quorum };
            self.push(Record::Noted(Noted { n, note, by: by.clone(), request_id: None }));
        }
        self.reviewer_said(user_edit_content, by);
        self.settled(catalog)
    }

    /// Takes answers that [`crate::decide::resolve::decide`] has checked and filled in.
    pub(crate) fn answered(
        mut self,
        answered: Answered,
        user_edit_content: Option<Arc<str>>,
        catalog: &dyn Catalog,
    ) -> Transition {
        let by = answered.by.clone();
        self.push(Record::Answered(answered));
        self.reviewer_said(user_edit_content, by);
        self.settled(catalog)
    }

    /// Records that the approval of these calls is about to be sent to the model's provider; see
    /// [`Record::ApprovalSent`].
    pub fn approval_sent(&mut self, calls: Vec<CallNo>) {
        self.push(Record::ApprovalSent { calls });
    }

    /// Records that it was not sent after all; see [`Record::ApprovalNotSent`].
    pub fn approval_not_sent(&mut self, calls: Vec<CallNo>) {
        self.push(Record::ApprovalNotSent { calls });
    }

    /// Times out interruption `n`. `None` if it is not pending or not due (spec W7, R6).
    #[must_use]
    pub fn time_out(mut self, n: InterruptionNo, catalog: &dyn Catalog) -> Option<Transition> {
        let asked = self.state.waiting(n)?.asked.clone();
        if self.now < asked.expires_at? {
            return None;
        }
        let mut escalated: Vec<Reviewer> = Vec::new();
        for action in &asked.actions {
            if let Some(reviewer) = self.state.call(action.call).and_then(|call| next_reviewer(call, action))
                && !escalated.contains(reviewer)
            {
                escalated.push(reviewer.clone());
            }
        }
        self.push(Record::TimedOut { n, escalated });
        for action in asked.actions.iter().filter(|_| asked.kind == Kind::Input) {
            if self.state.call(action.call).is_some_and(|call| call.phase != Phase::Asking) {
                self.withdraw_inputs(action.call);
            }
        }
        Some(self.settled(catalog))
    }

    /// Withdraws the question `n` of a call, which its tool has taken back: the call continues. `None` if it is not
    /// pending, or not such a question (spec S13).
    #[must_use]
    pub fn unask(mut self, n: InterruptionNo, catalog: &dyn Catalog) -> Option<Transition> {
        self.state.waiting(n)?.asked.input_default()?;
        self.push(Record::Withdrawn { n, by: None, why: Withdrawal::TakenBack });
        Some(self.settled(catalog))
    }

    /// Withdraws the question `n` of a call whose attempt was given up: an answer would reach nobody, so the call's
    /// outcome is unknown. `None` if it is not pending, or the call may begin again with the answer (spec S13, R4).
    #[must_use]
    pub fn given_up(mut self, n: InterruptionNo, catalog: &dyn Catalog) -> Option<Transition> {
        let asked = self.state.waiting(n)?.asked.clone();
        let call = self.state.call(asked.actions.first()?.call)?;
        if call.phase != Phase::Asking || !call.is_live() || call.may_repeat(catalog) {
            return None;
        }
        let call = call.call;
        self.withdraw_inputs(call);
        // Nobody has answered it, so it was not lost for an answer that cannot reach it.
        self.push(Record::CallLost { call, why: Loss::Interrupted });
        Some(self.settled(catalog))
    }

    /// Records a reminder of interruption `n`. `None` if it is not pending, or not yet due.
    #[must_use]
    pub fn remind(mut self, n: InterruptionNo) -> Option<Transition> {
        let open = self.state.waiting(n)?;
        if self.now < open.next_reminder()? {
            return None;
        }
        // Reminders missed while nothing ran are sent once.
        let mut reminded = open.reminded;
        let next = loop {
            reminded += 1;
            match open.asked.reminder(open.asked_at, reminded) {
                Some(at) if at <= self.now => {}
                next => break next,
            }
        };
        self.push(Record::Noted(Noted {
            n,
            note: Note::Reminded { next, count: reminded },
            by: None,
            request_id: None,
        }));
        Some(self.finish())
    }

    /// Takes a note that [`crate::decide::note::note`] has checked.
    pub(crate) fn noted(mut self, noted: Noted) -> Transition {
        self.push(Record::Noted(noted));
        self.finish()
    }

    /// Revokes standing rules that this session made. The caller knows that they are in force.
    pub fn revoke(mut self, rules: &[RuleId], by: Option<&Arc<str>>) -> Transition {
        for &rule in rules {
            self.push(Record::RuleRevoked(RuleRevoked { rule, by: by.cloned() }));
        }
        self.finish()
    }

    /// Followers see the model write this block from now on. A block already begun in the same way stays open.
    pub fn block_began(mut self, block: &Block) -> Draft {
        if self.state.begun.is_none() {
            self.push(Record::BlockBegan(block.begun()));
        }
        self
    }

    /// A block of the coming answer is finished; people see it before the answer is complete.
    pub fn block_shown(mut self, block: Block) -> Draft {
        self.push(Record::BlockShown(block));
        self
    }

    /// What was shown of the coming answer is not part of it: the model answers differently. `partial` is what is known
    /// of the block that it has begun. Nothing is recorded if nothing was shown.
    pub fn replaced(mut self, partial: Option<Block>) -> Draft {
        if let Some(block) = self.begun(partial) {
            self.push(Record::BlockShown(block));
        }
        let places: Vec<_> = self.state.shown.iter().filter_map(Block::shown_as).collect();
        if places.iter().any(|place| !place.empty) {
            self.push(Record::Replaced { blocks: u32::try_from(places.len()).unwrap_or(u32::MAX) });
        }
        self
    }

    /// The model has answered; `gates` are the verdicts on its calls, in order. An answer that nothing waits for
    /// changes nothing: calls of an earlier one may be pending.
    pub fn model_responded(mut self, answer: ModelResponded, gates: Vec<Gate>, catalog: &dyn Catalog) -> Transition {
        let run = answer.run;
        if !self.state.wants_answer(run) {
            return self.finish();
        }
        let mut text = if run.is_root() { String::new() } else { text_of(&answer.blocks) };
        if let Some(cut) = answer.cut.filter(|_| run.is_nested()) {
            // The calling agent must not take it for the whole answer.
            let note = self.state.locale.fill(Text::AnswerCut, &[("reason", cut.name())]);
            text = format!("{text}\n[{note}]");
        }
        self.push_answer(answer);
        if self.state.calls_of(run).next().is_some() {
            self.push(Record::CallsGated(gates));
        } else if run.is_nested() {
            self.agent_answered(run, &text);
        }
        self.settled(catalog)
    }

    /// Records an answer, whose calls get the next numbers.
    pub(super) fn push_answer(&mut self, answer: ModelResponded) {
        let first_call = self.state.first_call(&answer);
        let nonce = answer.nonce.clone().filter(|_| !first_call.is_none());
        self.push(Record::ModelResponded(ModelResponded { first_call, nonce, ..answer }));
    }

    /// Claims the start of those of `calls` that are permitted.
    pub fn start(mut self, calls: &[CallNo]) -> Transition {
        self.start_calls(calls);
        self.finish()
    }

    pub(super) fn start_calls(&mut self, calls: &[CallNo]) {
        for number in calls {
            let begins = |call: &&Call| call.phase == Phase::Permitted && call.target.is_none();
            if let Some(call) = self.state.call(*number).filter(begins) {
                let attempt = call.attempts + 1;
                self.started.push(*number);
                self.push(Record::CallStarted { call: *number, attempt });
            }
        }
    }

    /// After a crash: no process runs any call of this session but those in `at_work`, so other started calls have an
    /// unknown outcome. Idempotent ones start again; a person is asked about the others (spec R4). `None` if there is
    /// nothing to recover.
    #[must_use]
    pub fn recover(mut self, at_work: &BTreeSet<CallNo>, catalog: &dyn Catalog) -> Option<Transition> {
        self.recover_all(at_work, catalog).then(|| self.finish())
    }

    /// Says whether there is something to recover.
    pub(super) fn recover_all(&mut self, at_work: &BTreeSet<CallNo>, catalog: &dyn Catalog) -> bool {
        if !self.state.status.is_active() {
            return false;
        }
        let is_lost = |c: &&Call| matches!(c.phase, Phase::Started(_)) && !at_work.contains(&c.call);
        let lost: Vec<Call> = self.state.calls.iter().filter(is_lost).cloned().collect();
        if !self.recover_steps() && lost.is_empty() {
            return false;
        }
        for call in lost {
            // A tool other than the one that was allowed never begins by itself.
            if call.may_repeat(catalog) && !call.is_outdated(catalog) {
                self.started.push(call.call);
                self.push(Record::CallStarted { call: call.call, attempt: call.attempts + 1 });
            } else {
                self.push(Record::CallLost { call: call.call, why: Loss::Interrupted });
            }
        }
        self.settle(catalog);
        true
    }

    /// Withdraws pending requests.
    pub(super) fn withdraw(&mut self, by: Option<&Arc<str>>, why: Withdrawal, which: impl FnMut(&&Open) -> bool) {
        for n in self.state.open.iter().filter(which).map(|open| open.asked.n).collect::<Vec<_>>() {
            self.push(Record::Withdrawn { n, by: by.cloned(), why });
        }
    }

    /// Ends the draft with its consequences.
    pub fn settled(mut self, catalog: &dyn Catalog) -> Transition {
        self.settle(catalog);
        self.finish()
    }

    /// Ends the draft without adding anything.
    pub fn finish(mut self) -> Transition {
        self.end_append();
        Transition { state: self.state, entries: self.entries, started: self.started, illegal: self.illegal }
    }

    /// Later records belong to another append.
    pub(super) fn end_append(&mut self) {
        if !self.records.is_empty() {
            self.illegal = self.illegal.or_else(|| self.state.may_end().err());
            let mut records = std::mem::take(&mut self.records);
            // A store may keep them as they are.
            records.shrink_to_fit();
            let State { pos, updated_at: at, .. } = *self.state;
            let entry = Entry { pos, at, via: None, cursor: Cursor::default(), records };
            self.entries.push(Arc::new(entry));
        }
    }
}
