//! Requests that make a session, sent again (spec W1, W8).

use countersign_core::approval::principal::Principal;
use sha2::{Digest as _, Sha256};

/// The id of the session that this key of this caller makes. A session remembers its requests, but this one does not
/// exist yet: so the key determines its id, and a repeated request finds it.
pub(crate) fn session_of(by: &Principal, key: &str) -> String {
    let mut hash = Sha256::new();
    // The length prefix keeps two callers' keys apart.
    let subject = by.subject.as_deref().unwrap_or_default();
    if let Some(tenant) = &by.tenant {
        hash.update(format!("{}:{tenant}:", tenant.len()));
    }
    hash.update(format!("countersign session {}:{subject}:{key}", subject.len()));
    let digest: [u8; 32] = hash.finalize().into();
    let mut bytes = [0; 16];
    bytes.copy_from_slice(&digest[..16]);
    uuid::Uuid::new_v8(bytes).to_string()
}
