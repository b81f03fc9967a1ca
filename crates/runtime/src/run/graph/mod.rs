//! Running graphs: the effects that follow from a run's position, and the results of its nodes (spec G1, G3).
//!
//! The typed states of a run's frames are kept while a driver works, and folded again from the updates in the journal
//! when they are not in memory. Nodes with pending questions stay in memory for a while, so that an answer finds them
//! where they stopped; a dropped one starts over when it is answered.

mod begin;
mod ending;
mod fold;
pub(super) mod hot;
pub(super) mod rounds;
pub(super) mod suspended;
pub(super) mod warm;

use std::sync::Arc;

use countersign_core::{
    journal::{
        draft::{Draft, Transition},
        failure::Turn,
        graph as loops,
        progress::{Step, Task},
        run::{Raw, Then},
        state::{Call, Phase, State},
    },
    number::{FrameNo, RunNo},
};
use futures::future::BoxFuture;

use self::{
    ending::{Ending, Op},
    hot::{AtWork, Ended, Hot},
    rounds::{fatal, node_gone, resolve, round, rounds_left},
};
use super::{inner::Inner, live::uses::LiveRef, nodes::ELSEWHERE, patience::until_stored};
use crate::graph::{
    NodeError,
    agent_loop::AgentState,
    task::{AnyState, Journal, Make, Memory, StepOf, Stored},
};

impl Inner {
    /// Records the results of tasks, retrying until the store accepts them.
    pub(super) async fn tasks_ended(
        &self,
        live: &LiveRef,
        turn: Turn,
        hot: &mut Option<Hot>,
        at_work: &mut AtWork,
        ended: Vec<Ended>,
    ) {
        ended.iter().for_each(|ended| at_work.end(ended.task));
        let mut ended = Some(ended);
        let mut ops = Vec::new();
        let mut spoiled = false;
        until_stored!(self, async {
            let mut guard = live.lock().await;
            let state = self.known(live, &mut guard).await?;
            if !state.is_in(turn) {
                return Ok(());
            }
            if let (Some(ended), Some(hot), Some(run)) = (ended.take(), hot.as_mut(), &state.run) {
                let mut ending = Ending { inner: self, state: &state.state, run, hot, ops: Vec::new(), spoiled: false };
                ending.all(ended);
                (ops, spoiled) = (ending.ops, ending.spoiled);
            } else if ops.iter().any(|op| op.is_in(&state)) {
                return Ok(());
            }
            let make = |state: &Arc<State>| {
                let mut draft = Draft::of(state.clone(), self.now());
                for op in &ops {
                    match op {
                        Op::Done(done) => draft.tasks_done(done.clone()),
                        Op::Failed(failed) => draft.task_failed(failed.clone()),
                        Op::Asks(task, questions, lost, memory) => {
                            // Read now: it may have been answered since it paused.
                            let known = state.run.as_ref().and_then(|run| run.tasks.get(task));
                            let goes_on = known.is_some_and(|known| memory.has_news(known, questions));
                            draft.steps_lost(*task, lost);
                            draft.task_asks(*task, questions.clone(), goes_on);
                        }
                        Op::States(states) => draft.states(states.clone()),
                    }
                }
                Ok(draft.settled(&self.agents))
            };
            self.record(live, &mut guard, make).await.map(drop)
        });
        if spoiled {
            *hot = None;
        }
    }

    /// Where an agent's loop continues after a node.
    pub(super) fn walk_on(&self, state: &Arc<State>, task: &Task, update: Option<&Raw>) -> Result<Then, NodeError> {
        let graph = self.agents.loop_of(state).ok_or_else(|| node_gone(&task.node))?;
        let run = state.run.as_ref().ok_or_else(|| node_gone(&task.node))?;
        let node = resolve(&*graph, &task.node).ok_or_else(|| node_gone(&task.node))?;
        let mut turn: AnyState = Arc::new(AgentState::of(state));
        if let Some(update) = update {
            let update = graph.read_update(Some(update)).map_err(NodeError::permanent)?;
            graph.merge(&mut turn, vec![update])?;
        }
        let ahead = graph.next(&[node], &[], &turn)?;
        rounds_left(&*graph, run, FrameNo::ROOT, &ahead)?;
        match ahead.tasks.len() {
            0 => Ok(Then::End),
            1 => {
                // The model is asked when each of its calls has a result, and not before.
                let open = |call: &Call| !matches!(call.phase, Phase::Finished | Phase::Settled(..));
                let to_model = ahead.tasks.iter().any(|(node, _)| matches!(&**node, loops::AGENT | loops::COMPRESSION));
                let turn = turn.downcast_ref::<AgentState>();
                if to_model && turn.is_some_and(|turn| turn.state().calls_of(RunNo::ROOT).any(open)) {
                    let what =
                        format!("the node {:?} leads to the model while calls of its answer have no result", task.node);
                    return Err(fatal("invalid_loop", what));
                }
                if to_model && turn.is_some_and(AgentState::answered) {
                    let what = format!("the node {:?} leads to the model, which has given its last answer", task.node);
                    return Err(fatal("invalid_loop", what));
                }
                Ok(Then::Round(round(ahead, &mut run.made.clone())))
            }
            several => Err(fatal(
                "invalid_loop",
                format!("an agent's loop goes to one node at a time, and this leads to {several}"),
            )),
        }
    }
}

impl Journal for Inner {
    fn store<'a>(self: Arc<Self>, at: StepOf<'a>, make: &'a Make<'a>) -> BoxFuture<'a, Stored> {
        Box::pin(async move {
            let live = self.live(at.session_id);
            let stored = until_stored!(self, async {
                let mut guard = live.lock().await;
                let state = self.known(&live, &mut guard).await?;
                match state.takes_step(at.task, at.step).filter(|_| state.is_in(at.turn)) {
                    // An earlier try has stored it, although the store did not confirm that.
                    None if at.ends && state.has_step_done(at.task, at.step) => Ok(Stored::Yes),
                    None => Ok(Stored::Never),
                    Some(false) => Ok(Stored::Waits),
                    // The node was told to go on and has not begun yet.
                    Some(true) if !at.ends && guard.working.is_none() => Ok(Stored::Waits),
                    Some(true) => {
                        let make = |state: &Arc<State>| Ok(make(Draft::of(state.clone(), self.now())));
                        self.record(&live, &mut guard, make).await.map(|_| Stored::Yes)
                    }
                }
            });
            stored.unwrap_or(Stored::Never)
        })
    }

    fn term(&self) -> Option<u64> {
        Inner::term(self)
    }

    fn lasts(&self, term: Option<u64>) -> bool {
        Inner::lasts(self, term)
    }
}

impl Memory {
    /// Stores a record of a step, once its node does not wait for people. `false`: it never can be stored. A node that
    /// starts over has another memory, so what waits here then waits for ever, and its effect is not done twice.
    async fn store(&self, step: &Arc<str>, ends: bool, make: impl Fn(Draft) -> Transition + Sync) -> bool {
        loop {
            let mut goes_on = std::pin::pin!(self.moved.notified());
            // Enabled before the look, so that a node that goes on right after it is noticed.
            goes_on.as_mut().enable();
            let journal = self.journal().await;
            let Memory { session_id, turn, task, .. } = self;
            // This gives the runtime back: while the step waits, it keeps none that has ended.
            let stored = journal.store(StepOf { session_id, turn: *turn, task: *task, step, ends }, &make).await;
            match stored {
                Stored::Yes => return true,
                Stored::Never => return false,
                Stored::Waits => goes_on.await,
            }
        }
    }

    /// Records that a step begins. When no effect may start any more it does not return.
    ///
    /// Like a call, a step starts in the term in which its start was stored, or not at all: another node may have taken
    /// over the session since, and asked a person for the step's outcome. If none has, it is recorded that the step has
    /// not started.
    pub(crate) async fn step_started(&self, step: &Arc<str>) {
        loop {
            let term = self.journal().await.term();
            if !self.store(step, false, |draft| draft.step_started(self.task, step.clone())).await {
                std::future::pending::<()>().await;
            }
            if self.journal().await.lasts(term) {
                break;
            }
            self.step_done(step, None).await;
            while self.journal().await.term().is_none() {
                tokio::time::sleep(ELSEWHERE).await;
            }
        }
        self.inside().steps.insert(step.clone(), Step::Started);
    }

    /// Whether this step may have run before the store was restored from a backup. If so, this records it, so that a
    /// person is asked about the step as about one that had begun.
    pub(crate) async fn may_have_run(&self, step: &Arc<str>) -> bool {
        if !self.inside().restored.as_ref().is_some_and(|restored| restored.includes(step)) {
            return false;
        }
        if !self.store(step, false, |draft| draft.step_started(self.task, step.clone())).await {
            std::future::pending::<()>().await;
        }
        let mut inside = self.inside();
        inside.steps.insert(step.clone(), Step::Started);
        if let Some(restored) = &mut inside.restored {
            restored.reach(step);
        }
        true
    }

    pub(crate) async fn step_done(&self, step: &Arc<str>, value: Option<Raw>) {
        let known = value.clone();
        if !self.store(step, true, |draft| draft.step_done(self.task, step.clone(), value.clone())).await {
            std::future::pending::<()>().await;
        }
        let mut inside = self.inside();
        match known {
            Some(value) => drop(inside.steps.insert(step.clone(), Step::Done(value))),
            None => drop(inside.steps.remove(step)),
        }
    }
}
