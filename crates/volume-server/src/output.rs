//! Replies: collected by a thread, and sent together.
//!
//! Each thread collects its own [`Replies`]. [`Output`] belongs to the connection; a thread locks
//! it while it sends.

use std::io::{self, IoSlice};
use std::ops::Range;
use std::sync::Arc;

use env::{ALIGN_BYTES, AlignedBuffer};
use nbd::reply::transmission as reply;

use crate::holes::{HOLES_MAX, Holes};
use crate::socket::Socket;
use crate::tls::Secured;

/// The longest part of a read that is sent at once.
pub(crate) const PIECE_BYTES: usize = 1 << 20;
/// A head of a reply has at most so many bytes.
const HEAD_BYTES_MAX: usize = 32;
/// Parts that are given to the system at once.
const PARTS_MAX: usize = 80;
/// Parts of one read: the data between its holes.
const READ_PARTS_MAX: usize = HOLES_MAX + 1;

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

/// A read, or a part of it, that is answered with chunks.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ReadChunks {
    /// The number of the request.
    pub(crate) cookie: u64,
    /// Nothing follows.
    pub(crate) is_last: bool,
    /// Its first byte in the export.
    pub(crate) offset: u64,
    /// Its bytes, at least 1 and at most [`PIECE_BYTES`].
    pub(crate) len: usize,
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
        if !self.has_parts() {
            return None;
        }
        let first = first_behind(self.used);
        self.memory.get_mut(first..first.checked_add(len)?)
    }

    /// Whether the parts of one more read can wait.
    pub(crate) fn has_parts(&self) -> bool {
        self.parts.len() + READ_PARTS_MAX <= PARTS_MAX
    }

    /// Where the data of a read goes if replies up to `used` are before it.
    pub(crate) fn span(used: usize, len: usize) -> Range<usize> {
        let first = first_behind(used);
        first..first.saturating_add(len)
    }

    /// Where the data of several reads go if none wait: to the [`Self::span`] behind each other.
    ///
    /// # Panics
    /// If they do not fit.
    pub(crate) fn rooms(&mut self, lens: impl Iterator<Item = usize>) -> Vec<&mut [u8]> {
        let (mut rest, mut used) = (&mut self.memory[..], 0);
        lens.map(|len| {
            let span = Self::span(used, len);
            let (_, behind) = std::mem::take(&mut rest).split_at_mut(span.start - used);
            let (room, behind) = behind.split_at_mut(len);
            (rest, used) = (behind, span.end);
            room
        })
        .collect()
    }

    /// The next reply is added behind this place, which is the end of a [`Self::span`] or 0.
    pub(crate) fn go_on_at(&mut self, used: usize) {
        self.used = used;
    }

    /// Adds the read whose data was put into the last [`Self::room`] of this length.
    pub(crate) fn add_read(&mut self, head: &[u8], len: usize) {
        let first = first_behind(self.used);
        self.memory[first - head.len()..first].copy_from_slice(head);
        self.parts.push((first - head.len(), first + len));
        self.used = first + len;
        self.bytes += head.len() + len;
    }

    /// Adds the read whose data was put into the last [`Self::room`] of this length, as chunks of
    /// data and of holes. Their heads are written over the memory of the holes.
    pub(crate) fn add_chunks(&mut self, read: &ReadChunks, holes: &mut Holes) {
        let first = first_behind(self.used);
        let (len, cookie) = (read.len, read.cookie);
        let place = |at: usize| read.offset + at as u64;
        let size = |range: &Range<usize>| u32::try_from(range.len()).expect("a piece is shorter than 4 GiB");
        let (mut from, mut before) = (0, None::<Range<usize>>);
        for hole in holes.usable().chain(std::iter::once(len..len)) {
            let data = from..hole.start;
            if !data.is_empty() {
                let is_last = read.is_last && data.end == len;
                let mut start = first + data.start;
                start = self.put_before(
                    start,
                    &reply::offset_data(cookie, is_last, place(data.start), size(&data)),
                );
                if let Some(hole) = before.take() {
                    start = self.put_before(
                        start,
                        &reply::offset_hole(cookie, false, place(hole.start), size(&hole)),
                    );
                }
                self.add_part(start, first + data.end);
            }
            if !hole.is_empty() {
                (from, before) = (hole.end, Some(hole));
            }
        }
        if let Some(hole) = before {
            let chunk = reply::offset_hole(cookie, read.is_last, place(hole.start), size(&hole));
            let start = first + hole.start;
            self.memory[start..start + chunk.len()].copy_from_slice(&chunk);
            self.add_part(start, start + chunk.len());
        }
    }

    /// Writes a head that ends here, and returns its beginning.
    fn put_before(&mut self, end: usize, head: &[u8]) -> usize {
        let start = end - head.len();
        self.memory[start..end].copy_from_slice(head);
        start
    }

    /// Adds a part of the memory behind the used one.
    fn add_part(&mut self, start: usize, end: usize) {
        match self.parts.last_mut() {
            Some((_, last)) if *last == start => *last = end,
            _ => self.parts.push((start, end)),
        }
        self.used = end;
        self.bytes += end - start;
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

/// Where the data of a read begins whose head is behind `used`.
fn first_behind(used: usize) -> usize {
    (used + HEAD_BYTES_MAX).next_multiple_of(ALIGN_BYTES)
}

#[cfg(test)]
mod tests;
