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

mod content;
mod counters;
mod cut;
mod device;
mod disk;
mod history;
mod machine;
mod outcomes;
mod plan;
#[cfg(test)]
mod tests;
mod world;

pub use crate::fault::{Counted, FailWith};
pub use content::DiscardedReads;
pub use counters::{Counters, OpKind, Operation};
pub use cut::PowerCut;
pub use device::FaultDevice;
pub use machine::FaultMachine;
pub use outcomes::Outcomes;
pub use plan::Fault;
