//! The backups and files that a damage affects.

use std::collections::BTreeMap;

use format::listing::EntryKind;
use format::manifest::StreamRole;
use recipe::{NodeCache, StreamBytes};
use tree::ListingReader;
use types::ByteRange;

use super::CheckReport;
use crate::damage::BadSlots;
use crate::error::Result;
use crate::reading::Reading;
use crate::snapshots::Snapshot;
use crate::streams::role;

/// The most files to name for one backup. More files may be damaged.
const FILES_MAX: usize = 1000;

/// Marks the backups whose streams refer to a bad slot, and names their files. Costs nothing
/// without bad slots.
pub(super) fn find_touched(
    reading: &Reading<'_>,
    backups: &[Snapshot],
    bad: &BadSlots,
    report: &mut CheckReport,
) -> Result<()> {
    if bad.is_empty() && report.damaged_backups.is_empty() {
        return Ok(());
    }
    let nodes = reading.fresh_nodes()?;
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

/// The parts of a stream that a restore could not read.
fn lost_ranges(nodes: &NodeCache, root: &recipe::TreeRoot, bad: &BadSlots) -> Vec<ByteRange> {
    let mut lost: Vec<ByteRange> = Vec::new();
    let mut offset = 0;
    let whole = [ByteRange {
        offset,
        len: root.len,
    }];
    for reference in ::restore::references(nodes, root, &whole) {
        let (len, is_lost) = match reference {
            Ok(reference) => {
                let is_bad = reference.chunk.is_some_and(|part| {
                    bad.get(&part.location.container)
                        .is_some_and(|slots| slots.iter().any(|slots| slots.contains(part.location.slot)))
                });
                (reference.len, is_bad)
            }
            Err(::restore::RestoreError::LostPart { len, .. }) => (len, true),
            Err(_) => (root.len - offset, true),
        };
        if is_lost {
            add(&mut lost, ByteRange { offset, len });
        }
        offset += len;
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
    // A damaged listing is a finding of its own. The loop still names the files that it can read.
    while let Ok(Some(listed)) = reader.next_entry() {
        let is_lost = match &listed.entry.kind {
            EntryKind::File { len, .. } => {
                let end = listed.content_offset + len;
                lost.iter()
                    .any(|range| range.offset < end && listed.content_offset < range.end())
            }
            // The first name of a file comes before its other names, and is named already.
            EntryKind::HardLink { target } => files.contains(target),
            _ => false,
        };
        if is_lost && files.len() < FILES_MAX {
            files.push(listed.entry.path);
        }
    }
    files
}
