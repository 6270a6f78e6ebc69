//! Entries of which the backup has only a part. No part takes the name of a whole entry.
//!
//! The restore gives the part of a file another name, beside the file's own. So the part replaces
//! no good copy, and nobody mistakes it for the file. The restore reports each such entry as a
//! fault.

use std::borrow::Cow;

use format::listing::{Content, EntryKind, ListingEntry};

use super::Context;
use crate::TreeError;

/// The end of the name of a part.
const PART: &[u8] = b".onefold-incomplete";

/// The name of the part of a file.
pub(super) fn name_of(file: &[u8]) -> Vec<u8> {
    [file, PART].concat()
}

/// The path of an entry as it is restored.
pub(super) fn path_of(entry: &ListingEntry) -> Cow<'_, [u8]> {
    match (&entry.kind, entry.state.content) {
        (EntryKind::File { .. }, Content::Partial { .. }) => Cow::Owned(name_of(&entry.path)),
        _ => Cow::Borrowed(&entry.path),
    }
}

/// The entry as it will be restored. Reports what it lacks.
pub(super) fn as_restored<'e>(
    context: &Context,
    entry: &'e ListingEntry,
) -> Result<Cow<'e, ListingEntry>, TreeError> {
    let path = || entry.path.clone();
    if entry.state.lacks_attributes {
        context.fault(TreeError::AttributesInPart { path: path() });
    }
    let Content::Partial { of: expected } = entry.state.content else {
        return Ok(Cow::Borrowed(entry));
    };
    match &entry.kind {
        EntryKind::File { len, .. } => {
            let name = name_of(&entry.path);
            context.fault(TreeError::StoredInPart {
                path: path(),
                name: name.clone(),
                stored: *len,
                expected: (expected > *len).then_some(expected),
            });
            Ok(Cow::Owned(ListingEntry {
                path: name,
                ..entry.clone()
            }))
        }
        EntryKind::HardLink { target } => Err(TreeError::LinkToPart {
            path: path(),
            target: target.clone(),
        }),
        _ => {
            context.fault(TreeError::FolderInPart { path: path() });
            Ok(Cow::Borrowed(entry))
        }
    }
}
