//! Names the files whose content is in lost ranges.

use format::listing::EntryKind;
use format::manifest::{Backup, StreamRole};
use recipe::StoreReader;
use restore::Wanted;

use super::fault::LostRange;
use crate::streams;

/// At most so many files are named.
const FILES_MAX: usize = 1000;

/// The files of a backup with bytes in one of these ranges, as far as the listing can be read. Of a
/// backup of a single stream, its name.
pub(super) fn files_with(reader: &dyn StoreReader, backup: &Backup, lost: &[LostRange]) -> Vec<Vec<u8>> {
    let role = |one: &LostRange| backup.streams.get(one.stream).map(|stream| stream.role);
    if lost.iter().any(|one| role(one) == Some(StreamRole::Whole)) {
        return backup.series.paths.first().cloned().into_iter().collect();
    }
    let in_content = lost.iter().filter(|one| role(one) == Some(StreamRole::Content));
    let ranges: Vec<_> = in_content.map(|one| one.range).collect();
    let listing = streams::listing(reader, backup).filter(|_| !ranges.is_empty());
    let Some(listing) = listing else {
        return Vec::new();
    };
    let mut files = Vec::new();
    let Ok(mut entries) = listing.entries(Wanted::all()) else {
        return files;
    };
    while let Ok(Some(listed)) = entries.next_entry() {
        let EntryKind::File { len, .. } = listed.entry.kind else {
            continue;
        };
        let (begin, end) = (listed.content_offset, listed.content_offset.saturating_add(len));
        if ranges
            .iter()
            .any(|range| range.offset < end && begin < range.end())
        {
            files.push(listed.entry.path);
            if files.len() == FILES_MAX {
                break;
            }
        }
    }
    files
}
