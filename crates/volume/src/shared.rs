//! What the volumes of a pool share.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, Weak};

use crypto::Fingerprinter;
use ddi::DuplicatesIndex;
use env::{BlockDevice, Clock};
use format::pool::frame::PoolId;
use format::pool::superblock::Superblock;
use types::VolumeId;

use crate::error::{Result, VolumeError};
use crate::extents::{ExtentTable, Grant};
use crate::free::Run;
use crate::lock::lock;

/// The device, the index and the table of extents of a pool.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) device: Arc<dyn BlockDevice>,
    pub(crate) index: Arc<dyn DuplicatesIndex>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) printer: Fingerprinter,
    /// Bytes of map that each volume caches.
    pub(crate) map_cache_bytes: usize,
    /// The pool's id.
    pub(crate) pool: PoolId,
    /// The epoch of the logs since the pool was opened. No other opening has it.
    pub(crate) epoch: u32,
    superblock: Mutex<Superblock>,
    table: Mutex<ExtentTable>,
    /// The volumes, which may give each other free blocks.
    givers: Mutex<Vec<Weak<dyn Giver>>>,
    mismatch: Mutex<Option<Mismatch>>,
    /// Whether the device could not read a volume.
    has_unread: AtomicBool,
}

/// Free blocks that one volume gave to another.
#[derive(Debug, Clone)]
pub(crate) struct Gift {
    pub(crate) from: VolumeId,
    pub(crate) to: VolumeId,
    pub(crate) number: u64,
    pub(crate) runs: Vec<Run>,
}

/// A volume that may give free blocks away.
pub(crate) trait Giver: std::fmt::Debug + Send + Sync {
    /// The volume.
    fn id(&self) -> VolumeId;

    /// Its free blocks.
    fn free_blocks(&self) -> u64;

    /// Gives some of them away. `accept` makes them the taker's, durably, before the giver makes a
    /// checkpoint. Returns whether there were any.
    fn give(&self, taker: VolumeId, wanted: u64, accept: &mut dyn FnMut(&Gift) -> Result<()>)
    -> Result<bool>;
}

/// The epoch of an opening: the number of writes of the superblock, of which it begins with one.
fn epoch_of(superblock: &Superblock) -> u32 {
    u32::try_from(superblock.counter).unwrap_or(u32::MAX)
}

/// A volume whose last batch is not the index's last one.
#[derive(Debug, Clone)]
pub(crate) struct Mismatch {
    pub(crate) volume: String,
    pub(crate) found: u64,
    pub(crate) expected: u64,
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
            pool: superblock.pool,
            epoch: epoch_of(&superblock),
            superblock: Mutex::new(superblock),
            table: Mutex::new(table),
            givers: Mutex::default(),
            mismatch: Mutex::default(),
            has_unread: AtomicBool::new(false),
        }
    }

    /// The index does not match a volume: it lost batches, or the pool is an old copy. Then it may
    /// count too few references of any volume, and no volume may use it (V7).
    pub(crate) fn set_mismatch(&self, mismatch: Option<Mismatch>) {
        *lock(&self.mismatch) = mismatch;
    }

    /// Fails if the index does not match a volume.
    pub(crate) fn check_index(&self) -> Result<()> {
        match lock(&self.mismatch).clone() {
            None => Ok(()),
            Some(Mismatch {
                volume,
                found,
                expected,
            }) => Err(VolumeError::NeedsRecount {
                volume,
                found,
                expected,
            }),
        }
    }

    /// The device could not read a volume. So nobody has compared its last batch with the index's,
    /// and the index may count too few references (V7).
    pub(crate) fn set_unread(&self) {
        self.has_unread.store(true, Ordering::Release);
    }

    /// Whether references may be given back, and blocks freed by that.
    pub(crate) fn may_collect(&self) -> bool {
        !self.has_unread.load(Ordering::Acquire)
    }

    /// The other volumes of the pool, those with most free blocks first.
    pub(crate) fn givers(&self, but: VolumeId) -> Vec<Arc<dyn Giver>> {
        let all: Vec<_> = lock(&self.givers).iter().filter_map(Weak::upgrade).collect();
        let mut others: Vec<_> = all.into_iter().filter(|giver| giver.id() != but).collect();
        others.sort_by_key(|giver| std::cmp::Reverse(giver.free_blocks()));
        others
    }

    /// A volume of the pool is open.
    pub(crate) fn add(&self, giver: Weak<dyn Giver>) {
        lock(&self.givers).push(giver);
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
