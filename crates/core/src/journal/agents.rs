//! Agents that work for other agents: handoffs, and agents as tools (spec S4, S5, S25).
//!
//! All of a session's agents share its one journal. An agent that was called as a tool has its own run, identified
//! by the number of the call it works for; the session's own agent has the root run. Calls, interruptions and decisions
//! are numbered across the whole session, so a person answers the session at whatever depth a request came up, and a
//! resume covers no more than what was pending.
//!
//! Sessions inside sessions would need a transaction over several journals for every decision, fork and saved state. In
//! one journal, numbers, interruptions, standing rules, the audit log, forks and saved states need not know about
//! depth, and everything is stored once. The wire shows the session's own conversation; of nested runs it shows only
//! requests to people, with the path.
//!
//! A handoff is carried out in the transition that finishes the last other call of its answer, so no call is ever
//! pending while another agent already answers.
//!
//! Whether an agent may end with a call's result is recorded with the verdict
//! ([`Gate::ends`](crate::call::gate::Gate::ends)). A partial resume therefore cannot lose it, and a rule that is set
//! later does not apply to calls made before.

use std::sync::Arc;

use super::{
    draft::{CallResult, Catalog, Draft, Transition},
    graph,
    record::{AgentBegan, CallStatus, HandedOff, ModelResponded, PathStep, Record, Withdrawal},
    state::{Call, Nested, Phase, State, parts::finished},
};
use crate::{
    call::{
        args::Args,
        gate::{Gate, Target},
    },
    limits,
    locale::Text,
    number::{CallNo, RunNo},
};

impl State {
    /// The agent that answers in a run.
    #[must_use]
    pub fn agent_of(&self, run: RunNo) -> &Arc<str> {
        self.nested(run).map_or(&self.agent, |nested| &nested.agent)
    }

    /// A nested run that has not ended.
    #[must_use]
    pub fn nested(&self, run: RunNo) -> Option<&Nested> {
        self.nested.iter().find(|nested| nested.call.run() == run)
    }

    /// The calls of the latest answer of a run, in the model's order.
    pub fn calls_of(&self, run: RunNo) -> impl Iterator<Item = &Call> + Clone {
        self.calls.iter().filter(move |call| call.run == run)
    }

    /// The nested runs whose models are asked next.
    pub fn asking(&self) -> impl Iterator<Item = &Nested> {
        let active = self.status.is_active();
        self.nested.iter().filter(move |nested| {
            active && !nested.answered && self.calls_of(nested.call.run()).all(|call| call.phase == Phase::Finished)
        })
    }

    /// Whether a run waits for its model's answer. A late answer from an abandoned process is not wanted.
    #[must_use]
    pub fn wants_answer(&self, run: RunNo) -> bool {
        if run.is_nested() {
            return self.asking().any(|nested| nested.call.run() == run);
        }
        self.status.is_active()
            && !self.answered
            && self.calls_of(RunNo::ROOT).all(|call| call.phase == Phase::Finished)
            && self.loop_node().is_none_or(|node| node == graph::AGENT)
    }

    /// Whether a handoff must be carried out, or requested again, before anything else.
    pub(super) fn hands_off(&self) -> bool {
        let due = |call: &Call| hands_off(call) && self.calls_of(call.run).all(is_settled);
        self.status.is_active() && !self.held && self.calls.iter().any(due)
    }

    /// How a call was reached from the session's own agent; empty for that agent's own calls.
    #[must_use]
    pub fn path(&self, call: &Call) -> Vec<PathStep> {
        let mut path = Vec::new();
        let mut run = call.run;
        while let Some(outer) = self.caller(run) {
            path.push(PathStep { agent: outer.agent.clone(), tool: outer.name.clone(), call_id: outer.id.clone() });
            run = outer.run;
        }
        path.reverse();
        path
    }

    /// The calls of the agent that works for call `run`, and of the agents nested below it.
    pub fn calls_within(&self, run: RunNo) -> impl Iterator<Item = &Call> {
        let above = |call: &Call| self.caller(call.run);
        self.calls
            .iter()
            .filter(move |call| std::iter::successors(Some(*call), |call| above(call)).any(|call| call.run == run))
    }

    /// How many nested agents are above a call.
    #[must_use]
    pub fn depth(&self, call: &Call) -> usize {
        std::iter::successors(self.caller(call.run), |call| self.caller(call.run)).count()
    }

    pub(super) fn agent_began(&mut self, began: &AgentBegan, pos: u64) {
        self.nested.push(Nested {
            call: began.call,
            agent: began.agent.clone(),
            turn_calls: 0,
            began: pos,
            answered: false,
        });
        self.set_phase(began.call, |_| Phase::Delegated);
    }

    pub(super) fn handed_off(&mut self, handed: &HandedOff) {
        if handed.call.is_none() {
            self.agent = handed.agent.clone();
            self.end_no_turn(RunNo::ROOT);
        }
        let Some(run) = self.call(handed.call).map(|call| call.run) else { return };
        self.end_no_turn(run);
        match self.nested.iter_mut().find(|nested| nested.call.run() == run) {
            Some(nested) => nested.agent = handed.agent.clone(),
            None => self.agent = handed.agent.clone(),
        }
    }

    /// The results of the latest answer's calls are not the final output of the agent that answers now, or after what
    /// was said since.
    pub(super) fn end_no_turn(&mut self, run: RunNo) {
        for call in self.calls.iter_mut().filter(|call| call.run == run) {
            (call.ends, call.result) = (false, None);
        }
    }

    /// The run that worked for a call has ended, with everything nested in it.
    pub(super) fn agent_ended(&mut self, run: RunNo) {
        if self.nested(run).is_none() {
            return;
        }
        self.nested.retain(|nested| nested.call.run() != run);
        let inner: Vec<RunNo> = self.calls_of(run).map(|call| call.call.run()).collect();
        self.calls.retain(|call| call.run != run);
        inner.into_iter().for_each(|run| self.agent_ended(run));
    }
}

impl Call {
    /// The agent it hands the conversation to, if it does.
    #[must_use]
    pub fn handoff(&self) -> Option<&Arc<str>> {
        match &self.target {
            Some(Target::Handoff(agent)) => Some(agent),
            _ => None,
        }
    }
}

/// The input of an agent that is called as a tool: the text of `input`, else all of its arguments.
#[must_use]
pub fn input(args: &Args) -> String {
    match args.value().get("input").and_then(|input| input.as_str()) {
        Some(text) => text.to_owned(),
        None => args.text().to_owned(),
    }
}

impl Draft {
    /// The model of a nested agent failed, and is not retried: its caller gets the error.
    pub fn agent_failed(mut self, run: RunNo, message: &str, catalog: &dyn Catalog) -> Transition {
        if !self.state.wants_answer(run) {
            return self.finish();
        }
        self.end_agent(run, CallStatus::Error, message);
        self.settled(catalog)
    }

    /// The model of a nested agent has answered, and one of the answer's calls ends the agent's work: its caller gets
    /// `message`. `gates` are the verdicts, as for [`Draft::model_responded`]; refused calls have that result, and
    /// nothing else begins.
    pub fn model_stopped(
        mut self,
        answer: ModelResponded,
        gates: Vec<Gate>,
        message: &str,
        catalog: &dyn Catalog,
    ) -> Transition {
        let run = answer.run;
        if run.is_root() || !self.state.wants_answer(run) {
            return self.finish();
        }
        self.push_answer(answer);
        self.push(Record::CallsGated(gates));
        self.stop_agent(run, message);
        self.settled(catalog)
    }

    /// The application switches the session's agent (spec S19). Pending requests stay with the agents that made them.
    pub fn set_agent(mut self, agent: Arc<str>) -> Transition {
        self.push(Record::HandedOff(HandedOff { call: CallNo::NONE, agent }));
        self.finish()
    }

    /// The agents that permitted calls target begin to work. Where some of them cannot, those calls fail, and the
    /// others begin with the next append.
    pub(super) fn delegate(&mut self, calls: &[CallNo], catalog: &dyn Catalog) {
        let begins = |call: &&Call| {
            calls.contains(&call.call)
                && call.phase == Phase::Permitted
                && call.args.is_some()
                && matches!(call.target, Some(Target::Agent(_)))
        };
        let calls: Vec<Call> = self.state.calls.iter().filter(begins).cloned().collect();
        let mut all_begin = true;
        for call in &calls {
            if let Some(why) = self.cannot_delegate(call, catalog) {
                self.push(finished(call, CallStatus::Error, &why, None, self.state.locale));
                all_begin = false;
            }
        }
        for call in calls.iter().filter(|_| all_begin) {
            if let (Some(Target::Agent(agent)), Some(args)) = (&call.target, &call.args) {
                self.push(Record::AgentBegan(AgentBegan { call: call.call, agent: agent.clone(), input: input(args) }));
            }
        }
        self.settle(catalog);
    }

    fn cannot_delegate(&self, call: &Call, catalog: &dyn Catalog) -> Option<String> {
        if self.state.depth(call) >= limits::AGENT_DEPTH {
            let depth = limits::AGENT_DEPTH.to_string();
            return Some(self.state.locale.fill(Text::TooDeep, &[("depth", &depth)]));
        }
        call.cannot_begin(catalog, self.state.locale)
    }

    /// The agent that works for call `run` has given its last answer.
    pub(super) fn agent_answered(&mut self, run: RunNo, text: &str) {
        self.end_agent(run, CallStatus::Success, text);
    }

    /// The agent that works for call `run` fails: its caller gets the error.
    pub(super) fn end_agent(&mut self, run: RunNo, status: CallStatus, text: &str) {
        let inner: Vec<RunNo> =
            self.state.calls_of(run).filter(|call| call.phase != Phase::Finished).map(|call| call.call.run()).collect();
        for run in inner {
            let text = self.state.locale.text(Text::Cancelled).to_owned();
            self.end_agent(run, CallStatus::Error, &text);
        }
        if let Some(call) = self.state.caller(run).cloned() {
            self.push(finished(&call, status, text, None, self.state.locale));
        }
    }

    /// Stops the agent that works for call `run`, with all its open work: pending requests are withdrawn, and each of
    /// its calls has a result before its caller has one.
    pub(super) fn stop_agent(&mut self, run: RunNo, message: &str) {
        let within: Vec<Call> = self.state.calls_within(run).cloned().collect();
        self.withdraw(None, Withdrawal::CallEnded, |open| {
            let mut actions = open.asked.actions.iter();
            actions.any(|action| within.iter().any(|call| call.call == action.call))
        });
        self.give_up(within);
        if let Some(call) = self.state.caller(run).cloned() {
            self.push(finished(&call, CallStatus::Error, message, None, self.state.locale));
        }
    }

    /// Adds the consequences among agents: handoffs once the other calls of their answer have finished, runs that end
    /// with a tool's result, and runs that have used up their model calls.
    pub(super) fn settle_agents(&mut self, catalog: &dyn Catalog) {
        // Inner runs end before outer ones, whose calls they finish.
        while self.state.status.is_active() && !self.state.held && self.settle_one(catalog) {}
    }

    fn settle_one(&mut self, catalog: &dyn Catalog) -> bool {
        for run in self.state.nested.iter().rev().map(|nested| nested.call.run()).chain(std::iter::once(RunNo::ROOT)) {
            if !self.state.calls_of(run).all(is_settled) {
                continue;
            }
            let handoffs: Vec<Call> = self.state.calls_of(run).filter(|call| hands_off(call)).cloned().collect();
            if !handoffs.is_empty() {
                self.hand_off(handoffs.iter(), catalog);
                return true;
            }
            let results = results(self.state.calls_of(run));
            if !results.is_empty()
                && let Some(output) = catalog.final_output(self.state.agent_of(run), &results)
            {
                if run.is_root() {
                    self.end_turn(Some(output));
                } else {
                    self.end_agent(run, CallStatus::Success, &output);
                }
                return true;
            }
            if self.state.nested(run).is_some() && self.state.calls_left(run, catalog) == 0 {
                let text = self.state.locale.text(Text::MaxTurns).to_owned();
                self.end_agent(run, CallStatus::Error, &text);
                return true;
            }
        }
        false
    }

    /// The first of several wins, as in a conversation between people; none does while one of them must be requested
    /// again.
    fn hand_off<'a>(&mut self, calls: impl Iterator<Item = &'a Call> + Clone, catalog: &dyn Catalog) {
        let locale = self.state.locale;
        let outdated: Vec<CallNo> =
            calls.clone().filter(|call| call.is_outdated(catalog)).map(|call| call.call).collect();
        if !outdated.is_empty() {
            return outdated.into_iter().for_each(|call| self.outdate(call, catalog));
        }
        let mut gone = false;
        for call in calls.clone() {
            if let Some(why) = call.cannot_begin(catalog, locale) {
                self.push(finished(call, CallStatus::Error, &why, None, locale));
                gone = true;
            }
        }
        if gone {
            return;
        }
        let mut calls = calls;
        if let Some(call) = calls.next()
            && let Some(agent) = call.handoff()
        {
            self.push(Record::HandedOff(HandedOff { call: call.call, agent: agent.clone() }));
            let text = locale.fill(Text::HandedOff, &[("agent", agent)]);
            self.push(finished(call, CallStatus::Success, &text, None, locale));
        }
        for call in calls {
            let text = locale.text(Text::HandedOffAlready).to_owned();
            self.push(finished(call, CallStatus::Error, &text, None, locale));
        }
    }
}

/// Whether a call hands off as soon as all others of its answer have finished.
fn hands_off(call: &Call) -> bool {
    call.phase == Phase::Permitted && call.handoff().is_some()
}

fn is_settled(call: &Call) -> bool {
    call.phase == Phase::Finished || hands_off(call)
}

fn results<'a>(calls: impl Iterator<Item = &'a Call>) -> Vec<CallResult<'a>> {
    calls
        .filter_map(|call| {
            let (status, output) = call.result.as_ref()?;
            Some(CallResult { tool: &call.name, status: *status, output })
        })
        .collect()
}
