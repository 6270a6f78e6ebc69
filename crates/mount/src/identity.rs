//! Numbers of inodes. They follow from the path alone, so that an inode that the kernel has
//! forgotten has the same number when it comes back.

use std::hash::{DefaultHasher, Hash, Hasher};

/// The hash of something. It is the same in each run of a program.
pub(crate) fn hash_of(what: impl Hash) -> u64 {
    // This hasher has no random key.
    let mut hasher = DefaultHasher::new();
    what.hash(&mut hasher);
    hasher.finish()
}
