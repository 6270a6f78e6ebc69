//! What the volumes of a pool share.

use std::sync::{Arc, Mutex, MutexGuard, Weak};

use crypto::Fingerprinter;
use ddi::DuplicatesIndex;
use env::{BlockDevice, Clock};
use format::pool::superblock::Superblock;
use types::VolumeId;

use crate::error::Result;
use crate::extents::{ExtentTable, Grant};
use crate::volume::{Volume, lock};

/// The device, the index and the table of extents of a pool.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) device: Arc<dyn BlockDevice>,
    pub(crate) index: Arc<dyn DuplicatesIndex>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) printer: Fingerprinter,
    /// Bytes of map that each volume caches.
    pub(crate) map_cache_bytes: usize,
    superblock: Mutex<Superblock>,
    table: Mutex<ExtentTable>,
    /// The volumes, which may give each other free blocks.
    volumes: Mutex<Vec<Weak<Volume>>>,
}

impl Shared {
    pub(crate) fn new(
        device: Arc<dyn BlockDevice>,
        index: Arc<dyn DuplicatesIndex>,
        clock: Arc<dyn Clock>,
        printer: Fingerprinter,
        map_cache_bytes: usize,
        superblock: Superblock,
        table: ExtentTable,
    ) -> Self {
        Self {
            device,
            index,
            clock,
            printer,
            map_cache_bytes,
            superblock: Mutex::new(superblock),
            table: Mutex::new(table),
            volumes: Mutex::default(),
        }
    }

    /// The other volumes of the pool.
    pub(crate) fn others(&self, than: VolumeId) -> Vec<Arc<Volume>> {
        let volumes = lock(&self.volumes);
        let all = volumes.iter().filter_map(Weak::upgrade);
        all.filter(|volume| volume.id != than).collect()
    }

    /// A volume of the pool is open.
    pub(crate) fn add(&self, volume: &Arc<Volume>) {
        lock(&self.volumes).push(Arc::downgrade(volume));
    }

    /// The table of extents. It is taken after any lock of a volume.
    pub(crate) fn table(&self) -> MutexGuard<'_, ExtentTable> {
        lock(&self.table)
    }

    /// The pool's head. It is taken before the table.
    pub(crate) fn superblock(&self) -> MutexGuard<'_, Superblock> {
        lock(&self.superblock)
    }

    /// Grants extents to a volume: durable in the table, unknown to the volume's log.
    pub(crate) fn grant(&self, volume: VolumeId, count: usize) -> Result<Vec<Grant>> {
        self.table().grant(&*self.device, volume, count)
    }
}
