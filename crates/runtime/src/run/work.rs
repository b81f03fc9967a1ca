//! The effects that a driver carries out: running models, tool calls and nodes.

use std::{
    collections::{BTreeSet, HashMap},
    sync::Arc,
};

use countersign_core::{
    journal::{
        outdated::words,
        permit::Permit,
        state::{Phase, State},
    },
    locale::{Locale, Text},
    number::{CallNo, RunNo},
};
use futures::{FutureExt as _, future::BoxFuture};
use tokio::task::{AbortHandle, JoinError, JoinSet};
use tracing::Instrument as _;

use super::{
    failpoint,
    inner::Inner,
    live::uses::LiveRef,
    outcomes::Done,
    spans,
    stream::{Asked, adapter_failed},
};
use crate::{
    agent::ReadyTool,
    tool::{AppContext, ToolError, order::Ticket},
};

pub(super) struct Work {
    /// The tool call, if it is one.
    pub(super) call: Option<CallNo>,
    /// In a nested run: the call whose end aborts this work, named by the run that works for it. It is the run's own
    /// call, or this one.
    pub(super) within: RunNo,
    pub(super) work: BoxFuture<'static, Done>,
}

impl Work {
    /// A model, or a node of a graph.
    pub(super) fn other(within: RunNo, work: BoxFuture<'static, Done>) -> Work {
        Work { call: None, within, work }
    }
}

/// Runs work in separate tasks: one that waits for the session's lock must not stall while the driver waits for it too.
#[derive(Default)]
pub(super) struct Running {
    /// Tool calls. They run to their end even if their turn fails.
    calls: JoinSet<Done>,
    numbers: BTreeSet<CallNo>,
    /// Models, nodes of graphs, and reaching tools' sources: they end when their turn fails.
    pub(super) others: JoinSet<Done>,
    /// The agent runs whose models are being asked.
    asking: BTreeSet<RunNo>,
    /// Work in nested runs.
    within: HashMap<RunNo, AbortHandle>,
}

impl Running {
    pub(super) fn is_empty(&self) -> bool {
        self.calls.is_empty() && self.others.is_empty()
    }

    pub(super) fn len(&self) -> usize {
        self.calls.len() + self.others.len()
    }

    pub(super) fn calls(&self) -> &BTreeSet<CallNo> {
        &self.numbers
    }

    /// How many models are being asked.
    pub(super) fn asking(&self) -> usize {
        self.asking.len()
    }

    /// Marks the model of this agent run as being asked; `false` if it already is.
    pub(super) fn asks(&mut self, run: RunNo) -> bool {
        self.asking.insert(run)
    }

    pub(super) fn spawn(&mut self, Work { call, within, work }: Work) {
        let handle = match call {
            Some(call) => {
                self.numbers.insert(call);
                self.calls.spawn(work)
            }
            None => self.others.spawn(work),
        };
        if within.is_nested() {
            self.within.insert(within, handle);
        }
    }

    pub(super) fn ended(&mut self, done: &Done) {
        match done {
            Done::Model(run, ..) => self.asking.remove(run),
            Done::Compressed(_) => self.asking.remove(&RunNo::ROOT),
            Done::Call { call, .. } | Done::Unbegun { call } => self.numbers.remove(call),
            Done::Task(_) | Done::Reached => false,
        };
    }

    /// Aborts the work for a call that has ended: an agent was stopped, with all of its work.
    pub(super) fn only_open(&mut self, state: &State) {
        let open = state.calls.iter().filter(|call| call.phase != Phase::Finished).map(|call| call.call);
        self.numbers.retain(|call| open.clone().any(|open| open == *call));
        self.within.retain(|run, work| {
            let open = open.clone().any(|open| open.run() == *run);
            if !open {
                work.abort();
            }
            open
        });
        // Aborted work reports nothing at its end.
        self.asking.retain(|run| run.is_root() || open.clone().any(|open| open.run() == *run));
    }

    /// Aborts everything, and waits until it has ended: a tool's processes end with its task.
    pub(super) async fn stop(&mut self) {
        self.stop_others().await;
        if !self.calls.is_empty() {
            self.calls.shutdown().await;
        }
        self.numbers.clear();
        self.within.clear();
    }

    /// Aborts everything but tool calls.
    pub(super) async fn stop_others(&mut self) {
        if !self.others.is_empty() {
            self.others.shutdown().await;
        }
        self.asking.clear();
    }

    /// Waits for the next one to end; `None` if nothing runs.
    pub(super) async fn next(&mut self) -> Option<Result<Done, JoinError>> {
        let done = tokio::select! {
            Some(done) = self.calls.join_next() => done,
            Some(done) = self.others.join_next() => done,
            else => return None,
        };
        Some(done.inspect(|done| self.ended(done)))
    }

    pub(super) fn try_next(&mut self) -> Option<Result<Done, JoinError>> {
        let done = self.calls.try_join_next().or_else(|| self.others.try_join_next())?;
        Some(done.inspect(|done| self.ended(done)))
    }
}

impl Inner {
    /// One attempt of a call, as work.
    pub(super) fn call_work(
        self: &Arc<Self>,
        state: &State,
        (permit, term): (Permit, Option<u64>),
        context: &AppContext,
        part: &mut spans::Part,
    ) -> Work {
        let span = part.call(self, state, &permit);
        let call = CallNo::new(permit.call());
        let allowed = state.call(call).and_then(|call| call.allowed_tool().cloned());
        // The calls are still in the model's order here.
        let tool = self.agents.get(permit.agent()).and_then(|agent| agent.tool(permit.tool()));
        let ticket = tool.and_then(|tool| tool.entry.ticket(permit.session_id()));
        let is_nested = state.call(call).is_some_and(|call| call.run.is_nested());
        let (call, within) = (Some(call), if is_nested { call.run() } else { RunNo::ROOT });
        let work = self.clone().run_call((permit, term, ticket), allowed, context.clone()).instrument(span).boxed();
        Work { call, within, work }
    }

    /// Asks a run's model for its next answer.
    pub(super) async fn ask(self: Arc<Self>, live: LiveRef, state: Arc<State>, run: RunNo) -> Done {
        let mut discarded = None;
        let asked = self.clone().ask_model(live, state, run, &mut discarded);
        let asked = std::panic::AssertUnwindSafe(asked).catch_unwind().await;
        let asked = asked.unwrap_or_else(|_| Asked::Failed(adapter_failed()));
        self.trace_asked(&asked, discarded.as_ref());
        Done::Model(run, asked, discarded)
    }

    /// Runs one attempt of one call. The permit was given for exactly this, in this term, and for the tool `allowed`
    /// ([`Call::allowed_tool`](countersign_core::journal::state::Call::allowed_tool)).
    async fn run_call(
        self: Arc<Self>,
        (permit, term, ticket): (Permit, Option<u64>, Option<Ticket>),
        allowed: Option<Arc<str>>,
        context: AppContext,
    ) -> Done {
        let (call, attempt, locale) = (CallNo::new(permit.call()), permit.attempt(), permit.locale());
        failpoint::hit("call.before_effect");
        let run = async {
            let agent = self.agents.get(permit.agent());
            let tool = agent.and_then(|agent| agent.tool(permit.tool()));
            let is_another =
                |tool: &ReadyTool| allowed.as_ref().is_some_and(|allowed| *allowed != words(&tool.facts()));
            let text = match &tool {
                // It may have changed while the call was pending, and again while its start was stored.
                Some(tool) if !tool.schema.check(permit.args()).is_empty() => Text::ArgsOutdated,
                Some(tool) if is_another(tool) => Text::ToolChanged,
                Some(tool) => return self.run_guarded(tool, (permit, term, ticket), context).await,
                None if agent.is_some_and(|agent| agent.has_unreached()) => Text::ToolUnreached,
                None => Text::ToolGone,
            };
            let tool = format!("{:?}", permit.tool());
            Some((Err(ToolError::new(locale.fill(text, &[("tool", &tool)])).unbegun()), None))
        };
        let ran = std::panic::AssertUnwindSafe(run).catch_unwind().await;
        let ran = ran.unwrap_or_else(|_| Some((Err(ToolError::new(locale.text(Text::ToolFailed))), None)));
        let Some((outcome, stop)) = ran else { return Done::Unbegun { call } };
        let outcome = outcome.map_err(|error| of_attempt(error, attempt, locale));
        self.trace_called(&outcome);
        Done::Call { call, attempt, outcome, stop }
    }
}

/// The error of an attempt: after an earlier one, one that did nothing does not say that nothing took effect (spec R4).
fn of_attempt(mut error: ToolError, attempt: u32, locale: Locale) -> ToolError {
    if attempt > 1 && error.is_unbegun() {
        error.message = locale.outcome_unknown(Some(&error.message));
    }
    error
}
