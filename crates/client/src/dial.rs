//! Calling a server: connecting, greeting, joining, logging in.

use std::ffi::OsString;
use std::io;
use std::net::{TcpStream, ToSocketAddrs};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use env::Clock;
use onefold::PROGRAM;
use transport::{Address, Channel, Connector, Invitation, Pin, Traffic, TransportError, Tunnel};
use wire::{Hello, Joined, Joining, LoggedIn, Login, Welcome, Wire, request};

use crate::connection::Connection;
use crate::error::ClientError;

/// How long a host may take to accept a connection.
const PATIENCE: Duration = Duration::from_secs(15);
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
    target: Target,
    connector: Option<Connector>,
    pub(crate) traffic: Traffic,
}

impl std::fmt::Display for Dialer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.target {
            Target::Network(access) => access.address.fmt(f),
            Target::Tunnel { tunnel, .. } => tunnel.fmt(f),
        }
    }
}

impl Dialer {
    pub(crate) fn new(target: Target, clock: &Arc<dyn Clock>) -> Result<Self, ClientError> {
        let connector = match &target {
            Target::Network(access) => Some(Connector::new(access.pin, clock)?),
            Target::Tunnel { .. } => None,
        };
        Ok(Self {
            target,
            connector,
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
        let (channel, login) = match &self.target {
            Target::Network(access) => (
                reach(&access.address)?,
                Login {
                    token: access.token.clone(),
                    namespace: access.address.namespace.clone(),
                },
            ),
            Target::Tunnel { tunnel, ssh } => (
                tunnel.open(ssh)?,
                Login {
                    token: String::new(),
                    namespace: tunnel.namespace.clone(),
                },
            ),
        };
        let channel = match &self.connector {
            Some(connector) => connector.connect(channel)?,
            None => channel,
        };
        let connection = Connection::new(channel, &self.traffic)?;
        // The token goes with the greeting: a round trip less.
        let hello = connection.begin(request::HELLO, &Hello::new(PROGRAM))?;
        let login = connection.begin(request::LOGIN, &login);
        welcome(&connection.wait(hello)?)?;
        let told = LoggedIn::from_bytes(&connection.wait(login?)?);
        Ok((connection, told.map_err(|error| ClientError::protocol(&error))?))
    }
}

/// Trades an invitation for a token.
///
/// # Errors
/// If the server cannot be reached, is another one, or refuses the invitation.
pub fn join(invitation: &Invitation, label: &str, clock: &Arc<dyn Clock>) -> Result<Access, ClientError> {
    let connector = Connector::new(invitation.pin, clock)?;
    let channel = connector.connect(reach(&invitation.address)?)?;
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
    welcome(&connection.wait(number)?)
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

/// Connects to a server, without TLS.
fn reach(address: &Address) -> Result<Channel, ClientError> {
    let place = address.place();
    let socket = connect(&place).map_err(|source| TransportError::Unreachable { place, source })?;
    Ok(Channel::try_from(socket).map_err(TransportError::from)?)
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
