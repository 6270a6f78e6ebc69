//! Workloads: seeded, deterministic, streaming.
//!
//! A [`Workload`] describes its backups as slices, and their chunks' boundaries. It replays as a
//! chunk trace ([`Workload::replay`]) and as bytes ([`write()`]), and both have the same
//! duplicates: bytes cut at the trace's boundaries are equal exactly where its fingerprints are.
//! Memory is that of the description, some bytes for each chunk of the current state, never that of
//! the data.

mod content;
mod edits;
mod files;
mod images;
mod lengths;
mod lineages;
mod rope;
#[cfg(test)]
mod tests;
mod two_year;
mod unique;
pub(crate) mod vm;
mod workgroup;

use std::io::Write;

pub use content::{Compression, Slice};
pub use edits::Edits;
pub use images::{ImageChunks, Images};
pub use lineages::{Clusters, Lineages};
use simulate::{BackupHead, Chunk, SimulateError, Sink};
pub use two_year::TwoYear;
pub use unique::Unique;
pub use vm::Vm;
pub use workgroup::Workgroup;

/// Chunks that are passed on together.
const GROUP: usize = 512;

/// A series of backups that is drawn from a seed.
pub trait Workload {
    /// Its name on the command line. Names of its backups begin with it.
    fn name(&self) -> &'static str;

    /// The seed of all random numbers.
    fn seed(&self) -> u64;

    /// How well its bytes compress.
    fn compression(&self) -> Compression {
        Compression::None
    }

    /// Describes all backups to `out`, the oldest first. The result is the same each time.
    ///
    /// # Errors
    /// `Settings` if these make no sense; errors of `out`.
    fn generate(&self, out: &mut dyn Parts) -> Result<(), SimulateError>;

    /// Replays its backups as chunks, the oldest first.
    ///
    /// # Errors
    /// As [`Self::generate`]; errors of the sink.
    fn replay(&self, sink: &mut dyn Sink) -> Result<(), SimulateError> {
        self.generate(&mut Replay {
            seed: self.seed(),
            sink,
            group: Vec::with_capacity(GROUP),
            merged: Vec::new(),
        })
    }
}

/// Receives the backups of a workload.
pub trait Parts {
    /// Begins a backup.
    ///
    /// # Errors
    /// Errors of the receiver.
    fn begin(&mut self, head: &BackupHead) -> Result<(), SimulateError>;

    /// Adds the next chunks. Each slice is one chunk.
    ///
    /// # Errors
    /// Errors of the receiver.
    fn chunks(&mut self, slices: &[Slice]) -> Result<(), SimulateError>;

    /// Adds the next chunk, joined from all of these slices.
    ///
    /// # Errors
    /// Errors of the receiver.
    fn chunk(&mut self, slices: &[Slice]) -> Result<(), SimulateError>;

    /// Ends the backup.
    ///
    /// # Errors
    /// Errors of the receiver.
    fn end(&mut self) -> Result<(), SimulateError>;
}

impl<W: Workload + ?Sized> Workload for Box<W> {
    fn name(&self) -> &'static str {
        (**self).name()
    }
    fn seed(&self) -> u64 {
        (**self).seed()
    }
    fn compression(&self) -> Compression {
        (**self).compression()
    }
    fn generate(&self, out: &mut dyn Parts) -> Result<(), SimulateError> {
        (**self).generate(out)
    }
}

struct Replay<'a> {
    seed: u64,
    sink: &'a mut dyn Sink,
    group: Vec<Chunk>,
    merged: Vec<Slice>,
}

impl Replay<'_> {
    fn push(&mut self, chunk: Chunk) -> Result<(), SimulateError> {
        self.group.push(chunk);
        if self.group.len() == GROUP {
            self.sink.chunks(&self.group)?;
            self.group.clear();
        }
        Ok(())
    }
}

impl Parts for Replay<'_> {
    fn begin(&mut self, head: &BackupHead) -> Result<(), SimulateError> {
        self.sink.begin(head)
    }

    fn chunks(&mut self, slices: &[Slice]) -> Result<(), SimulateError> {
        slices
            .iter()
            .try_for_each(|slice| self.push(slice.chunk(self.seed)))
    }

    fn chunk(&mut self, slices: &[Slice]) -> Result<(), SimulateError> {
        let chunk = content::chunk(self.seed, slices, &mut self.merged);
        self.push(chunk)
    }

    fn end(&mut self) -> Result<(), SimulateError> {
        if !self.group.is_empty() {
            self.sink.chunks(&self.group)?;
            self.group.clear();
        }
        self.sink.end()
    }
}

/// Writes the bytes of each backup to the writer that `open` returns for it, and flushes it once,
/// after the backup. Content-defined chunking cuts the bytes at other places than the trace.
/// `wrote` receives the number of bytes of each written chunk of the trace, and may stop the
/// writing by an error.
///
/// # Errors
/// Of the workload, the operating system, `open` and `wrote`.
pub fn write<W: Write>(
    workload: &(impl Workload + ?Sized),
    open: impl FnMut(&BackupHead) -> Result<W, SimulateError>,
    wrote: impl FnMut(u64) -> Result<(), SimulateError>,
) -> Result<(), SimulateError> {
    workload.generate(&mut Bytes {
        seed: workload.seed(),
        compression: workload.compression(),
        open,
        wrote,
        out: None,
        buffer: Vec::new(),
    })
}

struct Bytes<O, T, W> {
    seed: u64,
    compression: Compression,
    open: O,
    wrote: T,
    out: Option<(String, W)>,
    buffer: Vec<u8>,
}

impl<O, T, W> Parts for Bytes<O, T, W>
where
    O: FnMut(&BackupHead) -> Result<W, SimulateError>,
    T: FnMut(u64) -> Result<(), SimulateError>,
    W: Write,
{
    fn begin(&mut self, head: &BackupHead) -> Result<(), SimulateError> {
        self.out = Some((head.name.clone(), (self.open)(head)?));
        Ok(())
    }

    fn chunks(&mut self, slices: &[Slice]) -> Result<(), SimulateError> {
        slices
            .iter()
            .try_for_each(|slice| self.chunk(std::slice::from_ref(slice)))
    }

    fn chunk(&mut self, slices: &[Slice]) -> Result<(), SimulateError> {
        self.buffer.clear();
        for slice in slices {
            slice.write(self.seed, self.compression, &mut self.buffer);
        }
        let (what, out) = self.out.as_mut().expect("a workload begins a backup first");
        out.write_all(&self.buffer).map_err(|source| SimulateError::Io {
            what: what.clone(),
            source,
        })?;
        (self.wrote)(self.buffer.len() as u64)
    }

    fn end(&mut self) -> Result<(), SimulateError> {
        let (what, mut out) = self.out.take().expect("a workload begins a backup first");
        out.flush().map_err(|source| SimulateError::Io { what, source })
    }
}

/// Checks that chunks can have this average length.
fn check_chunk_bytes(chunk_bytes: u32) -> Result<(), SimulateError> {
    let lengths = 64..=1 << 20;
    if lengths.contains(&chunk_bytes) {
        Ok(())
    } else {
        let (least, most) = lengths.into_inner();
        Err(SimulateError::Settings(format!(
            "the average chunk length must be {least} to {most} bytes"
        )))
    }
}

/// Checks that the count is at least one.
fn check_some(count: u64, what: &str) -> Result<(), SimulateError> {
    if count == 0 {
        return Err(SimulateError::Settings(format!("{what}: must be at least 1")));
    }
    Ok(())
}

/// Checks that the percentage is from 0 to 100.
fn check_percent(percent: f64, what: &str) -> Result<(), SimulateError> {
    if (0.0..=100.0).contains(&percent) {
        Ok(())
    } else {
        Err(SimulateError::Settings(format!(
            "{what}: {percent} is no percentage from 0 to 100"
        )))
    }
}
