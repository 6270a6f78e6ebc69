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
use std::thread::{self, JoinHandle};
use std::time::Duration;

use transport::{Channel, TransportError};

use crate::connection::Granted;
use crate::error::{ServerError, TARGET};
use crate::rights::Rights;
use crate::server::Server;

/// How long the accepting thread rests after the system gave it no client.
const REST: Duration = Duration::from_millis(100);

/// A Unix socket on which a server accepts clients, with its thread. Dropping it removes the
/// socket.
#[derive(Debug)]
pub struct SocketListener {
    server: Arc<Server>,
    path: PathBuf,
    thread: Option<JoinHandle<()>>,
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
        let accepting = Arc::clone(server);
        let thread = thread::Builder::new()
            .name("accept".to_owned())
            .spawn(move || accept(&accepting, &socket))
            .map_err(failed)?;
        Ok(Self {
            server: Arc::clone(server),
            path: path.to_owned(),
            thread: Some(thread),
        })
    }
}

impl Drop for SocketListener {
    /// Accepts no more clients. The server must be ending.
    fn drop(&mut self) {
        // The thread waits for a client. This one wakes it.
        drop(UnixStream::connect(&self.path));
        if let Some(thread) = self.thread.take().filter(|_| self.server.is_ending()) {
            drop(thread.join());
        }
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

fn accept(server: &Arc<Server>, socket: &UnixListener) {
    while !server.is_ending() {
        let client = match socket.accept() {
            Ok((client, _)) => client,
            Err(error) => {
                tracing::warn!(target: TARGET, %error, "a client was not accepted");
                server.clock().sleep(REST);
                continue;
            }
        };
        if server.is_ending() {
            return;
        }
        let serving = Arc::clone(server);
        let spawned = thread::Builder::new().name("client".to_owned()).spawn(move || {
            if let Err(error) = serve(&serving, client) {
                tracing::info!(target: TARGET, %error, "a connection of this machine ended");
            }
        });
        if let Err(error) = spawned {
            tracing::warn!(target: TARGET, %error, "a client was not accepted");
        }
    }
}

fn serve(server: &Server, socket: UnixStream) -> Result<(), TransportError> {
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
