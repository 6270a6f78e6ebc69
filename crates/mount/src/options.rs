//! Options of a mounted file system.

use std::fmt;
use std::sync::Arc;

use onefold::{Filter, UnixNanos};

use crate::fault::Fault;

/// By default so much memory is for data that was read.
pub const CACHE_BYTES: u64 = 256 << 20;

/// Receives what cannot be read. Any thread may call it.
pub type OnFault = dyn Fn(&Fault) + Send + Sync;

/// Options of a mounted file system.
#[derive(Clone)]
pub struct MountOptions {
    /// Which backups it has.
    pub filter: Filter,
    /// Memory for data that was read, in bytes.
    pub cache_bytes: u64,
    /// Threads that read ahead.
    pub threads: usize,
    /// Whether other users than the one who mounts may use it.
    pub is_for_all: bool,
    /// With `is_for_all`: whether the kernel checks permissions by owners and modes.
    pub checks_permissions: bool,
    /// Whether all entries belong to the superuser.
    pub is_owner_root: bool,
    /// User and group of the folders above the backups, and of streams and images.
    pub owner: (u32, u32),
    /// The name for the time of a backup, without a slash.
    pub name_of: Arc<dyn Fn(UnixNanos) -> String + Send + Sync>,
    /// Is told of each file or folder that cannot be read, once.
    pub on_fault: Arc<OnFault>,
}

impl MountOptions {
    /// All backups, for the one who mounts; names by `name_of`.
    pub fn new(name_of: impl Fn(UnixNanos) -> String + Send + Sync + 'static) -> Self {
        let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        Self {
            filter: Filter::default(),
            cache_bytes: CACHE_BYTES,
            threads: cores.clamp(4, 16),
            is_for_all: false,
            checks_permissions: true,
            is_owner_root: false,
            owner: (0, 0),
            name_of: Arc::new(name_of),
            on_fault: Arc::new(|_| {}),
        }
    }
}

impl fmt::Debug for MountOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MountOptions").finish_non_exhaustive()
    }
}
