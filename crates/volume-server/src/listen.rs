//! The sockets on which a server accepts clients.

use std::io;
use std::net::{SocketAddr, TcpListener, ToSocketAddrs};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixListener;
use std::path::PathBuf;

use env::socket::{self, SocketError, SocketFile};

use crate::error::ServeError;
use crate::socket::Socket;

/// Where a server accepts clients.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    /// A socket in the file system.
    Unix {
        /// Its path.
        path: PathBuf,
        /// Who may connect, as the mode of a file: `0o600` for the server's user alone.
        mode: u32,
    },
    /// A host and a port. Port 0 lets the system choose.
    Tcp(String),
}

/// A socket on which a server accepts clients. Dropping it removes a socket in the file system.
#[derive(Debug)]
pub(crate) enum Listening {
    Unix(UnixListener, SocketFile),
    Tcp(TcpListener),
}

impl Listening {
    /// Listens. Replaces the socket of a server that has ended.
    pub(crate) fn start(place: &Place) -> Result<Self, ServeError> {
        match place {
            Place::Unix { path, mode } => {
                let place = path.display().to_string();
                let listening = socket::listen(path, *mode).map_err(|error| match error {
                    SocketError::InUse => ServeError::InUse { place },
                    SocketError::NoSocket => ServeError::NoSocket { place },
                    SocketError::Io(source) => ServeError::Listen { place, source },
                });
                let (socket, file) = listening?;
                Ok(Self::Unix(socket, file))
            }
            Place::Tcp(place) => {
                let failed = |source| ServeError::Listen {
                    place: place.clone(),
                    source,
                };
                let addresses: Vec<SocketAddr> = place.to_socket_addrs().map_err(failed)?.collect();
                Ok(Self::Tcp(TcpListener::bind(&addresses[..]).map_err(failed)?))
            }
        }
    }

    /// The next client.
    pub(crate) fn accept(&self) -> io::Result<Socket> {
        match self {
            Self::Unix(socket, _) => socket.accept().map(|(client, _)| Socket::Unix(client)),
            Self::Tcp(socket) => socket.accept().map(|(client, _)| Socket::Tcp(client)),
        }
    }

    /// Ends a thread that accepts. The socket loses its name first: while somebody listens, no
    /// other server takes the name.
    pub(crate) fn end(&self) {
        if let Self::Unix(_, file) = self {
            file.remove();
        }
        // It fails if it was ended before.
        rustix::net::shutdown(self, rustix::net::Shutdown::Both).ok();
    }

    /// The address, of a network's socket.
    pub(crate) fn address(&self) -> Option<SocketAddr> {
        match self {
            Self::Unix(..) => None,
            Self::Tcp(socket) => socket.local_addr().ok(),
        }
    }
}

impl AsFd for Listening {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Unix(socket, _) => socket.as_fd(),
            Self::Tcp(socket) => socket.as_fd(),
        }
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        if let Self::Unix(_, file) = self {
            file.remove();
        }
    }
}
