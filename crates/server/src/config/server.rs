//! `locale` and `[server]`.

use std::net::{Ipv4Addr, SocketAddr};

use axum::http::{Uri, uri::Authority};
use countersign_core::{limits::SESSION_BYTES, locale::Locale};

use super::{
    error::nearest,
    reader::{At, Section},
};
use crate::options::ConnectionLimits;

/// Where the server listens unless the configuration says otherwise.
pub const LISTEN: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 7410);

/// How the server is reached (spec C).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigServer {
    /// Its address; a loopback address unless somebody has a token.
    pub listen: SocketAddr,
    /// Origins of other sites whose pages may connect, such as `https://app.example.com`.
    pub allowed_origins: Vec<String>,
    /// The host names it is reached under, with or without a port; if there are any, others are refused.
    pub allowed_hosts: Vec<String>,
    /// How many connections there may be, and how long they may say nothing.
    pub connections: ConnectionLimits,
    /// About how large a session may grow, in bytes of what is said in it.
    pub session_bytes: u64,
}

/// The least that a session may be allowed to grow to: a few long messages have room.
const SESSION_BYTES_MIN: u32 = 1024 * 1024;

pub(super) fn locale(root: &Section<'_>) -> Locale {
    let Some(name) = root.string("locale") else { return Locale::default() };
    Locale::from_name(&name.value).unwrap_or_else(|| {
        root.bad(name.at, "locale", format!("is {:?}; it must be one of \"en\", \"vi\", \"zh\"", name.value));
        Locale::default()
    })
}

pub(super) fn server(root: &Section<'_>, has_tokens: bool) -> ConfigServer {
    let mut server = ConfigServer {
        listen: LISTEN,
        allowed_origins: Vec::new(),
        allowed_hosts: Vec::new(),
        connections: ConnectionLimits::default(),
        session_bytes: SESSION_BYTES,
    };
    let Some(section) = root.table("server") else { return server };
    if let Some(listen) = section.string("listen") {
        let address = match listen.value.strip_prefix("localhost:") {
            Some(port) => port.parse().ok().map(|port| SocketAddr::from((Ipv4Addr::LOCALHOST, port))),
            None => listen.value.parse().ok(),
        };
        match address {
            None => {
                let what = format!("is {:?}; it must be an address and a port, such as \"127.0.0.1:7410\"", listen.value);
                section.bad(listen.at, "listen", what);
            }
            Some(address) if !has_tokens && !address.ip().is_loopback() => section.bad(
                listen.at,
                "listen",
                format!("is {address}, which other machines can reach; declare who may connect with [[auth.tokens]], or listen on 127.0.0.1"),
            ),
            Some(address) => server.listen = address,
        }
    }
    for origin in section.strings("allowed_origins").unwrap_or_default() {
        match as_origin(&origin.value) {
            Some(origin) => server.allowed_origins.push(origin),
            None => {
                let what =
                    format!("has {:?}, which is no origin; one looks like \"https://app.example.com\"", origin.value);
                section.bad(origin.at, "allowed_origins", what);
            }
        }
    }
    for host in section.strings("allowed_hosts").unwrap_or_default() {
        match as_host(&host.value) {
            Some(host) => server.allowed_hosts.push(host),
            None => {
                let what = format!("has {:?}, which is no host; one looks like \"agents.example.com\"", host.value);
                section.bad(host.at, "allowed_hosts", what);
            }
        }
    }
    server.connections = connections(&section);
    if let Some(bytes) = section.whole("session_bytes", SESSION_BYTES_MIN..=u32::MAX, " bytes") {
        server.session_bytes = bytes.value.into();
    }
    section.finish();
    server
}

fn connections(section: &Section<'_>) -> ConnectionLimits {
    let default = ConnectionLimits::default();
    let count = |key, default: usize| match section.whole(key, 1..=1_000_000, " connections") {
        Some(At { value, .. }) => value as usize,
        None => default,
    };
    let seconds = |key, default| section.whole(key, 1..=3600, " seconds").map_or(default, |found| found.value);
    let all = count("connections", default.all);
    ConnectionLimits {
        all,
        // Where fewer are allowed in all, the shares are as large as they would be.
        unknown: count("unknown_connections", default.unknown.min(all.div_ceil(2))),
        of_address: count("connections_per_address", default.of_address.min(all)),
        header_seconds: seconds("header_seconds", default.header_seconds),
        idle_seconds: seconds("idle_seconds", default.idle_seconds),
    }
}

/// A host as browsers send it: lower case, with its port if there is one.
fn as_host(text: &str) -> Option<String> {
    let authority: Authority = text.parse().ok()?;
    let plain = !authority.host().is_empty() && !text.contains(['@', '*']);
    plain.then(|| text.to_ascii_lowercase())
}

/// An origin as browsers send it: lower case, without a path.
fn as_origin(text: &str) -> Option<String> {
    let uri: Uri = text.parse().ok()?;
    let authority = uri.authority()?.as_str().to_ascii_lowercase();
    let scheme = uri.scheme_str().filter(|scheme| matches!(*scheme, "http" | "https"))?;
    let origin = format!("{scheme}://{authority}");
    (text.eq_ignore_ascii_case(&origin) && !authority.contains('@')).then_some(origin)
}
/// The value of the environment variable that a key names; reported if it is not set.
pub(super) fn secret(section: &Section<'_>, key: &str, variable: &At<String>) -> Option<String> {
    let name = &variable.value;
    if name.is_empty() || name.contains(['=', '\0']) {
        section.bad(variable.at, key, format!("is {name:?}, which is no name of an environment variable"));
        return None;
    }
    let value = (section.document.env)(name).filter(|value| !value.trim().is_empty());
    if value.is_none() {
        section.bad(variable.at, key, format!("names the environment variable {name}, which is not set"));
    }
    value
}

/// Reports an unknown name with the nearest known one.
pub(super) fn unknown<'k>(
    section: &Section<'_>,
    what: &str,
    name: &At<String>,
    known: impl IntoIterator<Item = &'k str>,
) {
    let message = format!("unknown {what} {:?}{}", name.value, section.place());
    section.document.error_near(name.at, message, nearest(&name.value, known));
}
