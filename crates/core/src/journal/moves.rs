//! The transitions of a graph's run: how it begins, continues and ends.

use std::sync::Arc;

use super::{
    doubt::step_shown,
    draft::{Catalog, Draft, Transition},
    progress::{GraphRun, Step, Task, TaskPhase},
    record::{Action, EndReason, Interrupted, Kind, Record, Why, Withdrawal},
    run::{
        At, FrameBegan, FrameState, NewTask, Raw, Resumed, Round, RunStarted, StateEdited, TaskFailed, TasksDone, Then,
    },
    running::NewQuestion,
    state::{Open, Phase},
};
use crate::{
    approval::{key::approval_key, principal::Principal},
    call::{
        args::Args,
        gate::{Ask, DecisionType},
        reviewer::Reviewer,
        timeout::Timeout,
    },
    journal::permission::{check_may_decide, check_reviewer},
    limits,
    number::{FrameNo, InterruptionNo, StateVersion, TaskNo},
    refusal::{Code, Refusal},
};

impl Draft {
    /// An agent whose loop has custom nodes begins at the first of them: with its turn, or in the middle of one that began
    /// without such nodes, before its next model call. Calls that are open there end without them.
    pub(super) fn begin_loop(&mut self, catalog: &dyn Catalog) {
        let state = &self.state;
        let calls_model = !state.answered && state.calls.iter().all(|call| call.phase == Phase::Finished);
        let begins = state.status.is_active() && calls_model;
        if !begins || state.run.as_ref().is_some_and(|run| !run.frames.is_empty() || !run.agent_loop) {
            return;
        }
        let Some((graph, node)) = catalog.agent_loop(&state.agent) else { return };
        let task = state.run.as_ref().map(|run| run.made).unwrap_or_default().later(1);
        let round = Round { tasks: vec![NewTask { task, node, input: None }], arrived: Vec::new() };
        self.frame_began(FrameBegan {
            frame: FrameNo::ROOT,
            task: TaskNo::NONE,
            node: None,
            within: FrameNo::ROOT,
            graph,
            state: None,
            state_version: StateVersion::FIRST,
            round,
        });
    }

    /// A run of a graph begins: the turn of its session.
    ///
    /// # Errors
    /// `session_busy`, `approval_pending`.
    pub fn run_started(mut self, started: RunStarted, catalog: &dyn Catalog) -> Result<Transition, Refusal> {
        if self.state.is_stopped_short() {
            self.give_up_failed(started.by.as_ref(), None);
        }
        if !self.state.open.is_empty() {
            return Err(Refusal::new(
                Code::ApprovalPending,
                "the run of this session waits for an answer; answer it, or cancel the run, before another begins",
            )
            .with_details(serde_json::json!({ "pending": self.state.pending_keys() })));
        }
        if self.state.status.is_active() {
            return Err(Refusal::new(Code::SessionBusy, "a run is going on; wait for it to end, or cancel it"));
        }
        self.push(Record::RunStarted(Box::new(started)));
        Ok(self.settled(catalog))
    }

    /// A graph inside the run begins.
    pub fn frame_began(&mut self, began: FrameBegan) {
        self.push(Record::FrameBegan(Box::new(began)));
    }

    /// Tasks have their results. Their open questions are withdrawn; if the root has ended, the run has.
    pub fn tasks_done(&mut self, done: TasksDone) {
        let is_done = |task: TaskNo| done.done.iter().any(|done| done.task == task);
        self.withdraw(None, Withdrawal::NodeEnded, |open| {
            open.asked.question.as_ref().is_some_and(|at| is_done(at.task))
        });
        let over = done.frame.is_root() && matches!(done.then, Then::End);
        let agent_loop = self.state.run.as_ref().is_some_and(|run| run.agent_loop);
        self.push(Record::TasksDone(done));
        if over && agent_loop {
            // Its graph may reach the end while calls are open: none is left without a result.
            self.end(EndReason::EndTurn, None, None, None);
        } else if over {
            self.end_turn(None);
        }
    }

    /// A task failed, until a retry.
    pub fn task_failed(&mut self, failed: TaskFailed) {
        self.withdraw(None, Withdrawal::NodeEnded, |open| {
            open.asked.question.as_ref().is_some_and(|at| at.task == failed.task)
        });
        self.push(Record::TaskFailed(failed));
    }

    /// A task pauses: it asks these questions, or waits again for earlier ones. `answered`: one of their
    /// answers has arrived meanwhile, so it resumes at once.
    pub fn task_asks(&mut self, task: TaskNo, questions: Vec<NewQuestion>, answered: bool) {
        let Some((run, found)) = self.state.run.as_ref().and_then(|run| run.tasks.get(&task).map(|found| (run, found)))
        else {
            return;
        };
        let path: Arc<str> = run.path(found).into();
        for NewQuestion { name, payload, shown, schema, ask, default } in questions {
            let at = At { task, node: path.clone(), question: name, payload, schema, default };
            self.interrupt_at(Kind::Interrupt, at, shown, Arc::new(ask));
        }
        let found = self.state.run.as_ref().and_then(|run| run.tasks.get(&task));
        let waits = found.is_some_and(|task| {
            task.questions.values().any(|question| question.answer.is_none())
                || task.steps.values().any(|step| *step == Step::Lost)
        });
        // A task with no pending question would wait forever.
        let answered = answered || !waits;
        let phase = found.map(|task| task.phase.clone());
        if phase != Some(if answered { TaskPhase::Ready } else { TaskPhase::Waiting }) {
            self.push(Record::TaskWaits { task, answered });
        }
    }

    /// A pending request of a graph is made again, under a new key.
    pub(super) fn ask_again(&mut self, asked: &Interrupted) {
        if let (Kind::Interrupt, Some(at), Some(action)) = (asked.kind, &asked.question, asked.actions.first()) {
            self.interrupt_at(Kind::Interrupt, (**at).clone(), action.args.clone(), action.ask.clone());
        }
    }

    fn interrupt_at(&mut self, kind: Kind, at: At, args: Args, ask: Arc<Ask>) {
        let graph = self.state.run.as_ref().map_or_else(|| Arc::from(""), |run| run.graph.clone());
        let expires_at = self.due_in(kind, ask.timeout);
        let action = Action {
            tool_use_id: format!("t{}", at.task).into(),
            agent: graph,
            name: at.question.clone(),
            args,
            ask,
            ..Action::default()
        };
        let n = self.state.next_interruption();
        let at = Some(Arc::new(at));
        self.ask_people(Interrupted {
            n,
            kind,
            actions: vec![action],
            expires_at,
            display_as_content: false,
            question: at,
            clock: None,
        });
    }

    /// Steps whose outcome is unknown although nothing crashed: they were abandoned while running.
    pub fn steps_lost(&mut self, task: TaskNo, steps: &[Arc<str>]) {
        let Some(run) = self.state.run.clone() else { return };
        for name in steps {
            self.step_lost(&run, task, name);
        }
    }

    fn step_lost(&mut self, run: &GraphRun, task: TaskNo, name: &Arc<str>) {
        // Its end may have been stored, although its node was given up before it was told.
        let is_unknown = |step: &Step| matches!(step, Step::Started | Step::Said(_));
        let found = run.tasks.get(&task).filter(|found| found.steps.get(name).is_some_and(is_unknown));
        let Some(found) = found else { return };
        let Some((payload, shown)) = step_shown(name, found.input.as_ref()) else { return };
        let node = run.path(found).into();
        let at = At { task, node, question: name.clone(), payload, schema: None, default: None };
        // Whose answer allowed it is unknown. The role that was asked last reports its outcome; running it again would
        // need everybody's approval, so that is not offered where there are several roles.
        let allowed = if run.asked.len() > 1 { DecisionType::ENDED.to_vec() } else { DecisionType::IN_DOUBT.to_vec() };
        let levels = run.asked.last().map(|role| Reviewer::of(&**role)).into_iter().collect();
        let ask = Ask { timeout: Timeout::Never, allowed: Some(allowed), levels, ..Ask::default() };
        self.interrupt_at(Kind::InDoubt, at, shown, Arc::new(ask));
    }

    /// A step of a task is about to begin, or may have begun already ([`Task::restored`]).
    pub fn step_started(mut self, task: TaskNo, step: Arc<str>) -> Transition {
        self.push(Record::StepStarted { task, step });
        self.finish()
    }

    /// A step has ended; without a value it failed, and may be retried.
    pub fn step_done(mut self, task: TaskNo, step: Arc<str>, value: Option<Raw>) -> Transition {
        self.push(Record::StepDone { task, step, value });
        self.finish()
    }

    /// The states of all frames, so that a fold can begin here.
    pub fn states(&mut self, states: Vec<FrameState>) {
        self.push(Record::States(states));
    }

    /// After a crash: started steps have an unknown outcome, and a person reports it.
    pub(super) fn recover_steps(&mut self) -> bool {
        let Some(run) = self.state.run.clone().filter(|_| self.state.status.is_active()) else { return false };
        let mut found = false;
        // For a failed task this is asked when a retry reaches it.
        let open = |task: &&Arc<Task>| matches!(task.phase, TaskPhase::Ready | TaskPhase::Waiting);
        for task in run.tasks.values().filter(open) {
            for (name, _) in task.steps.iter().filter(|(_, step)| **step == Step::Started) {
                self.step_lost(&run, task.task, name);
                found = true;
            }
        }
        found
    }

    /// Takes an answer that [`crate::decide::resolve::decide`] has checked.
    pub(crate) fn resumed(mut self, resumed: Resumed, said: Option<Arc<str>>, catalog: &dyn Catalog) -> Transition {
        let by = resumed.by.clone();
        self.push(Record::Resumed(resumed));
        self.reviewer_said(said, by);
        self.settled(catalog)
    }

    /// A person changes the state of a graph's run, as a node would; the caller has checked that the update can be
    /// merged.
    ///
    /// # Errors
    /// `session_busy` while nodes run; `invalid_message` if the update is longer than [`limits::UPDATE_BYTES`].
    /// `forbidden` if it would withdraw a request, or an answer, that is not `by`'s to decide.
    pub fn edit_state(
        mut self,
        edited: StateEdited,
        by: &Principal,
        catalog: &dyn Catalog,
    ) -> Result<Transition, Refusal> {
        if !self.state.rests() {
            return Err(Refusal::new(
                Code::SessionBusy,
                "nodes are running; their state is changed when they wait or have ended",
            ));
        }
        if edited.update.get().len() > limits::UPDATE_BYTES {
            let what = format!("an update has at most {} bytes", limits::UPDATE_BYTES);
            return Err(Refusal::new(Code::InvalidMessage, what));
        }
        // Its reviewer was shown the old state: the nodes read the new one, and ask again.
        let run = self.state.run.clone();
        let stale = |open: &&Open| {
            let at = open.asked.question.as_ref().filter(|_| open.asked.kind == Kind::Interrupt);
            at.and_then(|at| run.as_ref()?.tasks.get(&at.task)).is_some_and(|task| task.frame.is_root())
        };
        let withdraws = |what: &str, n: InterruptionNo, refusal: Refusal| {
            let key = approval_key(&self.state.session_id, n);
            Refusal::new(refusal.code, format!("the change would withdraw {what}{key:?}: {}", refusal.message))
        };
        for open in self.state.open.iter().filter(stale) {
            check_reviewer(&self.state, open, by).map_err(|refusal| withdraws("", open.asked.n, refusal))?;
        }
        // An answer that has not had its effect yet counts for the old state only.
        let tasks = run.iter().flat_map(|run| run.tasks.values()).filter(|task| task.reads_edits());
        for question in tasks.flat_map(|task| task.questions.values()).filter(|question| question.answer.is_some()) {
            check_may_decide(&self.state, &question.reviewer(), by)
                .map_err(|refusal| withdraws("the answer to ", question.n, refusal))?;
        }
        self.withdraw(edited.by.as_ref(), Withdrawal::StateEdited, stale);
        self.push(Record::StateEdited(edited));
        Ok(self.settled(catalog))
    }

    /// Adds the consequences in the run of a graph: it fails when nothing in it continues.
    pub(super) fn settle_run(&mut self) {
        let failure = self.state.run.as_ref().filter(|_| self.state.status.is_active()).and_then(|run| run.failure());
        if let Some((code, message)) = failure.map(|(code, message)| (code.to_owned(), message.to_owned())) {
            self.push_failure(Why::Error(code), message, None);
        }
    }
}
