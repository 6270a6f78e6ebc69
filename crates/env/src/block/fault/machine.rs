//! A process on the machine, and the control of the machine.

use std::fmt;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use types::ByteRange;

use super::content::DiscardedReads;
use super::counters::{Counters, Operation};
use super::cut::{Judge, PowerCut};
use super::plan::Fault;
use super::world::World;

/// One process on a machine that fails on request; see the [module](super).
#[derive(Clone)]
pub struct FaultMachine {
    pub(super) shared: Arc<Shared>,
    pub(super) process: u64,
}

pub(super) struct Shared {
    world: Mutex<World>,
    /// The last change that is finished. A flush reads it when it is called, before it waits for
    /// the mutex: changes that finish meanwhile are not covered.
    pub(super) finished: AtomicU64,
}

impl FaultMachine {
    /// A new machine without disks, and a first process on it.
    #[must_use]
    pub fn new() -> Self {
        Self::on(World::default())
    }

    pub(super) fn on(mut world: World) -> Self {
        let process = world.start();
        let finished = AtomicU64::new(world.changes());
        let world = Mutex::new(world);
        Self {
            shared: Arc::new(Shared { world, finished }),
            process,
        }
    }

    pub(super) fn world(&self) -> MutexGuard<'_, World> {
        self.shared.world.lock().unwrap_or_else(PoisonError::into_inner)
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
