//! Running graphs: what follows from a run's position, and the results of its nodes (spec G1, G3).
//!
//! The typed states of a run's frames are kept while a driver works, and folded again from the updates in the journal
//! when they are not in memory. Nodes with pending questions stay in memory for a while, so that an answer finds them
//! where they stopped; a dropped one starts over when it is answered.

mod ending;
mod fold;
mod warm;

use std::{
    collections::{BTreeMap, HashMap},
    sync::{Arc, Weak},
};

use countersign_core::{
    journal::{
        draft::{Draft, Transition},
        failure::Turn,
        graph as loops,
        run::{FrameBegan, FrameState, GraphRun, NewTask, Raw, Round, Task, TaskFailed, TasksDone, Then},
        running::NewQuestion,
        state::{Call, Phase, State},
    },
    limits,
    refusal::{Code, Refusal},
};
use futures::future::BoxFuture;
use tokio::task::JoinSet;
use tracing::Instrument as _;

use super::{
    Inner,
    live::{Live, LiveRef, LiveState},
    now,
    outcomes::Done,
    spans,
};
use ending::Ending;
pub(super) use warm::Warm;

use crate::{
    graph::{
        Gone, NodeError, NodeOptions,
        agent_loop::AgentState,
        compiled::{Ahead, AnyGraph, Kind},
        task::{self, AnyState, AnyUpdate, Journal, Make, Memory, Parked, Stretch},
    },
    store::Durability,
};

/// States are recorded once the updates since the last time have so many bytes, or as many as the states.
const STATES_BYTES: usize = 64 * 1024;

/// Also once there are so many records since.
const STATES_RECORDS: u64 = 1_000;

/// A run of a graph in memory.
pub(super) struct Hot {
    /// Which run: the position it began at, and the latest edit it includes.
    began: u64,
    edited: u64,
    frames: BTreeMap<u32, HotFrame>,
    /// The updates of tasks in unfinished rounds.
    updates: BTreeMap<u32, AnyUpdate>,
    parked: BTreeMap<u32, Parked>,
    /// Bytes of updates since the states were last recorded, and of the states then.
    bytes: (usize, usize),
}

/// The tasks that run here: as long as their futures do, whatever happens to the states.
#[derive(Default)]
pub(super) struct AtWork {
    tasks: BTreeMap<u32, Working>,
    /// How many tasks run per frame and node, for nodes with a limit.
    counts: HashMap<(u32, Arc<str>), usize>,
}

struct Working {
    /// Its frame and node, if they are counted.
    counted: Option<(u32, Arc<str>)>,
    memory: Arc<Memory>,
}

impl AtWork {
    fn begin(&mut self, task: u32, counted: Option<(u32, Arc<str>)>, memory: &Arc<Memory>) {
        if let Some(counted) = counted.clone() {
            *self.counts.entry(counted).or_default() += 1;
        }
        self.tasks.insert(task, Working { counted, memory: memory.clone() });
    }

    fn end(&mut self, task: u32) {
        let counted = self.tasks.remove(&task).and_then(|working| working.counted);
        if let Some(count) = counted.and_then(|counted| self.counts.get_mut(&counted)) {
            *count -= 1;
        }
    }

    fn count(&self, frame: u32, node: &Arc<str>) -> usize {
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
    task: u32,
    stretch: Stretch,
}

fn fatal(code: &'static str, message: String) -> NodeError {
    NodeError::coded(code, message)
}

impl Inner {
    /// The states of a run, from memory or from the journal.
    async fn heat(&self, live: &Live, state: &State, hot: Option<Hot>) -> Result<Result<Hot, NodeError>, Refusal> {
        let Some(run) = &state.run else { return Err(Refusal::new(Code::Internal, "no graph runs here")) };
        let known = hot.or_else(|| self.warm.take(&live.session_id));
        if let Some(hot) = known.filter(|hot| hot.edited == run.edited && hot.fits(run)) {
            return Ok(Ok(hot));
        }
        self.fold_states(&live.session_id, run, state.pos).await
    }
}

fn node_gone(node: &str) -> NodeError {
    let what = format!(
        "the run stands at the node {node:?}, which its graph has not any more: its program has changed. Bring the node back, \
         or register a migration (StateGraph::migrate), and retry the run"
    );
    fatal("node_gone", what)
}

/// A node as the graph has it now; `None` if it is gone.
fn look(graph: &dyn AnyGraph, node: &str) -> Option<(Arc<str>, Kind, NodeOptions)> {
    graph.look(node).or_else(|| {
        let renamed = graph.migrate()?(&Gone { node, question: None })?.node?;
        graph.look(&renamed)
    })
}

/// The node's current name; `None` if it is gone.
fn resolve(graph: &dyn AnyGraph, node: &str) -> Option<Arc<str>> {
    look(graph, node).map(|(name, ..)| name)
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
        self.frames.get(&0).map(|frame| (&frame.graph, &frame.state))
    }

    fn for_loop(mut self, run: &GraphRun) -> Hot {
        self.edited = run.edited;
        self
    }
}

/// What is recorded of ended tasks.
enum Op {
    Done(TasksDone),
    Failed(TaskFailed),
    /// A paused task: its questions, the steps whose outcome it does not know, and the answers so far.
    Asks(u32, Vec<NewQuestion>, Vec<Arc<str>>, Arc<Memory>),
    States(Vec<FrameState>),
}

impl Inner {
    /// Starts what is to run now. A single task is returned, to be polled in place.
    pub(super) async fn begin_tasks(
        self: &Arc<Self>,
        live: &LiveRef,
        guard: &mut LiveState,
        hot: &mut Option<Hot>,
        at_work: &mut AtWork,
        running: &mut JoinSet<Done>,
        part: &mut spans::Part,
    ) -> Result<Option<futures::future::BoxFuture<'static, Done>>, Refusal> {
        loop {
            let state = guard.state()?;
            let Some(run) =
                state.run.clone().filter(|run| !run.frames.is_empty() && state.status.is_active() && !state.held)
            else {
                return Ok(None);
            };
            if hot.as_ref().is_none_or(|hot| !hot.fits(&run)) {
                match self.heat(live, &state, hot.take()).await? {
                    Ok(new) => *hot = Some(new),
                    Err(error) => {
                        let make = |state: &State| {
                            Ok(Draft::new(state, now()).fail(error.code, error.message, None, &self.agents))
                        };
                        self.transact(live, guard, Durability::Buffered, make).await?;
                        return Ok(None);
                    }
                }
            }
            let Some(hot) = hot.as_mut() else { return Ok(None) };
            let (mut failed, mut frames, mut alone) = (Vec::new(), Vec::new(), None);
            let mut room = limits::PARALLEL_TASKS.saturating_sub(at_work.tasks.len());
            let single = at_work.tasks.is_empty() && run.ready().nth(1).is_none();
            for task in run.ready() {
                if let Some(working) = at_work.tasks.get(&task.task) {
                    // It may be answered while it runs.
                    working.memory.told(task);
                    continue;
                }
                if room == 0 {
                    continue;
                }
                let at = if run.agent_loop {
                    self.agents
                        .agent_loop_of(&state.agent)
                        .map(|graph| (graph, Arc::new(AgentState::of(&state)) as AnyState))
                } else {
                    hot.frames.get(&task.frame).map(|frame| (frame.graph.clone(), frame.state.clone()))
                };
                let Some((graph, of)) = at else {
                    failed.push((task.task, node_gone(&task.node)));
                    continue;
                };
                let Some((node, kind, options)) = look(&*graph, &task.node) else {
                    failed.push((task.task, node_gone(&task.node)));
                    continue;
                };
                match kind {
                    Kind::Run => {}
                    Kind::Builtin => continue,
                    Kind::Graph(inner) => {
                        match enter(&run, task, &*graph, &node, &of, &inner) {
                            Ok((raw, state)) => frames.push((task.clone(), inner, raw, state)),
                            Err(error) => failed.push((task.task, error)),
                        }
                        continue;
                    }
                }
                if options.parallel.is_some_and(|most| at_work.count(task.frame, &node) >= most) {
                    continue;
                }
                room -= 1;
                let parked = hot.parked.remove(&task.task);
                let memory = match &parked {
                    Some(parked) => parked.memory.clone(),
                    None => {
                        let migrate = graph.migrate().cloned();
                        let (inner, session) = (Arc::downgrade(self), live.session_id.clone());
                        let inner: Weak<dyn Journal> = inner;
                        Arc::new(Memory::new(inner, session, state.turn(), task, node.clone(), migrate))
                    }
                };
                memory.told(task);
                at_work.begin(task.task, options.parallel.map(|_| (task.frame, node.clone())), &memory);
                let (number, item) = (task.task, task.input.clone());
                let again = memory.clone();
                let begin = move || graph.begin(&node, &of, item.as_ref(), again.clone());
                let work = async move {
                    let stretch = task::run(begin, parked, memory, &options).await;
                    if let Stretch::Over(Err(error)) = &stretch {
                        spans::trace_node_failed(error.code);
                    }
                    Done::Task(Ended { task: number, stretch })
                };
                let work = work.instrument(part.node(&state, &run, task));
                if single {
                    alone = Some(futures::FutureExt::boxed(work));
                } else {
                    running.spawn(work);
                }
            }
            if failed.is_empty() && frames.is_empty() {
                return Ok(alone);
            }
            let mut number = run.frames_made;
            let mut made = run.made;
            let mut new = Vec::new();
            let mut records = Vec::new();
            for (task, graph, raw, state) in frames {
                number += 1;
                let round = round(graph.start(), &mut made);
                records.push(FrameBegan {
                    frame: number,
                    task: task.task,
                    node: Some(task.node.clone()),
                    within: task.frame,
                    graph: graph.name().clone(),
                    state: Some(raw),
                    round,
                });
                new.push((number, HotFrame { graph, state }));
            }
            let make = |state: &State| {
                let mut draft = Draft::new(state, now());
                records.into_iter().for_each(|began| draft.frame_began(began));
                for (task, NodeError { code, message, .. }) in failed {
                    draft.task_failed(TaskFailed { task, code: code.to_owned(), message });
                }
                Ok(draft.settled(&self.agents))
            };
            self.transact(live, guard, Durability::Buffered, make).await?;
            hot.frames.extend(new);
            if let Some(alone) = alone {
                running.spawn(alone);
            }
        }
    }

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
        let mut patience = super::outcomes::Patience::default();
        loop {
            let mut guard = live.lock().await;
            let stored = async {
                let state = self.load(live, &mut guard).await?;
                if !state.is_in(turn) {
                    return Ok(());
                }
                if let (Some(ended), Some(hot), Some(run)) = (ended.take(), hot.as_mut(), &state.run) {
                    let mut ending = Ending { inner: self, state: &state, run, hot, ops: Vec::new(), spoiled: false };
                    ending.all(ended);
                    (ops, spoiled) = (ending.ops, ending.spoiled);
                }
                let make = |state: &State| {
                    let mut draft = Draft::new(state, now());
                    for op in &ops {
                        match op {
                            Op::Done(done) => draft.tasks_done(done.clone()),
                            Op::Failed(failed) => draft.task_failed(failed.clone()),
                            Op::Asks(task, questions, lost, memory) => {
                                // Read now: it may have been answered since it paused.
                                let known = state.run.as_ref().and_then(|run| run.tasks.get(task));
                                let goes_on = known.is_some_and(|known| memory.has_news(known));
                                draft.steps_lost(*task, lost);
                                draft.task_asks(*task, questions.clone(), goes_on);
                            }
                            Op::States(states) => draft.states(states.clone()),
                        }
                    }
                    Ok(draft.settled(&self.agents))
                };
                self.transact(live, &mut guard, Durability::Buffered, make).await.map(drop)
            };
            match stored.await {
                Ok(()) => break,
                Err(error) if error.is_gone() => break,
                Err(error) => {
                    drop(guard);
                    if *self.closing.borrow() {
                        break;
                    }
                    patience.wait(&error).await;
                }
            }
        }
        if spoiled {
            *hot = None;
        }
    }

    /// An agent's loop continues from a node that the runner executes itself, as far as such nodes are done.
    pub(super) async fn walk_loop(&self, live: &Live, guard: &mut LiveState) -> Result<(), Refusal> {
        loop {
            let state = guard.state()?;
            let task = state
                .run
                .as_ref()
                .filter(|_| state.status.is_active() && !state.held)
                .and_then(|run| run.loop_node().cloned());
            let Some(task) = task.filter(|_| countersign_core::journal::graph::node_done(&state)) else {
                return Ok(());
            };
            let make = |state: &State| {
                let mut draft = Draft::new(state, now());
                match self.walk_on(state, &task, None) {
                    Ok(then) => draft.tasks_done(TasksDone { frame: 0, done: vec![task.task.into()], then }),
                    Err(NodeError { code, message, .. }) => {
                        draft.task_failed(TaskFailed { task: task.task, code: code.to_owned(), message });
                    }
                }
                Ok(draft.settled(&self.agents))
            };
            self.transact(live, guard, Durability::Buffered, make).await?;
        }
    }

    /// Where an agent's loop continues after a node.
    fn walk_on(&self, state: &State, task: &Task, update: Option<&Raw>) -> Result<Then, NodeError> {
        let graph = self.agents.agent_loop_of(&state.agent).ok_or_else(|| node_gone(&task.node))?;
        let run = state.run.as_ref().ok_or_else(|| node_gone(&task.node))?;
        let node = resolve(&*graph, &task.node).ok_or_else(|| node_gone(&task.node))?;
        let mut turn: AnyState = Arc::new(AgentState::of(&Arc::new(state.clone())));
        if let Some(update) = update {
            let update = graph.read_update(Some(update)).map_err(NodeError::permanent)?;
            graph.merge(&mut turn, vec![update])?;
        }
        let ahead = graph.next(&[node], &[], &turn)?;
        rounds_left(&*graph, run, 0, &ahead)?;
        match ahead.tasks.len() {
            0 => Ok(Then::End),
            1 => {
                // The model is asked when each of its calls has a result, and not before.
                let open = |call: &Call| !matches!(call.phase, Phase::Finished | Phase::Settled(..));
                let to_model = ahead.tasks.iter().any(|(node, _)| matches!(&**node, loops::AGENT | loops::COMPRESSION));
                let turn = turn.downcast_ref::<AgentState>();
                if to_model && turn.is_some_and(|turn| turn.state().calls_of(0).any(open)) {
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

    /// The driver has nothing to do: a paused run stays in memory for a while.
    pub(super) fn keep_warm(&self, live: &Live, hot: Option<Hot>, pos: u64) {
        if let Some(hot) = hot {
            self.warm.keep(&live.session_id, hot, pos);
        }
    }
}

fn rounds_left(graph: &dyn AnyGraph, run: &GraphRun, frame: u32, ahead: &Ahead) -> Result<(), NodeError> {
    let (rounds, most) = (run.frames.get(&frame).map_or(0, |frame| frame.round), graph.rounds());
    if !ahead.tasks.is_empty() && rounds >= most {
        let what = format!("the graph {:?} was not over after {most} rounds (StateGraph::step_limit)", graph.name());
        return Err(fatal("step_limit", what));
    }
    if ahead.tasks.len() > limits::ROUND_TASKS {
        let what = format!("{} tasks in one round; at most {} are allowed", ahead.tasks.len(), limits::ROUND_TASKS);
        return Err(fatal("too_many_tasks", what));
    }
    Ok(())
}

/// The state that an inner graph begins with.
fn enter(
    run: &GraphRun,
    task: &Task,
    graph: &dyn AnyGraph,
    node: &str,
    state: &AnyState,
    inner: &Arc<dyn AnyGraph>,
) -> Result<(Raw, AnyState), NodeError> {
    let mut depth = 1;
    let mut frame = task.frame;
    while let Some(outer) = run.frames.get(&frame).and_then(|frame| run.tasks.get(&frame.task)) {
        (depth, frame) = (depth + 1, outer.frame);
    }
    if depth > limits::GRAPH_DEPTH {
        return Err(fatal("too_deep", format!("graphs in graphs go {} deep at most", limits::GRAPH_DEPTH)));
    }
    let state = graph.enter(node, state).ok_or_else(|| node_gone(node))?;
    let raw = inner
        .write_state(&state)
        .map_err(|error| NodeError::permanent(format!("the state of {:?}: {error}", inner.name())))?;
    Ok((raw, state))
}

/// A round with new numbers for its tasks.
pub(super) fn round(ahead: Ahead, made: &mut u32) -> Round {
    let tasks = ahead.tasks.into_iter().map(|(node, input)| {
        *made += 1;
        NewTask { task: *made, node, input }
    });
    Round { tasks: tasks.collect(), arrived: ahead.arrived }
}

impl Journal for Inner {
    fn store<'a>(self: Arc<Self>, session_id: &'a Arc<str>, turn: Turn, make: &'a Make<'a>) -> BoxFuture<'a, bool> {
        Box::pin(async move {
            let live = self.live(session_id);
            self.must_store(&live, turn, |state, _| Some(make(state))).await
        })
    }
}

impl Memory {
    /// Stores a record of this task. `false`: the turn is over, or the runtime closes.
    async fn store(&self, make: impl Fn(&State) -> Transition + Sync) -> bool {
        let Some(journal) = self.inner.upgrade() else { return false };
        journal.store(&self.session_id, self.turn, &make).await
    }

    /// Records that a step begins. When nothing may begin any more it does not return.
    pub(crate) async fn step_started(&self, step: &Arc<str>) {
        if !self.store(|state| Draft::new(state, now()).step_started(self.task, step.clone())).await {
            std::future::pending::<()>().await;
        }
        self.inside().steps.insert(step.clone(), countersign_core::journal::run::Step::Started);
    }

    pub(crate) async fn step_done(&self, step: &Arc<str>, value: Option<Raw>) {
        let known = value.clone();
        if !self.store(|state| Draft::new(state, now()).step_done(self.task, step.clone(), value.clone())).await {
            std::future::pending::<()>().await;
        }
        let mut inside = self.inside();
        match known {
            Some(value) => drop(inside.steps.insert(step.clone(), countersign_core::journal::run::Step::Done(value))),
            None => drop(inside.steps.remove(step)),
        }
    }
}
