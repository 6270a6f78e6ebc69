//! Counts of a storage's operations, for tests that assert I/O.

use types::ObjectName;

/// The kinds of operations.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum OpKind {
    /// `put`.
    Put,
    /// `barrier`.
    Barrier,
    /// `delete`.
    Delete,
    /// `trim`.
    Trim,
    /// `get`, `get_range`, `get_tail` and `map`.
    Get,
    /// `head` and `can_trim`.
    Head,
    /// `list` and `list_folders`.
    List,
    /// `lock`, `lock_state` and `drop_lock`.
    Lock,
}

impl OpKind {
    /// Whether it changes the stored objects, or which of them are durable.
    #[must_use]
    pub const fn is_mutating(self) -> bool {
        matches!(self, Self::Put | Self::Barrier | Self::Delete | Self::Trim)
    }

    pub(super) const fn word(self) -> &'static str {
        match self {
            Self::Put => "put",
            Self::Barrier => "barrier",
            Self::Delete => "delete",
            Self::Trim => "trim",
            Self::Get => "get",
            Self::Head => "head",
            Self::List => "list",
            Self::Lock => "lock",
        }
    }
}

/// How often each kind of operation was requested (whatever the result), and the bytes transferred.
/// Requests of a stopped machine or a killed process do not count.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Counters {
    /// Puts.
    pub puts: u64,
    /// Bytes of objects that were created.
    pub put_bytes: u64,
    /// Barriers.
    pub barriers: u64,
    /// Deletes.
    pub deletes: u64,
    /// Trims.
    pub trims: u64,
    /// Reads of bytes: whole objects, ranges, tails and maps, one each.
    pub gets: u64,
    /// Bytes that reads returned; a map counts its whole object.
    pub get_bytes: u64,
    /// Heads.
    pub heads: u64,
    /// Listings of objects or folders.
    pub lists: u64,
    /// Rows that listings returned.
    pub listed: u64,
    /// Operations on locks.
    pub locks: u64,
}

impl Counters {
    /// Puts, deletes, trims and barriers.
    #[must_use]
    pub const fn mutating(&self) -> u64 {
        self.puts + self.barriers + self.deletes + self.trims
    }

    /// All operations.
    #[must_use]
    pub const fn all(&self) -> u64 {
        self.mutating() + self.gets + self.heads + self.lists + self.locks
    }

    /// The counts since an earlier reading of the same counters.
    #[must_use]
    pub const fn since(&self, earlier: &Self) -> Self {
        Self {
            puts: self.puts - earlier.puts,
            put_bytes: self.put_bytes - earlier.put_bytes,
            barriers: self.barriers - earlier.barriers,
            deletes: self.deletes - earlier.deletes,
            trims: self.trims - earlier.trims,
            gets: self.gets - earlier.gets,
            get_bytes: self.get_bytes - earlier.get_bytes,
            heads: self.heads - earlier.heads,
            lists: self.lists - earlier.lists,
            listed: self.listed - earlier.listed,
            locks: self.locks - earlier.locks,
        }
    }

    pub(super) fn count(&mut self, kind: OpKind) {
        let counter = match kind {
            OpKind::Put => &mut self.puts,
            OpKind::Barrier => &mut self.barriers,
            OpKind::Delete => &mut self.deletes,
            OpKind::Trim => &mut self.trims,
            OpKind::Get => &mut self.gets,
            OpKind::Head => &mut self.heads,
            OpKind::List => &mut self.lists,
            OpKind::Lock => &mut self.locks,
        };
        *counter += 1;
    }
}

/// One operation, as a trace records it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Operation {
    /// The kind of the operation.
    pub kind: OpKind,
    /// The object, or the folder of a listing; empty for a barrier.
    pub name: String,
    /// Bytes put or read.
    pub bytes: u64,
}

impl Operation {
    /// Whether it has this kind, and its object is in this folder.
    #[must_use]
    pub fn is(&self, kind: OpKind, folder: &str) -> bool {
        self.kind == kind
            && self
                .name
                .strip_prefix(folder)
                .is_some_and(|rest| rest.starts_with('/'))
    }

    pub(super) fn on(kind: OpKind, name: &ObjectName) -> Self {
        Self {
            kind,
            name: name.as_str().to_owned(),
            bytes: 0,
        }
    }

    pub(super) fn at(kind: OpKind, name: &str) -> Self {
        Self {
            kind,
            name: name.to_owned(),
            bytes: 0,
        }
    }
}
