//! Forks: a new session that has another's past up to a checkpoint (spec G6).
//!
//! The past is copied append by append, at the same positions, and followed by an append that begins with [`Forked`].
//! Earlier decisions count as history, never as a permission: reviewers are asked again under the new session's keys,
//! calls that were approved but not begun are requested again, and what only the original can know has an unknown
//! outcome.
//!
//! Positions and cursors stay the same, so events and history of the past stay the same under the new session's keys.
//! Stores need no marker: the entries of an append before its last [`Forked`] are not the session's own ([`own`]), and
//! are not delivered, indexed, counted as requests or turned into rules again. That also holds where a saved fork is
//! restored elsewhere.
//!
//! How the record changes the state:
//! - Pending calls, and approved calls that have not begun, are gated again from the first level, with fresh votes and
//!   deadlines; a reassignment to another role is undone too.
//! - Every call that has not begun is judged by today's policy ([`must_be_judged`]) and by standing rules that reject.
//!   The stricter of today's verdict and the earlier one counts. So a call that needed no approval runs only if it
//!   needs none today, what is denied today is denied, and what a standing rule allowed is asked about whatever the
//!   policy says.
//! - A call whose tool is gone is refused; where a tool cannot be reached, no fork is made (`unresolvable`).
//! - A call that had begun, or may begin again by a decision about its unknown outcome, has an unknown outcome in the
//!   fork, even if it is idempotent: the original may be running it. It is judged too: reviewers of the original
//!   verdict and of today's are asked, and what is denied today cannot run again.
//! - What people answered to a call's own questions is forgotten: if it runs again it asks again.
//! - While the original is unknown since a backup, the same holds for every call and step that could begin there.
//! - A reviewer's edit is kept, and people are asked about it as strictly as it required.
//! - Rules of the session are dropped, including those that reject: nobody could revoke them here, and a new session
//!   has none either.
//! - Queued messages keep their places without their request ids, which are new in this session. Reviewers and the
//!   index begin empty.
//! - The policy sees the roles that the owner holds now. Counts, tokens and the turn's model calls stay, so a fork does
//!   not bypass `max_turns`.
//!
//! A fork that is not asked to run is held (`State::held`): it has no effects, even after a restart or a deadline,
//! until a decision, a message, `run` or a retry comes. A deadline resolves its request there, and what follows from
//! that waits with the rest. If it is held at the model's turn, a message is the next one of the conversation; where
//! calls are still to run, it comes after their results.

use std::sync::Arc;

use super::{
    draft::{Catalog, Draft, Transition},
    fits::{check_images, check_message},
    record::{CallStatus, Entry, Forked, ForkedFrom, Held, Interrupted, Judged, Kind, Millis, Record, UserMessage},
    request_id::RequestId,
    restart::would_begin,
    state::{Call, Deadline, Phase, State, Status},
};
use crate::{
    call::gate::Verdict,
    number::{CallNo, InterruptionNo},
    refusal::{Code, Refusal},
};

/// The input that turns a draft's copied past into a fork.
#[derive(Clone, Debug, Default)]
pub struct ForkInput {
    /// The session it is a fork of.
    pub from: Arc<str>,
    /// Who makes it.
    pub by: Option<Arc<str>>,
    /// The roles that `by` holds.
    pub roles: Vec<String>,
    /// The client's `request_id`.
    pub request_id: Option<RequestId>,
    /// Whether it continues by itself.
    pub run: bool,
    /// Whether the original [is unknown since a backup](State::is_unknown_since_a_backup).
    pub restored: bool,
    /// Today's verdicts on all calls for which [`must_be_judged`] is true, as they are or as changed.
    pub judged: Vec<Judged>,
    /// The user's next message, in a session whose turn is over.
    pub message: Option<UserMessage>,
    /// Distinguishes the fork from every other session.
    pub birth: Arc<str>,
    /// The calls that the model's provider may make, or has made, for the original: see [`Record::ApprovalSent`].
    pub approved: Vec<CallNo>,
}

/// The entries of an append that are the session's own, without the past that a fork copied: that was delivered,
/// counted and acknowledged in the original.
#[must_use]
pub fn own(entries: &[Arc<Entry>]) -> &[Arc<Entry>] {
    let forked =
        entries.iter().rposition(|entry| entry.records.iter().any(|record| matches!(record, Record::Forked(_))));
    forked.map_or(entries, |at| &entries[at..])
}

/// Whether a fork asks the policy about a call again: it may start there, or start once more. What allowed it in the
/// original, even if no approval was needed, counts in the original alone (spec P4).
#[must_use]
pub fn must_be_judged(call: &Call) -> bool {
    let over = matches!(call.phase, Phase::Delegated | Phase::Settled(..) | Phase::Finished);
    !over && !call.question
}

/// Whether a fork may change a call: it has not begun, and its outcome is not known.
#[must_use]
pub fn is_open_to_edits(call: &Call, state: &State) -> bool {
    let waits = match call.phase {
        Phase::Gated | Phase::Permitted => true,
        Phase::Waiting(n) => state.waiting(n).is_some_and(|open| open.asked.kind == Kind::Approval),
        _ => false,
    };
    waits && call.attempts == 0 && !call.question
}

impl Draft {
    /// Turns the session into a fork at the draft's starting position, which is a checkpoint.
    ///
    /// # Errors
    /// `invalid_message`: a message while the turn is not over, or one that is too large; a call that cannot be
    /// changed. `images_not_supported`.
    pub fn fork(mut self, input: ForkInput, catalog: &dyn Catalog) -> Result<Transition, Refusal> {
        let ForkInput { from, by, roles, request_id, run, restored, judged, message, birth, approved } = input;
        let active = self.state.status.is_active();
        if (active || self.state.is_stopped_short()) && message.is_some() {
            return Err(Refusal::new(
                Code::InvalidMessage,
                "edit.message: the turn is not over at this checkpoint; what a user says can be changed at the \
                 checkpoint before or right after a user's message that begins a turn",
            ));
        }
        if let Some(message) = &message {
            let agent = message.agent.as_ref().unwrap_or(&self.state.agent);
            check_message(&message.content, "edit.message")?;
            check_images(&message.content, agent, catalog)?;
        }
        for one in judged.iter().filter(|one| one.edited.is_some()) {
            let call = self.state.call(one.call);
            // One that may have begun cannot become another.
            let is_open = |call: &Call| is_open_to_edits(call, &self.state) && !(restored && would_begin(call));
            if !call.is_some_and(is_open) {
                return Err(Refusal::new(
                    Code::InvalidMessage,
                    format!("edit.calls: the call {:?} cannot be changed at this checkpoint", &*one.tool_use_id),
                ));
            }
        }
        let asked = if active { self.asked_again() } else { Vec::new() };
        let withdrawn = self.state.pending();
        // A queued message begins a turn, too. A failed turn begins nothing: it waits for its retry.
        let begins = !self.state.queued.is_empty() && self.state.status != Status::Failed;
        let held = !run && (active || message.is_some() || begins);
        self.push(Record::Forked(Arc::new(Forked {
            from,
            checkpoint: self.state.pos,
            by,
            roles,
            request_id,
            withdrawn,
            active,
            held,
            restored,
            judged,
            birth,
        })));
        self.push_held();
        if !approved.is_empty() {
            self.push(Record::ApprovalSent { calls: approved });
        }
        // Other questions of a graph are asked again as they are, without running a node.
        for asked in &asked {
            self.ask_again(asked);
        }
        self.recover_steps();
        if let Some(message) = message {
            self.push(Record::UserMessage(message));
            self.push_held();
        }
        Ok(self.settled(catalog))
    }

    /// The pending questions that a fork asks again as they are.
    fn asked_again(&self) -> Vec<Arc<Interrupted>> {
        // A node with an unused answer asks everything again by itself, in its own order.
        let begins_again = |asked: &Interrupted| {
            let task = asked.question.as_ref().and_then(|at| self.state.run.as_ref()?.tasks.get(&at.task));
            task.is_some_and(|task| task.questions.values().any(|question| question.answer.is_some()))
        };
        // An agent's loop goes back to the model's answer: what its nodes had asked, they ask when they run again.
        let goes_back = |asked: &Interrupted| {
            asked.question.is_some()
                && self.state.run.as_ref().is_some_and(|run| run.agent_loop)
                && self.state.calls.iter().any(|call| call.phase != Phase::Finished)
        };
        let open = self.state.open.iter().map(|open| open.asked.clone());
        open.filter(|asked| !begins_again(asked) && !goes_back(asked)).collect()
    }

    /// Tells followers that the turn of a fork is held.
    pub(super) fn push_held(&mut self) {
        if self.state.held && self.state.status.is_active() {
            let hold = self.state.hold();
            self.push(Record::Status { pending: Vec::new(), awaiting: false, hold });
        }
    }

    /// Resumes a held fork, which begins whatever needs no person. `None` if it is not one.
    #[must_use]
    pub fn go_on(mut self, catalog: &dyn Catalog) -> Option<Transition> {
        if self.state.why_held() != Some(Held::Fork) {
            return None;
        }
        self.release();
        Some(self.settled(catalog))
    }

    /// Records that a held turn resumes.
    pub(super) fn release(&mut self) {
        if self.state.held {
            self.push_released();
        }
    }

    /// Tells followers that the turn is no longer held. What is pending stays so, unless a retry runs beside it.
    pub(super) fn push_released(&mut self) {
        let awaiting = self.state.status == Status::AwaitingInput && self.must_wait();
        let pending = if awaiting { self.state.pending() } else { Vec::new() };
        self.push(Record::Status { pending, awaiting, hold: None });
    }
}

impl State {
    pub(super) fn forked(&mut self, forked: &Forked, at: Millis) {
        self.forked_from = Some(ForkedFrom { session_id: forked.from.clone(), checkpoint: forked.checkpoint });
        self.created_at = at;
        self.birth = forked.birth.clone();
        self.held = forked.held;
        if forked.active {
            self.status = Status::Running;
        }
        // What an active fork does itself is on record; only a held or failed one may repeat what its original did.
        self.restored = forked.restored && (self.held || self.status == Status::Failed);
        self.roles.clone_from(&forked.roles);
        // Nobody has been asked in this session yet, and no rule made in it.
        self.reviewers.clear();
        self.sticky.clear();
        for message in &mut self.queued {
            message.request_id = None;
        }
        if forked.restored {
            self.lose_what_would_begin();
        }
        let open = std::mem::take(&mut self.open);
        let in_doubt =
            |n: InterruptionNo| open.iter().any(|open| open.asked.n == n && open.asked.kind == Kind::InDoubt);
        for call in &mut self.calls {
            call.nonce = None;
            match call.phase {
                Phase::Waiting(n) if in_doubt(n) => call.lose(),
                // A person allowed the original to run it again.
                Phase::Permitted if call.attempts > 0 => call.lose(),
                // Only the original knows how it ended.
                Phase::Started(_) | Phase::Asking => call.lose(),
                Phase::Permitted if call.ask.is_none() && !call.by_rule => {}
                Phase::Waiting(_) | Phase::Gated | Phase::Permitted => call.ask_anew(),
                Phase::Proposed | Phase::Delegated | Phase::Lost | Phase::Settled(..) | Phase::Finished => {}
            }
            call.forget_answers();
        }
        self.run_forked();
        for one in &forked.judged {
            if let Some(call) = self.call_mut(one.call) {
                call.judge(one, forked.by.as_ref());
            }
        }
    }
}

impl Call {
    /// Asks about it again from the first level, without any earlier decision.
    pub(super) fn ask_anew(&mut self) {
        self.phase = Phase::Gated;
        // Custom nodes of its agent's loop have seen what was allowed before.
        self.cleared = false;
        self.asks_after_all();
        self.ask.get_or_insert_default();
        self.deadline = Deadline::Fresh;
        self.approved_by.clear();
        self.by_rule = false;
        self.restart_levels();
    }

    /// Today's verdict applies in addition to the earlier one, never in its place.
    fn judge(&mut self, judged: &Judged, by: Option<&Arc<str>>) {
        if self.phase == Phase::Lost {
            self.judge_doubt(&judged.verdict);
            return;
        }
        if !matches!(self.phase, Phase::Gated | Phase::Permitted) || self.question {
            return;
        }
        if let Some(edited) = &judged.edited {
            self.changed(edited, by);
        }
        if judged.edited.is_some() || judged.preview.is_some() {
            self.preview.clone_from(&judged.preview);
        }
        match &judged.verdict {
            Verdict::Allow => {}
            Verdict::Ask(ask) | Verdict::Question(ask) => {
                let ask = self.ask.as_ref().map_or_else(|| ask.clone(), |before| before.stricter(ask));
                self.ask = Some(Arc::new(ask));
                self.ask_anew();
            }
            Verdict::Invalid(text) => {
                self.phase = Phase::Settled(CallStatus::Error, text.clone());
            }
            Verdict::Deny(text) => {
                self.phase = Phase::Settled(CallStatus::Rejected, text.clone());
                self.by_rule = judged.decided_by.is_some();
            }
        }
    }
}
