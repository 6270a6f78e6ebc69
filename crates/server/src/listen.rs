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
/// A client that takes none of the bytes that are sent to it for so long has gone. It may be slow
/// to read while it waits for its own rate.
const CLIENT_READS: Duration = Duration::from_mins(30);
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
        let guests = Arc::clone(server.guests());
        guests.warn_of_few_descriptors();
        Ok(Self {
            address,
            _accepting: Accepting::start(server, guests, socket, serve).map_err(failed)?,
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

fn serve(server: &Server, socket: TcpStream, from: &str) -> Result<(), TransportError> {
    transport::prepare(&socket)?;
    // A client that asks and does not read keeps the answer in memory only for so long.
    socket.set_write_timeout(Some(CLIENT_READS))?;
    let limit = Limit::within(STRANGER_WAITS, server.clock());
    let channel = limit.channel(socket);
    let deadline: Deadline = Arc::new(move |time| limit.set(time));
    server.serve(server.secure(channel)?, from, &deadline)
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

    /// A channel over this socket, which gives bytes within the limit.
    fn channel(&self, socket: TcpStream) -> Channel {
        let socket = Arc::new(socket);
        let limited = Limited {
            socket: Arc::clone(&socket),
            limit: self.clone(),
        };
        Channel {
            input: Box::new(limited),
            ..Channel::from(socket)
        }
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
    socket: Arc<TcpStream>,
    limit: Limit,
}

impl Read for Limited {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.socket.set_read_timeout(self.limit.left()?)?;
        (&*self.socket).read(into)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::sync::mpsc;
    use std::thread;

    use env::ManualClock;
    use onefold::{Credential, InitOptions, OpenOptions};
    use transport::{FrameReader, FrameWriter, Traffic};
    use types::UnixNanos;
    use wire::{FRAME_BYTES_MAX, Hello, Login, reply, request};

    use crate::home::Home;

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
            socket: Arc::new(socket),
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

    /// A client that has logged in sends half of a message and stops: its memory is given back.
    #[test]
    fn a_message_that_has_begun_has_a_limit() {
        let folder = tempfile::tempdir().unwrap();
        let options = InitOptions::default().reserve_bytes(0);
        let (home, _) = Home::init(folder.path(), &Credential::None, &options).unwrap();
        let rights = "write,list".parse().unwrap();
        let invited = home.invite("onefold://host/web".parse().unwrap(), rights, None);
        let code = invited.unwrap().invitation.code;
        let token = home.join(&code, "test", "there").unwrap().token;
        let server = Server::open(home, &Credential::None, &OpenOptions::default(), 0).unwrap();

        let listener = bind("127.0.0.1:0").unwrap();
        let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        client.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        let (socket, _) = listener.accept().unwrap();
        let manual = ManualClock::new(UnixNanos::new(0));
        let clock: Arc<dyn Clock> = Arc::new(manual.clone());
        let limit = Limit::within(STRANGER_WAITS, &clock);
        let channel = limit.channel(socket);
        let (tell, told) = mpsc::channel();
        let deadline: Deadline = Arc::new(move |time| {
            limit.set(time);
            tell.send(time).ok();
        });
        let next_limit = || told.recv_timeout(Duration::from_secs(10)).unwrap();
        let serving = thread::spawn(move || server.serve(channel, "there", &deadline));

        let traffic = Traffic::default();
        let ours = Channel::from(client.try_clone().unwrap());
        let (writer, mut reader) = (
            FrameWriter::new(ours.output, traffic.clone()),
            FrameReader::new(ours.input, traffic),
        );
        let namespace = "web".to_owned();
        writer
            .send_value(request::HELLO, 1, &Hello::new("a test"))
            .unwrap();
        writer
            .send_value(request::LOGIN, 2, &Login { token, namespace })
            .unwrap();
        assert_eq!(next_limit(), None, "the client has shown its token");
        // Between its messages it may be silent.
        manual.advance(Duration::from_hours(24));
        writer.send(request::LIST, 3, &[]).unwrap();
        assert!(next_limit().is_some());
        assert_eq!(next_limit(), None);
        for _ in 0..3 {
            let (head, _) = reader.next(FRAME_BYTES_MAX).unwrap().unwrap();
            assert_eq!(head.kind, reply::ANSWER);
        }
        manual.advance(Duration::from_hours(24));
        let mut message = Vec::new();
        wire::frame_into(&mut message, request::BEGIN, 4, |body| body.resize(200_000, 0)).unwrap();
        client.write_all(&message[..100_000]).unwrap();
        let within = next_limit().expect("a limit for the rest of the message");
        assert!(within < Duration::from_mins(5), "{within:?}");
        manual.advance(within);
        client.write_all(&message[100_000..100_001]).unwrap();
        let ended = serving.join().unwrap().unwrap_err();
        assert!(matches!(ended, TransportError::Broken(_)), "{ended}");
        drop(client);
    }
}
