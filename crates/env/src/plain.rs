//! Shared code of storages with whole objects in memory: ranges, tails, folders.

use std::collections::BTreeSet;
use std::io;

use types::{ByteRange, ObjectName};

use crate::StorageError;

/// The prefix of all names in the folder: `""`, or the folder and a slash.
///
/// A folder that no object's name could begin with is a mistake of the caller. If it counted as
/// empty, the mistake would look like "no objects".
pub(crate) fn folder_prefix(folder: &str) -> Result<String, StorageError> {
    if folder.is_empty() {
        return Ok(String::new());
    }
    match ObjectName::new(folder) {
        Ok(name) => Ok(format!("{name}/")),
        Err(error) => Err(no_folder(folder, error.why)),
    }
}

fn no_folder(folder: &str, why: &'static str) -> StorageError {
    StorageError::Io {
        action: "list",
        name: folder.to_owned(),
        source: io::Error::new(io::ErrorKind::InvalidInput, why),
    }
}

/// The immediate sub-folders among names that begin with the prefix.
pub(crate) fn sub_folders<'a>(names: impl Iterator<Item = &'a ObjectName>, prefix: &str) -> Vec<String> {
    let folders: BTreeSet<&str> = names
        .filter_map(|name| {
            name.as_str()
                .strip_prefix(prefix)?
                .split_once('/')
                .map(|(folder, _)| folder)
        })
        .collect();
    folders.into_iter().map(str::to_owned).collect()
}

/// The full names of the sub-folders.
pub(crate) fn folders_in(folder: &str, sub_folders: &BTreeSet<String>) -> Result<Vec<String>, StorageError> {
    let prefix = folder_prefix(folder)?;
    let each = sub_folders.iter().map(|part| {
        let whole = format!("{prefix}{part}");
        if part.contains('/') {
            return Err(no_folder(&whole, "a sub-folder's name has no slashes"));
        }
        match ObjectName::new(whole) {
            Ok(name) => Ok(String::from(name)),
            Err(error) => Err(no_folder(&error.name, error.why)),
        }
    });
    each.collect()
}

/// Whether the object is in one of the sub-folders of the folder, as in
/// [`crate::Storage::list_in`].
pub(crate) fn is_in(name: &ObjectName, folder: &str, sub_folders: &BTreeSet<String>) -> bool {
    let rest = match folder {
        "" => Some(name.as_str()),
        folder => name
            .as_str()
            .strip_prefix(folder)
            .and_then(|rest| rest.strip_prefix('/')),
    };
    let sub_folder = rest.and_then(|rest| rest.split_once('/')).map(|(first, _)| first);
    sub_folder.is_some_and(|sub_folder| sub_folders.contains(sub_folder))
}

/// The bytes of an object with zeros in the ranges.
pub(crate) fn without(
    name: &ObjectName,
    bytes: &[u8],
    ranges: &[ByteRange],
) -> Result<Vec<u8>, StorageError> {
    let mut bytes = bytes.to_vec();
    for range in ranges {
        let given_back = range_of(name, &bytes, *range)?.len();
        // The range is within the object in memory.
        let begin = usize::try_from(range.offset).unwrap_or(usize::MAX);
        bytes[begin..begin + given_back].fill(0);
    }
    Ok(bytes)
}

/// A range of an object in memory.
pub(crate) fn range_of<'a>(
    name: &ObjectName,
    bytes: &'a [u8],
    range: ByteRange,
) -> Result<&'a [u8], StorageError> {
    let from = usize::try_from(range.offset).ok();
    let until = usize::try_from(range.end()).ok();
    from.zip(until)
        .and_then(|(from, until)| bytes.get(from..until))
        .ok_or_else(|| StorageError::PastEnd {
            name: name.clone(),
            len: bytes.len() as u64,
            end: range.end(),
        })
}

/// The last `len` bytes of an object in memory, or all of it.
pub(crate) fn tail_of(bytes: &[u8], len: u64) -> &[u8] {
    let len = usize::try_from(len).unwrap_or(usize::MAX).min(bytes.len());
    &bytes[bytes.len() - len..]
}

/// Deletes one object after another, as [`crate::Storage::delete_many`] says.
pub(crate) fn each_deleted(
    names: &[ObjectName],
    delete: impl Fn(&ObjectName) -> Result<(), StorageError>,
) -> Result<(), StorageError> {
    let mut denied = Ok(());
    for name in names {
        match delete(name) {
            Ok(()) | Err(StorageError::NotFound { .. }) => {}
            Err(error @ StorageError::Denied { .. }) => denied = denied.and(Err(error)),
            Err(error) => return Err(error),
        }
    }
    denied
}
