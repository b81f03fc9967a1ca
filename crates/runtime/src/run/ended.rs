//! Recording ended work: the driver's inputs.

use std::sync::Arc;

use countersign_core::{
    approval::rule::RuleId,
    call::gate::Gate,
    journal::{
        draft::Draft,
        outcome::CallOutcome,
        record::{AnswersDiscarded, Cut, ModelResponded, Record, ToolUse, block, records},
        state::State,
    },
    number::{CallNo, RunNo},
    refusal::Refusal,
};

use super::{
    driver::Driver,
    failpoint,
    gate::Weighed,
    inner::Inner,
    outcomes::{Done, takes_outcomes},
    patience::until_stored,
    refusals::store_refusal,
    stream::Asked,
};
use crate::{
    model::ModelError,
    store::{RuleName, StoreError},
};

fn gates_of(weighed: &[Weighed]) -> Vec<Gate> {
    weighed.iter().map(|one| one.gate.clone()).collect()
}

/// The calls of an answer, each with the reason if it was cut, with those that are already on record.
fn calls_of<'a>(state: &'a State, answer: &'a ModelResponded) -> Vec<(&'a ToolUse, Option<Cut>)> {
    let shown = if answer.run.is_root() { answer.shown as usize } else { 0 };
    let kept = state.shown.len().saturating_sub(shown);
    block::calls(state.shown.iter().skip(kept).chain(&answer.blocks), answer.cut).collect()
}

/// The standing rules that have decided calls and that other sessions may end. A session's own rules end at its next
/// position, or when they expire.
fn rules_of(state: &State, gates: &[Gate]) -> Vec<RuleName> {
    let named = gates.iter().filter_map(|gate| RuleId::parse(gate.decided_by.as_ref()?.rule()?));
    let is_own = |of: &str, id: RuleId| {
        *of == *state.session_id && state.sticky.iter().any(|rule| rule.id == id && rule.until.is_none())
    };
    let mut rules: Vec<RuleName> = named.filter(|(of, id)| !is_own(of, *id)).map(|(of, id)| (of.into(), id)).collect();
    rules.sort_unstable();
    rules.dedup();
    rules
}

impl Driver {
    /// Records how calls have ended, together, even if their turn has failed: an outcome is never lost.
    pub(super) async fn record_outcomes(&mut self, outcomes: &mut Vec<CallOutcome>) {
        let outcomes = std::mem::take(outcomes);
        if outcomes.is_empty() {
            return;
        }
        failpoint::hit("finish.before_commit");
        let (inner, turn) = (self.inner.clone(), self.turn);
        let make = |state: &Arc<State>, _| Draft::of(state.clone(), inner.now()).ended(&outcomes, &inner.agents);
        self.take(|state| takes_outcomes(state, turn), make).await;
        failpoint::hit("finish.after_commit");
        let asks = outcomes.iter().filter_map(|outcome| match outcome {
            CallOutcome::Asks(asked) if asked.live => Some(asked.call),
            _ => None,
        });
        if let asks @ [_, ..] = &*asks.collect::<Vec<CallNo>>()
            && let Some(state) = self.inner.loaded(&self.live).await
        {
            self.inner.withdraw_unasked(&state, asks);
        }
        self.stops().await;
    }

    /// A tool's guardrail has stopped the run.
    async fn stops(&mut self) {
        if let Some((code, message)) = self.inner.stopping() {
            self.inner.fail(&self.live, self.turn, code, message, None).await;
        }
    }

    /// Records ended work, retrying until the store accepts it.
    pub(super) async fn done(&mut self, done: Done) {
        let (inner, live, turn) = (self.inner.clone(), &*self.live.clone(), self.turn);
        match done {
            Done::Call { call, attempt, outcome, stop: Some(stop) } => {
                failpoint::hit("call.after_effect");
                let result = outcome.unwrap_or_else(|error| error.message);
                inner.call_stopped(live, turn, (call, attempt), &result, stop).await;
            }
            Done::Model(run, Asked::Stopped(stop), discarded) if run.is_nested() && !stop.ends_all() => {
                inner.agent_stopped(live, turn, run, &stop.message, discarded.as_ref()).await;
            }
            Done::Model(_, Asked::Stopped(stop), discarded) => {
                let (code, message) = inner.stopped(stop);
                inner.fail(live, turn, code, message, discarded.as_ref()).await;
            }
            Done::Compressed(Err(stop)) => {
                let (code, message) = inner.stopped(stop);
                inner.fail(live, turn, code, message, None).await;
            }
            Done::Model(_, Asked::Answered(answer), discarded) => self.answered(answer, discarded).await,
            Done::Model(run, Asked::Failed(error), discarded) if run.is_nested() => {
                inner.agent_stopped(live, turn, run, &error.message, discarded.as_ref()).await;
            }
            Done::Model(_, Asked::Failed(error), discarded) => {
                let ModelError { message, .. } = error;
                inner
                    .must_store(live, turn, |state, partial| {
                        let draft = state.wants_answer(RunNo::ROOT).then(|| Draft::of(state.clone(), inner.now()))?;
                        let draft = draft.discards(discarded.as_ref());
                        Some(draft.fail("model_error", message.clone(), partial, &inner.agents))
                    })
                    .await;
            }
            Done::Model(_, Asked::Stale, Some(discarded)) => {
                let Some(first) = inner.loaded(live).await else { return };
                // If they are counted, they are stored, although the store did not confirm it.
                let make = |state: &Arc<State>, _| {
                    let draft = || Draft::of(state.clone(), inner.now()).discards(Some(&discarded)).finish();
                    (state.discarded_calls == first.discarded_calls).then(draft)
                };
                inner.must_store(live, turn, make).await;
            }
            Done::Model(_, Asked::Stale, None)
            | Done::Compressed(Ok(None))
            | Done::Call { .. }
            | Done::Task(_)
            | Done::Reached
            | Done::Unbegun { .. } => {}
            Done::Compressed(Ok(Some(compressed))) => {
                failpoint::hit("compress.before_commit");
                inner
                    .must_store(live, turn, |state, _| {
                        Draft::of(state.clone(), inner.now()).compressed(compressed.clone())
                    })
                    .await;
                failpoint::hit("compress.after_commit");
            }
        }
        self.stops().await;
    }

    /// Stores an answer with the verdicts on its calls. Standing rules are read again with each try, and it is stored
    /// only while those that decide are in force, so that a revoked one allows nothing.
    async fn answered(&mut self, answer: ModelResponded, discarded: Option<AnswersDiscarded>) {
        let (inner, live, turn) = (self.inner.clone(), &*self.live.clone(), self.turn);
        let Some(first) = inner.loaded(live).await else { return };
        // By index, whatever happens to the session meanwhile, so that no result is used for the wrong call.
        let calls = calls_of(&first, &answer);
        let mut before = Vec::new();
        until_stored!(inner, async {
            let Some(state) = inner.loaded(live).await else { return Ok(()) };
            if answer.run.is_nested() && state.nested(answer.run).is_none() {
                return Ok(()); // The call that it works for was stopped.
            }
            if answers(&state, answer.run) != answers(&first, answer.run) {
                return Ok(()); // It is stored, although the store did not confirm it.
            }
            let weighed = tokio::select! { biased;
                weighed = inner.gates(&state, state.agent_of(answer.run), &calls, &before) => weighed,
                () = inner.turn_is_over(live, turn) => return Ok(()), // A rule may never answer.
            };
            failpoint::hit("model.before_commit");
            match weighed.iter().find_map(Weighed::stop) {
                Some(stop) if answer.run.is_nested() => {
                    inner.answer_stopped(live, turn, (&answer, discarded.as_ref()), &weighed, stop).await;
                    return Ok(());
                }
                Some(stop) => drop(inner.stopped(stop.clone())),
                None => {}
            }
            let gates = gates_of(&weighed);
            let by_rule = gates.iter().any(|gate| gate.decided_by.as_ref().is_some_and(|by| by.rule().is_some()));
            before = weighed;
            let mut guard = live.lock().await;
            // What rules decide counts as long as they do, and what was allowed may have been rejected since.
            if !guard.is_at(state.pos) {
                let now = inner.known(live, &mut guard).await?.pos;
                if now != state.pos && (by_rule || inner.has_new_rules(&state, now).await?) {
                    return Err(store_refusal(StoreError::Conflict));
                }
            }
            let make = |state: &Arc<State>, _| {
                let draft = Draft::of(state.clone(), inner.now()).discards(discarded.as_ref());
                Some(draft.model_responded(answer.clone(), gates.clone(), &inner.agents))
            };
            self.try_take(rules_of(&state, &gates), &mut guard, |state| state.is_in(turn), make).await?;
            failpoint::hit("model.after_commit");
            Ok(())
        });
    }
}

/// Identifies the latest answer of a run: each answer changes the number.
fn answers(state: &State, run: RunNo) -> u64 {
    if run.is_root() { state.answer_pos } else { state.nested(run).map_or(0, |nested| nested.turn_calls.into()) }
}

impl Inner {
    /// Whether a person has made a standing rule in the session since this state, until a later position.
    async fn has_new_rules(&self, state: &State, until: u64) -> Result<bool, Refusal> {
        let entries = usize::try_from(until.saturating_sub(state.pos)).unwrap_or(usize::MAX);
        let since = self.store.read(&state.session_id, state.pos, entries).await.map_err(store_refusal)?;
        Ok(records(&since).any(|record| matches!(record, Record::Decided(decided) if !decided.rules.is_empty())))
    }
}
