//! Errors of a storage, sorted by what a caller would do.

use std::io;

use types::ObjectName;

/// A failed operation of a storage.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StorageError {
    /// There is no such object.
    #[error("{name}: no such object in the store")]
    NotFound {
        /// The object.
        name: ObjectName,
    },
    /// The folder of a local storage does not exist.
    #[error("{folder}: no such folder")]
    NoFolder {
        /// The folder.
        folder: String,
    },
    /// In a local storage, a symbolic link is in the place of a folder. Nothing follows it.
    #[error(
        "{place}: is a symbolic link, and a store has folders and files only; nothing behind it was read, \
         written or deleted. Find out which user has put it there, and put the folder of the store back"
    )]
    Misplaced {
        /// The path.
        place: String,
    },
    /// The bucket of an object store does not exist.
    #[error(
        "{place}: there is no such bucket; make it with the tools of the object store, or name another one"
    )]
    NoBucket {
        /// The location.
        place: String,
    },
    /// An object store cannot be used: its credentials, its answers, or the way to it.
    #[error("{place}: {why}")]
    Unusable {
        /// The location.
        place: String,
        /// What is wrong and what to do, for people.
        why: String,
    },
    /// The name is taken; objects are never overwritten.
    #[error("{name}: exists already")]
    AlreadyExists {
        /// The object.
        name: ObjectName,
    },
    /// The object ends before the requested range.
    #[error("{name}: ends at byte {len}, but bytes up to {end} were asked for")]
    PastEnd {
        /// The object.
        name: ObjectName,
        /// Its length.
        len: u64,
        /// The end of the requested range.
        end: u64,
    },
    /// A live process holds the lock.
    #[error("{name}: locked by a running process")]
    Locked {
        /// The lock.
        name: ObjectName,
    },
    /// The disk, quota or bucket is full.
    #[error(
        "{name}: no space left in the store; forget backups and run `onefold prune`, or free space there by \
         other means, and run the command again"
    )]
    NoSpace {
        /// The object that could not be written (or the folder, for a barrier).
        name: String,
    },
    /// The system refuses.
    #[error(
        "{name}: permission denied by the storage; check the owner and the rights of the store, or of the credentials"
    )]
    Denied {
        /// The object or folder.
        name: String,
    },
    /// The storage does not let this client do that. Another client may.
    #[error("{name}: {why}")]
    NoRight {
        /// The object or folder.
        name: String,
        /// The storage's reason, for people.
        why: String,
    },
    /// The file system is mounted read-only, so no user could write.
    #[error(
        "{name}: the store lies on a file system that is mounted read-only; mount it for writing before \
         anything is written to the store"
    )]
    ReadOnly {
        /// The object or folder.
        name: String,
    },
    /// The machine was stopped or the process killed. Only the tests' `fault::FaultStorage` returns
    /// this, because a real caller would not exist any more.
    #[error("{action}: the machine was stopped or the process killed")]
    Gone {
        /// The operation.
        action: &'static str,
    },
    /// Anything else that the system reports.
    #[error("{name}: {action} failed: {source}")]
    Io {
        /// The operation.
        action: &'static str,
        /// The object or folder.
        name: String,
        /// The system's error.
        source: io::Error,
    },
}

impl StorageError {
    /// Whether the storage refused this client a right. Then a client that has more rights does the
    /// work.
    #[must_use]
    pub fn is_no_right(&self) -> bool {
        matches!(self, Self::NoRight { .. })
    }

    /// Whether the storage has read or written this object in vain: the medium is damaged there, or
    /// an error names no other reason. An outage concerns all objects, and says nothing of this
    /// one.
    #[must_use]
    pub fn is_of_medium(&self) -> bool {
        matches!(self, Self::Io { .. }) && !self.is_outage()
    }

    /// Whether the storage does not answer: what it would say of an object is not known.
    #[must_use]
    pub fn is_silence(&self) -> bool {
        matches!(self, Self::Io { .. }) && self.is_outage()
    }

    /// Whether the storage as a whole refuses or is gone, so that other objects cannot be had
    /// either, and nothing is known of this one. An error of the medium is none: it concerns the
    /// sectors of one object.
    #[must_use]
    pub fn is_outage(&self) -> bool {
        match self {
            Self::NoFolder { .. }
            | Self::Misplaced { .. }
            | Self::NoBucket { .. }
            | Self::Unusable { .. }
            | Self::Denied { .. }
            | Self::NoRight { .. }
            | Self::Gone { .. } => true,
            Self::NotFound { .. }
            | Self::AlreadyExists { .. }
            | Self::PastEnd { .. }
            | Self::Locked { .. }
            | Self::NoSpace { .. }
            | Self::ReadOnly { .. } => false,
            Self::Io { source, .. } => match source.raw_os_error() {
                Some(code) => !OF_MEDIUM.contains(&code),
                None => OF_CONNECTION.contains(&source.kind()),
            },
        }
    }
}

/// Errors of the system about one file: the disk cannot read its bytes, the file system has found
/// them damaged, or something else has its name.
const OF_MEDIUM: [i32; 10] = [
    // ZFS says so of a wrong checksum, and disks behind a network of a defect of their own.
    libc::EBADE,
    libc::EREMOTEIO,
    libc::ENXIO,
    libc::EISDIR,
    libc::ELOOP,
    libc::EIO,
    libc::ENODATA,
    libc::EBADMSG,
    libc::EUCLEAN,
    libc::EILSEQ,
];

/// Errors of a storage that did not answer.
const OF_CONNECTION: [io::ErrorKind; 8] = [
    io::ErrorKind::TimedOut,
    io::ErrorKind::NotConnected,
    io::ErrorKind::ConnectionRefused,
    io::ErrorKind::ConnectionReset,
    io::ErrorKind::ConnectionAborted,
    io::ErrorKind::BrokenPipe,
    io::ErrorKind::HostUnreachable,
    io::ErrorKind::NetworkUnreachable,
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unreadable_sector_is_no_outage_and_a_dead_network_is() {
        let io = |source: io::Error| StorageError::Io {
            action: "read",
            name: "data/1/2.0".to_owned(),
            source,
        };
        for code in [libc::ENODEV, libc::ESTALE, libc::ETIMEDOUT, libc::EMFILE] {
            assert!(io(io::Error::from_raw_os_error(code)).is_outage(), "{code}");
        }
        for code in [libc::EIO, libc::EBADMSG, libc::EBADE, libc::EISDIR] {
            assert!(!io(io::Error::from_raw_os_error(code)).is_outage(), "{code}");
        }
        assert!(io(io::Error::new(io::ErrorKind::NotConnected, "502")).is_outage());
        assert!(!io(io::ErrorKind::UnexpectedEof.into()).is_outage());
        let name = "x".to_owned();
        assert!(StorageError::Denied { name: name.clone() }.is_outage());
        assert!(StorageError::Misplaced { place: name.clone() }.is_outage());
        assert!(!StorageError::ReadOnly { name }.is_outage());
    }
}
