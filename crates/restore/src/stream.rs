//! Restores a single stream into a writer.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use recipe::{StoreReader, TreeRoot};
use types::ByteRange;

use crate::assemble::{AssembleOptions, assemble};
use crate::counters::RestoreCounters;
use crate::error::RestoreError;
use crate::message::AssembleStats;
use crate::recipe_prefetch::references_by;
use crate::send::Sink;

/// Receives the bytes of a stream in order.
pub trait Output {
    /// The next bytes.
    ///
    /// # Errors
    /// Errors of the operating system.
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<()>;

    /// The next `len` bytes are zeros.
    ///
    /// # Errors
    /// Errors of the operating system.
    fn skip_zeros(&mut self, len: u64) -> std::io::Result<()>;

    /// The name of the output in error messages.
    fn shown(&self) -> String {
        "the output".to_owned()
    }
}

/// Discards all bytes: to verify or to measure.
impl Output for std::io::Sink {
    fn write(&mut self, _: &[u8]) -> std::io::Result<()> {
        Ok(())
    }

    fn skip_zeros(&mut self, _: u64) -> std::io::Result<()> {
        Ok(())
    }
}

/// Restores a range of a stream.
///
/// # Errors
/// If a byte is lost or cannot be written: half a stream is useless, so the first fault ends it.
/// Everything that was written before is right.
#[expect(clippy::too_many_arguments, reason = "all of them are what a restore is")]
pub fn restore_stream(
    reader: &dyn StoreReader,
    root: &TreeRoot,
    range: ByteRange,
    name: &str,
    output: &mut dyn Output,
    assembling: AssembleOptions,
    counters: &RestoreCounters,
    cancel: &AtomicBool,
) -> Result<AssembleStats, RestoreError> {
    counters.bytes_total.store(range.len, Ordering::Relaxed);
    let mut sink = StreamSink {
        output,
        name,
        counters,
        cancel,
    };
    let stats = read_ranges(reader, root, &[range], &mut sink, assembling)?;
    counters.files.fetch_add(1, Ordering::Relaxed);
    Ok(stats)
}

/// Reads ranges of a stream, one after another, into a sink.
///
/// # Errors
/// Errors of the sink, which decides about bytes that cannot be read; if the reader itself failed.
pub fn read_ranges(
    reader: &dyn StoreReader,
    root: &TreeRoot,
    ranges: &[ByteRange],
    sink: &mut dyn Sink,
    assembling: AssembleOptions,
) -> Result<AssembleStats, RestoreError> {
    let printer = recipe::NodeSource::fingerprinter(reader);
    thread::scope(|scope| {
        let refs = references_by(scope, assembling.prefetch_threads, reader, root, ranges);
        assemble(reader, printer, refs, assembling, sink)
    })
}

struct StreamSink<'a> {
    output: &'a mut dyn Output,
    name: &'a str,
    counters: &'a RestoreCounters,
    cancel: &'a AtomicBool,
}

impl StreamSink<'_> {
    fn count(&self, len: u64) -> Result<(), RestoreError> {
        self.counters.bytes.fetch_add(len, Ordering::Relaxed);
        if self.cancel.load(Ordering::Relaxed) {
            Err(RestoreError::Interrupted)
        } else {
            Ok(())
        }
    }

    fn target(&self, source: std::io::Error) -> RestoreError {
        RestoreError::Target {
            target: self.output.shown(),
            source,
        }
    }
}

impl Sink for StreamSink<'_> {
    fn bytes(&mut self, bytes: &[u8]) -> Result<(), RestoreError> {
        let written = self.output.write(bytes);
        written.map_err(|source| self.target(source))?;
        self.count(bytes.len() as u64)
    }

    fn zeros(&mut self, len: u64) -> Result<(), RestoreError> {
        let written = self.output.skip_zeros(len);
        written.map_err(|source| self.target(source))?;
        self.count(len)
    }

    fn lost(&mut self, _: u64, error: &Arc<RestoreError>) -> Result<(), RestoreError> {
        Err(RestoreError::Lost {
            stream: self.name.to_owned(),
            error: Arc::clone(error),
        })
    }
}
