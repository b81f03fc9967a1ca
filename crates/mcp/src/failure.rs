//! Failures at a server, in our own words: no library type and no address reaches a model, a person or a log.
//!
//! [`Failure::Gone`] and [`Failure::NotSent`] mean that nothing ran, so the call is sent once more over a new
//! connection, if the tool is still the approved one. The library's errors are translated where they arise (`http`,
//! `pipes`).

use std::{error::Error, io};

use countersign_engine::outgoing;
use reqwest::StatusCode;
use rmcp::{
    model::ProtocolVersion,
    service::{ClientInitializeError, ServiceError},
    transport::{DynamicTransportError, streamable_http_client::StreamableHttpError},
};

/// Why a request has no answer, and whether anything was done.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub(super) enum Failure {
    /// The server no longer knows the session, so it did nothing.
    #[error("it no longer knows the session")]
    Gone,
    /// It was never sent, so nothing was done.
    #[error("{0}")]
    NotSent(String),
    /// The server refused it: how.
    #[error("{0}")]
    Refused(String),
    /// The answer cannot be read. The outcome is unknown.
    #[error("it sent an answer that cannot be read")]
    Unreadable,
    /// It was sent, and the connection closed before the answer. The outcome is unknown.
    #[error("{0}")]
    Lost(String),
}

impl Failure {
    fn lost() -> Failure {
        Failure::Lost("the connection ended".to_owned())
    }

    /// Whether the call may be sent again: nothing was done, or it is idempotent.
    pub(super) fn is_harmless(&self, idempotent: bool) -> bool {
        match self {
            Failure::Gone | Failure::NotSent(_) => true,
            Failure::Lost(_) => idempotent,
            Failure::Refused(_) | Failure::Unreadable => false,
        }
    }

    /// Why a request to an address failed.
    pub(super) fn of_reqwest(error: &reqwest::Error) -> Failure {
        if error.is_connect() {
            return Failure::NotSent(unreached(error).to_owned());
        }
        if error.is_builder() {
            return Failure::NotSent("the request cannot be made".to_owned());
        }
        if error.is_decode() {
            return Failure::Unreadable;
        }
        match error.status() {
            Some(status) => Failure::of_status(status),
            None if error.is_timeout() => Failure::Lost("it did not answer in time".to_owned()),
            None => Failure::lost(),
        }
    }

    /// The meaning of a status alone.
    pub(super) fn of_status(status: StatusCode) -> Failure {
        let said = format!("HTTP {}", outgoing::status(status));
        if outgoing::may_have_begun(status) { Failure::Lost(said) } else { Failure::Refused(said) }
    }

    /// Why a transport failed, from the protocol's library.
    fn of_transport(error: &DynamicTransportError) -> Failure {
        if let Some(error) = error.error.downcast_ref::<StreamableHttpError<Failure>>() {
            return match error {
                StreamableHttpError::Client(failure) => failure.clone(),
                StreamableHttpError::SessionExpired => Failure::Gone,
                StreamableHttpError::AuthRequired(_) => Failure::Refused("HTTP 401 Unauthorized".to_owned()),
                StreamableHttpError::InsufficientScope(_) => Failure::Refused("HTTP 403 Forbidden".to_owned()),
                _ => Failure::lost(),
            };
        }
        match error.error.downcast_ref::<io::Error>() {
            // A program reads whole lines, and this one did not reach it.
            Some(_) => Failure::NotSent("its program has ended".to_owned()),
            None => Failure::lost(),
        }
    }

    /// Why a request has no answer. An error answer of the server is not among these.
    pub(super) fn of_request(error: &ServiceError) -> Failure {
        match error {
            ServiceError::TransportSend(error) => Failure::of_transport(error),
            ServiceError::UnexpectedResponse => Failure::Unreadable,
            ServiceError::McpError(error) => Failure::Refused(format!("{} ({})", error.message, error.code.0)),
            _ => Failure::lost(),
        }
    }
}

/// Whether the connection ended while a session was being started.
pub(super) fn has_ended(error: &ClientInitializeError) -> bool {
    match error {
        ClientInitializeError::TransportError { .. } | ClientInitializeError::ConnectionClosed(_) => true,
        ClientInitializeError::LegacyFallbackFailed { fallback, .. } => has_ended(fallback),
        _ => false,
    }
}

/// Why no session with a server could be started.
pub(super) fn connecting(error: &ClientInitializeError) -> String {
    match error {
        ClientInitializeError::TransportError { error, .. } => Failure::of_transport(error).to_string(),
        ClientInitializeError::JsonRpcError(error) => {
            format!("it answered with an error: {} ({})", error.message, error.code.0)
        }
        ClientInitializeError::ConnectionClosed(_) => "it ended the connection at once".to_owned(),
        ClientInitializeError::NoCompatibleProtocolVersion { server_supported, .. } => {
            unknown_revisions(server_supported)
        }
        ClientInitializeError::LegacyFallbackFailed { fallback, .. } => connecting(fallback),
        _ => "it does not speak the protocol".to_owned(),
    }
}

/// A server that speaks only other revisions of the protocol, of which a few are named, shortened.
pub(super) fn unknown_revisions(theirs: &[ProtocolVersion]) -> String {
    let shown = |version: &ProtocolVersion| -> String { version.as_str().chars().take(32).collect() };
    let theirs: Vec<String> = theirs.iter().take(8).map(shown).collect();
    format!("it speaks no revision of the protocol that is known here, only {}", theirs.join(", "))
}

/// Why no connection was made.
fn unreached(error: &reqwest::Error) -> &'static str {
    if error.is_timeout() {
        return "no connection was made in time";
    }
    let mut cause = error.source();
    while let Some(error) = cause {
        if let Some(error) = error.downcast_ref::<io::Error>() {
            if error.get_ref().is_some_and(|inner| inner.is::<rustls::Error>()) {
                return "its certificate is not accepted, or no secure connection can be made";
            }
            match error.kind() {
                io::ErrorKind::ConnectionRefused => return "the connection was refused",
                io::ErrorKind::ConnectionReset | io::ErrorKind::ConnectionAborted => {
                    return "the connection was reset before it was made";
                }
                io::ErrorKind::HostUnreachable | io::ErrorKind::NetworkUnreachable => {
                    return "its host cannot be reached";
                }
                _ => {}
            }
        }
        if error.to_string().starts_with("dns error") {
            return "its host is not known";
        }
        cause = error.source();
    }
    "no connection can be made"
}
