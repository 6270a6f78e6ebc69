//! The backups and files that a damage affects.
//!
//! Backups share most of their nodes, so for each node the walk finds once whether it reaches a bad
//! slot. It enters the nodes of a backup only where they do. So the cost is that of the distinct
//! nodes, and of the damaged parts of each backup.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::hash::{BuildHasher, RandomState};

use format::listing::EntryKind;
use format::manifest::StreamRole;
use format::node::NodeEntry;
use recipe::{NodeCache, NodeSource, Place, RecipeError, StreamBytes, TreeRoot};
use tree::ListingReader;
use types::{ByteRange, ChunkLocation, ContainerId, ContainerKind, Fingerprint, SlotRange};

use super::CheckReport;
use super::needs::Needs;
use super::structure::{Structure, stops};
use crate::damage::{BadSlots, merged};
use crate::error::Result;
use crate::monitor::Monitor;
use crate::reading::Reading;
use crate::snapshots::Snapshot;
use crate::streams::role;

/// The most files to name for one backup. Further ones are counted.
const FILES_MAX: usize = 1000;

/// Marks the backups whose streams refer to a bad slot, and names their files. Costs nothing
/// without bad slots that a backup needs.
pub(super) fn find_touched(
    reading: &Reading<'_>,
    structure: &Structure,
    bad: &BadSlots,
    monitor: &Monitor,
    report: &mut CheckReport,
) -> Result<()> {
    let bad = needed_of(bad, &structure.needs);
    if bad.is_empty() && report.damaged_backups.is_empty() {
        return Ok(());
    }
    let nodes = reading.fresh_nodes()?;
    let mut damage = DamageWalk {
        nodes: &nodes,
        bad: &bad,
        sound: &structure.sound,
        monitor,
        damaged: HashMap::new(),
    };
    for snapshot in &structure.backups {
        let mut lost: BTreeMap<StreamRole, Vec<ByteRange>> = BTreeMap::new();
        for stream in &snapshot.backup.streams {
            let mut ranges = Vec::new();
            damage.add_lost(&TreeRoot::from(stream), 0, &mut ranges)?;
            if !ranges.is_empty() {
                lost.insert(stream.role, ranges);
            }
        }
        if lost.is_empty() {
            continue;
        }
        report.damaged_backups.insert(snapshot.id);
        if lost.contains_key(&StreamRole::Listing) {
            report.unread_listings.insert(snapshot.id);
        }
        if let Some(content) = lost.get(&StreamRole::Content) {
            let files = DamagedFiles::within(&nodes, snapshot, content, monitor)?;
            report.damaged_files.insert(snapshot.id, files.named);
            if files.more > 0 {
                report.damaged_files_more.insert(snapshot.id, files.more);
            }
            if files.is_cut {
                report.unread_listings.insert(snapshot.id);
            }
        }
    }
    Ok(())
}

/// The bad slots that a backup needs, merged. Copies of catalogs have no bytes of a backup.
fn needed_of(bad: &BadSlots, needs: &Needs) -> BadSlots {
    let of_backups = bad.iter().filter(|(id, _)| id.kind != ContainerKind::Catalog);
    let needed = of_backups.map(|(id, slots)| {
        let slots = merged(slots).into_iter();
        (*id, slots.filter(|range| needs.has_any(*id, &[*range])).collect())
    });
    needed
        .filter(|(_, slots): &(_, Vec<_>)| !slots.is_empty())
        .collect()
}

/// Walks to the damaged parts of recipes.
struct DamageWalk<'a> {
    nodes: &'a NodeCache,
    bad: &'a BadSlots,
    /// Whether everything below a node could be read, of the nodes that the structure has.
    sound: &'a HashMap<(ChunkLocation, Fingerprint), bool>,
    monitor: &'a Monitor,
    /// Whether a node is damaged, or anything below it.
    damaged: HashMap<(ChunkLocation, Fingerprint), bool>,
}

impl DamageWalk<'_> {
    /// Adds the parts of a node that a restore could not read. The node begins at this offset of
    /// its stream.
    fn add_lost(&mut self, node: &TreeRoot, offset: u64, lost: &mut Vec<ByteRange>) -> Result<()> {
        if !self.is_damaged(node)? {
            return Ok(());
        }
        let is_segment = node.level.get() == 1;
        let children = match is_segment {
            true => None,
            false => unless_damaged(recipe::child_nodes(self.nodes, node))?,
        };
        let Some(children) = children else {
            return self.add_lost_references(node, offset, lost);
        };
        let mut at = offset;
        for child in children {
            self.add_lost(&child, at, lost)?;
            at += child.len;
        }
        Ok(())
    }

    /// The same for a segment, or for a node that cannot be opened.
    fn add_lost_references(&self, node: &TreeRoot, mut offset: u64, lost: &mut Vec<ByteRange>) -> Result<()> {
        let end = offset + node.len;
        let whole = [ByteRange {
            offset: 0,
            len: node.len,
        }];
        for reference in ::restore::references(self.nodes, node, &whole) {
            let (len, is_lost) = match reference {
                Ok(reference) => {
                    let chunk = reference.chunk.map(|part| part.location);
                    (reference.len, chunk.is_some_and(|chunk| self.is_bad_slot(chunk)))
                }
                Err(::restore::RestoreError::LostPart { len, .. }) => (len, true),
                Err(::restore::RestoreError::Recipe(error)) if stops(&error) => return Err(error.into()),
                Err(_) => (end - offset, true),
            };
            if is_lost {
                add(lost, ByteRange { offset, len });
            }
            offset += len;
        }
        Ok(())
    }

    /// Whether the node, or anything below it, is damaged. Looks at each node once.
    fn is_damaged(&mut self, node: &TreeRoot) -> Result<bool> {
        let key = (node.location, node.fingerprint);
        if self.sound.get(&key) != Some(&true) {
            return Ok(true);
        }
        if self.bad.is_empty() {
            return Ok(false);
        }
        if let Some(damaged) = self.damaged.get(&key) {
            return Ok(*damaged);
        }
        if self.monitor.is_cancelled() {
            return Err(::restore::RestoreError::Interrupted.into());
        }
        let mut damaged = self.is_bad_slot(node.location);
        if node.level.get() == 1 {
            damaged = damaged || self.reaches_bad_slot(node)?;
        } else if let Some(children) = unless_damaged(recipe::child_nodes(self.nodes, node))? {
            for child in children {
                damaged = damaged || self.is_damaged(&child)?;
            }
        } else {
            damaged = true;
        }
        self.damaged.insert(key, damaged);
        Ok(damaged)
    }

    /// Whether a segment refers to a bad slot, or cannot be read.
    fn reaches_bad_slot(&self, segment: &TreeRoot) -> Result<bool> {
        let Some(node) = unless_damaged(self.nodes.node(segment.location))? else {
            return Ok(true);
        };
        let is_forward = |entry: &NodeEntry| matches!(entry, NodeEntry::Forward { .. });
        if !node.entries.iter().any(is_forward) {
            return Ok(node.entries.iter().any(|entry| match entry {
                NodeEntry::Run {
                    container,
                    first,
                    count,
                    ..
                } => SlotRange::new(*first, *count).is_none_or(|slots| self.has_bad(*container, slots)),
                _ => false,
            }));
        }
        // The chunks are at the end of the references.
        let children = unless_damaged(recipe::open_node(self.nodes, segment))?;
        Ok(children.is_none_or(|children| {
            children.iter().any(|child| match child.place {
                Place::At(location) => self.is_bad_slot(location),
                Place::Zeros => false,
            })
        }))
    }

    fn is_bad_slot(&self, at: ChunkLocation) -> bool {
        self.has_bad(at.container, SlotRange::one(at.slot))
    }

    /// Whether any of these slots is bad.
    fn has_bad(&self, id: ContainerId, slots: SlotRange) -> bool {
        let bad = self.bad.get(&id).map_or(&[][..], Vec::as_slice);
        let at = bad.partition_point(|range| range.end() <= slots.first().get());
        bad.get(at).is_some_and(|range| range.first().get() < slots.end())
    }
}

/// `None` for a recipe that is damaged there. An error of the storage ends the check.
fn unless_damaged<T>(read: std::result::Result<T, RecipeError>) -> Result<Option<T>> {
    match read {
        Ok(read) => Ok(Some(read)),
        Err(error) if stops(&error) => Err(error.into()),
        Err(_) => Ok(None),
    }
}

fn add(lost: &mut Vec<ByteRange>, range: ByteRange) {
    match lost.last_mut() {
        Some(last) if last.end() == range.offset => last.len += range.len,
        _ => lost.push(range),
    }
}

/// The damaged files of a backup.
#[derive(Default)]
struct DamagedFiles {
    /// The first ones, by path.
    named: Vec<Vec<u8>>,
    /// The number of further ones.
    more: u64,
    /// The listing cannot be read to its end.
    is_cut: bool,
}

impl DamagedFiles {
    /// The files with bytes in the lost ranges, which ascend.
    fn within(nodes: &NodeCache, snapshot: &Snapshot, lost: &[ByteRange], monitor: &Monitor) -> Result<Self> {
        let mut files = Self::default();
        let Some(listing) = role(&snapshot.backup, StreamRole::Listing) else {
            return Ok(files);
        };
        let Some(bytes) = unless_damaged(StreamBytes::new(nodes, &listing, 0, listing.len))? else {
            files.is_cut = true;
            return Ok(files);
        };
        let mut reader = ListingReader::new(bytes);
        // The first names of damaged files, as hashes: a listing may have millions.
        let (hasher, mut first_names) = (RandomState::new(), HashSet::new());
        loop {
            if monitor.is_cancelled() {
                return Err(::restore::RestoreError::Interrupted.into());
            }
            let listed = match reader.next_entry() {
                Ok(Some(listed)) => listed,
                Ok(None) => return Ok(files),
                // A damaged listing is a finding of its own.
                Err(_) => {
                    files.is_cut = true;
                    return Ok(files);
                }
            };
            let is_lost = match &listed.entry.kind {
                EntryKind::File { len, .. } => {
                    let (begin, end) = (listed.content_offset, listed.content_offset + len);
                    let at = lost.partition_point(|range| range.end() <= begin);
                    let range = lost.get(at);
                    let is_in = range.is_some_and(|range| range.offset < end && begin < end);
                    if is_in {
                        first_names.insert(hasher.hash_one(&listed.entry.path));
                    }
                    is_in
                }
                // The first name of a file comes before its other names.
                EntryKind::HardLink { target } => first_names.contains(&hasher.hash_one(target)),
                _ => false,
            };
            if is_lost && files.named.len() < FILES_MAX {
                files.named.push(listed.entry.path);
            } else if is_lost {
                files.more += 1;
            }
        }
    }
}
