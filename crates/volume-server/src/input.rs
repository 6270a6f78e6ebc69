//! The bytes that a client sends, in as few system calls as possible.
//!
//! As many requests as fit are received at once. The payload of the first one begins at aligned
//! memory. The rest of a payload that has not arrived is received directly to where it is needed,
//! together with the beginning of the next request.

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

    /// From now on, the client may take its time.
    pub(crate) fn end_negotiation(&mut self) {
        if let Self::Secured(input) = self {
            input.deadline = None;
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
            // A request begins where its payload will be aligned.
            let (start, end) = (self.start, self.end);
            self.buffer.copy_within(start..end, BEGIN);
            (self.start, self.end) = (BEGIN, BEGIN + end - start);
            let into = &mut self.buffer[self.end..];
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

    /// The next request, if it has arrived and is one. It is not taken.
    pub(crate) fn next_request(&self) -> Option<Request> {
        let bytes = self.buffer[self.start..self.end].first_chunk()?;
        Request::decode(bytes).ok()
    }

    /// Takes a request from received bytes.
    pub(crate) fn take_request(&mut self) -> Result<Request, RequestFault> {
        let bytes = self.buffer[self.start..].first_chunk();
        let request = Request::decode(bytes.expect("a request has arrived"))?;
        self.start += REQUEST_BYTES;
        Ok(request)
    }

    /// Takes a payload without copying it, if it has arrived. Only the payload of the first request
    /// that was received is aligned.
    pub(crate) fn take_in_place(&mut self, len: usize) -> Option<&[u8]> {
        let start = self.start;
        let taken = self.buffer[..self.end].get(start..start.checked_add(len)?)?;
        self.start += len;
        Some(taken)
    }

    /// Takes the next piece of a payload of which `left` bytes are not taken: whole blocks, or all.
    /// A piece has at least `least` bytes, except for the last one.
    ///
    /// # Errors
    /// The system's; `UnexpectedEof` if the client ends before.
    pub(crate) fn take_piece(&mut self, left: usize, least: usize) -> io::Result<&[u8]> {
        while self.end - self.start < left.min(least) {
            let (start, end) = (self.start, self.end);
            self.buffer.copy_within(start..end, ALIGN_BYTES);
            (self.start, self.end) = (ALIGN_BYTES, ALIGN_BYTES + end - start);
            let received = self.source.receive(&mut self.buffer[self.end..], &mut [])?;
            if received == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            self.end += received;
        }
        let mut len = left.min(self.end - self.start);
        if len < left {
            len -= len % ALIGN_BYTES;
        }
        self.start += len;
        Ok(&self.buffer[self.start - len..self.start])
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
            let next = &mut self.buffer[BEGIN..];
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
