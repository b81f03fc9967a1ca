//! `locale` and `[server]`.

use std::{
    net::{Ipv4Addr, SocketAddr},
    time::Duration,
};

use axum::http::uri::Authority;
use countersign_core::{limits::SESSION_BYTES, locale::Locale};

use super::{
    reader::{Entry, Section},
    table::{Kind, choice, flat, list, text, whole},
};
use crate::{
    options::{ConnectionLimits, HEADER_SECONDS, IDLE_SECONDS},
    site::{self, is_this_machine},
};

/// The default listen address.
pub const LISTEN: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 7410);
/// Smallest session limit: a few long messages must fit.
const SESSION_BYTES_MIN: u32 = 1024 * 1024;

pub(super) fn locale<'k>() -> Kind<'k, Locale> {
    choice("locale", vec![("en", Locale::En), ("vi", Locale::Vi), ("zh", Locale::Zh)])
}

table! {
    /// How the server is reached (spec C).
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct ConfigServer(section) {
        /// The address and port, such as `127.0.0.1:7410` or `localhost:7410`. Without [`[auth]`](#auth) only a
        /// loopback address; on others the server expects TLS in front of it, and warns.
        listen: SocketAddr = text().and(|entry, text| address(entry, &text)).called("address and port").or(LISTEN);
        /// Origins of other sites whose pages may connect, such as `https://app.example.com`; of the shells of applications
        /// and of extensions too, such as `capacitor://localhost`. `null`, which files and sandboxed frames send, cannot be allowed.
        /// On loopback, requests for the host of such an origin are answered too.
        allowed_origins: Vec<String> = list(text().try_map(|text| origin(&text))).or(Vec::new());
        /// The host names of the server, each with or without a port. If there are any, requests for other hosts get
        /// 403; on loopback `localhost`, the loopback addresses and the hosts of `allowed_origins` stay allowed.
        allowed_hosts: Vec<String> = list(text().and(|entry, text| allowed_host(entry, &text))).or_as("all; on loopback only its own names", Vec::new);
        /// The address by which people reach the console, such as `https://agents.example.com`: for links in
        /// [notifications](webhooks.md).
        public_url: Option<String> = text().try_map(|text| public(&text)).called("URL").optional("the `http` address it listens on");
        /// How many connections there may be, and how long they may be idle.
        connections: ConnectionLimits = flat(connections);
        /// Approximate limit of a session's size, in bytes of its content. At this size its turn ends with
        /// `session_full`, and new messages are refused; in a program it is `RuntimeBuilder::session_bytes`.
        session_bytes: u64 = whole(SESSION_BYTES_MIN..=u32::MAX, "bytes").map(u64::from).or(SESSION_BYTES);
        /// A session unused for this long is deleted, with everything except its audit records; never one that is
        /// running or has pending requests, or in which a standing rule was made that applies to other sessions, and
        /// none in a store in memory.
        keep_days: Option<u32> = whole(1..=36_500, "days").optional("none is deleted automatically");
    }
}

fn connections(section: &Section<'_>) -> Option<ConnectionLimits> {
    let default = ConnectionLimits::default();
    let count = || whole(1..=1_000_000, "connections").map(|count| count as usize);
    let seconds = || whole(1..=3600, "seconds");
    let all = section.field(
        "max_connections",
        "Connections that are open at the same time. When all of them have presented a valid token, the client with the most loses its \
         oldest for one more.",
        count().or(default.all),
    )?;
    // With a smaller total, the default shares shrink to fit.
    let fits = default.within(all);
    Some(ConnectionLimits {
        all,
        unknown: section.field(
            "max_unknown_connections",
            "How many of them may be of clients that have not presented a valid token. For one more of these, the one that \
             was quiet longest is closed; the rest of `max_connections` is kept for clients that are known.",
            count().or_as("`8192`, or half of `max_connections`", || fits.unknown),
        )?,
        of_address: section.field(
            "max_connections_per_address",
            "How many may come from one address, or from one IPv6 network of 64 bits. For one more, the one of them \
             that was quiet longest without a token is closed; if there is none, the oldest of the client with the \
             most there, if it has more than one; otherwise the new one. Behind a proxy all clients have the proxy's \
             address: set it to `max_connections` there.",
            count().or_as("`4096`, or `max_connections`", || fits.of_address),
        )?,
        header_timeout: time(section.field(
            "header_seconds",
            "Time within which the head of a connection's first request must arrive.",
            seconds().or(HEADER_SECONDS),
        )?),
        idle_timeout: time(section.field(
            "idle_seconds",
            "Time within which the head of the next request must arrive, counted from the previous answer. A proxy \
             that keeps connections open should keep them for less.",
            seconds().or(IDLE_SECONDS),
        )?),
        ..default
    })
}

fn time(seconds: u32) -> Duration {
    Duration::from_secs(seconds.into())
}

fn address(entry: &Entry<'_>, text: &str) -> Option<SocketAddr> {
    let address = match text.strip_prefix("localhost:") {
        Some(port) => port.parse().ok().map(|port| SocketAddr::from((Ipv4Addr::LOCALHOST, port))),
        None => text.parse().ok(),
    };
    match address {
        None => {
            entry.bad(format!("is {text:?}; it must be an address and a port, such as \"127.0.0.1:7410\""));
        }
        Some(address) if entry.section.document.open.get() && !address.ip().is_loopback() => {
            entry.bad(format!(
                "is {address}, which other machines can reach; declare who may connect with [[auth.tokens]], or listen on 127.0.0.1"
            ));
        }
        address => return address,
    }
    None
}

/// An address of the console: without what follows a path.
fn public(text: &str) -> Result<String, String> {
    let url = countersign_engine::outgoing::address(text)?;
    if url.query().is_some() || text.contains('#') {
        return Err("must not have a query or a fragment".to_owned());
    }
    Ok(url.as_str().trim_end_matches('/').to_owned())
}

/// A host as browsers send it: lower case, with its port if there is one.
fn host(text: &str) -> Result<String, String> {
    let authority: Option<Authority> = text.parse().ok();
    let is_plain = authority.is_some_and(|found| !found.host().is_empty() && !text.contains(['@', '*']));
    let wrong = || format!("has {text:?}, which is not a host; one looks like \"agents.example.com\"");
    if is_plain { Ok(text.to_ascii_lowercase()) } else { Err(wrong()) }
}

/// A name of the server. Without `[auth]` one of its own only helps a proxy to let others in.
fn allowed_host(entry: &Entry<'_>, text: &str) -> Option<String> {
    let host = host(text).map_err(|what| entry.bad(what)).ok()?;
    if entry.section.document.open.get() && !is_this_machine(&host) {
        entry.warn(format!(
            "has {host:?}: whoever a proxy lets in under that name may do everything; declare who may connect with [[auth.tokens]]"
        ));
    }
    Some(host)
}

/// An origin as browsers send it.
fn origin(text: &str) -> Result<String, String> {
    let wrong =
        || format!("has {text:?}, which is not an origin; each is written out, such as \"https://app.example.com\"");
    site::origin(text).ok_or_else(wrong)
}
