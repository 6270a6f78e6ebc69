//! Disks of a machine that fails on request. All crash tests of block devices use them.
//!
//! # The fault model
//!
//! One *machine* keeps the blocks of its disks in memory, with the *live* bytes apart from the
//! *durable* ones. Any number of *processes* use it, each by a handle of its own
//! ([`FaultMachine::process`]). Clones of a handle and its devices are threads of the same process.
//! No lock keeps two processes from opening one disk: hosts that share a disk do so.
//!
//! - A read returns the live bytes, whichever process wrote them. Blocks that nobody wrote are
//!   zeros, and take no memory.
//! - A flush of a disk makes durable the writes of all processes to this disk that were finished
//!   before the flush was called, and nothing else.
//! - A [`Fault`] ends a process or all of them at the n-th operation: before it, after it, or in
//!   the middle of a write. It can also make an operation fail. An ended process gets
//!   [`DeviceError::Gone`](crate::DeviceError) ever after.
//! - Then a test chooses what the fault was. [`FaultMachine::process`] starts a process after a
//!   *kill*: it reads every byte that was written. [`FaultMachine::power_cut`] gives the machine
//!   after a *power cut*: each block has any of the bytes that it had since the last flush over it,
//!   as the [`PowerCut`] says. Several outcomes can be tried at the same moment;
//!   [`FaultMachine::outcomes`] tries all of them, if they are few.
//! - A flush that fails leaves it open for ever whether the writes before it are durable, until
//!   their blocks are written and flushed again.
//! - A discarded block reads as anything ([`DiscardedReads`]), and after a power cut as something
//!   else again. A longer length is undone by a power cut like a write.
//! - Blocks do not rot by themselves. [`FaultMachine::damage`] and
//!   [`FaultMachine::make_unreadable`] do that.
//!
//! Everything is deterministic if the callers are: with one thread, the n-th operation is the same
//! one in every run. Many threads may call all methods; then which operation is the n-th is a race.
//! One mutex guards the machine.
//!
//! # A power cut at every operation
//!
//! ```
//! # use env::{BLOCK_BYTES, BlockDevice, DeviceError};
//! # use env::block::fault::{Fault, FaultMachine};
//! fn scenario(disk: &dyn BlockDevice) -> Result<(), DeviceError> {
//!     disk.write_at(0, &[1; 4096])?; // the data
//!     disk.flush()?;
//!     disk.write_at(BLOCK_BYTES, &[1; 4096])?; // the record that refers to it
//!     disk.flush()
//! }
//! let quiet = FaultMachine::new();
//! scenario(&quiet.create("disk", 2 * BLOCK_BYTES)).unwrap();
//! for n in 1..=quiet.counters().mutating() {
//!     let machine = FaultMachine::new();
//!     let disk = machine.create("disk", 2 * BLOCK_BYTES);
//!     machine.inject(Fault::stop(n));
//!     scenario(&disk).unwrap_err();
//!     for after in machine.outcomes(100).unwrap() {
//!         let disk = after.open("disk").unwrap();
//!         let mut bytes = [0; 2 * 4096];
//!         disk.read_at(0, &mut bytes).unwrap();
//!         assert!(bytes[4096] == 0 || bytes[0] == 1, "a record without its data");
//!     }
//! }
//! ```

mod counters;
mod cut;
mod device;
mod disk;
mod history;
mod plan;
#[cfg(test)]
mod tests;
mod world;

use std::fmt;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use types::ByteRange;

use super::device::DeviceError;
use cut::Judge;
use world::World;

pub use counters::{Counters, OpKind, Operation};
pub use cut::{Outcomes, PowerCut};
pub use device::FaultDevice;
pub use disk::DiscardedReads;
pub use plan::{Counted, FailWith, Fault};

/// One process on a machine that fails on request; see the [module](self).
#[derive(Clone)]
pub struct FaultMachine {
    shared: Arc<Shared>,
    process: u64,
}

struct Shared {
    world: Mutex<World>,
    /// The last change that is finished. A flush reads it when it is called, before it waits for
    /// the mutex: changes that finish meanwhile are not covered.
    finished: AtomicU64,
}

impl FaultMachine {
    /// A new machine without disks, and a first process on it.
    #[must_use]
    pub fn new() -> Self {
        Self::on(World::default())
    }

    fn on(mut world: World) -> Self {
        let process = world.start();
        let finished = AtomicU64::new(world.changes());
        let world = Mutex::new(world);
        Self {
            shared: Arc::new(Shared { world, finished }),
            process,
        }
    }

    fn world(&self) -> MutexGuard<'_, World> {
        self.shared.world.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a disk of `len` bytes, rounded down to whole blocks, and opens it. Its length is
    /// durable. All its bytes are zeros.
    ///
    /// # Panics
    /// If the machine has a disk of this name.
    #[must_use]
    pub fn create(&self, name: &str, len: u64) -> FaultDevice {
        let len = self.world().create(name, len);
        FaultDevice::new(self.clone(), name, len)
    }

    /// Opens a disk.
    ///
    /// # Errors
    /// [`DeviceError::NotFound`]; [`DeviceError::Gone`] if this process has ended.
    pub fn open(&self, name: &str) -> Result<FaultDevice, DeviceError> {
        let len = self.world().open(self.process, name)?;
        Ok(FaultDevice::new(self.clone(), name, len))
    }

    /// Another process on the same machine; after a fault or a kill, the process that is started
    /// next. It sees every byte that was written.
    #[must_use]
    pub fn process(&self) -> Self {
        Self {
            process: self.world().start(),
            shared: Arc::clone(&self.shared),
        }
    }

    /// `kill -9` of this process: what it wrote stays, and all its later calls fail.
    pub fn kill(&self) {
        self.world().end(self.process);
    }

    /// Ends all processes of the machine.
    pub fn stop(&self) {
        self.world().stop();
    }

    /// Whether this process has ended.
    #[must_use]
    pub fn is_gone(&self) -> bool {
        self.world().is_gone(self.process)
    }

    /// A new machine with the same disks, as a power cut at this moment would leave all of them. It
    /// has a first process, no faults, and zero counters. This machine does not change.
    #[must_use]
    pub fn power_cut(&self, policy: PowerCut) -> Self {
        Self::on(self.world().after(&mut Judge::new(policy)))
    }

    /// The machine after each possible power cut at this moment. `None` if there are more than
    /// `count_max`. Blocks are whole or not written; only [`PowerCut`] tears them.
    #[must_use]
    pub fn outcomes(&self, count_max: u64) -> Option<Outcomes> {
        Outcomes::of(&self.world(), count_max)
    }

    /// Blocks of the disk that a power cut could change.
    ///
    /// # Panics
    /// If there is no such disk.
    #[must_use]
    pub fn unflushed_blocks(&self, name: &str) -> usize {
        self.world().unflushed(name)
    }

    /// Arms a fault that counts the operations of all processes, from now on.
    pub fn inject(&self, fault: Fault) {
        self.world().arm(fault, None);
    }

    /// Arms a fault that counts the operations of this process alone, from now on.
    pub fn inject_here(&self, fault: Fault) {
        self.world().arm(fault, Some(self.process));
    }

    /// Removes all faults. An ended process stays ended.
    pub fn clear_faults(&self) {
        self.world().disarm();
    }

    /// Sets how discarded blocks read.
    pub fn set_discarded_reads(&self, reads: DiscardedReads) {
        self.world().set_discarded_reads(reads);
    }

    /// Operations that all processes have requested.
    #[must_use]
    pub fn counters(&self) -> Counters {
        self.world().counters(None)
    }

    /// Operations that this process has requested.
    #[must_use]
    pub fn counters_here(&self) -> Counters {
        self.world().counters(Some(self.process))
    }

    /// Records each operation that is carried out from now on, whole or in part, for tests of their
    /// order.
    pub fn start_trace(&self) {
        self.world().start_trace();
    }

    /// The operations since [`Self::start_trace`]. Ends the recording.
    #[must_use]
    pub fn take_trace(&self) -> Vec<Operation> {
        self.world().take_trace()
    }

    /// Changes a block's bytes, durably and unnoticed: rot, or an attacker.
    ///
    /// # Panics
    /// If there is no such disk, or if `offset` is not that of a block on it.
    pub fn damage(&self, name: &str, offset: u64, damage: impl FnOnce(&mut [u8])) {
        self.world().damage(name, offset, damage);
    }

    /// Makes every read fail that touches these bytes, like bad sectors. A write repairs its
    /// blocks; a power cut does not.
    ///
    /// # Panics
    /// If there is no such disk.
    pub fn make_unreadable(&self, name: &str, range: ByteRange) {
        self.world().make_unreadable(name, range);
    }
}

impl Default for FaultMachine {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for FaultMachine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "FaultMachine(process {})", self.process)
    }
}
