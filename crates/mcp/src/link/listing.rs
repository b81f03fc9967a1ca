//! The list of a server's tools: read with each connection, when the server announces changes, and before a call that it
//! may be outdated for, so that no other tool runs than the one that was shown (spec S13, R1).

use std::{
    sync::{
        Arc, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use rmcp::{
    Peer, RoleClient,
    model::{
        ClientRequest, CustomResult, ListToolsRequest, PaginatedRequestParams, ServerNotification, ServerResult,
        SubscriptionFilter,
    },
    service::{PeerRequestOptions, RunningService},
};
use tokio::{
    task::{AbortHandle, JoinHandle},
    time::{Instant, sleep_until, timeout},
};

use super::{
    Connection, Link,
    handler::Handler,
    listed::{self, ListedTool, Listing, Page},
    pause,
    running::CancelOnDrop,
};
use crate::{failure::Failure, pace::Pace, settings::Reach};

/// A changed list of tools is read no more often than this: a server may announce changes without end.
const LIST_AGAIN: Duration = Duration::from_secs(1);
/// A burst that is allowed before that.
const LISTS_AT_ONCE: u32 = 4;
/// Most pages of a tool list that are read.
const PAGES: usize = 64;
/// How long a list counts as fresh if its server announces no changes and gives no `ttlMs`.
const NEW: Duration = Duration::from_secs(5);
/// The longest time that a server's `ttlMs` can set.
const NEW_MOST: Duration = Duration::from_secs(3600);

/// When to read the list of tools again.
pub(super) struct Due {
    /// How many changes the server has announced, and how many of them before the last list was requested.
    announced: AtomicU64,
    read: AtomicU64,
    /// Until when that list counts as fresh.
    new_until: std::sync::Mutex<Instant>,
    /// Reads it again while there are changes to read: the connection, and the task, which ends early if its runtime does.
    again: std::sync::Mutex<Option<(Peer<RoleClient>, AbortHandle)>>,
    pace: Pace,
}

impl Default for Due {
    fn default() -> Due {
        Due {
            announced: AtomicU64::new(0),
            read: AtomicU64::new(0),
            new_until: std::sync::Mutex::new(Instant::now()),
            again: std::sync::Mutex::default(),
            pace: Pace::new(LIST_AGAIN, LISTS_AT_ONCE),
        }
    }
}

impl Due {
    /// Whether the server has announced changes since the last list was requested.
    fn has_changed(&self) -> bool {
        !self.is_read(self.announced.load(Ordering::SeqCst))
    }

    /// Whether a list has been requested since this many changes were announced.
    fn is_read(&self, announced: u64) -> bool {
        self.read.load(Ordering::SeqCst) >= announced
    }

    fn new_until(&self) -> MutexGuard<'_, Instant> {
        self.new_until.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn again(&self) -> MutexGuard<'_, Option<(Peer<RoleClient>, AbortHandle)>> {
        self.again.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The connection over which to read changes. `None`: there are none, and the task ends.
    fn peer(&self) -> Option<Peer<RoleClient>> {
        let mut again = self.again();
        // The next connection begins with a list.
        let next = again.take().filter(|(peer, _)| self.has_changed() && !peer.is_transport_closed())?;
        Some(again.insert(next).0.clone())
    }
}

/// Requests one page of the tools.
async fn request_page(peer: &Peer<RoleClient>, page: PaginatedRequestParams) -> Result<Page, Failure> {
    let list = ListToolsRequest { params: Some(page), ..ListToolsRequest::default() };
    let request = ClientRequest::ListToolsRequest(list);
    let sent = peer.send_cancellable_request(request, PeerRequestOptions::no_options()).await;
    let sent = sent.map_err(|error| Failure::of_request(&error))?;
    let cancel = CancelOnDrop::of(peer.clone(), sent.id.clone());
    let answer = sent.await_response().await;
    cancel.answered();
    match answer.map_err(|error| Failure::of_request(&error))? {
        ServerResult::ListToolsResult(list) => Ok(Page::of(list)),
        // The protocol's library reads a page with a malformed tool like this.
        ServerResult::CustomResult(CustomResult(list)) => Page::read(list).ok_or(Failure::Unreadable),
        _ => Err(Failure::Unreadable),
    }
}

/// Why the list of tools of a server that was reached was not read.
pub(super) fn unlisted(failure: &Failure) -> String {
    format!("its tools cannot be listed: {failure}")
}

impl Link {
    /// Lists the tools, and stores the list.
    pub(super) async fn list(&self, peer: &Peer<RoleClient>) -> Result<(), Failure> {
        let _one_at_a_time = self.listing.lock().await;
        self.read_list(peer).await
    }

    /// The same, while nobody else does.
    async fn read_list(&self, peer: &Peer<RoleClient>) -> Result<(), Failure> {
        // Changes from here on may not be in it.
        let (announced, began) = (self.due.announced.load(Ordering::SeqCst), Instant::now());
        let (mut listing, mut cursor, mut new) = (Listing::default(), None, None::<Duration>);
        for _ in 0..PAGES {
            let mut page = PaginatedRequestParams::default();
            page.cursor = cursor.take();
            let answer = request_page(peer, page).await?;
            let is_whole = listing.add(&answer.tools, &self.settings);
            new = new.into_iter().chain(answer.ttl_ms.map(Duration::from_millis)).min();
            cursor = answer.next_cursor;
            if cursor.is_none() || !is_whole {
                break;
            }
        }
        self.keep(listing, cursor.is_some());
        self.due.read.fetch_max(announced, Ordering::SeqCst);
        *self.due.new_until() = began + new.unwrap_or(NEW).min(NEW_MOST);
        Ok(())
    }

    fn keep(&self, listing: Listing, is_cut: bool) {
        let tools: Arc<[ListedTool]> = listing.tools.into();
        let first = self.version() == 0;
        let is_new = first || tools != self.listed();
        if is_new {
            *self.listed.write().unwrap_or_else(PoisonError::into_inner) = tools;
            self.version.fetch_add(1, Ordering::SeqCst);
        }
        if (listing.is_full || is_cut)
            && let Some(left_out) = self.warned.cut.due()
        {
            tracing::warn!(
                server = &*self.settings.name,
                left_out,
                most = listed::TOOLS,
                most_bytes = listed::TOOLS_BYTES,
                most_pages = PAGES,
                "the MCP server has too many tools, too large ones, or too many pages of them; the first are used"
            );
        }
        let unknown = if is_new { self.unknown_names() } else { Vec::new() };
        if !unknown.is_empty()
            && let Some(left_out) = self.warned.names.due()
        {
            for unknown in unknown {
                tracing::warn!(server = &*self.settings.name, left_out, "{unknown}");
            }
        }
    }

    /// Reads the list again before a call, if the server has announced changes, or if the call needed
    /// approval and the server would not announce any. An error: the list could not be read, so nothing may be sent.
    pub(super) async fn list_for_call(&self, connection: &Connection, needed_approval: bool) -> Result<(), Failure> {
        // First, since a subscription begins with a change.
        let may_be_old = needed_approval && !self.announces(connection);
        // One list is enough, even from a server that announces changes faster than they are read.
        let (announced, since) = (self.due.announced.load(Ordering::SeqCst), Instant::now());
        let is_due = || {
            connection.may_hang.load(Ordering::SeqCst)
                || !self.due.is_read(announced)
                || may_be_old && *self.due.new_until() < since
        };
        if !is_due() {
            return Ok(());
        }
        let limit = self.settings.connect_time_limit;
        let Ok(_one_at_a_time) = timeout(limit, self.listing.lock()).await else { return Err(self.not_in_time()) };
        // Somebody else may have read it meanwhile, or given up the connection.
        if !is_due() {
            return Ok(());
        }
        if let Some(why) = connection.unusable() {
            return Err(Failure::NotSent(format!("its connection {why}")));
        }
        let Ok(listed) = timeout(limit, self.read_list(&connection.peer())).await else {
            self.give_up(connection);
            return Err(self.not_in_time());
        };
        connection.may_hang.fetch_and(listed.is_err(), Ordering::SeqCst);
        listed
    }

    /// Makes no more calls over a connection that hangs. Those that run over it may end, and keep it until then.
    fn give_up(&self, connection: &Connection) {
        connection.given_up.store(true, Ordering::SeqCst);
        // The next connection's list must not wait for one that does not come.
        if let Some((_, task)) = self.due.again().take() {
            task.abort();
        }
    }

    fn not_in_time(&self) -> Failure {
        Failure::Refused(format!("it did not answer within {} seconds", self.settings.connect_time_limit.as_secs()))
    }

    /// Whether changes of the tools would be announced over this connection. Over HTTP a stream may be refused, or end
    /// unnoticed, unless it is the answer to a subscription.
    fn announces(&self, connection: &Connection) -> bool {
        match &connection.listening {
            Some(listening) => listening.hears(),
            None => tells_changes(&connection.service) && matches!(self.settings.reach, Reach::Stdio(_)),
        }
    }

    /// Lists the tools again, in the background: the server has announced changes. However often it does, one list is
    /// read, and one more queued, after a pause if there were many, or if it could not be read.
    pub(super) fn list_again(self: &Arc<Link>, peer: Peer<RoleClient>) {
        self.due.announced.fetch_add(1, Ordering::SeqCst);
        let mut again = self.due.again();
        let running = again.take().map(|(_, task)| task).filter(|task| !task.is_finished());
        let task = running.unwrap_or_else(|| {
            // It must not keep the link alive while it pauses.
            let link = Arc::downgrade(self);
            let task = tokio::spawn(async move {
                let mut failures = 0;
                loop {
                    let Some(next) = link.upgrade().map(|link| link.lists_next(failures)) else { return };
                    sleep_until(next).await;
                    let Some(link) = link.upgrade() else { return };
                    let Some(peer) = link.due.peer() else { return };
                    failures = if link.list_changed(&peer).await { 0 } else { failures + 1 };
                    if link.due.peer().is_none() {
                        return;
                    }
                }
            });
            task.abort_handle()
        });
        *again = Some((peer, task));
    }

    /// When changes are read, after this many failures in a row.
    fn lists_next(&self, failures: u32) -> Instant {
        if let Some(before) = failures.checked_sub(1) {
            return Instant::now() + pause(before);
        }
        let next = self.due.pace.next();
        if next > Instant::now()
            && let Some(left_out) = self.warned.lists.due()
        {
            let server = &*self.settings.name;
            tracing::warn!(
                server,
                left_out,
                "the MCP server announces changed tools too often; it is asked once a second"
            );
        }
        next
    }

    /// Reads changes. `false`: they could not be read.
    async fn list_changed(&self, peer: &Peer<RoleClient>) -> bool {
        let listed = timeout(self.settings.connect_time_limit, self.list(peer)).await;
        let Err(failure) = listed.unwrap_or_else(|_| Err(self.not_in_time())) else { return true };
        let error = self.settings.redact(&failure.to_string());
        tracing::warn!(server = &*self.settings.name, error, "the MCP server's changed tools could not be read");
        false
    }

    /// Since 2026-07-28, changes are only announced to subscribers.
    pub(super) fn listen(self: &Arc<Link>, service: &RunningService<RoleClient, Handler>) -> Option<Listening> {
        let info = service.peer_info()?;
        if !tells_changes(service) || info.protocol_version.has_initialize() {
            return None;
        }
        let (link, peer, begun) = (Arc::downgrade(self), service.peer().clone(), Arc::<AtomicBool>::default());
        let begins = begun.clone();
        let task = tokio::spawn(async move {
            let filter = SubscriptionFilter::builder().tools_list_changed().build();
            let Ok(mut changes) = peer.listen(filter).await else { return };
            if changes.acknowledged().tools_list_changed != Some(true) {
                return;
            }
            // Changes after the connection's list and before this were announced to nobody.
            let Some(known) = link.upgrade() else { return };
            known.list_again(peer.clone());
            drop(known);
            begins.store(true, Ordering::SeqCst);
            while let Ok(Some(change)) = changes.next().await {
                if matches!(change, ServerNotification::ToolListChangedNotification(_)) {
                    let Some(link) = link.upgrade() else { return };
                    link.list_again(peer.clone());
                }
            }
        });
        Some(Listening { begun, task })
    }
}

/// A subscription to changes, which ends on drop.
pub(super) struct Listening {
    /// The server has acknowledged it.
    begun: Arc<AtomicBool>,
    task: JoinHandle<()>,
}

impl Listening {
    /// Whether changes would be announced over it.
    fn hears(&self) -> bool {
        self.begun.load(Ordering::SeqCst) && !self.task.is_finished()
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Whether the server declares that it announces changes of its tools.
fn tells_changes(service: &RunningService<RoleClient, Handler>) -> bool {
    let tools = service.peer_info().and_then(|info| info.capabilities.tools.clone());
    tools.and_then(|tools| tools.list_changed).unwrap_or(false)
}
