//! The volumes of a pool as exports.

use std::sync::Arc;

use volume::{Pool, Volume, VolumeError, VolumeRead};

use crate::export::{Export, ExportError, ExportRead, Exports, RunState, Runs, Zeroing};
use crate::holes::Holes;

/// Ranges that a volume is asked for at once.
const STATUS_RUNS: usize = 1024;

/// Each volume of a pool is an export of its name.
#[derive(Debug, Clone)]
pub struct PoolExports {
    pool: Arc<Pool>,
}

impl PoolExports {
    /// The volumes of this pool.
    #[must_use]
    pub const fn new(pool: Arc<Pool>) -> Self {
        Self { pool }
    }
}

impl Exports for PoolExports {
    fn list(&self) -> Vec<String> {
        self.pool.volumes().iter().map(|volume| volume.name()).collect()
    }

    fn open(&self, name: &str) -> Option<Arc<dyn Export>> {
        let volume = if name.is_empty() {
            // The default export is the only volume.
            let mut volumes = self.pool.volumes();
            (volumes.len() == 1).then(|| volumes.remove(0))
        } else {
            self.pool.volume(name).ok()
        };
        volume.map(|volume| Arc::new(VolumeExport { volume }) as _)
    }
}

/// A volume as an export.
#[derive(Debug)]
struct VolumeExport {
    volume: Arc<Volume>,
}

impl Export for VolumeExport {
    fn size_bytes(&self) -> u64 {
        self.volume.len_bytes()
    }

    fn is_read_only(&self) -> bool {
        false
    }

    fn description(&self) -> String {
        format!("Onefold volume {}", self.volume.id())
    }

    fn read(&self, offset: u64, into: &mut [u8], holes: &mut Holes) -> Result<(), ExportError> {
        let done = self
            .volume
            .read_with_holes(offset, into, &mut |hole| holes.add(hole));
        done.map_err(export_error)
    }

    fn reads_at_once(&self) -> usize {
        self.volume.reads_at_once()
    }

    fn read_many(&self, reads: &mut [ExportRead<'_>]) {
        let (mut wanted, mut holes) = (Vec::with_capacity(reads.len()), Vec::with_capacity(reads.len()));
        for read in &mut *reads {
            wanted.push(VolumeRead::new(read.offset, read.into));
            holes.push(&mut read.holes);
        }
        self.volume
            .read_many(&mut wanted, &mut |read, hole| holes[read].add(hole));
        let ends: Vec<_> = wanted.into_iter().map(|read| read.done).collect();
        for (read, done) in reads.iter_mut().zip(ends) {
            read.done = done.map_err(export_error);
        }
    }

    fn write(&self, offset: u64, bytes: &[u8], fua: bool) -> Result<(), ExportError> {
        self.volume.write(offset, bytes, fua).map_err(export_error)
    }

    fn flush(&self) -> Result<(), ExportError> {
        self.volume.flush().map_err(export_error)
    }

    fn trim(&self, offset: u64, len: u64, fua: bool) -> Result<(), ExportError> {
        self.volume.trim(offset, len, fua).map_err(export_error)
    }

    fn write_zeroes(&self, offset: u64, len: u64, _: Zeroing, fua: bool) -> Result<(), ExportError> {
        // Zeros are always faster than a write, and never take space: a volume has no space of its
        // own that a client could keep.
        self.volume.write_zeroes(offset, len, fua).map_err(export_error)
    }

    fn status(&self, _: &str, offset: u64, len: u64, runs: &mut Runs) -> Result<(), ExportError> {
        let found = self
            .volume
            .status(offset, len, STATUS_RUNS)
            .map_err(export_error)?;
        for run in found {
            let state = if run.has_blocks {
                RunState::Data
            } else {
                RunState::Hole
            };
            if !runs.push(run.len, state) {
                break;
            }
        }
        Ok(())
    }

    fn cache(&self, _: u64, _: u64) -> Result<(), ExportError> {
        Ok(())
    }
}

fn export_error(error: VolumeError) -> ExportError {
    let detail = error.to_string();
    match error {
        VolumeError::NoSpace => ExportError::NoSpace { detail },
        VolumeError::OutOfRange { .. } | VolumeError::Invalid { .. } => ExportError::Invalid { detail },
        _ => ExportError::Failed { detail },
    }
}
