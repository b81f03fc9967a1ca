//! The step: everything that follows from a session's state before one of its effects may begin. What follows at once
//! from each record is in `settle.rs`.
//!
//! An input is a transition. [`advance`] adds what must be on record before anything is carried out, each in its own
//! append: what was lost with a process, the walk of a loop with custom nodes, answers that nobody receives, tools that
//! have changed, agents that calls target, and the starts of calls. All of it is stored with the input, at once, so a
//! decision and the start of the call that it permits are one commit. [`Effects`] are what is left to be carried out.

use std::{collections::BTreeSet, sync::Arc};

use super::{
    draft::{Catalog, Draft, Transition},
    graph::{self, Effects},
    progress::Task,
    record::Millis,
    run::{DoneTask, TaskFailed, TasksDone, Then},
    state::{Call, State},
};
use crate::number::{CallNo, FrameNo, StateVersion};

/// What a step asks the program around the session.
pub trait Program {
    /// Its agents, with their tools as they are today.
    fn catalog(&self) -> &dyn Catalog;
    /// Where an agent's loop continues after a node that has done its work (spec G2).
    ///
    /// # Errors
    /// It cannot: the record of the failed task.
    fn after_node(&self, state: &Arc<State>, task: &Task) -> Result<Then, TaskFailed>;
    /// Whether a call has its answers but no attempt that waits for them: another process had it (spec S13).
    fn has_lost_answers(&self, state: &State, call: &Call) -> bool;
    /// Whether a call that may begin is to wait, since its tool is not known yet (spec S13).
    fn holds_back(&self, call: &Call) -> bool;
}

/// How far a step goes.
#[derive(Clone, Copy, Debug)]
pub struct Reach<'a> {
    /// The calls that are still running, if calls that were started earlier must be accounted for: any others are lost.
    pub recovers: Option<&'a BTreeSet<CallNo>>,
    /// Whether anything may begin.
    pub begins: bool,
    /// How many calls may start, those that start again included.
    pub starts: usize,
}

/// Adds what follows from an input to its transition, which was made from the state `before`, and returns the effects
/// to carry out after that. If what follows would break the rules of journals but the input would not, the input is
/// returned alone, so that it is not lost.
pub fn advance(
    before: &State,
    input: Transition,
    now: Millis,
    program: &dyn Program,
    reach: Reach<'_>,
) -> (Transition, Effects) {
    let alone = input.extent();
    let mut draft = Draft::after(input, now);
    let catalog = program.catalog();
    // What began before a hold is not started again.
    if let Some(at_work) = reach.recovers.filter(|_| !draft.state.held) {
        if draft.state.has_begun_work() && draft.recover_all(at_work, catalog) {
            draft.end_append();
        }
        // The session may be older than its agent's current `context_tokens`.
        draft.ask_for_room(catalog);
        draft.end_append();
    }
    draft.walk(program);
    let mut effects = Effects::default();
    if reach.begins {
        effects = draft.begin(program, reach.starts.saturating_sub(draft.started.len()));
        // If no call may begin at the node, because its tools have changed or are gone, the loop continues from there.
        while draft.state.walks_from().is_some() {
            draft.walk(program);
            effects = draft.begin(program, reach.starts.saturating_sub(draft.started.len()));
        }
    }
    match draft.finish().or_only(before, alone) {
        Ok(made) => (made, effects),
        Err(input) => (input, Effects::default()),
    }
}

impl Draft {
    /// An agent's loop continues from nodes that the runner executes itself, as far as they are done.
    fn walk(&mut self, program: &dyn Program) {
        while let Some(task) = self.state.walks_from().cloned() {
            match program.after_node(&self.state, &task) {
                Ok(then) => self.tasks_done(TasksDone {
                    frame: FrameNo::ROOT,
                    done: vec![DoneTask { task: task.task, update: None }],
                    state_version: StateVersion::FIRST,
                    then,
                }),
                Err(failed) => self.task_failed(failed),
            }
            self.settle(program.catalog());
            self.end_append();
        }
    }

    /// Begins what may begin, and returns what is left to carry out.
    fn begin(&mut self, program: &dyn Program, starts: usize) -> Effects {
        let catalog = program.catalog();
        let mut effects = graph::next(&self.state);
        let lost = self.calls(&effects.start, |call| call.is_live() && program.has_lost_answers(&self.state, call));
        if self.input_lost(&lost, catalog) {
            effects = self.next();
        }
        if self.outdate_all(&[&*effects.start, &*effects.delegate].concat(), catalog) {
            effects = self.next();
        }
        // Calls for other agents begin after that, so that none of them is for a tool that has changed.
        while !effects.delegate.is_empty() {
            self.delegate(&effects.delegate, catalog);
            effects = self.next();
        }
        let mut calls = self.calls(&effects.start, |call| !program.holds_back(call));
        calls.truncate(starts);
        if !calls.is_empty() {
            self.start_calls(&calls);
            effects = self.next();
        }
        effects
    }

    /// Ends the append, and says what follows from it.
    fn next(&mut self) -> Effects {
        self.end_append();
        graph::next(&self.state)
    }

    fn calls(&self, of: &[CallNo], which: impl Fn(&Call) -> bool) -> Vec<CallNo> {
        let is_one = |call: &CallNo| self.state.call(*call).is_some_and(&which);
        of.iter().copied().filter(is_one).collect()
    }
}

impl State {
    /// The task of an agent's loop that has done its work and from which the loop continues.
    fn walks_from(&self) -> Option<&Task> {
        let run = self.run.as_ref().filter(|_| self.status.is_active() && !self.held)?;
        run.loop_node().filter(|_| graph::node_done(self)).map(|task| &**task)
    }
}
