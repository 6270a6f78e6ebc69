//! Follows the links in the target that a restore may follow: those of the superuser and of the
//! restoring user that lead to a folder below the target.
//!
//! A link may lead over other links. The system follows each of them, whoever owns it. So another
//! user could redirect the restore by a link behind the user's own. This module opens each
//! component separately. It looks up the owner of a link and reads the link by one descriptor.

use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use rustix::fs::{CWD, FileType, Mode, OFlags, fstat, mkdirat, openat, readlinkat};
use rustix::io::Errno;

use super::context::whereabouts;
use crate::error::LinkFault;
use crate::retry::retry;
use crate::{Action, TreeError, order};

/// As many links as the system follows.
const LINKS_MAX: usize = 40;

/// Why a link is not followed.
enum NotFollowed {
    Foreign,
    System(Errno),
}

impl From<Errno> for NotFollowed {
    fn from(errno: Errno) -> Self {
        Self::System(errno)
    }
}

/// Opens the folder to which a name leads, if no link on the way belongs to another user. The
/// descriptor is for looking up names.
fn resolve(at: &OwnedFd, name: &[u8]) -> Result<OwnedFd, NotFollowed> {
    let here = |at: &OwnedFd, name: &[u8], flags: OFlags| {
        let flags = flags | OFlags::PATH | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        retry(|| openat(at, name, flags, Mode::empty()))
    };
    let me = rustix::process::geteuid().as_raw();
    let mut links = 0;
    let mut folder = here(at, b".", OFlags::DIRECTORY)?;
    // What is left of the way, the next name last.
    let mut way = vec![name.to_vec()];
    while let Some(name) = way.pop() {
        let found = here(&folder, &name, OFlags::empty())?;
        let facts = fstat(&found)?;
        match FileType::from_raw_mode(facts.st_mode) {
            FileType::Directory => folder = found,
            FileType::Symlink if facts.st_uid != 0 && facts.st_uid != me => {
                return Err(NotFollowed::Foreign);
            }
            FileType::Symlink => {
                links += 1;
                if links > LINKS_MAX {
                    return Err(Errno::LOOP.into());
                }
                let text = retry(|| readlinkat(&found, "", Vec::new()))?;
                let text = text.as_bytes();
                if text.starts_with(b"/") {
                    let flags = OFlags::PATH | OFlags::CLOEXEC | OFlags::DIRECTORY;
                    folder = retry(|| openat(CWD, "/", flags, Mode::empty()))?;
                }
                way.extend(order::components(text).rev().map(<[u8]>::to_vec));
            }
            _ => return Err(Errno::NOTDIR.into()),
        }
    }
    Ok(folder)
}

/// Opens the folder to which the link of this name leads. `top` is the path of the target, and
/// `path` what is restored.
pub(super) fn follow(
    top: Option<&[u8]>,
    at: &OwnedFd,
    name: &[u8],
    path: &[u8],
) -> Result<OwnedFd, TreeError> {
    let refused = |why| TreeError::LinkOnTheWay {
        path: path.to_vec(),
        link: name.to_vec(),
        why,
    };
    let folder = resolve(at, name).map_err(|why| match why {
        NotFollowed::Foreign => refused(LinkFault::Foreign),
        NotFollowed::System(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => refused(LinkFault::NoFolder),
        NotFollowed::System(errno) => TreeError::system(path, Action::Open, errno),
    })?;
    match (top, whereabouts(&folder)) {
        (Some(top), Some(found)) if order::is_within(&found, top) => Ok(folder),
        _ => Err(refused(LinkFault::Outside)),
    }
}

/// Opens the folder below the target where something of this relative path belongs, for looking up
/// names. Makes missing folders. It follows links in the target like those above requested paths.
pub(super) fn open_way(target: &Path, relative: &Path) -> Result<OwnedFd, TreeError> {
    let shown = target.join(relative);
    let path = shown.as_os_str().as_bytes();
    let failed = |action| move |errno| TreeError::system(path, action, errno);
    let flags = OFlags::PATH | OFlags::CLOEXEC | OFlags::DIRECTORY;
    let target = target.as_os_str().as_bytes();
    let mut folder = retry(|| openat(CWD, target, flags, Mode::empty())).map_err(failed(Action::Open))?;
    let top = whereabouts(&folder);
    let way = relative.parent().unwrap_or(Path::new(""));
    for name in way {
        let name = name.as_bytes();
        match retry(|| mkdirat(&folder, name, Mode::RWXU | Mode::RWXG | Mode::RWXO)) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(errno) => return Err(failed(Action::Create)(errno)),
        }
        let entered = retry(|| openat(&folder, name, flags | OFlags::NOFOLLOW, Mode::empty()));
        folder = match entered {
            // A link is no folder.
            Err(Errno::NOTDIR | Errno::LOOP) => match super::look(&folder, name, path)? {
                Some(there) if there.kind == FileType::Symlink => {
                    follow(top.as_deref(), &folder, name, path)?
                }
                _ => return Err(TreeError::NotAFolder { path: path.to_vec() }),
            },
            entered => entered.map_err(failed(Action::Open))?,
        };
    }
    Ok(folder)
}
