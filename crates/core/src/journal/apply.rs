//! How each record changes a session's state.

use std::sync::Arc;

use super::{
    progress::{GraphRun, TaskPhase},
    record::{
        CallFinished, CallStatus, Decided, EndReason, Interrupted, Kind, Loss, Millis, ModelResponded, Note, Noted,
        Record, SessionCreated, TurnEnded, UserMessage, block,
    },
    size,
    state::{Call, Deadline, Open, Phase, State, Status, parts::next_reviewer},
};
use crate::{
    approval::{decision::Choice, question::Answers},
    call::gate::{Gate, Verdict},
    locale::Text,
    number::{CallNo, InterruptionNo, RunNo},
};

impl State {
    /// Begins the next append, at this position and time; for readers that look at the state between its records.
    pub fn begin(&mut self, pos: u64, at: Millis) {
        self.pos = pos;
        self.updated_at = at;
    }

    /// Applies the next record of the append that has begun. Total: a record that does not fit the state changes only
    /// what it can. Whether it fits is for [`Session::append`](crate::session::Session::append) to say.
    pub fn take(&mut self, record: &Record) {
        let (pos, at) = (self.pos, self.updated_at);
        self.bytes = self.bytes.saturating_add(size::of(record));
        self.window.take(record, pos, self.status.is_active(), &self.shown);
        self.speakers.note(record, self.status.is_active(), self.call_count);
        self.note_progress(record);
        self.keep_unshown(record);
        match record {
            Record::SessionCreated(created) => self.created(created, at),
            Record::UserMessage(message) => self.user_message(message),
            Record::MessageQueued(message) => self.message_queued(message),
            Record::BlockBegan(block) => self.begun = Some(block.clone()),
            Record::BlockShown(block) => {
                self.begun = None;
                self.shown.push(block.clone());
            }
            Record::Replaced { .. } => self.shown.clear(),
            Record::ModelResponded(answer) => self.model_responded(answer, pos),
            Record::AnswersDiscarded(discarded) => self.answers_discarded(discarded),
            Record::CallsGated(gates) => self.calls_gated(gates),
            Record::Interrupted(asked) => self.interrupted(asked, at),
            Record::Decided(decided) => self.decided(decided),
            Record::Answered(answered) => self.answered(answered.n, &answered.answers),
            Record::TimedOut { n, .. } => self.timed_out(*n),
            Record::Noted(noted) => self.noted(noted),
            Record::RuleRevoked(revoked) => self.sticky.retain(|rule| rule.id != revoked.rule),
            Record::Renamed(renamed) => self.given_title.clone_from(&renamed.title),
            Record::Withdrawn { n, why, .. } => self.withdrawn(*n, *why),
            Record::CallStarted { call, attempt } => self.call_started(*call, *attempt),
            Record::AgentBegan(began) => self.agent_began(began, pos),
            Record::HandedOff(handed) => self.handed_off(handed),
            Record::CallFinished(finished) => self.call_finished(finished),
            // Records for a later event are kept above.
            Record::Restarted(_) | Record::ReviewerSaid(_) => {}
            Record::CallOutdated { call, target } => self.call_outdated(*call, target.as_ref()),
            Record::InputRequired(required) => self.input_required(required),
            Record::CallLost { call, why } => self.call_lost(*call, *why),
            Record::Status { awaiting, hold, .. } => {
                self.held &= hold.is_some();
                self.restored &= self.held;
                self.status = if *awaiting { Status::AwaitingInput } else { Status::Running };
            }
            Record::TurnEnded(ended) => self.turn_ended(ended),
            Record::TurnFailed(failed) => self.turn_failed(failed),
            Record::Retried(retried) => self.retried(retried),
            Record::RunStarted(started) => self.run_started(started, pos),
            Record::FrameBegan(began) => self.frame_began(began, pos),
            Record::TasksDone(done) => self.tasks_done(done),
            Record::TaskFailed(failed) => self.task_failed(failed),
            Record::TaskWaits { task, answered } => {
                let phase = if *answered { TaskPhase::Ready } else { TaskPhase::Waiting };
                self.task(*task, |task| task.phase = phase);
            }
            Record::StepStarted { task, step } => self.step_started(*task, step),
            Record::StepDone { task, step, value } => self.step_done(*task, step, value.as_ref()),
            Record::Resumed(resumed) => self.resumed(resumed),
            Record::StateEdited(_) => self.state_edited(pos),
            Record::States(_) => self.run(|run| run.since = pos),
            Record::MakeRoom(_) | Record::ApprovalSent { .. } | Record::ApprovalNotSent { .. } => {}
            Record::Compressed(compressed) => compressed.spent().into_iter().for_each(|spent| self.spend(spent)),
            Record::Forked(forked) => self.forked(forked, at),
        }
    }

    fn created(&mut self, created: &SessionCreated, at: Millis) {
        self.created_at = at;
        self.birth = created.birth.clone();
        self.agent = created.agent.clone();
        self.locale = created.locale;
        self.subject = created.subject.clone();
        self.tenant = created.tenant.clone();
        self.no_context = created.context.is_none();
    }

    fn message_queued(&mut self, message: &UserMessage) {
        self.queued_count = message.queued;
        self.queued.push_back(message.clone());
    }

    fn user_message(&mut self, message: &UserMessage) {
        if message.queued != 0 {
            self.queued.retain(|queued| queued.queued != message.queued);
        }
        if !self.status.is_active() {
            self.turn_begins(&message.roles);
            self.output = None;
        }
        if message.asks {
            self.end_no_turn(RunNo::ROOT);
        }
        self.answered = false;
        if let Some(agent) = &message.agent {
            self.agent = agent.clone();
        }
        if self.first_words.is_none()
            && let Some(text) = message.content.texts().next()
        {
            self.first_words = Some(text.chars().take(80).collect::<String>().into());
        }
    }

    fn turn_ended(&mut self, ended: &TurnEnded) {
        self.status = match ended.reason {
            EndReason::EndTurn => Status::Completed,
            EndReason::Cancelled => Status::Cancelled,
        };
        self.output = ended.output.as_deref().map(Arc::from);
        self.cut = ended.cut;
        self.held = false;
        self.turn_is_over();
    }

    /// A turn begins. Everything of the previous one is dropped.
    pub(super) fn turn_begins(&mut self, roles: &[String]) {
        self.turn_is_over();
        self.status = Status::Running;
        self.turns += 1;
        (self.turn_calls, self.discarded_calls, self.allowed_calls, self.failures) = (0, 0, 0, 0);
        roles.clone_into(&mut self.roles);
    }

    /// Drops the turn's data and its capacity: an idle session reserves nothing for future calls.
    pub(super) fn turn_is_over(&mut self) {
        self.failure = None;
        self.broken_off = 0;
        self.unshown = Vec::new();
        self.calls = Vec::new();
        self.nested = Vec::new();
        self.open = Vec::new();
        (self.shown, self.begun) = (Vec::new(), None);
        self.answered = false;
        // Only the number of tasks outlives it: task numbers belong to the session.
        self.run(GraphRun::end);
    }

    fn model_responded(&mut self, answer: &ModelResponded, pos: u64) {
        self.spend(answer.spent());
        let run = answer.run;
        if run.is_root() {
            (self.answer_pos, self.begun, self.cut) = (pos, None, answer.cut);
        }
        let agent = self.agent_of(run).clone();
        let kept = self.shown.len().saturating_sub(answer.shown as usize);
        let shown = if run.is_root() { self.shown.split_off(kept) } else { Vec::new() };
        self.shown.clear();
        self.calls.retain(|call| call.run != run);
        let proposed = || block::calls(shown.iter().chain(&answer.blocks), answer.cut);
        // No spare capacity: it would be kept for as long as the calls are pending.
        self.calls.reserve_exact(proposed().count());
        // No number is used twice, whatever a damaged journal says.
        let first = answer.first_call.max(CallNo::new(self.call_count.saturating_add(1)));
        for (i, (call, cut)) in (0..).zip(proposed()) {
            let number = first.later(i);
            self.call_count = number.get();
            self.calls.push(Call {
                call: number,
                id: call.id.clone(),
                nonce: answer.nonce.clone(),
                agent: agent.clone(),
                name: call.name.clone(),
                // Without arguments it never reaches a person or a tool, whatever its verdict.
                args: if cut.is_some() { None } else { call.args().ok() },
                display: call.display.clone(),
                run,
                ..Call::default()
            });
        }
        match self.nested.iter_mut().find(|nested| nested.call.run() == run) {
            Some(nested) => nested.answered = !self.calls.iter().any(|call| call.run == run),
            None => self.answered = self.calls.is_empty(),
        }
    }

    fn calls_gated(&mut self, gates: &[Gate]) {
        let locale = self.locale;
        let proposed = self.calls.iter_mut().filter(|call| call.phase == Phase::Proposed);
        for (call, gate) in proposed.zip(gates) {
            call.idempotent = gate.idempotent;
            call.target.clone_from(&gate.target);
            call.ends = gate.ends;
            call.by_rule = gate.decided_by.is_some();
            call.stood_in.clone_from(&gate.stood_in);
            call.preview.clone_from(&gate.preview);
            call.phase = match &gate.verdict {
                // Without readable arguments nothing can run, whatever the verdict says.
                Verdict::Allow | Verdict::Ask(_) | Verdict::Question(_) if call.args.is_none() => {
                    Phase::Settled(CallStatus::Error, locale.text(Text::UnreadableArgs).to_owned())
                }
                Verdict::Allow => Phase::Permitted,
                Verdict::Ask(ask) => {
                    call.ask = Some(Arc::new(ask.clone()));
                    Phase::Gated
                }
                Verdict::Question(ask) => {
                    call.ask = Some(Arc::new(ask.clone()));
                    call.question = true;
                    Phase::Gated
                }
                Verdict::Invalid(text) => Phase::Settled(CallStatus::Error, text.clone()),
                Verdict::Deny(text) => Phase::Settled(CallStatus::Rejected, text.clone()),
            };
        }
    }

    fn interrupted(&mut self, asked: &Arc<Interrupted>, at: Millis) {
        self.interruptions = asked.n.get();
        self.task_asked(asked);
        self.tools_shown(asked);
        if asked.kind == Kind::Input {
            self.input_asked(asked);
        }
        for action in &asked.actions {
            if asked.kind != Kind::Input {
                self.set_phase(action.call, |call| {
                    call.assignee = None;
                    Phase::Waiting(asked.n)
                });
            }
            self.reviewers.extend(action.reviewer().role().map(str::to_owned));
        }
        if self.open.is_empty() {
            // More than one at a time is rare.
            self.open.reserve_exact(1);
        }
        self.open.push(Open {
            asked: asked.clone(),
            asked_at: asked.asked_at(at),
            votes: Vec::new(),
            assignee: None,
            reminded: 0,
            comments: 0,
        });
    }

    fn decided(&mut self, decided: &Decided) {
        if !decided.last {
            let open = self.open.iter_mut().find(|open| open.asked.n == decided.n);
            if let Some(open) = open.filter(|open| !open.votes.contains(&decided.by)) {
                open.votes.push(decided.by.clone());
            }
            return;
        }
        let Some(open) = self.take_open(decided.n) else { return };
        // One person cannot decide what needs several again.
        let defers_for = open.assignee.clone().filter(|_| open.quorum() <= 1);
        let Open { asked, votes, .. } = open;
        if asked.question.is_some() {
            self.step_decided(&asked, decided);
            return;
        }
        let locale = self.locale;
        let in_doubt = asked.kind == Kind::InDoubt;
        for rule in decided.rules.iter().filter(|rule| !rule.is_everywhere()) {
            // The newest rule wins.
            self.sticky.retain(|older| !rule.replaces(older));
            self.sticky.push(rule.clone());
        }
        let mut people: Vec<Arc<str>> = votes.into_iter().flatten().collect();
        people.extend(decided.by.clone());
        let rejected = if asked.kind == Kind::Question { Text::QuestionDeclined } else { Text::Rejected };
        for (i, (action, decision)) in asked.actions.iter().zip(&decided.decisions).enumerate() {
            self.set_phase(action.call, |call| match &decision.choice {
                Choice::Approve { .. } if in_doubt => call.runs_again(action.level, &people),
                Choice::Approve { .. } => call.approved(action, &people),
                Choice::Edit(edited) => {
                    call.preview = decided.previews.get(i).cloned().flatten();
                    let ask = decided.asks.get(i).cloned().flatten().unwrap_or_else(|| (*action.ask).clone());
                    let tool = decided.tools.get(i).and_then(Option::as_ref);
                    call.edited(action, (edited, tool), ask, decided.by.as_ref())
                }
                Choice::Reject { message, .. } if in_doubt => {
                    Phase::Settled(CallStatus::Error, locale.outcome_unknown(message.as_deref()))
                }
                Choice::Reject { message, .. } => {
                    let text = message.clone().unwrap_or_else(|| locale.text(rejected).to_owned());
                    Phase::Settled(CallStatus::Rejected, text)
                }
                Choice::Respond { output } => Phase::Settled(CallStatus::Success, output.clone()),
                Choice::Defer if in_doubt => {
                    call.assignee.clone_from(&defers_for);
                    Phase::Lost
                }
                Choice::Defer => {
                    call.assignee.clone_from(&defers_for);
                    call.deadline = asked.expires_at.map_or(Deadline::Never, Deadline::At);
                    Phase::Gated
                }
            });
        }
    }

    fn noted(&mut self, noted: &Noted) {
        let Some(open) = self.open.iter_mut().find(|open| open.asked.n == noted.n) else { return };
        match &noted.note {
            Note::Comment { .. } => open.comments += 1,
            Note::Reminded { count, .. } => open.reminded = *count,
            Note::Approved { .. } => {}
            Note::Reassigned { role, subject, .. } => {
                open.comments += 1;
                open.assignee.clone_from(subject);
                let Some(role) = role else { return };
                Arc::make_mut(&mut open.asked).hand_to(role);
                for call in self.calls.iter_mut().filter(|call| call.phase == Phase::Waiting(noted.n)) {
                    call.instead = Some(role.clone());
                }
                self.reviewers.extend(role.role().map(str::to_owned));
            }
        }
    }

    fn answered(&mut self, n: InterruptionNo, answers: &Answers) {
        let Some(Open { asked, .. }) = self.take_open(n) else { return };
        // Plain strings under string keys always serialize.
        let text = serde_json::to_string(answers).unwrap_or_default();
        for action in &asked.actions {
            self.set_phase(action.call, |_| Phase::Settled(CallStatus::Success, text.clone()));
        }
    }

    fn timed_out(&mut self, n: InterruptionNo) {
        let Some(Open { asked, .. }) = self.take_open(n) else { return };
        if let Some(default) = asked.question.as_ref().and_then(|at| at.default.clone()) {
            self.answer_by_default(&asked, &default);
            return;
        }
        let question = asked.kind == Kind::Question;
        let text = self.locale.text(if question { Text::QuestionTimedOut } else { Text::TimedOut });
        // A call has several questions; if another one of them ended it, it already has its result.
        let ended = |call: &Call| asked.kind == Kind::Input && call.phase != Phase::Asking;
        for action in &asked.actions {
            self.set_phase(action.call, |call| match next_reviewer(call, action) {
                _ if ended(call) => call.phase.clone(),
                Some(reviewer) => {
                    call.instead = Some(reviewer.clone());
                    call.escalated += 1;
                    call.deadline = Deadline::Fresh;
                    Phase::Gated
                }
                None => Phase::Settled(CallStatus::Rejected, text.to_owned()),
            });
        }
    }

    fn call_started(&mut self, call: CallNo, attempt: u32) {
        self.set_phase(call, |call| {
            call.attempts = attempt;
            Phase::Started(attempt)
        });
    }

    fn call_lost(&mut self, call: CallNo, why: Loss) {
        self.set_phase(call, |call| {
            call.lose();
            if let Some(input) = &mut call.input {
                input.forgotten = why == Loss::QuestionsGone;
            }
            Phase::Lost
        });
    }

    fn call_finished(&mut self, finished: &CallFinished) {
        self.agent_ended(finished.call.run());
        self.set_phase(finished.call, |call| {
            if call.ends {
                call.result = Some((finished.status, finished.output.as_str().into()));
            }
            Phase::Finished
        });
        if let Some(todos) = &finished.todos {
            self.todos.clone_from(todos);
        }
    }

    pub(super) fn set_phase(&mut self, call: CallNo, phase: impl FnOnce(&mut Call) -> Phase) {
        if let Some(call) = self.call_mut(call) {
            call.phase = phase(call);
        }
    }

    /// The interruption of this number, which is no longer pending.
    pub(super) fn take_open(&mut self, n: InterruptionNo) -> Option<Open> {
        let at = self.open.iter().position(|open| open.asked.n == n)?;
        Some(self.open.remove(at))
    }
}
