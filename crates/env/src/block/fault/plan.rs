//! The faults to inject, and when they occur.

use std::io;

use super::content::PART_BYTES;
use super::counters::OpKind;
use super::{Counted, FailWith};
use crate::block::device::DeviceError;

impl FailWith {
    pub(super) fn device_error(self, kind: OpKind, device: &str) -> DeviceError {
        let device = device.to_owned();
        match self {
            Self::NoSpace => DeviceError::NoSpace { device },
            Self::Denied => DeviceError::Denied {
                action: kind.word(),
                device,
            },
            Self::Io => DeviceError::Io {
                action: kind.word(),
                device,
                source: io::Error::from_raw_os_error(libc::EIO),
            },
            Self::Outage => DeviceError::Io {
                action: kind.word(),
                device,
                source: io::Error::from_raw_os_error(libc::ENODEV),
            },
        }
    }
}

/// One fault, at the n-th counted operation from its injection on. Numbers begin with 1. The
/// operation is not carried out, unless [`Self::after`] or [`Self::within`] says so.
///
/// A fault is injected for the whole machine or for one process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fault {
    pub(super) at: u64,
    pub(super) counted: Counted<OpKind>,
    pub(super) action: Action,
    pub(super) share: Share,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Action {
    Stop,
    Kill,
    /// With `onward`, all later operations fail, too.
    Fail {
        with: FailWith,
        onward: bool,
    },
}

/// How much of an operation is carried out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Share {
    Nothing,
    Bytes(u64),
    All,
}

impl Fault {
    const fn new(at: u64, action: Action) -> Self {
        Self {
            at,
            counted: Counted::Mutating,
            action,
            share: Share::Nothing,
        }
    }

    /// All processes end at the n-th mutating operation. It fails with [`DeviceError::Gone`].
    #[must_use]
    pub const fn stop(n: u64) -> Self {
        Self::new(n, Action::Stop)
    }

    /// The calling process ends at the n-th mutating operation. It fails with
    /// [`DeviceError::Gone`].
    #[must_use]
    pub const fn kill(n: u64) -> Self {
        Self::new(n, Action::Kill)
    }

    /// The n-th mutating operation fails, once.
    #[must_use]
    pub const fn fail(n: u64, with: FailWith) -> Self {
        Self::new(n, Action::Fail { with, onward: false })
    }

    /// The n-th mutating operation and all later ones fail.
    #[must_use]
    pub const fn fail_from(n: u64, with: FailWith) -> Self {
        Self::new(n, Action::Fail { with, onward: true })
    }

    /// The same fault right after the operation, which is carried out. Its caller does not learn of
    /// it.
    #[must_use]
    pub const fn after(mut self) -> Self {
        self.share = Share::All;
        self
    }

    /// The same fault in the middle of a write: its first `bytes` are written, rounded down to 512.
    /// Of a discard, so many bytes are discarded, in whole blocks. Flushes and growths are not
    /// carried out.
    #[must_use]
    pub const fn within(mut self, bytes: u64) -> Self {
        self.share = Share::Bytes(bytes - bytes % PART_BYTES as u64);
        self
    }

    /// The same fault, counting other operations.
    #[must_use]
    pub const fn counting(mut self, counted: Counted<OpKind>) -> Self {
        self.counted = counted;
        self
    }
}
