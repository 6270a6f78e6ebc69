//! The end of a file's lock.

use std::fs::File;

use rustix::fs::{FlockOperation, flock};

/// Unlocks a file that is about to be closed. Closing alone may leave it locked for a moment: a
/// process that another thread starts has the file open too, until it runs its own program.
pub(crate) fn unlock(file: &File) {
    // What cannot be unlocked is closed all the same.
    flock(file, FlockOperation::Unlock).unwrap_or_default();
}
