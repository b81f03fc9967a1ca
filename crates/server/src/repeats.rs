//! Requests that make a session, sent again (spec W1, W8).

use countersign_core::approval::principal::Principal;
use sha2::{Digest as _, Sha256};

/// Why a request with a key makes a session: keys of one kind never name a session of another.
#[derive(Clone, Copy)]
pub(crate) enum Makes<'a> {
    Session,
    /// For a first message, over WebSocket.
    Message,
    /// For a run of this graph.
    Run(&'a str),
    /// For a fork of this session.
    Fork(&'a str),
}

/// The id of the session that this key of this caller makes. A session remembers its requests, but this one does not
/// exist yet: so the key determines its id, and a repeated request finds it.
pub(crate) fn session_of(by: &Principal, makes: Makes<'_>, key: &str) -> String {
    let mut hash = Sha256::new();
    // The lengths keep apart parts that could otherwise join to the same text.
    let subject = by.subject.as_deref().unwrap_or_default();
    if let Some(tenant) = &by.tenant {
        hash.update(format!("{}:{tenant}:", tenant.len()));
    }
    let (kind, of) = match makes {
        Makes::Session => ("session", ""),
        Makes::Message => ("message", ""),
        Makes::Run(graph) => ("run", graph),
        Makes::Fork(session) => ("fork", session),
    };
    hash.update(format!("countersign {kind} {}:{subject}:{}:{of}:{key}", subject.len(), of.len()));
    let digest: [u8; 32] = hash.finalize().into();
    let mut bytes = [0; 16];
    bytes.copy_from_slice(&digest[..16]);
    uuid::Uuid::new_v8(bytes).to_string()
}
