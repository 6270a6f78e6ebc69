//! Calling a server: connecting, greeting, joining, logging in.

use std::ffi::OsString;
use std::io;
use std::net::{TcpStream, ToSocketAddrs};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use env::Clock;
use onefold::PROGRAM;
use transport::{Address, Channel, Connector, Invitation, Pin, Traffic, TransportError, Tunnel, TunnelEnd};
use wire::{Hello, Joined, Joining, LoggedIn, Login, Welcome, Wire, request};

use crate::connection::Connection;
use crate::error::ClientError;

/// How long a host may take to accept a connection.
const PATIENCE: Duration = Duration::from_secs(15);
/// How long a server may take for each of its messages of the handshake, and for its greeting. The
/// system accepts connections also for a server process that is stopped.
const GREETED_WITHIN: Duration = Duration::from_secs(if cfg!(test) { 2 } else { 20 });
/// How long it may take to answer a login: it may have to open the store first.
const ADMITTED_WITHIN: Duration = Duration::from_secs(if cfg!(test) { 2 } else { 300 });
/// The first pause before a broken connection is made again. Pauses double, ...
const PAUSE_MIN: Duration = Duration::from_millis(250);
/// ... up to this one.
const PAUSE_MAX: Duration = Duration::from_secs(15);
/// How long a server may be away.
const AWAY_MAX: Duration = Duration::from_hours(1);

/// What a machine needs to use a namespace.
#[derive(Clone, PartialEq, Eq)]
pub struct Access {
    /// The namespace.
    pub address: Address,
    /// The key of the server's authority.
    pub pin: Pin,
    /// The machine's token, a secret.
    pub token: String,
    /// The token's rights, as the server told them when the machine joined.
    pub rights: String,
}

impl std::fmt::Debug for Access {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Access")
            .field("address", &self.address)
            .finish_non_exhaustive()
    }
}

/// How a client reaches its namespace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    /// Over the network, with a token.
    Network(Access),
    /// Through a tunnel. The other end knows who this is.
    Tunnel {
        /// The tunnel.
        tunnel: Tunnel,
        /// The program that opens one to a host.
        ssh: OsString,
    },
}

/// Opens connections to a target that have logged in.
#[derive(Debug)]
pub(crate) struct Dialer {
    way: Way,
    pub(crate) traffic: Traffic,
}

/// How a dialer reaches its namespace.
#[derive(Debug)]
enum Way {
    Network { access: Access, connector: Connector },
    Tunnel { tunnel: Tunnel, ssh: OsString },
}

impl std::fmt::Display for Dialer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.way {
            Way::Network { access, .. } => access.address.fmt(f),
            Way::Tunnel { tunnel, .. } => tunnel.fmt(f),
        }
    }
}

impl Dialer {
    pub(crate) fn new(target: Target, clock: &Arc<dyn Clock>) -> Result<Self, ClientError> {
        let way = match target {
            Target::Network(access) => Way::Network {
                connector: Connector::new(access.pin, clock)?,
                access,
            },
            Target::Tunnel { tunnel, ssh } => Way::Tunnel { tunnel, ssh },
        };
        Ok(Self {
            way,
            traffic: Traffic::default(),
        })
    }

    /// A connection that has logged in, after an earlier one broke. Waits for the server. `None`:
    /// it was away too long, refuses, or the user asked to stop.
    pub(crate) fn log_in_again(
        &self,
        clock: &dyn Clock,
        attempt: u32,
        cancel: &AtomicBool,
    ) -> Option<Connection> {
        let until = clock.monotonic() + AWAY_MAX;
        let mut pause = PAUSE_MIN.saturating_mul(1 << attempt.min(2)).min(PAUSE_MAX);
        while clock.monotonic() < until && !cancel.load(Ordering::Relaxed) {
            clock.sleep(pause);
            match self.log_in() {
                Ok(connection) => return Some(connection),
                Err(error) if error.is_of_connection() => {}
                // The token was revoked, or it is another server.
                Err(_) => return None,
            }
            pause = (pause * 2).min(PAUSE_MAX);
        }
        None
    }

    /// A connection that has logged in.
    pub(crate) fn log_in(&self) -> Result<Connection, ClientError> {
        self.log_in_told().map(|(connection, _)| connection)
    }

    /// A connection that has logged in, and what the server told about the namespace.
    pub(crate) fn log_in_told(&self) -> Result<(Connection, LoggedIn), ClientError> {
        let (channel, login) = match &self.way {
            Way::Network { access, connector } => (
                reach(&access.address, connector)?,
                Login {
                    token: access.token.clone(),
                    namespace: access.address.namespace.clone(),
                },
            ),
            Way::Tunnel { tunnel, ssh } => (
                tunnel.open(ssh)?,
                Login {
                    token: String::new(),
                    namespace: tunnel.namespace.clone(),
                },
            ),
        };
        let connection = Connection::new(channel, &self.traffic)?;
        // The token goes with the greeting: a round trip less.
        let hello = connection.begin(request::HELLO, &Hello::new(PROGRAM))?;
        let login = connection.begin(request::LOGIN, &login);
        let wait = |number, patience| match self.is_ssh() {
            true => connection.wait(number),
            false => connection.wait_for(number, patience),
        };
        welcome(&wait(hello, GREETED_WITHIN)?)?;
        let told = LoggedIn::from_bytes(&wait(login?, ADMITTED_WITHIN)?);
        Ok((connection, told.map_err(|error| ClientError::protocol(&error))?))
    }

    /// Whether `ssh` opens the connection. It has time limits of its own, and may ask its user.
    fn is_ssh(&self) -> bool {
        let Way::Tunnel { tunnel, .. } = &self.way else {
            return false;
        };
        matches!(tunnel.end, TunnelEnd::Ssh { .. })
    }
}

/// Trades an invitation for a token.
///
/// # Errors
/// If the server cannot be reached, is another one, or refuses the invitation.
pub fn join(invitation: &Invitation, label: &str, clock: &Arc<dyn Clock>) -> Result<Access, ClientError> {
    let connector = Connector::new(invitation.pin, clock)?;
    let channel = reach(&invitation.address, &connector)?;
    let connection = Connection::new(channel, &Traffic::default())?;
    greet(&connection)?;
    let joining = Joining {
        code: invitation.code.clone(),
        label: label.to_owned(),
    };
    let joined: Joined = connection.ask(request::JOIN, &joining, Joined::from_bytes)?;
    Ok(Access {
        address: Address {
            namespace: joined.namespace,
            ..invitation.address.clone()
        },
        pin: invitation.pin,
        token: joined.token,
        rights: joined.rights,
    })
}

fn greet(connection: &Connection) -> Result<(), ClientError> {
    let number = connection.begin(request::HELLO, &Hello::new(PROGRAM))?;
    welcome(&connection.wait_for(number, GREETED_WITHIN)?)
}

fn welcome(answer: &[u8]) -> Result<(), ClientError> {
    let welcome = Welcome::from_bytes(answer).map_err(|error| ClientError::protocol(&error))?;
    if (wire::VERSION_MIN..=wire::VERSION).contains(&welcome.version) {
        return Ok(());
    }
    Err(ClientError::Protocol(format!(
        "it speaks version {} of the protocol",
        welcome.version
    )))
}

/// Connects to a server, by TLS.
fn reach(address: &Address, connector: &Connector) -> Result<Channel, ClientError> {
    let place = address.place();
    let unreachable = |source| TransportError::Unreachable {
        place: place.clone(),
        source,
    };
    let socket = Arc::new(connect(&place).map_err(unreachable)?);
    socket
        .set_read_timeout(Some(GREETED_WITHIN))
        .map_err(unreachable)?;
    let channel = match connector.connect(Channel::from(Arc::clone(&socket))) {
        Err(TransportError::Broken(error)) if is_late(&error) => {
            let seconds = GREETED_WITHIN.as_secs();
            let why = format!("it has not answered for {seconds} s");
            return Err(unreachable(io::Error::new(io::ErrorKind::TimedOut, why)).into());
        }
        connected => connected?,
    };
    // No other thread reads from the socket yet.
    socket.set_read_timeout(None).map_err(unreachable)?;
    Ok(channel)
}

/// Whether a read had a time limit, and nothing came within it.
fn is_late(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut)
}

/// Tries all addresses of a host.
fn connect(place: &str) -> io::Result<TcpStream> {
    let mut failed = None;
    for address in place.to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, PATIENCE) {
            Ok(socket) => {
                transport::prepare(&socket)?;
                return Ok(socket);
            }
            Err(error) => failed = Some(error),
        }
    }
    Err(failed.unwrap_or_else(|| io::Error::other("the host has no address")))
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;
    use std::os::unix::net::UnixListener;
    use std::sync::mpsc;
    use std::thread;

    use env::SystemClock;
    use transport::{Acceptor, Authority, FrameReader, FrameWriter};
    use wire::{FRAME_BYTES_MAX, reply};

    use super::*;

    fn clock() -> Arc<dyn Clock> {
        Arc::new(SystemClock)
    }

    /// A dialer to a server of this authority.
    fn dialer(listener: &TcpListener, authority: &Authority) -> Dialer {
        let place = listener.local_addr().unwrap();
        let access = Access {
            address: format!("onefold://{place}/web").parse().unwrap(),
            pin: authority.pin().unwrap(),
            token: "token".to_owned(),
            rights: "write".to_owned(),
        };
        Dialer::new(Target::Network(access), &clock()).unwrap()
    }

    /// Logging in fails within some seconds, as with a server that is away.
    fn is_given_up(dialer: Dialer) {
        let (tell, told) = mpsc::channel();
        thread::spawn(move || tell.send(dialer.log_in().map(drop)).ok());
        let end = told.recv_timeout(Duration::from_secs(20)).expect("an end");
        let error = end.unwrap_err();
        assert!(error.is_of_connection(), "{error}");
        assert!(error.to_string().contains("not answered for 2 s"), "{error}");
    }

    /// The system accepts connections for a process that is stopped.
    #[test]
    fn a_server_that_is_stopped_is_given_up() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        is_given_up(dialer(&listener, &Authority::generate().unwrap()));

        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        let _listener = UnixListener::bind(&path).unwrap();
        let target = Target::Tunnel {
            tunnel: format!("unix://{}/web", path.display()).parse().unwrap(),
            ssh: OsString::new(),
        };
        is_given_up(Dialer::new(target, &clock()).unwrap());
    }

    /// The server stops after the handshake, and after its greeting. It answers a third client, and
    /// that connection may be idle for longer than a server may take to answer.
    #[test]
    fn a_server_that_stops_before_its_answer_is_given_up() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let authority = Authority::generate().unwrap();
        let dial = || dialer(&listener, &authority);
        let (early, late, served) = (dial(), dial(), dial());
        let server = thread::spawn(move || {
            let acceptor = Acceptor::new(authority, &clock()).unwrap();
            let mut open = Vec::new();
            for answers in 0..3 {
                let (socket, _) = listener.accept().unwrap();
                let channel = acceptor.accept(socket.into()).unwrap();
                let mut reader = FrameReader::new(channel.input, Traffic::default());
                let writer = FrameWriter::new(channel.output, Traffic::default());
                let welcome = Welcome {
                    version: wire::VERSION,
                    program: "a test".to_owned(),
                };
                let rights = "write".to_owned();
                let told = LoggedIn { vault: None, rights };
                for body in [welcome.to_bytes(), told.to_bytes()].iter().take(answers) {
                    let (head, _) = reader.next(FRAME_BYTES_MAX).unwrap().unwrap();
                    writer.send(reply::ANSWER, head.number, body).unwrap();
                }
                open.push((reader, writer));
            }
            let (mut reader, writer) = open.pop().unwrap();
            let (head, body) = reader.next(FRAME_BYTES_MAX).unwrap().unwrap();
            SystemClock.sleep(GREETED_WITHIN * 2);
            writer.send(reply::ANSWER, head.number, &body).unwrap();
        });
        is_given_up(early);
        is_given_up(late);
        let connection = served.log_in().unwrap();
        let number = connection.begin_with(request::LIST, b"body").unwrap();
        assert_eq!(connection.wait(number).unwrap(), b"body");
        server.join().unwrap();
    }
}
