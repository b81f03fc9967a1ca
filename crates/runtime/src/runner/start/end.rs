//! Driving a run until it pauses or ends, and its result.

use std::sync::Arc;

use countersign_core::{
    approval::principal::Principal,
    journal::{
        record::{self, Entry, Record},
        state::{State, Status},
    },
    number::RunNo,
    refusal::Refusal,
    session,
};

use super::Session;
use crate::{
    interruption::Interruption,
    run::{
        LiveRef, Runtime,
        claim::HeldSession,
        hold::{Ending, Hold},
        stop::Why,
    },
    run_state::{RunState, RunStateError, journal},
    runner::{
        config::CancelHandle,
        error::{Cause, RunError},
        result::RunResult,
    },
};

/// The driver of a run.
pub(in crate::runner) struct Drive {
    runtime: Runtime,
    live: LiveRef,
    principal: Principal,
    cancel: Option<CancelHandle>,
    kept: Option<HeldSession>,
}

impl Drive {
    /// Drives it until no more effects follow. It can be cancelled meanwhile, even if nobody reads its events.
    ///
    /// # Errors
    /// `session_busy`
    pub(in crate::runner) async fn drive(mut self) -> Result<(), Refusal> {
        let driven = {
            let mut going = std::pin::pin!(self.runtime.run_until_idle(&self.live.session_id));
            tokio::select! {
                biased;
                () = until(self.cancel.as_ref()) => {
                    // Concurrently: the driver may hold the session while it stores.
                    tokio::join!(self.cancelled(), going).1
                }
                driven = &mut going => driven,
            }
        };
        self.kept.take().into_iter().for_each(HeldSession::ends);
        driven
    }

    /// Signals that it is about to end.
    pub(in crate::runner) fn ending(&self) -> Option<Ending> {
        self.kept.as_ref().and_then(HeldSession::hold).map(Hold::ending)
    }

    /// Stops the turn. One that has ended is not changed.
    async fn cancelled(&self) {
        if let Err(refusal) = self.runtime.cancel_in(&self.live, &self.principal, None).await {
            tracing::debug!(session = &*self.live.session_id, %refusal, "nothing was left to cancel");
        }
    }
}

/// Waits until the handle is used.
async fn until(cancel: Option<&CancelHandle>) {
    match cancel {
        Some(cancel) => cancel.cancelled().await,
        None => std::future::pending().await,
    }
}

impl Session {
    /// Drives it until no more effects follow.
    pub(in crate::runner) async fn drive(mut self) -> Result<RunResult, RunError> {
        let driven = if self.moves { self.going().drive().await } else { Ok(()) };
        match driven {
            Ok(()) => self.finish().await,
            Err(refusal) => Err(self.busy(&refusal).await),
        }
    }

    pub(in crate::runner) fn going(&mut self) -> Drive {
        let kept = self.hold.take();
        let Session { runtime, live, principal, cancel, .. } = self;
        let (runtime, live, principal, cancel) = (runtime.clone(), live.clone(), principal.clone(), cancel.clone());
        Drive { runtime, live, principal, cancel, kept }
    }

    pub(super) async fn until_cancelled(&self) {
        until(self.cancel.as_ref()).await;
    }

    /// Another process has the session, with the session's current state.
    pub(in crate::runner) async fn busy(&self, refusal: &Refusal) -> RunError {
        let cause = Cause::Elsewhere { session: self.session_id.to_string(), why: refusal.message.clone() };
        let state = RunState::read_from(&*self.store, &self.session_id, self.durable).await.ok();
        RunError::new(cause, state.map(|state| self.saved(state)).or_else(|| self.before.clone()))
    }

    /// The pending interruptions with a key.
    pub(in crate::runner) async fn items(&self, approval_key: &str) -> Result<Vec<Interruption>, RunError> {
        let state = self.runtime.loaded(&self.session_id).await?;
        let mut items = Interruption::all(&state, Some(&self.runtime.inner.agents));
        items.retain(|item| item.approval_key == approval_key);
        Ok(items)
    }

    /// The error with the given state, which is kept.
    pub(in crate::runner) fn with_given(&self, error: RunError) -> RunError {
        error.with(self.before.clone())
    }

    pub(in crate::runner) fn given(&mut self) -> Option<RunState> {
        self.before.take()
    }

    pub(super) async fn entries(&self) -> Result<Vec<Arc<Entry>>, RunError> {
        let entries = journal(&*self.store, &self.session_id).await.map_err(RunStateError::from)?;
        // They are returned with the result.
        self.store.sync().await.map_err(RunStateError::from)?;
        Ok(entries)
    }

    /// The result of the run.
    pub(in crate::runner) async fn finish(mut self) -> Result<RunResult, RunError> {
        let read = async {
            let (outcome, state) = self.runtime.answer_and_session(&self.session_id).await?;
            Ok((outcome, state, self.entries().await?))
        };
        let (outcome, state, entries) = match read.await {
            Ok(read) => read,
            Err(error) => return Err(RunError::with(error, self.before.take())),
        };
        let interruptions = Interruption::all(&state, Some(&self.runtime.inner.agents));
        self.tell_hooks(&entries, &state, &interruptions).await;
        if matches!(state.status, Status::Failed | Status::Cancelled) {
            return Err(self.failed(entries, &state));
        }
        let guardrails = self.watch.seen().guardrails.clone();
        let mut saved = self.saved(RunState::of_session(entries, state.clone()));
        saved.suspended = self.runtime.inner.suspended(&state);
        Ok(RunResult {
            final_output: outcome,
            cut: state.cut,
            interruptions,
            usage: state.usage,
            model_calls: state.answers.all(),
            last_agent: state.agent.clone(),
            guardrails,
            state: saved,
            from: self.from,
        })
    }

    /// Notifies the hooks of what only the end of this part shows, even if it failed.
    async fn tell_hooks(&mut self, entries: &[Arc<Entry>], state: &State, interruptions: &[Interruption]) {
        if self.runtime.inner.settings.hooks.is_empty() {
            return;
        }
        self.tell_gone(interruptions).await;
        let inner = &self.runtime.inner;
        let new = entries.iter().filter(|entry| entry.pos > self.from).flat_map(|entry| &entry.records);
        for record in new {
            // The hooks know a model's answer already.
            if let Record::TurnEnded(ended) = record
                && let Some(output) = &ended.output
            {
                let context = inner.run_context(state, RunNo::ROOT).await;
                inner.tell(|hooks| hooks.agent_end(&context, output)).await;
            }
        }
        let known = self.before.as_ref().map(RunState::interruptions).unwrap_or_default();
        for item in interruptions.iter().filter(|item| known.iter().all(|other| !other.is(item))) {
            inner.tell(|hooks| hooks.approval_requested(item)).await;
        }
    }

    fn saved(&self, state: RunState) -> RunState {
        let mut state = state.like(self.before.as_ref());
        state.max_turns = self.max_turns;
        state.in_store = self.durable;
        // If nothing ran, it is the same state, so that it and the given one run only once together.
        if let Some(before) = self.before.as_ref().filter(|_| !self.moves) {
            state.once = before.once.clone();
        }
        state.guardrails.clone_from(&self.watch.seen().guardrails);
        // The decisions that cannot take effect yet, except those on requests withdrawn or replaced since: on a later
        // request about the same call they could neither take effect nor be retracted.
        state.staged = self.kept.iter().filter(|staged| state.asks(staged)).cloned().collect();
        state
    }

    /// Why the turn failed, or that it was cancelled.
    fn failed(&self, entries: Vec<Arc<Entry>>, state: &session::Session) -> RunError {
        let (failure, limit) = (state.failure.clone(), state.turn_calls);
        let state = self.saved(RunState::of_session(entries, state.clone()));
        let Some(failure) = failure else { return RunError::new(Cause::Cancelled, Some(state)) };
        let stopped = self.watch.seen().stopped.take();
        let message = failure.message.clone();
        let cause = match (&failure.why, stopped.map(|stop| stop.why)) {
            (record::Why::MaxTurns, _) => Cause::MaxTurns(limit),
            (_, Some(Why::Guardrail(result))) => Cause::Guardrail(result),
            (_, Some(Why::Budget { what, spent, limit })) => Cause::Budget { what, spent, limit },
            (_, Some(Why::NoAgent(agent))) => {
                let known = self.runtime.inner.agents.names.iter().map(ToString::to_string).collect();
                Cause::NoAgent { agent: agent.to_string(), known }
            }
            (_, Some(Why::Output(errors))) => Cause::InvalidOutput(errors),
            (record::Why::Error(code), _) if code == "model_error" => Cause::Model(message),
            (record::Why::Error(code), _) => Cause::Failed { code: code.clone(), message },
        };
        RunError::new(cause, Some(state))
    }
}
