//! Calling a server: connecting, greeting, joining, logging in.

use std::io;
use std::net::{TcpStream, ToSocketAddrs};
use std::sync::Arc;
use std::time::Duration;

use env::Clock;
use onefold::PROGRAM;
use transport::{Address, Channel, Connector, Invitation, Pin, Traffic, TransportError};
use wire::{Hello, Joined, Joining, Login, Welcome, Wire, request};

use crate::connection::Connection;
use crate::error::ClientError;

/// How long a host may take to accept a connection.
const PATIENCE: Duration = Duration::from_secs(15);

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

/// Trades an invitation for a token.
///
/// # Errors
/// If the server cannot be reached, is another one, or refuses the invitation.
pub fn join(invitation: &Invitation, label: &str, clock: &Arc<dyn Clock>) -> Result<Access, ClientError> {
    let connector = Connector::new(invitation.pin, clock)?;
    let connection = connect(&invitation.address, &connector, &Traffic::default())?;
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

/// A connection that has logged in.
pub(crate) fn log_in(
    access: &Access,
    connector: &Connector,
    traffic: &Traffic,
) -> Result<Connection, ClientError> {
    let connection = connect(&access.address, connector, traffic)?;
    // The token goes with the greeting: a round trip less.
    let hello = connection.begin(request::HELLO, &Hello::new(PROGRAM))?;
    let login = Login {
        token: access.token.clone(),
        namespace: access.address.namespace.clone(),
    };
    let login = connection.begin(request::LOGIN, &login);
    welcome(&connection.wait(hello)?)?;
    connection.wait(login?)?;
    Ok(connection)
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

fn connect(address: &Address, connector: &Connector, traffic: &Traffic) -> Result<Connection, ClientError> {
    let place = address.place();
    let socket = reach(&place).map_err(|source| TransportError::Unreachable { place, source })?;
    let channel = Channel::try_from(socket).map_err(TransportError::from)?;
    Connection::new(connector.connect(channel)?, traffic)
}

/// Tries all addresses of a host.
fn reach(place: &str) -> io::Result<TcpStream> {
    let mut failed = None;
    for address in place.to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, PATIENCE) {
            Ok(socket) => {
                socket.set_nodelay(true)?;
                rustix::net::sockopt::set_socket_keepalive(&socket, true)?;
                return Ok(socket);
            }
            Err(error) => failed = Some(error),
        }
    }
    Err(failed.unwrap_or_else(|| io::Error::other("the host has no address")))
}
