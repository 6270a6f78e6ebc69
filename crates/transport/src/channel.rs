//! Both directions of a stream of bytes.

use std::fmt;
use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::Duration;

use rustix::net::sockopt;

/// The bytes that come.
pub type Input = Box<dyn Read + Send>;
/// The bytes that go. Each write is complete when it returns.
pub type Output = Box<dyn Write + Send>;

/// Ends a channel from any thread: blocked reads and writes return.
#[derive(Clone)]
pub struct Closer(Arc<dyn Fn() + Send + Sync>);

/// Both directions of a stream of bytes.
pub struct Channel {
    /// The bytes that come.
    pub input: Input,
    /// The bytes that go.
    pub output: Output,
    /// Ends both.
    pub closer: Closer,
}

impl Closer {
    /// A closer that calls this.
    pub fn new(close: impl Fn() + Send + Sync + 'static) -> Self {
        Self(Arc::new(close))
    }

    /// Ends the channel.
    pub fn close(&self) {
        (self.0)();
    }
}

/// How long a connection carries nothing before the system asks whether the other end is there, ...
const IDLE: Duration = Duration::from_secs(60);
/// ... how often it asks, ...
const ASK_EVERY: Duration = Duration::from_secs(15);
/// ... and how many times.
const ASKED_MAX: u32 = 4;

/// Prepares a socket for frames: small ones go at once, and a silent end is noticed within two
/// minutes while nothing is sent to it. What is sent may wait for longer: a server takes nothing
/// from a client whose rate or memory is used up, so no shorter time than the system's is set.
///
/// # Errors
/// The system's.
pub fn prepare(socket: &TcpStream) -> io::Result<()> {
    socket.set_nodelay(true)?;
    sockopt::set_socket_keepalive(socket, true)?;
    sockopt::set_tcp_keepidle(socket, IDLE)?;
    sockopt::set_tcp_keepintvl(socket, ASK_EVERY)?;
    sockopt::set_tcp_keepcnt(socket, ASKED_MAX)?;
    Ok(())
}

impl fmt::Debug for Closer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Closer")
    }
}

impl fmt::Debug for Channel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Channel")
    }
}

/// A socket that both directions and the closer share. So a connection has one descriptor.
struct Shared<S>(Arc<S>);

impl<S> Read for Shared<S>
where
    for<'a> &'a S: Read,
{
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        (&*self.0).read(into)
    }
}

impl<S> Write for Shared<S>
where
    for<'a> &'a S: Write,
{
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        (&*self.0).write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        (&*self.0).flush()
    }
}

macro_rules! of_socket {
    ($socket:ty) => {
        impl From<Arc<$socket>> for Channel {
            fn from(socket: Arc<$socket>) -> Self {
                Self {
                    input: Box::new(Shared(Arc::clone(&socket))),
                    output: Box::new(Shared(Arc::clone(&socket))),
                    // A socket that is closed already needs no end.
                    closer: Closer::new(move || drop(socket.shutdown(Shutdown::Both))),
                }
            }
        }

        impl From<$socket> for Channel {
            fn from(socket: $socket) -> Self {
                Arc::new(socket).into()
            }
        }
    };
}

of_socket!(TcpStream);
of_socket!(UnixStream);
