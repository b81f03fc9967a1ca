//! Running graphs: what follows from where a run stands, and what its nodes bring back (SPEC G1, G3).
//!
//! The typed states of a run's frames are kept while a driver is at work, and made again from the journal when there are
//! none: they are the fold of the updates on record. Nodes that wait for a person are kept as they are for a while, so
//! that an answer finds them where they stopped; whatever is forgotten is begun again when it is answered.

use std::{
    collections::{BTreeMap, HashMap, VecDeque},
    sync::{Arc, Mutex, PoisonError},
    time::Instant,
};

use countersign_core::{
    journal::{
        draft::{Draft, Transition},
        graph as loops,
        record::Record,
        run::{
            DoneTask, FrameBegan, FrameState, GraphRun, NewTask, Raw, Round, Task, TaskFailed, TaskPhase, TasksDone,
            Then,
        },
        running::NewQuestion,
        state::{Call, Phase, State},
    },
    limits,
    refusal::{Code, Refusal},
};
use tokio::task::JoinSet;

use super::{
    Inner,
    driver::Done,
    live::{Live, LiveRef, LiveState},
    now, store_refusal,
    view::READ_PAGE,
};
use crate::{
    graph::{
        Gone, NodeError,
        agent_loop::AgentState,
        compiled::{Ahead, AnyGraph, Kind},
        task::{self, AnyState, AnyUpdate, Memory, Parked, Stretch},
    },
    store::Durability,
};

/// States are put on record once the updates since the last time have so many bytes, or as many as the states.
const STATES_BYTES: usize = 64 * 1024;

/// Also once so many records stand after the last time.
const STATES_RECORDS: u64 = 1_000;

/// A run of a graph in memory.
pub(super) struct Hot {
    /// Which run: the position it began at, and the latest edit it knows.
    began: u64,
    edited: u64,
    frames: BTreeMap<u32, HotFrame>,
    /// What tasks of unfinished rounds change.
    updates: HashMap<u32, AnyUpdate>,
    parked: HashMap<u32, Parked>,
    /// Bytes of updates since the states were last on record, and of the states then.
    bytes: (usize, usize),
}

/// The tasks that run here: as long as their futures do, whatever becomes of the states.
#[derive(Default)]
pub(super) struct AtWork {
    tasks: HashMap<u32, Working>,
    /// How many of a frame's node.
    counts: HashMap<(u32, Arc<str>), usize>,
}

struct Working {
    frame: u32,
    node: Arc<str>,
    memory: Arc<Memory>,
}

impl AtWork {
    fn begin(&mut self, task: u32, frame: u32, node: &Arc<str>, memory: &Arc<Memory>) {
        let working = Working { frame, node: node.clone(), memory: memory.clone() };
        self.tasks.insert(task, working);
        *self.counts.entry((frame, node.clone())).or_default() += 1;
    }

    fn end(&mut self, task: u32) {
        let Some(Working { frame, node, .. }) = self.tasks.remove(&task) else { return };
        if let Some(count) = self.counts.get_mut(&(frame, node)) {
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

/// A stretch of a task that has ended.
pub(super) struct Ended {
    task: u32,
    stretch: Stretch,
}

/// Runs that wait, ready to go on: the latest ones, by session.
#[derive(Default)]
pub(super) struct Warm {
    runs: Mutex<WarmRuns>,
}

#[derive(Default)]
struct WarmRuns {
    by_session: HashMap<Arc<str>, Hot>,
    /// Oldest first, with when they were kept.
    order: VecDeque<(Arc<str>, Instant)>,
    tasks: usize,
}

impl Warm {
    fn take(&self, session_id: &str) -> Option<Hot> {
        let mut runs = self.runs.lock().unwrap_or_else(PoisonError::into_inner);
        let hot = runs.by_session.remove(session_id)?;
        runs.tasks -= hot.parked.len();
        runs.order.retain(|(known, _)| **known != *session_id);
        Some(hot)
    }

    fn keep(&self, session_id: &Arc<str>, hot: Hot) {
        let tasks = hot.parked.len();
        // What is dropped here may be nodes of the user's: not under the lock.
        let mut dropped = Vec::new();
        self.expire();
        if tasks == 0 || tasks > limits::WARM_TASKS {
            return;
        }
        let mut runs = self.runs.lock().unwrap_or_else(PoisonError::into_inner);
        while runs.tasks + tasks > limits::WARM_TASKS {
            let Some((oldest, _)) = runs.order.pop_front() else { break };
            if let Some(hot) = runs.by_session.remove(&oldest) {
                runs.tasks -= hot.parked.len();
                dropped.push(hot);
            }
        }
        runs.tasks += tasks;
        runs.order.push_back((session_id.clone(), Instant::now()));
        if let Some(old) = runs.by_session.insert(session_id.clone(), hot) {
            runs.tasks -= old.parked.len();
            dropped.push(old);
        }
        drop(runs);
    }

    /// The root's state of a run that is kept, if it is the one that is asked for.
    pub(super) fn root(&self, session_id: &str, run: &GraphRun) -> Option<AnyState> {
        let runs = self.runs.lock().unwrap_or_else(PoisonError::into_inner);
        let hot = runs.by_session.get(session_id).filter(|hot| hot.fits(run))?;
        hot.root().map(|(_, state)| state.clone())
    }

    /// Forgets what was kept for long enough.
    pub(super) fn expire(&self) {
        let mut runs = self.runs.lock().unwrap_or_else(PoisonError::into_inner);
        let mut dropped = Vec::new();
        while runs.order.front().is_some_and(|(_, kept)| kept.elapsed().as_secs() >= limits::WARM_SECONDS) {
            let Some((oldest, _)) = runs.order.pop_front() else { break };
            if let Some(hot) = runs.by_session.remove(&oldest) {
                runs.tasks -= hot.parked.len();
                dropped.push(hot);
            }
        }
        drop(runs);
    }

    /// Forgets a session's run, or all.
    pub(super) fn forget(&self, session_id: Option<&str>) {
        match session_id {
            Some(session_id) => drop(self.take(session_id)),
            None => {
                let runs = std::mem::take(&mut *self.runs.lock().unwrap_or_else(PoisonError::into_inner));
                drop(runs);
            }
        }
    }
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

    /// Folds the states of a run's frames as they were at `until`.
    pub(super) async fn fold_states(
        &self,
        session_id: &str,
        run: &GraphRun,
        until: u64,
    ) -> Result<Result<Hot, NodeError>, Refusal> {
        let mut fold = Fold { hot: Hot::new(run), done: BTreeMap::new() };
        if run.agent_loop {
            // Its state is the session's.
            return Ok(Ok(fold.hot.for_loop(run)));
        }
        let Some(root) = self.graphs.get(&run.graph).cloned() else {
            let what = format!("there is no graph {:?} in this program any more", run.graph);
            return Ok(Err(fatal("graph_gone", what)));
        };
        let mut after = run.since.saturating_sub(1);
        while after < until {
            let page = self.store.read(session_id, after, READ_PAGE).await.map_err(store_refusal)?;
            let Some(last) = page.last() else { break };
            after = last.pos;
            for entry in page.iter().filter(|entry| entry.pos <= until) {
                if let Err(error) = fold.record(&root, &entry.record, entry.pos) {
                    return Ok(Err(error));
                }
            }
        }
        // It has read all there is, also the edits that are in the states it began with.
        fold.hot.edited = run.edited;
        Ok(Ok(fold.hot))
    }
}

/// The states of a run in the making, from the records of its journal.
struct Fold {
    hot: Hot,
    /// The tasks of each frame that are done, in the round that is not over.
    done: BTreeMap<u32, Vec<u32>>,
}

impl Fold {
    fn record(&mut self, root: &Arc<dyn AnyGraph>, record: &Record, pos: u64) -> Result<(), NodeError> {
        let unreadable = |what: &str| {
            let what = format!("{what}; the state or its type has changed since the run was stored");
            fatal("state_unreadable", what)
        };
        match record {
            Record::RunStarted(started) => {
                let state = root.read_state(&started.state).map_err(|error| unreadable(&error))?;
                self.hot.frames = BTreeMap::from([(0, HotFrame { graph: root.clone(), state })]);
            }
            Record::States(states) => {
                self.hot.frames.clear();
                for FrameState { frame, node, within, state } in states {
                    let graph = self.inner_graph(root, node.as_deref(), *within)?;
                    let state = graph.read_state(state).map_err(|error| unreadable(&error))?;
                    self.hot.frames.insert(*frame, HotFrame { graph, state });
                }
            }
            Record::FrameBegan(FrameBegan { frame, node, within, state: Some(state), .. }) => {
                let graph = self.inner_graph(root, node.as_deref(), *within)?;
                let state = graph.read_state(state).map_err(|error| unreadable(&error))?;
                self.hot.frames.insert(*frame, HotFrame { graph, state });
            }
            Record::TasksDone(done) => {
                let Some(frame) = self.hot.frames.get_mut(&done.frame) else { return Ok(()) };
                let tasks = self.done.entry(done.frame).or_default();
                for DoneTask { task, update } in &done.done {
                    let update = frame.graph.read_update(update.as_ref()).map_err(|error| unreadable(&error))?;
                    self.hot.updates.insert(*task, update);
                    tasks.push(*task);
                }
                if done.then != Then::Wait {
                    let mut tasks = std::mem::take(tasks);
                    tasks.sort_unstable();
                    let updates = tasks.iter().filter_map(|task| self.hot.updates.remove(task)).collect();
                    frame.graph.merge(&mut frame.state, updates)?;
                }
                if done.then == Then::End && done.frame != 0 {
                    self.hot.frames.remove(&done.frame);
                }
            }
            Record::StateEdited(edited) => {
                if let Some(frame) = self.hot.frames.get_mut(&0) {
                    let update = frame.graph.read_update(Some(&edited.update)).map_err(|error| unreadable(&error))?;
                    frame.graph.merge(&mut frame.state, vec![update])?;
                }
                self.hot.edited = pos;
            }
            _ => {}
        }
        Ok(())
    }

    fn inner_graph(
        &self,
        root: &Arc<dyn AnyGraph>,
        node: Option<&str>,
        within: u32,
    ) -> Result<Arc<dyn AnyGraph>, NodeError> {
        let Some(node) = node else { return Ok(root.clone()) };
        let outer = self.hot.frames.get(&within).map(|frame| frame.graph.clone());
        match outer.and_then(|outer| outer.kind(&resolve(&*outer, node)?)) {
            Some(Kind::Graph(graph)) => Ok(graph),
            _ => Err(node_gone(node)),
        }
    }
}

fn node_gone(node: &str) -> NodeError {
    let what = format!(
        "the run stands at the node {node:?}, which its graph has not any more: its program has changed. Bring the node back, \
         or register a migration (StateGraph::migrate), and retry the run"
    );
    fatal("node_gone", what)
}

/// The node's name now; `None` if it is gone.
fn resolve(graph: &dyn AnyGraph, node: &str) -> Option<Arc<str>> {
    if graph.kind(node).is_some() {
        return Some(node.into());
    }
    let renamed = graph.migrate()?(&Gone { node, question: None })?.node?;
    graph.kind(&renamed).is_some().then_some(renamed)
}

impl Hot {
    fn new(run: &GraphRun) -> Hot {
        Hot {
            began: run.began,
            edited: 0,
            frames: BTreeMap::new(),
            updates: HashMap::new(),
            parked: HashMap::new(),
            bytes: (0, 0),
        }
    }

    fn fits(&self, run: &GraphRun) -> bool {
        self.began == run.began
            && self.edited == run.edited
            && (run.agent_loop || run.frames.keys().all(|frame| self.frames.contains_key(frame)))
    }

    /// The root's state.
    pub(crate) fn root(&self) -> Option<(&Arc<dyn AnyGraph>, &AnyState)> {
        self.frames.get(&0).map(|frame| (&frame.graph, &frame.state))
    }

    fn for_loop(mut self, run: &GraphRun) -> Hot {
        self.edited = run.edited;
        self
    }
}

/// What is to go on record of tasks that have ended.
enum Op {
    Done(TasksDone),
    Failed(TaskFailed),
    /// A task that stands still: what it asks, the steps it knows nothing of, and what it was told so far.
    Asks(u32, Vec<NewQuestion>, Vec<Arc<str>>, Arc<Memory>),
    States(Vec<FrameState>),
}

impl Inner {
    /// Begins what is to run now. One task alone is given back, to be tried at once.
    pub(super) async fn begin_tasks(
        self: &Arc<Self>,
        live: &LiveRef,
        guard: &mut LiveState,
        hot: &mut Option<Hot>,
        at_work: &mut AtWork,
        running: &mut JoinSet<Done>,
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
                        self.transact(live, guard, Durability::Synced, make).await?;
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
                    // It may have been answered while it runs.
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
                let Some(node) = resolve(&*graph, &task.node) else {
                    failed.push((task.task, node_gone(&task.node)));
                    continue;
                };
                match graph.kind(&node) {
                    Some(Kind::Run) => {}
                    Some(Kind::Builtin) | None => continue,
                    Some(Kind::Graph(inner)) => {
                        match enter(&run, task, &*graph, &node, &of, &inner) {
                            Ok((raw, state)) => frames.push((task.clone(), inner, raw, state)),
                            Err(error) => failed.push((task.task, error)),
                        }
                        continue;
                    }
                }
                let options = graph.options(&node);
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
                        Arc::new(Memory::new(inner, session, state.turns, task, node.clone(), migrate))
                    }
                };
                memory.told(task);
                at_work.begin(task.task, task.frame, &node, &memory);
                let (number, item) = (task.task, task.input.clone());
                let again = memory.clone();
                let begin = move || graph.begin(&node, &of, item.as_ref(), again.clone());
                let work = async move {
                    let stretch = task::run(begin, parked, memory, &options).await;
                    Done::Task(Ended { task: number, stretch })
                };
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
            self.transact(live, guard, Durability::Synced, make).await?;
            hot.frames.extend(new);
            if let Some(alone) = alone {
                running.spawn(alone);
            }
        }
    }

    /// Puts on record what tasks have come to, however long the store takes to accept it.
    pub(super) async fn tasks_ended(
        &self,
        live: &LiveRef,
        turn: u32,
        hot: &mut Option<Hot>,
        at_work: &mut AtWork,
        ended: Vec<Ended>,
    ) {
        ended.iter().for_each(|ended| at_work.end(ended.task));
        let mut ended = Some(ended);
        let mut ops = Vec::new();
        let mut spoiled = false;
        let mut patience = super::driver::Patience::default();
        loop {
            let mut guard = live.lock().await;
            let stored = async {
                let state = self.load(live, &mut guard).await?;
                if state.turns != turn || !state.status.is_active() {
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
                                // Looked at now: somebody may have answered since it stood still.
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
                self.transact(live, &mut guard, Durability::Synced, make).await.map(drop)
            };
            match stored.await {
                Ok(()) => break,
                Err(error) if error.code == Code::SessionNotFound => break,
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

    /// An agent's loop goes on from a node that the runner does itself, as far as such nodes are done.
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
            self.transact(live, guard, Durability::Synced, make).await?;
        }
    }

    /// Where an agent's loop goes from a node.
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
                if to_model && turn.is_some_and(|turn| turn.state().calls.iter().any(open)) {
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

    /// The driver has nothing to do: what waits is kept as it is for a while.
    pub(super) fn keep_warm(&self, live: &Live, hot: Option<Hot>) {
        if let Some(hot) = hot {
            self.warm.keep(&live.session_id, hot);
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

/// Works out what goes on record of tasks that have ended.
struct Ending<'a> {
    inner: &'a Inner,
    state: &'a State,
    run: &'a GraphRun,
    hot: &'a mut Hot,
    ops: Vec<Op>,
    /// A merge went wrong half way, so the states in memory are not those on record.
    spoiled: bool,
}

impl Ending<'_> {
    fn all(&mut self, mut ended: Vec<Ended>) {
        ended.sort_unstable_by_key(|ended| ended.task);
        let mut done: BTreeMap<u32, Vec<DoneTask>> = BTreeMap::new();
        for Ended { task, stretch } in ended {
            let Some(known) = self.run.tasks.get(&task).filter(|known| known.phase != TaskPhase::Done) else {
                continue;
            };
            match stretch {
                Stretch::Over(Ok(given)) if self.run.agent_loop => self.loop_node(known, given.json),
                Stretch::Over(Ok(given)) => {
                    self.hot.bytes.0 += given.json.as_ref().map_or(0, |json| json.get().len());
                    self.hot.updates.insert(task, given.update);
                    done.entry(known.frame).or_default().push(DoneTask { task, update: given.json });
                }
                Stretch::Over(Err(error)) => self.failed(task, error),
                Stretch::Paused(parked) => self.paused(known, parked),
            }
        }
        // Inner frames first: the end of one is a result in the one outside.
        while let Some((frame, tasks)) = done.pop_last() {
            if let Some((outer, task)) = self.frame_done(frame, tasks) {
                done.entry(outer).or_default().push(task);
            }
        }
        self.states();
    }

    fn failed(&mut self, task: u32, NodeError { code, message, .. }: NodeError) {
        self.ops.push(Op::Failed(TaskFailed { task, code: code.to_owned(), message }));
    }

    fn paused(&mut self, known: &Task, parked: Parked) {
        let memory = parked.memory.clone();
        let (asked, lost) = {
            let mut inside = memory.inside();
            (std::mem::take(&mut inside.asked), std::mem::take(&mut inside.lost))
        };
        if self.state.open.len() + asked.len() > limits::OPEN_QUESTIONS {
            let what = format!("{} questions wait in this session already", self.state.open.len());
            self.failed(known.task, fatal("too_many_questions", what));
            return;
        }
        self.hot.parked.insert(known.task, parked);
        self.ops.push(Op::Asks(known.task, asked, lost, memory));
    }

    fn loop_node(&mut self, known: &Task, update: Option<Raw>) {
        match self.inner.walk_on(self.state, known, update.as_ref()) {
            Ok(then) => {
                let done = vec![DoneTask { task: known.task, update }];
                self.ops.push(Op::Done(TasksDone { frame: 0, done, then }));
            }
            Err(error) => self.failed(known.task, error),
        }
    }

    /// Some tasks of a frame are done. If that ends an inner frame, the task that it was is done too.
    fn frame_done(&mut self, frame: u32, done: Vec<DoneTask>) -> Option<(u32, DoneTask)> {
        let open = self.run.frames.get(&frame)?;
        let last = done.last()?.task;
        if open.unfinished as usize > done.len() {
            self.ops.push(Op::Done(TasksDone { frame, done, then: Then::Wait }));
            return None;
        }
        match self.round_over(frame) {
            Ok((ahead, leaves)) => {
                let then = if ahead.tasks.is_empty() {
                    Then::End
                } else {
                    let mut made = self.made();
                    Then::Round(round(ahead, &mut made))
                };
                self.ops.push(Op::Done(TasksDone { frame, done, then }));
                leaves
            }
            Err(error) => {
                self.spoiled = true;
                let done: Vec<DoneTask> = done.into_iter().filter(|done| done.task != last).collect();
                if !done.is_empty() {
                    self.ops.push(Op::Done(TasksDone { frame, done, then: Then::Wait }));
                }
                self.failed(last, error);
                None
            }
        }
    }

    /// The number of the latest task, with those of rounds that are about to go on record.
    fn made(&self) -> u32 {
        let of = |op: &Op| match op {
            Op::Done(TasksDone { then: Then::Round(round), .. }) => round.tasks.last().map(|task| task.task),
            _ => None,
        };
        self.ops.iter().filter_map(of).max().unwrap_or(0).max(self.run.made)
    }

    /// Merges what a round has changed, and finds what follows; at the end of an inner frame also what the task that it
    /// was changes outside.
    fn round_over(&mut self, frame: u32) -> Result<(Ahead, Option<(u32, DoneTask)>), NodeError> {
        let (run, hot) = (self.run, &mut *self.hot);
        let open = run.frames.get(&frame).ok_or_else(|| node_gone("?"))?;
        let tasks: Vec<&Arc<Task>> = run.tasks.values().filter(|task| task.frame == frame).collect();
        let HotFrame { graph, state } = hot.frames.get_mut(&frame).ok_or_else(|| node_gone("?"))?;
        let mut updates = Vec::with_capacity(tasks.len());
        let mut names: Vec<Arc<str>> = Vec::with_capacity(tasks.len());
        for task in tasks {
            updates.extend(hot.updates.remove(&task.task));
            if names.last().is_none_or(|last| *last != task.node) {
                names.push(task.node.clone());
            }
        }
        for name in &mut names {
            if let Some(now) = resolve(&**graph, name) {
                *name = now;
            }
        }
        graph.merge(state, updates)?;
        let ahead = graph.next(&names, &open.arrived, state)?;
        rounds_left(&**graph, run, frame, &ahead)?;
        if !ahead.tasks.is_empty() || frame == 0 {
            return Ok((ahead, None));
        }
        let task = run.tasks.get(&open.task).ok_or_else(|| node_gone("?"))?;
        let inner = hot.frames.remove(&frame).ok_or_else(|| node_gone("?"))?;
        let outer = hot.frames.get(&task.frame).ok_or_else(|| node_gone(&task.node))?;
        let node = resolve(&*outer.graph, &task.node).ok_or_else(|| node_gone(&task.node))?;
        let given = outer.graph.leave(&node, &inner.state)?;
        hot.bytes.0 += given.json.as_ref().map_or(0, |json| json.get().len());
        hot.updates.insert(task.task, given.update);
        Ok((ahead, Some((task.frame, DoneTask { task: task.task, update: given.json }))))
    }

    /// Puts the states on record now and then, so that a fold never reads much more than they are.
    fn states(&mut self) {
        let (since, last) = self.hot.bytes;
        let many = self.state.pos.saturating_sub(self.run.since) >= STATES_RECORDS;
        if (since < STATES_BYTES.max(last) && !many) || !self.hot.updates.is_empty() || self.spoiled {
            return;
        }
        let mut states = Vec::new();
        for (frame, HotFrame { graph, state }) in &self.hot.frames {
            let task = self.run.frames.get(frame).and_then(|frame| self.run.tasks.get(&frame.task));
            let Ok(state) = graph.write_state(state) else { return };
            states.push(FrameState {
                frame: *frame,
                node: task.map(|task| task.node.clone()),
                within: task.map_or(0, |task| task.frame),
                state,
            });
        }
        self.hot.bytes = (0, states.iter().map(|state| state.state.get().len()).sum());
        self.ops.push(Op::States(states));
    }
}

impl Memory {
    /// Stores something about this task. `false`: the turn is over, or the runtime closes.
    async fn store(&self, make: impl Fn(&State) -> Transition) -> bool {
        let Some(inner) = self.inner.upgrade() else { return false };
        let live = inner.live(&self.session_id);
        inner.must_store(&live, self.turn, |state, _| Some(make(state))).await
    }

    /// Puts on record that a step begins. When nothing is to begin any more it does not come back.
    pub(crate) async fn step_started(&self, step: &Arc<str>) {
        if !self.store(|state| Draft::new(state, now()).step_started(self.task, step.clone())).await {
            std::future::pending::<()>().await;
        }
        self.inside().steps.insert(step.clone(), countersign_core::journal::run::Step::Started);
    }

    /// Puts on record how a step ended.
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
