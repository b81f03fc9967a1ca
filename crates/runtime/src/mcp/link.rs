//! The connection to one server: made when it is needed, again when it has ended, never more often than makes sense.

use std::{
    sync::{
        Arc, PoisonError, RwLock,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use rmcp::{
    ClientServiceExt as _, Peer, RoleClient,
    model::{PaginatedRequestParams, ProtocolVersion, ServerNotification, SubscriptionFilter},
    service::{ClientLifecycleMode, RunningService},
};
use tokio::{sync::Mutex, task::JoinHandle, time::timeout};

use super::{
    handler::Handler,
    listed::ListedTool,
    running::{Calls, Parked, Turns},
    settings::{McpServer, Reach},
    transport::{self, Process},
};

/// How long a server is left alone after it could not be reached for the first time; each further time doubles it.
const FIRST_PAUSE: Duration = Duration::from_millis(500);
/// The longest such pause.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);
/// Most pages of a list of tools that are read.
const PAGES: usize = 64;
/// Most tools of one server.
const TOOLS: usize = 1024;

/// One server: how it is reached, the connection to it, and the tools it had when it was last asked.
pub(super) struct Link {
    pub(super) settings: McpServer,
    stage: Mutex<Stage>,
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
    Up(Arc<Connection>),
    /// It could not be reached, and is left alone until then.
    Down {
        until: Instant,
        failures: u32,
        why: String,
    },
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
            stage: Mutex::new(Stage::Idle),
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

    /// Reaches the server if it is not reached, and not known to be unreachable now.
    pub(super) async fn prepare(self: &Arc<Link>) {
        // Why it is not was logged when it was tried.
        let _ = self.connection().await;
    }

    /// The connection, made if there is none. An error says why there is none, without secrets.
    pub(super) async fn connection(self: &Arc<Link>) -> Result<Arc<Connection>, String> {
        // Whoever needs it too waits here for the one who is making it.
        let mut stage = self.stage.lock().await;
        let failed = match &*stage {
            Stage::Up(connection) if !connection.service.peer().is_transport_closed() => return Ok(connection.clone()),
            Stage::Down { until, why, .. } if Instant::now() < *until => return Err(why.clone()),
            Stage::Down { failures, .. } => *failures,
            Stage::Up(_) => {
                tracing::warn!(server = &*self.settings.name, "the connection to the MCP server has ended");
                0
            }
            Stage::Idle => 0,
        };
        *stage = Stage::Idle;
        match self.connect().await {
            Ok(connection) => {
                let connection = Arc::new(connection);
                *stage = Stage::Up(connection.clone());
                Ok(connection)
            }
            Err(why) => {
                let why = self.settings.redact(&why);
                let pause = (FIRST_PAUSE * 2_u32.saturating_pow(failed.min(16))).min(LONGEST_PAUSE);
                tracing::warn!(server = &*self.settings.name, error = why, ?pause, "the MCP server cannot be reached");
                *stage = Stage::Down { until: Instant::now() + pause, failures: failed + 1, why: why.clone() };
                Err(why)
            }
        }
    }

    async fn connect(self: &Arc<Link>) -> Result<Connection, String> {
        let limit = self.settings.connect_limit;
        let connected = timeout(limit, async {
            // The newest revision is tried first; a server that does not know it is spoken to as before.
            let lifecycle = ClientLifecycleMode::Auto {
                preferred_versions: vec![ProtocolVersion::V_2026_07_28],
                legacy_version: Some(ProtocolVersion::V_2025_11_25),
            };
            let calls = Calls::default();
            let handler = Handler { link: Arc::downgrade(self), calls: calls.clone() };
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
                    (handler.serve_with_lifecycle(pipes, lifecycle).await, Some(process))
                }
                Reach::Http(address) => {
                    (handler.serve_with_lifecycle(transport::http(address)?, lifecycle).await, None)
                }
            };
            let service = service.map_err(|error| error.to_string())?;
            self.list(&service).await?;
            let listening = self.listen(&service);
            Ok(Connection { service, process, listening, calls })
        });
        connected.await.unwrap_or_else(|_| Err(format!("it did not answer within {} seconds", limit.as_secs())))
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
            let answer =
                peer.list_tools(Some(page)).await.map_err(|error| format!("its tools cannot be listed: {error}"))?;
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

    /// What is named here that the server does not have, in words. Empty before its tools are known.
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
                let known: Vec<&str> = listed.iter().map(|tool| &*tool.name).collect();
                let known = known.join(", ");
                unknown.push(format!("{place} names {name:?}, which the server does not have; it has {known}"));
            }
        };
        require.names().into_iter().for_each(|name| look("require_approval", name));
        only.iter().flatten().for_each(|name| look("the list of used tools", name));
        without.iter().for_each(|name| look("the list of tools that are not used", name));
        idempotent.iter().for_each(|name| look("the list of idempotent tools", name));
        unknown
    }

    /// Takes a connection out of use that has failed. Calls that run over it may end.
    pub(super) async fn forget(&self, failed: &Arc<Connection>) {
        let mut stage = self.stage.lock().await;
        if matches!(&*stage, Stage::Up(connection) if Arc::ptr_eq(connection, failed)) {
            *stage = Stage::Idle;
        }
    }

    /// Ends the connection and the program. Calls that run end with it.
    pub(super) async fn close(&self) {
        self.parked.forget_all();
        let mut stage = self.stage.lock().await;
        let Stage::Up(connection) = std::mem::replace(&mut *stage, Stage::Idle) else { return };
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
