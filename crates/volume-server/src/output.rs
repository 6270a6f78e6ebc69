//! Replies: collected by a thread, and sent together.
//!
//! Each thread collects its own [`Replies`]. [`Output`] belongs to the connection; a thread locks
//! it while it sends.

use std::io::{self, IoSlice};
use std::sync::Arc;

use env::{ALIGN_BYTES, AlignedBuffer};

use crate::socket::Socket;
use crate::tls::Secured;

/// The longest part of a read that is sent at once.
pub(crate) const PIECE_BYTES: usize = 1 << 20;
/// A head of a reply has at most so many bytes.
const HEAD_BYTES_MAX: usize = 32;
/// Parts that are given to the system at once.
const PARTS_MAX: usize = 64;

/// Where replies go.
#[derive(Debug)]
pub(crate) enum Output {
    /// The socket itself.
    Plain(Arc<Socket>),
    /// TLS.
    Secured(Arc<Secured>),
}

impl Output {
    /// Sends all bytes of all parts.
    pub(crate) fn send(&self, parts: &mut [IoSlice<'_>]) -> io::Result<()> {
        match self {
            Self::Plain(socket) => socket.send(parts),
            Self::Secured(secured) => secured.send(parts),
        }
    }
}

impl Output {
    /// Ends TLS, if there is any.
    pub(crate) fn close(&self) {
        if let Self::Secured(secured) = self {
            secured.close();
        }
    }
}

/// Replies that were not sent yet. The data of each read begins at aligned memory, and its head
/// ends there.
#[derive(Debug)]
pub(crate) struct Replies {
    memory: AlignedBuffer,
    /// The used beginning of the memory.
    used: usize,
    /// Where the replies are in the memory.
    parts: Vec<(usize, usize)>,
    /// Bytes of the replies.
    bytes: usize,
}

impl Replies {
    pub(crate) fn new() -> Self {
        let bytes = PIECE_BYTES + 2 * ALIGN_BYTES;
        let mut memory = AlignedBuffer::with_capacity(bytes);
        memory.grow_to(bytes);
        Self {
            memory,
            used: 0,
            parts: Vec::with_capacity(PARTS_MAX),
            bytes: 0,
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.parts.is_empty()
    }

    /// Bytes that wait.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Where the data of the next read goes; `None` if replies must be sent first. At most
    /// [`PIECE_BYTES`] fit if none wait.
    pub(crate) fn room(&mut self, len: usize) -> Option<&mut [u8]> {
        let first = (self.used + HEAD_BYTES_MAX).next_multiple_of(ALIGN_BYTES);
        if self.parts.len() == PARTS_MAX {
            return None;
        }
        self.memory.get_mut(first..first.checked_add(len)?)
    }

    /// Adds the read whose data was put into the last [`Self::room`] of this length.
    pub(crate) fn add_read(&mut self, head: &[u8], len: usize) {
        let first = (self.used + HEAD_BYTES_MAX).next_multiple_of(ALIGN_BYTES);
        self.memory[first - head.len()..first].copy_from_slice(head);
        self.parts.push((first - head.len(), first + len));
        self.used = first + len;
        self.bytes += head.len() + len;
    }

    /// Adds a reply without data. Returns false if replies must be sent first.
    pub(crate) fn add(&mut self, reply: &[u8]) -> bool {
        let end = self.used + reply.len();
        let joins = self.parts.last().is_some_and(|(_, last)| *last == self.used);
        if end > self.memory.len() || !joins && self.parts.len() == PARTS_MAX {
            return false;
        }
        self.memory[self.used..end].copy_from_slice(reply);
        match self.parts.last_mut() {
            Some((_, last)) if joins => *last = end,
            _ => self.parts.push((self.used, end)),
        }
        self.used = end;
        self.bytes += reply.len();
        true
    }

    /// Sends what waits.
    pub(crate) fn send(&mut self, output: &Output) -> io::Result<()> {
        let mut slices = [IoSlice::new(&[]); PARTS_MAX];
        for (slice, (start, end)) in slices.iter_mut().zip(&self.parts) {
            *slice = IoSlice::new(&self.memory[*start..*end]);
        }
        let sent = output.send(&mut slices[..self.parts.len()]);
        self.parts.clear();
        (self.used, self.bytes) = (0, 0);
        sent
    }
}
