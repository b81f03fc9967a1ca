//! The context of a node: its state, questions to people, and steps that run only once.
//!
//! A recorded answer belongs to a question's name and to the digest of what was shown. A node that asks something
//! else under that name, skips an answered question, or no longer exists fails with a specific code
//! (`question_changed`, `question_gone`, `node_gone`), and the answer is kept. So does a node that cannot read an answer
//! as its type (`unreadable_answer`): a schema cannot express every type. A retry reads the answer if the node has been
//! fixed, and asks again otherwise. The same holds for the result that a person reports for a step whose outcome was
//! unknown: nothing checks that value before the node reads it.

use std::{
    future::{Future, IntoFuture},
    marker::PhantomData,
    pin::Pin,
    sync::{Arc, atomic::Ordering},
    task::{Context as Cx, Poll},
    time::Duration,
};

use countersign_core::{
    call::{
        gate::{Ask, DecisionType},
        reviewer::Reviewer,
        schema::{ArgsSchema, schema_of},
        timeout::Timeout,
    },
    journal::{
        progress::Step as Known,
        record::Schema,
        run::{Raw, STEP_GIVEN_UP, UNREADABLE_ANSWER},
        running::{NewQuestion, shown},
    },
    limits, plain,
};
use futures::{FutureExt as _, future::BoxFuture};
use schemars::JsonSchema;
use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;

use super::{
    error::NodeError,
    task::{Begun, Memory, UnderWay, bounded},
};

/// The context of a node: the state at the beginning of the round, and the means to ask people and to run side
/// effects once.
pub struct Context<S> {
    state: Arc<S>,
    memory: Arc<Memory>,
}

impl<S> Clone for Context<S> {
    fn clone(&self) -> Self {
        Context { state: self.state.clone(), memory: self.memory.clone() }
    }
}

impl<S> Context<S> {
    pub(crate) fn new(state: Arc<S>, memory: Arc<Memory>) -> Context<S> {
        Context { state, memory }
    }

    /// The state, as it was when the round began. Tasks of one round do not see each other's changes.
    #[must_use]
    pub fn state(&self) -> &S {
        &self.state
    }

    /// The session.
    #[must_use]
    pub fn session_id(&self) -> &str {
        &self.memory.session_id
    }

    /// The node.
    #[must_use]
    pub fn node(&self) -> &str {
        &self.memory.node
    }

    /// The number of this run of the node in its session: unchanged when it restarts after a pause or a crash.
    #[must_use]
    pub fn task(&self) -> u32 {
        self.memory.task.get()
    }

    /// Asks a person, and waits: for minutes or weeks, in this process or another (spec G3).
    ///
    /// It returns the answer and nothing else: there is no error that could be mistaken for an answer or swallowed.
    /// While the question is pending, the run is [paused](super::Outcome::Paused), and the node stays in memory: in a
    /// runtime, such as a server's, for a minute (less where more than 1,024 nodes wait), and with
    /// [`Graph::run`](super::Graph::run) as long as the program holds the paused result. If the node has left memory
    /// when the answer comes, it restarts from its first line, and this call returns the recorded answer; so side
    /// effects that must not be repeated belong in a [`step`](Context::step).
    ///
    /// While a node waits for a person nothing else in it makes progress except its steps: work concurrent with a
    /// question, in a `join!` or a `select!`, belongs in a step.
    ///
    /// `name` identifies the question: its answer is never given to another. Using the name again in the same node
    /// asks another question (`name#2`), under the rule of [`step`](Context::step). A question whose payload differs
    /// from the one that was answered is refused (`question_changed`): a payload that may vary belongs in a step too.
    ///
    /// Like a step's result, a recorded answer is ready only when it is polled a second time. So in a `select!` it
    /// loses to anything that is ready at once: put a time limit inside a step's work, or set it with
    /// [`timeout`](Interrupt::timeout).
    pub fn interrupt(&self, name: &str, payload: impl Serialize) -> Interrupt<Value> {
        let payload = Raw::of(&payload).map_err(|error| format!("its payload cannot be serialised as JSON: {error}"));
        let ask = Ask { timeout: Timeout::Never, allowed: Some(vec![DecisionType::Respond]), ..Ask::default() };
        Interrupt {
            memory: self.memory.clone(),
            name: name.to_owned(),
            payload,
            schema: Ok(None),
            ask,
            default: None,
            answer: PhantomData,
        }
    }

    /// Runs a side effect once: its result is journaled, and is reused when the node restarts.
    ///
    /// Its start is journaled before it runs. If a crash, or the node's time limit, leaves its outcome unknown, it is
    /// not run again either: a person is asked to decide, as for a tool call (spec R4), unless it is
    /// [idempotent](Step::idempotent). The same holds for a step that the node itself drops, as a `select!` with a timer
    /// does: when the node pauses, a person is asked about the step's outcome, in case the node starts over. So a
    /// time limit belongs inside `work`, which then has a result. If the person rejects, the node gets an error
    /// (`step_given_up`); if the node returns that error, a retry of the node asks again.
    ///
    /// An error is returned to the node and not journaled: a retry runs the step again, and so does a node that starts
    /// over, even if it had handled the error and continued. An error that the node handles belongs in the result:
    /// `ctx.step("pay", async { Ok::<_, NodeError>(pay().await.map_err(|error| error.to_string())) })`.
    ///
    /// `name` identifies the step among the steps and questions of the node. A name may be used again, one use after
    /// another, as in a loop: the uses are distinguished by their order. So that order must be the same whenever the
    /// node starts over, and a node fails if it reuses a name while another of its steps or questions is in progress at
    /// one of the uses. **Branches that run at once need names of their own**, such as `format!("pay {id}")`; a name
    /// used twice goes unnoticed if, between the uses, the branches await no step or question of the node, only timers
    /// or requests of their own. A name must not contain `#`, which numbers the uses. **A step that is renamed is
    /// another step**: a paused run that starts over with the new program runs it again, and no migration prevents
    /// that. A node has at most 10,000 steps.
    pub fn step<T, E, F>(&self, name: &str, work: F) -> Step<T>
    where
        F: Future<Output = Result<T, E>> + Send + 'static,
        E: Into<NodeError>,
        T: Serialize + DeserializeOwned + Send + 'static,
    {
        let work = work.map(|result| result.map_err(Into::into)).boxed();
        Step { memory: self.memory.clone(), name: name.to_owned(), work, idempotent: false }
    }
}

/// A question to a person; `.await` asks it.
#[must_use = "it is asked when it is awaited"]
pub struct Interrupt<T> {
    memory: Arc<Memory>,
    name: String,
    payload: Result<Raw, String>,
    schema: Result<Option<Arc<Schema>>, String>,
    ask: Ask,
    default: Option<Result<Raw, String>>,
    answer: PhantomData<fn() -> T>,
}

impl<T> Interrupt<T> {
    /// Requires the answer to match this JSON Schema; any other is refused before it is stored.
    pub fn schema(mut self, schema: &Value) -> Interrupt<T> {
        self.schema = ArgsSchema::of_any(schema)
            .and_then(|_| serde_json::value::to_raw_value(&*plain::as_plain(schema)).map_err(|error| error.to_string()))
            .map(|schema| Some(Arc::new(Schema::new(schema))))
            .map_err(|error| format!("its schema is not valid: {error}"));
        self
    }

    /// Requires the answer to be a `U`: its JSON Schema is shown and enforced.
    pub fn typed<U: DeserializeOwned + JsonSchema>(self) -> Interrupt<U> {
        let Interrupt { memory, name, payload, ask, default, .. } = self;
        let schema = schema_of::<U>();
        Interrupt { memory, name, payload, schema: Ok(None), ask, default, answer: PhantomData }.schema(&schema)
    }

    /// Lets holders of this role answer, instead of the session's owner.
    pub fn role(mut self, role: impl Into<Reviewer>) -> Interrupt<T> {
        self.ask.levels = vec![role.into()];
        self
    }

    /// The reason for the question, shown to the reviewer.
    pub fn reason(mut self, reason: impl Into<String>) -> Interrupt<T> {
        self.ask.reason = Some(reason.into());
        self
    }

    /// Uses `answer` if nobody answers within this time, in whole seconds, rounded up. More than 400 days count as 400
    /// days.
    pub fn timeout(mut self, time: Duration, answer: impl Serialize) -> Interrupt<T> {
        let most = Duration::from_secs(limits::APPROVAL_TIMEOUT_SECONDS_MAX.into());
        self.ask.timeout = time.min(most).into();
        self.default =
            Some(Raw::of(&answer).map_err(|error| format!("its default answer cannot be serialised as JSON: {error}")));
        self
    }

    /// The question, or why it is invalid.
    fn question(&self, name: Arc<str>) -> Result<NewQuestion, String> {
        let payload = self.payload.clone()?;
        let shown = shown(&payload).map_err(|error| format!("its payload cannot be shown: {error}"))?;
        let default = self.default.clone().transpose()?;
        let schema = self.schema.clone()?;
        if let (Some(default), Some(schema)) = (&default, &schema) {
            let read = |text: &str| serde_json::from_str::<Value>(text).map_err(|error| error.to_string());
            let errors = ArgsSchema::of_any(&read(schema.0.get())?)?.check_value(&read(default.get())?);
            if let Some(error) = errors.first() {
                return Err(format!("its default answer does not fit its schema: {}", error.message));
            }
        }
        Ok(NewQuestion { name, payload, shown, schema, ask: self.ask.clone(), default })
    }
}

impl<T: DeserializeOwned> IntoFuture for Interrupt<T> {
    type Output = T;
    type IntoFuture = Answer<T>;

    fn into_future(self) -> Answer<T> {
        let memory = self.memory.clone();
        let (asked, name) = match memory.name(&self.name) {
            Ok(name) => (Some(self), name),
            Err(error) => {
                memory.fail(error);
                // No question has this name, so it has no answer.
                (None, "".into())
            }
        };
        let wait = Wait { memory, waits: false };
        Answer { asked, name, wait, under_way: None, answer: PhantomData }
    }
}

/// Counted in [`Memory::waiting`] while pending.
struct Wait {
    memory: Arc<Memory>,
    waits: bool,
}

impl Wait {
    fn begin(&mut self) {
        if !std::mem::replace(&mut self.waits, true) {
            self.memory.waiting.fetch_add(1, Ordering::SeqCst);
            self.memory.node_waker.wake();
        }
    }

    fn end(&mut self) {
        if std::mem::take(&mut self.waits) {
            self.memory.waiting.fetch_sub(1, Ordering::SeqCst);
        }
    }
}

impl Drop for Wait {
    fn drop(&mut self) {
        self.end();
    }
}

/// A pending answer.
#[must_use = "futures do nothing unless they are awaited"]
pub struct Answer<T> {
    asked: Option<Interrupt<T>>,
    name: Arc<str>,
    wait: Wait,
    under_way: Option<UnderWay>,
    answer: PhantomData<fn() -> T>,
}

impl<T: DeserializeOwned> Future for Answer<T> {
    type Output = T;

    fn poll(self: Pin<&mut Self>, cx: &mut Cx<'_>) -> Poll<T> {
        let this = self.get_mut();
        let first = this.asked.take();
        if let Some(asked) = &first {
            if let Err(error) = this.ask(asked) {
                this.wait.memory.fail(error);
                return Poll::Pending;
            }
            this.under_way = Some(UnderWay::begin(&this.wait.memory));
        }
        let mut inside = this.wait.memory.inside();
        let Some(answer) = inside.questions.get(&this.name).and_then(|question| question.answer.clone()) else {
            inside.wake_later(cx.waker());
            drop(inside);
            this.wait.begin();
            return Poll::Pending;
        };
        drop(inside);
        if first.is_some() {
            // As in `turn_of_others`, except that the code that holds this answer may never poll it again.
            this.wait.memory.turn_is_due();
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        match plain::read(answer.get()) {
            Ok(answer) => {
                this.wait.end();
                this.under_way = None;
                Poll::Ready(answer)
            }
            Err(error) => {
                let (question, node) = (&this.name, &this.wait.memory.node);
                let what = format!(
                    "the answer to {question:?} of the node {node:?} is not of the type it is taken as: {error}. \
                     Retry the run: the node asks again, unless it reads the answer by then"
                );
                this.wait.memory.fail(NodeError::coded(UNREADABLE_ANSWER, what));
                Poll::Pending
            }
        }
    }
}

impl<T: DeserializeOwned> Answer<T> {
    /// Finds the recorded question, or asks it; it asks again if the answer has already failed the node.
    fn ask(&self, asked: &Interrupt<T>) -> Result<(), NodeError> {
        let memory = &self.wait.memory;
        let name = &self.name;
        let refused =
            |what: String| NodeError::permanent(format!("the question {name:?} of the node {:?}: {what}", memory.node));
        let question = asked.question(name.clone()).map_err(refused)?;
        if name.is_empty() || name.len() > limits::NAME_BYTES {
            return Err(refused(format!("a question's name has 1 to {} bytes", limits::NAME_BYTES)));
        }
        if let Some(Err(error)) = question.default.as_ref().map(|default| plain::read::<T>(default.get())) {
            return Err(refused(format!("its default answer is not of the type it is taken as: {error}")));
        }
        let digest: Arc<str> = question.shown.digest().to_string().into();
        let mut guard = memory.inside();
        let inside = &mut *guard;
        if let Some(migrate) = memory.migrate.as_ref().filter(|_| !inside.questions.contains_key(name)) {
            // A recorded question that is no longer asked may be this one under its old name.
            let old = inside.questions.iter().filter(|(_, question)| !question.seen).find_map(|(old, _)| {
                let to = migrate(&super::Gone { node: &memory.node, question: Some(old) })?;
                (to.question.as_deref() == Some(&**name)).then(|| old.clone())
            });
            if let Some(mut known) = old.and_then(|old| inside.questions.remove(&old)) {
                // The migration declares that an answer to the old question answers this one.
                known.digest.clone_from(&digest);
                inside.questions.insert(name.clone(), known);
            }
        }
        if let Some(known) = inside.questions.get_mut(name) {
            known.seen = true;
            if known.digest != digest {
                return Err(NodeError::coded(
                    "question_changed",
                    format!(
                        "the node {:?} asks something else under {name:?} than what was shown: an answer counts for what was shown only. \
                         What the payload is made of belongs in a step; another question has another name",
                        memory.node
                    ),
                ));
            }
            let unread = known.answer.take_if(|answer| inside.asks_again && plain::read::<T>(answer.get()).is_err());
            let again = NewQuestion { name: known.recorded.clone(), ..question };
            inside.again.extend(unread.map(|unread| (again, unread)));
            return Ok(());
        }
        if let Some((now, _)) = inside.questions.iter().find(|(_, known)| known.recorded == *name) {
            return Err(refused(format!(
                "on record it is the name of {now:?}, which a migration has renamed: each would get the other's answer when \
                 the node starts over. Give it another name"
            )));
        }
        if inside.questions.len() >= limits::TASK_STEPS {
            return Err(NodeError::coded("too_many_steps", many("questions", &memory.node)));
        }
        let known = super::task::Remembered { recorded: name.clone(), digest, answer: None, seen: true };
        inside.questions.insert(name.clone(), known);
        inside.asked.push(question);
        Ok(())
    }
}

/// A side effect that runs once; `.await` runs it, or returns its recorded result.
#[must_use = "it is done when it is awaited"]
pub struct Step<T> {
    memory: Arc<Memory>,
    name: String,
    work: BoxFuture<'static, Result<T, NodeError>>,
    idempotent: bool,
}

impl<T> Step<T> {
    /// Declares that repeating it is harmless: after a crash it runs again without asking anyone.
    pub fn idempotent(mut self) -> Step<T> {
        self.idempotent = true;
        self
    }
}

impl<T: Serialize + DeserializeOwned + Send + 'static> IntoFuture for Step<T> {
    type Output = Result<T, NodeError>;
    type IntoFuture = BoxFuture<'static, Result<T, NodeError>>;

    fn into_future(self) -> Self::IntoFuture {
        match self.memory.name(&self.name) {
            Ok(name) => run_step(self.memory, name, self.work, self.idempotent).boxed(),
            Err(error) => {
                self.memory.fail(error);
                futures::future::pending().boxed()
            }
        }
    }
}

fn many(what: &str, node: &str) -> String {
    let most = limits::TASK_STEPS;
    format!("the node {node:?} has more than {most} {what}; divide its work among several nodes, or fan out")
}

/// Counted in [`Memory::at_work`] while it exists.
struct AtWork(Arc<Memory>);

impl AtWork {
    fn begin(memory: &Arc<Memory>) -> AtWork {
        memory.at_work.fetch_add(1, Ordering::SeqCst);
        AtWork(memory.clone())
    }
}

impl Drop for AtWork {
    fn drop(&mut self) {
        self.0.at_work.fetch_sub(1, Ordering::SeqCst);
        // The node may be suspended now, even if another task has run the step.
        self.0.node_waker.wake();
    }
}

/// Lets work concurrent with a step or an answer have its turn first, even if the result is already known, so that a
/// node that starts over reaches the same names concurrently as before.
async fn turn_of_others(memory: &Arc<Memory>) {
    // This keeps the node from being suspended meanwhile.
    let _at_work = AtWork::begin(memory);
    tokio::task::yield_now().await;
}

async fn run_step<T: Serialize + DeserializeOwned>(
    memory: Arc<Memory>,
    name: Arc<str>,
    work: BoxFuture<'static, Result<T, NodeError>>,
    idempotent: bool,
) -> Result<T, NodeError> {
    let node = &memory.node;
    let named = |what: String| NodeError::permanent(format!("the step {name:?} of the node {node:?}: {what}"));
    if name.is_empty() || name.len() > limits::NAME_BYTES {
        return Err(named(format!("a step's name has 1 to {} bytes", limits::NAME_BYTES)));
    }
    let _under_way = UnderWay::begin(&memory);
    turn_of_others(&memory).await;
    let known = match on_record(&memory, &name, idempotent).await {
        Ok(known) => known.filter(|known| *known != Known::Again),
        // Fails the node however it handles errors: it might continue forever.
        Err(error) => {
            memory.fail(error);
            std::future::pending().await
        }
    };
    if let Some(known) = known {
        if let Some(done) = known_result(&known, &named) {
            let asks_again = memory.inside().asks_again && matches!(known, Known::Said(_)) && done.is_err();
            if !asks_again {
                return or_stops(&memory, &known, done).await;
            }
            // The result that a person reported would fail the node at every retry.
            let mut inside = memory.inside();
            inside.steps.insert(name.clone(), Known::Started);
            inside.lost.push(name.clone());
        }
        if known != Known::Started || !idempotent {
            if known == Known::Started {
                // Started by an earlier attempt: its outcome is unknown until a person decides.
                memory.inside().lost.push(name.clone());
            }
            let said = Said { name: name.clone(), wait: Wait { memory: memory.clone(), waits: false } }.await;
            if let Some(known) = said
                && let Some(done) = known_result(&known, &named)
            {
                return or_stops(&memory, &known, done).await;
            }
            // The decision was to run it again.
        }
    }
    let at_work = AtWork::begin(&memory);
    let begun = (!idempotent).then(|| Begun::new(&memory, &name));
    if !idempotent {
        memory.step_started(&name).await;
    }
    let result = work.await;
    let value = match &result {
        Ok(value) => {
            let raw =
                Raw::of(value).map_err(|error| named(format!("its result cannot be serialised as JSON: {error}")))?;
            Some(bounded("its result", raw).map_err(|error| named(error.message))?)
        }
        Err(_) => None,
    };
    if value.is_some() || !idempotent {
        // An idempotent step that failed leaves no record.
        memory.step_done(&name, value).await;
    }
    begun.into_iter().for_each(Begun::ends);
    drop(at_work);
    result
}

/// What is known about a step before it begins.
async fn on_record(memory: &Arc<Memory>, name: &Arc<str>, idempotent: bool) -> Result<Option<Known>, NodeError> {
    {
        let inside = memory.inside();
        if let Some(known) = inside.steps.get(name) {
            return Ok(Some(known.clone()));
        }
        if inside.steps.len() >= limits::TASK_STEPS {
            return Err(NodeError::coded("too_many_steps", many("steps", &memory.node)));
        }
    }
    if idempotent {
        return Ok(None);
    }
    // This keeps the node from being suspended while it is stored.
    let _at_work = AtWork::begin(memory);
    Ok(memory.may_have_run(name).await.then_some(Known::Started))
}

/// The result of a step. If a person reported one that cannot be read, the node fails with that error, however it
/// handles errors: only then can a retry ask again.
async fn or_stops<T>(memory: &Memory, known: &Known, done: Result<T, NodeError>) -> Result<T, NodeError> {
    match (known, done) {
        (Known::Said(_), Err(error)) => {
            memory.fail(error);
            std::future::pending().await
        }
        (_, done) => done,
    }
}

fn known_result<T: DeserializeOwned>(
    known: &Known,
    named: &impl Fn(String) -> NodeError,
) -> Option<Result<T, NodeError>> {
    match known {
        Known::Done(value) => Some(
            plain::read(value.get())
                .map_err(|error| named(format!("its recorded result is not of the type it has now: {error}"))),
        ),
        Known::Said(value) => Some(plain::read(value.get()).map_err(|error| {
            let what = format!("the result that was reported for it is not of its type: {error}");
            let again = "Retry the run: it is asked about again, unless the node reads the result by then";
            NodeError::coded(UNREADABLE_ANSWER, format!("{}. {again}", named(what).message))
        })),
        Known::GivenUp(why) => {
            let what = named(format!("its outcome is unknown, and it was given up: {why}"));
            Some(Err(NodeError::coded(STEP_GIVEN_UP, what.message)))
        }
        Known::Started | Known::Lost | Known::Again => None,
    }
}

/// A pending decision on a step whose outcome is unknown; `None`: run it again.
struct Said {
    name: Arc<str>,
    wait: Wait,
}

impl Future for Said {
    type Output = Option<Known>;

    fn poll(self: Pin<&mut Self>, cx: &mut Cx<'_>) -> Poll<Option<Known>> {
        let this = self.get_mut();
        let mut inside = this.wait.memory.inside();
        let known = inside.steps.get(&this.name).cloned();
        if matches!(known, Some(Known::Started | Known::Lost)) {
            inside.wake_later(cx.waker());
            drop(inside);
            this.wait.begin();
            return Poll::Pending;
        }
        drop(inside);
        this.wait.end();
        Poll::Ready(known)
    }
}
