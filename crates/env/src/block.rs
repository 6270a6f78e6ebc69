//! Block devices: files and disks of fixed-size blocks that are overwritten in place.
//!
//! [`BlockDevice`] is the door. [`FileDevice`] is a file or a disk. [`MemoryDevice`] is for
//! measuring. The feature `testing` adds `fault`, disks of a machine that loses what was not
//! flushed, and the suite `conformance`, which every device must pass.

#[cfg(any(test, feature = "testing"))]
pub mod conformance;
mod device;
#[cfg(any(test, feature = "testing"))]
pub mod fault;
#[cfg(unix)]
mod file;
mod memory;

pub use device::{BLOCK_BYTES, BlockDevice, BlockRead, DeviceError};
#[cfg(unix)]
pub use file::{FileCaching, FileDevice};
pub use memory::MemoryDevice;
