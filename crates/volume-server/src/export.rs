//! What a server serves: the traits [`Export`] and [`Exports`].

use std::sync::Arc;

use nbd::numbers::state;
use nbd::{ALLOCATION_CONTEXT, Errno};

use crate::holes::Holes;

/// A device that clients read and write.
///
/// Any number of threads call everything at once. Offsets and lengths are any bytes within the
/// size: the server checks the range, and never asks for zero bytes.
///
/// The memory of a read begins at a multiple of [`env::ALIGN_BYTES`]. So does the memory of a
/// write, unless writes take so little time that nothing can be waiting for a disk. The server
/// divides long requests into pieces of at least 64 KiB. All but the last one are whole blocks of 4
/// KiB, and a client may write one and then fail to send the next.
///
/// A write that returned is seen by every later read on every connection. A flush makes durable
/// every write that returned before the flush began, on every connection (`CAN_MULTI_CONN`).
///
/// An error of a request is answered to the client, and the server continues.
pub trait Export: Send + Sync {
    /// Its size in bytes. A connection uses the size that it was opened with.
    fn size_bytes(&self) -> u64;

    /// Whether writes fail.
    fn is_read_only(&self) -> bool;

    /// Text for people. May be empty.
    fn description(&self) -> String {
        String::new()
    }

    /// Names of the metadata contexts that [`Self::status`] knows, such as
    /// `qemu:dirty-bitmap:NAME`.
    fn contexts(&self) -> Vec<String> {
        vec![ALLOCATION_CONTEXT.to_owned()]
    }

    /// Reads bytes. May tell parts that have no space: they are zeros, in the memory too, and the
    /// server need not send them.
    ///
    /// # Errors
    /// [`ExportError`]. Then the memory has any bytes, and the client sees none of them.
    fn read(&self, offset: u64, into: &mut [u8], holes: &mut Holes) -> Result<(), ExportError>;

    /// How many reads of one [`Self::read_many`] run at the same time. With 1, the server calls
    /// [`Self::read`] from several threads instead.
    fn reads_at_once(&self) -> usize {
        1
    }

    /// Does several reads, and returns when all are done. Each has an outcome of its own, which is
    /// that of a [`Self::read`].
    fn read_many(&self, reads: &mut [ExportRead<'_>]) {
        for read in reads {
            read.done = self.read(read.offset, read.into, &mut read.holes);
        }
    }

    /// Writes bytes. With `fua` they are durable when this returns.
    ///
    /// # Errors
    /// [`ExportError`]
    fn write(&self, offset: u64, bytes: &[u8], fua: bool) -> Result<(), ExportError>;

    /// Makes durable what was written before.
    ///
    /// # Errors
    /// [`ExportError`]
    fn flush(&self) -> Result<(), ExportError>;

    /// Drops the content of a range, or a part of it. With `fua` the drop is durable when this
    /// returns.
    ///
    /// # Errors
    /// [`ExportError`]
    fn trim(&self, offset: u64, len: u64, fua: bool) -> Result<(), ExportError>;

    /// Makes a range read as zeros. With `fua` they are durable when this returns.
    ///
    /// # Errors
    /// [`ExportError`]. [`ExportError::NotSupported`] if `how.is_fast` and it is no faster than a
    /// write; then nothing has changed.
    fn write_zeroes(&self, offset: u64, len: u64, how: Zeroing, fua: bool) -> Result<(), ExportError>;

    /// Tells the status of a range in one of [`Self::contexts`], from its first byte on. May stop
    /// early, but not before the first run.
    ///
    /// # Errors
    /// [`ExportError`]
    fn status(&self, context: &str, offset: u64, len: u64, runs: &mut Runs) -> Result<(), ExportError>;

    /// Prepares for reading a range. May do nothing.
    ///
    /// # Errors
    /// [`ExportError`]
    fn cache(&self, offset: u64, len: u64) -> Result<(), ExportError>;
}

/// One of the reads of [`Export::read_many`].
#[derive(Debug)]
pub struct ExportRead<'a> {
    /// The first byte.
    pub offset: u64,
    /// Where the bytes go.
    pub into: &'a mut [u8],
    /// Its parts without space, as of [`Export::read`].
    pub holes: Holes,
    /// The outcome, once it is done.
    pub done: Result<(), ExportError>,
}

/// The exports of a server. They may appear and disappear at any time. A connection keeps the one
/// that it opened.
pub trait Exports: Send + Sync {
    /// The names, in the order that clients see.
    fn list(&self) -> Vec<String>;

    /// The export with this name, if there is one. The empty name is the default export. Clients
    /// that only ask for the size open an export, too.
    fn open(&self, name: &str) -> Option<Arc<dyn Export>>;
}

/// How zeros are to be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Zeroing {
    /// The space of the range may be freed.
    pub may_trim: bool,
    /// Fail unless it is faster than a write.
    pub is_fast: bool,
}

/// Why a request failed, sorted by what the client is told. The server logs the detail; the client
/// sees only the kind.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ExportError {
    /// The device below failed (`EIO`).
    #[error("the device failed: {detail}")]
    Failed {
        /// What happened, to what.
        detail: String,
    },
    /// No space is left (`ENOSPC`).
    #[error("no space is left: {detail}")]
    NoSpace {
        /// Where.
        detail: String,
    },
    /// The request makes no sense (`EINVAL`).
    #[error("the request is wrong: {detail}")]
    Invalid {
        /// Why.
        detail: String,
    },
    /// The request is not permitted (`EPERM`), for example a write to a snapshot.
    #[error("not permitted: {detail}")]
    NotPermitted {
        /// Why.
        detail: String,
    },
    /// Zeros cannot be written faster than other bytes (`ENOTSUP`).
    #[error("it is not faster than a write")]
    NotSupported,
    /// The request is too large (`EOVERFLOW`).
    #[error("the request is too large: {detail}")]
    TooLarge {
        /// Why.
        detail: String,
    },
    /// The export is being stopped (`ESHUTDOWN`).
    #[error("the export is being stopped")]
    ShuttingDown,
}

impl ExportError {
    /// The number that the client is sent.
    #[must_use]
    pub fn errno(&self) -> Errno {
        match self {
            Self::Failed { .. } => Errno::Io,
            Self::NoSpace { .. } => Errno::NoSpace,
            Self::Invalid { .. } => Errno::Invalid,
            Self::NotPermitted { .. } => Errno::NotPermitted,
            Self::NotSupported => Errno::NotSupported,
            Self::TooLarge { .. } => Errno::TooLarge,
            Self::ShuttingDown => Errno::ShuttingDown,
        }
    }
}

/// What a range has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RunState {
    /// `base:allocation`: any bytes, on allocated space. Of a dirty bitmap: not written.
    Data,
    /// `base:allocation`: zeros, on allocated space.
    Zero,
    /// `base:allocation`: zeros, without space.
    Hole,
    /// Of a dirty bitmap: written.
    Dirty,
}

impl RunState {
    /// The flags that a client is sent.
    #[must_use]
    pub fn flags(self) -> u32 {
        match self {
            Self::Data => 0,
            Self::Zero => state::ZERO,
            Self::Hole => state::ZERO | state::HOLE,
            Self::Dirty => state::DIRTY,
        }
    }
}

/// Consecutive runs of a range, collected up to a bound. Neighbours of one state become one run.
#[derive(Debug)]
pub struct Runs {
    runs: Vec<(u32, u32)>,
    runs_max: usize,
    /// Bytes that the client asked for and that have no run yet.
    left: u64,
}

impl Runs {
    /// Collects at most `runs_max` runs of a range of `len` bytes.
    #[must_use]
    pub fn new(runs_max: usize, len: u64) -> Self {
        Self {
            runs: Vec::new(),
            runs_max,
            left: len,
        }
    }

    /// Adds the next run. Returns whether another one is wanted. Bytes beyond the range are cut
    /// off.
    pub fn push(&mut self, len: u64, state: RunState) -> bool {
        let mut len = len.min(self.left);
        let flags = state.flags();
        while len > 0 {
            let (joined, has_room) = match self.runs.last() {
                Some((last, of_last)) if *of_last == flags && *last < u32::MAX => (u64::from(*last), true),
                _ => (0, self.runs.len() < self.runs_max),
            };
            if !has_room {
                self.left = 0;
                return false;
            }
            let now = len.min(u64::from(u32::MAX) - joined);
            let run = u32::try_from(joined + now).expect("it was bounded");
            if joined > 0 {
                self.runs.pop();
            }
            self.runs.push((run, flags));
            self.left -= now;
            len -= now;
        }
        self.left > 0
    }

    /// The runs: the length of each in bytes, and its flags.
    #[must_use]
    pub fn as_slice(&self) -> &[(u32, u32)] {
        &self.runs
    }
}
