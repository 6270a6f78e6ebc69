//! The loop that accepts clients on a listening socket, and its end.

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
use crate::guests::Guests;
use crate::server::Server;

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
    /// Accepts clients while there are places among these guests, and serves each on a thread of
    /// its own.
    pub(crate) fn start<L: Listening>(
        server: &Arc<Server>,
        guests: Arc<Guests>,
        listening: L,
        serve: fn(&Server, L::Client, &str) -> Result<(), TransportError>,
    ) -> io::Result<Self> {
        let socket = listening.as_fd().try_clone_to_owned()?;
        let server = Arc::clone(server);
        let thread = thread::Builder::new()
            .name("accept".to_owned())
            .spawn(move || accept(&server, &guests, &listening, serve))?;
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
    guests: &Guests,
    listening: &L,
    serve: fn(&Server, L::Client, &str) -> Result<(), TransportError>,
) {
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
        let Some(guest) = guests.admit(&from).filter(|_| !server.is_ending()) else {
            continue;
        };
        let serving = Arc::clone(server);
        let spawned = thread::Builder::new().name("client".to_owned()).spawn(move || {
            if let Err(error) = serve(&serving, client, &from) {
                tracing::info!(target: TARGET, %from, %error, "a connection ended");
            }
            drop(guest);
        });
        if let Err(error) = spawned {
            tracing::warn!(target: TARGET, %error, "a client was not accepted");
        }
    }
}
