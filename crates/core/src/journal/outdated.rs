//! Tools that change while a call to them is pending: what was approved is not what would run (spec S13, R1).
//!
//! What people have seen of a tool is folded from their requests; an approval of something else starts nothing, and the
//! call is requested again. A verdict in a person's place (a standing rule, a program) records whom it replaced and
//! which tool it was about (`Gate::stood_in`), so such a call is asked about, too, if its tool changes before it
//! begins.
//!
//! This holds for functions, agents as tools and handoffs. For an agent it covers the tool's description and schema,
//! which reviewers were shown, and the agent's name; the agent's instructions and tools are its own, as a function's
//! code is. The core checks handoffs where they are carried out, the driver checks the others before they begin, and a
//! step that finds a change begins none of the calls affected. A call of an agent's tool that is gone, or takes other
//! arguments now, fails as any call does.

use std::sync::Arc;

use super::{
    draft::{Catalog, Draft, ToolFacts},
    record::{Action, Interrupted, Kind, Record},
    schema::{Words, digest},
    state::{Call, Phase, Shown, State},
};
use crate::{
    call::gate::Target,
    locale::{Locale, Text},
    number::CallNo,
};

/// Identifies the tool that people were shown: the digest of its description, its schema, its source, and the agent it
/// targets. A standing rule that approves covers the tool of one signature (spec S7, S13).
#[must_use]
pub fn signature(tool: &ToolFacts) -> Arc<str> {
    let ToolFacts { description, schema, source, target, .. } = tool;
    digest(description.as_deref(), schema.as_deref(), source.as_deref(), target.as_ref())
}

/// The part of it that a request shows: the digest of the tool's description, its schema and its source.
#[must_use]
pub fn words(tool: &ToolFacts) -> Arc<str> {
    Words::digest(tool.description.as_ref(), tool.schema.as_deref(), tool.source.as_ref())
}

impl Call {
    /// Notes what the reviewers see of the tool. People are asked from the first level to the last, and from the last to
    /// the first about a call whose outcome is unknown.
    fn is_shown(&mut self, kind: Kind, action: &Action) {
        let mut shown = Shown::of(action);
        let begins_at = if kind == Kind::InDoubt { action.ask.last_level() } else { 0 };
        if action.level != begins_at && self.shown.as_ref().is_some_and(|before| *before != shown) {
            // Another level has seen something else: whatever the tool is today, one of them has not seen it.
            shown.digest = Arc::from("");
        }
        self.shown = Some(shown);
    }

    /// The [`words`] of the tool that was allowed, by its reviewers or by a rule or program in their place; `None` if
    /// nobody was to be asked.
    #[must_use]
    pub fn allowed_tool(&self) -> Option<&Arc<str>> {
        match (&self.shown, &self.stood_in) {
            (Some(shown), _) => Some(&shown.digest).filter(|_| shown.tool == self.name),
            (None, Some(stood_in)) => Some(&stood_in.tool_digest),
            (None, None) => None,
        }
    }

    /// Whether its tool differs today from the one that was allowed, by its reviewers or by a rule or program in their
    /// place, or it targets another agent. A call whose tool is gone, or no longer takes the arguments, is not
    /// requested again: it fails when it begins.
    pub(super) fn is_outdated(&self, catalog: &dyn Catalog) -> bool {
        let Some(shown) = self.allowed_tool() else { return false };
        let Some(today) = catalog.tool(&self.agent, &self.name) else { return false };
        let same = *shown == words(&today) && self.target == today.target;
        !same && self.args.as_ref().is_some_and(|args| catalog.accepts(&self.agent, &self.name, args))
    }

    /// Whether it may begin again after an attempt of unknown outcome: its tool was declared idempotent when it was
    /// asked about, and still is. Today's declaration alone does not upgrade an old call.
    #[must_use]
    pub fn may_repeat(&self, catalog: &dyn Catalog) -> bool {
        self.idempotent && catalog.tool(&self.agent, &self.name).is_some_and(|tool| tool.idempotent)
    }

    /// Why a call that targets another agent cannot begin, if it cannot: its tool is gone, or takes other arguments.
    pub(super) fn cannot_begin(&self, catalog: &dyn Catalog, locale: Locale) -> Option<String> {
        if catalog.tool(&self.agent, &self.name).is_none() {
            let tool = format!("{:?}", &*self.name);
            return Some(locale.fill(Text::ToolGone, &[("tool", &tool)]));
        }
        let accepts = self.args.as_ref().is_some_and(|args| catalog.accepts(&self.agent, &self.name, args));
        (!accepts).then(|| locale.text(Text::ArgsOutdated).to_owned())
    }
}

impl State {
    /// The [`signature`] of the tool that an action of this session shows. A standing approval covers that tool.
    #[must_use]
    pub fn signature_shown(&self, action: &Action) -> Arc<str> {
        let target = self.call(action.call).and_then(|call| call.target.as_ref());
        digest(action.description.as_deref(), action.schema.as_deref(), action.source.as_deref(), target)
    }

    /// Those of `calls` that were allowed with another tool shown than the one they would run today.
    fn outdated(&self, calls: &[CallNo], catalog: &dyn Catalog) -> Vec<CallNo> {
        let permitted = |call: &&Call| calls.contains(&call.call) && call.phase == Phase::Permitted;
        let outdated = self.calls.iter().filter(permitted).filter(|call| call.is_outdated(catalog));
        outdated.map(|call| call.call).collect()
    }

    /// Notes what an interruption shows of the tools of its calls.
    pub(super) fn tools_shown(&mut self, asked: &Interrupted) {
        if !matches!(asked.kind, Kind::Approval | Kind::InDoubt) {
            return;
        }
        for action in &asked.actions {
            if let Some(call) = self.call_mut(action.call) {
                call.is_shown(asked.kind, action);
            }
        }
    }

    /// The call is requested again, with its current tool.
    pub(super) fn call_outdated(&mut self, call: CallNo, target: Option<&Target>) {
        let text = self.locale.text(Text::ToolChanged);
        let Some(call) = self.call_mut(call).filter(|call| call.phase == Phase::Permitted) else { return };
        call.shown = None;
        call.target = target.cloned();
        // The started attempt cannot resume: the call begins again, if at all.
        call.forget_attempt();
        call.forget_answers();
        call.asks_after_all();
        if call.attempts > 0 {
            call.lose();
        } else {
            call.ask_anew();
        }
        if let Some(ask) = call.ask.as_mut().map(Arc::make_mut) {
            ask.reason = Some(match ask.reason.take() {
                Some(reason) if reason.contains(text) => reason,
                Some(reason) => format!("{reason}; {text}"),
                None => text.to_owned(),
            });
        }
    }
}

impl Draft {
    /// Asks again about those of `calls` whose tool has another description, schema or source than when they were
    /// allowed; none of them begins. Says whether there are any.
    pub(super) fn outdate_all(&mut self, calls: &[CallNo], catalog: &dyn Catalog) -> bool {
        let outdated = self.state.outdated(calls, catalog);
        for call in &outdated {
            self.outdate(*call, catalog);
        }
        if !outdated.is_empty() {
            self.settle(catalog);
        }
        !outdated.is_empty()
    }

    /// An allowed call is requested again.
    pub(super) fn outdate(&mut self, call: CallNo, catalog: &dyn Catalog) {
        let found = self.state.call(call);
        let today = found.and_then(|call| catalog.tool(&call.agent, &call.name));
        self.push(Record::CallOutdated { call, target: today.and_then(|tool| tool.target) });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        approval::decision::EditedAction,
        call::args::Args,
        journal::{
            progress::GraphRun,
            run::{NewTask, Round},
        },
        number::TaskNo,
    };

    /// The loop is at its tools, where another call runs.
    #[test]
    fn g2_s13_r1_a_call_that_is_asked_anew_or_edited_has_passed_no_custom_node() {
        let tasks = vec![NewTask { task: TaskNo::new(1), node: "tools".into(), input: None }];
        let round = Round { tasks, arrived: Vec::new() };
        let passed = Call { call: CallNo::FIRST, phase: Phase::Permitted, cleared: true, ..Call::default() };
        let mut state = State::new("s".into());
        state.run = Some(Arc::new(GraphRun::new("g".into(), true, 1, TaskNo::NONE, &round)));
        state.calls = vec![passed.clone()];
        assert!(state.may_begin(&state.calls[0]));

        state.call_outdated(CallNo::FIRST, None);
        assert_eq!(state.calls[0].phase, Phase::Gated);
        state.calls[0].phase = Phase::Permitted;
        assert!(!state.may_begin(&state.calls[0]));

        let to = EditedAction { name: "pay".into(), args: Args::parse(r#"{"n":2}"#).expect("args") };
        state.calls = vec![passed];
        state.calls[0].changed(&to, None);
        assert!(!state.may_begin(&state.calls[0]));
    }
}
