//! Existing entries that stay instead of the backup's entries.

use std::os::fd::OwnedFd;

use format::listing::ListingEntry;

use super::folders::Place;
use super::there::{finish_node, is_as_old, is_same, keeps, look, same_name};
use super::{Context, Overwrite, SkipReason};
use crate::TreeError;

/// Why the existing entry stays, if it does. Sets its metadata if the content is the same.
pub(super) fn stays(
    context: &Context,
    parent: &Place,
    at: &OwnedFd,
    name: &[u8],
    entry: &ListingEntry,
) -> Result<Option<SkipReason>, TreeError> {
    // A folder that this restore made has no older entries. If a name is taken, giving the name
    // will show it.
    if context.overwrite == Overwrite::Always || parent.is_own() {
        return Ok(None);
    }
    let Some(there) = look(at, name, &entry.path)? else {
        return Ok(None);
    };
    let Some(reason) = keeps(context.overwrite, &there, entry, at, name) else {
        return Ok(None);
    };
    {
        let mut seen = parent.seen();
        if let Some(other) = seen.same(at, &there, name) {
            return Err(same_name(&entry.path, &other));
        }
        seen.note((there.device, there.inode), name);
    }
    if reason == SkipReason::Unchanged {
        finish_node(context, at, name, entry)?;
    } else if is_as_old(&there, entry, at) && !is_same(&there, entry, at, name) {
        // Its time would make it look like the first name of later hard links.
        context.give_up(&entry.path);
    }
    Ok(Some(reason))
}
