//! Lines of JSON over a control socket, of bounded length and within a bounded time.
//!
//! Each side first sends its version. Then the client sends one [`Request`](super::Request), and the
//! server any number of [`Told::Progress`] and one answer or error. Then it closes the connection.

use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use env::Clock;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use volume::PoolId;

use super::request::{Answer, Kind, Refusal};

/// The name of the socket in the folder of the index.
pub(super) const SOCKET: &str = "control";
/// The version of this protocol. Another version is refused.
pub(super) const VERSION: u32 = 1;
/// Bytes of a request.
pub(super) const REQUEST_BYTES_MAX: usize = 64 << 10;
/// Bytes of an answer: the figures of some 20,000 volumes.
pub(super) const ANSWER_BYTES_MAX: usize = 64 << 20;
/// How often a waiting side looks whether it has to end.
pub(super) const LOOK: Duration = Duration::from_millis(100);

/// The first line of each side.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Hello {
    /// The version that it speaks.
    pub(super) onefold_control: u32,
    /// The id of the server's pool, as digits. A client says none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(super) pool: String,
}

impl Hello {
    /// The line of the server of a pool.
    pub(super) fn of_server(pool: PoolId) -> Self {
        Self {
            onefold_control: VERSION,
            pool: pool.iter().map(|byte| format!("{byte:02x}")).collect(),
        }
    }

    /// The line of a client.
    pub(super) fn of_client() -> Self {
        Self {
            onefold_control: VERSION,
            pool: String::new(),
        }
    }
}

/// A line of the server.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Told {
    /// The work continues.
    Progress {
        /// Bytes done.
        done: u64,
        /// All bytes, as far as they are known.
        total: u64,
    },
    /// It is done.
    Answer(Answer),
    /// It was refused, or failed.
    Error(Refusal),
}

/// One side of a connection.
pub(super) struct Lines<'a> {
    socket: UnixStream,
    clock: &'a dyn Clock,
    /// What was received behind the last line.
    rest: Vec<u8>,
}

fn broken(message: impl Into<String>) -> Refusal {
    Refusal::new(Kind::Protocol, message)
}

impl<'a> Lines<'a> {
    /// Speaks over this socket.
    pub(super) fn new(socket: UnixStream, clock: &'a dyn Clock) -> io::Result<Self> {
        socket.set_read_timeout(Some(LOOK))?;
        // Who does not receive within this time has gone.
        socket.set_write_timeout(Some(Duration::from_secs(5)))?;
        Ok(Self {
            socket,
            clock,
            rest: Vec::new(),
        })
    }

    /// Sends a line.
    pub(super) fn send(&mut self, value: &impl Serialize) -> io::Result<()> {
        let mut line = serde_json::to_vec(value).map_err(io::Error::other)?;
        line.push(b'\n');
        self.socket.write_all(&line)
    }

    /// Receives the next line of at most so many bytes. Ends early if `goes_on` returns `false` for
    /// the time since the call.
    pub(super) fn receive<T: DeserializeOwned>(
        &mut self,
        bytes_max: usize,
        goes_on: &mut dyn FnMut(Duration) -> bool,
    ) -> Result<T, Refusal> {
        let begun = self.clock.monotonic();
        let mut searched = 0;
        let mut part = [0; 8192];
        loop {
            if let Some(end) = self.rest[searched..].iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.rest.drain(..=searched + end).collect();
                return serde_json::from_slice(&line).map_err(|error| {
                    broken(format!("a line on the control socket is not understood: {error}"))
                });
            }
            searched = self.rest.len();
            if searched > bytes_max {
                return Err(broken("a line on the control socket is too long"));
            }
            if !goes_on(self.clock.monotonic().saturating_sub(begun)) {
                return Err(Refusal::new(
                    Kind::Interrupted,
                    "the wait on the control socket was ended",
                ));
            }
            match self.socket.read(&mut part) {
                Ok(0) => return Err(broken("the other side of the control socket ended in the middle")),
                Ok(len) => self.rest.extend_from_slice(&part[..len]),
                Err(error) if is_pause(&error) => {}
                Err(error) => return Err(broken(format!("the control socket failed: {error}"))),
            }
        }
    }
}

fn is_pause(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut | io::ErrorKind::Interrupted
    )
}
