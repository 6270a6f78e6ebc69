//! The bytes that a client sends, in as few system calls as possible.
//!
//! Small requests are received many at once. If a request of the same length as the last write
//! follows, its payload begins at aligned memory and needs no copy. The rest of a longer payload is
//! received directly to where it is needed, together with the beginning of the next request.

use std::io;
use std::sync::Arc;

use env::{ALIGN_BYTES, AlignedBuffer};
use nbd::{REQUEST_BYTES, Request, RequestFault};

use crate::socket::Socket;
use crate::tls::SecuredInput;

/// Bytes of requests and payloads that are received at once.
const RECEIVED_BYTES: usize = 256 << 10;
/// The first request begins here, so that its payload is aligned.
const BEGIN: usize = ALIGN_BYTES - REQUEST_BYTES;
/// A write of at least so many bytes is worth a system call of its own, if that saves copying it.
const WORTH_A_CALL_BYTES: usize = 16 << 10;
/// Small requests: so many bytes are received at once.
const SMALL_BYTES: usize = 64 << 10;

/// Where bytes come from.
#[derive(Debug)]
pub(crate) enum Source {
    /// The socket itself.
    Plain(Arc<Socket>),
    /// TLS.
    Secured(SecuredInput),
}

impl Source {
    /// Waits for bytes; returns 0 at the end.
    pub(crate) fn receive(&mut self, first: &mut [u8], second: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Plain(socket) => socket.receive(first, second),
            Self::Secured(input) => input.receive(first, second),
        }
    }

    fn receive_now(&mut self, into: &mut [u8]) -> io::Result<Option<usize>> {
        match self {
            Self::Plain(socket) => socket.receive_now(into),
            Self::Secured(_) => Ok(None),
        }
    }
}

/// Received bytes that were not used yet.
#[derive(Debug)]
pub(crate) struct Input {
    source: Source,
    buffer: AlignedBuffer,
    start: usize,
    end: usize,
    /// Payload bytes of the last request.
    last_payload: usize,
    /// No bytes follow.
    is_over: bool,
}

impl Input {
    /// Begins with bytes that were received before.
    pub(crate) fn new(source: Source, received: &[u8]) -> Self {
        let mut buffer = AlignedBuffer::with_capacity(ALIGN_BYTES + RECEIVED_BYTES);
        buffer.grow_to(ALIGN_BYTES + RECEIVED_BYTES);
        let end = BEGIN + received.len();
        buffer[BEGIN..end].copy_from_slice(received);
        Self {
            source,
            buffer,
            start: BEGIN,
            end,
            last_payload: 0,
            is_over: false,
        }
    }

    /// Whether a request has arrived, at least its head.
    pub(crate) fn has_request(&self) -> bool {
        self.end - self.start >= REQUEST_BYTES
    }

    /// Receives bytes until there is a request, or returns false at the end. If `waits` is not set,
    /// returns `None` instead of waiting.
    pub(crate) fn fill(&mut self, waits: bool) -> io::Result<Option<bool>> {
        while !self.has_request() {
            if self.is_over {
                return Ok(Some(false));
            }
            let wanted = self.room();
            let into = &mut self.buffer[self.end..][..wanted];
            let received = if waits {
                Some(self.source.receive(into, &mut [])?)
            } else {
                self.source.receive_now(into)?
            };
            match received {
                None => return Ok(None),
                Some(0) => self.is_over = true,
                Some(received) => self.end += received,
            }
        }
        Ok(Some(true))
    }

    /// Moves the beginning of a request to where its payload is aligned, and returns how many bytes
    /// to receive.
    fn room(&mut self) -> usize {
        let (start, end) = (self.start, self.end);
        self.buffer.copy_within(start..end, BEGIN);
        (self.start, self.end) = (BEGIN, BEGIN + end - start);
        let wanted = if self.last_payload < WORTH_A_CALL_BYTES {
            SMALL_BYTES
        } else {
            // Without the next request, whose payload would not be aligned.
            (REQUEST_BYTES + self.last_payload).min(RECEIVED_BYTES)
        };
        wanted.saturating_sub(end - start).max(REQUEST_BYTES)
    }

    /// Takes a request from received bytes.
    pub(crate) fn take_request(&mut self) -> Result<Request, RequestFault> {
        let bytes = self.buffer[self.start..].first_chunk();
        let request = Request::decode(bytes.expect("a request has arrived"))?;
        self.start += REQUEST_BYTES;
        self.last_payload = usize::try_from(request.payload_bytes()).unwrap_or(usize::MAX);
        Ok(request)
    }

    /// Takes a payload without copying it, if it has arrived and is aligned.
    pub(crate) fn take_in_place(&mut self, len: usize) -> Option<&[u8]> {
        let start = self.start;
        if self.end - start < len || !start.is_multiple_of(ALIGN_BYTES) {
            return None;
        }
        self.start += len;
        Some(&self.buffer[start..start + len])
    }

    /// Copies or receives a payload.
    ///
    /// # Errors
    /// The system's; `UnexpectedEof` if the client ends before.
    pub(crate) fn take_into(&mut self, into: &mut [u8]) -> io::Result<()> {
        let copied = into.len().min(self.end - self.start);
        let (first, mut rest) = into.split_at_mut(copied);
        first.copy_from_slice(&self.buffer[self.start..][..copied]);
        self.start += copied;
        while !rest.is_empty() {
            // The buffer is empty: what follows the payload begins at its beginning.
            let next = &mut self.buffer[BEGIN..][..SMALL_BYTES];
            let received = self.source.receive(rest, next)?;
            if received == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            let now = received.min(rest.len());
            (self.start, self.end) = (BEGIN, BEGIN + received - now);
            rest = &mut rest[now..];
        }
        Ok(())
    }

    /// Drops a payload.
    pub(crate) fn skip(&mut self, mut len: usize) -> io::Result<()> {
        loop {
            let now = len.min(self.end - self.start);
            self.start += now;
            len -= now;
            if len == 0 {
                return Ok(());
            }
            (self.start, self.end) = (BEGIN, BEGIN);
            let into = &mut self.buffer[BEGIN..];
            let received = self.source.receive(into, &mut [])?;
            if received == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            self.end += received;
        }
    }

    /// Nothing more is taken.
    pub(crate) fn end(&mut self) {
        self.is_over = true;
        self.start = self.end;
    }
}
