//! The reader's end of the pipeline: sources put bytes and steps in here, stream by stream.
//!
//! A source may interleave its streams; each has a batch of its own that goes off when its buffer is
//! full. A source that returns without ending every stream makes no backup.

use std::sync::atomic::{AtomicBool, Ordering};

use crate::buffer::{Buffer, BufferPool};
use crate::counters::Counters;
use crate::error::{Halt, IngestError};
use crate::piece::{Batch, CopyRange, Op, StreamIndex};
use crate::queue::Sender;

/// Steps after which a batch goes off though its buffer is not full.
const OPS_MAX: usize = 4096;

/// Takes a source's bytes and steps.
pub(crate) struct Feeder<'a> {
    streams: Vec<Open>,
    pool: BufferPool,
    output: Sender<Batch>,
    counters: &'a Counters,
    cancel: &'a AtomicBool,
}

struct Open {
    buffer: Option<Buffer>,
    ops: Vec<Op>,
}

impl<'a> Feeder<'a> {
    pub(crate) fn new(
        streams: usize,
        pool: BufferPool,
        output: Sender<Batch>,
        counters: &'a Counters,
        cancel: &'a AtomicBool,
    ) -> Self {
        let streams = (0..streams)
            .map(|_| Open {
                buffer: None,
                ops: Vec::new(),
            })
            .collect();
        Self {
            streams,
            pool,
            output,
            counters,
            cancel,
        }
    }

    /// The backup's counters.
    #[must_use]
    pub(crate) fn counters(&self) -> &'a Counters {
        self.counters
    }

    /// Room for the stream's next bytes; never empty.
    ///
    /// # Errors
    /// When the backup is to stop, asked for or because another stage failed.
    pub(crate) fn spare(&mut self, stream: StreamIndex) -> Result<&mut [u8], Halt> {
        if self.cancel.load(Ordering::Relaxed) {
            return Err(IngestError::Interrupted.into());
        }
        if self.open(stream).buffer.as_ref().is_some_and(Buffer::is_full) {
            self.flush(stream)?;
        }
        let pool = &self.pool;
        let open = &mut self.streams[usize::from(stream.0)];
        Ok(open.buffer.get_or_insert_with(|| pool.take()).spare_mut())
    }

    /// The first `len` bytes of the room that [`Self::spare`] gave are the stream's next.
    pub(crate) fn advance(&mut self, stream: StreamIndex, len: usize) {
        let open = self.open(stream);
        open.buffer.as_mut().expect("spare() gave room").advance(len);
        match open.ops.last_mut() {
            Some(Op::Bytes(bytes)) => *bytes += len,
            _ => open.ops.push(Op::Bytes(len)),
        }
        self.counters.bytes_read.add(len as u64);
    }

    /// Copies bytes in.
    pub(crate) fn bytes(&mut self, stream: StreamIndex, mut bytes: &[u8]) -> Result<(), Halt> {
        while !bytes.is_empty() {
            let spare = self.spare(stream)?;
            let len = spare.len().min(bytes.len());
            spare[..len].copy_from_slice(&bytes[..len]);
            bytes = &bytes[len..];
            let open = self.open(stream);
            open.buffer.as_mut().expect("spare() gave room").advance(len);
            match open.ops.last_mut() {
                Some(Op::Bytes(before)) => *before += len,
                _ => open.ops.push(Op::Bytes(len)),
            }
        }
        Ok(())
    }

    /// A chunk ends here: the end of a file.
    pub(crate) fn cut(&mut self, stream: StreamIndex) -> Result<(), Halt> {
        if matches!(
            self.open(stream).ops.last(),
            Some(Op::Cut | Op::Zeros(_) | Op::Copy(_))
        ) {
            return Ok(());
        }
        self.push(stream, Op::Cut)
    }

    /// Zeros follow that nobody need read.
    pub(crate) fn zeros(&mut self, stream: StreamIndex, len: u64) -> Result<(), Halt> {
        if len == 0 {
            return Ok(());
        }
        self.push(stream, Op::Zeros(len))
    }

    /// A range of an earlier stream follows; ranges that continue each other are joined.
    pub(crate) fn copy(&mut self, stream: StreamIndex, range: CopyRange) -> Result<(), Halt> {
        if range.len == 0 {
            return Ok(());
        }
        if let Some(Op::Copy(last)) = self.open(stream).ops.last_mut()
            && std::sync::Arc::ptr_eq(&last.root, &range.root)
            && last.offset + last.len == range.offset
        {
            last.len += range.len;
            return Ok(());
        }
        self.push(stream, Op::Copy(range))
    }

    /// The stream is complete.
    pub(crate) fn end(&mut self, stream: StreamIndex) -> Result<(), Halt> {
        self.push(stream, Op::End)?;
        self.flush(stream)
    }

    fn push(&mut self, stream: StreamIndex, op: Op) -> Result<(), Halt> {
        let open = self.open(stream);
        open.ops.push(op);
        if open.ops.len() >= OPS_MAX {
            self.flush(stream)
        } else {
            Ok(())
        }
    }

    fn flush(&mut self, stream: StreamIndex) -> Result<(), Halt> {
        if self.cancel.load(Ordering::Relaxed) {
            return Err(IngestError::Interrupted.into());
        }
        let pool = self.pool.clone();
        let open = self.open(stream);
        let ops = std::mem::take(&mut open.ops);
        let buffer = open.buffer.take().unwrap_or_else(|| pool.take());
        if !ops.is_empty() {
            self.output.send(Batch { stream, buffer, ops })?;
        }
        Ok(())
    }

    fn open(&mut self, stream: StreamIndex) -> &mut Open {
        &mut self.streams[usize::from(stream.0)]
    }
}
