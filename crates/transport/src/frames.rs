//! Frames over the halves of a channel.

use std::fmt;
use std::io::{BufReader, ErrorKind, Read, Write};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use wire::{HEAD_BYTES, Head, Wire};

use crate::channel::{Input, Output};
use crate::error::TransportError;

/// Small frames are read together.
const BUFFER_BYTES: usize = 128 << 10;
/// A longer body grows as it comes, so that a head alone allocates no more.
const AT_ONCE_BYTES: usize = 1 << 20;

/// Bytes that a connection has carried, without what TLS adds. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub struct Traffic {
    counts: Arc<[AtomicU64; 2]>,
}

impl Traffic {
    /// Bytes received.
    #[must_use]
    pub fn received(&self) -> u64 {
        self.counts[0].load(Ordering::Relaxed)
    }

    /// Bytes sent.
    #[must_use]
    pub fn sent(&self) -> u64 {
        self.counts[1].load(Ordering::Relaxed)
    }
}

/// Reads frames.
pub struct FrameReader {
    input: BufReader<Input>,
    traffic: Traffic,
}

impl FrameReader {
    /// Reads from this half.
    #[must_use]
    pub fn new(input: Input, traffic: Traffic) -> Self {
        Self {
            input: BufReader::with_capacity(BUFFER_BYTES, input),
            traffic,
        }
    }

    /// The next frame, whose body may have at most `max` bytes. `None` if the other end has closed
    /// the connection after a whole frame.
    ///
    /// # Errors
    /// `Closed` in the middle of a frame; `Frame`; `Broken`.
    pub fn next(&mut self, max: usize) -> Result<Option<(Head, Vec<u8>)>, TransportError> {
        let Some(head) = self.head(max)? else {
            return Ok(None);
        };
        Ok(Some((head, self.body(head)?)))
    }

    /// The head of the next frame. [`Self::body`] must be next.
    ///
    /// # Errors
    /// As [`Self::next`].
    pub fn head(&mut self, max: usize) -> Result<Option<Head>, TransportError> {
        let mut head = [0; HEAD_BYTES];
        let mut filled = 0;
        while filled < HEAD_BYTES {
            match self.input.read(&mut head[filled..]) {
                Ok(0) if filled == 0 => return Ok(None),
                Ok(0) => return Err(TransportError::Closed),
                Ok(read) => filled += read,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(Some(Head::decode(head, max)?))
    }

    /// The body of the frame with this head.
    ///
    /// # Errors
    /// As [`Self::next`].
    pub fn body(&mut self, head: Head) -> Result<Vec<u8>, TransportError> {
        let mut body = Vec::with_capacity(head.len.min(AT_ONCE_BYTES));
        let read = (&mut self.input).take(head.len as u64).read_to_end(&mut body)?;
        if read < head.len {
            return Err(TransportError::Closed);
        }
        self.traffic.counts[0].fetch_add((HEAD_BYTES + read) as u64, Ordering::Relaxed);
        Ok(body)
    }
}

/// The memory of a longer frame is given back.
const KEPT_BYTES_MAX: usize = 1 << 20;

/// Writes frames, for any number of threads.
pub struct FrameWriter {
    /// And the last frame, whose memory the next one uses.
    output: Mutex<(Output, Vec<u8>)>,
    traffic: Traffic,
}

impl FrameWriter {
    /// Writes to this half.
    #[must_use]
    pub fn new(output: Output, traffic: Traffic) -> Self {
        Self {
            output: Mutex::new((output, Vec::new())),
            traffic,
        }
    }

    /// Sends a frame.
    ///
    /// # Errors
    /// `Frame` if the body is too long; `Broken`.
    pub fn send(&self, kind: u8, number: u32, body: &[u8]) -> Result<(), TransportError> {
        self.send_with(kind, number, |frame| frame.extend_from_slice(body))
    }

    /// Sends a frame with this value.
    ///
    /// # Errors
    /// As [`Self::send`].
    pub fn send_value(&self, kind: u8, number: u32, value: &impl Wire) -> Result<(), TransportError> {
        self.send_with(kind, number, |frame| value.append_to(frame))
    }

    /// Sends a frame whose body this function appends.
    ///
    /// # Errors
    /// As [`Self::send`].
    pub fn send_with(
        &self,
        kind: u8,
        number: u32,
        write_body: impl FnOnce(&mut Vec<u8>),
    ) -> Result<(), TransportError> {
        let mut locked = self.output.lock().unwrap_or_else(PoisonError::into_inner);
        let (output, frame) = &mut *locked;
        wire::frame_into(frame, kind, number, write_body)?;
        output.write_all(frame)?;
        output.flush()?;
        self.traffic.counts[1].fetch_add(frame.len() as u64, Ordering::Relaxed);
        if frame.capacity() > KEPT_BYTES_MAX {
            *frame = Vec::new();
        }
        Ok(())
    }
}

impl fmt::Debug for FrameReader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FrameReader").finish_non_exhaustive()
    }
}

impl fmt::Debug for FrameWriter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FrameWriter").finish_non_exhaustive()
    }
}
