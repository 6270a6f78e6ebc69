//! Finds the parts of an earlier backup's stream to which a backup must not refer.
//!
//! An unchanged file still exists in the source. If a slot with a part of it is listed as damaged,
//! or its container is missing, the backup reads the file again, and the new backup is whole. It
//! judges segments, and reads only nodes of recipes: no catalogs and no data.
//!
//! A rotten catalog is noticed only when a segment is taken apart. Then the backup is made again
//! from a suspect parent, and reads the catalogs of every range.

use std::sync::Arc;

use format::node::NodeEntry;
use recipe::{NodeSource, RangeWalker, SEGMENT_LEVEL, TreeRoot, child_nodes};
use session::ReclaimView;
use types::{ByteRange, SlotRange};

use crate::store::lookups::refers_only_to;
use crate::store::session::StoreSession;

/// A node, and its offset in the stream.
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

/// Judges the segments of one stream.
struct Judge<'a> {
    session: &'a StoreSession,
    root: TreeRoot,
    view: Arc<ReclaimView>,
    /// The segments below the node opened last.
    segments: Vec<NodeAt>,
}

impl StoreSession {
    /// Whether a backup may refer to all of a stream, or of a part of it that has a node.
    #[must_use]
    pub fn is_sound(&self, root: &TreeRoot) -> bool {
        let len = root.len;
        self.unsound(root, ByteRange { offset: 0, len }).is_empty()
    }

    /// The segments within a range of a stream that are not sound, joined where they touch.
    pub(crate) fn unsound(&self, root: &TreeRoot, range: ByteRange) -> Vec<ByteRange> {
        let mut judge = Judge {
            session: self,
            root: *root,
            view: self.session().view(),
            segments: Vec::new(),
        };
        let mut unsound: Vec<ByteRange> = Vec::new();
        let mut at = range.offset;
        let end = range.end().min(root.len);
        while at < end {
            let (part, is_sound) = judge.judge(at);
            // A node with a wrong length: no later part of the stream is trusted.
            let until = if part.end() > at { part.end() } else { end };
            if !is_sound || part.end() <= at {
                let begin = part.begin.min(at);
                match unsound.last_mut() {
                    Some(last) if last.end() >= begin => last.len = until - last.offset,
                    _ => unsound.push(ByteRange {
                        offset: begin,
                        len: until - begin,
                    }),
                }
            }
            at = until;
        }
        unsound
    }
}

impl Judge<'_> {
    fn judge(&mut self, at: u64) -> (NodeAt, bool) {
        let (part, is_segment) = match self.segment(at) {
            Ok(part) => (part, true),
            Err(part) => (part, false),
        };
        (part, is_segment && self.is_sound(&part))
    }

    fn is_sound(&self, part: &NodeAt) -> bool {
        let at = part.node.location;
        if !self.view.is_whole(at.container, SlotRange::one(at.slot)) {
            return false;
        }
        match self.session.nodes.node(at) {
            Ok(node) => {
                node.entries.iter().all(|entry| self.is_there(entry))
                    && (!self.session.is_suspect() || self.can_be_taken_apart(part))
            }
            Err(_) => false,
        }
    }

    /// Whether all chunks of the segment can be found one by one.
    fn can_be_taken_apart(&self, part: &NodeAt) -> bool {
        let range = RangeWalker::new(&self.session.nodes, &self.root, part.begin, part.node.len);
        let Ok(mut walker) = range else {
            return false;
        };
        loop {
            match walker.next(false) {
                Ok(None) => return true,
                Ok(Some(_)) => {}
                Err(_) => return false,
            }
        }
    }

    /// The segment with this byte, or the node above it that cannot be opened.
    fn segment(&mut self, at: u64) -> Result<NodeAt, NodeAt> {
        let within = self.segments.partition_point(|part| part.end() <= at);
        if let Some(part) = self.segments.get(within).filter(|part| part.holds(at)) {
            return Ok(*part);
        }
        let mut part = NodeAt {
            node: self.root,
            begin: 0,
        };
        while part.node.level > SEGMENT_LEVEL {
            let children = child_nodes(&self.session.nodes, &part.node).map_err(|_| part)?;
            let mut begin = part.begin;
            let placed = children.into_iter().map(|node| {
                let placed = NodeAt { node, begin };
                begin = placed.end();
                placed
            });
            let placed: Vec<NodeAt> = placed.collect();
            let below = placed.iter().find(|below| below.holds(at)).copied();
            part = below.ok_or(part)?;
            if part.node.level == SEGMENT_LEVEL {
                self.segments = placed;
            }
        }
        Ok(part)
    }

    fn is_there(&self, entry: &NodeEntry) -> bool {
        refers_only_to(entry, |container, slots| {
            // It should exist, because this session has declared the backup that refers to it.
            if self.view.is_whole(container, slots) && !self.session.existence.stands(container) {
                self.session.containers().note_met(container);
            }
            self.session.has(&self.view, container, slots)
                && (!self.session.is_suspect() || self.session.existence.has_catalog(container))
        })
    }
}
