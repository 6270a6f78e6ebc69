//! Workloads: seeded, deterministic, streaming.
//!
//! A [`Workload`] says of what slices its backups are made, and where their chunks end. So it
//! replays as a chunk trace ([`Workload::replay`]) and as bytes ([`write()`]), and both have the
//! same duplicates: bytes that are cut where the trace cuts them are equal exactly where its
//! fingerprints are. Memory is that of the description, some bytes a chunk of what stands at one
//! time, never that of the data.

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

/// Chunks that are handed on at once.
const GROUP: usize = 512;

/// What is backed up, drawn from a seed.
pub trait Workload {
    /// As the command line calls it, and its backups begin.
    fn name(&self) -> &'static str;

    /// What all is drawn from.
    fn seed(&self) -> u64;

    /// How far its bytes compress.
    fn compression(&self) -> Compression {
        Compression::None
    }

    /// Says of each backup, the oldest first, what it is made of: the same each time.
    ///
    /// # Errors
    /// `Settings` where these make no sense; of `out`.
    fn generate(&self, out: &mut dyn Parts) -> Result<(), SimulateError>;

    /// Replays its backups as chunks, the oldest first.
    ///
    /// # Errors
    /// As [`Self::generate`]; of the sink.
    fn replay(&self, sink: &mut dyn Sink) -> Result<(), SimulateError> {
        self.generate(&mut Replay {
            seed: self.seed(),
            sink,
            group: Vec::with_capacity(GROUP),
            merged: Vec::new(),
        })
    }
}

/// What a workload says its backups into.
pub trait Parts {
    /// A backup begins.
    ///
    /// # Errors
    /// Of what takes it.
    fn begin(&mut self, head: &BackupHead) -> Result<(), SimulateError>;

    /// Its next chunks: each of these slices is one.
    ///
    /// # Errors
    /// Of what takes them.
    fn chunks(&mut self, slices: &[Slice]) -> Result<(), SimulateError>;

    /// Its next chunk, of all of these slices.
    ///
    /// # Errors
    /// Of what takes it.
    fn chunk(&mut self, slices: &[Slice]) -> Result<(), SimulateError>;

    /// It is complete.
    ///
    /// # Errors
    /// Of what takes it.
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

/// Writes the bytes of each backup to what `open` gives for it, which is flushed once, when the
/// backup is complete. Content-defined chunking cuts them elsewhere than the trace. `wrote` is told
/// the bytes of each chunk of the trace that was written, and may end it.
///
/// # Errors
/// Of the workload, the system, `open` and `wrote`.
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

/// That chunks can be so long on average.
fn check_chunk_bytes(chunk_bytes: u32) -> Result<(), SimulateError> {
    let lengths = 64..=1 << 20;
    if lengths.contains(&chunk_bytes) {
        Ok(())
    } else {
        let (least, most) = lengths.into_inner();
        Err(SimulateError::Settings(format!(
            "a chunk has {least} to {most} bytes on average"
        )))
    }
}

/// That there is one at least.
fn check_some(count: u64, what: &str) -> Result<(), SimulateError> {
    if count == 0 {
        return Err(SimulateError::Settings(format!("{what}: at least 1 is needed")));
    }
    Ok(())
}

/// That a percentage is one.
fn check_percent(percent: f64, what: &str) -> Result<(), SimulateError> {
    if (0.0..=100.0).contains(&percent) {
        Ok(())
    } else {
        Err(SimulateError::Settings(format!(
            "{what}: {percent} is no percentage"
        )))
    }
}
