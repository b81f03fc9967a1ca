//! Whoever started the server can be told that it serves.

use std::{env, os::unix::net::UnixDatagram};

/// Tells systemd (`Type=notify`) that requests are answered from now on; `systemctl start` waits for that. The variable is
/// not among those that programs of tools get, so none speaks for the server.
pub(crate) fn ready() {
    let Some(socket) = env::var_os("NOTIFY_SOCKET") else { return };
    if let Err(error) = UnixDatagram::unbound().and_then(|from| from.send_to(b"READY=1", &socket)) {
        tracing::warn!(%error, "systemd cannot be told that the server has started");
    }
}
