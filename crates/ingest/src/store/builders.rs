//! The open containers of a session: one for each lane and one for nodes, or a single small one for
//! all.
//!
//! Container numbers are given out when a container is opened, so that references into it can be
//! written before it is sealed.

use std::collections::HashMap;
use std::sync::Arc;

use container::{Compression, ContainerBuilder, PendingEntry, compress_region};
use format::node::Node;
use recipe::{KnownNode, NodeSink, RecipeError, SEGMENT_LEVEL};
use types::{ChunkLocation, ContainerKind, Fingerprint, Generation, Level, Slot};

use crate::dedup::Lane;
use crate::error::{Halt, IngestError};
use crate::region::RegionBytes;
use crate::store::pools::StorePools;
use crate::store::sequences::{Limits, Sequences};
use crate::store::session::StoreSession;
use crate::store::write::{Submitted, Writers};

/// The open containers.
pub(crate) struct Builders {
    session: Arc<StoreSession>,
    limits: Limits,
    compression: Compression,
    sequences: Sequences,
    pools: StorePools,
    output: Writers,
    lanes: [Option<ContainerBuilder>; Lane::COUNT],
    nodes: Option<ContainerBuilder>,
    small: Option<ContainerBuilder>,
    node_plain: Vec<u8>,
    node_entries: Vec<PendingEntry>,
    /// Nodes above segments.
    own_nodes: HashMap<(Level, Fingerprint), KnownNode>,
    /// Number of containers passed to the writers.
    pub(crate) submitted: u64,
}

impl Builders {
    pub(crate) fn new(
        session: Arc<StoreSession>,
        limits: Limits,
        compression: Compression,
        sequences: Sequences,
        pools: StorePools,
        output: Writers,
    ) -> Self {
        Self {
            session,
            limits,
            compression,
            sequences,
            pools,
            output,
            lanes: [None, None],
            nodes: None,
            small: None,
            node_plain: Vec::new(),
            node_entries: Vec::new(),
            own_nodes: HashMap::new(),
            submitted: 0,
        }
    }

    /// From now on everything is added to one container of kind `small`.
    pub(crate) fn begin_small(&mut self) -> Result<(), IngestError> {
        self.small = Some(self.open(ContainerKind::Small)?);
        Ok(())
    }

    /// Adds a region of chunks. Returns the first of their slots.
    pub(crate) fn append(
        &mut self,
        lane: Lane,
        region: RegionBytes,
        entries: &[PendingEntry],
    ) -> Result<ChunkLocation, Halt> {
        let is_small = self.small.is_some();
        if !is_small {
            let full = self.lanes[lane.number()].as_ref().is_some_and(|builder| {
                builder.stored_len() >= self.container_bytes() || !builder.has_room_for(entries.len())
            });
            if full {
                let builder = self.lanes[lane.number()].take();
                self.submit(builder)?;
            }
            if self.lanes[lane.number()].is_none() {
                self.lanes[lane.number()] = Some(self.open(ContainerKind::Data)?);
            }
        }
        let builder = if is_small {
            self.small.as_mut()
        } else {
            self.lanes[lane.number()].as_mut()
        };
        let builder = builder.expect("opened above");
        let slot = match region {
            RegionBytes::Raw(plain) => builder.append_raw(plain.pieces(), entries),
            RegionBytes::Compressed(region) => builder.append(region, entries),
        };
        Ok(ChunkLocation {
            container: builder.id(),
            slot,
        })
    }

    /// Stored bytes at which a container closes.
    fn container_bytes(&self) -> u64 {
        self.limits.container_bytes.min(self.pools.container_bytes_max())
    }

    /// A node above segments of this session, by fingerprint.
    fn own_node(&self, level: Level, fingerprint: &Fingerprint) -> Option<KnownNode> {
        self.own_nodes.get(&(level, *fingerprint)).copied()
    }

    /// Passes every open container to the writers.
    pub(crate) fn seal_all(&mut self) -> Result<(), Halt> {
        self.flush_nodes();
        for builder in [
            self.lanes[0].take(),
            self.lanes[1].take(),
            self.nodes.take(),
            self.small.take(),
        ] {
            self.submit(builder)?;
        }
        Ok(())
    }

    fn submit(&mut self, builder: Option<ContainerBuilder>) -> Result<(), Halt> {
        if let Some(builder) = builder.filter(|builder| builder.entry_count() > 0) {
            let number = self.submitted;
            self.output.submit(Submitted { number, builder })?;
            self.submitted += 1;
        }
        Ok(())
    }

    fn open(&self, kind: ContainerKind) -> Result<ContainerBuilder, IngestError> {
        let id = self.sequences.next(kind)?;
        Ok(if kind == ContainerKind::Data {
            ContainerBuilder::in_buffer(id, Generation::FIRST, self.pools.buffers().take())
        } else {
            ContainerBuilder::new(id, Generation::FIRST)
        })
    }

    fn flush_nodes(&mut self) {
        if self.node_entries.is_empty() {
            return;
        }
        let region = compress_region(std::mem::take(&mut self.node_plain), self.compression);
        let entries = std::mem::take(&mut self.node_entries);
        let builder = if self.small.is_some() {
            self.small.as_mut()
        } else {
            self.nodes.as_mut()
        };
        builder
            .expect("opened with the first pending node")
            .append(region, &entries);
    }

    fn store_node(&mut self, fingerprint: &Fingerprint, node: &Node) -> Result<ChunkLocation, Halt> {
        if self.node_plain.len() >= self.limits.region_bytes {
            self.flush_nodes();
        }
        if self.small.is_none() {
            let full = self.nodes.as_ref().is_some_and(|builder| {
                builder.stored_len() >= self.container_bytes()
                    || !builder.has_room_for(self.node_entries.len() + 1)
            });
            if full {
                self.flush_nodes();
                let builder = self.nodes.take();
                self.submit(builder)?;
            }
            if self.nodes.is_none() {
                self.nodes = Some(self.open(ContainerKind::Recipe)?);
            }
        }
        let builder = self.small.as_ref().or(self.nodes.as_ref()).expect("opened above");
        let slot = builder.entry_count() + self.node_entries.len();
        let slot = u32::try_from(slot).ok().and_then(|slot| Slot::new(slot).ok());
        let slot = slot.ok_or(IngestError::TooLarge(
            "a container cannot have more than 1,048,576 slots",
        ))?;
        let location = ChunkLocation {
            container: builder.id(),
            slot,
        };
        let entry = PendingEntry::node(*fingerprint, node, &mut self.node_plain);
        self.node_entries
            .push(entry.ok_or(IngestError::TooLarge("a node cannot be 4 GiB long"))?);
        let known = KnownNode {
            location,
            containers_max: node.containers_max,
        };
        // The look-up stage finds segments that repeat another one.
        if node.level > SEGMENT_LEVEL {
            self.own_nodes.insert((node.level, *fingerprint), known);
        }
        Ok(location)
    }
}

impl NodeSink for Builders {
    /// Nodes above segments are looked up when they are stored. Only a node with the same entries
    /// is used.
    fn find(&mut self, fingerprint: &Fingerprint, level: Level) -> Result<Option<KnownNode>, RecipeError> {
        Ok(self.own_node(level, fingerprint))
    }

    fn store(&mut self, fingerprint: &Fingerprint, node: &Node) -> Result<ChunkLocation, RecipeError> {
        let known = if node.level > SEGMENT_LEVEL {
            self.session
                .look_up()
                .find_same(fingerprint, node)
                .map_err(other)?
        } else {
            None
        };
        match known {
            Some(location) => Ok(location),
            None => self.store_node(fingerprint, node).map_err(other),
        }
    }
}

fn other(error: impl std::error::Error + Send + Sync + 'static) -> RecipeError {
    RecipeError::Other(Box::new(error))
}
