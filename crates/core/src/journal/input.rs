//! Calls that ask a person before they end: what an MCP server calls elicitation (spec S13).
//!
//! An attempt of a call may end with questions in place of a result. They are interruptions of their own kind, answered
//! like those of a graph; with the last answer the call may begin again, and its next attempt receives the answers.
//!
//! Because the attempt ends, a session that waits for an answer is rows in the store like any other. If the server has
//! forgotten its questions, the call's outcome is unknown, and the reason is recorded (`CallLost.why`).
//!
//! Answers are kept by the digest of their question, in case the call is run again from its beginning: then each answers
//! its question once more. Equal questions get theirs in the order in which they were given, and any beyond those ask a
//! person: an answer to "Delete it?" is about one thing, even if the next question reads the same.

use std::sync::Arc;

use super::{
    draft::{Catalog, Draft},
    record::{
        Action, InputQuestion, InputRequired, Interrupted, Kind, Loss, Record, Withdrawal, input::distinct_names,
    },
    run::{At, Raw},
    running::shown,
    state::{Call, Phase, State, input::AskedQuestion},
};
use crate::{
    call::{
        gate::{Ask, DecisionType},
        timeout::Timeout,
    },
    limits,
    number::{CallNo, InterruptionNo, TaskNo},
};

/// The maximum number of answers that a call keeps in case it asks the same again.
const KEPT: usize = 64;

impl Call {
    /// Whether the process that began it still had it when it asked its questions.
    #[must_use]
    pub fn is_live(&self) -> bool {
        self.input.as_ref().is_some_and(|input| input.live)
    }

    /// Whether each of its questions is answered or pending.
    pub(super) fn is_asked(&self, state: &State) -> bool {
        let waits = |asked: &AskedQuestion| asked.n.is_some_and(|n| state.waiting(n).is_some());
        let asked = |asked: &AskedQuestion| asked.answer.is_some() || waits(asked);
        self.input.as_ref().is_some_and(|input| input.questions.iter().all(asked))
    }

    /// Abandons the attempt. Its answers are given again if it runs again.
    pub(super) fn forget_attempt(&mut self) {
        if let Some(input) = &mut self.input {
            input.over();
            // This run's answers come before those of the last run that it had not reached.
            let later = std::mem::replace(&mut input.replay, std::mem::take(&mut input.answered));
            input.replay.extend(later);
            // Of equal questions the first ones keep their own answers.
            input.replay.truncate(KEPT);
        }
    }

    /// The answers of abandoned attempts count no more: they were given in another session, or to another tool.
    pub(super) fn forget_answers(&mut self) {
        if let Some(input) = &mut self.input {
            input.answered.clear();
            input.replay.clear();
        }
    }
}

impl State {
    pub(super) fn input_required(&mut self, required: &InputRequired) {
        let InputRequired { call, attempt, questions, state, live, timeout } = required;
        let Some(call) = self.call_mut(*call).filter(|call| call.phase == Phase::Started(*attempt)) else { return };
        let input = call.input.get_or_insert_default();
        input.over();
        input.forgotten = false;
        input.state.clone_from(state);
        (input.live, input.timeout) = (*live, *timeout);
        for question in questions {
            let answer = input.take_replayed(question);
            input.questions.push(AskedQuestion { question: question.clone(), n: None, answer });
        }
        input.answered.truncate(KEPT);
        let answered = input.questions.iter().all(|asked| asked.answer.is_some());
        call.phase = if answered { Phase::Permitted } else { Phase::Asking };
    }

    /// A question of a call is pending.
    pub(super) fn input_asked(&mut self, asked: &Interrupted) {
        let (Some(at), Some(action)) = (&asked.question, asked.actions.first()) else { return };
        let Some(call) = self.call_mut(action.call) else { return };
        let mut questions = call.input.iter_mut().flat_map(|input| &mut input.questions);
        if let Some(question) = questions.find(|question| question.is_asked_by(at)) {
            question.n = Some(asked.n);
        }
    }

    /// A question of a call has its answer; with the last one the call may begin again.
    pub(super) fn input_answered(&mut self, n: InterruptionNo, answer: &Raw) {
        for call in &mut self.calls {
            let Some(input) = &mut call.input else { continue };
            let Some(asked) = input.questions.iter_mut().find(|asked| asked.n == Some(n)) else { continue };
            asked.answer = Some(answer.clone());
            if call.phase == Phase::Asking && input.questions.iter().all(|asked| asked.answer.is_some()) {
                call.phase = Phase::Permitted;
            }
        }
    }
}

impl Draft {
    /// An attempt of a call has ended with questions.
    pub(super) fn asks_input(&mut self, mut required: InputRequired) {
        distinct_names(&mut required.questions);
        if let Timeout::After(seconds) = required.timeout {
            required.timeout = Timeout::of(seconds.get().min(limits::APPROVAL_TIMEOUT_SECONDS_MAX));
        }
        self.push(Record::InputRequired(Arc::new(required)));
    }

    /// Calls that have their answers, but whose attempt was lost with the process that it waited in: their outcome is
    /// unknown (spec R4). One that is idempotent begins again. Says whether anything follows for `calls`.
    pub(super) fn input_lost(&mut self, calls: &[CallNo], catalog: &dyn Catalog) -> bool {
        let lost: Vec<CallNo> = self
            .state
            .calls
            .iter()
            .filter(|call| calls.contains(&call.call) && call.phase == Phase::Permitted && call.is_live())
            .filter(|call| !call.may_repeat(catalog))
            .map(|call| call.call)
            .collect();
        for call in &lost {
            self.push(Record::CallLost { call: *call, why: Loss::QuestionsGone });
        }
        if !lost.is_empty() {
            self.settle(catalog);
        }
        !lost.is_empty()
    }

    /// A question of a call timed out, which ends the call: its other questions are withdrawn.
    pub(super) fn withdraw_inputs(&mut self, call: CallNo) {
        self.withdraw(None, Withdrawal::CallEnded, |open| open.asked.is_input_of(call));
    }

    /// Asks the questions of calls, each by itself.
    pub(super) fn ask_inputs(&mut self) {
        let asking = self.state.calls.iter().filter(|call| call.phase == Phase::Asking);
        for call in asking.cloned().collect::<Vec<_>>() {
            let (Some(input), Some(args)) = (&call.input, &call.args) else { continue };
            for InputQuestion { name, from, payload, schema, default } in input
                .questions
                .iter()
                .filter(|asked| asked.n.is_none() && asked.answer.is_none())
                .map(|asked| asked.question.clone())
            {
                let ask = Ask { timeout: input.timeout, allowed: Some(vec![DecisionType::Respond]), ..Ask::default() };
                let expires_at = self.due_in(Kind::Input, ask.timeout);
                let action = Action {
                    call: call.call,
                    tool_use_id: call.id.clone(),
                    agent: call.agent.clone(),
                    name: call.name.clone(),
                    // The reviewer is shown the question, with its warnings: its text is untrusted.
                    args: shown(&payload).unwrap_or_else(|_| args.clone()),
                    ask: Arc::new(ask),
                    path: self.state.path(&call),
                    ..Action::default()
                };
                let at = At { task: TaskNo::NONE, node: from, question: name, payload, schema, default };
                let (n, content) = (self.state.next_interruption(), call.display.stream.display_as_content);
                self.ask_people(Interrupted {
                    n,
                    kind: Kind::Input,
                    actions: vec![action],
                    expires_at,
                    display_as_content: content,
                    question: Some(Arc::new(at)),
                    clock: None,
                });
            }
        }
    }
}
