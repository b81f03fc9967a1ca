//! How the records of a graph's run change a session's state.

use std::sync::Arc;

use super::{
    graph,
    progress::{GraphRun, Question, Step, Task, TaskPhase},
    record::{CallStatus, Decided, Interrupted, Kind, Withdrawal},
    run::{FrameBegan, LoopUpdate, Raw, Rejected, Resumed, RunStarted, TaskFailed, TasksDone},
    state::{Call, Open, Phase, State, Status},
};
use crate::{
    approval::decision::Choice,
    call::{
        args::{Args, ArgsError, Digest},
        gate::Ask,
        reviewer::Reviewer,
    },
    locale::Text,
    number::{InterruptionNo, TaskNo},
};

/// A question of a node.
#[derive(Clone, Debug)]
pub struct NewQuestion {
    /// Its name in its node.
    pub name: Arc<str>,
    /// What is shown.
    pub payload: Raw,
    /// The payload as a reviewer is shown it: see [`shown`].
    pub shown: Args,
    /// The JSON Schema that the answer must fit.
    pub schema: Option<Arc<super::schema::Schema>>,
    /// The reviewer, and how long they have.
    pub ask: Ask,
    /// The answer if the deadline expires.
    pub default: Option<Raw>,
}

/// A payload as it is shown: the object itself, or else `{"payload": …}`. It is read as strictly as arguments are.
///
/// # Errors
/// It is longer or deeper than arguments may be, or has a duplicate key.
pub fn shown(payload: &Raw) -> Result<Args, ArgsError> {
    let text = payload.get();
    if text.starts_with('{') { Args::parse(text) } else { Args::parse(&format!("{{\"payload\":{text}}}")) }
}

/// The identity of a question: the digest of its payload as it is shown, so that an answer counts even if a build
/// orders the payload's members differently.
fn shown_digest(payload: &Raw) -> Arc<str> {
    let digest = shown(payload).map_or_else(|_| Digest::of(payload.get().as_bytes()), |shown| shown.digest());
    digest.to_string().into()
}

impl State {
    pub(super) fn run(&mut self, change: impl FnOnce(&mut GraphRun)) {
        if let Some(run) = &mut self.run {
            change(Arc::make_mut(run));
        }
    }

    pub(super) fn task(&mut self, task: TaskNo, change: impl FnOnce(&mut Task)) {
        self.run(|run| {
            if let Some(task) = run.task(task) {
                change(task);
            }
        });
    }

    pub(super) fn run_started(&mut self, started: &RunStarted, pos: u64) {
        self.turn_begins(&started.roles);
        self.held = false;
        if self.first_words.is_none() {
            self.first_words = Some(started.graph.clone());
        }
        let made = self.run.as_ref().map(|run| run.made).unwrap_or_default();
        self.run = Some(Arc::new(GraphRun::new(started.graph.clone(), false, pos, made, &started.round)));
    }

    pub(super) fn frame_began(&mut self, began: &FrameBegan, pos: u64) {
        if began.task.is_none() {
            let (graph, made) = (began.graph.clone(), self.run.as_ref().map(|run| run.made).unwrap_or_default());
            self.run = Some(Arc::new(GraphRun::new(graph, true, pos, made, &began.round)));
        } else {
            self.run(|run| run.begin(began.frame, began.task, began.graph.clone(), &began.round, pos));
        }
    }

    pub(super) fn task_failed(&mut self, failed: &TaskFailed) {
        let (code, message) = (failed.code.clone(), failed.message.clone());
        self.task(failed.task, |task| task.phase = TaskPhase::Failed(code, message));
    }

    pub(super) fn step_started(&mut self, task: TaskNo, step: &Arc<str>) {
        self.task(task, |task| {
            if let Some(restored) = &mut task.restored {
                restored.reach(step);
            }
            task.steps.insert(step.clone(), Step::Started);
        });
    }

    pub(super) fn step_done(&mut self, task: TaskNo, step: &Arc<str>, value: Option<&Raw>) {
        self.task(task, |task| match value {
            Some(value) => drop(task.steps.insert(step.clone(), Step::Done(value.clone()))),
            None => drop(task.steps.remove(step)),
        });
    }

    pub(super) fn tasks_done(&mut self, done: &TasksDone) {
        if matches!(self.loop_node(), Some(graph::AGENT | graph::APPROVAL)) {
            for call in self.calls.iter_mut().filter(|call| call.phase == Phase::Permitted) {
                call.cleared = true;
            }
        }
        if self.run.as_ref().is_some_and(|run| run.agent_loop) {
            for update in done.done.iter().filter_map(|done| done.update.as_ref()) {
                let Ok(update) = serde_json::from_str::<LoopUpdate>(update.get()) else {
                    // Rejections that cannot be read: none of the calls that the node guarded may run.
                    for id in self.calls.iter().map(|call| call.id.clone()).collect::<Vec<_>>() {
                        self.reject_call(&id, None);
                    }
                    continue;
                };
                for Rejected { tool_use_id: id, message } in update.reject {
                    self.reject_call(&id, message.as_deref());
                }
            }
        }
        let pos = self.pos;
        self.run(|run| run.tasks_done(done, pos));
    }

    /// Nobody has answered: what begins with the default may have begun after a backup.
    pub(super) fn answer_by_default(&mut self, asked: &Interrupted, default: &Raw) {
        self.answer(asked, default);
        if self.is_unknown_since_a_backup() {
            self.lose_what_would_begin();
        }
    }

    pub(super) fn withdrawn(&mut self, n: InterruptionNo, why: Withdrawal) {
        let Some(Open { asked, .. }) = self.take_open(n) else { return };
        if let Some(default) = asked.input_default().filter(|_| why == Withdrawal::TakenBack) {
            self.answer_by_default(&asked, default);
        }
        // The task may ask again.
        if let Some(at) = &asked.question {
            self.task(at.task, |task| {
                task.questions.retain(|_, question| question.n != n);
                // Its outcome is still unknown.
                if asked.kind == Kind::InDoubt && task.steps.get(&at.question) == Some(&Step::Lost) {
                    task.steps.insert(at.question.clone(), Step::Started);
                }
            });
        }
    }

    pub(super) fn resumed(&mut self, resumed: &Resumed) {
        self.held = false;
        let Some(Open { asked, .. }) = self.take_open(resumed.n) else { return };
        self.answer(&asked, &resumed.value);
    }

    /// The task that asked has its answer.
    pub(super) fn answer(&mut self, asked: &Interrupted, value: &Raw) {
        if asked.kind == Kind::Input {
            self.input_answered(asked.n, value);
            return;
        }
        let Some(at) = &asked.question else { return };
        self.run(|run| {
            run.said(at, |task| {
                if let Some(question) = task.questions.get_mut(&at.question) {
                    question.answer = Some(value.clone());
                }
            });
        });
    }

    /// A person decided about a step whose outcome is unknown.
    pub(super) fn step_decided(&mut self, asked: &Interrupted, decided: &Decided) {
        let (Kind::InDoubt, Some(at), Some(decision)) = (asked.kind, &asked.question, decided.decisions.first()) else {
            return;
        };
        let given_up = self.locale.outcome_unknown(decision.message());
        self.run(|run| {
            run.said(at, |task| {
                let step = match &decision.choice {
                    Choice::Approve { .. } => Step::Again,
                    // The step's result, as JSON, or as text.
                    Choice::Respond { output } => serde_json::from_str::<Box<serde_json::value::RawValue>>(output)
                        .map(Raw::from)
                        .or_else(|_| Raw::of(output))
                        .map_or_else(|error| Step::GivenUp(error.to_string()), Step::Said),
                    _ => Step::GivenUp(given_up),
                };
                task.steps.insert(at.question.clone(), step);
            });
        });
    }

    /// A custom node refuses a call of the latest answer, unless the call is pending, has begun or is finished. One that has begun
    /// before may have taken effect, which is its result then. A model may give several calls one id, and the node cannot say
    /// which it means: all of them are refused.
    pub fn reject_call(&mut self, id: &str, message: Option<&str>) {
        let locale = self.locale;
        let open = |call: &&mut Call| {
            call.run.is_root()
                && *call.id == *id
                && matches!(call.phase, Phase::Proposed | Phase::Gated | Phase::Permitted)
        };
        for call in self.calls.iter_mut().filter(open) {
            call.phase = if call.attempts > 0 {
                Phase::Settled(CallStatus::Error, locale.outcome_unknown(message))
            } else {
                let text = message.unwrap_or_else(|| locale.text(Text::Rejected));
                Phase::Settled(CallStatus::Rejected, text.to_owned())
            };
        }
    }

    /// Whether calls or steps were started that have no result: after a crash their outcome is unknown.
    #[must_use]
    pub fn has_begun_work(&self) -> bool {
        let steps =
            |run: &Arc<GraphRun>| run.tasks.values().any(|task| task.steps.values().any(|step| *step == Step::Started));
        self.calls.iter().any(|call| matches!(call.phase, Phase::Started(_))) || self.run.as_ref().is_some_and(steps)
    }

    /// Whether the start or the end of a task's step can be recorded: not while the task waits for people. `None`: it
    /// never can, since the task has ended or failed, or people decide about the step.
    #[must_use]
    pub fn takes_step(&self, task: TaskNo, step: &str) -> Option<bool> {
        let task = self.run.as_ref()?.tasks.get(&task)?;
        task.steps.get(step).is_none_or(Step::may_begin).then_some(())?;
        match task.phase {
            TaskPhase::Ready => Some(true),
            TaskPhase::Waiting => Some(false),
            TaskPhase::Graph(_) | TaskPhase::Failed(..) | TaskPhase::Done => None,
        }
    }

    /// Whether a task's step is on record with its result.
    #[must_use]
    pub fn has_step_done(&self, task: TaskNo, step: &str) -> bool {
        let task = self.run.as_ref().and_then(|run| run.tasks.get(&task));
        task.is_some_and(|task| matches!(task.steps.get(step), Some(Step::Done(_))))
    }

    /// Whether no effect follows, apart from those under way: a person has to decide, the turn has ended, or it is
    /// held.
    #[must_use]
    pub fn rests(&self) -> bool {
        self.status != Status::Running || self.held
    }

    /// Whether effects follow from this state or are under way, so that one process has to carry them out. A held session
    /// does nothing; a call that asks may be kept running by the process that began it; a node of an
    /// agent's loop may be done and its successor not begun.
    #[must_use]
    pub fn is_at_work(&self) -> bool {
        let asks = || self.calls.iter().any(|call| call.phase == Phase::Asking);
        match self.status {
            Status::Running => !self.held,
            Status::AwaitingInput => !self.held && (self.has_begun_work() || asks() || graph::node_done(self)),
            Status::Failed => self.has_begun_work() || asks(),
            Status::Idle | Status::Completed | Status::Cancelled => false,
        }
    }

    /// Tasks that read the root's state begin again with the new state: their finished steps stay done, and what was
    /// answered to the old state is asked again.
    pub(super) fn state_edited(&mut self, pos: u64) {
        self.run(|run| {
            run.edited = pos;
            for task in run.tasks.values_mut().filter(|task| task.reads_edits()) {
                let task = Arc::make_mut(task);
                task.questions.clear();
                // A decision to run a step again was made for the earlier state, too.
                task.doubts_again();
                if task.phase == TaskPhase::Waiting && !task.steps.values().any(|step| *step == Step::Lost) {
                    task.phase = TaskPhase::Ready;
                }
            }
        });
    }

    /// The run of a fork: answers given in the original do not count, and only the original knows the outcome of its
    /// started steps.
    pub(super) fn run_forked(&mut self) {
        let unfinished = self.calls.iter().any(|call| call.phase != Phase::Finished);
        self.calls.iter_mut().for_each(|call| call.cleared = false);
        self.run(|run| {
            if run.agent_loop && unfinished {
                // Back to the model's answer, so that every node of the loop runs before its calls again.
                run.back_to(graph::AGENT);
            }
            for number in run.tasks.keys().copied().collect::<Vec<_>>() {
                let Some(task) = run.task(number) else { continue };
                task.questions.clear();
                if task.phase == TaskPhase::Waiting {
                    task.phase = TaskPhase::Ready;
                }
                // Whatever was decided about it, it has begun in the original.
                let in_doubt = |step: &&mut Step| matches!(step, Step::Lost | Step::GivenUp(_) | Step::Again);
                task.steps.values_mut().filter(in_doubt).for_each(|step| *step = Step::Started);
            }
        });
    }

    /// Whether a call may begin now: it is permitted, and no custom node has been bypassed.
    #[must_use]
    pub fn may_begin(&self, call: &Call) -> bool {
        let loops = call.run.is_root() && self.loop_node().is_some();
        call.phase == Phase::Permitted && call.handoff().is_none() && (call.cleared || !loops)
    }

    /// The current node of an agent's loop that has custom nodes.
    #[must_use]
    pub fn loop_node(&self) -> Option<&str> {
        self.run.as_ref()?.loop_node().map(|task| &*task.node)
    }

    pub(super) fn task_asked(&mut self, asked: &Interrupted) {
        let Some(at) = &asked.question else { return };
        let digest = shown_digest(&at.payload);
        let reviewer = asked.actions.first().map(|action| action.ask.reviewer(0));
        let role: Option<Arc<str>> = reviewer.and_then(Reviewer::role).map(Arc::from);
        if let Some(role) = role.clone() {
            self.run(|run| {
                // The latest one comes last.
                run.asked.retain(|asked| *asked != role);
                run.asked.push(role);
            });
        }
        self.task(at.task, |task| {
            task.phase = TaskPhase::Waiting;
            if asked.kind == Kind::InDoubt {
                let before = task.steps.insert(at.question.clone(), Step::Lost);
                task.asks_again &= !matches!(before, Some(Step::Said(_)));
                return;
            }
            let question = Question { n: asked.n, digest, role, answer: None };
            let before = task.questions.insert(at.question.clone(), question);
            // This was the answer that could not be read.
            task.asks_again &= before.is_none_or(|before| before.answer.is_none());
        });
    }
}
