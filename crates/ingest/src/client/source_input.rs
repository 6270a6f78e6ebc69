//! The reader's end of the pipeline: sources put bytes and steps in here, stream by stream.
//!
//! A source may interleave its streams; each has a batch of its own that goes off when its buffer
//! is full. A source that returns without ending every stream makes no backup.

use std::sync::atomic::{AtomicBool, Ordering};

use env::Clock;

use crate::buffer::{Buffer, BufferPool};
use crate::client::piece::{Batch, CopyRange, Op};
use crate::client::stages::ClientStages;
use crate::client::turns::{BackupTurns, Part, Turns};
use crate::counters::Counters;
use crate::dedup::StreamIndex;
use crate::error::{Failure, Halt, IngestError};
use crate::queue::Sender;
use crate::workers::{ThreadPool, Workers};

/// Steps after which a batch goes off though its buffer is not full.
const OPS_MAX: usize = 4096;

/// What of the backup a source works with.
#[derive(Clone, Copy)]
pub(crate) struct Around<'a> {
    pub(crate) counters: &'a Counters,
    /// Set to stop the backup.
    pub(crate) cancel: &'a AtomicBool,
    pub(crate) failure: &'a Failure,
    pub(crate) stages: &'a ClientStages,
    pub(crate) clock: &'a dyn Clock,
    /// Threads that read small files.
    pub(crate) readers: usize,
    pub(crate) turns: &'a Turns,
}

/// Takes a source's bytes and steps.
pub(crate) struct SourceInput<'a> {
    streams: Vec<Open>,
    pool: BufferPool,
    output: Sender<Batch>,
    turns: BackupTurns<'a>,
    readers: ThreadPool,
    around: Around<'a>,
}

struct Open {
    buffer: Option<Buffer>,
    ops: Ops,
}

/// Steps of a batch. Adjacent steps of one kind are joined.
#[derive(Debug, Default)]
pub(crate) struct Ops(Vec<Op>);

impl Ops {
    /// Adds the next bytes of the buffer, so many.
    pub(crate) fn bytes(&mut self, len: usize) {
        match self.0.last_mut() {
            _ if len == 0 => {}
            Some(Op::Bytes(bytes)) => *bytes += len,
            _ => self.0.push(Op::Bytes(len)),
        }
    }

    /// Adds zeros that need not be read.
    pub(crate) fn zeros(&mut self, len: u64) {
        if len > 0 {
            self.0.push(Op::Zeros(len));
        }
    }

    /// A chunk ends here.
    pub(crate) fn cut(&mut self) {
        if !matches!(self.0.last(), Some(Op::Cut | Op::Zeros(_) | Op::Copy(_))) {
            self.0.push(Op::Cut);
        }
    }

    /// A range of an earlier stream follows.
    pub(crate) fn copy(&mut self, range: CopyRange) {
        match self.0.last_mut() {
            _ if range.len == 0 => {}
            Some(Op::Copy(last))
                if std::sync::Arc::ptr_eq(&last.root, &range.root)
                    && last.offset + last.len == range.offset =>
            {
                last.len += range.len;
            }
            _ => self.0.push(Op::Copy(range)),
        }
    }
}

impl<'a> SourceInput<'a> {
    pub(crate) fn new(
        streams: usize,
        pool: BufferPool,
        output: Sender<Batch>,
        readers: ThreadPool,
        around: Around<'a>,
    ) -> Self {
        let streams = (0..streams)
            .map(|_| Open {
                buffer: None,
                ops: Ops::default(),
            })
            .collect();
        Self {
            streams,
            pool,
            output,
            turns: around.turns.of_backup(around.clock),
            readers,
            around,
        }
    }

    /// Threads that read ahead, so many; the first call starts them.
    ///
    /// # Errors
    /// When the system gives no threads.
    pub(crate) fn readers(&self, threads: usize) -> Result<Workers, Halt> {
        let readers = self.readers.workers(threads, &self.around.stages.read);
        Ok(readers.map_err(IngestError::NoThread)?)
    }

    /// The backup's counters.
    #[must_use]
    pub(crate) fn counters(&self) -> &'a Counters {
        self.around.counters
    }

    /// What of the backup it works with.
    #[must_use]
    pub(crate) fn around(&self) -> Around<'a> {
        self.around
    }

    /// Room for the stream's next bytes; never empty.
    ///
    /// # Errors
    /// If the backup must stop, by request or because another stage failed.
    pub(crate) fn spare(&mut self, stream: StreamIndex) -> Result<&mut [u8], Halt> {
        self.ensure_wanted()?;
        if self.open(stream).buffer.as_ref().is_some_and(Buffer::is_full) {
            self.flush(stream)?;
        }
        if self.open(stream).buffer.is_none() {
            self.take_turn()?;
        }
        let pool = &self.pool;
        let open = &mut self.streams[usize::from(stream.0)];
        Ok(open.buffer.get_or_insert_with(|| pool.take()).spare_mut())
    }

    /// Adds the first `len` bytes of the room that [`Self::spare`] returned.
    pub(crate) fn advance(&mut self, stream: StreamIndex, len: usize) {
        let open = self.open(stream);
        open.buffer.as_mut().expect("spare() gave room").advance(len);
        open.ops.bytes(len);
        self.around.counters.bytes_read.add(len as u64);
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
            open.ops.bytes(len);
        }
        Ok(())
    }

    /// A chunk ends here: the end of a file.
    pub(crate) fn cut(&mut self, stream: StreamIndex) -> Result<(), Halt> {
        self.open(stream).ops.cut();
        self.flush_if_many(stream)
    }

    /// Adds zeros that need not be read.
    pub(crate) fn zeros(&mut self, stream: StreamIndex, len: u64) -> Result<(), Halt> {
        self.open(stream).ops.zeros(len);
        self.flush_if_many(stream)
    }

    /// A range of an earlier stream follows; ranges that continue each other are joined.
    pub(crate) fn copy(&mut self, stream: StreamIndex, range: CopyRange) -> Result<(), Halt> {
        self.open(stream).ops.copy(range);
        self.flush_if_many(stream)
    }

    /// Adds a batch that another thread made: the buffer, from [`Self::pool`], and steps that use
    /// all its bytes.
    ///
    /// # Errors
    /// Those of [`Self::spare`].
    pub(crate) fn whole(&mut self, stream: StreamIndex, buffer: Buffer, ops: Ops) -> Result<(), Halt> {
        self.flush(stream)?;
        let bytes = buffer.filled().len();
        self.around.counters.bytes_read.add(bytes as u64);
        self.take_turn()?;
        let batch = Batch {
            stream,
            buffer,
            ops: ops.0,
        };
        self.send(batch)
    }

    /// The pool of buffers.
    #[must_use]
    pub(crate) fn pool(&self) -> &BufferPool {
        &self.pool
    }

    /// The stream is complete.
    pub(crate) fn end(&mut self, stream: StreamIndex) -> Result<(), Halt> {
        self.open(stream).ops.0.push(Op::End);
        self.flush(stream)
    }

    /// Checks for a failed stage. One thread of a stage can fail while the others still take
    /// everything, so the queues alone do not show it.
    pub(crate) fn ensure_wanted(&self) -> Result<(), Halt> {
        if self.around.failure.is_noted() {
            return Err(Halt::Closed);
        }
        if self.around.cancel.load(Ordering::Relaxed) {
            return Err(IngestError::Interrupted.into());
        }
        Ok(())
    }

    /// Waits until the source may go on.
    fn take_turn(&mut self) -> Result<(), Halt> {
        let Around { failure, cancel, .. } = self.around;
        self.turns
            .take(|| !failure.is_noted() && !cancel.load(Ordering::Relaxed));
        self.ensure_wanted()
    }

    fn flush_if_many(&mut self, stream: StreamIndex) -> Result<(), Halt> {
        if self.open(stream).ops.0.len() >= OPS_MAX {
            self.flush(stream)
        } else {
            Ok(())
        }
    }

    fn flush(&mut self, stream: StreamIndex) -> Result<(), Halt> {
        self.ensure_wanted()?;
        let pool = self.pool.clone();
        let open = self.open(stream);
        let ops = std::mem::take(&mut open.ops).0;
        if ops.is_empty() {
            return Ok(());
        }
        let buffer = open.buffer.take().unwrap_or_else(|| pool.take());
        self.send(Batch { stream, buffer, ops })
    }

    fn send(&mut self, batch: Batch) -> Result<(), Halt> {
        let part = Part {
            bytes: batch.buffer.filled().len(),
            is_in_new_memory: batch.buffer.is_new(),
        };
        self.turns.send(part, || self.output.send(batch))?;
        Ok(())
    }

    fn open(&mut self, stream: StreamIndex) -> &mut Open {
        &mut self.streams[usize::from(stream.0)]
    }
}
