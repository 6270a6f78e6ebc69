//! Which backups and files a damage touches.

use std::collections::BTreeMap;

use format::listing::EntryKind;
use format::manifest::StreamRole;
use recipe::{ChunkRefs, NodeCache, Place, StreamBytes};
use tree::ListingReader;
use types::ByteRange;

use super::{BadSlots, CheckReport};
use crate::backup::role;
use crate::error::Result;
use crate::snapshots::Snapshot;
use crate::store::Store;

/// Files named for one backup at most; the others are as damaged.
const FILES_MAX: usize = 1000;

/// Marks the backups whose streams refer to a bad slot, and names their files. Costs nothing when there
/// is none.
pub(super) fn find_touched(
    store: &Store,
    backups: &[Snapshot],
    bad: &BadSlots,
    report: &mut CheckReport,
) -> Result<()> {
    if bad.is_empty() && report.damaged_backups.is_empty() {
        return Ok(());
    }
    let nodes = store.nodes();
    for snapshot in backups {
        let mut lost: BTreeMap<StreamRole, Vec<ByteRange>> = BTreeMap::new();
        for stream in &snapshot.backup.streams {
            let ranges = lost_ranges(&nodes, &recipe::TreeRoot::from(stream), bad);
            if !ranges.is_empty() {
                lost.insert(stream.role, ranges);
            }
        }
        if lost.is_empty() {
            continue;
        }
        report.damaged_backups.insert(snapshot.id);
        if let Some(content) = lost.get(&StreamRole::Content) {
            let files = files_within(&nodes, snapshot, content);
            report.damaged_files.insert(snapshot.id, files);
        }
    }
    Ok(())
}

/// The parts of a stream that cannot be had. What lies behind an unreadable node is lost up to the end of
/// the segment that can be told from the nodes above, or of the stream.
fn lost_ranges(nodes: &NodeCache, root: &recipe::TreeRoot, bad: &BadSlots) -> Vec<ByteRange> {
    let mut lost: Vec<ByteRange> = Vec::new();
    let mut offset = 0;
    while offset < root.len {
        let Ok(refs) = ChunkRefs::new(nodes, root, offset, root.len - offset) else {
            break;
        };
        let mut failed = false;
        for reference in refs {
            let Ok(reference) = reference else {
                failed = true;
                break;
            };
            offset = reference.offset + reference.len;
            let Place::At(location) = reference.place else {
                continue;
            };
            let is_bad = bad
                .get(&location.container)
                .is_some_and(|slots| slots.iter().any(|slots| slots.contains(location.slot)));
            if is_bad {
                add(
                    &mut lost,
                    ByteRange {
                        offset: reference.offset,
                        len: reference.len,
                    },
                );
            }
        }
        if !failed {
            break;
        }
        // Feel for the end of what is unreadable, in steps that no segment is shorter than by much.
        let step = (64 << 10).min(root.len - offset);
        add(&mut lost, ByteRange { offset, len: step });
        offset += step;
    }
    lost
}

fn add(lost: &mut Vec<ByteRange>, range: ByteRange) {
    match lost.last_mut() {
        Some(last) if last.end() == range.offset => last.len += range.len,
        _ => lost.push(range),
    }
}

fn files_within(nodes: &NodeCache, snapshot: &Snapshot, lost: &[ByteRange]) -> Vec<Vec<u8>> {
    let mut files = Vec::new();
    let Some(listing) = role(&snapshot.backup, StreamRole::Listing) else {
        return files;
    };
    let Ok(bytes) = StreamBytes::new(nodes, &listing, 0, listing.len) else {
        return files;
    };
    let mut reader = ListingReader::new(bytes);
    // A damaged listing is a finding of its own; what it still names is named.
    while let Ok(Some(listed)) = reader.next_entry() {
        let EntryKind::File { len, .. } = listed.entry.kind else {
            continue;
        };
        let end = listed.content_offset + len;
        if files.len() < FILES_MAX
            && lost
                .iter()
                .any(|range| range.offset < end && listed.content_offset < range.end())
        {
            files.push(listed.entry.path);
        }
    }
    files
}
