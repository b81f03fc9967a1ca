//! Running graphs: the effects that follow from a run's position, and the results of its nodes (spec G1, G3).
//!
//! The typed states of a run's frames are kept while a driver works, and folded again from the updates in the journal
//! when they are not in memory. Nodes with pending questions stay in memory for a while, so that an answer finds them
//! where they stopped; a dropped one starts over when it is answered.

mod begin;
mod ending;
mod fold;
mod warm;

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use countersign_core::{
    journal::{
        draft::{Draft, Transition},
        failure::Turn,
        graph as loops,
        progress::{GraphRun, Question, Step, Task, TaskPhase},
        run::{FrameState, NewTask, Raw, Round, TaskFailed, TasksDone, Then},
        running::NewQuestion,
        state::{Call, Phase, State},
    },
    limits,
    number::{FrameNo, RunNo, TaskNo},
};
use futures::future::BoxFuture;

use super::{Inner, live::LiveRef, nodes::ELSEWHERE, patience::until_stored};
use ending::Ending;
pub(crate) use warm::Suspended;
pub(super) use warm::Warm;

use crate::graph::{
    Gone, NodeError, NodeOptions,
    agent_loop::AgentState,
    compiled::{Ahead, AnyGraph, Kind},
    task::{AnyState, AnyUpdate, Journal, Make, Memory, Parked, Stretch},
};

/// States are recorded once the updates since the last time have so many bytes, and at least as many as the
/// last recorded states.
const STATES_BYTES: usize = 64 * 1024;

/// States are recorded also after so many records.
const STATES_RECORDS: u64 = 1_000;

/// A run of a graph in memory.
pub(super) struct Hot {
    /// Which run: the position it began at, and the latest edit it includes.
    began: u64,
    edited: u64,
    frames: BTreeMap<FrameNo, HotFrame>,
    /// The updates of tasks in unfinished rounds.
    updates: BTreeMap<TaskNo, AnyUpdate>,
    parked: BTreeMap<TaskNo, Parked>,
    /// Bytes of updates since the states were last recorded, and of the states then.
    bytes: (usize, usize),
}

/// The tasks that run here: as long as their futures do, whatever happens to the states.
#[derive(Default)]
pub(super) struct AtWork {
    tasks: BTreeMap<TaskNo, Working>,
    /// How many tasks run per frame and node, for nodes with a limit.
    counts: HashMap<(FrameNo, Arc<str>), usize>,
}

struct Working {
    /// Its frame and node, if they are counted.
    counted: Option<(FrameNo, Arc<str>)>,
    memory: Arc<Memory>,
}

impl AtWork {
    fn begin(&mut self, task: TaskNo, counted: Option<(FrameNo, Arc<str>)>, memory: &Arc<Memory>) {
        if let Some(counted) = counted.clone() {
            *self.counts.entry(counted).or_default() += 1;
        }
        self.tasks.insert(task, Working { counted, memory: memory.clone() });
    }

    fn end(&mut self, task: TaskNo) {
        let counted = self.tasks.remove(&task).and_then(|working| working.counted);
        if let Some(count) = counted.and_then(|counted| self.counts.get_mut(&counted)) {
            *count -= 1;
        }
    }

    fn count(&self, frame: FrameNo, node: &Arc<str>) -> usize {
        self.counts.get(&(frame, node.clone())).copied().unwrap_or_default()
    }

    /// Nothing runs any more.
    pub(super) fn clear(&mut self) {
        *self = AtWork::default();
    }
}

struct HotFrame {
    graph: Arc<dyn AnyGraph>,
    state: AnyState,
}

/// A segment of a task that has ended.
pub(super) struct Ended {
    task: TaskNo,
    stretch: Stretch,
}

fn fatal(code: &'static str, message: String) -> NodeError {
    NodeError::coded(code, message)
}

fn node_gone(node: &str) -> NodeError {
    let what = format!(
        "the run is at the node {node:?}, which its graph no longer has: its program has changed. Restore the node, \
         or register a migration (StateGraph::migrate), and retry the run"
    );
    fatal("node_gone", what)
}

/// A node as the graph has it now; `None` if it no longer exists.
fn look(graph: &dyn AnyGraph, node: &str) -> Option<(Arc<str>, Kind, NodeOptions)> {
    graph.look(node).or_else(|| {
        let renamed = graph.migrate()?(&Gone { node, question: None })?.node?;
        graph.look(&renamed)
    })
}

/// The node's current name; `None` if it no longer exists.
fn resolve(graph: &dyn AnyGraph, node: &Arc<str>) -> Option<Arc<str>> {
    // Nearly always it exists; the look copies its options, too.
    if graph.kind(node).is_some() { Some(node.clone()) } else { look(graph, node).map(|(name, ..)| name) }
}

impl Hot {
    fn new(run: &GraphRun) -> Hot {
        Hot {
            began: run.began,
            edited: 0,
            frames: BTreeMap::new(),
            updates: BTreeMap::new(),
            parked: BTreeMap::new(),
            bytes: (0, 0),
        }
    }

    fn fits(&self, run: &GraphRun) -> bool {
        self.began == run.began
            && self.edited == run.edited
            && (run.agent_loop || run.frames.keys().all(|frame| self.frames.contains_key(frame)))
    }

    pub(crate) fn root(&self) -> Option<(&Arc<dyn AnyGraph>, &AnyState)> {
        self.frames.get(&FrameNo::ROOT).map(|frame| (&frame.graph, &frame.state))
    }

    fn for_loop(mut self, run: &GraphRun) -> Hot {
        self.edited = run.edited;
        self
    }
}

/// A record of ended tasks.
enum Op {
    Done(TasksDone),
    Failed(TaskFailed),
    /// A paused task: its questions, the steps whose outcome it does not know, and the answers so far.
    Asks(TaskNo, Vec<NewQuestion>, Vec<Arc<str>>, Arc<Memory>),
    States(Vec<FrameState>),
}

impl Op {
    /// How many questions it asks: its own, and one about each step of unknown outcome.
    fn asks(&self) -> usize {
        match self {
            Op::Asks(_, asked, lost, _) => asked.len() + lost.len(),
            Op::Done(_) | Op::Failed(_) | Op::States(_) => 0,
        }
    }

    /// Whether it is on record: an earlier try may have been stored although the store did not confirm it.
    fn is_in(&self, state: &State) -> bool {
        let Some(run) = &state.run else { return false };
        let has_ended = |task: TaskNo| {
            let found = run.tasks.get(&task);
            found.is_none_or(|found| matches!(found.phase, TaskPhase::Done | TaskPhase::Failed(..)))
        };
        match self {
            Op::Done(done) => done.done.iter().any(|done| has_ended(done.task)),
            Op::Failed(failed) => has_ended(failed.task),
            // Its answers may have arrived since, and the task may have ended.
            Op::Asks(task, asked, lost, _) => run.tasks.get(task).is_none_or(|found| {
                // One that asks again has its old question on record, with the answer that it cannot read.
                let is_asked = |known: &Question| !found.asks_again || known.answer.is_none();
                asked.iter().any(|question| found.questions.get(&question.name).is_some_and(is_asked))
                    || lost.iter().any(|step| match found.steps.get(step) {
                        Some(Step::Started) => false,
                        Some(Step::Said(_)) => !found.asks_again,
                        _ => true,
                    })
            }),
            Op::States(_) => false,
        }
    }
}

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
        let graph = self.agents.agent_loop_of(&state.agent).ok_or_else(|| node_gone(&task.node))?;
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
                Ok(Then::Round(round(ahead, &mut run.made.clone())))
            }
            several => Err(fatal(
                "invalid_loop",
                format!("an agent's loop goes to one node at a time, and this leads to {several}"),
            )),
        }
    }
}

fn rounds_left(graph: &dyn AnyGraph, run: &GraphRun, frame: FrameNo, ahead: &Ahead) -> Result<(), NodeError> {
    let (rounds, most) = (run.frames.get(&frame).map_or(0, |frame| frame.round), graph.rounds());
    if !ahead.tasks.is_empty() && rounds >= most {
        let what = format!("the graph {:?} was not over after {most} rounds (StateGraph::max_rounds)", graph.name());
        return Err(fatal("round_limit", what));
    }
    if ahead.tasks.len() > limits::ROUND_TASKS {
        let what = format!("{} tasks in one round; at most {} are allowed", ahead.tasks.len(), limits::ROUND_TASKS);
        return Err(fatal("too_many_tasks", what));
    }
    Ok(())
}

/// A round with new numbers for its tasks.
pub(super) fn round(ahead: Ahead, made: &mut TaskNo) -> Round {
    let tasks = ahead.tasks.into_iter().map(|(node, input)| {
        *made = made.later(1);
        NewTask { task: *made, node, input }
    });
    Round { tasks: tasks.collect(), arrived: ahead.arrived }
}

impl Journal for Inner {
    fn store<'a>(self: Arc<Self>, session_id: &'a Arc<str>, turn: Turn, make: &'a Make<'a>) -> BoxFuture<'a, bool> {
        Box::pin(async move {
            let live = self.live(session_id);
            self.must_store(&live, turn, |state, _| Some(make(Draft::of(state.clone(), self.now())))).await
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
    /// Stores a record of this task. `false`: the turn has ended, or the runtime closes.
    async fn store(&self, make: impl Fn(Draft) -> Transition + Sync) -> bool {
        let journal = self.journal().await;
        journal.store(&self.session_id, self.turn, &make).await
    }

    /// Records that a step begins. When no effect may start any more it does not return.
    ///
    /// Like a call, a step starts in the term in which its start was stored, or not at all: another node may have taken
    /// over the session since, and asked a person for the step's outcome. If none has, it is recorded that the step has
    /// not started.
    pub(crate) async fn step_started(&self, step: &Arc<str>) {
        loop {
            let term = self.journal().await.term();
            if !self.store(|draft| draft.step_started(self.task, step.clone())).await {
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

    /// If this step may have run before the store was restored from a backup: records that, so that a person is asked
    /// about it as about one that was begun. Says whether.
    pub(crate) async fn may_have_run(&self, step: &Arc<str>) -> bool {
        if !self.inside().restored.as_ref().is_some_and(|restored| restored.includes(step)) {
            return false;
        }
        if !self.store(|draft| draft.step_started(self.task, step.clone())).await {
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
        if !self.store(|draft| draft.step_done(self.task, step.clone(), value.clone())).await {
            std::future::pending::<()>().await;
        }
        let mut inside = self.inside();
        match known {
            Some(value) => drop(inside.steps.insert(step.clone(), Step::Done(value))),
            None => drop(inside.steps.remove(step)),
        }
    }
}
