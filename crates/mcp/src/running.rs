//! A call that runs at a server: its answer, and what is asked in the middle of it.

use std::{
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use countersign_core::journal::input::{CallInput, InputQuestion};
use futures::future::BoxFuture;
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

use super::{failure::Failure, link::Connection, pipes::UNREADABLE};

/// Most questions of one call that wait for the first of them to be answered. What a server asks beyond is cancelled.
pub(super) const QUESTIONS_WAITING: usize = 16;
/// Most times that one call asks people, one after the other; each is an attempt of it. What it asks beyond is cancelled,
/// or ends it.
pub(super) const ASKS_OF_A_CALL: u32 = 64;

static SERIAL: AtomicU64 = AtomicU64::new(0);

/// A question in the middle of a call, which the server waits to be answered.
pub(super) struct Elicited {
    pub(super) question: InputQuestion,
    pub(super) reply: oneshot::Sender<ElicitResult>,
}

/// The calls that run over one connection, for questions to find theirs.
#[derive(Clone, Default)]
pub(super) struct Calls(Arc<Mutex<Vec<Entry>>>);

struct Entry {
    serial: u64,
    session_id: Arc<str>,
    /// It waits for the answer to what it has asked, so it asks nothing else meanwhile.
    parked: bool,
    /// Known once it was sent.
    id: Option<RequestId>,
    questions: mpsc::Sender<Elicited>,
}

impl Calls {
    fn entries(&self) -> std::sync::MutexGuard<'_, Vec<Entry>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Where a question goes that came in answer to a request, or over a connection that does not tell: only where there
    /// is no doubt, since it would be shown to somebody else otherwise.
    pub(super) fn of(&self, request: Option<&RequestId>) -> Option<mpsc::Sender<Elicited>> {
        let entries = self.entries();
        let named = entries.iter().find(|entry| request.is_some() && entry.id.as_ref() == request);
        let possible = || entries.iter().filter(|entry| request.is_none() || entry.id.is_none());
        let only = one(possible()).or_else(|| {
            // That calls wait beside it is no doubt among the calls of one session, which are asked of one person.
            let runs = one(possible().filter(|entry| !entry.parked))?;
            possible().all(|entry| entry.session_id == runs.session_id).then_some(runs)
        });
        named.or(only).map(|entry| entry.questions.clone())
    }

    fn park(&self, serial: u64, parked: bool) {
        if let Some(entry) = self.entries().iter_mut().find(|entry| entry.serial == serial) {
            entry.parked = parked;
        }
    }
}

fn one<T>(mut all: impl Iterator<Item = T>) -> Option<T> {
    let only = all.next()?;
    all.next().is_none().then_some(only)
}

/// The calls of a server take turns, once it has asked something without saying in which of its calls: then only one
/// runs at a time, and it is the one that asks. Calls that wait for people take no turn.
pub(super) struct Turns {
    untold: AtomicBool,
    places: Arc<Semaphore>,
}

/// As many as there may be; a call that is to run alone takes all of them.
const PLACES: u32 = 1 << 16;

impl Default for Turns {
    fn default() -> Turns {
        Turns { untold: AtomicBool::new(false), places: Arc::new(Semaphore::new(PLACES as usize)) }
    }
}

impl Turns {
    /// The server has asked without saying in which of its calls.
    pub(super) fn asked_untold(&self) {
        self.untold.store(true, Ordering::SeqCst);
    }

    /// The turn of a call. Whoever has waited for too long goes on without one: a call is worth more than a question.
    pub(super) async fn take(&self, longest: Duration) -> Option<OwnedSemaphorePermit> {
        let places = if self.untold.load(Ordering::SeqCst) { PLACES } else { 1 };
        timeout(longest, self.places.clone().acquire_many_owned(places)).await.ok()?.ok()
    }
}

/// What the server has answered to a call: a result, an error of its own, or nothing, and why.
pub(super) type Answer = Result<Result<CallToolResponse, ErrorData>, Failure>;

/// A call that was sent. Dropping it cancels it.
pub(super) struct Running {
    /// The connection that it runs over lives at least as long.
    pub(super) connection: Arc<Connection>,
    pub(super) answer: BoxFuture<'static, Answer>,
    pub(super) questions: mpsc::Receiver<Elicited>,
    entry: Registered,
    turn: Option<OwnedSemaphorePermit>,
}

struct Registered {
    calls: Calls,
    serial: u64,
}

impl Drop for Registered {
    fn drop(&mut self) {
        self.calls.entries().retain(|entry| entry.serial != self.serial);
    }
}

/// Tells the server that nobody waits any more.
struct CancelOnDrop(Option<(Peer<RoleClient>, RequestId)>);

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        if let (Some((peer, id)), Ok(runtime)) = (self.0.take(), tokio::runtime::Handle::try_current()) {
            runtime.spawn(async move {
                let gone = CancelledNotificationParam::new(Some(id), Some("nobody waits for it any more".to_owned()));
                let _ = peer.notify_cancelled(gone).await;
            });
        }
    }
}

impl Running {
    /// It waits for people: others take its turn.
    pub(super) fn park(&mut self) {
        self.entry.calls.park(self.entry.serial, true);
        self.turn = None;
    }

    /// It goes on, in its turn.
    pub(super) fn go_on(&mut self, turn: Option<OwnedSemaphorePermit>) {
        self.entry.calls.park(self.entry.serial, false);
        self.turn = turn;
    }

    /// Sends a call of a session, once, in its turn.
    pub(super) fn start(
        connection: Arc<Connection>,
        session_id: Arc<str>,
        params: CallToolRequestParams,
        turn: Option<OwnedSemaphorePermit>,
    ) -> Running {
        let serial = SERIAL.fetch_add(1, Ordering::SeqCst);
        let (send, questions) = mpsc::channel(QUESTIONS_WAITING);
        let calls = connection.calls.clone();
        calls.entries().push(Entry { serial, session_id, parked: false, id: None, questions: send });
        let entry = Registered { calls: calls.clone(), serial };
        let peer = connection.peer();
        let answer = Box::pin(async move {
            let request = ClientRequest::CallToolRequest(CallToolRequest::new(params));
            let sent = peer.send_cancellable_request(request, PeerRequestOptions::no_options()).await;
            let handle = sent.map_err(|_| Failure::NotSent("the connection had ended".to_owned()))?;
            if let Some(entry) = calls.entries().iter_mut().find(|entry| entry.serial == serial) {
                entry.id = Some(handle.id.clone());
            }
            let mut cancel = CancelOnDrop(Some((peer, handle.id.clone())));
            let answer = handle.await_response().await;
            cancel.0 = None;
            match answer {
                Ok(ServerResult::CallToolResult(result)) => Ok(Ok(CallToolResponse::Complete(result))),
                Ok(ServerResult::InputRequiredResult(result)) => Ok(Ok(CallToolResponse::InputRequired(result))),
                Ok(ServerResult::CreateTaskResult(result)) => Ok(Ok(CallToolResponse::Task(result))),
                Ok(_) => Err(Failure::Unreadable),
                Err(ServiceError::McpError(error)) if error.message == UNREADABLE => Err(Failure::Unreadable),
                Err(ServiceError::McpError(error)) => Ok(Err(error)),
                Err(error) => Err(Failure::of_request(&error)),
            }
        });
        Running { connection, answer, questions, entry, turn }
    }
}

/// Calls whose questions wait for people.
#[derive(Default)]
pub(super) struct Parked(Mutex<Vec<Waiting>>);

/// One of them.
pub(super) struct Waiting {
    pub(super) session_id: Arc<str>,
    pub(super) call: u32,
    pub(super) running: Running,
    pub(super) reply: oneshot::Sender<ElicitResult>,
    /// The question's name.
    pub(super) name: Arc<str>,
}

impl Waiting {
    fn is_of(&self, session_id: &str, call: u32, input: &CallInput) -> bool {
        *self.session_id == *session_id
            && self.call == call
            && input.questions.iter().any(|asked| asked.question.name == self.name)
    }
}

/// Most calls that wait at one server; the oldest are cancelled.
const PARKED: usize = 1024;

impl Parked {
    fn all(&self) -> std::sync::MutexGuard<'_, Vec<Waiting>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn put(&self, waiting: Waiting) {
        let mut all = self.all();
        if all.len() >= PARKED {
            all.remove(0);
        }
        all.push(waiting);
    }

    /// The call whose latest question this is: names of questions are never the same.
    pub(super) fn take(&self, session_id: &str, call: u32, input: &CallInput) -> Option<Waiting> {
        let mut all = self.all();
        let at = all.iter().position(|waiting| waiting.is_of(session_id, call, input))?;
        Some(all.remove(at))
    }

    pub(super) fn has(&self, session_id: &str, call: u32, input: &CallInput) -> bool {
        self.all().iter().any(|waiting| waiting.is_of(session_id, call, input))
    }

    pub(super) fn forget(&self, session_id: &str) {
        self.all().retain(|waiting| *waiting.session_id != *session_id);
    }

    pub(super) fn forget_call(&self, session_id: &str, call: u32) {
        self.all().retain(|waiting| *waiting.session_id != *session_id || waiting.call != call);
    }

    pub(super) fn forget_all(&self) {
        self.all().clear();
    }
}
