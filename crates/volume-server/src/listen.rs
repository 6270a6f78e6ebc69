//! The sockets on which a server accepts clients.

use std::fs;
use std::io;
use std::net::{SocketAddr, TcpListener, ToSocketAddrs};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

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
    Unix(UnixListener, PathBuf),
    Tcp(TcpListener),
}

impl Listening {
    /// Listens. Replaces the socket of a server that has ended.
    pub(crate) fn start(place: &Place) -> Result<Self, ServeError> {
        match place {
            Place::Unix { path, mode } => {
                let name = || path.display().to_string();
                let failed = |source| ServeError::Listen {
                    place: name(),
                    source,
                };
                let socket = bind(path)?;
                fs::set_permissions(path, fs::Permissions::from_mode(*mode)).map_err(failed)?;
                Ok(Self::Unix(socket, path.clone()))
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

    /// Ends a thread that accepts.
    pub(crate) fn end(&self) {
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
        if let Self::Unix(_, path) = self {
            // A socket that stays is replaced by the next server.
            fs::remove_file(path).ok();
        }
    }
}

fn bind(path: &Path) -> Result<UnixListener, ServeError> {
    let place = path.display().to_string();
    let failed = |source| ServeError::Listen {
        place: place.clone(),
        source,
    };
    match UnixListener::bind(path) {
        Err(error) if error.kind() == io::ErrorKind::AddrInUse => {}
        bound => return bound.map_err(failed),
    }
    let is_socket = fs::symlink_metadata(path).is_ok_and(|found| found.file_type().is_socket());
    if !is_socket {
        return Err(ServeError::NoSocket { place });
    }
    match UnixStream::connect(path) {
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
            fs::remove_file(path).map_err(failed)?;
            UnixListener::bind(path).map_err(failed)
        }
        _ => Err(ServeError::InUse { place }),
    }
}
