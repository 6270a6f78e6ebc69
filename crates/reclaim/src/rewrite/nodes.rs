//! Writes the recipe containers of a rewrite.
//!
//! Nodes are put in the order in which they come, children before the nodes that refer to them. A
//! full container is put at once.

use container::{ContainerBuilder, Containers, PendingEntry, compress_region};
use format::node::Node;
use types::{ChunkLocation, ContainerId, ContainerKind, Fingerprint, Generation, SessionId, Slot};

use super::Numbers;
use crate::compact::Packing;
use crate::error::{ReclaimError, Result};

/// Writes nodes.
pub(crate) struct NodeWriter<'a> {
    containers: &'a Containers,
    packing: Packing,
    of: SessionId,
    open: Option<ContainerBuilder>,
    plain: Vec<u8>,
    entries: Vec<PendingEntry>,
    /// Containers that were put.
    pub(crate) put: Vec<ContainerId>,
    /// Their stored bytes, mirrors included.
    pub(crate) stored: u64,
}

impl<'a> NodeWriter<'a> {
    /// A writer for the rewrite of the backup `of`.
    pub(crate) const fn new(containers: &'a Containers, packing: Packing, of: SessionId) -> Self {
        Self {
            containers,
            packing,
            of,
            open: None,
            plain: Vec::new(),
            entries: Vec::new(),
            put: Vec::new(),
            stored: 0,
        }
    }

    /// Adds a node, and returns its future place.
    ///
    /// # Errors
    /// `TooLarge`; of the storage.
    pub(crate) fn store(
        &mut self,
        numbers: &mut Numbers,
        fingerprint: &Fingerprint,
        node: &Node,
    ) -> Result<ChunkLocation> {
        if self.plain.len() >= self.packing.region_bytes {
            self.close_region();
        }
        let is_full = |open: &ContainerBuilder| {
            open.stored_len() >= self.packing.container_bytes || !open.has_room_for(self.entries.len() + 1)
        };
        if self.open.as_ref().is_some_and(is_full) {
            self.finish()?;
        }
        let too_large = || ReclaimError::TooLarge { backup: self.of };
        if self.open.is_none() {
            let id = numbers.next(ContainerKind::Recipe).ok_or_else(too_large)?;
            self.open = Some(ContainerBuilder::new(id, Generation::FIRST));
        }
        let open = self.open.as_ref().expect("opened above");
        let number = u32::try_from(open.entry_count() + self.entries.len());
        let slot = number
            .ok()
            .and_then(|number| Slot::new(number).ok())
            .ok_or_else(too_large)?;
        let at = ChunkLocation {
            container: open.id(),
            slot,
        };
        let entry = PendingEntry::node(*fingerprint, node, &mut self.plain);
        self.entries.push(entry.ok_or_else(too_large)?);
        Ok(at)
    }

    /// Puts the open container, if there is one.
    ///
    /// # Errors
    /// Of the storage.
    pub(crate) fn finish(&mut self) -> Result<()> {
        self.close_region();
        if let Some(open) = self.open.take() {
            let sealed = open.seal(self.containers)?;
            self.containers.put(&sealed)?;
            self.put.push(sealed.id());
            self.stored += sealed.stored_bytes_total();
        }
        Ok(())
    }

    fn close_region(&mut self) {
        if self.entries.is_empty() {
            return;
        }
        let region = compress_region(std::mem::take(&mut self.plain), self.packing.compression);
        let entries = std::mem::take(&mut self.entries);
        self.open
            .as_mut()
            .expect("opened with the first node")
            .append(region, &entries);
    }
}
