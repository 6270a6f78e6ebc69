//! Finds the name in a folder that a request means.

use std::ffi::{OsStr, OsString};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};

use icu_normalizer::ComposingNormalizerBorrowed;
use rustix::fs::{AtFlags, Dir, Mode, OFlags, openat, statat};

use crate::Names;

/// A key that is equal for two names that are the same. Bytes that are not UTF-8 are their own key.
fn folded(names: Names, name: &OsStr) -> Vec<u8> {
    let Some(text) = name.to_str() else {
        return name.as_bytes().to_vec();
    };
    match names {
        Names::Bytes => text.as_bytes().to_vec(),
        Names::CaseInsensitive => text.to_lowercase().into_bytes(),
        Names::Normalizing => {
            let normalizer = ComposingNormalizerBorrowed::new_nfc();
            normalizer.normalize(text).into_owned().into_bytes()
        }
    }
}

/// The name in the folder that is the same as the requested one; the requested one if there is
/// none.
pub(crate) fn find(names: Names, folder: &OwnedFd, name: &OsStr) -> OsString {
    let is_there = || statat(folder, name, AtFlags::SYMLINK_NOFOLLOW).is_ok();
    if names == Names::Bytes || is_there() {
        return name.to_owned();
    }
    let wanted = folded(names, name);
    list(folder)
        .unwrap_or_default()
        .into_iter()
        .find(|(found, _, _)| folded(names, found) == wanted)
        .map_or_else(|| name.to_owned(), |(found, _, _)| found)
}

/// The entries of a folder: names, numbers and kinds.
pub(crate) fn list(
    folder: &OwnedFd,
) -> Result<Vec<(OsString, u64, rustix::fs::FileType)>, rustix::io::Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let open = openat(folder, ".", flags, Mode::empty())?;
    let mut found = Vec::new();
    for entry in Dir::new(open)? {
        let entry = entry?;
        let name = OsString::from_vec(entry.file_name().to_bytes().to_vec());
        found.push((name, entry.ino(), entry.file_type()));
    }
    Ok(found)
}
