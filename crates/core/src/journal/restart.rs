//! Turns that a process resumed after another one had ended in the middle of them.
//!
//! A turn may itself be what ends the process. So resuming it is recorded first, and every record that shows progress
//! resets the count, as does a process that ends cleanly. A turn without progress is resumed once more, one session at
//! a time, so that the cause can be distinguished from sessions that merely ran beside it; after that it is held:
//! without effects until a message, a decision or a cancel arrives. A deadline does not release it.
//!
//! A turn of a store that was restored from a backup is held in the same way: its next effects may have been carried
//! out after the backup was made. Calls that could start without a decision therefore become calls whose outcome is
//! unknown: continuing the turn does not permit them again. The same holds for the steps of a graph's tasks that could
//! run without one: they are asked about when a node reaches them ([`Task::restored`](super::progress::Task::restored)). A
//! turn that had failed needs no hold, since only a retry continues it, but its calls and tasks have unknown outcomes as
//! well; and so have those of a fork that is made while its original is in this state.

use std::sync::Arc;

use super::{
    draft::{Draft, Transition},
    progress::{GraphRun, MayHaveRun, Step, Task, TaskPhase},
    record::{Block, Held, Hold, Record, Restart, Restarted},
    state::{Call, Phase, State, Status},
};

impl State {
    /// Why the turn is on hold, if it is.
    #[must_use]
    pub fn why_held(&self) -> Option<Held> {
        match (self.held, self.restarts, self.restored) {
            (false, ..) => None,
            (true, 0, _) => Some(Held::Fork),
            (true, _, false) => Some(Held::Crashes),
            (true, _, true) => Some(Held::Restored),
        }
    }

    /// Its hold, if it is on hold.
    #[must_use]
    pub fn hold(&self) -> Option<Hold> {
        self.why_held().map(|why| Hold::of(why, self.restarts, self.is_a_graphs(), self.locale))
    }

    /// What reviewers are told about its pending requests: its hold, or that its store was restored since its turn
    /// failed.
    #[must_use]
    pub fn hold_of_requests(&self) -> Option<Hold> {
        let unknown = || Hold::of(Held::Restored, 0, self.is_a_graphs(), self.locale);
        self.hold().or_else(|| self.is_unknown_since_a_backup().then(unknown))
    }

    /// Whether the turn is a run of a graph.
    fn is_a_graphs(&self) -> bool {
        self.run.as_ref().is_some_and(|run| !run.agent_loop && !run.frames.is_empty())
    }

    /// How a record affects the hold and the count of processes. A record that only begins something, or follows by
    /// itself, is not progress.
    pub(super) fn note_progress(&mut self, record: &Record) {
        match record {
            Record::BlockBegan(_)
            | Record::BlockShown(_)
            | Record::CallStarted { .. }
            | Record::StepStarted { .. }
            | Record::ApprovalSent { .. }
            | Record::ApprovalNotSent { .. }
            | Record::Noted(_)
            | Record::RuleRevoked(_)
            | Record::Renamed(_)
            // A deadline releases nothing: nobody has continued the turn.
            | Record::TimedOut { .. } => {}
            // A queued message is no progress; a turn that is held with nothing pending is released by one.
            Record::MessageQueued(_) if !self.held || !self.open.is_empty() => {}
            Record::Restarted(restarted) => {
                let restored = restarted.why == Restart::Restored;
                if restarted.held || restored {
                    self.restored = restored;
                }
                self.restarts = restarted.times;
                self.held |= restarted.held;
                if restored {
                    self.lose_what_would_begin();
                }
            }
            Record::Decided(_) | Record::Answered(_) | Record::Resumed(_) | Record::Retried(_) | Record::TurnEnded(_) => {
                self.continued();
            }
            // The consequences of a deadline do not release a held turn, nor does an edit of its state, or a call whose
            // connection is given up.
            Record::Interrupted(_)
            | Record::MakeRoom(_)
            | Record::StateEdited(_)
            | Record::CallsGated(_)
            | Record::CallFinished(_)
            | Record::CallLost { .. }
            | Record::Withdrawn { .. }
            | Record::Status { .. }
                if self.held => {}
            Record::UserMessage(_) if self.restarts > 0 => self.continued(),
            _ => self.restarts = 0,
        }
    }

    /// A person continues the turn.
    fn continued(&mut self) {
        (self.held, self.restarts, self.restored) = (false, 0, false);
    }

    /// Whether its store, or that of the session it was forked from, was restored from a backup, and nobody has continued
    /// the turn since: what it did after the backup is not known here.
    #[must_use]
    pub fn is_unknown_since_a_backup(&self) -> bool {
        self.restored && (self.held || self.status == Status::Failed)
    }

    /// Whether a call or a task could begin something without a further decision, and nobody would be asked whether it
    /// has.
    fn would_begin(&self) -> bool {
        self.calls.iter().any(would_begin) || self.run.as_ref().is_some_and(|run| run.would_begin())
    }

    /// What would begin without a further decision may have begun after the backup was made.
    pub(super) fn lose_what_would_begin(&mut self) {
        self.run(GraphRun::lose_what_would_begin);
        let loops = self.loop_node().is_some();
        for call in self.calls.iter_mut().filter(|call| would_begin(call)) {
            if loops && call.run.is_root() && !call.cleared && call.attempts == 0 {
                // Custom nodes have not seen it yet, and may refuse it: people are asked after them.
                call.ask_anew();
            } else {
                call.lose();
            }
        }
    }
}

/// Whether it is permitted and has its own effect. Agents that are called have none: each of their calls has its
/// own verdict.
pub(super) fn would_begin(call: &Call) -> bool {
    call.phase == Phase::Permitted && call.target.is_none()
}

/// Whether it may be one that the model's provider carries out once it receives the approval: only the runtime knows
/// which those are.
fn may_be_the_providers(call: &Call) -> bool {
    call.phase == Phase::Finished && call.target.is_none()
}

impl Task {
    /// Whether it runs without a further decision, or after a retry.
    fn would_run(&self) -> bool {
        matches!(self.phase, TaskPhase::Ready | TaskPhase::Failed(..))
    }
}

impl GraphRun {
    /// Whether a task could run, even after a retry, without anybody being asked about its steps.
    pub(super) fn would_begin(&self) -> bool {
        // Steps that it reached since an earlier restore may have run since this one's backup.
        let known = Some(MayHaveRun::default());
        let again = |task: &Task| task.steps.values().any(|step| *step == Step::Again);
        self.tasks.values().any(|task| task.would_run() && (task.restored != known || again(task)))
    }

    /// Tasks that could run may have run after the backup was made from which the store was restored.
    pub(super) fn lose_what_would_begin(&mut self) {
        for task in self.tasks.values_mut().filter(|task| task.would_run()) {
            let task = Arc::make_mut(task);
            task.restored = Some(MayHaveRun::default());
            task.doubts_again();
        }
    }
}

impl Draft {
    /// Records that a process resumes the turn, or that none does any longer; see [`Restarted`]. The notice to
    /// followers of a held turn comes after the block that the model has begun, of which `partial` is known.
    pub fn restarted(mut self, times: u32, held: bool, partial: Option<Block>) -> Transition {
        if let Some(block) = self.begun(partial).filter(|_| held) {
            self.push(Record::BlockShown(block));
        }
        let why = match (times, held) {
            (_, true) => Restart::Crashes,
            (0, false) => Restart::Ended,
            (_, false) => Restart::Resumed,
        };
        self.push_restarted(Restarted { why, times, held, ..Restarted::default() });
        self.finish()
    }

    /// Holds a turn whose store was restored from a backup: it has no effects, not even after a deadline. A turn that
    /// has failed has none before its retry; whatever that would begin has an unknown outcome from here on, and
    /// reviewers of the turn's pending requests are told so ([`State::hold_of_requests`]). `None` if there is no such
    /// turn, or this is on record already. A hold for another reason is replaced: somebody may have resumed a fork, or
    /// a turn that ended processes, after the backup.
    pub fn restored(mut self) -> Option<Transition> {
        let failed = self.state.status == Status::Failed;
        // A retry would tell the model's provider of them: see [`Record::ApprovalSent`].
        let would_tell = failed && !self.state.restored && self.state.calls.iter().any(may_be_the_providers);
        // Its pending requests may have been decided since, and a retry would carry that out again.
        let would_ask = failed && !self.state.restored && !self.state.open.is_empty();
        let is_known = self.state.is_unknown_since_a_backup() || failed;
        if !self.state.status.is_open() || is_known && !would_tell && !would_ask && !self.state.would_begin() {
            return None;
        }
        if failed {
            self.push_restarted(Restarted { why: Restart::Restored, ..Restarted::default() });
            return Some(self.finish());
        }
        let times = self.state.restarts.max(1);
        // The notice comes after the block that the model had begun.
        if let Some(block) = self.begun(None) {
            self.push(Record::BlockShown(block));
        }
        let paused = self.state.status == Status::AwaitingInput;
        self.push_restarted(Restarted { why: Restart::Restored, times, held: true, paused, ..Restarted::default() });
        Some(self.finish())
    }

    /// If it is held, with what its followers are told.
    fn push_restarted(&mut self, mut restarted: Restarted) {
        if restarted.held {
            restarted.pending = self.state.pending();
            (restarted.graph, restarted.locale) = (self.state.is_a_graphs(), self.state.locale);
        }
        self.push(Record::Restarted(restarted));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        journal::{
            record::Loss,
            run::{DoneTask, NewTask, Round, TasksDone, Then},
        },
        locale::{Locale, Text},
        number::{CallNo, FrameNo, StateVersion, TaskNo},
    };

    #[test]
    fn r9_an_edit_of_its_state_does_not_release_a_turn_that_ends_processes() {
        let mut state = State::new("s".into());
        (state.held, state.restarts) = (true, 2);
        let edited: Record = serde_json::from_str(r#"{"state_edited":{"update":{}}}"#).expect("a record");
        state.note_progress(&edited);
        assert_eq!((state.why_held(), state.restarts), (Some(Held::Crashes), 2));
    }

    /// The connection of a tool that had asked people something is given up.
    #[test]
    fn r9_r4_a_call_that_is_lost_does_not_change_why_its_turn_is_held() {
        for (restored, held) in [(false, Held::Crashes), (true, Held::Restored)] {
            let mut state = State::new("s".into());
            (state.held, state.restarts, state.restored) = (true, 2, restored);
            state.note_progress(&Record::CallLost { call: CallNo::FIRST, why: Loss::Interrupted });
            assert_eq!((state.why_held(), state.restarts), (Some(held), 2));
        }
    }

    #[test]
    fn r9_r4_a_hold_names_the_ways_that_its_session_has() {
        for (locale, graph, pending, restored) in Locale::ALL.iter().flat_map(|&locale| {
            let bits = (0..8).map(|n| (n & 1 > 0, n & 2 > 0, n & 4 > 0));
            bits.map(move |(graph, pending, restored)| (locale, graph, pending, restored))
        }) {
            let why = if restored { Held::Restored } else { Held::Crashes };
            let why = Hold::of(why, 2, graph, locale).message(pending);
            let names = |text| why.contains(locale.text(text));
            assert_eq!((names(Text::WayMessage), names(Text::WayDecision)), (!graph, pending), "{why}");
            assert!(names(Text::WayRetry) && !why.contains('{') && why.contains('2') != restored, "{why}");
        }
        let hold = Hold::of(Held::Restored, 1, true, Locale::En);
        assert_eq!(
            hold.message(false),
            "the store was restored from a backup: what was done after the backup is not on record here, and calls may have \
             run; the turn resumes when somebody retries it; a cancel ends it"
        );
    }

    #[test]
    fn r9_r4_a_hold_says_of_which_kind_its_session_is() {
        let run = r#"{"run_started":{"graph":"g","state":{},"round":{"tasks":[{"task":1,"node":"n"}]}}}"#;
        let said = r#"{"user_message":{"content":["hi"]}}"#;
        for (begins, graph) in [(run, true), (said, false)] {
            let mut state = State::new("s".into());
            state.locale = Locale::Vi;
            state.take(&serde_json::from_str(begins).expect("a record"));
            let held = Draft::new(&state, 1).restored().expect("it is held");
            let Some(Record::Restarted(restarted)) = held.records().last() else { panic!("{held:?}") };
            let hold = Hold::of(Held::Restored, 1, graph, Locale::Vi);
            assert_eq!((restarted.hold(), held.state().hold()), (hold, Some(hold)));
        }
    }

    #[test]
    fn r4_a_graph_inside_of_a_task_that_may_have_run_may_have_run_too() {
        let round = |task| Round {
            tasks: vec![NewTask { task: TaskNo::new(task), node: "n".into(), input: None }],
            arrived: Vec::new(),
        };
        let done = |frame, task, then| TasksDone {
            frame: FrameNo::new(frame),
            done: vec![DoneTask { task: TaskNo::new(task), update: None }],
            state_version: StateVersion::FIRST,
            then,
        };
        let mut run = GraphRun::new("g".into(), false, 1, TaskNo::NONE, &round(1));
        assert!(run.would_begin());
        run.lose_what_would_begin();
        assert!(!run.would_begin());
        run.begin(FrameNo::new(1), TaskNo::new(1), "inner".into(), &round(2), 2);
        run.tasks_done(&done(1, 2, Then::Round(round(3))), 3);
        let may_have_run = |run: &GraphRun, task| {
            run.tasks[&TaskNo::new(task)].restored.as_ref().is_some_and(|all| all.includes("step"))
        };
        assert!(may_have_run(&run, 3), "in each round");
        run.tasks_done(&done(1, 3, Then::End), 4);
        run.tasks_done(&done(0, 1, Then::Round(round(4))), 5);
        assert!(!may_have_run(&run, 4), "what follows begins as a new call would");
    }

    /// It was reached after the first restore and its attempt has failed, which leaves no record of it.
    #[test]
    fn r4_a_step_that_was_reached_since_a_restore_may_have_run_before_the_next() {
        let tasks = vec![NewTask { task: TaskNo::new(1), node: "n".into(), input: None }];
        let mut run = GraphRun::new("g".into(), false, 1, TaskNo::NONE, &Round { tasks, arrived: Vec::new() });
        run.lose_what_would_begin();
        let reached = |run: &mut GraphRun| {
            let task = Arc::make_mut(run.tasks.get_mut(&TaskNo::new(1)).expect("the task"));
            task.restored.as_mut().expect("it may have run").reach(&"pay".into());
        };
        reached(&mut run);
        assert!(run.would_begin());
        run.lose_what_would_begin();
        assert!(run.tasks[&TaskNo::new(1)].restored.as_ref().is_some_and(|all| all.includes("pay")));
        assert!(!run.would_begin());
    }
}
