//! Creating what replaces something: never in place, and never by opening what is there.

use std::os::fd::OwnedFd;

use rustix::fs::{AtFlags, FileType, renameat, unlinkat};
use rustix::io::Errno;

use super::{Context, look};
use crate::folder::retry;
use crate::{Action, TreeError};

/// Creates a file under a name. Where something else than a folder stands there, it stays until the file is
/// finished, and the file gets a name of its own until then: bytes that turn out to be lost, or an
/// interruption, cost nobody a good copy.
pub(super) fn create_file(
    context: &Context,
    at: &OwnedFd,
    name: &[u8],
    path: &[u8],
    create: impl Fn(&[u8]) -> Result<OwnedFd, Errno>,
) -> Result<(OwnedFd, Option<Vec<u8>>), TreeError> {
    match retry(|| create(name)) {
        Ok(file) => return Ok((file, None)),
        Err(Errno::EXIST) => {}
        Err(errno) => return Err(TreeError::system(path, Action::Create, errno)),
    }
    let creating = |errno| TreeError::system(path, Action::Create, errno);
    if look(at, name, path)?.is_some_and(|there| there.kind == FileType::Directory) {
        let removed = retry(|| unlinkat(at, name, AtFlags::REMOVEDIR));
        removed.map_err(|errno| TreeError::system(path, Action::Replace, errno))?;
        return Ok((retry(|| create(name)).map_err(creating)?, None));
    }
    let temporary = context.temporary_name();
    // Left by a process that was killed and had the same number.
    unlinkat(at, &temporary[..], AtFlags::empty()).ok();
    let file = retry(|| create(&temporary)).map_err(creating)?;
    Ok((file, Some(temporary)))
}

/// Creates something under a name. Where something stands there it is replaced at once, and stays
/// if creating fails; a folder is replaced only if it is empty.
pub(super) fn put<T>(
    context: &Context,
    at: &OwnedFd,
    name: &[u8],
    path: &[u8],
    action: Action,
    create: impl Fn(&[u8]) -> Result<T, Errno>,
) -> Result<T, TreeError> {
    match retry(|| create(name)) {
        Err(Errno::EXIST) => {}
        other => return other.map_err(|errno| TreeError::system(path, action, errno)),
    }
    let replacing = |errno| TreeError::system(path, Action::Replace, errno);
    let temporary = context.temporary_name();
    // Left by a process that was killed and had the same number.
    unlinkat(at, &temporary[..], AtFlags::empty()).ok();
    let created = retry(|| create(&temporary)).map_err(|errno| TreeError::system(path, action, errno))?;
    let mut renamed = retry(|| renameat(at, &temporary[..], at, name));
    if renamed == Err(Errno::ISDIR) {
        renamed = retry(|| unlinkat(at, name, AtFlags::REMOVEDIR))
            .and_then(|()| retry(|| renameat(at, &temporary[..], at, name)));
    }
    if let Err(errno) = renamed {
        // The fault that is told is the one that counts.
        unlinkat(at, &temporary[..], AtFlags::empty()).ok();
        return Err(replacing(errno));
    }
    Ok(created)
}
