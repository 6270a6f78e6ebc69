//! Requests of a client that reads the store.
//!
//! Clients may ask for more than the server has memory for. So regions are sent while others are
//! read, as many at once as there is memory for ([`crate::memory`]).

use std::sync::Arc;

use container::{CatalogView, RegionBuffer};
use recipe::{Child, RecipeError, SEGMENT_LEVEL, StoreReader, StreamName, TreeRoot, open_node};
use transport::TransportError;
use types::{ChunkLocation, ContainerId, RegionIndex};
use wire::{AskedRegions, Refusal, RefusalKind, RegionHead, SentCatalog, SentChildren, Wire, request};

use crate::peer::Body;
use crate::shares::{Answer, PART_BYTES};

/// Regions that a client may ask for at once, ...
const ASKED_REGIONS_MAX: usize = 120;
/// ... and bytes of them, as they are stored: as many as of the longest usual regions.
const ASKED_BYTES_MAX: u64 = 128 << 20;
/// Regions of so many plain bytes are read at once, or a single one, ...
pub(crate) const AT_ONCE_BYTES: u64 = 1 << 20;
/// ... and of so many where each read waits for a network.
const FAR_AT_ONCE_BYTES: u64 = 8 << 20;

/// Nodes of one answer, at most, ...
const NODES_MAX: usize = 64;
/// ... and about so many bytes.
const NODES_BYTES_MAX: usize = 32 << 10;

/// Nodes of one answer as children, about, ...
const CHILDREN_MAX: usize = 1 << 14;
/// ... and chunks: those of some four segments.
const CHUNKS_MAX: usize = 1 << 11;

fn unread(error: RecipeError) -> Refusal {
    let kind = if error.is_gone() {
        RefusalKind::Unreadable
    } else {
        RefusalKind::Failed
    };
    Refusal::new(kind, error.to_string())
}

/// Who reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum For {
    /// A running backup. It refers to nodes, and so needs the bound of containers of each.
    Backup,
    /// A restore. It needs no bounds: each costs a read of a node.
    Restore,
}

/// Answers a request that reads, or refuses it if its kind is of no such request.
pub(crate) fn serve(
    answer: Answer<'_>,
    reader: &dyn StoreReader,
    whom: For,
    (kind, body): (u8, Body),
) -> Result<(), TransportError> {
    if kind == request::REGIONS {
        let asked = asked_regions(&body);
        drop(body);
        return match asked {
            Ok(asked) => send_regions(answer, reader, whom, &asked),
            Err(refusal) => answer.refuse(&refusal),
        };
    }
    let found = read(reader, whom, kind, &body);
    drop(body);
    answer.whole(found)
}

/// The answer to a request other than for regions.
pub(crate) fn read(reader: &dyn StoreReader, whom: For, kind: u8, body: &[u8]) -> Result<Vec<u8>, Refusal> {
    Ok(match kind {
        request::NODE => nodes(reader, Wire::from_bytes(body)?)?.to_bytes(),
        request::CATALOG => {
            let catalog = reader.catalog(ContainerId::from_bytes(body)?);
            SentCatalog::of(&*catalog.map_err(unread)?).to_bytes()
        }
        request::STREAM => {
            let (node, name) = <(ChunkLocation, StreamName)>::from_bytes(body)?;
            reader.stream(node, name).map_err(unread)?.to_bytes()
        }
        request::CHILDREN => children(reader, whom, &TreeRoot::from_bytes(body)?)?.to_bytes(),
        request::CHUNK => {
            let chunk = reader.chunk(Wire::from_bytes(body)?);
            chunk.map_err(unread)?.to_bytes()
        }
        request::NEWER => {
            let view = SentCatalog::from_bytes(body)?.view()?;
            let newer = reader.newer_catalog(&view).map_err(unread)?;
            let newer: Vec<_> = newer.iter().map(|view| SentCatalog::of(view)).collect();
            newer.to_bytes()
        }
        kind => {
            let why = format!("no request of kind {kind} while a backup is made or read");
            return Err(Refusal::new(RefusalKind::Malformed, why));
        }
    })
}

/// The node at a place, and those behind it in its container: they are mostly the next ones of its
/// stream.
fn nodes(reader: &dyn StoreReader, first: ChunkLocation) -> Result<Vec<Vec<u8>>, Refusal> {
    let mut sent = vec![reader.node(first).map_err(unread)?.to_bytes()];
    let mut bytes = sent[0].len();
    let Ok(view) = reader.catalog(first.container) else {
        return Ok(sent);
    };
    let mut slot = first.slot;
    while sent.len() < NODES_MAX && bytes < NODES_BYTES_MAX {
        let Some(next) = slot.checked_add(1).filter(|next| view.entry(*next).is_some()) else {
            break;
        };
        slot = next;
        // Behind the nodes of a small backup there are chunks.
        let location = ChunkLocation { slot, ..first };
        let Ok(node) = reader.node(location) else { break };
        let node = node.to_bytes();
        bytes += node.len();
        sent.push(node);
    }
    Ok(sent)
}

/// The children of a node. For a backup, nodes among them have their bound of containers.
pub(crate) fn children_of(
    reader: &dyn StoreReader,
    whom: For,
    node: &TreeRoot,
) -> Result<Vec<Child>, RecipeError> {
    let mut children = open_node(reader, node)?;
    if whom == For::Restore {
        return Ok(children);
    }
    for child in &mut children {
        if let Some(location) = child.location().filter(|_| child.level.get() > 0) {
            // The client finds out what is wrong with a node when it opens it.
            child.containers_max = reader.node(location).map_or(0, |node| node.containers_max);
        }
    }
    Ok(children)
}

/// The children of a node, and of some nodes behind it in its container: they are mostly the next
/// ones of its stream.
fn children(reader: &dyn StoreReader, whom: For, first: &TreeRoot) -> Result<Vec<SentChildren>, Refusal> {
    let sent = |node: &TreeRoot| {
        let children = children_of(reader, whom, node)?;
        Ok(SentChildren {
            node: node.location,
            children,
        })
    };
    let mut all = vec![sent(first).map_err(unread)?];
    let mut count = all[0].children.len();
    let Ok(view) = reader.catalog(first.location.container) else {
        return Ok(all);
    };
    let count_max = if first.level > SEGMENT_LEVEL {
        CHILDREN_MAX
    } else {
        CHUNKS_MAX
    };
    let mut slot = first.location.slot;
    while count < count_max {
        let next = slot.checked_add(1).and_then(|next| view.entry(next));
        let Some(entry) = next.filter(|entry| entry.level == first.level) else {
            break;
        };
        slot = entry.slot;
        let node = TreeRoot {
            location: ChunkLocation {
                slot,
                ..first.location
            },
            level: entry.level,
            fingerprint: entry.fingerprint,
            len: entry.logical_len,
        };
        let Ok(behind) = sent(&node) else { break };
        count += behind.children.len();
        all.push(behind);
    }
    Ok(all)
}

/// The regions that the client asks for.
fn asked_regions(body: &[u8]) -> Result<AskedRegions, Refusal> {
    let asked = AskedRegions::from_bytes(body)?;
    let is_ascending = asked.regions.is_sorted_by(|a, b| a < b);
    if asked.regions.len() > ASKED_REGIONS_MAX || !is_ascending {
        return Err(Refusal::new(
            RefusalKind::Malformed,
            format!("at most {ASKED_REGIONS_MAX} regions at once, in ascending order"),
        ));
    }
    Ok(asked)
}

/// The catalog of the regions that the client asks for.
fn view_of(reader: &dyn StoreReader, asked: &AskedRegions) -> Result<Arc<CatalogView>, Refusal> {
    let view = reader.catalog(asked.container).map_err(unread)?;
    if view.generation() != asked.generation {
        return Err(Refusal::new(
            RefusalKind::Unreadable,
            format!("{} has another generation now", asked.container),
        ));
    }
    let rows = asked.regions.iter().filter_map(|index| view.row(*index));
    let stored: u64 = rows.map(|row| u64::from(row.stored_len)).sum();
    if stored > ASKED_BYTES_MAX && asked.regions.len() > 1 {
        let why = format!("at most {ASKED_BYTES_MAX} bytes at once, of several regions");
        return Err(Refusal::new(RefusalKind::Malformed, why));
    }
    Ok(view)
}

/// Regions that are read at once, and the memory that they need.
pub(crate) fn reads_of<'a>(
    view: &CatalogView,
    regions: &'a [RegionIndex],
    at_once: u64,
) -> Vec<(&'a [RegionIndex], u64)> {
    let mut reads = Vec::new();
    let mut rest = regions;
    while let Some(first) = rest.first() {
        let from = view.row(*first).map_or(0, |row| row.offset);
        let (mut count, mut bytes, mut plain) = (0, 0, 0);
        for index in rest {
            plain += view.plain_len(*index);
            // What lies between two regions is read with them.
            let end = view
                .row(*index)
                .map_or(from, |row| row.offset + u64::from(row.stored_len));
            let stored = end.saturating_sub(from);
            // A few kilobytes may be many megabytes of plain bytes.
            if count > 0 && plain.max(stored) > at_once {
                break;
            }
            (count, bytes) = (count + 1, stored + plain);
        }
        let (now, later) = rest.split_at(count);
        reads.push((now, bytes));
        rest = later;
    }
    reads
}

/// Sends each region that the client asks for, compressed if the store has it so.
fn send_regions(
    mut answer: Answer<'_>,
    reader: &dyn StoreReader,
    whom: For,
    asked: &AskedRegions,
) -> Result<(), TransportError> {
    let view = match view_of(reader, asked) {
        Ok(view) => view,
        Err(refusal) => return answer.refuse(&refusal),
    };
    let at_once = if reader.is_far() {
        FAR_AT_ONCE_BYTES
    } else {
        AT_ONCE_BYTES
    };
    let mut reads = reads_of(&view, &asked.regions, at_once);
    // Each read uses the memory of the one before.
    let most = reads.iter().map(|(_, bytes)| *bytes).max().unwrap_or(0);
    // A running backup has memory of its own, and nobody else's reading may hold it up.
    let memory = (whom == For::Restore).then(|| answer.memory(most));
    if memory.as_ref().is_some_and(Option::is_none) {
        reads = reads_of(&view, &asked.regions, 0);
    }
    let mut buffer = RegionBuffer::default();
    let mut sending = Sending {
        answer,
        part: RegionHead::count(asked.regions.len()),
    };
    for (regions, _) in reads {
        if let Err(error) = reader.read_regions_into(&view, regions, &mut buffer) {
            return sending.answer.refuse(&unread(error));
        }
        for (index, plain) in buffer.regions() {
            let packed = buffer.packed(index);
            let head = RegionHead {
                is_packed: packed.is_some(),
                plain_len: plain.len(),
            };
            sending.region(head, packed.unwrap_or(plain))?;
        }
    }
    sending.answer.end(&sending.part)
}

/// An answer of several regions: what was not sent yet.
struct Sending<'a> {
    answer: Answer<'a>,
    part: Vec<u8>,
}

impl Sending<'_> {
    fn region(&mut self, head: RegionHead, mut bytes: &[u8]) -> Result<(), TransportError> {
        head.append_to(bytes.len(), &mut self.part);
        while !bytes.is_empty() {
            let room = PART_BYTES.saturating_sub(self.part.len()).min(bytes.len());
            let (now, later) = bytes.split_at(room);
            self.part.extend_from_slice(now);
            bytes = later;
            if self.part.len() >= PART_BYTES {
                self.answer.part(&self.part)?;
                self.part.clear();
            }
        }
        Ok(())
    }
}
