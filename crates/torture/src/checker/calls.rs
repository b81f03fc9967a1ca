//! The life of every call, from the journal, against its effects (spec R1, R2, R4).

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use countersign_core::{
    approval::{
        decision::Decision,
        question::{Answers, Questions},
    },
    call::{
        args::Args,
        gate::{DecisionType, Gate, Verdict},
    },
    journal::record::{
        Action, Answered, Block, CallFinished, CallStatus, Decided, Interrupted, Kind, Millis, ModelResponded, Record,
        ToolUse,
    },
    number::{CallNo, InterruptionNo},
};

use super::Findings;
use crate::ledger::{Line, What};

/// A permission to run: a tool and the digest of its arguments.
type Permission = (Arc<str>, String);

#[derive(Default)]
struct Call {
    gated: bool,
    idempotent: bool,
    edited: bool,
    /// Its current permission.
    permission: Option<Permission>,
    /// A person or a deadline refused it before it ran.
    rejected: bool,
    /// A person supplied its result, before or after it may have run.
    responded: bool,
    /// How often a person approved another attempt of a lost call.
    again: usize,
    /// The user's answers, for a question.
    answers: Option<Answers>,
    /// A person ended a lost call.
    closed: bool,
    /// The attempts, each with its permission.
    starts: Vec<(u32, Option<Permission>)>,
    finished: Vec<CallFinished>,
}

struct Question {
    asked: Arc<Interrupted>,
    resolved: u32,
}

/// Follows one session's journal.
pub(super) struct Calls<'a, 'f> {
    session: &'a str,
    findings: &'f mut Findings,
    calls: BTreeMap<CallNo, Call>,
    questions: BTreeMap<InterruptionNo, Question>,
    shown: Vec<Block>,
    answer: Vec<(CallNo, ToolUse)>,
    count: u32,
    active: bool,
}

impl<'a, 'f> Calls<'a, 'f> {
    pub(super) fn new(session: &'a str, findings: &'f mut Findings) -> Calls<'a, 'f> {
        Calls {
            session,
            findings,
            calls: BTreeMap::new(),
            questions: BTreeMap::new(),
            shown: Vec::new(),
            answer: Vec::new(),
            count: 0,
            active: false,
        }
    }

    fn wrong(&mut self, promise: &str, what: &str) {
        self.findings.wrong(format!("{promise} {}: {what}", self.session));
    }

    pub(super) fn record(&mut self, at: Millis, record: &Record) {
        match record {
            Record::UserMessage(_) => self.active = true,
            Record::BlockShown(block) => self.shown.push(block.clone()),
            Record::ModelResponded(answer) => self.responded(answer),
            Record::CallsGated(gates) => self.gated(gates),
            Record::Interrupted(asked) => {
                self.findings.counts.in_doubt += u64::from(asked.kind == Kind::InDoubt);
                if self.questions.insert(asked.n, Question { asked: asked.clone(), resolved: 0 }).is_some() {
                    self.wrong("R2", &format!("interruption {} was asked twice", asked.n));
                }
            }
            Record::Decided(decided) if decided.last => self.all_decided(decided),
            Record::Answered(answered) => {
                self.findings.counts.resolved[0] += 1;
                self.answered(answered);
            }
            Record::TimedOut { n, .. } => {
                self.findings.counts.resolved[1] += 1;
                self.due(*n, at);
                let question = self.questions.get(n).is_some_and(|asked| asked.asked.kind == Kind::Question);
                self.findings.counts.unanswered += u64::from(question);
                self.refused(*n);
            }
            Record::Withdrawn { n, .. } => {
                self.findings.counts.resolved[2] += 1;
                self.refused(*n);
            }
            // Nothing in it is abandoned: its calls are open until it is retried or cancelled.
            Record::TurnFailed(_) => self.shown.clear(),
            Record::CallStarted { call, attempt } => self.started(*call, *attempt),
            Record::CallFinished(finished) => self.finished(finished),
            Record::TurnEnded(_) => {
                self.active = false;
                self.shown.clear();
                let open: Vec<CallNo> =
                    self.calls.iter().filter(|(_, call)| call.finished.is_empty()).map(|(n, _)| *n).collect();
                if !open.is_empty() {
                    self.wrong("R4", &format!("a turn ended while calls {open:?} have no result"));
                }
            }
            _ => {}
        }
    }

    fn responded(&mut self, answer: &ModelResponded) {
        let kept = self.shown.len().saturating_sub(answer.shown as usize);
        self.answer.clear();
        let blocks = self.shown.drain(..).skip(kept).chain(answer.blocks.iter().cloned());
        self.answer
            .extend((self.count + 1..).map(CallNo::new).zip(blocks.filter_map(|block| block.tool_use().cloned())));
        if let Some((first, _)) = self.answer.first()
            && *first != answer.first_call
        {
            let (first, said) = (*first, answer.first_call);
            self.wrong("R3", &format!("an answer's first call is {first}, and its record says {said}"));
        }
        self.count = self.answer.last().map_or(self.count, |(call, _)| call.get());
    }

    fn gated(&mut self, gates: &[Gate]) {
        if gates.len() != self.answer.len() {
            self.wrong("R1", "not every call has a verdict");
        }
        for ((n, call), gate) in std::mem::take(&mut self.answer).into_iter().zip(gates) {
            let permission =
                || Args::parse(&call.input).ok().map(|args| (call.name.clone(), args.digest().to_string()));
            let permission = if gate.verdict == Verdict::Allow { permission() } else { None };
            let gated = permission.is_none();
            self.calls.insert(n, Call { gated, idempotent: gate.idempotent, permission, ..Call::default() });
        }
    }

    fn all_decided(&mut self, decided: &Decided) {
        self.findings.counts.resolved[0] += 1;
        let asked = self.resolve(decided.n);
        if let Some(asked) = &asked
            && asked.actions.len() != decided.decisions.len()
        {
            self.wrong("R1", &format!("interruption {} has not one decision for each action", decided.n));
        }
        let question = asked.as_ref().is_some_and(|asked| asked.kind == Kind::Question);
        if question && decided.decisions.iter().any(|decision| decision.kind() != DecisionType::Reject) {
            self.wrong("Q3", &format!("question {} was decided otherwise than declined", decided.n));
        }
        self.findings.counts.declined += u64::from(question);
        for (action, decision) in asked.iter().flat_map(|asked| &asked.actions).zip(&decided.decisions) {
            self.decided(asked.as_ref().is_some_and(|asked| asked.kind == Kind::InDoubt), action, decision);
        }
    }

    /// A deadline never fires early (spec R6).
    fn due(&mut self, n: InterruptionNo, at: Millis) {
        let due = self.questions.get(&n).and_then(|asked| asked.asked.expires_at);
        match due.map(|due| u64::try_from(at - due)) {
            Some(Ok(late)) => self.findings.counts.late.push(late),
            Some(Err(_)) => self.wrong("R6", &format!("interruption {n} timed out before its deadline")),
            None => self.wrong("R6", &format!("interruption {n} timed out and had no deadline")),
        }
    }

    fn resolve(&mut self, n: InterruptionNo) -> Option<Arc<Interrupted>> {
        let found = self.questions.get_mut(&n).map(|question| {
            question.resolved += 1;
            (question.resolved, question.asked.clone())
        });
        match found {
            None => self.wrong("R2", &format!("interruption {n} was resolved and never asked")),
            Some((1, asked)) => return Some(asked),
            Some(_) => self.wrong("R2", &format!("interruption {n} was resolved twice")),
        }
        None
    }

    /// One answer to each question, and no others (spec Q3).
    fn answered(&mut self, answered: &Answered) {
        self.findings.counts.answered += 1;
        let Some(asked) = self.resolve(answered.n) else { return };
        let [action] = asked.actions.as_slice() else {
            return self.wrong("Q2", &format!("question {} is not one call", answered.n));
        };
        let questions: Option<Questions> = serde_json::from_str(action.args.text()).ok();
        let questions = questions.map(|asked| asked.questions).unwrap_or_default();
        let asked_for = questions.iter().map(|question| &question.question);
        if asked.kind != Kind::Question || !asked_for.eq(answered.answers.0.iter().map(|(question, _)| question)) {
            self.wrong("Q3", &format!("the answers of {} are not those to its questions", answered.n));
        }
        let call = self.calls.entry(action.call).or_default();
        call.responded = true;
        call.answers = Some(answered.answers.clone());
    }

    fn refused(&mut self, n: InterruptionNo) {
        let Some(asked) = self.resolve(n) else { return };
        for action in &asked.actions {
            let call = self.calls.entry(action.call).or_default();
            call.closed = true;
            call.rejected |= asked.kind != Kind::InDoubt;
        }
    }

    fn decided(&mut self, in_doubt: bool, action: &Action, decision: &Decision) {
        let call = self.calls.entry(action.call).or_default();
        match (decision.kind(), in_doubt) {
            (DecisionType::Approve, true) => call.again += 1,
            (DecisionType::Approve, false) => {
                call.permission = Some((action.name.clone(), action.args.digest().to_string()))
            }
            (DecisionType::Edit, _) => {
                call.edited = true;
                call.permission =
                    decision.edited().map(|edited| (edited.name.as_str().into(), edited.args.digest().to_string()));
            }
            (DecisionType::Reject, true) => call.closed = true,
            (DecisionType::Reject, false) => {
                call.rejected = true;
                self.findings.counts.rejected += 1;
            }
            (DecisionType::Respond, _) => {
                call.closed = true;
                call.responded = true;
                self.findings.counts.responded += u64::from(!in_doubt);
            }
            // Deferred.
            _ => {}
        }
    }

    fn started(&mut self, n: CallNo, attempt: u32) {
        let call = self.calls.entry(n).or_default();
        let earlier = call.starts.len();
        let next = u32::try_from(earlier).unwrap_or(u32::MAX).saturating_add(1);
        let mut wrongs = Vec::new();
        if call.permission.is_none() {
            wrongs.push(("R1", "was started without permission"));
        }
        if call.rejected || call.closed {
            wrongs.push(("R1", "was started after a person had refused it"));
        }
        if attempt != next {
            wrongs.push(("R4", "was started with the wrong attempt number"));
        }
        if earlier > call.again && !call.idempotent {
            wrongs.push(("R4", "was started again without approval"));
        }
        if !call.finished.is_empty() {
            wrongs.push(("R4", "was started after it had its result"));
        }
        if earlier > 0 {
            let counts = &mut self.findings.counts;
            *(if call.idempotent { &mut counts.again_idempotent } else { &mut counts.again_by_person }) += 1;
        }
        call.starts.push((attempt, call.permission.clone()));
        for (promise, what) in wrongs {
            self.wrong(promise, &format!("call {n} {what}"));
        }
    }

    fn finished(&mut self, finished: &CallFinished) {
        let call = self.calls.entry(finished.call).or_default();
        call.finished.push(finished.clone());
        let n = finished.call;
        let rejected = call.rejected && finished.status == CallStatus::Success;
        let other_answers = call.answers.as_ref().is_some_and(|answers| {
            finished.status != CallStatus::Success
                || serde_json::from_str(&finished.output).ok().as_ref() != Some(answers)
        });
        let from_nothing = finished.status == CallStatus::Success && call.starts.is_empty() && !call.responded;
        if rejected {
            self.wrong("R1", &format!("call {n} was refused and has the result of a success"));
        }
        if other_answers {
            self.wrong("Q3", &format!("call {n} has a result that is not what was answered"));
        }
        if from_nothing {
            self.wrong("R4", &format!("call {n} has a result without a source"));
        }
    }

    /// What must hold at the end, and the effects.
    pub(super) fn end(mut self, effects: &mut HashMap<(&'a str, CallNo), Vec<&Line>>) {
        if self.active {
            self.wrong("A10", "the session is stuck: its last turn has not ended");
        }
        let open: Vec<InterruptionNo> =
            self.questions.iter().filter(|(_, q)| q.resolved == 0).map(|(n, _)| *n).collect();
        if !open.is_empty() {
            self.wrong("R2", &format!("interruptions {open:?} were never resolved"));
        }
        for (n, call) in std::mem::take(&mut self.calls) {
            self.findings.counts.calls += 1;
            if call.finished.len() != 1 {
                self.wrong("R4", &format!("call {n} has {} results", call.finished.len()));
            }
            let lines = effects.remove(&(self.session, n)).unwrap_or_default();
            self.effects(n, &call, &lines);
        }
    }

    fn effects(&mut self, n: CallNo, call: &Call, lines: &[&Line]) {
        let begun: Vec<_> = lines.iter().filter(|line| line.what == What::Begin).collect();
        for line in &begun {
            let counts = &mut self.findings.counts;
            *(if call.gated { &mut counts.gated_effects } else { &mut counts.free_effects }) += 1;
            counts.edited_effects += u64::from(call.edited);
            match call.starts.iter().find(|(attempt, _)| *attempt == line.attempt) {
                None => self.wrong("R4", &format!("call {n}: attempt {} ran and is not in the journal", line.attempt)),
                Some((_, Some((tool, digest)))) if **tool == line.tool && *digest == line.digest => {}
                Some(_) => {
                    self.wrong("R1", &format!("call {n}: {} ran with arguments that were not allowed", line.tool))
                }
            }
        }
        if call.rejected && !begun.is_empty() {
            self.wrong("R1", &format!("call {n} was refused and ran"));
        }
        for (attempt, _) in &call.starts {
            if begun.iter().filter(|line| line.attempt == *attempt).count() > 1 {
                self.wrong("R4", &format!("call {n}: attempt {attempt} ran twice"));
            }
        }
        if begun.len() > 1 + call.again && !call.idempotent {
            self.wrong(
                "R4",
                &format!("call {n} ran {} times; people approved another attempt {} times", begun.len(), call.again),
            );
        }
        let succeeded = call.finished.iter().any(|finished| finished.status == CallStatus::Success);
        if succeeded && !call.responded {
            let last = call.starts.last().map(|(attempt, _)| *attempt);
            if !lines.iter().any(|line| line.what == What::End && Some(line.attempt) == last) {
                self.wrong("R4", &format!("call {n} is reported as a success and never ended"));
            }
            let said =
                call.finished.iter().all(|finished| finished.output.contains(&format!("{}/c{n}/", self.session)));
            if !said {
                self.wrong("R4", &format!("call {n} has the result of another"));
            }
        }
    }
}
