//! Settings of a server, and the limits of its connections.

use std::time::Duration;

use crate::auth::Auth;

/// The time between the server's pings on a connection, by default.
pub const HEARTBEAT: Duration = Duration::from_secs(30);
/// Seconds within which the head of a connection's first request must arrive, by default.
pub(crate) const HEADER_SECONDS: u32 = 10;
/// Seconds within which the head of the next request must arrive, by default.
pub(crate) const IDLE_SECONDS: u32 = 75;
/// Most sessions that one WebSocket connection may follow at a time.
pub(crate) const SUBSCRIPTIONS: usize = 256;
/// Seconds within which a client must take what it is sent, by default.
pub(crate) const READ_SECONDS: u64 = 30;
/// The slowest reader tolerated, in bytes a second: allows large frames and answers more time than the above.
pub(crate) const SLOWEST_READER: u64 = 16 * 1024;
/// The slowest sender of a large frame tolerated, in bytes a second: below that, a frame in transit is no sign of life.
/// The largest takes it about 40 minutes.
pub(crate) const SLOWEST_SENDER: u64 = 4 * 1024;
/// Read buffer of a WebSocket, in bytes. Each idle connection holds one; a larger frame, which is rare, is read in
/// pieces.
pub(crate) const READ_AT_ONCE: usize = 8 * 1024;
/// Bytes of messages and bodies that one principal has begun on all connections and not finished: seven of the largest.
pub(crate) const UNFINISHED_BYTES: u64 = 64 * 1024 * 1024;
/// Most frames combined into one write.
pub(crate) const FRAMES_AT_ONCE: usize = 64;
/// Seconds within which a request's body must arrive.
pub(crate) const BODY_SECONDS: u64 = 30;
/// Largest head of a request, in bytes.
pub(crate) const HEAD_BYTES: usize = 64 * 1024;
/// Rows of a list's page, by default.
pub(crate) const PAGE: usize = 50;
/// Rows of a list's page, at most.
pub(crate) const PAGE_MAX: u64 = 200;
/// Messages of a page of history, at most.
pub(crate) const HISTORY_PAGE_MAX: u64 = 1000;
/// Messages on a page of history that does not say how many.
pub(crate) const HISTORY_PAGE: usize = 100;

/// The time that the slowest reader tolerated needs for so many bytes.
pub(crate) fn slowest(bytes: u64) -> Duration {
    Duration::from_millis(bytes.saturating_mul(1000) / SLOWEST_READER)
}

/// Settings of a server.
#[derive(Clone, Debug)]
pub struct Options {
    /// Who may connect. By default everyone who can reach the server is its one trusted user. Keep a clone to change
    /// it while the server runs.
    pub auth: Auth,
    /// Other origins whose pages may use the server, such as `https://app.example.org` or `capacitor://localhost`, as browsers
    /// send them.
    pub allowed_origins: Vec<String>,
    /// The host name of the server, in addition to `localhost` and the loopback addresses. Only used where hosts are
    /// checked.
    pub host: Option<String>,
    /// Refuses requests for unknown host names, so that a page cannot reach a server on this machine by pointing its
    /// own domain at it (DNS rebinding). [`Server::serve`](crate::Server::serve) enables it for loopback addresses.
    pub check_host: bool,
    /// Host names of the server, with or without a port. If there are any, requests for other hosts are refused on
    /// every address; where hosts are checked anyway, these are allowed in addition.
    pub allowed_hosts: Vec<String>,
    /// The time between the server's pings, in whole seconds, at least one. Where an application serves the router with a
    /// listener of its own, a frame must arrive within about three times this.
    pub heartbeat: Duration,
    /// Whether the console is served at `/`.
    pub console: bool,
    /// The limits of connections, where the server accepts them itself ([`Server::serve`](crate::Server::serve));
    /// [`ConnectionLimits::read_timeout`] holds for all WebSockets.
    pub connections: ConnectionLimits,
}

/// How many connections there may be, how long they may be idle, and how slowly they may read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConnectionLimits {
    /// Open at the same time, in total: 16,384 by default.
    pub all: usize,
    /// Of clients without a valid token so far, in total: 8,192 by default, so that the rest stays available to the
    /// others. At the limit, a new one replaces the one that was idle longest.
    pub unknown: usize,
    /// Per address, or per IPv6 /64 network: 4,096 by default. Behind a proxy all clients have the proxy's address.
    pub of_address: usize,
    /// Time within which the head of a connection's first request must arrive: 10 seconds by default.
    pub header_timeout: Duration,
    /// Time within which the head of the next request must arrive: 75 seconds by default.
    pub idle_timeout: Duration,
    /// Time within which a client must read what it is sent, beside one second for each 16 KiB of it: 30 seconds by
    /// default. It holds for WebSockets that an application accepts too.
    pub read_timeout: Duration,
}

impl ConnectionLimits {
    /// These limits with another total, and shares that fit into it.
    #[must_use]
    pub fn within(self, all: usize) -> ConnectionLimits {
        let (unknown, of_address) = (self.unknown.min(all.div_ceil(2)), self.of_address.min(all));
        ConnectionLimits { all, unknown, of_address, ..self }
    }
}

impl Default for ConnectionLimits {
    fn default() -> ConnectionLimits {
        ConnectionLimits {
            all: 16 * 1024,
            unknown: 8 * 1024,
            of_address: 4 * 1024,
            header_timeout: Duration::from_secs(HEADER_SECONDS.into()),
            idle_timeout: Duration::from_secs(IDLE_SECONDS.into()),
            read_timeout: Duration::from_secs(READ_SECONDS),
        }
    }
}

impl Default for Options {
    fn default() -> Options {
        Options {
            auth: Auth::open(),
            allowed_origins: Vec::new(),
            host: None,
            check_host: false,
            allowed_hosts: Vec::new(),
            heartbeat: HEARTBEAT,
            console: true,
            connections: ConnectionLimits::default(),
        }
    }
}
