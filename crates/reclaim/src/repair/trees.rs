//! Trees that refer to the copies: equal to the trees that they replace, fingerprint by
//! fingerprint.
//!
//! First come the trees of the repaired backup: its chunks in the chosen containers are copied, in
//! the order of its streams. Then come the trees of all other backups. They refer to the copies
//! wherever they referred to a copied chunk. A node without a change stays. A node that backups
//! share is rewritten once, for all of them.
//!
//! Memory: two places for each copied chunk; some 100 bytes for each changed node; one bit for each
//! other node.

use std::collections::{BTreeSet, HashMap};

use format::node::{Node, NodeEntry};
use recipe::{
    Child, NodeCache, NodeSource, Place, RecipeError, TreeRoot, child_nodes, open_node, segment_node,
};
use types::{ChunkLocation, ContainerId, SessionId, SlotRange};

use super::weigh::Weight;
use crate::error::{ReclaimError, Result};
use crate::progress::Progress;
use crate::rewrite::{Copies, NodeWriter, Numbers};
use crate::slots::SlotMap;

/// Rewrites trees.
pub(super) struct Trees<'a, 'b> {
    pub(super) nodes: &'a NodeCache,
    /// Containers whose slots are copied, as far as the repaired backup needs them.
    pub(super) chosen: &'a BTreeSet<ContainerId>,
    /// The stored bytes of each container.
    pub(super) weights: &'a HashMap<ContainerId, Weight>,
    pub(super) numbers: &'a mut Numbers,
    pub(super) copies: &'a mut Copies,
    pub(super) writer: &'a mut NodeWriter<'b>,
    pub(super) progress: &'a dyn Progress,
    /// The backup whose trees are rewritten now.
    pub(super) of: SessionId,
    /// Whether this is the repaired backup, whose chunks are copied.
    pub(super) is_repaired: bool,
    pub(super) done: Done,
}

/// The results so far.
#[derive(Default)]
pub(super) struct Done {
    /// The new places of copied chunks, by their old places.
    moved: HashMap<ChunkLocation, ChunkLocation>,
    /// Nodes that stay.
    same: SlotMap,
    /// Nodes that are replaced, with the bound on containers of the old node.
    replaced: HashMap<ChunkLocation, (Child, u32)>,
    /// The nodes that were written.
    pub(super) written: Vec<TreeRoot>,
}

impl Trees<'_, '_> {
    /// The new root of a stream, which may equal the old one.
    ///
    /// # Errors
    /// `NotRepaired`, `TooLarge`, `Interrupted`; of the storage.
    pub(super) fn root(&mut self, root: &TreeRoot) -> Result<TreeRoot> {
        let child = self.node(root)?;
        let location = child.and_then(|child| child.location()).unwrap_or(root.location);
        Ok(TreeRoot { location, ..*root })
    }

    fn broken(&self, source: RecipeError) -> ReclaimError {
        ReclaimError::NotRepaired {
            backup: self.of,
            source,
        }
    }

    /// The node that replaces this one. `None`: it stays.
    fn node(&mut self, at: &TreeRoot) -> Result<Option<Child>> {
        if self.progress.is_cancelled() {
            return Err(ReclaimError::Interrupted);
        }
        let known = self.done.replaced.get(&at.location).map(|(child, _)| *child);
        if known.is_some() || self.done.same.contains(at.location.container, at.location.slot) {
            self.progress.add_done(at.len);
            return Ok(known);
        }
        let new = if at.level.get() == 1 {
            let new = self.segment(at)?;
            self.progress.add_done(at.len);
            new
        } else {
            self.inner(at)?
        };
        let Some((node, before)) = new else {
            let slot = SlotRange::one(at.location.slot);
            self.done.same.insert(at.location.container, slot);
            return Ok(None);
        };
        let location = self.writer.store(self.numbers, &at.fingerprint, &node)?;
        let child = Child {
            fingerprint: at.fingerprint,
            logical_len: at.len,
            level: at.level,
            place: Place::At(location),
            containers_max: node.containers_max,
        };
        self.done.written.push(TreeRoot { location, ..*at });
        self.done.replaced.insert(at.location, (child, before));
        Ok(Some(child))
    }

    /// The node that replaces this one, and the bound on containers of the old node.
    fn inner(&mut self, at: &TreeRoot) -> Result<Option<(Node, u32)>> {
        let old = self.nodes.node(at.location);
        let before = old.map_err(|error| self.broken(error))?.containers_max;
        let below = child_nodes(self.nodes, at).map_err(|error| self.broken(error))?;
        let mut children = Vec::with_capacity(below.len());
        // Above segments the bound is a sum, so nodes that stay need not be read to compute it.
        let (mut gone, mut come) = (0u32, 0u32);
        let mut is_same = true;
        for node in &below {
            let new = self.node(node)?;
            if let Some(new) = &new {
                is_same = false;
                come = come.saturating_add(new.containers_max);
                let of_old = self.done.replaced.get(&node.location);
                gone = gone.saturating_add(of_old.map_or(0, |(_, before)| *before));
            }
            children.push(new.unwrap_or(Child {
                fingerprint: node.fingerprint,
                logical_len: node.len,
                level: node.level,
                place: Place::At(node.location),
                containers_max: 0,
            }));
        }
        let mut node = segment_node(&children);
        node.containers_max = before.saturating_sub(gone).saturating_add(come);
        Ok((!is_same).then_some((node, before)))
    }

    fn segment(&mut self, at: &TreeRoot) -> Result<Option<(Node, u32)>> {
        let old = self.nodes.node(at.location).map_err(|error| self.broken(error))?;
        let is_chosen = |entry: &NodeEntry| match entry {
            NodeEntry::Run { container, .. } => self.chosen.contains(container),
            NodeEntry::Zeros { .. } | NodeEntry::Forward { .. } => false,
        };
        if !old.entries.iter().any(is_chosen) {
            return Ok(None);
        }
        let mut children = open_node(self.nodes, at).map_err(|error| self.broken(error))?;
        let mut is_same = true;
        for child in &mut children {
            let Place::At(place) = child.place else { continue };
            if let Some(now) = self.moved(child, place)? {
                child.place = Place::At(now);
                is_same = false;
            }
        }
        Ok((!is_same).then(|| (segment_node(&children), old.containers_max)))
    }

    /// The new place of a chunk. `None`: it stays.
    fn moved(&mut self, child: &Child, place: ChunkLocation) -> Result<Option<ChunkLocation>> {
        if !self.chosen.contains(&place.container) {
            return Ok(None);
        }
        if let Some(now) = self.done.moved.get(&place) {
            return Ok(Some(*now));
        }
        if !self.is_repaired {
            return Ok(None);
        }
        let weight = self.weights.get(&place.container);
        let weight = weight.map_or(child.logical_len, |weight| weight.of(child.logical_len));
        let too_large = ReclaimError::TooLarge { backup: self.of };
        let len = u32::try_from(child.logical_len).ok();
        let now = len.and_then(|len| {
            self.copies
                .add(self.numbers, child.fingerprint, len, place, weight)
        });
        let now = now.ok_or(too_large)?;
        self.done.moved.insert(place, now);
        Ok(Some(now))
    }
}
