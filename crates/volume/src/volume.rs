//! A volume: a block device whose blocks are anywhere in the pool (D1).
//!
//! Reads and writes are in `read` and `write`. This file has what they share: the parts, the order
//! of locks, the log's commits, flushes.
//!
//! Locks, in this order: the batch slot, the head, a leaf's gate, the core, a shard of the map or
//! its upper pages, the pool's table. The turn of the log's writers is taken with none of these
//! held but the slot, the head or a gate.
//!
//! After a failed write of the log, or a failed flush, nobody knows what is durable. The volume
//! stops: every later request fails, and a new start recovers it.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};
use std::time::Duration;

use env::{AlignedBuffer, BLOCK_BYTES};
use format::pool::header::{VolumeHeader, VolumeSettings};
use types::{BlockNumber, ExtentNumber, VolumeId};

use crate::core::Core;
use crate::counters::Counters;
use crate::dirty::DirtyBlocks;
use crate::error::{Result, VolumeError};
use crate::lock::lock;
use crate::map::Map;
use crate::readers::Readers;
use crate::shared::Shared;
use crate::slot::Slot;

/// Free blocks that first writes leave to overwrites.
pub(crate) const KEPT_FOR_OVERWRITES: u64 = 256;

/// Free blocks that all writes leave to trims, writes of zeros and removals: these need blocks for
/// pages before they free any.
pub(crate) const KEPT_FOR_CUTS: u64 = 16;

/// What free blocks are for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// Some of the volume's blocks had been zeros.
    First,
    /// All had been written before.
    Overwrite,
}

/// A block and its content.
pub(crate) type WholeBlock = (BlockNumber, Box<[u8; 4096]>);

/// The head of a volume, and where it is.
#[derive(Debug)]
pub(crate) struct Head {
    pub(crate) header: VolumeHeader,
    pub(crate) extent: ExtentNumber,
    /// The epoch of the header on the device. Blocks of log of a newer epoch do not count yet.
    pub(crate) stored_epoch: u32,
    /// The pages of the state of the last checkpoint.
    pub(crate) state_pages: Vec<BlockNumber>,
}

/// A volume. Any number of threads may use it.
#[derive(Debug)]
pub struct Volume {
    pub(crate) id: VolumeId,
    pub(crate) shared: Arc<Shared>,
    pub(crate) map: Map,
    pub(crate) readers: Readers,
    pub(crate) dirty: DirtyBlocks,
    pub(crate) counters: Counters,
    core: Mutex<Core>,
    head: Mutex<Head>,
    settings: Mutex<VolumeSettings>,
    blocks: AtomicU64,
    pub(crate) birth: AtomicU32,
    /// Held during a batch of the finder or the collector, and during a checkpoint.
    slot: Mutex<Slot>,
    log_turn: Mutex<()>,
    /// Blocks of log before this one are written.
    log_written: AtomicU64,
    /// See [`Self::settled`].
    settled: AtomicU64,
    pub(crate) refill_turn: Mutex<u64>,
    /// Held while the blocks of a removed volume are freed, and while it becomes a new one.
    dissolving: Mutex<()>,
    /// Held while the volume gets another length.
    resizing: Mutex<()>,
    /// Held by a request that gives references back because very many wait. If that fails, no
    /// request tries it before this time.
    pub(crate) shortening: Mutex<Duration>,
    stopped: OnceLock<String>,
    /// Leaves from this one on have to be searched for private blocks.
    pub(crate) unsearched: AtomicU64,
}

impl Volume {
    pub(crate) fn new(id: VolumeId, shared: Arc<Shared>, map: Map, core: Core, head: Head) -> Self {
        let header = &head.header;
        Self {
            id,
            map,
            readers: Readers::default(),
            dirty: DirtyBlocks::default(),
            counters: Counters::default(),
            settings: Mutex::new(header.settings),
            blocks: AtomicU64::new(header.blocks),
            birth: AtomicU32::new(header.birth),
            slot: Mutex::default(),
            log_turn: Mutex::default(),
            log_written: AtomicU64::new(core.log.position().sequence),
            settled: AtomicU64::new(core.settled()),
            refill_turn: Mutex::new(1),
            dissolving: Mutex::default(),
            resizing: Mutex::default(),
            shortening: Mutex::default(),
            stopped: OnceLock::new(),
            unsearched: AtomicU64::new(0),
            core: Mutex::new(core),
            head: Mutex::new(head),
            shared,
        }
    }

    /// The volume's number, which no other volume of the pool ever has.
    #[must_use]
    pub const fn id(&self) -> VolumeId {
        self.id
    }

    /// The name.
    #[must_use]
    pub fn name(&self) -> String {
        self.head().header.name.clone()
    }

    /// The length in bytes.
    #[must_use]
    pub fn len_bytes(&self) -> u64 {
        self.blocks() * BLOCK_BYTES
    }

    /// What it counted since it was opened.
    #[must_use]
    pub fn counts(&self) -> crate::counters::VolumeCounts {
        self.counters.counts()
    }

    /// The length in blocks.
    pub(crate) fn blocks(&self) -> u64 {
        self.blocks.load(Ordering::Acquire)
    }

    pub(crate) fn set_blocks(&self, blocks: u64) {
        self.blocks.store(blocks, Ordering::Release);
    }

    /// The settings.
    #[must_use]
    pub fn settings(&self) -> VolumeSettings {
        *lock(&self.settings)
    }

    pub(crate) fn keep_settings(&self, settings: VolumeSettings) {
        *lock(&self.settings) = settings;
    }

    pub(crate) fn core(&self) -> MutexGuard<'_, Core> {
        lock(&self.core)
    }

    pub(crate) fn head(&self) -> MutexGuard<'_, Head> {
        lock(&self.head)
    }

    /// The right to send a batch to the index, or to make a checkpoint.
    pub(crate) fn slot(&self) -> MutexGuard<'_, Slot> {
        lock(&self.slot)
    }

    /// The slot, if nobody has it.
    pub(crate) fn try_slot(&self) -> Option<MutexGuard<'_, Slot>> {
        match self.slot.try_lock() {
            Ok(slot) => Some(slot),
            Err(std::sync::TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(std::sync::TryLockError::WouldBlock) => None,
        }
    }

    /// The right to free the blocks of the removed volume.
    pub(crate) fn dissolving(&self) -> MutexGuard<'_, ()> {
        lock(&self.dissolving)
    }

    /// The same, if nobody has it.
    pub(crate) fn try_dissolving(&self) -> Option<MutexGuard<'_, ()>> {
        self.dissolving.try_lock().ok()
    }

    /// The right to give the volume another length. It is taken before all other locks.
    pub(crate) fn resizing(&self) -> MutexGuard<'_, ()> {
        lock(&self.resizing)
    }

    /// A mark that is durable covers the log before the block with this sequence number.
    pub(crate) fn settled(&self) -> u64 {
        self.settled.load(Ordering::Acquire)
    }

    /// Fails if the volume has stopped.
    pub(crate) fn check_running(&self) -> Result<()> {
        match self.stopped.get() {
            None => Ok(()),
            Some(why) => Err(VolumeError::Stopped { why: why.clone() }),
        }
    }

    /// Stops the volume if this failed.
    pub(crate) fn or_stop<T, E: Into<VolumeError>>(&self, result: Result<T, E>) -> Result<T> {
        result.map_err(|error| {
            let error = error.into();
            self.stop(&error.to_string());
            error
        })
    }

    /// Stops the volume.
    pub(crate) fn stop(&self, why: &str) {
        if self.stopped.set(why.to_owned()).is_ok() {
            tracing::error!(volume = %self.id, why, "the volume stops");
        }
    }

    /// Fails unless the range is within the volume.
    pub(crate) fn check_range(&self, offset: u64, len: u64) -> Result<()> {
        let end = offset.saturating_add(len);
        if end <= self.len_bytes() {
            return Ok(());
        }
        Err(VolumeError::OutOfRange {
            offset,
            end,
            len: self.len_bytes(),
        })
    }

    /// Writes the log up to the block with this sequence number. Threads that wait together have
    /// their records written together.
    pub(crate) fn commit(&self, sequence: u64) -> Result<()> {
        if self.log_written.load(Ordering::Acquire) > sequence {
            return Ok(());
        }
        let _turn = lock(&self.log_turn);
        if self.log_written.load(Ordering::Acquire) > sequence {
            return Ok(());
        }
        self.check_running()?;
        let (blocks, next) = {
            let mut core = self.core();
            let core = &mut *core;
            self.or_stop(core.log.seal(&mut core.free))?;
            (core.log.take_sealed(), core.log.position().sequence)
        };
        self.or_stop(self.write_whole(&blocks))?;
        self.counters.log_written(blocks.len() as u64);
        self.log_written.store(next, Ordering::Release);
        Ok(())
    }

    /// Writes whole blocks, successive ones together.
    pub(crate) fn write_whole(&self, blocks: &[WholeBlock]) -> Result<()> {
        let mut rest = blocks;
        while let Some((first, _)) = rest.first() {
            let in_row = rest
                .iter()
                .zip(first.get()..)
                .take_while(|((block, _), expected)| block.get() == *expected)
                .count();
            let (run, others) = rest.split_at(in_row.min(256));
            rest = others;
            let mut bytes = AlignedBuffer::with_capacity(run.len() * 4096);
            for (_, block) in run {
                bytes.extend_from_slice(&block[..]);
            }
            self.shared.device.write_at(Self::at(*first), &bytes)?;
        }
        Ok(())
    }

    /// Makes durable what was acknowledged before this call. Threads that ask at once do not wait
    /// for each other here; the device may let them share a call of the system.
    ///
    /// # Errors
    /// Errors of the device, after which the volume stops.
    pub fn flush(&self) -> Result<()> {
        let timed = self.counters.time(&*self.shared.clock);
        self.flush_now()?;
        self.counters.flushed(&timed);
        Ok(())
    }

    /// Like [`Self::flush`], for the volume itself.
    pub(crate) fn flush_now(&self) -> Result<()> {
        self.check_running()?;
        let covers = {
            let mut core = self.core();
            let core = &mut *core;
            self.or_stop(core.log.seal(&mut core.free))?;
            core.log.position().sequence
        };
        if covers > 0 {
            self.commit(covers - 1)?;
        }
        self.or_stop(self.shared.device.flush())?;
        let mut core = self.core();
        self.or_stop(core.flushed(covers))?;
        self.settled.store(core.settled(), Ordering::Release);
        core.leave_limbo(self.readers.advance());
        Ok(())
    }

    /// The offset of a block on the device.
    pub(crate) const fn at(block: BlockNumber) -> u64 {
        block.get() * BLOCK_BYTES
    }
}
