//! Builds a stream's tree from its children, or from whole nodes of another tree.
//!
//! Invariant: the tree depends only on the sequence of children. The builder holds back zeros until
//! something else follows, so a run is one child however it arrived. Each level has its own
//! [`NodeCutter`]. The builder accepts a whole node only right after a cut at every level below it.
//!
//! Memory: at most one open node for each level. One thread. After an error the builder cannot be
//! used.

use chunking::NodeCutter;
use crypto::Fingerprinter;
use format::session::SpineNode;
use types::{Fingerprint, Level};

use crate::child::{CHUNK_LEVEL, Child, Place, level_above, segment_node};
use crate::error::RecipeError;
use crate::source::NodeSink;
use crate::tree_root::TreeRoot;

/// The open node over children of one level.
#[derive(Debug, Clone)]
struct OpenNode {
    children: Vec<Child>,
    cutter: NodeCutter,
}

/// Builds one tree.
#[derive(Debug, Clone)]
pub struct TreeBuilder {
    printer: Fingerprinter,
    children_avg: u32,
    /// By the level of the children.
    open: Vec<OpenNode>,
    zeros: u64,
    len: u64,
}

impl TreeBuilder {
    /// A builder of nodes of `children_avg` children on average, a power of two of at least 4
    /// (`Settings::node_avg_children`).
    ///
    /// # Panics
    /// If [`NodeCutter::new`] does not take the average.
    #[must_use]
    pub fn new(printer: Fingerprinter, children_avg: u32) -> Self {
        let mut builder = Self {
            printer,
            children_avg,
            open: Vec::new(),
            zeros: 0,
            len: 0,
        };
        builder.open_level(CHUNK_LEVEL);
        builder
    }

    /// A builder that goes on where another one was, of which this is the [`Self::spine`]. `None`
    /// where no builder leaves such a spine: it has a chunk, levels in another order, or nodes
    /// after which the cut rule ends one.
    #[must_use]
    pub fn resume(printer: Fingerprinter, children_avg: u32, spine: &[SpineNode]) -> Option<Self> {
        let mut builder = Self::new(printer, children_avg);
        let mut lowest = CHUNK_LEVEL;
        for node in spine {
            if node.level == CHUNK_LEVEL || node.level < lowest || node.len == 0 {
                return None;
            }
            lowest = node.level;
            builder.len = builder.len.checked_add(node.len)?;
            let open = builder.open_level(node.level);
            open.children.push(node.into());
            if node.level < Level::MAX && open.cutter.push(&node.fingerprint) {
                return None;
            }
        }
        Some(builder)
    }

    /// The bytes of stream so far.
    #[must_use]
    pub const fn len(&self) -> u64 {
        self.len
    }

    /// Whether nothing was pushed yet.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Adds a chunk or a run of zeros. Successive runs of zeros join. Their fingerprint is computed
    /// here, and that of `child` is ignored.
    ///
    /// # Errors
    /// [`RecipeError::TooLong`], and errors of the sink.
    ///
    /// # Panics
    /// If the child is a node, or has no bytes.
    pub fn push(&mut self, child: Child, sink: &mut dyn NodeSink) -> Result<(), RecipeError> {
        assert_eq!(child.level, CHUNK_LEVEL, "nodes are pushed by push_node");
        assert_ne!(child.logical_len, 0, "a child stands for some bytes");
        match child.place {
            Place::Zeros => self.push_zeros(child.logical_len),
            Place::At(_) => {
                self.close_zeros(sink)?;
                self.grow(child.logical_len)?;
                self.add(child, sink)
            }
        }
    }

    /// Adds zeros. They join adjacent zeros.
    ///
    /// # Errors
    /// [`RecipeError::TooLong`].
    pub fn push_zeros(&mut self, len: u64) -> Result<(), RecipeError> {
        self.grow(len)?;
        self.zeros += len;
        Ok(())
    }

    /// Whether a run of zeros is held back, because it might continue.
    const fn has_open_zeros(&self) -> bool {
        self.zeros > 0
    }

    /// Ends the held-back run of zeros: no zeros follow.
    fn close_zeros(&mut self, sink: &mut dyn NodeSink) -> Result<(), RecipeError> {
        match std::mem::take(&mut self.zeros) {
            0 => Ok(()),
            len => self.add(Child::zeros(self.printer.zeros(len), len), sink),
        }
    }

    /// The children of open nodes, lower levels first. No stored node refers to them yet, so a
    /// checkpoint must name them. Held-back zeros are not among them.
    pub fn pending(&self) -> impl Iterator<Item = &Child> {
        self.open.iter().flat_map(|open| &open.children)
    }

    /// The pending nodes, from which [`Self::resume`] makes the builder again; `None` while chunks
    /// or zeros are among what is pending, which no checkpoint can name.
    #[must_use]
    pub fn spine(&self) -> Option<Vec<SpineNode>> {
        let node = |child: &Child| {
            let root = child.as_root()?;
            Some(SpineNode {
                level: root.level,
                fingerprint: root.fingerprint,
                len: root.len,
                location: root.location,
                containers_max: child.containers_max,
            })
        };
        let spine: Option<Vec<SpineNode>> = self.pending().map(node).collect();
        spine.filter(|_| !self.has_open_zeros())
    }

    /// The child over the last bytes of the stream, if no zeros are held back behind it.
    #[must_use]
    pub fn last(&self) -> Option<&Child> {
        let lowest = self.open.iter().find(|open| !open.children.is_empty());
        lowest.filter(|_| !self.has_open_zeros())?.children.last()
    }

    /// The highest level of a whole node that may follow; 0 if none may, because a node below is
    /// open.
    #[must_use]
    pub fn aligned_level(&self) -> Level {
        if self.has_open_zeros() {
            return CHUNK_LEVEL;
        }
        let empty = self
            .open
            .iter()
            .take_while(|open| open.children.is_empty())
            .count();
        if empty == self.open.len() {
            return Level::MAX;
        }
        u8::try_from(empty)
            .ok()
            .and_then(|n| Level::new(n).ok())
            .unwrap_or(Level::MAX)
    }

    /// Whether a whole node of this level, at least 1, may follow.
    #[must_use]
    pub fn is_aligned(&self, level: Level) -> bool {
        level != CHUNK_LEVEL && level <= self.aligned_level()
    }

    /// Adds a whole node of another tree, with all that is below it.
    ///
    /// The caller guarantees two things, as [`crate::RangeWalker`] does for the nodes that it
    /// returns. The cut rule ended the node (it was not its stream's last). If the node's last
    /// child is zeros, no zeros follow it.
    ///
    /// # Errors
    /// [`RecipeError::TooLong`], and errors of the sink.
    ///
    /// # Panics
    /// Unless the builder [is aligned](Self::is_aligned) at the node's level.
    pub fn push_node(&mut self, node: Child, sink: &mut dyn NodeSink) -> Result<(), RecipeError> {
        assert!(
            self.is_aligned(node.level),
            "whole nodes follow only where nothing below them is open"
        );
        self.grow(node.logical_len)?;
        self.add(node, sink)
    }

    /// Ends the stream: closes all open nodes, up to the root.
    ///
    /// # Errors
    /// [`RecipeError::TooLong`], and errors of the sink.
    pub fn finish(mut self, sink: &mut dyn NodeSink) -> Result<TreeRoot, RecipeError> {
        self.close_zeros(sink)?;
        if self.is_empty() {
            let root = self.close(CHUNK_LEVEL, sink)?;
            return Ok(root_of(root));
        }
        let mut level = CHUNK_LEVEL;
        loop {
            if let Some(root) = self.root(level) {
                return Ok(root_of(root));
            }
            if !self.open_level(level).children.is_empty() {
                let node = self.close(level, sink)?;
                self.add(node, sink)?;
            }
            level = level_above(level).ok_or(RecipeError::TooLong)?;
        }
    }

    /// The node at this level, if it is the only one left.
    fn root(&self, level: Level) -> Option<Child> {
        let (here, above) = self.open.get(usize::from(level.get())..)?.split_first()?;
        match here.children.as_slice() {
            [node] if level != CHUNK_LEVEL && above.iter().all(|open| open.children.is_empty()) => {
                Some(*node)
            }
            _ => None,
        }
    }

    /// Adds a child to its level's open node. That node may end there, and so on upwards.
    fn add(&mut self, child: Child, sink: &mut dyn NodeSink) -> Result<(), RecipeError> {
        let mut child = child;
        loop {
            let level = child.level;
            let open = self.open_level(level);
            open.children.push(child);
            // A node of the highest level can only be the root.
            if level == Level::MAX {
                return if open.children.len() == 1 {
                    Ok(())
                } else {
                    Err(RecipeError::TooLong)
                };
            }
            if !open.cutter.push(&child.fingerprint) {
                return Ok(());
            }
            child = self.close(level, sink)?;
        }
    }

    /// Makes a node of the open children of `level`.
    fn close(&mut self, level: Level, sink: &mut dyn NodeSink) -> Result<Child, RecipeError> {
        let above = level_above(level).ok_or(RecipeError::TooLong)?;
        let mut hasher = self.printer.node_hasher(above);
        let open = self.open_level(level);
        open.cutter.reset();
        for child in &open.children {
            hasher.push(&child.fingerprint, child.logical_len);
        }
        let fingerprint = hasher.finish();
        let node = segment_node(&open.children);
        open.children.clear();
        let (location, containers_max) = store(&fingerprint, &node, sink)?;
        Ok(Child {
            fingerprint,
            logical_len: node.logical_len,
            level: above,
            place: Place::At(location),
            containers_max,
        })
    }

    fn open_level(&mut self, level: Level) -> &mut OpenNode {
        let index = usize::from(level.get());
        while self.open.len() <= index {
            self.open.push(OpenNode {
                children: Vec::new(),
                cutter: NodeCutter::new(self.children_avg),
            });
        }
        &mut self.open[index]
    }

    fn grow(&mut self, by: u64) -> Result<(), RecipeError> {
        self.len = self.len.checked_add(by).ok_or(RecipeError::TooLong)?;
        Ok(())
    }
}

fn store(
    fingerprint: &Fingerprint,
    node: &format::node::Node,
    sink: &mut dyn NodeSink,
) -> Result<(types::ChunkLocation, u32), RecipeError> {
    match sink.find(fingerprint, node.level)? {
        Some(known) => Ok((known.location, known.containers_max)),
        None => Ok((sink.store(fingerprint, node)?, node.containers_max)),
    }
}

fn root_of(node: Child) -> TreeRoot {
    node.as_root().expect("a root is a node")
}
