//! Ignore files: files in the walked folders whose lines say what to leave out.
//!
//! The rules are those of `.gitignore`. Patterns count below the folder of their file. Of several
//! lines that match, the last one decides, and a line of an inner folder before one of an outer
//! folder. A line that is no pattern is skipped, as Git does: such files belong to other people's
//! source trees.

use std::ffi::OsStr;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;

use ignore::Match;
use ignore::gitignore::{Gitignore, GitignoreBuilder};
use rustix::fs::{FileType, OFlags, fstat};
use rustix::io::{Errno, pread};

use crate::folder::open_quietly;
use crate::retry::retry;
use crate::{Action, TreeError, order};

/// The most bytes that are read of an ignore file. No person writes longer ones.
const FILE_BYTES_MAX: usize = 1 << 20;

/// The patterns of a folder's ignore files, and of those above it.
#[derive(Debug)]
pub(super) struct Ignored {
    here: Gitignore,
    above: Option<Arc<Ignored>>,
}

impl Drop for Ignored {
    /// Drops those above in a loop: anybody can make a deep tree with a file in each folder.
    fn drop(&mut self) {
        let mut above = self.above.take();
        while let Some(mut ignored) = above.and_then(Arc::into_inner) {
            above = ignored.above.take();
        }
    }
}

/// Whether ignore files leave an entry out. The path is below the folder of the innermost of them.
pub(super) fn leave_out(ignored: Option<&Arc<Ignored>>, path: &[u8], is_folder: bool) -> bool {
    let path = Path::new(OsStr::from_bytes(path));
    let mut next = ignored;
    while let Some(ignored) = next {
        match ignored.here.matched(path, is_folder) {
            Match::None => next = ignored.above.as_ref(),
            Match::Ignore(_) => return true,
            Match::Whitelist(_) => return false,
        }
    }
    false
}

impl Ignored {
    /// Reads the ignore files of a folder. Returns what counts below it. A file that cannot be read
    /// is a fault, and has no patterns.
    pub(super) fn read<'a>(
        folder: &OwnedFd,
        path: &[u8],
        names: impl Iterator<Item = &'a Vec<u8>>,
        above: Option<&Arc<Self>>,
        faults: &mut Vec<TreeError>,
    ) -> Option<Arc<Self>> {
        let mut names = names.peekable();
        if names.peek().is_none() {
            return above.cloned();
        }
        let mut builder = GitignoreBuilder::new(OsStr::from_bytes(path));
        for name in names {
            match text(folder, name) {
                Ok(text) => {
                    for line in text.split(|byte| *byte == b'\n') {
                        let line = line.strip_suffix(b"\r").unwrap_or(line);
                        // A line that cannot be parsed is skipped.
                        builder.add_line(None, &String::from_utf8_lossy(line)).ok();
                    }
                }
                Err(errno) => {
                    let path = order::join(path, name);
                    faults.push(TreeError::reading(path, Action::Open, errno));
                }
            }
        }
        match builder.build() {
            Ok(here) if !here.is_empty() => Some(Arc::new(Self {
                here,
                above: above.cloned(),
            })),
            _ => above.cloned(),
        }
    }
}

/// The text of an ignore file. One that is no regular file has none.
fn text(folder: &OwnedFd, name: &[u8]) -> Result<Vec<u8>, Errno> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = match open_quietly(folder, name, flags) {
        Err(Errno::LOOP | Errno::NOENT) => return Ok(Vec::new()),
        opened => opened?,
    };
    if FileType::from_raw_mode(retry(|| fstat(&file))?.st_mode) != FileType::RegularFile {
        return Ok(Vec::new());
    }
    let mut bytes = vec![0; FILE_BYTES_MAX];
    let mut filled = 0;
    while filled < bytes.len() {
        match retry(|| pread(&file, &mut bytes[filled..], filled as u64))? {
            0 => break,
            n => filled += n,
        }
    }
    bytes.truncate(filled);
    let text = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&bytes);
    Ok(text.to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each folder of a deep tree may have an ignore file.
    #[test]
    fn a_deep_chain_is_dropped_on_a_small_stack() {
        let dropped = std::thread::Builder::new().stack_size(256 << 10).spawn(|| {
            let mut innermost = None;
            for _ in 0..200_000 {
                innermost = Some(Arc::new(Ignored {
                    here: Gitignore::empty(),
                    above: innermost,
                }));
            }
        });
        dropped.unwrap().join().unwrap();
    }
}
