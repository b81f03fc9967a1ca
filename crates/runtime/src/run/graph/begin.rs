//! Starting the parts of a graph's run: nodes, and the frames of nested graphs.

use std::sync::{Arc, Weak};

use countersign_core::{
    journal::{
        draft::Draft,
        progress::{GraphRun, Task},
        run::{FrameBegan, Raw, TaskFailed},
        state::State,
    },
    limits,
    number::TaskNo,
    refusal::{Code, Refusal},
};
use futures::{FutureExt as _, future::BoxFuture};
use tokio::task::JoinSet;
use tracing::Instrument as _;

use super::{
    super::{
        inner::Inner,
        live::{Live, LiveState, uses::LiveRef},
        outcomes::Done,
        spans,
    },
    hot::{AtWork, Ended, Hot, HotFrame},
    rounds::{fatal, look, node_gone, round},
};
use crate::{
    graph::{
        NodeError, NodeOptions,
        agent_loop::AgentState,
        compiled::{AnyGraph, Kind},
        task::{self, AnyState, Journal, Memory, Stretch, bounded},
    },
    store::nodes::Epoch,
};

/// The tasks and frames to start.
#[derive(Default)]
struct Beginning {
    nodes: Vec<BoxFuture<'static, Done>>,
    frames: Vec<NewFrame>,
    /// Tasks that cannot begin, by their number.
    failed: Vec<(TaskNo, NodeError)>,
}

/// The frame of a task whose node is a graph.
struct NewFrame {
    task: Arc<Task>,
    graph: Arc<dyn AnyGraph>,
    raw: Raw,
    state: AnyState,
}

/// The node of a task.
struct Node {
    graph: Arc<dyn AnyGraph>,
    /// The state that it gets.
    of: AnyState,
    name: Arc<str>,
    options: NodeOptions,
}

impl Inner {
    /// Starts the tasks that are ready. A single one is returned, to be polled in place.
    pub(in super::super) async fn begin_tasks(
        self: &Arc<Self>,
        live: &LiveRef,
        guard: &mut LiveState,
        hot: &mut Option<Hot>,
        at_work: &mut AtWork,
        running: &mut JoinSet<Done>,
        part: &mut spans::Part,
    ) -> Result<Option<BoxFuture<'static, Done>>, Refusal> {
        let mut alone = None;
        loop {
            let state = guard.state()?;
            let run = state.run.clone().filter(|run| !run.frames.is_empty() && state.status.is_active() && !state.held);
            let Some(run) = run else { break };
            let Some(hot) = self.heated(live, guard, &state, &run, hot).await? else { break };
            let single = at_work.tasks.is_empty() && run.ready().nth(1).is_none();
            let Beginning { mut nodes, frames, failed } = self.beginning(live, &state, &run, hot, at_work, part);
            if single {
                alone = nodes.pop();
            }
            nodes.into_iter().for_each(|node| drop(running.spawn(node)));
            if failed.is_empty() && frames.is_empty() {
                return Ok(alone);
            }
            self.frames_begin(live, guard, &run, hot, frames, failed).await?;
            if let Some(alone) = alone.take() {
                running.spawn(alone);
            }
        }
        Ok(None)
    }

    /// The states of the run in memory; `None` if they cannot be read, and the turn has failed because of that.
    async fn heated<'h>(
        &self,
        live: &LiveRef,
        guard: &mut LiveState,
        state: &State,
        run: &GraphRun,
        hot: &'h mut Option<Hot>,
    ) -> Result<Option<&'h mut Hot>, Refusal> {
        if hot.as_ref().is_none_or(|hot| !hot.fits(run)) {
            match self.heat(live, guard.working, state, hot.take()).await? {
                Ok(new) => *hot = Some(new),
                Err(error) => {
                    let failed = |state: &Arc<State>| {
                        Ok(Draft::of(state.clone(), self.now()).fail(error.code, error.message, None, &self.agents))
                    };
                    self.record(live, guard, failed).await?;
                }
            }
        }
        Ok(hot.as_mut())
    }

    /// The states of a run, from memory or from the journal.
    async fn heat(
        &self,
        live: &Live,
        lease: Option<Epoch>,
        state: &State,
        hot: Option<Hot>,
    ) -> Result<Result<Hot, NodeError>, Refusal> {
        let Some(run) = &state.run else { return Err(Refusal::new(Code::Internal, "no graph runs here")) };
        let known = hot.or_else(|| self.warm.take(&live.session_id, state.pos, lease?));
        if let Some(hot) = known.filter(|hot| hot.edited == run.edited && hot.fits(run)) {
            return Ok(Ok(hot));
        }
        self.fold_states(&live.session_id, run, state.pos).await
    }

    /// The tasks and frames of a run that can start now.
    fn beginning(
        self: &Arc<Self>,
        live: &LiveRef,
        state: &Arc<State>,
        run: &Arc<GraphRun>,
        hot: &mut Hot,
        at_work: &mut AtWork,
        part: &mut spans::Part,
    ) -> Beginning {
        let mut beginning = Beginning::default();
        let mut room = limits::PARALLEL_TASKS.saturating_sub(at_work.tasks.len());
        for task in run.ready() {
            if let Some(working) = at_work.tasks.get(&task.task) {
                // It may have been answered while it runs.
                working.memory.told(task);
                continue;
            }
            if room == 0 {
                continue;
            }
            let Some((node, kind)) = self.node_of(state, run, hot, task) else {
                beginning.failed.push((task.task, node_gone(&task.node)));
                continue;
            };
            match kind {
                Kind::Run => {}
                Kind::Builtin => continue,
                Kind::Graph(inner) => {
                    match enter(run, task, &node, &inner) {
                        Ok((raw, state)) => {
                            beginning.frames.push(NewFrame { task: task.clone(), graph: inner, raw, state });
                        }
                        Err(error) => beginning.failed.push((task.task, error)),
                    }
                    continue;
                }
            }
            if node.options.parallel.is_some_and(|most| at_work.count(task.frame, &node.name) >= most) {
                continue;
            }
            room -= 1;
            let span = part.node(state, run, task);
            let work = self.node_work(live, state, task, node, hot, at_work);
            beginning.nodes.push(work.instrument(span).boxed());
        }
        beginning
    }

    /// The node of a task; `None` if it no longer exists.
    fn node_of(&self, state: &Arc<State>, run: &GraphRun, hot: &Hot, task: &Task) -> Option<(Node, Kind)> {
        let (graph, of) = if run.agent_loop {
            let graph = self.agents.loop_of(state)?;
            (graph, Arc::new(AgentState::of(state)) as AnyState)
        } else {
            let frame = hot.frames.get(&task.frame)?;
            (frame.graph.clone(), frame.state.clone())
        };
        let (name, kind, options) = look(&*graph, &task.node)?;
        Some((Node { graph, of, name, options }, kind))
    }

    /// A node as work for the driver.
    fn node_work(
        self: &Arc<Self>,
        live: &LiveRef,
        state: &State,
        task: &Arc<Task>,
        Node { graph, of, name, options }: Node,
        hot: &mut Hot,
        at_work: &mut AtWork,
    ) -> impl Future<Output = Done> + Send + use<> {
        let parked = hot.parked.remove(&task.task);
        let journal: Weak<dyn Journal> = Arc::<Inner>::downgrade(self);
        let memory = match &parked {
            Some(parked) => {
                // The runtime in which it was suspended may have ended.
                parked.memory.moves_to(journal);
                parked.memory.told(task);
                parked.memory.clone()
            }
            None => {
                let migrate = graph.migrate().cloned();
                Arc::new(Memory::new(journal, live.session_id.clone(), state.turn(), task, name.clone(), migrate))
            }
        };
        at_work.begin(task.task, options.parallel.map(|_| (task.frame, name.clone())), &memory);
        let (number, item) = (task.task, task.input.clone());
        let again = memory.clone();
        let begin = move || graph.begin(&name, &of, item.as_ref(), again.clone());
        async move {
            let stretch = task::run(begin, parked, memory, &options).await;
            if let Stretch::Over(Err(error)) = &stretch {
                spans::trace_node_failed(error.code);
            }
            Done::Task(Ended { task: number, stretch })
        }
    }

    /// Records frames that begin, and tasks that cannot.
    async fn frames_begin(
        &self,
        live: &LiveRef,
        guard: &mut LiveState,
        run: &GraphRun,
        hot: &mut Hot,
        frames: Vec<NewFrame>,
        failed: Vec<(TaskNo, NodeError)>,
    ) -> Result<(), Refusal> {
        let (mut number, mut made) = (run.frames_made, run.made);
        let (mut new, mut records) = (Vec::new(), Vec::new());
        for NewFrame { task, graph, raw, state } in frames {
            number = number.later(1);
            let round = round(graph.start(), &mut made);
            records.push(FrameBegan {
                frame: number,
                task: task.task,
                node: Some(task.node.clone()),
                within: task.frame,
                graph: graph.name().clone(),
                state: Some(raw),
                state_version: graph.state_version(),
                round,
            });
            new.push((number, HotFrame { graph, state }));
        }
        let make = |state: &Arc<State>| {
            let mut draft = Draft::of(state.clone(), self.now());
            records.into_iter().for_each(|began| draft.frame_began(began));
            for (task, NodeError { code, message, .. }) in failed {
                draft.task_failed(TaskFailed { task, code: code.to_owned(), message });
            }
            Ok(draft.settled(&self.agents))
        };
        self.record(live, guard, make).await?;
        hot.frames.extend(new);
        Ok(())
    }
}

/// The state that an inner graph begins with.
fn enter(run: &GraphRun, task: &Task, node: &Node, inner: &Arc<dyn AnyGraph>) -> Result<(Raw, AnyState), NodeError> {
    let mut depth = 1;
    let mut frame = task.frame;
    while let Some(outer) = run.frames.get(&frame).and_then(|frame| run.tasks.get(&frame.task)) {
        (depth, frame) = (depth + 1, outer.frame);
    }
    if depth > limits::GRAPH_DEPTH {
        return Err(fatal("too_deep", format!("graphs in graphs go {} deep at most", limits::GRAPH_DEPTH)));
    }
    let state = node.graph.enter(&node.name, &node.of)?;
    let raw = inner
        .write_state(&state)
        .map_err(|error| NodeError::permanent(format!("the state of {:?}: {error}", inner.name())))?;
    Ok((bounded(&format!("the state of {:?}", inner.name()), raw)?, state))
}
