//! Tools that change while a call of them waits: what was approved is not what would run (spec S13, R1).

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::{
    asked::{Action, Interrupted, Kind, Schema},
    draft::{Catalog, Draft, ToolFacts, Transition},
    record::Record,
    state::{Call, Phase, State},
};
use crate::{
    call::{args::Digest, gate::Target},
    locale::{Locale, Text},
};

/// The tool of a call as those who decide have seen it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shown {
    /// The tool.
    pub tool: Arc<str>,
    /// The digest of its description, its schema and where it comes from; empty if not all levels have seen the same.
    pub digest: Arc<str>,
}

impl Shown {
    fn of(action: &Action) -> Shown {
        let digest = digest(action.description.as_deref(), action.schema.as_deref(), action.source.as_deref(), None);
        Shown { tool: action.name.clone(), digest }
    }
}

/// What tells a tool that people were shown from the tool of today: the digest of its description, its schema, where it
/// comes from, and which agent it is for. A standing rule that approves is for the tool of one signature (spec S7, S13).
#[must_use]
pub fn signature(tool: &ToolFacts) -> Arc<str> {
    let ToolFacts { description, schema, source, target, .. } = tool;
    digest(description.as_deref(), schema.as_deref(), source.as_deref(), target.as_ref())
}

/// The part of it that is told with a request: the digest of the tool's description, its schema and where it comes from.
#[must_use]
pub fn words(tool: &ToolFacts) -> Arc<str> {
    digest(tool.description.as_deref(), tool.schema.as_deref(), tool.source.as_deref(), None)
}

fn digest(
    description: Option<&str>,
    schema: Option<&Schema>,
    source: Option<&str>,
    target: Option<&Target>,
) -> Arc<str> {
    // A JSON text cannot begin with what ends a description here, nor have it within.
    let mut parts = vec![description.unwrap_or_default(), "\0", schema.map_or("", |schema| schema.0.get())];
    if let Some(source) = source {
        parts.extend(["\0", source]);
    }
    if let Some(target) = target {
        // Nor can a source be empty.
        let (kind, agent) = match target {
            Target::Agent(agent) => ("agent", agent),
            Target::Handoff(agent) => ("handoff", agent),
        };
        parts.extend(["\0\0", kind, "\0", agent]);
    }
    Digest::of_all(&parts).to_string().into()
}

impl Call {
    /// Notes what those who are asked see of the tool.
    fn is_shown(&mut self, action: &Action) {
        let mut shown = Shown::of(action);
        if action.level > 0 && self.shown.as_ref().is_some_and(|before| *before != shown) {
            // Another level has seen something else: whatever it is today, somebody has not seen it.
            shown.digest = Arc::from("");
        }
        self.shown = Some(shown);
    }

    /// Whether its tool is another one today than those who allowed the call have seen, or what stood in for them, or is for
    /// another agent. One that is gone, or does not take the arguments any more, is not asked about again: the call fails when
    /// it begins.
    pub(super) fn is_outdated(&self, catalog: &dyn Catalog) -> bool {
        let shown = match (&self.shown, &self.stood_in) {
            (Some(shown), _) if shown.tool == self.name => &shown.digest,
            (None, Some(stood_in)) => &stood_in.shown,
            _ => return false,
        };
        let Some(today) = catalog.tool(&self.agent, &self.name) else { return false };
        let same = *shown == words(&today) && self.target == today.target;
        !same && self.args.as_ref().is_some_and(|args| catalog.accepts(&self.agent, &self.name, args))
    }

    /// Why a call for another agent cannot begin, if it cannot: its tool is gone, or takes other arguments.
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
    /// The [`signature`] of the tool that an action shows, of a call of this session. A standing approval is for that tool.
    #[must_use]
    pub fn signature_shown(&self, action: &Action) -> Arc<str> {
        let target = self.calls.iter().find(|call| call.call == action.call).and_then(|call| call.target.as_ref());
        digest(action.description.as_deref(), action.schema.as_deref(), action.source.as_deref(), target)
    }

    /// Those of `calls` that were allowed with another tool before people's eyes than they would run today.
    #[must_use]
    pub fn outdated(&self, calls: &[u32], catalog: &dyn Catalog) -> Vec<u32> {
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
            if let Some(call) = self.calls.iter_mut().find(|call| call.call == action.call) {
                call.is_shown(action);
            }
        }
    }

    /// The call is asked about again, with its tool as it is now.
    pub(super) fn call_outdated(&mut self, call: u32, target: Option<&Target>) {
        let text = self.locale.text(Text::ToolChanged);
        let Some(call) = self.calls.iter_mut().find(|c| c.call == call && c.phase == Phase::Permitted) else { return };
        call.shown = None;
        call.target = target.cloned();
        // What it has begun is not what would go on: it is begun anew, if it is.
        call.forget_attempt();
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
    /// Asks again about those of `calls` that were allowed with another description or schema of their tool before their
    /// eyes than it has today, or another tool of the same words; none of them begins. `None` if there are none.
    #[must_use]
    pub fn outdated(mut self, calls: &[u32], catalog: &dyn Catalog) -> Option<Transition> {
        let outdated = self.state.outdated(calls, catalog);
        if outdated.is_empty() {
            return None;
        }
        for call in outdated {
            self.outdate(call, catalog);
        }
        Some(self.settle(catalog))
    }

    /// A call that was allowed is asked about again.
    pub(super) fn outdate(&mut self, call: u32, catalog: &dyn Catalog) {
        let found = self.state.calls.iter().find(|found| found.call == call);
        let today = found.and_then(|call| catalog.tool(&call.agent, &call.name));
        self.push(Record::CallOutdated { call, target: today.and_then(|tool| tool.target) });
    }
}
