//! The Unix socket on which a server accepts clients of its own machine.
//!
//! A client needs neither TLS nor a token: the system tells which user it is. Only the user that
//! the server runs as, and root, are served.

use std::io;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;

use env::socket::SocketFile;
use transport::TransportError;

use crate::accepting::Accepting;
use crate::connection::Granted;
use crate::error::{ServerError, TARGET};
use crate::guests::Guests;
use crate::rights::Rights;
use crate::server::Server;

/// A Unix socket on which a server accepts clients. Dropping it removes the socket, and accepts no
/// more.
#[derive(Debug)]
pub struct SocketListener {
    file: SocketFile,
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
        let (socket, file) = env::socket::listen(path, 0o600).map_err(|error| failed(error.into()))?;
        // Strangers cannot connect here, and clients have a place while strangers have all others.
        let guests = Arc::new(Guests::new(env::descriptor_limit()));
        match Accepting::start(server, guests, socket, serve) {
            Ok(accepting) => Ok(Self {
                file,
                _accepting: accepting,
            }),
            Err(error) => {
                file.remove();
                Err(failed(error))
            }
        }
    }
}

impl Drop for SocketListener {
    fn drop(&mut self) {
        self.file.remove();
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
    server.serve_tunnel(socket.into(), granted)
}
