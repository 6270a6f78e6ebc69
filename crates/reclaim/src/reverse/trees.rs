//! The tree of an archival backup: equal to the tree that it replaces, fingerprint by fingerprint,
//! with other references [RevDedup 2.4.1] (R2).
//!
//! A segment that the later backup has becomes one forward reference. In other segments, there are
//! three cases: a chunk that the later backup has becomes a forward reference; a chunk that other
//! live backups have stays where it is (R3); any other chunk is copied to the archive (R4). A node
//! without a change stays, except the root.
//!
//! Invariant: forward references begin and end with a chunk. Equal nodes are written once.

use std::collections::{HashMap, HashSet};

use format::node::{Node, NodeEntry};
use recipe::{
    Child, NodeCache, NodeSource, Place, RecipeError, StreamName, TreeRoot, child_nodes, open_node,
    segment_node,
};
use types::{ChunkLocation, ContainerKind, Fingerprint, Level};

use super::matches::Matches;
use super::shared::Shared;
use crate::error::{ReclaimError, Result};
use crate::progress::Progress;
use crate::rewrite::{Copies, NodeWriter, Numbers};

/// Bytes of the stream by case.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Counts {
    pub(super) forward: u64,
    pub(super) shared: u64,
    pub(super) segments: u64,
}

/// Rewrites the trees of one backup.
pub(super) struct Trees<'a, 'b> {
    pub(super) nodes: &'a NodeCache,
    /// `None`: no shared chunks are needed.
    pub(super) shared: Option<Shared<'a>>,
    pub(super) numbers: &'a mut Numbers,
    pub(super) archive: &'a mut Copies,
    pub(super) writer: &'a mut NodeWriter<'b>,
    pub(super) counts: Counts,
    pub(super) of: types::SessionId,
    pub(super) progress: &'a dyn Progress,
}

/// One stream of the backup.
struct Stream<'a> {
    matches: &'a Matches,
    /// The stream to refer forward to.
    later: StreamName,
    done: HashMap<(Level, Fingerprint), Child>,
}

impl Trees<'_, '_> {
    /// The new root of a stream. It is a new node even if only the next backup has changed: a
    /// process that sees the old root must be sure that it was never replaced ([`crate::rewrite`]).
    ///
    /// # Errors
    /// `NotRewritten`, `TooLarge`; of the storage.
    pub(super) fn stream(
        &mut self,
        root: &TreeRoot,
        matches: &Matches,
        later: StreamName,
    ) -> Result<TreeRoot> {
        let mut stream = Stream {
            matches,
            later,
            done: HashMap::new(),
        };
        let child = self.node(&mut stream, root)?;
        let location = match child.location() {
            Some(location) if location != root.location => location,
            _ => {
                let old = self.nodes.node(root.location);
                let old = old.map_err(|error| self.broken(error))?;
                self.writer.store(self.numbers, &root.fingerprint, &old)?
            }
        };
        Ok(TreeRoot { location, ..*root })
    }

    fn broken(&self, source: RecipeError) -> ReclaimError {
        ReclaimError::NotRewritten {
            backup: self.of,
            source,
        }
    }

    fn node(&mut self, stream: &mut Stream<'_>, at: &TreeRoot) -> Result<Child> {
        if let Some(done) = stream.done.get(&(at.level, at.fingerprint)) {
            self.progress.add_done(at.len);
            return Ok(*done);
        }
        let old = self.nodes.node(at.location).map_err(|error| self.broken(error))?;
        let new = if at.level.get() == 1 {
            self.segment(stream, at, &old)?
        } else {
            let below = child_nodes(self.nodes, at).map_err(|error| self.broken(error))?;
            let mut children = Vec::with_capacity(below.len());
            let mut is_same = true;
            for node in &below {
                let child = self.node(stream, node)?;
                is_same &= child.location() == Some(node.location);
                children.push(child);
            }
            (!is_same).then(|| segment_node(&children))
        };
        let (location, containers_max) = match &new {
            Some(node) => (
                self.writer.store(self.numbers, &at.fingerprint, node)?,
                node.containers_max,
            ),
            None => (at.location, old.containers_max),
        };
        let child = Child {
            fingerprint: at.fingerprint,
            logical_len: at.len,
            level: at.level,
            place: Place::At(location),
            containers_max,
        };
        stream.done.insert((at.level, at.fingerprint), child);
        Ok(child)
    }

    /// The new segment. `None`: it stays as it is.
    fn segment(&mut self, stream: &Stream<'_>, at: &TreeRoot, old: &Node) -> Result<Option<Node>> {
        if self.progress.is_cancelled() {
            return Err(ReclaimError::Interrupted);
        }
        self.counts.segments += 1;
        let archived = self.archive.bytes;
        let mut entries = Entries::of(stream.later);
        if let Some(offset) = stream.matches.segment(&at.fingerprint) {
            whole(&mut entries, old, offset);
        } else {
            let children = open_node(self.nodes, at).map_err(|error| self.broken(error))?;
            let mut is_own = OwnRuns::of(old);
            for child in &children {
                let is_own = is_own.next(child.logical_len);
                self.chunk(stream, child, is_own, &mut entries)?;
            }
        }
        self.counts.forward += entries.forward_bytes();
        // Archived bytes count when they are copied.
        let archived = self.archive.bytes - archived;
        self.progress.add_done(at.len.saturating_sub(archived));
        let node = Node {
            level: at.level,
            logical_len: at.len,
            containers_max: entries.containers(),
            entries: entries.list,
        };
        Ok((node.entries != old.entries).then_some(node))
    }

    fn is_shared(&self, place: ChunkLocation) -> bool {
        self.shared
            .is_some_and(|shared| shared.contains(place.container, place.slot))
    }

    fn chunk(
        &mut self,
        stream: &Stream<'_>,
        child: &Child,
        is_own: bool,
        entries: &mut Entries,
    ) -> Result<()> {
        let Place::At(place) = child.place else {
            entries.zeros(child.logical_len);
            return Ok(());
        };
        if let Some(offset) = stream.matches.chunk(&child.fingerprint) {
            entries.forward(offset, child.logical_len);
            return Ok(());
        }
        let is_archived = is_own && place.container.kind == ContainerKind::Archive;
        let at = if is_archived {
            place
        } else if self.is_shared(place) {
            self.counts.shared += child.logical_len;
            place
        } else {
            let too_large = ReclaimError::TooLarge { backup: self.of };
            let len = u32::try_from(child.logical_len);
            let added = len.ok().and_then(|len| {
                self.archive
                    .add(self.numbers, child.fingerprint, len, place, len.into())
            });
            added.ok_or(too_large)?
        };
        entries.chunk(at, child.logical_len);
        Ok(())
    }
}

/// Adds a segment that the later stream has from `offset` on. Zeros at its ends stay in the new
/// segment.
fn whole(entries: &mut Entries, old: &Node, offset: u64) {
    let zeros = |entry: Option<&NodeEntry>| match entry {
        Some(NodeEntry::Zeros { len }) => *len,
        _ => 0,
    };
    let before = zeros(old.entries.first());
    let after = if old.entries.len() > 1 {
        zeros(old.entries.last())
    } else {
        0
    };
    entries.zeros(before);
    // The old node is not checked here: the new one is checked when it is read back.
    let ends = before.saturating_add(after);
    entries.forward(
        offset.saturating_add(before),
        old.logical_len.saturating_sub(ends),
    );
    entries.zeros(after);
}

/// Tells for each child of a node, in order, whether a run of the node has it, and not a forward
/// reference.
struct OwnRuns<'a> {
    entries: std::slice::Iter<'a, NodeEntry>,
    is_own: bool,
    left: u64,
}

impl<'a> OwnRuns<'a> {
    fn of(node: &'a Node) -> Self {
        Self {
            entries: node.entries.iter(),
            is_own: false,
            left: 0,
        }
    }

    fn next(&mut self, len: u64) -> bool {
        if self.left == 0
            && let Some(entry) = self.entries.next()
        {
            self.left = entry.logical_len();
            self.is_own = matches!(entry, NodeEntry::Run { .. });
        }
        self.left = self.left.saturating_sub(len);
        self.is_own
    }
}

/// The entries of a new segment, each as long as possible.
struct Entries {
    later: StreamName,
    list: Vec<NodeEntry>,
}

impl Entries {
    const fn of(later: StreamName) -> Self {
        Self {
            later,
            list: Vec::new(),
        }
    }

    fn zeros(&mut self, more: u64) {
        match self.list.last_mut() {
            _ if more == 0 => {}
            Some(NodeEntry::Zeros { len }) => *len += more,
            _ => self.list.push(NodeEntry::Zeros { len: more }),
        }
    }

    fn forward(&mut self, from: u64, more: u64) {
        match self.list.last_mut() {
            _ if more == 0 => {}
            Some(NodeEntry::Forward { offset, len, .. }) if *offset + *len == from => *len += more,
            _ => self.list.push(NodeEntry::Forward {
                series: self.later.series,
                backup: self.later.backup,
                stream: self.later.stream,
                offset: from,
                len: more,
            }),
        }
    }

    fn chunk(&mut self, at: ChunkLocation, more: u64) {
        if let Some(NodeEntry::Run {
            container,
            first,
            count,
            logical_len,
        }) = self.list.last_mut()
            && *container == at.container
            && first.checked_add(*count) == Some(at.slot)
        {
            *count += 1;
            *logical_len += more;
            return;
        }
        self.list.push(NodeEntry::Run {
            container: at.container,
            first: at.slot,
            count: 1,
            logical_len: more,
        });
    }

    fn forward_bytes(&self) -> u64 {
        let of_one = |entry: &NodeEntry| match entry {
            NodeEntry::Forward { len, .. } => *len,
            _ => 0,
        };
        self.list.iter().map(of_one).sum()
    }

    fn containers(&self) -> u32 {
        let distinct: HashSet<_> = self
            .list
            .iter()
            .filter_map(|entry| match entry {
                NodeEntry::Run { container, .. } => Some(*container),
                _ => None,
            })
            .collect();
        u32::try_from(distinct.len()).unwrap_or(u32::MAX)
    }
}
