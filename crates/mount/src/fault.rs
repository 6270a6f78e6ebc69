//! What cannot be read, and what the kernel is told of it.

use std::fmt;

use onefold::{Error, ErrorKind};
use rustix::io::Errno;
use types::SessionId;

/// Something of a backup that cannot be read. The rest can.
#[derive(Debug)]
pub struct Fault {
    /// The backup.
    pub backup: SessionId,
    /// The file or folder.
    pub path: Vec<u8>,
    /// Why.
    pub error: Error,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = String::from_utf8_lossy(&self.path);
        write!(f, "backup {}: {path}: {}", self.backup, self.error)
    }
}

/// The error number for an error.
pub(crate) fn errno_of(error: &Error) -> Errno {
    match error {
        Error::Forgotten { .. } => Errno::STALE,
        error if error.kind() == ErrorKind::Interrupted => Errno::INTR,
        _ => Errno::IO,
    }
}
