//! The connection to one server: made when it is needed, again when it has ended, never more often than makes sense.
//!
//! A task of its own makes the connection. A turn waits for it for a bounded time, a call for as long as it may take.

mod calling;
mod handler;
pub(crate) mod listed;
pub(crate) mod running;

use std::{
    sync::{
        Arc, MutexGuard, PoisonError, RwLock,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use rmcp::{
    ClientServiceExt as _, Peer, RoleClient,
    model::{PaginatedRequestParams, ProtocolVersion, ServerNotification, SubscriptionFilter},
    service::{ClientLifecycleMode, RunningService},
};
use tokio::{
    sync::{Mutex, watch},
    task::{AbortHandle, JoinHandle},
    time::{Instant, sleep_until, timeout, timeout_at},
};

use self::{
    handler::Handler,
    listed::ListedTool,
    running::{Calls, Parked, Turns},
};
use super::{
    REVISIONS,
    bounded::Bounded,
    failure::{self, Failure},
    settings::{McpServer, Reach},
    transport::{self, Process},
};

/// How long a server is left alone after it could not be reached for the first time; each further time doubles it.
const FIRST_PAUSE: Duration = Duration::from_millis(500);
/// The longest such pause.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);
/// How long a turn waits for a server that is reached for the first time. It goes on without its tools then; those who call
/// one of them wait for as long as the server may take.
const FIRST_USE: Duration = Duration::from_secs(10);
/// How long a call waits for a server that was there before to come back.
const COMES_BACK: Duration = Duration::from_secs(5);
/// Most pages of a list of tools that are read.
const PAGES: usize = 64;
/// Most tools of one server.
const TOOLS: usize = 1024;

/// One server: how it is reached, the connection to it, and the tools it had when it was last asked.
pub(super) struct Link {
    pub(super) settings: McpServer,
    stage: std::sync::Mutex<Stage>,
    listed: RwLock<Arc<[ListedTool]>>,
    version: AtomicU64,
    /// One list is read at a time, so that the newest is the last.
    listing: Mutex<()>,
    /// The tools have changed, and the list that will say how has not begun to be read.
    list_due: AtomicBool,
    /// Calls whose questions wait for people.
    pub(super) parked: Parked,
    /// How calls take turns.
    pub(super) turns: Turns,
}

/// Where the connection stands.
enum Stage {
    /// Not needed yet, or closed.
    Idle,
    /// It is being made.
    Making(Attempt),
    Up(Arc<Connection>),
    /// It could not be reached, and is left alone until then.
    Down {
        until: Instant,
        failures: u32,
        why: String,
    },
}

/// What became of an attempt to connect, once that is known.
type Made = Option<Result<Arc<Connection>, String>>;

/// An attempt to connect, which goes on whoever waits for it.
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

/// The connection, or what will become of it.
enum Reached {
    Now(Result<Arc<Connection>, String>),
    Soon(Attempt),
}

/// A connection that is up, with what belongs to it. All of it ends when it is dropped.
pub(super) struct Connection {
    service: RunningService<RoleClient, Handler>,
    process: Option<Process>,
    listening: Option<JoinHandle<()>>,
    /// The calls that run over it.
    pub(super) calls: Calls,
}

impl Connection {
    pub(super) fn peer(&self) -> Peer<RoleClient> {
        self.service.peer().clone()
    }

    /// Whether the server asks by results, and takes answers with the next request.
    pub(super) fn has_rounds(&self) -> bool {
        self.service.peer_info().is_some_and(|info| !info.protocol_version.has_initialize())
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        if let Some(listening) = &self.listening {
            listening.abort();
        }
    }
}

impl Link {
    pub(super) fn new(settings: McpServer) -> Link {
        Link {
            settings,
            stage: std::sync::Mutex::new(Stage::Idle),
            listed: RwLock::new(Arc::from([])),
            version: AtomicU64::new(0),
            listing: Mutex::default(),
            list_due: AtomicBool::new(false),
            parked: Parked::default(),
            turns: Turns::default(),
        }
    }

    /// The tools that the server had when it was last asked.
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

    /// Reaches the server if it is not reached, and not known to be unreachable now. Only the first attempt is waited for,
    /// and not for long: a server that hangs holds nobody up who can do without it.
    pub(super) async fn prepare(self: &Arc<Link>) {
        if let Reached::Soon(attempt) = self.reach()
            && attempt.failures == 0
        {
            // Why it is not reached was logged when it was tried.
            let _ = timeout_at(attempt.began + FIRST_USE, attempt.outcome()).await;
        }
    }

    /// The connection, made if there is none. An error says why there is none, without secrets.
    pub(super) async fn connection(self: &Arc<Link>) -> Result<Arc<Connection>, String> {
        match self.reach() {
            Reached::Now(reached) => reached,
            Reached::Soon(attempt) => attempt.outcome().await,
        }
    }

    /// The connection for a call that is to run. A server that was there before may be about to begin again, so it is tried for
    /// a while: what a person has allowed is not given up at once.
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

    /// The connection, or the attempt to make it, which is begun if there is none.
    fn reach(self: &Arc<Link>) -> Reached {
        let mut stage = self.stage();
        let failures = match &*stage {
            Stage::Up(connection) if !connection.service.peer().is_transport_closed() => {
                return Reached::Now(Ok(connection.clone()));
            }
            // One whose task was dropped with its executor is over, too.
            Stage::Making(attempt) if !attempt.task.is_finished() || attempt.made.borrow().is_some() => {
                return Reached::Soon(attempt.clone());
            }
            Stage::Down { until, why, .. } if Instant::now() < *until => return Reached::Now(Err(why.clone())),
            Stage::Down { failures, .. } => *failures,
            Stage::Up(_) => {
                tracing::warn!(server = &*self.settings.name, "the connection to the MCP server has ended");
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

    /// Keeps what became of an attempt. One that was given up never comes here.
    fn made(&self, failed: u32, made: &Result<Arc<Connection>, String>) {
        let next = match made {
            Ok(connection) => Stage::Up(connection.clone()),
            Err(why) => {
                let pause = (FIRST_PAUSE * 2_u32.saturating_pow(failed.min(16))).min(LONGEST_PAUSE);
                tracing::warn!(server = &*self.settings.name, error = why, ?pause, "the MCP server cannot be reached");
                Stage::Down { until: Instant::now() + pause, failures: failed + 1, why: why.clone() }
            }
        };
        *self.stage() = next;
    }

    async fn connect(self: &Arc<Link>) -> Result<Connection, String> {
        let limit = self.settings.connect_limit;
        let connected = timeout(limit, self.serve()).await;
        let connected =
            connected.unwrap_or_else(|_| Err(format!("it did not answer within {} seconds", limit.as_secs())));
        connected.map_err(|why| self.settings.redact(&why))
    }

    /// Begins to speak with the server, and asks for its tools.
    async fn serve(self: &Arc<Link>) -> Result<Connection, String> {
        let lifecycle = match &self.settings.revision {
            // A server that does not know the newest revision is spoken to as before.
            None => ClientLifecycleMode::Auto {
                preferred_versions: vec![ProtocolVersion::V_2026_07_28],
                legacy_version: Some(ProtocolVersion::V_2025_11_25),
            },
            Some(revision) if revision.has_initialize() => ClientLifecycleMode::Initialize,
            Some(revision) => ClientLifecycleMode::Discover { preferred_versions: vec![revision.clone()] },
        };
        let calls = Calls::default();
        let revision = self.settings.revision.clone();
        let handler = Handler { link: Arc::downgrade(self), calls: calls.clone(), revision };
        let (service, process) = match &self.settings.reach {
            Reach::Stdio(program) => {
                let link = Arc::downgrade(self);
                // Its standard error is for who operates it: it is in the log, at the level of details.
                let told = move |line: &str| {
                    if let Some(link) = link.upgrade() {
                        tracing::debug!(server = &*link.settings.name, "{}", link.settings.redact(line));
                    }
                };
                let (process, pipes) = Process::start(program, told)?;
                (handler.serve_with_lifecycle(Bounded::new(pipes), lifecycle).await, Some(process))
            }
            Reach::Http(address) => {
                let way = Bounded::new(transport::http(address, self.settings.secrets.clone())?);
                (handler.serve_with_lifecycle(way, lifecycle).await, None)
            }
        };
        let service = service.map_err(|error| failure::connecting(&error))?;
        // What is asked and answered would be read by the rules of another one.
        if let Some(info) = service.peer_info()
            && !REVISIONS.contains(&info.protocol_version.as_str())
        {
            return Err(failure::unknown_revisions(std::slice::from_ref(&info.protocol_version)));
        }
        self.list(&service).await?;
        let listening = self.listen(&service);
        Ok(Connection { service, process, listening, calls })
    }

    /// Asks for the tools, and keeps them.
    async fn list(&self, peer: &Peer<RoleClient>) -> Result<(), String> {
        let _one_at_a_time = self.listing.lock().await;
        // What changes from here on is not sure to be in it.
        self.list_due.store(false, Ordering::SeqCst);
        let (mut tools, mut cursor) = (Vec::new(), None);
        for _ in 0..PAGES {
            let mut page = PaginatedRequestParams::default();
            page.cursor = cursor.take();
            let answer = peer.list_tools(Some(page)).await;
            let answer =
                answer.map_err(|error| format!("its tools cannot be listed: {}", Failure::of_request(&error)))?;
            tools.extend(answer.tools);
            cursor = answer.next_cursor;
            if cursor.is_none() || tools.len() > TOOLS {
                break;
            }
        }
        if tools.len() > TOOLS || cursor.is_some() {
            tracing::warn!(
                server = &*self.settings.name,
                most = TOOLS,
                "the MCP server has too many tools; the first are used"
            );
            tools.truncate(TOOLS);
        }
        let tools: Arc<[ListedTool]> = tools.iter().map(|tool| ListedTool::of(tool, &self.settings)).collect();
        let first = self.version() == 0;
        if first || tools != self.listed() {
            *self.listed.write().unwrap_or_else(PoisonError::into_inner) = tools;
            self.version.fetch_add(1, Ordering::SeqCst);
            for unknown in self.unknown_names() {
                tracing::warn!(server = &*self.settings.name, "{unknown}");
            }
        }
        Ok(())
    }

    /// Asks for the tools again, in the background: the server says that they have changed. However often it says so,
    /// one list is read, and one more waits.
    pub(super) fn list_again(self: &Arc<Link>, peer: Peer<RoleClient>) {
        if self.list_due.swap(true, Ordering::SeqCst) {
            return;
        }
        let link = self.clone();
        tokio::spawn(async move {
            let listed = timeout(link.settings.connect_limit, link.list(&peer)).await;
            if listed.is_err() {
                // It may never have had its turn.
                link.list_due.store(false, Ordering::SeqCst);
            }
            if let Err(error) = listed.unwrap_or_else(|_| Err("its tools were not listed in time".to_owned())) {
                let error = link.settings.redact(&error);
                tracing::warn!(server = &*link.settings.name, error, "the MCP server's changed tools are not known");
            }
        });
    }

    /// Since 2026-07-28, changes are only told to those who ask to hear of them.
    fn listen(self: &Arc<Link>, service: &RunningService<RoleClient, Handler>) -> Option<JoinHandle<()>> {
        let info = service.peer_info()?;
        let tells = info.capabilities.tools.as_ref().and_then(|tools| tools.list_changed).unwrap_or(false);
        if !tells || info.protocol_version.has_initialize() {
            return None;
        }
        let (link, peer) = (Arc::downgrade(self), service.peer().clone());
        Some(tokio::spawn(async move {
            let filter = SubscriptionFilter::builder().tools_list_changed().build();
            let Ok(mut changes) = peer.listen(filter).await else { return };
            while let Ok(Some(change)) = changes.next().await {
                if matches!(change, ServerNotification::ToolListChangedNotification(_)) {
                    let Some(link) = link.upgrade() else { return };
                    link.list_again(peer.clone());
                }
            }
        }))
    }

    /// What is named here that the server does not have, and tools that cannot have their names, in words. Empty before its
    /// tools are known.
    pub(super) fn unknown_names(&self) -> Vec<String> {
        if self.version() == 0 {
            return Vec::new();
        }
        let McpServer { require, only, without, idempotent, .. } = &self.settings;
        let listed = self.listed();
        let has = |name: &str| listed.iter().any(|tool| *tool.name == *name);
        let mut unknown = Vec::new();
        let mut look = |place: &str, name: &str| {
            if !has(name) {
                unknown
                    .push(format!("{place} names {name:?}, which the server does not have; it has {}", named(&listed)));
            }
        };
        require.names().into_iter().for_each(|name| look("require_approval", name));
        only.iter().flatten().for_each(|name| look("the list of used tools", name));
        without.iter().for_each(|name| look("the list of tools that are not used", name));
        idempotent.iter().for_each(|name| look("the list of idempotent tools", name));
        let taken = listed.iter().filter(|tool| tool.built_in && !without.iter().any(|other| **other == *tool.name));
        unknown.extend(taken.map(|tool| {
            let name = &tool.as_name;
            format!("its tool {name:?} has the name of a built-in tool and is not used; give the server a prefix")
        }));
        unknown
    }

    /// Takes a connection out of use that has failed. Calls that run over it may end.
    pub(super) fn forget(&self, failed: &Arc<Connection>) {
        let mut stage = self.stage();
        if matches!(&*stage, Stage::Up(connection) if Arc::ptr_eq(connection, failed)) {
            *stage = Stage::Idle;
        }
    }

    /// Ends the connection and the program. Calls that run end with it.
    pub(super) async fn close(&self) {
        self.parked.forget_all();
        let connection = match std::mem::replace(&mut *self.stage(), Stage::Idle) {
            Stage::Up(connection) => connection,
            Stage::Making(attempt) => {
                attempt.task.abort();
                return;
            }
            Stage::Idle | Stage::Down { .. } => return,
        };
        // Its task has the program's standard input, which is closed with it.
        let Ok(mut connection) =
            Arc::try_unwrap(connection).map_err(|shared| shared.service.cancellation_token().cancel())
        else {
            return;
        };
        let _ = connection.service.close_with_timeout(Duration::from_secs(1)).await;
        if let Some(process) = connection.process.take() {
            process.end().await;
        }
    }
}

/// Most tools that are named where one is missing.
const NAMED: usize = 64;
/// How much of the name of each, in characters.
const NAMED_CHARS: usize = 64;

/// The names of tools, for a line of a log: a server may give them any characters, of any number.
fn named(listed: &[ListedTool]) -> String {
    let name =
        |tool: &ListedTool| -> String { tool.name.chars().take(NAMED_CHARS).flat_map(char::escape_debug).collect() };
    let mut names: Vec<String> = listed.iter().take(NAMED).map(name).collect();
    if listed.len() > NAMED {
        names.push(format!("and {} more", listed.len() - NAMED));
    }
    names.join(", ")
}
