//! Gives a finished temporary file its final name, unless that is taken.
//!
//! With each way, exactly one of any number of creators wins, on this host and on network file
//! systems that follow the rules. If the system refuses one way, the next is tried.

use std::io;
use std::sync::PoisonError;
use std::time::Duration;

use rustix::fs::renameat;
use rustix::io::Errno;
use types::ObjectName;

use super::LocalStorage;
use super::access::Access;
use super::files::io_error;
use super::place::{self, Place};
use super::sys::Calls;
use super::temporary::TemporaryFile;
use super::tracker::parent;
use crate::{Clock, StorageError, SystemClock};

/// How often missing folders are created for one object.
const FOLDERS_MADE_MAX: u32 = 4;
/// How long a new folder of a group may be closed to the group, before its creator opens it.
const FOLDER_SHUT: Duration = Duration::from_millis(2);

/// A way to give a file an unused name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PublishWay {
    /// `link` to the final name, then `unlink` the temporary one.
    Link,
    /// `renameat2` with `RENAME_NOREPLACE`, if hard links do not work.
    Rename,
    /// Creates an empty file under the final name with `O_EXCL`, then renames the temporary file
    /// over it: for file systems that support neither of the other ways. The winner's file is empty
    /// for a moment. It stays empty if the process dies at that moment: such an object is torn, as
    /// after a crash.
    Exclusive,
}

impl PublishWay {
    pub(super) fn next(self) -> Option<Self> {
        match self {
            Self::Link => Some(Self::Rename),
            Self::Rename => Some(Self::Exclusive),
            Self::Exclusive => None,
        }
    }
}

/// Whether the temporary file `from` still exists after publishing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Temporary {
    Left,
    Moved,
}

/// Why a file did not get its name.
#[derive(Debug)]
pub(super) enum Refusal {
    Taken,
    /// The folder (or the temporary file) is missing.
    NoFolder(io::Error),
    /// This file system does not support this way.
    WrongWay(io::Error),
    Other(io::Error),
}

pub(super) fn publish(
    calls: &dyn Calls,
    access: Access,
    way: PublishWay,
    from: Place<'_>,
    to: Place<'_>,
) -> Result<Temporary, Refusal> {
    match way {
        PublishWay::Link => match calls.link(from, to) {
            Ok(()) => Ok(Temporary::Left),
            // A network file system may carry out the call, lose the answer, and repeat the call.
            Err(error) if taken(&error) && same_file(from, to) => Ok(Temporary::Left),
            Err(error) => Err(refusal(error, &[Errno::PERM, Errno::MLINK, Errno::XDEV])),
        },
        PublishWay::Rename => match calls.rename_new(from, to) {
            Ok(()) => Ok(Temporary::Moved),
            Err(error) => Err(refusal(error, &[Errno::PERM, Errno::INVAL])),
        },
        PublishWay::Exclusive => {
            let claim = access.create_file(to);
            drop(claim.map_err(|error| refusal(error, &[]))?);
            match renameat(from.folder, from.name, to.folder, to.name) {
                Ok(()) => Ok(Temporary::Moved),
                Err(error) => {
                    // Our file has the name and is empty. If it stayed, it would pass for an
                    // object.
                    if let Err(second) = place::remove_file(to) {
                        return Err(Refusal::Other(second));
                    }
                    Err(refusal(error.into(), &[]))
                }
            }
        }
    }
}

fn taken(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::AlreadyExists
}

fn refusal(error: io::Error, wrong_way: &[Errno]) -> Refusal {
    let errno = Errno::from_io_error(&error);
    let is = |list: &[Errno]| errno.is_some_and(|errno| list.contains(&errno));
    if taken(&error) {
        Refusal::Taken
    } else if error.kind() == io::ErrorKind::NotFound {
        Refusal::NoFolder(error)
    } else if is(wrong_way)
        || is(&[Errno::NOSYS, Errno::NOTSUP, Errno::OPNOTSUPP])
        || error.kind() == io::ErrorKind::Unsupported
    {
        Refusal::WrongWay(error)
    } else {
        Refusal::Other(error)
    }
}

fn same_file(a: Place<'_>, b: Place<'_>) -> bool {
    match (place::stat(a), place::stat(b)) {
        (Ok(a), Ok(b)) => a.st_ino == b.st_ino && a.st_dev == b.st_dev,
        _ => false,
    }
}

impl LocalStorage {
    /// Gives a temporary file its final place. Creates folders and tries other ways as needed.
    /// Errors have the name.
    pub(super) fn publish(
        &self,
        temporary: &mut TemporaryFile,
        to: &str,
        name: &ObjectName,
    ) -> Result<(), StorageError> {
        let mut way = *self.way.lock().unwrap_or_else(PoisonError::into_inner);
        let first = way;
        let mut folders_made = 0;
        loop {
            let published = self.folders.at(to, |to| {
                match publish(&*self.calls, self.access, way, temporary.place(), to) {
                    Err(Refusal::NoFolder(error)) => Err(error),
                    outcome => Ok(outcome),
                }
            });
            let error = match published.unwrap_or_else(|error| Err(refusal(error, &[]))) {
                Ok(left) => {
                    if left == Temporary::Moved {
                        temporary.moved();
                    }
                    if way != first {
                        *self.way.lock().unwrap_or_else(PoisonError::into_inner) = way;
                    }
                    return Ok(());
                }
                Err(Refusal::Taken) => return Err(StorageError::AlreadyExists { name: name.clone() }),
                // Repeated, because another process may have deleted the folder in between.
                Err(Refusal::NoFolder(_)) if folders_made < FOLDERS_MADE_MAX => {
                    folders_made += 1;
                    match self.folders.make(parent(to), self.access) {
                        Ok(()) => continue,
                        Err(error) => error,
                    }
                }
                // Another user of the group has created the folder, and is about to open it.
                Err(Refusal::Other(error)) if self.is_shut(&error) && folders_made < FOLDERS_MADE_MAX => {
                    folders_made += 1;
                    SystemClock.sleep(FOLDER_SHUT);
                    continue;
                }
                Err(Refusal::WrongWay(error)) => match way.next() {
                    Some(next) => {
                        way = next;
                        continue;
                    }
                    None => error,
                },
                Err(Refusal::NoFolder(error) | Refusal::Other(error)) => error,
            };
            return Err(io_error("create", name.as_str(), error));
        }
    }

    fn is_shut(&self, error: &io::Error) -> bool {
        self.access == Access::Group && error.kind() == io::ErrorKind::PermissionDenied
    }
}
