//! A pool in a file with one volume, for an experiment.
//!
//! The pool's work beside requests runs only between [`Bed::start`] and [`Bed::stop`]. So beds
//! whose loads take turns do not disturb each other. The folder is removed when the bed is dropped.

use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crypto::{DomainKey, Fingerprinter};
use ddi::{DuplicatesIndex, FjallIndex, FjallOptions};
use env::{FileCaching, FileDevice, SystemClock, SystemEntropy};
use format::pool::frame::PoolId;
use volume::{Background, Pool, PoolOptions, Volume, VolumeSettings};

use crate::disk::{Access, BLOCK_BYTES, Disk, Kind, Process, Traffic, Until, Worker};
use crate::error::LabError;

/// The id of all pools of a run: hosts share an index.
pub(super) const POOL: PoolId = [1; 16];
const MAP_CACHE_BYTES: usize = 64 << 20;

/// A pool with one volume.
#[derive(Debug)]
pub(super) struct Bed {
    background: Option<Background>,
    pub(super) pool: Arc<Pool>,
    pub(super) volume: Arc<Volume>,
    folder: Folder,
}

/// A folder that is removed when it is dropped.
#[derive(Debug)]
pub(super) struct Folder(pub(super) PathBuf);

impl Folder {
    /// Makes a folder.
    pub(super) fn create(path: PathBuf) -> Result<Self, LabError> {
        fs::create_dir_all(&path).map_err(|source| LabError::io(&path.display().to_string(), source))?;
        Ok(Self(path))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // What cannot be removed is for the user to remove.
        drop(fs::remove_dir_all(&self.0));
    }
}

impl Bed {
    /// Makes a pool with a volume of zeros in a new folder, with an index of its own.
    pub(super) fn create(folder: &Path, bytes: u64, settings: VolumeSettings) -> Result<Self, LabError> {
        let folder = Folder::create(folder.to_owned())?;
        let index = FjallIndex::create(&folder.0.join("index"), POOL, FjallOptions::default())?;
        Self::with_index(folder, Arc::new(index), bytes, settings)
    }

    /// Makes a pool with a volume of zeros in a folder. Other pools may use the index.
    pub(super) fn with_index(
        folder: Folder,
        index: Arc<dyn DuplicatesIndex>,
        bytes: u64,
        settings: VolumeSettings,
    ) -> Result<Self, LabError> {
        // Copies take new blocks before old ones are free, and the log has extents of 4 MiB.
        let pool_bytes = 3 * bytes + (512 << 20);
        let device = FileDevice::create(&folder.0.join("pool"), pool_bytes, FileCaching::PageCache)?;
        Pool::create(&device, &SystemEntropy, POOL, "")?;
        let options = PoolOptions {
            clock: Arc::new(SystemClock),
            map_cache_bytes: MAP_CACHE_BYTES,
        };
        let pool = Arc::new(Pool::open(Arc::new(device), index, &options)?);
        let volume = pool.create_volume("v", bytes, settings)?;
        Ok(Self {
            background: None,
            pool,
            volume,
            folder,
        })
    }

    /// Writes every block once, with contents of the traffic.
    pub(super) fn fill(&self, traffic: &Traffic, step: Step<'_>) -> Result<(), LabError> {
        fill(self, self.volume.len_bytes(), traffic, step)
    }

    /// Starts the work beside requests.
    pub(super) fn start(&mut self) -> Result<(), LabError> {
        let started = self.pool.start();
        let path = self.folder.0.display().to_string();
        self.background = Some(started.map_err(|source| LabError::io(&path, source))?);
        Ok(())
    }

    /// Stops the work beside requests.
    pub(super) fn stop(&mut self) {
        self.background = None;
    }

    /// Reads the whole volume, and counts the blocks that another one of equal content makes
    /// redundant.
    pub(super) fn scan(&self, step: Step<'_>) -> Result<u64, LabError> {
        let hasher = Fingerprinter::new(&DomainKey::from_bytes([7; 32]));
        let (mut seen, mut redundant) = (HashSet::new(), 0);
        let mut part = vec![0; 1 << 20];
        let (mut at, len) = (0, self.volume.len_bytes());
        while at < len {
            let here = part.len().min(usize::try_from(len - at).unwrap_or(usize::MAX));
            let bytes = &mut part[..here];
            self.volume.read(at, bytes)?;
            for block in bytes.chunks(4096).filter(|block| block.iter().any(|b| *b != 0)) {
                redundant += u64::from(!seen.insert(hasher.chunk(block)));
            }
            at += here as u64;
            step(here as u64)?;
        }
        Ok(redundant)
    }
}

/// Called with bytes that were read or written; its error ends the work.
pub(super) type Step<'a> = &'a (dyn Fn(u64) -> Result<(), LabError> + Sync);

/// Writes every block of a disk once, and flushes it.
pub(super) fn fill(disk: &dyn Disk, bytes: u64, traffic: &Traffic, step: Step<'_>) -> Result<(), LabError> {
    let sequential = Traffic {
        access: Access::Sequential,
        ..traffic.clone()
    };
    // A number that no process of a load has.
    let process = Process::new(sequential, FILLER, 0..bytes / BLOCK_BYTES)?;
    let blocks = process.len_blocks();
    let mut workers = [Worker {
        process,
        kind: Kind::Writes,
        per_s: None,
    }];
    crate::disk::run(disk, &mut workers, Until::Operations(blocks), step)?;
    disk.flush()
}

const FILLER: u64 = 0x7fff;

impl Disk for Bed {
    fn read(&self, offset: u64, block: &mut [u8]) -> Result<(), LabError> {
        Ok(self.volume.read(offset, block)?)
    }
    fn write(&self, offset: u64, block: &[u8]) -> Result<(), LabError> {
        Ok(self.volume.write(offset, block, false)?)
    }
    fn flush(&self) -> Result<(), LabError> {
        Ok(self.volume.flush()?)
    }
}

/// Writers of a volume or a file, as many as possible a second.
pub(super) fn writers(traffic: &Traffic, count: u64, bytes: u64) -> Result<Vec<Worker>, LabError> {
    let processes = Process::side_by_side(traffic, 0, count, bytes / BLOCK_BYTES)?;
    let workers = processes.into_iter().map(|process| Worker {
        process,
        kind: Kind::FlushedWrites,
        per_s: None,
    });
    Ok(workers.collect())
}
