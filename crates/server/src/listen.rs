//! The socket on which a server accepts clients.

use std::io::{self, Read};
use std::net::{SocketAddr, TcpListener, TcpStream, ToSocketAddrs};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use env::Clock;
use transport::{Channel, TransportError};

use crate::accepting::Accepting;
use crate::error::ServerError;
use crate::peer::Deadline;
use crate::server::Server;

/// A client must show its token within this time.
const STRANGER_WAITS: Duration = Duration::from_secs(20);
/// A socket on which a server accepts clients. Dropping it accepts no more.
#[derive(Debug)]
pub struct Listener {
    address: SocketAddr,
    _accepting: Accepting,
}

impl Listener {
    /// Listens on a host and port, and serves each client on a thread of its own.
    ///
    /// # Errors
    /// `Listen`
    pub fn start(server: &Arc<Server>, place: &str) -> Result<Self, ServerError> {
        let failed = |source| ServerError::Listen {
            place: place.to_owned(),
            source,
        };
        let socket = bind(place).map_err(failed)?;
        let address = socket.local_addr().map_err(failed)?;
        Ok(Self {
            address,
            _accepting: Accepting::start(server, socket, serve).map_err(failed)?,
        })
    }

    /// Where it listens, with the port that the system has chosen if none was given.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

fn bind(place: &str) -> io::Result<TcpListener> {
    let addresses: Vec<SocketAddr> = place.to_socket_addrs()?.collect();
    TcpListener::bind(&addresses[..])
}

fn serve(server: &Server, socket: TcpStream) -> Result<(), TransportError> {
    transport::prepare(&socket)?;
    let limit = Limit::within(STRANGER_WAITS, server.clock());
    let limited = Limited {
        socket: socket.try_clone()?,
        limit: limit.clone(),
    };
    let channel = Channel {
        input: Box::new(limited),
        ..Channel::try_from(socket)?
    };
    let deadline: Deadline = Arc::new(move |time| limit.set(time));
    server.serve(server.secure(channel)?, &deadline)
}

/// The moment until which bytes may come, if there is one. Cheap to clone.
#[derive(Clone)]
struct Limit {
    clock: Arc<dyn Clock>,
    until: Arc<Mutex<Option<Duration>>>,
}

impl Limit {
    fn within(time: Duration, clock: &Arc<dyn Clock>) -> Self {
        Self {
            clock: Arc::clone(clock),
            until: Arc::new(Mutex::new(Some(clock.monotonic() + time))),
        }
    }

    fn until(&self) -> MutexGuard<'_, Option<Duration>> {
        self.until.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Bytes may come within this time from now on, or at any time.
    fn set(&self, time: Option<Duration>) {
        *self.until() = time.map(|time| self.clock.monotonic() + time);
    }

    /// The time that is left; `None` if there is no limit.
    fn left(&self) -> io::Result<Option<Duration>> {
        let Some(until) = *self.until() else {
            return Ok(None);
        };
        let left = until.saturating_sub(self.clock.monotonic());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        Ok(Some(left))
    }
}

/// A socket that gives bytes within a limit, however slowly they come.
struct Limited {
    socket: TcpStream,
    limit: Limit,
}

impl Read for Limited {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.socket.set_read_timeout(self.limit.left()?)?;
        self.socket.read(into)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use env::ManualClock;
    use types::UnixNanos;

    use super::*;

    /// A client that sends a byte now and then gets no more time than one that sends none.
    #[test]
    fn a_stranger_has_one_limit_for_all_its_bytes() {
        let listener = bind("127.0.0.1:0").unwrap();
        let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (socket, _) = listener.accept().unwrap();
        let manual = Arc::new(ManualClock::new(UnixNanos::new(0)));
        let clock: Arc<dyn Clock> = manual.clone();
        let limit = Limit::within(Duration::from_secs(20), &clock);
        let mut limited = Limited {
            socket,
            limit: limit.clone(),
        };
        let mut byte = [0];
        for _ in 0..2 {
            client.write_all(b"x").unwrap();
            limited.read_exact(&mut byte).unwrap();
            manual.advance(Duration::from_secs(9));
        }
        manual.advance(Duration::from_secs(2));
        client.write_all(b"x").unwrap();
        let error = limited.read(&mut byte).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        limit.set(None);
        limited.read_exact(&mut byte).unwrap();
    }
}
