//! One run of a node: its memory, and how it is suspended.
//!
//! A pause is a suspended node, not an error: `interrupt` returns the answer or does not return. Work concurrent with
//! a question belongs in a step, since nothing else is waited for.

use std::{
    any::Any,
    collections::BTreeMap,
    pin::Pin,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError, Weak,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    task::{Poll, Waker},
    time::Duration,
};

use countersign_core::{
    journal::{
        draft::{Draft, Transition},
        failure::Turn,
        progress::{MayHaveRun, Step, Task},
        run::Raw,
        running::NewQuestion,
    },
    limits,
    number::TaskNo,
};
use futures::{FutureExt as _, future::BoxFuture, task::AtomicWaker};
use tokio::{sync::Notify, time::Instant};

use super::{error::NodeError, options::NodeOptions};

/// A type-erased state or update; its graph knows the type.
pub(crate) type AnyState = Arc<dyn Any + Send + Sync>;
/// A type-erased update.
pub(crate) type AnyUpdate = Box<dyn Any + Send + Sync>;

/// A node's result: its update as JSON (`None` if it changes nothing) and as a value.
pub(crate) struct Given {
    pub(crate) json: Option<Raw>,
    pub(crate) update: AnyUpdate,
}

/// JSON that is recorded, unless it is too long; `what` begins the error.
pub(crate) fn bounded(what: &str, json: Raw) -> Result<Raw, NodeError> {
    let (bytes, most) = (json.get().len(), limits::UPDATE_BYTES);
    if bytes > most {
        return Err(NodeError::permanent(format!("{what} has {bytes} bytes as JSON; at most {most} are allowed")));
    }
    Ok(json)
}

/// A node's future.
pub(crate) type NodeFuture = BoxFuture<'static, Result<Given, NodeError>>;

/// The running body of a node. Dropping it runs code of the program; a panic of that code does not spread to the
/// caller.
pub(crate) struct Body(NodeFuture);

impl Drop for Body {
    fn drop(&mut self) {
        let body = std::mem::replace(&mut self.0, std::future::pending().boxed());
        if std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| drop(body))).is_err() {
            tracing::error!("a node panicked while it was dropped");
        }
    }
}

/// How a stretch of a node's execution ended.
pub(crate) enum Stretch {
    /// The node has its result.
    Over(Result<Given, NodeError>),
    /// It has pending questions, or a step with unknown outcome. It can resume in place.
    Paused(Parked),
}

/// A suspended node, ready to resume.
pub(crate) struct Parked {
    body: Body,
    pub(crate) memory: Arc<Memory>,
    attempt: u32,
    left: Option<Duration>,
}

/// Where a task's steps are stored.
pub(crate) trait Journal: Send + Sync {
    /// Stores the transition that `make` makes about a task's step.
    fn store<'a>(self: Arc<Self>, at: StepOf<'a>, make: &'a Make<'a>) -> BoxFuture<'a, Stored>;
    /// The term in which this node's leases last; `None` if they have ended.
    fn term(&self) -> Option<u64>;
    /// Whether they have lasted without a break since `term` was read.
    fn lasts(&self, term: Option<u64>) -> bool;
}

/// What became of the record of a step.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stored {
    Yes,
    /// Not yet: the step's node waits for people.
    Waits,
    /// Never: the turn or the task has ended, or the runtime is closing.
    Never,
}

/// The start or the end of a step.
#[derive(Clone, Copy)]
pub(crate) struct StepOf<'a> {
    pub(crate) session_id: &'a Arc<str>,
    pub(crate) turn: Turn,
    pub(crate) task: TaskNo,
    pub(crate) step: &'a Arc<str>,
    pub(crate) ends: bool,
}

/// Makes a transition.
pub(crate) type Make<'a> = dyn Fn(Draft) -> Transition + Sync + 'a;

/// The recorded past of a node's run, shared with its [`super::Context`].
pub(crate) struct Memory {
    journal: Mutex<Weak<dyn Journal>>,
    /// Notified when the node goes on, and its steps may be stored elsewhere.
    pub(crate) moved: Notify,
    pub(crate) session_id: Arc<str>,
    pub(crate) turn: Turn,
    pub(crate) task: TaskNo,
    pub(crate) node: Arc<str>,
    pub(crate) migrate: Option<super::compiled::Migrate>,
    inside: Mutex<Inside>,
    /// Steps and questions in progress.
    under_way: AtomicUsize,
    /// Running steps: while there is one, the node is not suspended.
    pub(crate) at_work: AtomicUsize,
    /// Pending questions and steps with unknown outcome.
    pub(crate) waiting: AtomicUsize,
    /// Some work in the node gets its next turn when the node is polled again.
    turn_due: AtomicBool,
    /// Wakes the node itself, since a pending future may be polled by another task.
    pub(crate) node_waker: AtomicWaker,
}

/// See [`Memory`].
#[derive(Default)]
pub(crate) struct Inside {
    pub(crate) steps: BTreeMap<Arc<str>, Step>,
    pub(crate) questions: BTreeMap<Arc<str>, Remembered>,
    /// How often each name was used in this attempt, and how.
    names: BTreeMap<Arc<str>, Uses>,
    /// Asked since the node was last suspended.
    pub(crate) asked: Vec<NewQuestion>,
    /// Asked again since then, in place of these answers.
    pub(crate) again: Vec<(NewQuestion, Raw)>,
    /// Whether answers that cannot be read are asked for again: see [`Task::asks_again`].
    pub(crate) asks_again: bool,
    /// Steps with unknown outcome found since then.
    pub(crate) lost: Vec<Arc<str>>,
    /// Steps that were begun since then, and dropped.
    dropped: Vec<Arc<str>>,
    /// Whether steps that are not on record may have run.
    pub(crate) restored: Option<MayHaveRun>,
    /// Why the node cannot continue.
    pub(crate) failure: Option<NodeError>,
    pub(crate) wakers: Vec<Waker>,
}

impl Inside {
    /// Wakes the task when an answer or a decision arrives.
    pub(crate) fn wake_later(&mut self, waker: &Waker) {
        if !self.wakers.iter().any(|known| known.will_wake(waker)) {
            self.wakers.push(waker.clone());
        }
    }
}

/// The questions of a paused node.
pub(crate) struct Asks {
    pub(crate) questions: Vec<NewQuestion>,
    /// The steps whose outcome is unknown.
    pub(crate) lost: Vec<Arc<str>>,
}

/// The uses of a name in one attempt.
#[derive(Default)]
struct Uses {
    count: u32,
    /// Whether something else was in progress at one of them.
    amid: bool,
}

/// A step or a question that has begun, until it is over or dropped.
pub(crate) struct UnderWay(Arc<Memory>);

impl UnderWay {
    pub(crate) fn begin(memory: &Arc<Memory>) -> UnderWay {
        memory.under_way.fetch_add(1, Ordering::SeqCst);
        UnderWay(memory.clone())
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.0.under_way.fetch_sub(1, Ordering::SeqCst);
    }
}

/// A step that was begun. If it is dropped before it has its result, it may have had its effect.
pub(crate) struct Begun {
    memory: Arc<Memory>,
    step: Option<Arc<str>>,
}

impl Begun {
    pub(crate) fn new(memory: &Arc<Memory>, step: &Arc<str>) -> Begun {
        Begun { memory: memory.clone(), step: Some(step.clone()) }
    }

    /// It has its result.
    pub(crate) fn ends(mut self) {
        self.step = None;
    }
}

impl Drop for Begun {
    fn drop(&mut self) {
        if let Some(step) = self.step.take() {
            self.memory.inside().dropped.push(step);
        }
    }
}

/// A question that was asked.
pub(crate) struct Remembered {
    /// Its recorded name, which a migration may have changed since.
    pub(crate) recorded: Arc<str>,
    /// The digest of what was shown.
    pub(crate) digest: Arc<str>,
    pub(crate) answer: Option<Raw>,
    /// Whether the node has reached it in this attempt.
    pub(crate) seen: bool,
}

impl Inside {
    /// The question with this recorded name.
    pub(crate) fn on_record(&mut self, name: &Arc<str>) -> Option<&mut Remembered> {
        let same = self.questions.get(name).is_some_and(|known| known.recorded == *name);
        let now = if same {
            name.clone()
        } else {
            self.questions.iter().find(|(_, known)| known.recorded == *name)?.0.clone()
        };
        self.questions.get_mut(&now)
    }

    /// Whether the record has an answer or a decision that has not been delivered, apart from answers to these questions.
    fn lacks(&mut self, task: &Task, apart: &[Arc<str>]) -> bool {
        let mut others = task.questions.iter().filter(|(name, _)| !apart.contains(name));
        let said = others.any(|(name, question)| {
            question.answer.is_some() && self.on_record(name).is_some_and(|known| known.answer.is_none())
        });
        let decided = self.steps.iter().any(|(name, step)| {
            *step == Step::Lost && task.steps.get(name).is_none_or(|now| *now != Step::Lost && *now != Step::Started)
        });
        said || decided
    }
}

impl Memory {
    pub(crate) fn new(
        journal: Weak<dyn Journal>,
        session_id: Arc<str>,
        turn: Turn,
        task: &Task,
        node: Arc<str>,
        migrate: Option<super::compiled::Migrate>,
    ) -> Memory {
        let questions = task.questions.iter().map(|(name, question)| {
            let (digest, answer) = (question.digest.clone(), question.answer.clone());
            (name.clone(), Remembered { recorded: name.clone(), digest, answer, seen: false })
        });
        let inside = Inside {
            steps: task.steps.clone(),
            questions: questions.collect(),
            restored: task.restored.clone(),
            asks_again: task.asks_again,
            ..Inside::default()
        };
        Memory {
            journal: Mutex::new(journal),
            moved: Notify::new(),
            session_id,
            turn,
            task: task.task,
            node,
            migrate,
            inside: Mutex::new(inside),
            under_way: AtomicUsize::new(0),
            at_work: AtomicUsize::new(0),
            turn_due: AtomicBool::new(false),
            waiting: AtomicUsize::new(0),
            node_waker: AtomicWaker::new(),
        }
    }

    pub(crate) fn inside(&self) -> MutexGuard<'_, Inside> {
        // Poisoning is harmless: its contents are never left half changed.
        self.inside.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Where its steps are stored. If that runtime has ended, work that runs beside a paused node waits until the node
    /// continues.
    pub(crate) async fn journal(&self) -> Arc<dyn Journal> {
        loop {
            let mut moved = std::pin::pin!(self.moved.notified());
            // Enabled before the check, so that a move right after it is noticed.
            moved.as_mut().enable();
            let journal = self.journal.lock().unwrap_or_else(PoisonError::into_inner).upgrade();
            match journal {
                Some(journal) => return journal,
                None => moved.await,
            }
        }
    }

    /// The node goes on, and its steps are stored there from now on.
    pub(crate) fn moves_to(&self, journal: Weak<dyn Journal>) {
        *self.journal.lock().unwrap_or_else(PoisonError::into_inner) = journal;
        self.moved.notify_waiters();
    }

    /// The unique name of the next use of `name`: `name`, `name#2`, `name#3` …
    ///
    /// Uses are distinguished by their order, so it must be the same whenever the node starts over: each begins while
    /// no other step and no question of the node is in progress. While others are in progress, a name can be used only
    /// once.
    pub(crate) fn name(&self, name: &str) -> Result<Arc<str>, NodeError> {
        if name.contains('#') {
            return Err(NodeError::permanent(format!(
                "the node {:?} uses the name {name:?}: names of steps and questions have no '#', which numbers the uses \
                 of one name",
                self.node
            )));
        }
        let amid = self.under_way.load(Ordering::SeqCst) > 0;
        let mut inside = self.inside();
        let name: Arc<str> = name.into();
        let uses = inside.names.entry(name.clone()).or_default();
        uses.count += 1;
        uses.amid |= amid;
        match (uses.count, uses.amid) {
            (1, _) => Ok(name),
            (count, false) => Ok(format!("{name}#{count}").into()),
            (_, true) => Err(NodeError::permanent(format!(
                "the node {:?} uses the name {name:?} again, and at one of its uses another step or question was under \
                 way: their order may be another one when the node starts over, and each would get the other's result. \
                 Give each its own name, such as one with the item that it is about",
                self.node
            ))),
        }
    }

    /// Delivers the answers and decisions since the node was suspended.
    pub(crate) fn told(&self, task: &Task) {
        let mut inside = self.inside();
        let again: Vec<Arc<str>> = inside.again.iter().map(|(question, _)| question.name.clone()).collect();
        // The node may have been polled for the last time before its pause: it is notified when it is polled again.
        let is_due = inside.lacks(task, &again);
        for (name, question) in task.questions.iter().filter(|(name, _)| !again.contains(name)) {
            if let Some(known) = inside.on_record(name) {
                known.answer.clone_from(&question.answer);
            }
        }
        let Inside { steps, lost, .. } = &mut *inside;
        steps.clone_from(&task.steps);
        // Nobody has been asked about these yet: if the record has a result for one of them, it is the unreadable one.
        steps.extend(lost.iter().map(|step| (step.clone(), Step::Started)));
        inside.restored.clone_from(&task.restored);
        inside.asks_again = task.asks_again;
        let wakers = std::mem::take(&mut inside.wakers);
        drop(inside);
        if is_due {
            self.turn_is_due();
        }
        wakers.into_iter().for_each(Waker::wake);
        if is_due {
            self.node_waker.wake();
        }
    }

    /// Whether the node goes on: a step of it has begun in another task meanwhile, or there is an answer or a decision
    /// that it has not seen, apart from answers to the questions `asked` now. That is only on record, or the node was not
    /// polled again after it was notified.
    pub(crate) fn has_news(&self, task: &Task, asked: &[NewQuestion]) -> bool {
        let asked: Vec<Arc<str>> = asked.iter().map(|question| question.name.clone()).collect();
        let goes_on = self.at_work.load(Ordering::SeqCst) > 0 || self.turn_due.load(Ordering::SeqCst);
        self.inside().lacks(task, &asked) || goes_on
    }

    /// The questions that the node asks now that it pauses.
    pub(crate) fn asks(&self, task: &Task) -> Asks {
        let mut inside = self.inside();
        let again = std::mem::take(&mut inside.again).into_iter().map(|(question, _)| question);
        let questions = again.chain(std::mem::take(&mut inside.asked)).collect();
        let mut lost = std::mem::take(&mut inside.lost);
        for step in std::mem::take(&mut inside.dropped) {
            // The step's start, or its end, may have been stored all the same.
            if task.steps.get(&step) == Some(&Step::Started) && !lost.contains(&step) {
                lost.push(step);
            }
        }
        Asks { questions, lost }
    }

    /// Makes the node fail, whichever task has noticed the reason.
    pub(crate) fn fail(&self, error: NodeError) {
        self.inside().failure.get_or_insert(error);
        self.node_waker.wake();
    }

    /// Resets the progress of the previous attempt.
    fn begin_again(&self) {
        let mut inside = self.inside();
        inside.names.clear();
        inside.wakers.clear();
        inside.lost.clear();
        // The previous attempt did not get to ask these.
        for question in std::mem::take(&mut inside.asked) {
            inside.questions.remove(&question.name);
        }
        for (question, answer) in std::mem::take(&mut inside.again) {
            if let Some(known) = inside.on_record(&question.name) {
                known.answer = Some(answer);
            }
        }
        inside.questions.values_mut().for_each(|question| question.seen = false);
    }

    pub(crate) fn turn_is_due(&self) {
        self.turn_due.store(true, Ordering::SeqCst);
    }

    fn stands_still(&self) -> bool {
        let goes_on = self.at_work.load(Ordering::SeqCst) > 0 || self.turn_due.load(Ordering::SeqCst);
        self.waiting.load(Ordering::SeqCst) > 0 && !goes_on
    }

    /// An answered question that the node did not reach again, though it should have.
    fn passed_by(&self) -> Option<Arc<str>> {
        let inside = self.inside();
        let found = inside.questions.iter().find(|(_, question)| question.answer.is_some() && !question.seen);
        found.map(|(name, _)| name.clone())
    }

    fn gone(&self, question: &str) -> NodeError {
        NodeError::coded(
            "question_gone",
            format!(
                "the node {:?} was asked {question:?} when it waited and does not ask that any more: its program has changed. \
                 The answer is kept and given to no other question; bring the question back, or register a migration \
                 (StateGraph::migrate), and retry the run",
                self.node
            ),
        )
    }
}

/// Starts a node or resumes it, until it has its result or is suspended. Retries as its options say.
pub(crate) async fn run(
    begin: impl Fn() -> NodeFuture + Send,
    parked: Option<Parked>,
    memory: Arc<Memory>,
    options: &NodeOptions,
) -> Stretch {
    let (mut body, mut attempt, mut left) = match parked {
        Some(Parked { body, attempt, left, .. }) => (body, attempt, left),
        None => (Body(begin()), 1, options.time_limit),
    };
    loop {
        let began = left.map(|_| Instant::now());
        let stretch = stretch(&mut body, &memory);
        let ended = match left {
            Some(left) => tokio::time::timeout(left, stretch).await.unwrap_or_else(|_| {
                let limit = options.time_limit.unwrap_or_default();
                Some(Err(NodeError::new(format!("the node {:?} ran for longer than {limit:?}", memory.node))))
            }),
            None => stretch.await,
        };
        let Some(result) = ended else {
            // A repeated question may precede the others; a new one means that the node has changed.
            if !memory.inside().asked.is_empty()
                && let Some(question) = memory.passed_by()
            {
                return Stretch::Over(Err(memory.gone(&question)));
            }
            left = left.zip(began).map(|(left, began)| left.saturating_sub(began.elapsed()));
            return Stretch::Paused(Parked { body, memory, attempt, left });
        };
        let result = match result {
            Ok(given) => match memory.passed_by() {
                Some(question) => Err(memory.gone(&question)),
                None => Ok(given),
            },
            result => result,
        };
        let retry = options.retry.as_ref().filter(|_| result.as_ref().is_err_and(|error| !error.permanent));
        let Some(delay) = retry.and_then(|retry| retry.delay(attempt)) else { return Stretch::Over(result) };
        // Dropped first, so that a step in progress ends with its attempt.
        drop(body);
        if let Err(error) = &result {
            tracing::warn!(session = &*memory.session_id, node = &*memory.node, attempt, %error, ?delay, "a node failed; trying again");
        }
        tokio::time::sleep(delay).await;
        attempt += 1;
        left = options.time_limit;
        memory.begin_again();
        body = Body(begin());
    }
}

/// Polls a node until it has its result; `None` when it is suspended.
async fn stretch(body: &mut Body, memory: &Memory) -> Option<Result<Given, NodeError>> {
    let mut body = std::panic::AssertUnwindSafe(&mut body.0);
    let mut was_still = false;
    std::future::poll_fn(move |cx| {
        memory.node_waker.register(cx.waker());
        memory.turn_due.store(false, Ordering::SeqCst);
        let polled = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| Pin::new(&mut **body).poll(cx)));
        let polled =
            polled.unwrap_or_else(|_| Poll::Ready(Err(NodeError::new(format!("the node {:?} panicked", memory.node)))));
        if let Some(failure) = memory.inside().failure.take() {
            return Poll::Ready(Some(Err(failure)));
        }
        match polled {
            Poll::Ready(result) => Poll::Ready(Some(result)),
            Poll::Pending if !memory.stands_still() => {
                was_still = false;
                Poll::Pending
            }
            // A task whose step has just ended may still be returning, and that may lead to the node's next step.
            Poll::Pending if !std::mem::replace(&mut was_still, true) => {
                cx.waker().wake_by_ref();
                Poll::Pending
            }
            Poll::Pending => Poll::Ready(None),
        }
    })
    .await
}

#[cfg(test)]
mod tests;
