//! What a running backup stores, as the engine's packer does: regions, containers, and nodes.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use container::{FingerprintTable, SizeCount};
use ingest::dedup::{
    NewChunk, Outlet, PlacedAt, PlacedChild, PlacedSegment, SegmentBody, SharedPlaces, StreamIndex,
};
use recipe::{Child, segment_node};
use types::{ChunkLocation, ContainerId, ContainerKind, Fingerprint, SequenceNumber, SessionId};

use super::containers::{Container, Held};
use super::nodes::Written;
use super::recipe::{Part, Recipe};
use super::slots::{slot, unnamed};
use super::stored::Stored;
use crate::error::SimulateError;

/// What a backup stored.
#[derive(Debug)]
pub(super) struct Filled {
    pub(super) containers: Vec<Container>,
    pub(super) nodes: Vec<Written>,
    pub(super) recipe: Recipe,
}

/// A backup's containers and nodes.
#[derive(Debug)]
pub(super) struct OpenSession {
    stored: Arc<Stored>,
    session: SessionId,
    container_bytes: u64,
    region_bytes: u64,
    places: SharedPlaces,
    /// The open region: chunks, and their bytes.
    region: Vec<Held>,
    region_len: u64,
    containers: Vec<Container>,
    /// The size of the last container.
    size: SizeCount,
    /// Segments in order. The first one waits for places of its chunks.
    waiting: VecDeque<PlacedSegment>,
    /// The first node's number.
    nodes_from: u32,
    nodes: Vec<Written>,
    /// Nodes of new segments, by the segment's number.
    fresh: HashMap<u64, u32>,
    recipe: Recipe,
}

impl OpenSession {
    pub(super) fn new(
        stored: Arc<Stored>,
        session: SessionId,
        container_bytes: u64,
        region_bytes: u64,
        places: SharedPlaces,
    ) -> Result<Self, SimulateError> {
        Ok(Self {
            session,
            container_bytes,
            region_bytes,
            places,
            region: Vec::new(),
            region_len: 0,
            containers: Vec::new(),
            size: SizeCount::default(),
            waiting: VecDeque::new(),
            nodes_from: stored.nodes.next()?,
            stored,
            nodes: Vec::new(),
            fresh: HashMap::new(),
            recipe: Recipe::default(),
        })
    }

    /// Puts the open region's chunks into the open container, or into a new one if that is full.
    fn close_region(&mut self) -> Result<(), SimulateError> {
        let chunks = std::mem::take(&mut self.region);
        if chunks.is_empty() {
            return Ok(());
        }
        let count = chunks.len() as u64;
        let is_full = self.size.stored_len() >= self.container_bytes || !self.size.has_room_for(count);
        if is_full || self.containers.is_empty() {
            self.seal();
            self.containers.push(Container::default());
            self.size = SizeCount::default();
        }
        self.size.add_region(std::mem::take(&mut self.region_len), count);
        let sequence = u32::try_from(self.containers.len() - 1)
            .ok()
            .and_then(|number| SequenceNumber::new(number).ok());
        let sequence = sequence.ok_or_else(|| {
            SimulateError::Settings("one backup has more containers than there are numbers".to_owned())
        })?;
        let container = self.containers.last_mut().expect("pushed above");
        let first = u32::try_from(container.chunks.len()).expect("the container has room for them");
        container.chunks.extend_from_slice(&chunks);
        let at = ChunkLocation {
            container: ContainerId {
                session: self.session,
                kind: ContainerKind::Data,
                sequence,
            },
            slot: slot(first),
        };
        self.places.assign(at, count);
        // Reuses the allocation.
        self.region = chunks;
        self.region.clear();
        self.settle()
    }

    /// Builds the table of the last container.
    fn seal(&mut self) {
        if let Some(last) = self.containers.last_mut() {
            last.chunks.shrink_to_fit();
            last.table = Some(FingerprintTable::new(
                last.chunks.iter().map(|held| held.fingerprint),
            ));
        }
    }

    /// The chunk at a location, stored before or by this backup.
    fn held(&self, at: ChunkLocation) -> Option<&Held> {
        if at.container.session == self.session {
            let container = self.containers.get(at.container.sequence.get() as usize)?;
            return container.chunks.get(at.slot.get() as usize);
        }
        let at = self.stored.containers.at(at)?;
        self.stored
            .containers
            .get(at.container)?
            .chunks
            .get(at.slot as usize)
    }

    /// Writes the nodes of all segments whose chunks have places.
    fn settle(&mut self) -> Result<(), SimulateError> {
        while let Some(segment) = self.waiting.pop_front() {
            let node = match &segment.body {
                SegmentBody::Known(known) => self.number_of(known.location)?,
                SegmentBody::Repeated(number) => *self
                    .fresh
                    .get(number)
                    .ok_or_else(|| SimulateError::Settings("a segment repeats none".to_owned()))?,
                SegmentBody::Fresh { number, children } => {
                    let Some(written) = self.written(segment.fingerprint, children)? else {
                        self.waiting.push_front(segment);
                        return Ok(());
                    };
                    let node = u32::try_from(self.nodes.len())
                        .ok()
                        .and_then(|n| n.checked_add(self.nodes_from));
                    let node = node.ok_or_else(|| {
                        SimulateError::Settings(
                            "the workload has more segments than there are numbers".to_owned(),
                        )
                    })?;
                    self.nodes.push(written);
                    self.fresh.insert(*number, node);
                    node
                }
            };
            self.recipe.parts.push(Part::Node(node));
        }
        Ok(())
    }

    fn number_of(&self, location: ChunkLocation) -> Result<u32, SimulateError> {
        let number = self.stored.nodes.number_at(location);
        number.ok_or_else(|| SimulateError::Settings("a segment is known nowhere".to_owned()))
    }

    fn written(
        &self,
        fingerprint: Fingerprint,
        children: &[PlacedChild],
    ) -> Result<Option<Written>, SimulateError> {
        let (mut chunks, mut bytes) = (0, 0);
        let place = |child: &PlacedChild| {
            let at = match child.place {
                PlacedAt::Zeros => return Some(Child::zeros(child.fingerprint, child.len)),
                PlacedAt::Stored(at) => at,
                PlacedAt::New(new) => self.places.of(new.ordinal)?,
            };
            Some(Child::chunk(child.fingerprint, child.len, at))
        };
        let placed: Option<Vec<Child>> = children.iter().map(place).collect();
        let Some(placed) = placed else {
            return Ok(None);
        };
        for child in &placed {
            let Some(at) = child.location() else { continue };
            if let Some(held) = self.held(at) {
                super::check_len(held, child.logical_len)?;
            }
            chunks += 1;
            bytes += child.logical_len;
        }
        Ok(Some(Written {
            fingerprint,
            node: segment_node(&placed).into(),
            chunks,
            bytes,
        }))
    }

    /// Completes the backup.
    pub(super) fn finish(mut self) -> Result<Filled, SimulateError> {
        self.close_region()?;
        self.settle()?;
        self.seal();
        if !self.waiting.is_empty() {
            return Err(SimulateError::Settings(
                "a segment waits for a chunk that never came".to_owned(),
            ));
        }
        Ok(Filled {
            containers: self.containers,
            nodes: self.nodes,
            recipe: self.recipe,
        })
    }
}

impl Outlet<()> for OpenSession {
    type Error = SimulateError;

    /// A trace has no bytes to read.
    fn fetch(&mut self, _at: ChunkLocation, _fingerprint: &Fingerprint) -> Result<Option<()>, SimulateError> {
        Ok(None)
    }

    fn store(
        &mut self,
        _new: NewChunk,
        fingerprint: &Fingerprint,
        len: u32,
        (): &(),
    ) -> Result<(), SimulateError> {
        self.region.push(unnamed(*fingerprint, len));
        self.region_len += u64::from(len);
        if self.region_len >= self.region_bytes {
            self.close_region()?;
        }
        Ok(())
    }

    fn place(&mut self, _stream: StreamIndex, segment: PlacedSegment) -> Result<(), SimulateError> {
        self.waiting.push_back(segment);
        self.settle()
    }
}
