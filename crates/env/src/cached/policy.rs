//! What a cache keeps, and when that counts.

use std::fmt;

use types::ObjectName;

/// What a cache keeps of an object, and when that counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Keep {
    /// Nothing.
    Nothing,
    /// The whole object. It counts if the last listing of this handle shows the object with the
    /// same length and time, or if this handle has put it. What was put here has no time yet: then
    /// the length counts.
    Listed {
        /// Whether an object that is put here is kept.
        when_put: bool,
    },
    /// The end of the object, and with `ranges` also other ranges that are read. They count in the
    /// period in which they were read or put, and in earlier ones.
    OfPeriod {
        /// Whether other ranges than the end are kept, and all of an object that is put.
        ranges: bool,
    },
}

/// Says what a cache keeps.
pub trait CachePolicy: Send + Sync + fmt::Debug {
    /// What is kept of the object of this name.
    fn keep(&self, name: &ObjectName) -> Keep;

    /// Whether these are the whole bytes of an object, as far as that shows without a key. Others
    /// are not kept.
    fn is_whole(&self, name: &ObjectName, bytes: &[u8]) -> bool;

    /// How many of the last bytes of an object are worth to be kept. `tail` has at least some of
    /// them. A later [`get_tail`](crate::Storage::get_tail) gets so many, even if it asks for more. `None`: the
    /// bytes are damaged, or too few.
    fn end_bytes(&self, name: &ObjectName, tail: &[u8], object_len: u64) -> Option<u64>;
}
