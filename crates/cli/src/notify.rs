//! Tells the system's service manager how the server is (`sd_notify`).

use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

use cli_support::TARGET;

/// The variable with the manager's socket.
const SOCKET: &str = "NOTIFY_SOCKET";

/// Sends a state, such as `READY=1`, if a service manager waits for it. What it does not hear is
/// logged, and nothing else: the server works without it.
pub(crate) fn notify(state: &str) {
    let Some(name) = std::env::var_os(SOCKET).filter(|name| !name.is_empty()) else {
        return;
    };
    let address = match name.as_bytes().strip_prefix(b"@") {
        Some(name) => SocketAddr::from_abstract_name(name),
        None => SocketAddr::from_pathname(&name),
    };
    let sent = address.and_then(|address| UnixDatagram::unbound()?.send_to_addr(state.as_bytes(), &address));
    if let Err(error) = sent {
        tracing::warn!(target: TARGET, %error, state, "the service manager was not told");
    }
}
