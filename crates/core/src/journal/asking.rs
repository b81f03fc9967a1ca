//! Asking people: which calls of an answer share a request, and what it shows of them (spec G2, W4).

use std::sync::Arc;

use super::{
    draft::{Catalog, Draft},
    graph,
    record::{Action, Interrupted, Kind, Millis, Note, Noted, Record, after},
    state::{Call, Deadline, Phase, State},
};
use crate::{
    approval::question::Questions,
    call::{
        gate::{Ask, DecisionType},
        reviewer::Reviewer,
        timeout::Timeout,
    },
    journal::digest,
    locale::Text,
    number::RunNo,
};

impl Draft {
    /// Makes the requests that are due: lost calls one by one, gated calls by role once nothing else of the answer
    /// can run without them (spec G2, W4).
    pub(super) fn ask(&mut self, catalog: &dyn Catalog) {
        if !self.state.status.is_active() {
            return;
        }
        for call in self.state.calls.iter().filter(|call| call.phase == Phase::Lost).cloned().collect::<Vec<_>>() {
            let asks = call.asks().cloned().unwrap_or_default();
            let allowed = if asks.may_run() { DecisionType::IN_DOUBT.to_vec() } else { DecisionType::ENDED.to_vec() };
            let mut ask = Ask { timeout: Timeout::Never, allowed: Some(allowed), ..asks };
            if call.input.as_ref().is_some_and(|input| input.forgotten) {
                let why = self.state.locale.text(Text::AnswerForgotten).to_owned();
                ask.reason = Some(ask.reason.map_or_else(|| why.clone(), |reason| format!("{reason}; {why}")));
            }
            let action = self.state.action(&call, Arc::new(ask), catalog);
            let content = call.display.stream.display_as_content;
            self.interrupt(Kind::InDoubt, action.into_iter().collect(), None, content);
        }
        self.ask_inputs();
        if self.state.loop_node().is_none_or(|node| node == graph::APPROVAL) {
            self.ask_in(RunNo::ROOT, catalog);
        }
        for run in self.state.nested.iter().map(|nested| nested.call.run()).collect::<Vec<_>>() {
            self.ask_in(run, catalog);
        }
    }

    /// Asks about the gated calls of one agent's answer.
    fn ask_in(&mut self, run: RunNo, catalog: &dyn Catalog) {
        if self.state.calls_of(run).any(|call| call.phase == Phase::Proposed || call.goes_on()) {
            return;
        }
        loop {
            let Some(first) = self.state.calls_of(run).find(|c| c.phase == Phase::Gated) else { return };
            let same = asked_of(first);
            let together = |c: &&Call| {
                c.phase == Phase::Gated
                    && c.run == run
                    && asked_of(c) == same
                    // Each question has its own request.
                    && if first.question { c.call == first.call } else { !c.question }
            };
            let group: Vec<&Call> = self.state.calls.iter().filter(together).collect();
            let kind = if first.question { Kind::Question } else { Kind::Approval };
            let mut deadline: Option<Millis> = None;
            let mut actions = Vec::with_capacity(group.len());
            for call in &group {
                let ask = call.ask.clone().unwrap_or_default();
                let own = match call.deadline {
                    Deadline::Fresh => self.due_in(kind, ask.timeout),
                    Deadline::Never => None,
                    Deadline::At(at) => Some(at),
                };
                deadline = match (deadline, own) {
                    (Some(a), Some(b)) => Some(a.min(b)),
                    (a, b) => a.or(b),
                };
                actions.extend(self.state.action(call, ask, catalog));
            }
            let content = first.question || group.iter().all(|call| call.display.stream.display_as_content);
            if !self.interrupt(kind, actions, deadline, content) {
                return;
            }
        }
    }

    fn interrupt(&mut self, kind: Kind, actions: Vec<Action>, expires_at: Option<Millis>, content: bool) -> bool {
        if actions.is_empty() {
            return false;
        }
        let n = self.state.next_interruption();
        let assignee = actions.first().and_then(|action| self.state.call(action.call)?.assignee.clone());
        self.ask_people(Interrupted {
            n,
            kind,
            actions,
            expires_at,
            display_as_content: content,
            question: None,
            clock: None,
        });
        if assignee.is_some() {
            let note = Note::Reassigned { role: None, subject: assignee, text: None };
            self.push(Record::Noted(Noted { n, note, by: None, request_id: None }));
        }
        true
    }

    /// Records a request, under the digests that identify it from now on.
    pub(super) fn ask_people(&mut self, mut asked: Interrupted) {
        asked.clock = (self.now < self.state.updated_at).then_some(self.now);
        let digests: Vec<String> = asked.actions.iter().map(|action| digest::of(&self.state, &asked, action)).collect();
        for (action, digest) in asked.actions.iter_mut().zip(digests) {
            action.digest = digest.into();
        }
        self.push(Record::Interrupted(Arc::new(asked)));
    }

    /// The deadline for those who are asked now.
    pub(super) fn due_in(&self, kind: Kind, timeout: Timeout) -> Option<Millis> {
        let seconds = kind.timeout_seconds(timeout);
        (seconds > 0).then(|| after(self.now, seconds))
    }
}

impl State {
    /// What people would be shown of one of its calls if they were asked about it like this; `None` for a call without arguments,
    /// about which nobody is asked.
    #[must_use]
    pub fn action(&self, call: &Call, ask: Arc<Ask>, catalog: &dyn Catalog) -> Option<Action> {
        let facts = catalog.tool(&call.agent, &call.name).unwrap_or_default();
        // A call without arguments ended at the gate: nobody is asked about it.
        let mut args = call.args.clone()?;
        if call.question {
            // What is shown is what is answered: the questions with the added option. They were checked at the gate.
            if let Some(asked) = Questions::read(&args, self.locale).ok().and_then(|asked| asked.args()) {
                args = asked;
            }
        }
        Some(Action {
            call: call.call,
            tool_use_id: call.id.clone(),
            agent: call.agent.clone(),
            name: call.name.clone(),
            args,
            ask,
            level: call.level,
            instead: call.instead.clone(),
            description: facts.description,
            schema: facts.schema,
            source: facts.source,
            agent_says: call.display.agent_says().cloned(),
            title: call.display.title().cloned(),
            path: self.path(call),
            preview: call.preview.clone(),
            digest: Arc::default(),
        })
    }
}

/// Who is asked about a call, and who is excluded: calls that agree in both share a request (spec W4).
#[derive(PartialEq)]
struct AskedOf<'a> {
    reviewer: &'a Reviewer,
    quorum: u32,
    not_self: bool,
    approved_by: &'a [Arc<str>],
    assignee: Option<&'a Arc<str>>,
    /// One that was deferred keeps its deadline, and takes no time from the others.
    deadline: Deadline,
}

fn asked_of(call: &Call) -> AskedOf<'_> {
    let ask = call.ask.as_deref();
    let level = || ask.map_or(Reviewer::OWNER, |ask| ask.reviewer(call.level));
    let reviewer = call.instead.as_ref().unwrap_or_else(level);
    AskedOf {
        reviewer,
        quorum: ask.filter(|_| !reviewer.is_owner()).map_or(1, |ask| ask.quorum),
        not_self: ask.is_some_and(|ask| ask.not_self),
        approved_by: &call.approved_by,
        assignee: call.assignee.as_ref(),
        deadline: call.deadline,
    }
}
