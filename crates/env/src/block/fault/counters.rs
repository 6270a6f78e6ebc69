//! Counts of the operations of disks, for tests that assert I/O.

/// The kinds of operations.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum OpKind {
    /// `read_at` and `read_vectored_at`.
    Read,
    /// `write_at` and `write_vectored_at`.
    Write,
    /// `flush`.
    Flush,
    /// `discard`.
    Discard,
    /// `grow`.
    Grow,
}

impl OpKind {
    /// Whether it changes blocks or the length, or which of them are durable.
    #[must_use]
    pub const fn is_mutating(self) -> bool {
        !matches!(self, Self::Read)
    }

    pub(super) const fn word(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Flush => "flush",
            Self::Discard => "discard",
            Self::Grow => "grow",
        }
    }
}

/// How often each kind of operation was requested, and its bytes, whatever the result. Requests of
/// an ended process do not count, and requests that are out of range do not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Counters {
    /// Reads. A read into several buffers is one.
    pub reads: u64,
    /// Bytes of reads.
    pub read_bytes: u64,
    /// Writes. A write from several buffers is one.
    pub writes: u64,
    /// Bytes of writes.
    pub write_bytes: u64,
    /// Flushes.
    pub flushes: u64,
    /// Discards.
    pub discards: u64,
    /// Bytes of discards.
    pub discard_bytes: u64,
    /// Growths, also those that change nothing.
    pub grows: u64,
}

impl Counters {
    /// Writes, flushes, discards and growths.
    #[must_use]
    pub const fn mutating(&self) -> u64 {
        self.writes + self.flushes + self.discards + self.grows
    }

    /// All operations.
    #[must_use]
    pub const fn all(&self) -> u64 {
        self.mutating() + self.reads
    }

    /// The counts since an earlier reading of the same counters.
    #[must_use]
    pub const fn since(&self, earlier: &Self) -> Self {
        Self {
            reads: self.reads - earlier.reads,
            read_bytes: self.read_bytes - earlier.read_bytes,
            writes: self.writes - earlier.writes,
            write_bytes: self.write_bytes - earlier.write_bytes,
            flushes: self.flushes - earlier.flushes,
            discards: self.discards - earlier.discards,
            discard_bytes: self.discard_bytes - earlier.discard_bytes,
            grows: self.grows - earlier.grows,
        }
    }

    pub(super) fn count(&mut self, kind: OpKind, bytes: u64) {
        match kind {
            OpKind::Read => {
                self.reads += 1;
                self.read_bytes += bytes;
            }
            OpKind::Write => {
                self.writes += 1;
                self.write_bytes += bytes;
            }
            OpKind::Flush => self.flushes += 1,
            OpKind::Discard => {
                self.discards += 1;
                self.discard_bytes += bytes;
            }
            OpKind::Grow => self.grows += 1,
        }
    }
}

/// One operation, as a trace records it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Operation {
    /// The kind of the operation.
    pub kind: OpKind,
    /// The disk.
    pub device: String,
    /// The first byte; 0 for a flush and a growth.
    pub offset: u64,
    /// The number of bytes; the new length of a growth; 0 for a flush.
    pub len: u64,
}
