//! A storage that fails on request. All crash tests of the workspace use it.
//!
//! # The fault model
//!
//! One *machine* keeps objects in memory, with the *live* state apart from the *durable* one. Any
//! number of *processes* use it, each by a handle of its own ([`FaultStorage::handle`]). Clones of
//! a handle are threads of the same process.
//!
//! - Readers see the live state at once, whichever process made it.
//! - A barrier makes durable what **its own process** has put, deleted, read, listed, or found
//!   missing since its last barrier, in the state of that time; and nothing else. Later changes of
//!   other processes stay undurable.
//! - [`FaultStorage::crash`] gives the machine after a power loss. Each object is decided on its
//!   own. A put that no barrier covers is kept, dropped or torn, as the [`CrashPolicy`] says. A
//!   delete or a trim that no barrier covers may be undone (both names of a trimmed object
//!   together). Several policies can be tried at the same moment.
//! - A [`Fault`] stops the machine at the n-th operation, kills a process there, makes an operation
//!   fail, or tears a put. [`FaultStorage::set_capacity_bytes`] makes the disk fill up.
//! - Locks belong to processes. They are freed when their process ends, by [`FaultStorage::kill`],
//!   by a fault or because its last handle was dropped.
//! - Objects do not rot by themselves. [`FaultStorage::damage`] and [`FaultStorage::lose`] do that,
//!   and [`FaultStorage::make_unreadable`] makes sectors fail: every read that touches them is an
//!   error.
//!
//! Everything is deterministic if the callers are: with one thread, the n-th operation is the same
//! one in every run. Many threads may call all methods; then which operation is the n-th is a race.
//!
//! # A crash at every operation
//!
//! ```
//! # use env::{Storage, fault::{CrashPolicy, Fault, FaultStorage}};
//! # use types::ObjectName;
//! fn scenario(storage: &FaultStorage) -> Result<(), env::StorageError> {
//!     storage.put(&ObjectName::new("data/1").unwrap(), &[b"data"])?;
//!     storage.barrier()?;
//!     storage.put(&ObjectName::new("backups/1").unwrap(), &[b"manifest"])?;
//!     storage.barrier()
//! }
//! let quiet = FaultStorage::new();
//! scenario(&quiet).unwrap();
//! for n in 1..=quiet.counters().mutating() {
//!     let storage = FaultStorage::new();
//!     storage.inject(Fault::stop(n));
//!     scenario(&storage).unwrap_err();
//!     for policy in [CrashPolicy::KeepAll, CrashPolicy::DropAll, CrashPolicy::TearAll] {
//!         let after = storage.crash(policy);
//!         if !after.list("backups").unwrap().is_empty() {
//!             assert_eq!(after.get(&ObjectName::new("data/1").unwrap()).unwrap(), b"data");
//!         }
//!     }
//! }
//! ```

mod counters;
mod crash;
mod handle;
mod history;
mod plan;
#[cfg(test)]
mod tests;
mod world;

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use types::{ByteRange, ObjectName};

use crate::Clock;
use world::World;

pub use counters::{Counters, OpKind, Operation};
pub use crash::CrashPolicy;
pub use plan::{Counted, FailWith, Fault};

/// One process's handle to a machine that fails on request; see the [module](self).
#[derive(Clone)]
pub struct FaultStorage {
    process: Arc<Process>,
}

/// Ends the process on the machine when its last handle is dropped.
struct Process {
    id: u64,
    world: Arc<Mutex<World>>,
}

impl Drop for Process {
    fn drop(&mut self) {
        self.world
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .end(self.id);
    }
}

impl FaultStorage {
    /// A new machine with an empty storage, and a first process on it. Its objects' times begin at
    /// 2024-01-01 and grow by a second with each change.
    #[must_use]
    pub fn new() -> Self {
        Self::on(World::new(None), None)
    }

    /// The same, with objects' times from this clock. Machines after a crash keep the clock.
    #[must_use]
    pub fn with_clock(clock: Arc<dyn Clock>) -> Self {
        Self::on(World::new(Some(clock)), None)
    }

    fn on(mut world: World, host: Option<u64>) -> Self {
        let id = world.start(host);
        Self {
            process: Arc::new(Process {
                id,
                world: Arc::new(Mutex::new(world)),
            }),
        }
    }

    fn world(&self) -> MutexGuard<'_, World> {
        self.process.world.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn join(&self, host: impl FnOnce(&World) -> Option<u64>) -> Self {
        let mut world = self.world();
        let host = host(&world);
        let id = world.start(host);
        drop(world);
        Self {
            process: Arc::new(Process {
                id,
                world: Arc::clone(&self.process.world),
            }),
        }
    }

    /// Another process on the same host.
    #[must_use]
    pub fn handle(&self) -> Self {
        self.join(|world| Some(world.host(self.process.id)))
    }

    /// A process on another host with the same storage. Its locks are
    /// [`Unknown`](crate::LockState::Unknown) here, and the locks here are unknown there.
    #[must_use]
    pub fn handle_elsewhere(&self) -> Self {
        self.join(|_| None)
    }

    /// `kill -9` of this process: the live state stays, its locks are freed, and all its later
    /// calls fail.
    pub fn kill(&self) {
        self.world().end(self.process.id);
    }

    /// The power fails: all later calls of all processes fail. [`Self::crash`] gives the remaining
    /// state.
    pub fn stop(&self) {
        self.world().stop();
    }

    /// Whether this process can no longer act.
    #[must_use]
    pub fn is_gone(&self) -> bool {
        self.world().is_gone(self.process.id)
    }

    /// A new machine with the state that a power loss at this moment would leave. It has a first
    /// process on the same host, no faults, and zero counters. A held lock is free, or its file is
    /// lost. This machine does not change.
    #[must_use]
    pub fn crash(&self, policy: CrashPolicy) -> Self {
        let world = self.world();
        let (after, host) = (world.after_crash(policy), world.host(self.process.id));
        drop(world);
        Self::on(after, Some(host))
    }

    /// Arms a fault that counts the operations of all processes, from now on.
    pub fn inject(&self, fault: Fault) {
        self.world().arm(fault, None);
    }

    /// Arms a fault that counts the operations of this process alone, from now on.
    pub fn inject_here(&self, fault: Fault) {
        self.world().arm(fault, Some(self.process.id));
    }

    /// Removes all faults. A stopped machine stays stopped.
    pub fn clear_faults(&self) {
        self.world().disarm();
    }

    /// Sets the capacity: with live objects of that many bytes the storage is full, and deletes
    /// make room. `None`: unlimited.
    pub fn set_capacity_bytes(&self, bytes: Option<u64>) {
        self.world().set_capacity(bytes);
    }

    /// Operations that all processes have requested.
    #[must_use]
    pub fn counters(&self) -> Counters {
        self.world().counters(None)
    }

    /// Operations that this process has requested.
    #[must_use]
    pub fn counters_here(&self) -> Counters {
        self.world().counters(Some(self.process.id))
    }

    /// Records each operation that is carried out from now on, for tests of their order.
    pub fn start_trace(&self) {
        self.world().start_trace();
    }

    /// The operations since [`Self::start_trace`]. Ends the recording.
    #[must_use]
    pub fn take_trace(&self) -> Vec<Operation> {
        self.world().take_trace()
    }

    /// Changes an object's bytes on the disk, durably and unnoticed: rot, or an attacker. Returns
    /// false if there is no such object.
    pub fn damage(&self, name: &ObjectName, damage: impl FnOnce(&mut Vec<u8>)) -> bool {
        self.world().damage(name, damage)
    }

    /// Makes every read fail that touches these bytes of the object, like a bad sector, until the
    /// machine crashes. Bytes of the same object that were set before become readable again.
    pub fn make_unreadable(&self, name: &ObjectName, range: ByteRange) {
        self.world().make_unreadable(name, range);
    }

    /// Loses an object, durably and unnoticed. Returns false if there is no such object.
    pub fn lose(&self, name: &ObjectName) -> bool {
        self.world().lose(name)
    }

    /// Whether the object exists, and would be the same after any crash.
    #[must_use]
    pub fn is_durable(&self, name: &ObjectName) -> bool {
        self.world().is_durable(name)
    }
}

impl Default for FaultStorage {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for FaultStorage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "FaultStorage(process {})", self.process.id)
    }
}
