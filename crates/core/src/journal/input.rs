//! Calls that ask a person before they end: what an MCP server calls elicitation (spec S13).
//!
//! An attempt of a call may end with questions in place of a result. They are interruptions of their own kind, answered
//! like those of a graph; with the last answer the call may begin again, and its next attempt receives the answers.
//!
//! Because the attempt ends, a session that waits for an answer is rows in the store like any other. If the server has
//! forgotten its questions, the call's outcome is unknown, and the reason is recorded (`CallLost.why`).
//!
//! Answers are kept by the digest of their question, in case the call is run again from its beginning: then each answers
//! its question once more. Equal questions get theirs in the order in which they were given, and one more than were
//! answered asks a person: an answer to "Delete it?" is about one thing, also where the next question reads the same.

use std::{collections::BTreeSet, sync::Arc};

use serde::{Deserialize, Serialize};

use super::{
    asked::{Action, Interrupted, Kind},
    draft::{Catalog, Draft},
    record::{Loss, Record, Withdrawal},
    run::{At, Raw, given},
    running::shown,
    schema::Schema,
    state::{Call, Phase, State},
};
use crate::{
    call::{
        args::Digest,
        gate::{Ask, DecisionType},
        timeout::Timeout,
    },
    limits,
    number::{CallNo, InterruptionNo, TaskNo},
};

/// The maximum number of questions in one attempt of a call.
pub const QUESTIONS: usize = 16;
/// The maximum number of answers that a call keeps in case it asks the same again.
const KEPT: usize = 64;

/// One question of a call.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct InputQuestion {
    /// Its name in the call, by which the tool recognizes it. The second of a name is called `name#2`
    /// ([`distinct_names`]).
    pub name: Arc<str>,
    /// Who asks: for a tool of an MCP server, the server.
    pub from: Arc<str>,
    /// What is shown: JSON.
    pub payload: Raw,
    /// The JSON Schema that the answer must fit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schema: Option<Arc<Schema>>,
    /// The answer if the deadline expires.
    #[serde(default, deserialize_with = "given", skip_serializing_if = "Option::is_none")]
    pub default: Option<Raw>,
}

impl InputQuestion {
    /// Its identity, whatever its name: the digest of what is shown and of its schema.
    #[must_use]
    pub fn digest(&self) -> Arc<str> {
        let schema = self.schema.as_ref().map_or("", |schema| schema.0.get());
        let text = format!("{}\u{0}{}\u{0}{schema}", self.from, self.payload.get());
        Digest::of(text.as_bytes()).to_string().into()
    }
}

/// An attempt of a call has ended with questions.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct InputRequired {
    /// The call's number.
    pub call: CallNo,
    /// The attempt.
    pub attempt: u32,
    /// The questions; at least one.
    pub questions: Vec<InputQuestion>,
    /// Opaque data that the tool needs back with the answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<Arc<str>>,
    /// The process that began it still runs it, and waits there for the answers. In another process its outcome is
    /// unknown.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub live: bool,
    /// How long people have to answer the questions.
    #[serde(default, skip_serializing_if = "Timeout::is_default")]
    pub timeout: Timeout,
}

/// An answer that is kept.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct KeptAnswer {
    /// The [digest](InputQuestion::digest) of its question.
    pub question: Arc<str>,
    /// The answer.
    pub answer: Raw,
}

/// The questions of a call, and their answers.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CallInput {
    /// Opaque data that the tool needs back with the answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<Arc<str>>,
    /// It waits for the answers in the process that began it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub live: bool,
    /// How long people have to answer.
    #[serde(default, skip_serializing_if = "Timeout::is_default")]
    pub timeout: Timeout,
    /// The questions of the latest attempt.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub questions: Vec<AskedQuestion>,
    /// Answers to questions of earlier attempts, oldest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub answered: Vec<KeptAnswer>,
    /// Those given before the call was lost and run again, as far as this run has not asked their questions: each answers
    /// the same question once more, so that nobody is asked twice.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub replay: Vec<KeptAnswer>,
    /// It was lost because it could not resume with the answers to its latest questions.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub forgotten: bool,
}

/// A question of a call, and its progress.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AskedQuestion {
    /// The question.
    pub question: InputQuestion,
    /// The number of the interruption that asks it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub n: Option<InterruptionNo>,
    /// Its answer.
    #[serde(default, deserialize_with = "given", skip_serializing_if = "Option::is_none")]
    pub answer: Option<Raw>,
}

impl CallInput {
    /// The answer to a question of the latest attempt, by its name.
    #[must_use]
    pub fn answer(&self, name: &str) -> Option<&Raw> {
        self.questions.iter().find(|asked| *asked.question.name == *name)?.answer.as_ref()
    }

    /// The answers of the run so far, oldest first: for a call that begins anew although its journal does not say that
    /// it was lost.
    #[must_use]
    pub fn answers(&self) -> Vec<KeptAnswer> {
        let latest = self.questions.iter().filter_map(AskedQuestion::kept);
        self.answered.iter().cloned().chain(latest).collect()
    }

    /// Whether the attempt is the first since the call was lost, and so runs it from its beginning.
    #[must_use]
    pub fn begins_anew(&self) -> bool {
        self.questions.is_empty() && self.answered.is_empty()
    }

    /// Ends the questions of the latest attempt, and keeps their answers.
    fn over(&mut self) {
        for asked in std::mem::take(&mut self.questions) {
            self.answered.extend(asked.kept());
        }
        self.state = None;
        self.live = false;
    }

    /// Takes the answer to a question that is asked again after the call was lost; it counts once.
    ///
    /// The tool of a live call has itself given it the answers that there were, before it asked a person.
    fn take_replayed(&mut self, question: &InputQuestion) -> Option<Raw> {
        if !self.live {
            return take_answer(&mut self.replay, question);
        }
        let digest = question.digest();
        self.answered.extend(self.replay.extract_if(.., |kept| kept.question == digest));
        None
    }
}

impl AskedQuestion {
    fn kept(&self) -> Option<KeptAnswer> {
        Some(KeptAnswer { question: self.question.digest(), answer: self.answer.clone()? })
    }

    /// Whether it waits to be asked, and this interruption asks it.
    pub(super) fn is_asked_by(&self, at: &At) -> bool {
        let question = &self.question;
        self.n.is_none()
            && (&question.name, &question.from) == (&at.question, &at.node)
            && (&question.payload, &question.schema) == (&at.payload, &at.schema)
            && question.default == at.default
    }
}

/// Takes the oldest answer to a question out of those that are kept.
pub fn take_answer(kept: &mut Vec<KeptAnswer>, question: &InputQuestion) -> Option<Raw> {
    let digest = question.digest();
    let at = kept.iter().position(|kept| kept.question == digest)?;
    Some(kept.remove(at).answer)
}

/// Renames questions whose name another one has already: `name#2`, as in a node of a graph. Each is asked, and answered,
/// by itself. Questions beyond the most that an attempt may ask are dropped.
pub fn distinct_names(questions: &mut Vec<InputQuestion>) {
    questions.truncate(QUESTIONS);
    let mut taken: BTreeSet<Arc<str>> = BTreeSet::new();
    for question in questions {
        let name = question.name.clone();
        let mut n = 1;
        while !taken.insert(question.name.clone()) {
            n += 1;
            question.name = format!("{name}#{n}").into();
        }
    }
}

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
            // Those that this run has asked come before those of the last one that it had not come to.
            let later = std::mem::replace(&mut input.replay, std::mem::take(&mut input.answered));
            input.replay.extend(later);
            // Of equal questions the first ones keep their own answers.
            input.replay.truncate(KEPT);
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
        self.withdraw(None, Withdrawal::CallEnded, |open| {
            open.asked.kind == Kind::Input && open.asked.actions.first().is_some_and(|action| action.call == call)
        });
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
