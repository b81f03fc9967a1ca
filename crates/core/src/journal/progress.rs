//! How far a run of a graph has come (spec G1, G3): the fold of its records. The typed state is not here: the code that
//! knows its type folds it from the updates in [`TasksDone`].

use std::{collections::BTreeMap, sync::Arc};

use serde::{Deserialize, Serialize};

use super::run::{
    Arrival, At, DoneTask, NewTask, Raw, Round, STEP_GIVEN_UP, TasksDone, Then, UNREADABLE_ANSWER, given,
};
use crate::{
    call::reviewer::Reviewer,
    number::{FrameNo, InterruptionNo, TaskNo},
};

/// The progress of a run of a graph.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct GraphRun {
    /// The graph.
    pub graph: Arc<str>,
    /// Whether it is an agent's loop.
    pub agent_loop: bool,
    /// The position at which it began.
    pub began: u64,
    /// The position from which the states of its frames are folded.
    pub since: u64,
    /// The latest position at which a person changed the state.
    pub edited: u64,
    /// The last task so far.
    pub made: TaskNo,
    /// The last frame so far.
    pub frames_made: FrameNo,
    /// The open frames. 0 is the root.
    pub frames: BTreeMap<FrameNo, Frame>,
    /// The tasks of their rounds.
    pub tasks: BTreeMap<TaskNo, Arc<Task>>,
    /// The roles that it has asked, except the session's owner, each once: their answers may have allowed a step
    /// whose outcome is unknown (spec P4).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub asked: Vec<Arc<str>>,
}

/// A graph in progress.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Frame {
    /// The graph.
    pub graph: Arc<str>,
    /// The task it is; 0 for the root.
    pub task: TaskNo,
    /// The round, from 1.
    pub round: u32,
    /// The position at which it began.
    pub at: u64,
    /// Tasks of the round that have no result yet.
    pub unfinished: u32,
    /// See [`Round::arrived`].
    pub arrived: Vec<Arrival>,
}

/// One run of a node.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Task {
    /// Its number in the session.
    pub task: TaskNo,
    /// The frame.
    pub frame: FrameNo,
    /// The node.
    pub node: Arc<str>,
    /// The item it is for.
    #[serde(default, deserialize_with = "given", skip_serializing_if = "Option::is_none")]
    pub input: Option<Raw>,
    /// The state of the task.
    pub phase: TaskPhase,
    /// Its steps, by name.
    pub steps: BTreeMap<Arc<str>, Step>,
    /// What it asked, by name.
    pub questions: BTreeMap<Arc<str>, Question>,
    /// The store was restored from a backup when the task could run without a decision, or it is inside such a task.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub restored: Option<MayHaveRun>,
    /// It failed with [`UNREADABLE_ANSWER`] and was retried: where its node still cannot read an answer, or what a person
    /// reported of a step, it asks again.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub asks_again: bool,
}

/// A task may have run after the backup was made: each of its steps that is not idempotent and not on record has an
/// unknown outcome. When its node reaches it, that is recorded as its start; from then on it is a step like any other.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct MayHaveRun {
    /// The steps that have been reached since.
    reached: Vec<Arc<str>>,
}

impl MayHaveRun {
    /// Whether this step may have run, with nothing about it on record.
    #[must_use]
    pub fn includes(&self, step: &str) -> bool {
        self.reached.iter().all(|reached| **reached != *step)
    }

    /// It is on record from now on.
    pub fn reach(&mut self, step: &Arc<str>) {
        if self.includes(step) {
            self.reached.push(step.clone());
        }
    }
}

/// The state of a task.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TaskPhase {
    /// It runs, or is ready to run.
    Ready,
    /// It has pending interruptions.
    Waiting,
    /// It is the graph in this frame.
    Graph(FrameNo),
    /// It failed, until a retry: the code, and what failed.
    Failed(String, String),
    /// It has its result.
    Done,
}

/// The state of a journaled step of a task.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Step {
    /// It was begun.
    Started,
    /// It has this result, and is not done again.
    Done(Raw),
    /// A person reported this result of it, which may not be of the step's type.
    Said(Raw),
    /// A crash left its outcome unknown: a person is asked.
    Lost,
    /// A person rejected it, for this reason.
    GivenUp(String),
    /// A person decided that it runs again; it has not yet begun.
    Again,
}

impl Step {
    /// Whether its start or its end can come next.
    pub(super) fn may_begin(&self) -> bool {
        matches!(self, Step::Started | Step::Again)
    }
}

/// A question of a task.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Question {
    /// The interruption's number.
    pub n: InterruptionNo,
    /// The SHA-256 of the payload as it was shown: an answer counts only for that question.
    pub digest: Arc<str>,
    /// The role that it was for; none: the session's owner.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub role: Option<Arc<str>>,
    /// The answer.
    #[serde(default, deserialize_with = "given", skip_serializing_if = "Option::is_none")]
    pub answer: Option<Raw>,
}

impl Question {
    pub(super) fn reviewer(&self) -> Reviewer {
        self.role.as_deref().map(Reviewer::of).unwrap_or_default()
    }
}

impl Task {
    /// Whether an edit of the run's state changes what it reads: it is in the root, and has no result yet. An inner
    /// graph has a state of its own.
    pub(super) fn reads_edits(&self) -> bool {
        self.frame.is_root() && !matches!(self.phase, TaskPhase::Graph(_) | TaskPhase::Done)
    }

    /// People are asked once more about steps that they let run again: the state has changed since their decision.
    pub(super) fn doubts_again(&mut self) {
        let again = self.steps.values_mut().filter(|step| **step == Step::Again);
        again.for_each(|step| *step = Step::Started);
    }
}

impl GraphRun {
    /// Tasks that run or are ready to run, in order.
    pub fn ready(&self) -> impl Iterator<Item = &Arc<Task>> {
        self.tasks.values().filter(|task| task.phase == TaskPhase::Ready)
    }

    /// Whether nothing can happen until a person answers.
    #[must_use]
    pub fn waits(&self) -> bool {
        self.ready().next().is_none() && self.tasks.values().any(|task| task.phase == TaskPhase::Waiting)
    }

    /// The failure that stops the run: a task failed, and nothing else continues.
    #[must_use]
    pub fn failure(&self) -> Option<(&str, &str)> {
        let mut failure = None;
        for task in self.tasks.values() {
            match &task.phase {
                TaskPhase::Ready | TaskPhase::Waiting => return None,
                TaskPhase::Failed(code, message) if failure.is_none() => failure = Some((&**code, &**message)),
                TaskPhase::Failed(..) | TaskPhase::Graph(_) | TaskPhase::Done => {}
            }
        }
        failure
    }

    /// The current node of an agent's loop.
    #[must_use]
    pub fn loop_node(&self) -> Option<&Arc<Task>> {
        self.tasks.values().next().filter(|_| self.agent_loop)
    }

    /// The path of a task's node through the graphs it is in.
    #[must_use]
    pub fn path(&self, task: &Task) -> String {
        let mut path = task.node.to_string();
        let mut frame = task.frame;
        while let Some(outer) = self.frames.get(&frame).and_then(|frame| self.tasks.get(&frame.task)) {
            path = format!("{}/{path}", outer.node);
            frame = outer.frame;
        }
        path
    }

    pub(super) fn new(graph: Arc<str>, agent_loop: bool, pos: u64, made: TaskNo, round: &Round) -> GraphRun {
        let mut run = GraphRun {
            graph: graph.clone(),
            agent_loop,
            began: pos,
            since: pos,
            edited: 0,
            made,
            frames_made: FrameNo::ROOT,
            frames: BTreeMap::new(),
            tasks: BTreeMap::new(),
            asked: Vec::new(),
        };
        run.begin(FrameNo::ROOT, TaskNo::NONE, graph, round, pos);
        run
    }

    pub(super) fn begin(&mut self, frame: FrameNo, task: TaskNo, graph: Arc<str>, round: &Round, pos: u64) {
        self.frames_made = self.frames_made.max(frame);
        if let Some(outer) = self.task(task) {
            outer.phase = TaskPhase::Graph(frame);
        }
        let new = Frame { graph, task, round: 0, at: pos, unfinished: 0, arrived: Vec::new() };
        self.frames.insert(frame, new);
        self.round(frame, round, pos);
    }

    fn round(&mut self, frame: FrameNo, round: &Round, pos: u64) {
        let Some(open) = self.frames.get_mut(&frame) else { return };
        open.round += 1;
        open.at = pos;
        open.unfinished = u32::try_from(round.tasks.len()).unwrap_or(u32::MAX);
        open.arrived.clone_from(&round.arrived);
        let is_within_one = self.tasks.get(&open.task).is_some_and(|task| task.restored.is_some());
        for NewTask { task, node, input } in &round.tasks {
            self.made = self.made.max(*task);
            let task = Task {
                task: *task,
                frame,
                node: node.clone(),
                input: input.clone(),
                phase: TaskPhase::Ready,
                steps: BTreeMap::new(),
                questions: BTreeMap::new(),
                restored: is_within_one.then(MayHaveRun::default),
                asks_again: false,
            };
            self.tasks.insert(task.task, Arc::new(task));
        }
    }

    pub(super) fn task(&mut self, task: TaskNo) -> Option<&mut Task> {
        self.tasks.get_mut(&task).map(Arc::make_mut)
    }

    pub(super) fn tasks_done(&mut self, record: &TasksDone, pos: u64) {
        if matches!(record.then, Then::Wait) {
            for DoneTask { task, .. } in &record.done {
                if let Some(task) = self.task(*task).filter(|task| task.phase != TaskPhase::Done) {
                    task.phase = TaskPhase::Done;
                    (task.steps, task.questions, task.input) = (BTreeMap::new(), BTreeMap::new(), None);
                    if let Some(frame) = self.frames.get_mut(&record.frame) {
                        frame.unfinished = frame.unfinished.saturating_sub(1);
                    }
                }
            }
            return;
        }
        if self.frames.len() == 1 {
            self.tasks.clear();
        } else {
            self.tasks.retain(|_, task| task.frame != record.frame);
        }
        match &record.then {
            Then::Round(round) => self.round(record.frame, round, pos),
            Then::Wait | Then::End => {
                self.frames.remove(&record.frame);
            }
        }
    }

    /// A decision or answer about the question `n`, or about the step whose outcome is unknown.
    pub(super) fn said(&mut self, at: &At, say: impl FnOnce(&mut Task)) {
        if let Some(task) = self.task(at.task) {
            say(task);
            task.phase = TaskPhase::Ready;
        }
    }

    /// Whether a task has failed, even if others continue.
    #[must_use]
    pub fn has_failed_task(&self) -> bool {
        self.tasks.values().any(|task| matches!(task.phase, TaskPhase::Failed(..)))
    }

    /// Failed tasks are to run again.
    pub(super) fn retry(&mut self) {
        for task in self.tasks.values_mut() {
            if let TaskPhase::Failed(code, _) = &task.phase {
                let (asks_again, gave_up) = (task.asks_again || code == UNREADABLE_ANSWER, code == STEP_GIVEN_UP);
                let task = Arc::make_mut(task);
                (task.phase, task.asks_again) = (TaskPhase::Ready, asks_again);
                let given_up = |step: &&mut Step| gave_up && matches!(step, Step::GivenUp(_));
                task.steps.values_mut().filter(given_up).for_each(|step| *step = Step::Started);
            }
        }
    }

    /// Moves an agent's loop back to this node, which counts as done.
    pub(super) fn back_to(&mut self, node: &str) {
        if let Some(frame) = self.frames.get_mut(&FrameNo::ROOT) {
            frame.at = 0;
            frame.unfinished = 1;
        }
        let last = self.tasks.keys().next_back().copied();
        self.tasks.retain(|task, _| Some(*task) == last);
        if let Some(task) = last.and_then(|task| self.task(task)) {
            task.node = node.into();
            task.phase = TaskPhase::Ready;
            task.steps.clear();
        }
    }

    /// Ends everything in the run.
    pub(super) fn end(&mut self) {
        self.frames.clear();
        self.tasks.clear();
    }
}
