//! The records of ended tasks: results, finished rounds, finished frames.

use std::{collections::BTreeMap, sync::Arc};

use countersign_core::{
    journal::{
        progress::{GraphRun, Question, Step, Task, TaskPhase},
        run::{Arrival, DoneTask, FrameState, Raw, TaskFailed, TasksDone, Then},
        running::NewQuestion,
        state::State,
    },
    limits,
    number::{FrameNo, StateVersion, TaskNo},
};

use super::{
    hot::{Ended, Hot, HotFrame},
    rounds::{fatal, node_gone, resolve, round, rounds_left},
};
use crate::{
    graph::{
        NodeError,
        compiled::Ahead,
        task::{Asks, Memory, Parked, Stretch},
    },
    run::inner::Inner,
};

/// States are recorded once the updates since the last time have this many bytes, and at least as many as the last
/// recorded states.
const STATES_BYTES: usize = 64 * 1024;

/// States are also recorded after this many records.
const STATES_RECORDS: u64 = 1_000;

/// A record of ended tasks.
pub(super) enum Op {
    Done(TasksDone),
    Failed(TaskFailed),
    /// A paused task: its questions, its steps of unknown outcome, and the answers so far.
    Asks(TaskNo, Vec<NewQuestion>, Vec<Arc<str>>, Arc<Memory>),
    States(Vec<FrameState>),
}

impl Op {
    /// How many questions it asks: its own, and one about each step of unknown outcome.
    pub(super) fn asks(&self) -> usize {
        match self {
            Op::Asks(_, asked, lost, _) => asked.len() + lost.len(),
            Op::Done(_) | Op::Failed(_) | Op::States(_) => 0,
        }
    }

    /// Whether it is on record: an earlier try may have been stored although the store did not confirm it.
    pub(super) fn is_in(&self, state: &State) -> bool {
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
                // A task that asks again has its old question on record, with the answer that it cannot read.
                let is_asked = |known: &Question| !found.asks_again || known.answer.is_none();
                asked.iter().any(|question| found.questions.get(&question.name).is_some_and(is_asked))
                    || lost.iter().any(|step| match found.steps.get(step) {
                        Some(Step::Lost | Step::GivenUp(_) | Step::Again) => true,
                        Some(Step::Said(_)) => !found.asks_again,
                        Some(Step::Started | Step::Done(_)) | None => false,
                    })
            }),
            Op::States(_) => false,
        }
    }
}

/// Works out the records for tasks that have ended.
pub(super) struct Ending<'a> {
    pub(super) inner: &'a Inner,
    pub(super) state: &'a Arc<State>,
    pub(super) run: &'a GraphRun,
    pub(super) hot: &'a mut Hot,
    pub(super) ops: Vec<Op>,
    /// A merge failed half way, so the states in memory differ from those on record.
    pub(super) spoiled: bool,
}

impl Ending<'_> {
    pub(super) fn all(&mut self, mut ended: Vec<Ended>) {
        ended.sort_unstable_by_key(|ended| ended.task);
        let mut done: BTreeMap<FrameNo, Vec<DoneTask>> = BTreeMap::new();
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
        // Inner frames first: the end of one is a result in the outer one.
        while let Some((frame, tasks)) = done.pop_last() {
            if let Some((outer, task)) = self.frame_done(frame, tasks) {
                done.entry(outer).or_default().push(task);
            }
        }
        self.states();
    }

    fn failed(&mut self, task: TaskNo, NodeError { code, message, .. }: NodeError) {
        self.ops.push(Op::Failed(TaskFailed { task, code: code.to_owned(), message }));
    }

    /// A round cannot end, and its last task fails. If that is a graph that has just ended, its own last task fails
    /// instead: as a new graph, the retry would repeat all its nodes, and their steps.
    fn round_failed(&mut self, mut last: TaskNo, error: NodeError) {
        while let Some(TaskPhase::Graph(inner)) = self.run.tasks.get(&last).map(|task| &task.phase) {
            let ended = self.ops.iter_mut().find_map(|op| match op {
                Op::Done(done) if done.frame == *inner => Some(done),
                _ => None,
            });
            let Some(ended) = ended else { break };
            let Some(done) = ended.done.pop() else { break };
            (last, ended.then) = (done.task, Then::Wait);
        }
        self.ops.retain(|op| !matches!(op, Op::Done(done) if done.done.is_empty()));
        self.failed(last, error);
    }

    fn paused(&mut self, known: &Task, parked: Parked) {
        let memory = parked.memory.clone();
        let Asks { questions: asked, lost } = memory.asks(known);
        let waiting = self.state.open.len() + self.ops.iter().map(Op::asks).sum::<usize>();
        if waiting + asked.len() + lost.len() > limits::OPEN_QUESTIONS {
            let what = format!("{waiting} questions wait in this session already");
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
                self.ops.push(Op::Done(TasksDone {
                    frame: FrameNo::ROOT,
                    done,
                    state_version: StateVersion::FIRST,
                    then,
                }));
            }
            Err(error) => self.failed(known.task, error),
        }
    }

    /// Some tasks of a frame are done. If that ends an inner frame, the outer task that it ran for is done too.
    fn frame_done(&mut self, frame: FrameNo, done: Vec<DoneTask>) -> Option<(FrameNo, DoneTask)> {
        let open = self.run.frames.get(&frame)?;
        let last = done.last()?.task;
        let state_version = self.hot.frames.get(&frame).map(|frame| frame.graph.state_version()).unwrap_or_default();
        if open.unfinished as usize > done.len() {
            self.ops.push(Op::Done(TasksDone { frame, done, state_version, then: Then::Wait }));
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
                self.ops.push(Op::Done(TasksDone { frame, done, state_version, then }));
                leaves
            }
            Err(error) => {
                self.spoiled = true;
                let done: Vec<DoneTask> = done.into_iter().filter(|done| done.task != last).collect();
                if !done.is_empty() {
                    self.ops.push(Op::Done(TasksDone { frame, done, state_version, then: Then::Wait }));
                }
                self.round_failed(last, error);
                None
            }
        }
    }

    /// The number of the latest task, including those of rounds about to be recorded.
    fn made(&self) -> TaskNo {
        let of = |op: &Op| match op {
            Op::Done(TasksDone { then: Then::Round(round), .. }) => round.tasks.last().map(|task| task.task),
            _ => None,
        };
        self.ops.iter().filter_map(of).max().unwrap_or_default().max(self.run.made)
    }

    /// Merges a round's updates and finds the next round; at the end of an inner frame also the outer task's update.
    fn round_over(&mut self, frame: FrameNo) -> Result<(Ahead, Option<(FrameNo, DoneTask)>), NodeError> {
        let (run, hot) = (self.run, &mut *self.hot);
        let missing = || fatal("internal", format!("the frame {frame} of the run is missing"));
        let open = run.frames.get(&frame).ok_or_else(missing)?;
        let HotFrame { graph, state } = hot.frames.get_mut(&frame).ok_or_else(missing)?;
        let mut updates = Vec::with_capacity(run.tasks.len());
        let mut names: Vec<Arc<str>> = Vec::with_capacity(run.tasks.len());
        for task in run.tasks.values().filter(|task| task.frame == frame) {
            updates.extend(hot.updates.remove(&task.task));
            if names.last().is_none_or(|last| *last != task.node) {
                names.push(task.node.clone());
            }
        }
        // Finished nodes have successors, too.
        let now = |name: &Arc<str>| resolve(&**graph, name).ok_or_else(|| node_gone(name));
        let names = names.into_iter().map(|name| now(&name)).collect::<Result<Vec<_>, _>>()?;
        let arrived = open
            .arrived
            .iter()
            .map(|Arrival { node, from }| Ok::<_, NodeError>(Arrival { node: now(node)?, from: now(from)? }));
        let arrived = arrived.collect::<Result<Vec<_>, _>>()?;
        graph.merge(state, updates)?;
        let ahead = graph.next(&names, &arrived, state)?;
        rounds_left(&**graph, run, frame, &ahead)?;
        if !ahead.tasks.is_empty() || frame.is_root() {
            return Ok((ahead, None));
        }
        let task = run.tasks.get(&open.task).ok_or_else(missing)?;
        let inner = hot.frames.remove(&frame).ok_or_else(missing)?;
        let outer = hot.frames.get(&task.frame).ok_or_else(missing)?;
        let node = resolve(&*outer.graph, &task.node).ok_or_else(|| node_gone(&task.node))?;
        let given = outer.graph.leave(&node, &inner.state)?;
        hot.bytes.0 += given.json.as_ref().map_or(0, |json| json.get().len());
        hot.updates.insert(task.task, given.update);
        Ok((ahead, Some((task.frame, DoneTask { task: task.task, update: given.json }))))
    }

    /// Records the states from time to time, so that a fold never reads much more than their size.
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
                within: task.map(|task| task.frame).unwrap_or_default(),
                state,
                state_version: graph.state_version(),
            });
        }
        self.hot.bytes = (0, states.iter().map(|state| state.state.get().len()).sum());
        self.ops.push(Op::States(states));
    }
}
