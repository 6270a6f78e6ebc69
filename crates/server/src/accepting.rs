//! The loop that accepts clients on a listening socket, and its end.

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use transport::TransportError;

use crate::error::TARGET;
use crate::refusals::neighbours;
use crate::server::Server;

/// More connections of one socket at once are refused, ...
const CONNECTIONS_MAX: usize = 1024;
/// ... and more from one address, or from one network of IPv6.
const CONNECTIONS_OF_ADDRESS_MAX: usize = 512;
/// How long the accepting thread rests after the system gave it no client.
const REST: Duration = Duration::from_millis(100);

/// A listening socket.
pub(crate) trait Listening: AsFd + Send + 'static {
    /// A client's end.
    type Client: Send + 'static;

    /// The next client, and the address that it comes from, without the port.
    fn next_client(&self) -> io::Result<(Self::Client, String)>;
}

impl Listening for TcpListener {
    type Client = TcpStream;

    fn next_client(&self) -> io::Result<(TcpStream, String)> {
        let (client, from) = self.accept()?;
        Ok((client, from.ip().to_string()))
    }
}

impl Listening for UnixListener {
    type Client = UnixStream;

    fn next_client(&self) -> io::Result<(UnixStream, String)> {
        let (client, _) = self.accept()?;
        Ok((client, "this machine".to_owned()))
    }
}

/// The thread that accepts clients. Dropping it ends the accepting.
pub(crate) struct Accepting {
    socket: OwnedFd,
    thread: Option<JoinHandle<()>>,
}

impl Accepting {
    /// Accepts clients, and serves each on a thread of its own.
    pub(crate) fn start<L: Listening>(
        server: &Arc<Server>,
        listening: L,
        serve: fn(&Server, L::Client, &str) -> Result<(), TransportError>,
    ) -> io::Result<Self> {
        let socket = listening.as_fd().try_clone_to_owned()?;
        let server = Arc::clone(server);
        let thread = thread::Builder::new()
            .name("accept".to_owned())
            .spawn(move || accept(&server, &listening, serve))?;
        Ok(Self {
            socket,
            thread: Some(thread),
        })
    }
}

impl Drop for Accepting {
    fn drop(&mut self) {
        // The thread's call returns with an error then, whether or not the socket has a name still.
        rustix::net::shutdown(&self.socket, rustix::net::Shutdown::Both).ok();
        if let Some(thread) = self.thread.take() {
            drop(thread.join());
        }
    }
}

impl fmt::Debug for Accepting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Accepting").finish_non_exhaustive()
    }
}

fn accept<L: Listening>(
    server: &Arc<Server>,
    listening: &L,
    serve: fn(&Server, L::Client, &str) -> Result<(), TransportError>,
) {
    // Each thread of a client holds one of its address.
    let mut open: BTreeMap<String, Arc<()>> = BTreeMap::new();
    while !server.is_ending() {
        let (client, from) = match listening.next_client() {
            Ok(accepted) => accepted,
            // The socket was shut down.
            Err(error) if error.kind() == io::ErrorKind::InvalidInput => return,
            Err(error) => {
                // Without a free descriptor, for example, the next call fails at once, too.
                tracing::warn!(target: TARGET, %error, "a client was not accepted");
                server.clock().sleep(REST);
                continue;
            }
        };
        open.retain(|_, of_address| Arc::strong_count(of_address) > 1);
        let all: usize = open.values().map(|one| Arc::strong_count(one) - 1).sum();
        let held = Arc::clone(open.entry(neighbours(&from)).or_default());
        let of_address = Arc::strong_count(&held) - 1;
        if server.is_ending() || all >= CONNECTIONS_MAX || of_address > CONNECTIONS_OF_ADDRESS_MAX {
            continue;
        }
        let serving = Arc::clone(server);
        let spawned = thread::Builder::new().name("client".to_owned()).spawn(move || {
            if let Err(error) = serve(&serving, client, &from) {
                tracing::info!(target: TARGET, %from, %error, "a connection ended");
            }
            drop(held);
        });
        if let Err(error) = spawned {
            tracing::warn!(target: TARGET, %error, "a client was not accepted");
        }
    }
}
