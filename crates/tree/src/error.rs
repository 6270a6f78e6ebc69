//! Errors of one entry, a listing or a call.

use std::fmt;

use rustix::io::Errno;

/// An error. One with a `path` concerns that entry alone: report it and continue (exit code 3).
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TreeError {
    /// The system refused a call.
    #[error("{}: cannot {action}: {errno}", Shown(path))]
    System {
        /// The entry.
        path: Vec<u8>,
        /// What was tried.
        action: Action,
        /// The system's answer.
        errno: Errno,
    },
    /// The entry existed when its folder was read. It no longer exists, or is another one.
    #[error("{}: vanished while it was being backed up", Shown(path))]
    Vanished {
        /// The entry.
        path: Vec<u8>,
    },
    /// A file changed while it was read. The bytes read are stored, and may mix old and new.
    #[error("{}: changed while it was being read ({change})", Shown(path))]
    Changed {
        /// The file.
        path: Vec<u8>,
        /// The change that was noticed.
        change: Change,
    },
    /// A file whose length the file system does not show has more bytes than a backup reads of such
    /// a file. It may have no end.
    #[error(
        "{}: shows no length, and has no end in its first {read} bytes; leave it out if it has none (--exclude)",
        Shown(path)
    )]
    NoEnd {
        /// The file.
        path: Vec<u8>,
        /// Bytes that were read.
        read: u64,
    },
    /// An invalid exclude pattern.
    #[error("the pattern {pattern:?} cannot be understood: {why}")]
    Pattern {
        /// The pattern as given.
        pattern: String,
        /// What is wrong.
        why: String,
    },
    /// An entry was handed to the writer out of listing order. Misuse.
    #[error("{}: does not come after {} in listing order", Shown(path), Shown(previous))]
    Order {
        /// The entry.
        path: Vec<u8>,
        /// The one before it.
        previous: Vec<u8>,
    },
    /// A path given as an image names neither a file nor a block device.
    #[error(
        "{}: is neither a file nor a block device, so there is no image in it",
        Shown(path)
    )]
    NotAnImage {
        /// The path.
        path: Vec<u8>,
    },
    /// An entry that the format cannot hold; it is left out.
    #[error("{}: cannot be listed: {why}", Shown(path))]
    Unlistable {
        /// The entry.
        path: Vec<u8>,
        /// Which rule of the format it breaks.
        why: String,
    },
    /// The listing or fences stream is damaged. Corrupt.
    #[error("the {stream} is damaged at byte {offset}: {why}")]
    Damaged {
        /// `"listing"` or `"stream of fences"`.
        stream: &'static str,
        /// Offset of the damaged record in the stream.
        offset: u64,
        /// What is wrong.
        why: String,
    },
    /// The listing or fences stream could not be read.
    #[error("the {stream} cannot be read at byte {offset}: {source}")]
    Stream {
        /// `"listing"` or `"stream of fences"`.
        stream: &'static str,
        /// Offset of the record being read.
        offset: u64,
        /// The error of the stream's source.
        source: std::io::Error,
    },
    /// A path that must not be restored: relative, empty, with `.`, `..` or NUL (INV-8).
    #[error("{}: refused, its path is not a clean absolute one", Shown(path))]
    UnsafePath {
        /// The path as in the listing.
        path: Vec<u8>,
    },
    /// The way to the entry leads over something that is not a folder, such as a symbolic link
    /// (INV-8).
    #[error("{}: refused, the way to it is not all folders", Shown(path))]
    NotAFolder {
        /// The entry.
        path: Vec<u8>,
    },
    /// A path to back up belongs to the store.
    #[error(
        "{}: belongs to the store, which a backup does not include; name what is beside it",
        Shown(path)
    )]
    IsStore {
        /// The path.
        path: Vec<u8>,
    },
    /// An existing link takes the place of a folder above the requested paths, and the restore does
    /// not follow it.
    #[error(
        "{}: refused, {} on the way to it is a link that {why}; restore to the folder itself (--target)",
        Shown(path),
        Shown(link)
    )]
    LinkOnTheWay {
        /// The entry.
        path: Vec<u8>,
        /// The link's name.
        link: Vec<u8>,
        /// Why the restore does not follow it.
        why: LinkFault,
    },
    /// Two names of the backup are the same name on the target's file system.
    #[error(
        "{}: not restored, its name is the same as that of {} on this file system; restore it to another folder",
        Shown(path),
        Shown(other)
    )]
    SameName {
        /// The entry.
        path: Vec<u8>,
        /// The path that this restore has written under that name.
        other: Vec<u8>,
    },
    /// A restored file has another length than in the backup.
    #[error("{}: has {found} bytes instead of {expected}; restore it again", Shown(path))]
    OtherLength {
        /// The file.
        path: Vec<u8>,
        /// Its bytes in the backup.
        expected: u64,
        /// Its bytes in the target.
        found: u64,
    },
    /// An existing file that the restore would keep has changed meanwhile.
    #[error(
        "{}: changed while the restore was running, and was left; restore it again",
        Shown(path)
    )]
    ChangedMeanwhile {
        /// The entry.
        path: Vec<u8>,
    },
    /// A file was finished before all its bytes were written or skipped.
    #[error("{}: incomplete, {written} of {expected} bytes", Shown(path))]
    Incomplete {
        /// The file.
        path: Vec<u8>,
        /// Bytes written or skipped.
        written: u64,
        /// Bytes that the file has.
        expected: u64,
    },
    /// The target's file system cannot store the time of modification.
    #[error(
        "{}: its time is beyond those that the target's file system holds, which took another",
        Shown(path)
    )]
    TimeNotHeld {
        /// The entry.
        path: Vec<u8>,
    },
    /// The backup could not read the file to its end. The part that was read gets another name.
    #[error(
        "{}: could not be read whole when it was backed up: the first {stored} {} are in {}",
        Shown(path),
        of_bytes(*expected),
        Shown(name)
    )]
    StoredInPart {
        /// The file.
        path: Vec<u8>,
        /// The name, beside its own, that the part is restored to.
        name: Vec<u8>,
        /// Bytes that are stored.
        stored: u64,
        /// Bytes that the file had, if that is known.
        expected: Option<u64>,
    },
    /// Another name of a file that is stored in part.
    #[error(
        "{}: is a name of {}, which could not be read whole when it was backed up",
        Shown(path),
        Shown(target)
    )]
    LinkToPart {
        /// The entry.
        path: Vec<u8>,
        /// The file's first name.
        target: Vec<u8>,
    },
    /// The backup could not read all names in the folder.
    #[error(
        "{}: not all that was in it could be read when it was backed up: some may be missing",
        Shown(path)
    )]
    FolderInPart {
        /// The folder.
        path: Vec<u8>,
    },
    /// The backup could not read some extended attributes or flags of the entry.
    #[error(
        "{}: its extended attributes, ACLs and flags could not all be read when it was backed up",
        Shown(path)
    )]
    AttributesInPart {
        /// The entry.
        path: Vec<u8>,
    },
    /// The owner could not be set, so the set-user and set-group bits were left off.
    #[error("{}: its owner cannot be set, so its set-id bits were left off", Shown(path))]
    SetIdDropped {
        /// The entry.
        path: Vec<u8>,
    },
}

impl TreeError {
    pub(crate) fn system(path: impl Into<Vec<u8>>, action: Action, errno: Errno) -> Self {
        Self::System {
            path: path.into(),
            action,
            errno,
        }
    }

    /// The error of the standard library's input and output.
    #[must_use]
    pub fn of_io(path: &[u8], action: Action, error: &std::io::Error) -> Self {
        Self::system(path, action, Errno::from_io_error(error).unwrap_or(Errno::IO))
    }

    /// Like [`Self::system`], but an entry that no longer exists has vanished. A stale file handle
    /// of a network file system does not show that, because the whole file system may be gone.
    pub(crate) fn reading(path: impl Into<Vec<u8>>, action: Action, errno: Errno) -> Self {
        match errno {
            Errno::NOENT => Self::Vanished { path: path.into() },
            _ => Self::system(path, action, errno),
        }
    }

    /// Whether the error is a lack of space. A file system also reports this for attributes that it
    /// cannot store, however empty it is.
    #[must_use]
    pub fn is_no_room(&self) -> bool {
        matches!(self, Self::System { action, errno, .. }
            if *action != Action::SetAttributes && matches!(*errno, Errno::NOSPC | Errno::DQUOT))
    }

    /// Whether a restore with this error lacks the entry, and not only some of its metadata.
    #[must_use]
    pub fn is_of_entry(&self) -> bool {
        let is_of_metadata = matches!(
            self,
            Self::TimeNotHeld { .. }
                | Self::StoredInPart { .. }
                | Self::FolderInPart { .. }
                | Self::AttributesInPart { .. }
                | Self::SetIdDropped { .. }
                | Self::System {
                    action: Action::SetAttributes
                        | Action::SetOwner
                        | Action::SetMode
                        | Action::SetTimes
                        | Action::SetFlags,
                    ..
                }
        );
        !is_of_metadata
    }

    /// The entry concerned, where there is one.
    #[must_use]
    pub fn path(&self) -> Option<&[u8]> {
        match self {
            Self::System { path, .. }
            | Self::Vanished { path }
            | Self::Changed { path, .. }
            | Self::NoEnd { path, .. }
            | Self::Order { path, .. }
            | Self::Unlistable { path, .. }
            | Self::NotAnImage { path }
            | Self::UnsafePath { path }
            | Self::NotAFolder { path }
            | Self::IsStore { path }
            | Self::LinkOnTheWay { path, .. }
            | Self::SameName { path, .. }
            | Self::ChangedMeanwhile { path }
            | Self::OtherLength { path, .. }
            | Self::Incomplete { path, .. }
            | Self::TimeNotHeld { path }
            | Self::StoredInPart { path, .. }
            | Self::LinkToPart { path, .. }
            | Self::FolderInPart { path }
            | Self::AttributesInPart { path }
            | Self::SetIdDropped { path } => Some(path),
            Self::Pattern { .. } | Self::Damaged { .. } | Self::Stream { .. } => None,
        }
    }
}

/// What was tried with an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Action {
    /// Reading its metadata.
    ReadMetadata,
    /// Reading its extended attributes.
    ReadAttributes,
    /// Opening it.
    Open,
    /// Reading it.
    Read,
    /// Listing the folder.
    List,
    /// Creating it.
    Create,
    /// Removing the existing entry in its place.
    Replace,
    /// Deleting it, because the backup does not have it.
    Delete,
    /// Writing it.
    Write,
    /// Linking it to its first name.
    Link,
    /// Setting its extended attributes.
    SetAttributes,
    /// Setting its owner.
    SetOwner,
    /// Setting its permission bits.
    SetMode,
    /// Setting its times.
    SetTimes,
    /// Setting its flags.
    SetFlags,
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::ReadMetadata => "read its metadata",
            Self::ReadAttributes => "read its extended attributes or flags",
            Self::Open => "open it",
            Self::Read => "read it",
            Self::List => "list the folder",
            Self::Create => "create it",
            Self::Replace => "replace what stands there",
            Self::Delete => "delete it",
            Self::Write => "write it",
            Self::Link => "link it to its first name",
            Self::SetAttributes => "set its extended attributes",
            Self::SetOwner => "set its owner",
            Self::SetMode => "set its permissions",
            Self::SetTimes => "set its times",
            Self::SetFlags => "set its flags",
        })
    }
}

/// Why a restore does not follow a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum LinkFault {
    /// The link belongs neither to the superuser nor to the restoring user.
    Foreign,
    /// The link leads to something that is no folder.
    NoFolder,
    /// The link leads out of the target.
    Outside,
}

impl fmt::Display for LinkFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Foreign => "belongs to another user",
            Self::NoFolder => "leads to no folder",
            Self::Outside => "leads out of the target",
        })
    }
}

/// How a file changed while it was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Change {
    /// It became shorter: fewer bytes were stored than it had when opened.
    Shrunk,
    /// It became longer: the bytes it had when opened were stored.
    Grown,
    /// Its time of modification changed.
    Modified,
    /// It is no longer a regular file; nothing was stored.
    Kind,
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Shrunk => "it became shorter",
            Self::Grown => "it became longer",
            Self::Modified => "it was modified",
            Self::Kind => "it is no longer a regular file",
        })
    }
}

fn of_bytes(expected: Option<u64>) -> String {
    match expected {
        Some(bytes) => format!("of its {bytes} bytes"),
        None => "bytes, of a length that is not known,".to_owned(),
    }
}

/// A path as shown to people. Bytes that are not printable are escaped, so that a name can neither
/// break a line nor control a terminal.
struct Shown<'a>(&'a [u8]);

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for part in self.0.utf8_chunks() {
            for c in part.valid().chars() {
                if c.is_control() {
                    write!(f, "{}", c.escape_default())?
                } else {
                    write!(f, "{c}")?
                }
            }
            part.invalid().iter().try_for_each(|b| write!(f, "\\x{b:02x}"))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_that_do_not_fit_are_no_lack_of_room() {
        let fault = |action| TreeError::system(&b"/a"[..], action, Errno::NOSPC);
        assert!(fault(Action::Write).is_no_room() && fault(Action::Create).is_no_room());
        assert!(!fault(Action::SetAttributes).is_no_room());
    }

    #[test]
    fn only_a_missing_name_has_vanished() {
        let read = |errno| TreeError::reading(&b"/a"[..], Action::Open, errno);
        assert!(matches!(read(Errno::NOENT), TreeError::Vanished { .. }));
        for errno in [Errno::STALE, Errno::IO, Errno::ACCESS, Errno::NOTCONN] {
            assert!(matches!(read(errno), TreeError::System { .. }), "{errno}");
        }
    }
}
