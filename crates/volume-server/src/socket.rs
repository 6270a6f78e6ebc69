//! A connected socket, of this machine or of a network.
//!
//! One thread receives and one sends at a time; any thread may shut the socket down, at which both
//! return.

use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use rustix::net::{RecvFlags, sockopt};

/// Bytes that the system may hold in each direction, if it allows so many. Larger replies leave
/// with fewer switches between the server and the client.
const BUFFER_BYTES: usize = 1 << 20;
/// After so much silence the system asks whether the other end is there, ...
const IDLE: Duration = Duration::from_secs(60);
/// ... so often, ...
const ASK_EVERY: Duration = Duration::from_secs(15);
/// ... and so many times.
const ASKED_MAX: u32 = 4;

/// A connected socket.
#[derive(Debug)]
pub(crate) enum Socket {
    /// Of this machine.
    Unix(UnixStream),
    /// Of a network.
    Tcp(TcpStream),
}

impl Socket {
    /// Prepares it: small messages leave at once, and a dead client of a network is noticed.
    pub(crate) fn prepare(&self) -> io::Result<()> {
        if let Self::Tcp(socket) = self {
            socket.set_nodelay(true)?;
            sockopt::set_socket_keepalive(socket, true)?;
            sockopt::set_tcp_keepidle(socket, IDLE)?;
            sockopt::set_tcp_keepintvl(socket, ASK_EVERY)?;
            sockopt::set_tcp_keepcnt(socket, ASKED_MAX)?;
        } else {
            // A network's buffers grow by themselves.
            sockopt::set_socket_send_buffer_size(self, BUFFER_BYTES)?;
        }
        Ok(())
    }

    /// Waits for bytes at most so long; `None`: for ever.
    pub(crate) fn wait_at_most(&self, time: Option<Duration>) -> io::Result<()> {
        match self {
            Self::Unix(socket) => socket.set_read_timeout(time),
            Self::Tcp(socket) => socket.set_read_timeout(time),
        }
    }

    /// Sends wait at most so long; `None`: for ever.
    pub(crate) fn send_at_most(&self, time: Option<Duration>) -> io::Result<()> {
        match self {
            Self::Unix(socket) => socket.set_write_timeout(time),
            Self::Tcp(socket) => socket.set_write_timeout(time),
        }
    }

    /// Waits for bytes, and returns how many there are; 0 at the end.
    pub(crate) fn receive(&self, first: &mut [u8], second: &mut [u8]) -> io::Result<usize> {
        loop {
            let received = if first.is_empty() {
                self.read_one(second)
            } else if second.is_empty() {
                self.read_one(first)
            } else {
                let mut parts = [IoSliceMut::new(first), IoSliceMut::new(second)];
                match self {
                    Self::Unix(socket) => {
                        let mut s = socket;
                        s.read_vectored(&mut parts)
                    }
                    Self::Tcp(socket) => {
                        let mut s = socket;
                        s.read_vectored(&mut parts)
                    }
                }
            };
            match received {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                other => return other,
            }
        }
    }

    fn read_one(&self, into: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Unix(socket) => {
                let mut s = socket;
                s.read(into)
            }
            Self::Tcp(socket) => {
                let mut s = socket;
                s.read(into)
            }
        }
    }

    /// Returns bytes if there are any now; `None` if there are none yet.
    pub(crate) fn receive_now(&self, into: &mut [u8]) -> io::Result<Option<usize>> {
        match rustix::net::recv(self, into, RecvFlags::DONTWAIT) {
            Ok((received, _)) => Ok(Some(received)),
            Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Sends all bytes of all parts.
    pub(crate) fn send(&self, mut parts: &mut [IoSlice<'_>]) -> io::Result<()> {
        // Without empty parts at the beginning, of which the system would send nothing.
        IoSlice::advance_slices(&mut parts, 0);
        while !parts.is_empty() {
            let sent = match self {
                Self::Unix(socket) => {
                    let mut s = socket;
                    s.write_vectored(parts)
                }
                Self::Tcp(socket) => {
                    let mut s = socket;
                    s.write_vectored(parts)
                }
            };
            match sent {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(sent) => IoSlice::advance_slices(&mut parts, sent),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Ends receiving, or both directions. What has arrived can still be received.
    pub(crate) fn shut_down(&self, how: Shutdown) {
        let done = match self {
            Self::Unix(socket) => socket.shutdown(how),
            Self::Tcp(socket) => socket.shutdown(how),
        };
        // The other end may have been faster.
        done.ok();
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Unix(socket) => socket.as_fd(),
            Self::Tcp(socket) => socket.as_fd(),
        }
    }
}
