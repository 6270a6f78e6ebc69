//! Entries of which the backup has only a part. No part takes the name of a whole entry.
//!
//! The restore gives the part of a file another name, beside the file's own. So the part replaces
//! no good copy, and nobody takes it for the file. The restore reports each such entry as a fault.

use std::borrow::Cow;

use format::listing::{Content, EntryKind, ListingEntry};

use super::Context;
use crate::TreeError;

/// What the name of a part ends in.
const PART: &[u8] = b".onefold-incomplete";

/// The entry as it is to be restored. What it lacks is reported.
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
            let name = [&entry.path[..], PART].concat();
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
