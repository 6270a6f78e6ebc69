//! The Unix socket on which a server accepts clients of its own machine.
//!
//! A client needs neither TLS nor a token: the system tells which user it is. Only the user that
//! the server runs as, and root, are served.

use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use transport::{Channel, TransportError};

use crate::accepting::Accepting;
use crate::connection::Granted;
use crate::error::{ServerError, TARGET};
use crate::rights::Rights;
use crate::server::Server;

/// A Unix socket on which a server accepts clients. Dropping it removes the socket, and accepts no
/// more.
#[derive(Debug)]
pub struct SocketListener {
    path: PathBuf,
    _accepting: Accepting,
}

impl SocketListener {
    /// Listens on a socket, and serves each client on a thread of its own. Replaces the socket of a
    /// server that has ended.
    ///
    /// # Errors
    /// `Listen`
    pub fn start(server: &Arc<Server>, path: &Path) -> Result<Self, ServerError> {
        let failed = |source| ServerError::Listen {
            place: path.display().to_string(),
            source,
        };
        let socket = bind(path).map_err(failed)?;
        fs::set_permissions(path, fs::Permissions::from_mode(0o600)).map_err(failed)?;
        Ok(Self {
            path: path.to_owned(),
            _accepting: Accepting::start(server, socket, serve).map_err(failed)?,
        })
    }
}

impl Drop for SocketListener {
    fn drop(&mut self) {
        // A socket that stays is replaced by the next server.
        drop(fs::remove_file(&self.path));
    }
}

fn bind(path: &Path) -> io::Result<UnixListener> {
    match UnixListener::bind(path) {
        Err(error) if error.kind() == io::ErrorKind::AddrInUse => {
            let is_left = UnixStream::connect(path)
                .is_err_and(|error| error.kind() == io::ErrorKind::ConnectionRefused);
            if !is_left {
                return Err(error);
            }
            fs::remove_file(path)?;
            UnixListener::bind(path)
        }
        bound => bound,
    }
}

fn serve(server: &Server, socket: UnixStream, _: &str) -> Result<(), TransportError> {
    let who = rustix::net::sockopt::socket_peercred(&socket).map_err(io::Error::from)?;
    if !who.uid.is_root() && who.uid != rustix::process::geteuid() {
        tracing::warn!(target: TARGET, uid = who.uid.as_raw(), "another user was refused");
        return Ok(());
    }
    let granted = Granted {
        namespace: None,
        rights: Rights::ALL,
    };
    server.serve_tunnel(Channel::try_from(socket)?, granted)
}
