//! Reports to the process that started the server that it is serving.

use std::{
    env,
    ffi::OsStr,
    io,
    os::unix::net::{SocketAddr, UnixDatagram},
};

/// Tells systemd (`Type=notify`) that requests are answered from now on; `systemctl start` waits for that. Programs of
/// tools do not get the variable, so none can speak for the server.
pub(crate) fn ready() {
    let Some(socket) = env::var_os("NOTIFY_SOCKET") else { return };
    let tell = || UnixDatagram::unbound()?.send_to_addr(b"READY=1", &address(&socket)?);
    if let Err(error) = tell() {
        tracing::warn!(%error, "systemd cannot be told that the server has started");
    }
}

/// A path, or on Linux a name that is in no folder, behind an `@`.
fn address(socket: &OsStr) -> io::Result<SocketAddr> {
    #[cfg(target_os = "linux")]
    if let Some(name) = socket.as_encoded_bytes().strip_prefix(b"@") {
        return <SocketAddr as std::os::linux::net::SocketAddrExt>::from_abstract_name(name);
    }
    SocketAddr::from_pathname(socket)
}
