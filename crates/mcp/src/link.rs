//! The connection to one server: opened when it is needed, and reopened after it was closed, with back-off.
//!
//! A separate task connects. A turn waits for it for a bounded time, a call up to its limit.

mod bounded;
mod calling;
mod handler;
pub(crate) mod listed;
mod listing;
pub(crate) mod running;
#[cfg(test)]
mod tests;

use std::{
    sync::{
        Arc, MutexGuard, PoisonError, RwLock, Weak,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use countersign_core::call::args::Digest;
use futures::future::join_all;
use rmcp::{
    ClientServiceExt as _, Peer, RoleClient,
    model::ProtocolVersion,
    service::{ClientCacheConfig, ClientLifecycleMode, RunningService},
};
use tokio::{
    sync::{Mutex, watch},
    task::AbortHandle,
    time::{Instant, sleep_until, timeout, timeout_at},
};

use self::{
    bounded::Bounded,
    handler::Handler,
    listed::ListedTool,
    listing::{Due, Listening},
    running::{Calls, Parked, Turns},
};
use super::{
    REVISIONS, failure,
    pace::Warnings,
    settings::{McpServer, Reach},
    transport::{self, LastLines, Process},
};

/// The pause after the first failed attempt to connect; each further failure doubles it.
const FIRST_PAUSE: Duration = Duration::from_millis(500);
/// The longest such pause.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);
/// How long a turn waits for the first connection to a server. It then continues without its tools; calls of those wait
/// up to the server's limit.
const FIRST_USE: Duration = Duration::from_secs(10);
/// How long a call waits for a known server that is restarting.
const COMES_BACK: Duration = Duration::from_secs(5);

/// One server: how it is reached, the connection to it, and its last tool list.
pub(super) struct Link {
    pub(super) settings: McpServer,
    /// The program or address that runs its tools: see [`Reach::digest`].
    reached: Digest,
    stage: std::sync::Mutex<Stage>,
    /// Every connection that may be open: a replaced one stays open while calls run over it.
    connections: std::sync::Mutex<Vec<Weak<Connection>>>,
    listed: RwLock<Arc<[ListedTool]>>,
    version: AtomicU64,
    /// One list is read at a time, so that the last one is the newest.
    listing: Mutex<()>,
    /// When it is read again.
    due: Due,
    pub(super) warned: Warned,
    /// Calls whose questions are pending.
    pub(super) parked: Parked,
    /// How calls take turns.
    pub(super) turns: Turns,
    /// The last lines of its program's standard error, for operators only.
    errors: Arc<LastLines>,
}

/// The kinds of warnings, at the pace of [`Warnings`].
pub(super) struct Warned {
    /// Questions that no person is asked.
    pub(super) questions: Warnings,
    /// Messages that are not read.
    messages: Arc<Warnings>,
    /// Lists that come too often.
    lists: Warnings,
    /// Lists that are cut.
    cut: Warnings,
    /// Names that a list lacks.
    names: Warnings,
    /// Tools that cannot be read.
    unread: Warnings,
    /// Approved tools that have changed since.
    changed: Warnings,
    /// Calls that got no answer, or were not made.
    calls: Warnings,
}

impl Warned {
    fn about(server: &Arc<str>) -> Warned {
        let about = || Warnings::about(server);
        let messages = Arc::new(about());
        Warned {
            questions: about(),
            messages,
            lists: about(),
            cut: about(),
            names: about(),
            unread: about(),
            changed: about(),
            calls: about(),
        }
    }
}

/// The state of the connection.
enum Stage {
    /// Not needed yet, or closed.
    Idle,
    /// It is being made.
    Making(Attempt),
    Up(Arc<Connection>),
    /// It could not be reached; no attempt before `until`.
    Down {
        until: Instant,
        failures: u32,
        why: String,
    },
}

/// The outcome of an attempt to connect, once it is known.
type Made = Option<Result<Arc<Connection>, String>>;

/// An attempt to connect, which continues even if nothing waits for it.
#[derive(Clone)]
struct Attempt {
    began: Instant,
    /// How often it has failed before.
    failures: u32,
    task: AbortHandle,
    made: watch::Receiver<Made>,
}

impl Attempt {
    async fn outcome(mut self) -> Result<Arc<Connection>, String> {
        let made = self.made.wait_for(Option::is_some).await.ok().and_then(|made| made.clone());
        made.unwrap_or_else(|| Err("it was given up".to_owned()))
    }
}

/// The connection, or the attempt to open it.
enum Reached {
    Now(Result<Arc<Connection>, String>),
    Soon(Attempt),
}

/// An open connection, with everything that belongs to it. All of it ends on drop.
pub(super) struct Connection {
    service: RunningService<RoleClient, Handler>,
    process: std::sync::Mutex<Option<Process>>,
    listening: Option<Listening>,
    /// The calls that run over it.
    pub(super) calls: Calls,
    /// The server may no longer know its session.
    may_be_gone: Arc<AtomicBool>,
    /// A call over it had no answer in time, and no list of tools was read since: the server may hang.
    may_hang: AtomicBool,
    /// No list of tools was read over it in time.
    given_up: AtomicBool,
}

impl Connection {
    pub(super) fn peer(&self) -> Peer<RoleClient> {
        self.service.peer().clone()
    }

    /// Whether calls may be made over it.
    fn is_usable(&self) -> bool {
        self.unusable().is_none()
    }

    /// Why calls may not be made over it, if so.
    fn unusable(&self) -> Option<&'static str> {
        if self.calls.is_spent() {
            return Some("cannot tell which call asks");
        }
        if self.may_be_gone.load(Ordering::SeqCst) {
            return Some("may have a session that the server no longer knows");
        }
        if self.given_up.load(Ordering::SeqCst) {
            return Some("gave no list of tools in time, and was given up");
        }
        self.service.peer().is_transport_closed().then_some("has ended")
    }

    /// Whether the server asks in results, and takes answers with the next request.
    pub(super) fn has_rounds(&self) -> bool {
        self.service.peer_info().is_some_and(|info| !info.protocol_version.has_initialize())
    }

    /// Closes it, and ends its program. Calls that run over it end without an answer.
    async fn end(self: Arc<Connection>) {
        let process = self.process.lock().unwrap_or_else(PoisonError::into_inner).take();
        // Its task owns the program's standard input, which is closed with it.
        match Arc::try_unwrap(self) {
            Ok(mut only) => drop(only.service.close_with_timeout(Duration::from_secs(1)).await),
            Err(shared) => shared.service.cancellation_token().cancel(),
        }
        if let Some(process) = process {
            process.end().await;
        }
    }
}

impl Link {
    pub(super) fn new(settings: McpServer) -> Link {
        Link {
            reached: settings.reach.digest(),
            warned: Warned::about(&settings.name),
            settings,
            stage: std::sync::Mutex::new(Stage::Idle),
            connections: std::sync::Mutex::default(),
            listed: RwLock::new(Arc::from([])),
            version: AtomicU64::new(0),
            listing: Mutex::default(),
            due: Due::default(),
            parked: Parked::default(),
            turns: Turns::default(),
            errors: Arc::default(),
        }
    }

    /// The tools of the last list.
    pub(super) fn listed(&self) -> Arc<[ListedTool]> {
        self.listed.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Changes with the tools; 0 before they are known.
    pub(super) fn version(&self) -> u64 {
        self.version.load(Ordering::SeqCst)
    }

    fn stage(&self) -> MutexGuard<'_, Stage> {
        self.stage.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Connects to the server if there is no connection and no back-off. Only the first attempt is waited for, and
    /// briefly: a server that hangs delays only those who need it.
    pub(super) async fn prepare(self: &Arc<Link>) {
        if let Reached::Soon(attempt) = self.reach()
            && attempt.failures == 0
        {
            // The failure was logged by the attempt.
            let _ = timeout_at(attempt.began + FIRST_USE, attempt.outcome()).await;
        }
    }

    /// The connection, opened if there is none. An error says why there is none, without secrets.
    pub(super) async fn connection(self: &Arc<Link>) -> Result<Arc<Connection>, String> {
        match self.reach() {
            Reached::Now(reached) => reached,
            Reached::Soon(attempt) => attempt.outcome().await,
        }
    }

    /// The connection for a call that is to run. A known server may be restarting, so it is retried for a while: an
    /// approved call is not failed at once.
    pub(super) async fn connection_of_call(self: &Arc<Link>) -> Result<Arc<Connection>, String> {
        let until = Instant::now() + COMES_BACK;
        loop {
            let reached = self.connection().await;
            let next = match &*self.stage() {
                Stage::Down { until, .. } => *until,
                _ => Instant::now() + FIRST_PAUSE,
            };
            if reached.is_ok() || self.version() == 0 || next > until {
                return reached;
            }
            sleep_until(next).await;
        }
    }

    /// The connection, or the attempt to open it, which is started if there is none.
    fn reach(self: &Arc<Link>) -> Reached {
        let mut stage = self.stage();
        let failures = match &*stage {
            Stage::Up(connection) if connection.is_usable() => return Reached::Now(Ok(connection.clone())),
            // One whose task was dropped with its executor has ended, too.
            Stage::Making(attempt) if !attempt.task.is_finished() || attempt.made.borrow().is_some() => {
                return Reached::Soon(attempt.clone());
            }
            Stage::Down { until, why, .. } if Instant::now() < *until => return Reached::Now(Err(why.clone())),
            Stage::Down { failures, .. } => *failures,
            Stage::Up(connection) => {
                // A connection, and its program, live on while questions are pending there: at most this one and the
                // next.
                self.parked.keep_only_of(connection);
                let why = connection.unusable().unwrap_or("has ended");
                tracing::warn!(
                    server = &*self.settings.name,
                    "the connection to the MCP server {why}; a new one is made"
                );
                0
            }
            Stage::Making(_) | Stage::Idle => 0,
        };
        let (tell, made) = watch::channel(None);
        let link = self.clone();
        let task = tokio::spawn(async move {
            let made = link.connect().await.map(Arc::new);
            link.made(failures, &made);
            let _ = tell.send(Some(made));
        });
        let attempt = Attempt { began: Instant::now(), failures, task: task.abort_handle(), made };
        *stage = Stage::Making(attempt.clone());
        Reached::Soon(attempt)
    }

    /// Records the outcome of an attempt. A cancelled one never gets here.
    fn made(&self, failed: u32, made: &Result<Arc<Connection>, String>) {
        let next = match made {
            Ok(connection) => {
                let mut connections = self.connections.lock().unwrap_or_else(PoisonError::into_inner);
                connections.retain(|known| known.strong_count() > 0);
                connections.push(Arc::downgrade(connection));
                Stage::Up(connection.clone())
            }
            Err(why) => {
                let pause = pause(failed);
                let error = self.for_operators(why);
                tracing::warn!(server = &*self.settings.name, error, ?pause, "the MCP server cannot be reached");
                Stage::Down { until: Instant::now() + pause, failures: failed + 1, why: why.clone() }
            }
        };
        *self.stage() = next;
    }

    /// Why it was not reached, with the last output of its program about that.
    pub(super) fn for_operators(&self, why: &str) -> String {
        match self.errors.text(|line| self.settings.redact(line)) {
            said if said.is_empty() => why.to_owned(),
            said => format!("{why}; its standard error ends with: {said}"),
        }
    }

    async fn connect(self: &Arc<Link>) -> Result<Connection, String> {
        let knows_probe = Arc::<AtomicBool>::default();
        let mut connected = self.serve_in_time(self.settings.revision.as_ref(), &knows_probe).await;
        if connected.is_err() && knows_probe.load(Ordering::SeqCst) {
            // A second connection, which this time waits for the probe's answer.
            connected = self.serve_in_time(Some(&ProtocolVersion::V_2026_07_28), &knows_probe).await;
        }
        connected.map_err(|why| self.settings.redact(&why))
    }

    async fn serve_in_time(
        self: &Arc<Link>,
        revision: Option<&ProtocolVersion>,
        knows_probe: &Arc<AtomicBool>,
    ) -> Result<Connection, String> {
        let limit = self.settings.connect_time_limit;
        let connected = timeout(limit, self.serve(revision, knows_probe)).await;
        connected.unwrap_or_else(|_| Err(format!("it did not answer within {} seconds", limit.as_secs())))
    }

    /// Starts a session with the server in this revision, or in the newest that both know, and lists its tools.
    async fn serve(
        self: &Arc<Link>,
        revision: Option<&ProtocolVersion>,
        knows_probe: &Arc<AtomicBool>,
    ) -> Result<Connection, String> {
        let lifecycle = match revision {
            // A server that does not know the newest revision is addressed in an older one.
            None => ClientLifecycleMode::Auto {
                preferred_versions: vec![ProtocolVersion::V_2026_07_28],
                legacy_version: Some(ProtocolVersion::V_2025_11_25),
            },
            Some(revision) if revision.has_initialize() => ClientLifecycleMode::Initialize,
            Some(revision) => ClientLifecycleMode::Discover { preferred_versions: vec![revision.clone()] },
        };
        let calls = Calls::default();
        let handler = Handler { link: Arc::downgrade(self), calls: calls.clone(), revision: revision.cloned() };
        let may_be_gone = Arc::<AtomicBool>::default();
        let (service, mut process) = match &self.settings.reach {
            Reach::Stdio(program) => {
                let (link, errors) = (Arc::downgrade(self), self.errors.clone());
                errors.clear();
                // Its standard error is for operators: it is logged at debug level.
                let told = move |line: &str| {
                    errors.add(line);
                    if let Some(link) = link.upgrade() {
                        tracing::debug!(server = &*link.settings.name, "{}", link.settings.redact(line));
                    }
                };
                let (process, pipes) = Process::start(program, self.warned.messages.clone(), told)?;
                (
                    handler
                        .serve_with_lifecycle(Bounded::new(pipes, knows_probe.clone(), calls.clone()), lifecycle)
                        .await,
                    Some(process),
                )
            }
            Reach::Http(address) => {
                let (secrets, warnings) = (self.settings.secrets.clone(), self.warned.messages.clone());
                let http = transport::http(address, secrets, may_be_gone.clone(), warnings)?;
                let way = Bounded::new(http, knows_probe.clone(), calls.clone());
                (handler.serve_with_lifecycle(way, lifecycle).await, None)
            }
        };
        let service = match service {
            Ok(service) => service,
            Err(error) => {
                let why = failure::connecting(&error);
                let Some(process) = &mut process else { return Err(why) };
                process.last_words().await;
                let hint = "; if it ends only where it gets `server/discover`, set its `revision`";
                let hint = if revision.is_none() && failure::has_ended(&error) { hint } else { "" };
                return Err(why + hint);
            }
        };
        // Another revision would give messages another meaning.
        if let Some(info) = service.peer_info()
            && !REVISIONS.contains(&info.protocol_version.as_str())
        {
            return Err(failure::unknown_revisions(std::slice::from_ref(&info.protocol_version)));
        }
        // A cache would answer for the server, even when that has failed.
        service.peer().set_response_cache_config(ClientCacheConfig::disabled()).await;
        self.list(&service).await.map_err(|failure| listing::unlisted(&failure))?;
        let listening = self.listen(&service);
        Ok(Connection {
            service,
            process: std::sync::Mutex::new(process),
            listening,
            calls,
            may_be_gone,
            may_hang: AtomicBool::new(false),
            given_up: AtomicBool::new(false),
        })
    }

    /// Tools that are named here and that the server does not have or no agent can have, and tools that cannot have their
    /// names, described.
    /// Empty before its tools are known.
    pub(super) fn unknown_names(&self) -> Vec<String> {
        if self.version() == 0 {
            return Vec::new();
        }
        let McpServer { require, allowed_tools, blocked_tools, idempotent, .. } = &self.settings;
        let listed = self.listed();
        let mut unknown = Vec::new();
        let mut look = |place: &str, name: &str| {
            let tool = listed.iter().find(|tool| *tool.name == *name);
            let why = match tool.map(|tool| tool.mistake().filter(|_| tool.used)) {
                Some(None) => return,
                Some(Some(why)) => format!("which cannot be used: {why}"),
                None => format!("which the server does not have; it has {}", named(&listed)),
            };
            unknown.push(format!("{place} names {name:?}, {why}"));
        };
        require.names().into_iter().for_each(|name| look("require_approval", name));
        allowed_tools.iter().flatten().for_each(|name| look("allowed_tools", name));
        blocked_tools.iter().for_each(|name| look("blocked_tools", name));
        idempotent.iter().for_each(|name| look("idempotent", name));
        let taken =
            listed.iter().filter(|tool| tool.built_in && !blocked_tools.iter().any(|other| **other == *tool.name));
        unknown.extend(taken.map(|tool| {
            let name = &tool.as_name;
            format!("its tool {name:?} has the name of a built-in tool and is not used; give the server a prefix")
        }));
        unknown
    }

    /// Takes a failed connection out of use. Calls that run over it may end.
    pub(super) fn forget(&self, failed: &Arc<Connection>) {
        let mut stage = self.stage();
        if matches!(&*stage, Stage::Up(connection) if Arc::ptr_eq(connection, failed)) {
            *stage = Stage::Idle;
        }
    }

    /// Closes the connection, those that it replaced, and their programs. Running calls end with them.
    pub(super) async fn close(&self) {
        self.parked.forget_all();
        let mut connections = std::mem::take(&mut *self.connections.lock().unwrap_or_else(PoisonError::into_inner));
        let connections: Vec<_> = connections.drain(..).filter_map(|known| known.upgrade()).collect();
        if let Stage::Making(attempt) = std::mem::replace(&mut *self.stage(), Stage::Idle) {
            attempt.task.abort();
        }
        join_all(connections.into_iter().map(Connection::end)).await;
    }
}

/// The pause after this many earlier failures.
fn pause(failures: u32) -> Duration {
    (FIRST_PAUSE * 2_u32.saturating_pow(failures.min(16))).min(LONGEST_PAUSE)
}

/// Most tools that are listed when one is missing.
const NAMED: usize = 64;
/// How much of each name, in characters.
const NAMED_CHARS: usize = 64;

/// The names of tools, for a line of a log: a server may send arbitrary characters, and any number of them.
fn named(listed: &[ListedTool]) -> String {
    let name =
        |tool: &ListedTool| -> String { tool.name.chars().take(NAMED_CHARS).flat_map(char::escape_debug).collect() };
    let mut names: Vec<String> = listed.iter().take(NAMED).map(name).collect();
    if listed.len() > NAMED {
        names.push(format!("and {} more", listed.len() - NAMED));
    }
    names.join(", ")
}
