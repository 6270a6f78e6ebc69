//! Block devices: files and disks of fixed-size blocks that are overwritten in place.
//!
//! [`BlockDevice`] is the door; [`FileDevice`] is a file or a disk, [`MemoryDevice`] is for tests and
//! for measuring.

mod device;
mod file;
mod memory;

pub use device::{BLOCK_BYTES, BlockDevice, DeviceError};
pub use file::{FileCaching, FileDevice};
pub use memory::MemoryDevice;
