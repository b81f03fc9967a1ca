//! An input on its way to the store with everything that follows from it ([`advance`]), and the calls that begin with
//! it.

use std::{
    collections::BTreeSet,
    sync::{Arc, atomic::Ordering},
};

use countersign_core::{
    journal::{
        draft::{Catalog, Transition},
        graph::Effects,
        permit::Permit,
        progress::Task,
        record::{Block, Record},
        run::{TaskFailed, Then},
        state::{Call, State},
        step::{Program, Reach, advance},
    },
    number::CallNo,
    refusal::Refusal,
};

use super::{
    driver::{By, Driver},
    failpoint,
    inner::Inner,
    live::LiveState,
    patience::until_stored,
    refusals::store_refusal,
};
use crate::{
    graph::NodeError,
    store::{Guards, RuleName},
    tool::AppContext,
};

/// The program around a session, as a step asks it.
struct Around<'a> {
    inner: &'a Inner,
    /// Whether calls of tools that are not known yet are held back.
    holds_back: bool,
}

impl Program for Around<'_> {
    fn catalog(&self) -> &dyn Catalog {
        &self.inner.agents
    }

    fn after_node(&self, state: &Arc<State>, task: &Task) -> Result<Then, TaskFailed> {
        self.inner.walk_on(state, task, None).map_err(|NodeError { code, message, .. }| TaskFailed {
            task: task.task,
            code: code.to_owned(),
            message,
        })
    }

    fn has_lost_answers(&self, state: &State, call: &Call) -> bool {
        self.inner.has_lost_answers(state, call)
    }

    fn holds_back(&self, call: &Call) -> bool {
        self.holds_back && self.inner.is_unreached(call)
    }
}

/// The calls that a transition asks about again, since their tools have changed.
fn outdated_of(transition: &Transition) -> Vec<CallNo> {
    let outdated = transition.records().filter_map(|record| match record {
        Record::CallOutdated { call, .. } => Some(*call),
        _ => None,
    });
    outdated.collect()
}

impl Driver {
    /// Stores an input, if any, with all that follows from it. The calls that start with it are added to those that begin; the
    /// effects left to carry out are returned, or `None` if nothing may begin here now. `recovers`: what was started before
    /// this driver is accounted for.
    pub(super) async fn advance(
        &mut self,
        guard: &mut LiveState,
        input: Option<Transition>,
        by: By,
        recovers: bool,
    ) -> Result<Option<Effects>, Refusal> {
        let inner = self.inner.clone();
        let (before, term) = (guard.session()?, inner.term());
        let input = input.unwrap_or_else(|| Transition::made(before.state.clone(), Vec::new()));
        let at_work = recovers.then(|| self.calls_at_work());
        // A call whose start was stored without a term would not run, and would count as one with an unknown outcome.
        let is_open = !inner.draining.load(Ordering::SeqCst) && !*inner.closing.borrow();
        // Nor does anything begin with an answer that a guardrail stops.
        let begins = term.is_some() && is_open && inner.stopping().is_none();
        let starts = inner.settings.parallel_calls().saturating_sub(self.running.len() + self.begun.len());
        let reach = Reach { recovers: at_work.as_ref(), begins: begins && (recovers || self.recovered), starts };
        let around = Around { inner: &inner, holds_back: !inner.have_waited(&self.live, &before, &self.held) };
        let (made, effects) = advance(&before, input, inner.now(), &around, reach);
        if !made.is_empty() && !self.store(guard, made, by, recovers && before.has_begun_work(), term).await? {
            return Ok(Some(Effects::default()));
        }
        let after = guard.state()?;
        self.recovered |= recovers && after.status.is_active() && !after.held;
        Ok(Some(effects).filter(|_| begins))
    }

    /// Stores a transition; `false` if the turn has failed instead, since it would break the session's journal.
    async fn store(
        &mut self,
        guard: &mut LiveState,
        made: Transition,
        by: By,
        recovers: bool,
        term: Option<u64>,
    ) -> Result<bool, Refusal> {
        let (inner, live) = (self.inner.clone(), &*self.live.clone());
        // Read before anything is started: a start on record is never left without its call.
        let context = match made.starts_calls() {
            true => Some(self.context(made.state()).await?),
            false => None,
        };
        let outdated = outdated_of(&made);
        if recovers {
            failpoint::hit("recover.before_commit");
        }
        if context.is_some() {
            failpoint::hit("start.before_commit");
        }
        let stored = match by {
            By::Effect(rules) => inner.record_by(rules, live, guard, |_| Ok(made)).await,
            By::Person(guards, durability) => {
                let guards = Guards { lease: guard.lease, ..guards };
                inner.transact_if(guards, live, guard, durability, |_| Ok(made)).await
            }
        };
        let permits = match stored {
            // What follows from that failure is determined again.
            Err(refusal) if refusal.has_failed_turn() => return Ok(false),
            stored => stored?,
        };
        if recovers {
            failpoint::hit("recover.after_commit");
        }
        for call in outdated {
            inner.agents.forget_call(&live.session_id, call);
        }
        if let Some(context) = context {
            let state = guard.state()?;
            guard.part = self.part.at(&state);
            let work = |permit: Permit| inner.call_work(&state, (permit, term), &context, &mut self.part);
            self.begun.extend(permits.into_iter().map(work));
        }
        Ok(true)
    }

    /// The application's data for its session, which never changes.
    pub(super) async fn context(&mut self, state: &State) -> Result<AppContext, Refusal> {
        if self.context.is_none() {
            self.context = Some(self.inner.app_context(state).await.map_err(store_refusal)?);
        }
        Ok(self.context.clone().unwrap_or_default())
    }

    /// The calls that run here, or are about to.
    fn calls_at_work(&self) -> BTreeSet<CallNo> {
        self.running.calls().iter().copied().chain(self.begun.iter().filter_map(|work| work.call)).collect()
    }

    /// Stores the input that `make` makes, with what follows from it, if the state still wants it.
    pub(super) async fn try_take(
        &mut self,
        rules: Vec<RuleName>,
        guard: &mut LiveState,
        wants: impl Fn(&State) -> bool,
        make: impl Fn(&Arc<State>, Option<Block>) -> Option<Transition>,
    ) -> Result<(), Refusal> {
        let state = self.inner.known(&self.live, guard).await?;
        if wants(&state)
            && let Some(input) = make(&state.state, guard.written())
        {
            self.advance(guard, Some(input), By::Effect(rules), false).await?;
            // A single one may be polled in place by the next step, which must then come at once.
            if !self.comes_at_once || self.begun.len() > 1 || !self.running.is_empty() {
                self.begun.drain(..).for_each(|work| self.running.spawn(work));
            }
        }
        Ok(())
    }

    /// The same, retried until it is stored.
    pub(super) async fn take(
        &mut self,
        wants: impl Fn(&State) -> bool,
        make: impl Fn(&Arc<State>, Option<Block>) -> Option<Transition>,
    ) {
        let (inner, live) = (self.inner.clone(), &*self.live.clone());
        until_stored!(inner, async {
            let mut guard = live.lock().await;
            self.try_take(Vec::new(), &mut guard, &wants, &make).await
        });
    }
}
