//! Whether a range of the previous backup's content can be referred to again.
//!
//! A file that has not changed is still on its source: where a slot that holds a part of it is listed as
//! damaged, or its container is gone, it is read again, and the new backup is whole. Asked by segment, for
//! ranges in stream order; reads nodes of recipes, no catalogs and no data.
//!
//! A catalog that has rotted shows only when a segment is taken apart. A backup that met one is made again with a
//! closer look: the catalogs of every range are read, and the chunks that its ends cut.

use std::sync::Arc;

use format::node::NodeEntry;
use recipe::{NodeSource, Piece, Place, RangeWalker, TreeRoot, child_nodes};
use session::ReclaimView;
use types::{ByteRange, ContainerId, SlotRange};

use crate::door::Door;
use crate::previous::segment_level;

/// Asks of one stream.
pub(crate) struct ParentCheck<'a> {
    door: &'a Door,
    root: TreeRoot,
    /// Whether catalogs are read, too.
    looks_closer: bool,
    /// The segments below the node opened last.
    segments: Vec<NodeAt>,
    /// The segment asked of last.
    last: Option<Verdict>,
}

/// A node and where it begins in the stream.
#[derive(Debug, Clone, Copy)]
struct NodeAt {
    node: TreeRoot,
    begin: u64,
}

impl NodeAt {
    fn end(&self) -> u64 {
        self.begin.saturating_add(self.node.len)
    }

    fn holds(&self, at: u64) -> bool {
        self.begin <= at && at < self.end()
    }
}

#[derive(Debug, Clone, Copy)]
struct Verdict {
    part: NodeAt,
    is_sound: bool,
}

impl<'a> ParentCheck<'a> {
    pub(crate) fn new(door: &'a Door, root: TreeRoot, looks_closer: bool) -> Self {
        Self {
            door,
            root,
            looks_closer,
            segments: Vec::new(),
            last: None,
        }
    }

    /// Whether nothing that the range refers to is known to be bad.
    pub(crate) fn is_sound(&mut self, range: ByteRange) -> bool {
        let view = self.door.session().view();
        let mut at = range.offset;
        while at < range.end() {
            let verdict = match self.last.filter(|last| last.part.holds(at)) {
                Some(verdict) => verdict,
                None => self.judge(at, &view),
            };
            self.last = Some(verdict);
            if !verdict.is_sound || verdict.part.end() <= at {
                return false;
            }
            at = verdict.part.end();
        }
        !self.looks_closer || self.can_be_taken_apart(range)
    }

    /// Whether the range can be had chunk by chunk, and the chunks that its ends cut can be read.
    fn can_be_taken_apart(&self, range: ByteRange) -> bool {
        let Ok(mut walker) = RangeWalker::new(self.door.nodes(), &self.root, range.offset, range.len) else {
            return false;
        };
        loop {
            match walker.next(false) {
                Ok(None) => return true,
                Ok(Some(Piece::PartOfChunk { child, .. })) => {
                    if let Place::At(location) = child.place
                        && self.door.containers().read_chunk(location).is_err()
                    {
                        return false;
                    }
                }
                Ok(Some(_)) => {}
                Err(_) => return false,
            }
        }
    }

    fn judge(&mut self, at: u64, view: &Arc<ReclaimView>) -> Verdict {
        match self.segment(at) {
            Ok(part) => {
                let at = part.node.location;
                let is_sound = match self.door.nodes().node(at) {
                    _ if !view.is_whole(at.container, SlotRange::one(at.slot)) => false,
                    Ok(node) => node.entries.iter().all(|entry| self.is_there(entry, view)),
                    Err(_) => false,
                };
                Verdict { part, is_sound }
            }
            Err(part) => Verdict {
                part,
                is_sound: false,
            },
        }
    }

    /// The segment that holds the byte, or the node above it that cannot be opened.
    fn segment(&mut self, at: u64) -> Result<NodeAt, NodeAt> {
        let within = self.segments.partition_point(|part| part.end() <= at);
        if let Some(part) = self.segments.get(within).filter(|part| part.holds(at)) {
            return Ok(*part);
        }
        let mut part = NodeAt {
            node: self.root,
            begin: 0,
        };
        while part.node.level > segment_level() {
            let children = child_nodes(self.door.nodes(), &part.node).map_err(|_| part)?;
            let mut begin = part.begin;
            let placed = children.into_iter().map(|node| {
                let placed = NodeAt { node, begin };
                begin = placed.end();
                placed
            });
            let placed: Vec<NodeAt> = placed.collect();
            let below = placed.iter().find(|below| below.holds(at)).copied();
            part = below.ok_or(part)?;
            if part.node.level == segment_level() {
                self.segments = placed;
            }
        }
        Ok(part)
    }

    fn is_there(&self, entry: &NodeEntry, view: &ReclaimView) -> bool {
        match *entry {
            NodeEntry::Zeros { .. } => true,
            NodeEntry::Forward { .. } => false,
            NodeEntry::Run {
                container,
                first,
                count,
                ..
            } => {
                SlotRange::new(first, count).is_some_and(|slots| {
                    view.is_whole(container, slots)
                        && self.still_stands(container)
                        && !self.door.is_rotten(container, slots)
                }) && (!self.looks_closer || self.door.has_catalog(container))
            }
        }
    }

    /// Whether a container of the previous backup exists. It should, because this session has
    /// declared that backup.
    fn still_stands(&self, container: ContainerId) -> bool {
        let stands = self.door.stands(container);
        if !stands {
            self.door.containers().note_met(container);
        }
        stands
    }
}
