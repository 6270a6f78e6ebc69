//! Sockets on which a server accepts clients.

use std::fmt;
use std::fs;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream, ToSocketAddrs};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use transport::{Channel, TransportError};

use crate::error::{ServerError, TARGET};
use crate::server::Server;

/// A client must show its token within this time.
const STRANGER_WAITS: Duration = Duration::from_secs(20);
/// More connections at once are refused.
const CONNECTIONS_MAX: usize = 1024;

/// Where a server listens.
#[derive(Debug, Clone)]
pub enum Place {
    /// Host and port.
    Tcp(String),
    /// The path of a Unix socket, which only the server's user may open. The channel has no TLS.
    Unix(PathBuf),
}

enum Socket {
    Tcp(TcpListener),
    Unix(UnixListener, PathBuf),
}

/// A socket on which a server accepts clients, with its thread.
pub struct Listener {
    server: Arc<Server>,
    place: String,
    address: Option<SocketAddr>,
    path: Option<PathBuf>,
    thread: Option<JoinHandle<()>>,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(place) => f.write_str(place),
            Self::Unix(path) => write!(f, "{}", path.display()),
        }
    }
}

impl Listener {
    /// Listens there, and serves each client on a thread of its own.
    ///
    /// # Errors
    /// `Listen`
    pub fn start(server: &Arc<Server>, place: &Place) -> Result<Self, ServerError> {
        let failed = |source| ServerError::Listen {
            place: place.to_string(),
            source,
        };
        let socket = match place {
            Place::Tcp(text) => Socket::Tcp(bind(text).map_err(failed)?),
            Place::Unix(path) => {
                let socket = UnixListener::bind(path).map_err(failed)?;
                fs::set_permissions(path, fs::Permissions::from_mode(0o600)).map_err(failed)?;
                Socket::Unix(socket, path.clone())
            }
        };
        let (address, path) = match &socket {
            Socket::Tcp(socket) => (Some(socket.local_addr().map_err(failed)?), None),
            Socket::Unix(_, path) => (None, Some(path.clone())),
        };
        let accepting = Arc::clone(server);
        let thread = thread::Builder::new()
            .name("accept".to_owned())
            .spawn(move || accept(&accepting, &socket))
            .map_err(failed)?;
        Ok(Self {
            server: Arc::clone(server),
            place: address.map_or_else(|| place.to_string(), |address| address.to_string()),
            address,
            path,
            thread: Some(thread),
        })
    }

    /// Where it listens: the address with its port, or the path.
    #[must_use]
    pub fn place(&self) -> &str {
        &self.place
    }

    /// The address, of a TCP socket.
    #[must_use]
    pub fn address(&self) -> Option<SocketAddr> {
        self.address
    }
}

impl Drop for Listener {
    /// Accepts no more clients. The server must be ending.
    fn drop(&mut self) {
        if let Some(mut address) = self.address {
            if address.ip().is_unspecified() {
                address.set_ip(match address.ip() {
                    IpAddr::V4(_) => Ipv4Addr::LOCALHOST.into(),
                    IpAddr::V6(_) => Ipv6Addr::LOCALHOST.into(),
                });
            }
            // The thread waits for a client. This one wakes it.
            drop(TcpStream::connect_timeout(&address, Duration::from_secs(1)));
        }
        if let Some(path) = &self.path {
            drop(UnixStream::connect(path));
            drop(fs::remove_file(path));
        }
        if let Some(thread) = self.thread.take().filter(|_| self.server.is_ending()) {
            drop(thread.join());
        }
    }
}

impl fmt::Debug for Listener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Listener")
            .field("place", &self.place)
            .finish_non_exhaustive()
    }
}

fn bind(text: &str) -> io::Result<TcpListener> {
    let addresses: Vec<SocketAddr> = text.to_socket_addrs()?.collect();
    TcpListener::bind(&addresses[..])
}

fn accept(server: &Arc<Server>, socket: &Socket) {
    while !server.is_ending() {
        let accepted = match socket {
            Socket::Tcp(socket) => socket.accept().and_then(|(client, from)| {
                client.set_nodelay(true)?;
                client.set_read_timeout(Some(STRANGER_WAITS))?;
                rustix::net::sockopt::set_socket_keepalive(&client, true)?;
                Ok((Client::Tcp(client), from.to_string()))
            }),
            Socket::Unix(socket, _) => socket
                .accept()
                .map(|(client, _)| (Client::Unix(client), "a local client".to_owned())),
        };
        let (client, from) = match accepted {
            Ok(accepted) => accepted,
            Err(error) => {
                tracing::warn!(target: TARGET, %error, "a client was not accepted");
                continue;
            }
        };
        if server.is_ending() || server.connections_open() >= CONNECTIONS_MAX {
            continue;
        }
        let serving = Arc::clone(server);
        let spawned = thread::Builder::new().name("client".to_owned()).spawn(move || {
            if let Err(error) = client.serve(&serving) {
                tracing::info!(target: TARGET, %from, %error, "a connection ended");
            }
        });
        if let Err(error) = spawned {
            tracing::warn!(target: TARGET, %error, "a client was not accepted");
        }
    }
}

enum Client {
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl Client {
    fn serve(self, server: &Server) -> Result<(), TransportError> {
        match self {
            Self::Tcp(socket) => {
                let timeouts = socket.try_clone()?;
                let secure = server.secure(Channel::try_from(socket)?)?;
                server.serve(secure, &|| {
                    if let Err(error) = timeouts.set_read_timeout(None) {
                        tracing::warn!(target: TARGET, %error, "a socket keeps its time limit");
                    }
                })
            }
            Self::Unix(socket) => server.serve(Channel::try_from(socket)?, &|| ()),
        }
    }
}
