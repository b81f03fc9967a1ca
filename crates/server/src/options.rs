//! Settings of a server, and the bounds of its connections.

use crate::auth::Auth;

/// Seconds between the server's pings on a connection, by default.
pub const HEARTBEAT_SECONDS: u32 = 30;
/// Sessions one WebSocket connection may follow at a time.
pub(crate) const SUBSCRIPTIONS: usize = 256;
/// Seconds a write may make no progress before the connection is closed.
pub(crate) const WRITE_STALL_SECONDS: u64 = 30;
/// The slowest reader that is put up with, in bytes a second: what a single frame may take beyond the above.
pub(crate) const SLOWEST_READER: u64 = 16 * 1024;
/// Bytes that are read from a WebSocket at once. Each connection holds so many while it waits for a frame; a larger frame, which
/// is rare, is read in pieces.
pub(crate) const READ_AT_ONCE: usize = 8 * 1024;
/// Frames that are put into one write when they are ready at once.
pub(crate) const FRAMES_AT_ONCE: usize = 64;
/// Seconds a request's body may take to arrive.
pub(crate) const BODY_SECONDS: u64 = 30;
/// Largest head of a request, in bytes.
pub(crate) const HEAD_BYTES: usize = 64 * 1024;
/// Rows of a list's page, by default.
pub(crate) const PAGE: usize = 50;
/// Rows of a list's page, at most.
pub(crate) const PAGE_MAX: usize = 200;
/// Messages of a page of history, at most.
pub(crate) const HISTORY_PAGE_MAX: usize = 1000;
/// Messages on a page of history that does not say how many.
pub(crate) const HISTORY_PAGE: usize = 100;

/// Settings of a server.
#[derive(Clone, Debug)]
pub struct Options {
    /// Who may connect. By default everybody who can reach the server is its one trusted user. A clone that is kept
    /// can change it while the server runs.
    pub auth: Auth,
    /// Other origins whose pages may use the server, such as `https://app.example.org`.
    pub allowed_origins: Vec<String>,
    /// The host name the server is reached under, beside `localhost` and the loopback addresses. Only looked
    /// at where hosts are checked.
    pub host: Option<String>,
    /// Refuses requests for unknown host names, so that a page cannot reach a server on this machine by
    /// pointing a name of its own at it (DNS rebinding). [`Server::serve`](crate::Server::serve) turns it on
    /// for loopback addresses.
    pub check_host: bool,
    /// Host names, with or without a port, that the server is reached under. If there are any, requests for other
    /// hosts are refused on every address; where hosts are checked anyway, these are allowed beside the others.
    pub allowed_hosts: Vec<String>,
    /// Seconds between the server's pings.
    pub heartbeat_seconds: u32,
    /// Whether the console is served at `/`.
    pub console: bool,
    /// The bounds of connections, where the server takes them itself ([`Server::serve`](crate::Server::serve)).
    pub connections: ConnectionLimits,
}

/// How many connections there may be, and how long they may say nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConnectionLimits {
    /// Open at the same time, in all: 16,384 by default.
    pub all: usize,
    /// Of those who have not shown a good token, in all: 8,192 by default, so that the rest is kept for the others. For one
    /// more of them the one that was quiet longest is closed.
    pub unknown: usize,
    /// Of one address, or one network of 64 bits of IPv6: 4,096 by default. Behind a proxy all have the proxy's.
    pub of_address: usize,
    /// Seconds within which the head of a connection's first request must be there: 10 by default.
    pub header_seconds: u32,
    /// Seconds within which the head of the next request must be there: 75 by default.
    pub idle_seconds: u32,
}

impl Default for ConnectionLimits {
    fn default() -> ConnectionLimits {
        ConnectionLimits {
            all: 16 * 1024,
            unknown: 8 * 1024,
            of_address: 4 * 1024,
            header_seconds: 10,
            idle_seconds: 75,
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
            heartbeat_seconds: HEARTBEAT_SECONDS,
            console: true,
            connections: ConnectionLimits::default(),
        }
    }
}
