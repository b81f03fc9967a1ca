//! A call that runs at a server: its answer, and the questions in the middle of it.
//!
//! A call that a server holds open while it asks is parked in memory. The answer finds it by the question's name; if it
//! is not there (another process), the outcome is unknown. A server that does not say in which call it asks has its
//! calls run one at a time (`Turns`): a call whose question is pending releases its turn, and one that has waited for
//! its turn up to the call limit runs without.

use std::{
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    task::{Context, Poll},
    time::Duration,
};

use countersign_core::journal::{
    record::InputQuestion,
    state::input::{CallInput, KeptAnswer},
};
use futures::{FutureExt as _, future, future::BoxFuture};
use rmcp::{
    Peer, RoleClient,
    model::{
        CallToolRequest, CallToolRequestParams, CallToolResponse, CancelledNotificationParam, ClientRequest,
        ElicitResult, ErrorData, RequestId, ServerResult,
    },
    service::{PeerRequestOptions, ServiceError},
};
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot},
    time::timeout,
};

use crate::{
    failure::Failure,
    link::Connection,
    pipes::{UNREADABLE, is_same},
    result,
};

/// Most questions of one call that are queued behind the first. Further ones are cancelled.
pub(crate) const QUESTIONS_WAITING: usize = 16;
/// Most times that one call asks people, one after the other; each is an attempt of it. Further questions are
/// cancelled, or end it.
pub(crate) const ASKS_OF_A_CALL: u32 = 64;
/// Most questions that a server may withdraw in one call. Further ones are cancelled, so that people are not asked for
/// nothing.
const TAKEN_BACK: u32 = 8;

static SERIAL: AtomicU64 = AtomicU64::new(0);

/// A question in the middle of a call, for whose answer the server waits.
pub(crate) struct Elicited {
    pub(crate) question: InputQuestion,
    pub(crate) reply: oneshot::Sender<ElicitResult>,
}

/// The calls of one connection, for questions to find theirs.
#[derive(Clone, Default)]
pub(crate) struct Calls(Arc<Mutex<Known>>);

/// The calls, and whether their connection may take more.
#[derive(Default)]
struct Known {
    entries: Vec<Entry>,
    /// Further calls belong on a new connection: over this one it is not clear which of them asks.
    spent: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    Runs,
    /// It waits for an answer, so it asks nothing else meanwhile.
    Parked,
    /// It was cancelled or took too long, and has no answer: the server may still run it, and ask in it.
    Unanswered,
}

/// Most calls without an answer that a connection remembers. After those it is spent.
const UNANSWERED: usize = 1024;

struct Entry {
    serial: u64,
    session_id: Arc<str>,
    stage: Stage,
    /// Its answer has come, which a parked call does not look at.
    answered: bool,
    /// Known once it is sent.
    id: Option<RequestId>,
    questions: mpsc::Sender<Elicited>,
}

impl Calls {
    fn all(&self) -> std::sync::MutexGuard<'_, Known> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The call of a question that came with a request, or over a connection that does not tell: only if it is
    /// unambiguous, since otherwise the wrong person would see it.
    pub(crate) fn of(&self, request: Option<&RequestId>) -> Option<mpsc::Sender<Elicited>> {
        let mut all = self.all();
        let entries = &all.entries;
        let named = entries.iter().find(|entry| request.is_some() && entry.id.as_ref() == request);
        let possible = || entries.iter().filter(|entry| request.is_none() || entry.id.is_none());
        let only = one(possible()).or_else(|| {
            // Other calls of the same session do not make it ambiguous: the same person is asked.
            let runs = one(possible().filter(|entry| entry.stage == Stage::Runs))?;
            possible().all(|entry| entry.session_id == runs.session_id).then_some(runs)
        });
        let found = named.or(only).map(|entry| entry.questions.clone());
        // It would stay so for as long as the connection lives.
        let spent = found.is_none() && possible().any(|entry| entry.stage == Stage::Unanswered);
        all.spent |= spent;
        found
    }

    /// Whether further calls belong on a new connection.
    pub(crate) fn is_spent(&self) -> bool {
        self.all().spent
    }

    fn set(&self, serial: u64, change: impl FnOnce(&mut Entry)) {
        if let Some(entry) = self.all().entries.iter_mut().find(|entry| entry.serial == serial) {
            change(entry);
        }
    }

    /// The server has answered, so it asks nothing more.
    fn answered(&self, serial: u64) {
        self.all().entries.retain(|entry| entry.serial != serial);
    }

    /// The same for a call that is known by its request: nobody looks at the answer to a parked call, and rmcp drops
    /// the answer to a cancelled one.
    pub(crate) fn answered_request(&self, answered: &RequestId) {
        let mut all = self.all();
        for entry in all.entries.iter_mut().filter(|entry| entry.id.as_ref().is_some_and(|id| is_same(id, answered))) {
            entry.answered = true;
        }
        all.entries.retain(|entry| !(entry.answered && entry.stage == Stage::Unanswered));
    }

    /// Nobody waits for its answer any more.
    fn leave(&self, serial: u64) {
        let mut all = self.all();
        all.entries.retain(|entry| !(entry.answered && entry.serial == serial));
        if let Some(entry) = all.entries.iter_mut().find(|entry| entry.serial == serial) {
            entry.stage = Stage::Unanswered;
        }
        all.spent |= all.entries.iter().filter(|entry| entry.stage == Stage::Unanswered).count() >= UNANSWERED;
    }
}

fn one<T>(mut all: impl Iterator<Item = T>) -> Option<T> {
    let only = all.next()?;
    all.next().is_none().then_some(only)
}

/// The calls of a server take turns, once it has asked something without saying in which of its calls: then only one
/// runs at a time, and it is the one that asks. Calls with pending questions take no turn.
pub(crate) struct Turns {
    untold: AtomicBool,
    places: Arc<Semaphore>,
}

/// The most concurrent calls; a call that is to run alone takes all of them.
const PLACES: u32 = 1 << 16;

impl Default for Turns {
    fn default() -> Turns {
        Turns { untold: AtomicBool::new(false), places: Arc::new(Semaphore::new(PLACES as usize)) }
    }
}

impl Turns {
    /// The server has asked without saying in which call.
    pub(crate) fn asked_untold(&self) {
        self.untold.store(true, Ordering::SeqCst);
    }

    /// The turn of a call. After too long a wait the call runs without one, since it matters more than a question.
    pub(crate) async fn take(&self, longest: Duration) -> Option<OwnedSemaphorePermit> {
        let places = if self.untold.load(Ordering::SeqCst) { PLACES } else { 1 };
        timeout(longest, self.places.clone().acquire_many_owned(places)).await.ok()?.ok()
    }
}

/// The server's answer to a call: a result, its own error, or nothing, and why.
pub(crate) type Answer = Result<Result<CallToolResponse, ErrorData>, Failure>;

/// A call that was sent. Dropping it cancels it.
pub(crate) struct Running {
    /// Kept so that the connection lives at least as long.
    pub(crate) connection: Arc<Connection>,
    pub(crate) answer: BoxFuture<'static, Answer>,
    pub(crate) questions: mpsc::Receiver<Elicited>,
    /// Answers of an earlier run of the call, to the questions that this one has not asked yet.
    pub(crate) earlier: Vec<KeptAnswer>,
    /// How many of its questions the server has withdrawn.
    taken_back: u32,
    entry: Registered,
    turn: Option<OwnedSemaphorePermit>,
}

struct Registered {
    calls: Calls,
    serial: u64,
}

impl Drop for Registered {
    fn drop(&mut self) {
        self.calls.leave(self.serial);
    }
}

/// Notifies the server that the request is cancelled.
pub(super) struct CancelOnDrop(Option<(Peer<RoleClient>, RequestId)>);

impl CancelOnDrop {
    pub(super) fn of(peer: Peer<RoleClient>, request: RequestId) -> CancelOnDrop {
        CancelOnDrop(Some((peer, request)))
    }

    pub(super) fn answered(mut self) {
        self.0 = None;
    }
}

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        if let (Some((peer, id)), Ok(runtime)) = (self.0.take(), tokio::runtime::Handle::try_current()) {
            runtime.spawn(async move {
                let gone = CancelledNotificationParam::new(Some(id), Some("it is no longer waited for".to_owned()));
                let _ = peer.notify_cancelled(gone).await;
            });
        }
    }
}

impl Running {
    /// It has pending questions: others take its turn.
    pub(crate) fn park(&mut self) {
        self.entry.calls.set(self.entry.serial, |entry| entry.stage = Stage::Parked);
        self.turn = None;
    }

    /// It continues, in its turn.
    pub(crate) fn go_on(&mut self, turn: Option<OwnedSemaphorePermit>) {
        self.entry.calls.set(self.entry.serial, |entry| entry.stage = Stage::Runs);
        self.turn = turn;
    }

    /// Whether the server has withdrawn this question; if so, it is counted.
    pub(crate) fn was_taken_back(&mut self, reply: &oneshot::Sender<ElicitResult>) -> bool {
        self.taken_back += u32::from(reply.is_closed());
        reply.is_closed()
    }

    pub(crate) fn takes_back_too_many(&self) -> bool {
        self.taken_back >= TAKEN_BACK
    }

    /// Sends a call of a session, once, in its turn.
    pub(crate) fn start(
        connection: Arc<Connection>,
        session_id: Arc<str>,
        params: CallToolRequestParams,
        turn: Option<OwnedSemaphorePermit>,
        earlier: Vec<KeptAnswer>,
    ) -> Running {
        let serial = SERIAL.fetch_add(1, Ordering::SeqCst);
        let (send, questions) = mpsc::channel(QUESTIONS_WAITING);
        let calls = connection.calls.clone();
        calls.all().entries.push(Entry {
            serial,
            session_id,
            stage: Stage::Runs,
            answered: false,
            id: None,
            questions: send,
        });
        let entry = Registered { calls: calls.clone(), serial };
        let peer = connection.peer();
        let answer = Box::pin(async move {
            let request = ClientRequest::CallToolRequest(CallToolRequest::new(params));
            let sent = peer.send_cancellable_request(request, PeerRequestOptions::no_options()).await;
            let Ok(handle) = sent else {
                calls.answered(serial);
                return Err(Failure::NotSent("the connection had ended".to_owned()));
            };
            calls.set(serial, |entry| entry.id = Some(handle.id.clone()));
            let cancel = CancelOnDrop::of(peer, handle.id.clone());
            let answer = handle.await_response().await;
            cancel.answered();
            calls.answered(serial);
            match answer {
                Ok(ServerResult::CallToolResult(result)) => Ok(Ok(CallToolResponse::Complete(result))),
                Ok(ServerResult::InputRequiredResult(result)) => Ok(Ok(CallToolResponse::InputRequired(result))),
                Ok(ServerResult::CreateTaskResult(result)) => Ok(Ok(CallToolResponse::Task(result))),
                Ok(other) => {
                    result::read(other).map(|result| Ok(CallToolResponse::Complete(result))).ok_or(Failure::Unreadable)
                }
                Err(ServiceError::McpError(error)) if error.message == UNREADABLE => Err(Failure::Unreadable),
                Err(ServiceError::McpError(error)) => Ok(Err(error)),
                Err(error) => Err(Failure::of_request(&error)),
            }
        });
        Running { connection, answer, questions, earlier, taken_back: 0, entry, turn }
    }
}

/// Calls whose questions are pending.
#[derive(Default)]
pub(crate) struct Parked(Mutex<Vec<Waiting>>);

/// One of them.
pub(crate) struct Waiting {
    pub(crate) session_id: Arc<str>,
    pub(crate) call: u32,
    pub(crate) running: Running,
    pub(crate) reply: oneshot::Sender<ElicitResult>,
    /// The question's name.
    pub(crate) name: Arc<str>,
    /// Notified when it is given up, and dropped with it, for [`Parked::watch`].
    pub(crate) watched: Option<oneshot::Sender<()>>,
}

impl Waiting {
    /// Cancels it while its question is pending.
    fn give_up(self) {
        if let Some(watched) = self.watched {
            let _ = watched.send(());
        }
    }

    fn is_of(&self, session_id: &str, call: u32, input: &CallInput) -> bool {
        *self.session_id == *session_id
            && self.call == call
            && input.questions.iter().any(|asked| asked.question.name == self.name)
    }

    /// Whether the server has cancelled its question, or answered the call.
    fn poll_unasked(&mut self, context: &mut Context<'_>) -> Poll<()> {
        if self.reply.poll_closed(context).is_ready() {
            return Poll::Ready(());
        }
        self.running.answer.poll_unpin(context).map(|answer| self.running.answer = future::ready(answer).boxed())
    }
}

/// Most parked calls of one server; the oldest are cancelled.
const PARKED: usize = 1024;

impl Parked {
    fn all(&self) -> std::sync::MutexGuard<'_, Vec<Waiting>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn put(&self, waiting: Waiting) {
        let mut all = self.all();
        if all.len() >= PARKED {
            all.remove(0).give_up();
        }
        all.push(waiting);
    }

    /// The call whose latest question this is: names of questions are unique.
    pub(crate) fn take(&self, session_id: &str, call: u32, input: &CallInput) -> Option<Waiting> {
        let mut all = self.all();
        let at = all.iter().position(|waiting| waiting.is_of(session_id, call, input))?;
        Some(all.remove(at))
    }

    pub(crate) fn has(&self, session_id: &str, call: u32, input: &CallInput) -> bool {
        self.all().iter().any(|waiting| waiting.is_of(session_id, call, input))
    }

    /// Ends once such a call is no longer parked: with success if it was given up.
    pub(crate) fn watch(&self, session_id: &str, call: u32, input: &CallInput) -> oneshot::Receiver<()> {
        let (ends, ended) = oneshot::channel();
        let mut all = self.all();
        match all.iter_mut().find(|waiting| waiting.is_of(session_id, call, input)) {
            Some(waiting) => waiting.watched = Some(ends),
            // It was given up before anybody watched, or has its answer already: then it makes no difference which.
            None => drop(ends.send(())),
        }
        ended
    }

    /// Waits until a parked call no longer waits for an answer. For one that is not parked, it waits forever.
    pub(crate) fn poll_unasked(
        &self,
        session_id: &str,
        call: u32,
        input: &CallInput,
        context: &mut Context<'_>,
    ) -> Poll<()> {
        match self.all().iter_mut().find(|waiting| waiting.is_of(session_id, call, input)) {
            Some(waiting) => waiting.poll_unasked(context),
            None => Poll::Pending,
        }
    }

    pub(crate) fn forget(&self, session_id: &str) {
        self.all().retain(|waiting| *waiting.session_id != *session_id);
    }

    pub(crate) fn forget_call(&self, session_id: &str, call: u32) {
        self.all().retain(|waiting| *waiting.session_id != *session_id || waiting.call != call);
    }

    /// Cancels those of all connections except this one.
    pub(crate) fn keep_only_of(&self, connection: &Arc<Connection>) {
        let given_up = |waiting: &mut Waiting| !Arc::ptr_eq(&waiting.running.connection, connection);
        self.all().extract_if(.., given_up).for_each(Waiting::give_up);
    }

    pub(crate) fn forget_all(&self) {
        self.all().clear();
    }
}
