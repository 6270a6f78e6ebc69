//! The backups of a store as a read-only file system, by FUSE.
//!
//! [`FileSystem`] answers questions about inodes by numbers, without FUSE; [`mount()`] serves it to
//! the kernel. A repository may be a store in this process or on a server.
//!
//! The top has `ids/N`, `snapshots/TIME`, `hosts/HOST/TIME` and `tags/TAG/TIME`; each folder by
//! time has a link `latest`. Nothing is read of a backup, and it is not pinned, until something in
//! it or its top folder is looked up. Below a backup nothing changes, so the kernel keeps what it
//! was told. Bytes are compared with the fingerprints of their chunks before they leave (INV-5): a
//! read of damaged data fails with `EIO`, and [`Fault`] names the file. Memory is bounded by the
//! cache and by what the kernel remembers.

mod attributes;
mod cache;
mod cached_reader;
mod content;
mod fault;
mod file_system;
mod folders;
mod fuse;
mod identity;
mod item;
mod layout;
mod nodes;
mod options;
mod pins;
mod read_ahead;
mod regions;
mod session;
mod warm;

pub use attributes::{Attributes, Kind};
pub use fault::Fault;
pub use file_system::{Entry, FileSystem, Listed};
pub use options::{CACHE_BYTES, MountOptions, OnFault};
pub use session::{MountError, Mounted, mount};

/// The target of this crate's events.
pub(crate) const TARGET: &str = "onefold::mount";
