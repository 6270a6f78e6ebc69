//! The faults to inject, and when they occur.

use std::io;

use super::OpKind;
use crate::StorageError;

/// The operations that a fault counts, of a storage or of a block device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Counted<Kind> {
    /// Those that change something: tests that crash at every operation enumerate these.
    Mutating,
    /// Every operation: reads, listings and locks included.
    All,
    /// Operations of one kind.
    Only(Kind),
}

impl<Kind: PartialEq> Counted<Kind> {
    pub(crate) fn includes(self, kind: Kind, is_mutating: bool) -> bool {
        match self {
            Self::Mutating => is_mutating,
            Self::All => true,
            Self::Only(only) => only == kind,
        }
    }
}

/// The error of a failed operation of a storage or of a block device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FailWith {
    /// No space, as from a full file system.
    NoSpace,
    /// A failed request, as from a failing disk.
    Io,
    /// The operation is not allowed.
    Denied,
    /// The storage does not answer.
    Outage,
}

impl FailWith {
    pub(super) fn error(self, kind: OpKind, name: &str) -> StorageError {
        let name = name.to_owned();
        match self {
            Self::NoSpace => StorageError::NoSpace { name },
            Self::Denied => StorageError::Denied { name },
            Self::Io => StorageError::Io {
                action: kind.word(),
                name,
                source: io::Error::other("injected fault"),
            },
            Self::Outage => StorageError::Io {
                action: kind.word(),
                name,
                source: io::Error::new(io::ErrorKind::NotConnected, "injected outage"),
            },
        }
    }
}

/// One fault, at the n-th counted operation from its injection on. Numbers begin with 1.
///
/// A fault is injected for the whole machine or for one process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fault {
    pub(super) at: u64,
    pub(super) counted: Counted<OpKind>,
    pub(super) action: Action,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Action {
    /// The machine stops. The operation is carried out or not, and its caller does not learn which.
    Stop { carried_out: bool },
    /// The same, but only the calling process dies.
    Kill { carried_out: bool },
    /// The operation fails; with `onward`, so do all later ones.
    Fail { with: FailWith, onward: bool },
    /// The put leaves a part of its object under its name, and the machine stops.
    Tear,
}

impl Fault {
    const fn new(at: u64, action: Action) -> Self {
        Self {
            at,
            counted: Counted::Mutating,
            action,
        }
    }

    /// The machine stops before the n-th mutating operation. That operation and all later ones of
    /// any process are not carried out, and fail with [`StorageError::Gone`].
    #[must_use]
    pub const fn stop(n: u64) -> Self {
        Self::new(n, Action::Stop { carried_out: false })
    }

    /// The machine stops right after the n-th mutating operation, which is carried out. Its caller
    /// does not learn of it.
    #[must_use]
    pub const fn stop_after(n: u64) -> Self {
        Self::new(n, Action::Stop { carried_out: true })
    }

    /// `kill -9` of the calling process before its n-th mutating operation: the live state stays,
    /// its locks are freed, and its later calls fail with [`StorageError::Gone`].
    #[must_use]
    pub const fn kill(n: u64) -> Self {
        Self::new(n, Action::Kill { carried_out: false })
    }

    /// `kill -9` of the calling process right after its n-th mutating operation.
    #[must_use]
    pub const fn kill_after(n: u64) -> Self {
        Self::new(n, Action::Kill { carried_out: true })
    }

    /// The n-th mutating operation fails, once, and has no effect.
    #[must_use]
    pub const fn fail(n: u64, with: FailWith) -> Self {
        Self::new(n, Action::Fail { with, onward: false })
    }

    /// The n-th mutating operation and all later ones fail and have no effect.
    #[must_use]
    pub const fn fail_from(n: u64, with: FailWith) -> Self {
        Self::new(n, Action::Fail { with, onward: true })
    }

    /// The machine stops in the middle of the n-th put. A part of the object has the name, live and
    /// after every crash, whatever the policy.
    #[must_use]
    pub const fn tear(n: u64) -> Self {
        Self {
            at: n,
            counted: Counted::Only(OpKind::Put),
            action: Action::Tear,
        }
    }

    /// The same fault, counting other operations. A torn put still counts only puts.
    #[must_use]
    pub const fn counting(mut self, counted: Counted<OpKind>) -> Self {
        if !matches!(self.action, Action::Tear) {
            self.counted = counted;
        }
        self
    }
}
