//! The packer's stage: regions into containers, segments into recipes.
//!
//! One thread. Regions say which chunks they hold, and are appended in the order of these numbers,
//! in whatever order they arrive. So a slot follows from decisions, and from where containers end.
//! A segment waits until all its new chunks have one; segments of one stream are written in order.
//! Nothing is placed until the backup turns out larger than a small one: then a backup of a few
//! files is one container instead of four.

use std::collections::{BTreeMap, VecDeque};

use format::session::OpenStream;
use recipe::{Child, KnownNode, Place, SEGMENT_LEVEL, TreeBuilder, TreeRoot, segment_node};
use types::{ContainerId, SlotRange};

use crate::backup_session::Stream;
use crate::dedup::{Lane, PlacedAt, PlacedChild, PlacedSegment, SegmentBody, SharedPlaces};
use crate::error::{Halt, IngestError};
use crate::queue::{Receiver, Sender};
use crate::region::ReadyRegion;
use crate::store::builders::Builders;
use crate::store::close::ToClose;
use crate::store::decide::ToPack;
use crate::store::region_order::RegionOrder;
use crate::store::unplaced::Unplaced;

/// The most children of segments that wait for the decision on a small backup: some MiB.
const HELD_CHILDREN_MAX: usize = 1 << 16;

/// The stage's state.
pub(crate) struct PackStage {
    pub(crate) builders: Builders,
    pub(crate) streams: Vec<PackStream>,
    pub(crate) places: [SharedPlaces; Lane::COUNT],
    pub(crate) held: Option<WaitingRegions>,
    /// The nodes of the last fresh segments that may still be requested, by number.
    pub(crate) fresh: BTreeMap<u64, KnownNode>,
    pub(crate) fresh_max: usize,
    /// Waiting segments that repeat another one.
    pub(crate) repeats_waiting: usize,
    pub(crate) order: RegionOrder,
    /// Answers that wait for chunks.
    pub(crate) answers: VecDeque<[u64; Lane::COUNT]>,
    pub(crate) closer: Sender<ToClose>,
    /// Children of the segments that wait here or on their way here.
    pub(crate) unplaced: Unplaced,
    /// Whether checkpoints state the positions of the streams.
    pub(crate) is_resumable: bool,
}

/// One stream in the stage.
pub(crate) struct PackStream {
    /// 0 for content-defined ones.
    fixed_chunk_bytes: u32,
    tree: Option<TreeBuilder>,
    waiting: VecDeque<WaitingSegment>,
    ended: bool,
    root: Option<TreeRoot>,
}

impl PackStream {
    pub(crate) fn new(tree: TreeBuilder, stream: &Stream) -> Self {
        Self {
            fixed_chunk_bytes: stream.fixed_chunk_bytes.unwrap_or(0),
            tree: Some(tree),
            waiting: VecDeque::new(),
            ended: false,
            root: None,
        }
    }
}

impl PackStream {
    /// The part of the stream that has its nodes. Segments alone are pushed, so all of it does.
    fn how_far(&self) -> OpenStream {
        let spine = self.tree.as_ref().and_then(TreeBuilder::spine);
        OpenStream {
            fixed_chunk_bytes: self.fixed_chunk_bytes,
            len: self.tree.as_ref().map_or(0, TreeBuilder::len),
            spine: spine.unwrap_or_default(),
        }
    }
}

/// A segment that waits for the places of its new chunks.
struct WaitingSegment {
    segment: PlacedSegment,
    /// How many chunks of each lane must have a place.
    needs: [u64; Lane::COUNT],
}

impl WaitingSegment {
    fn of(segment: PlacedSegment) -> Self {
        let mut needs = [0; Lane::COUNT];
        if let SegmentBody::Fresh { children, .. } = &segment.body {
            for child in children {
                if let PlacedAt::New(new) = child.place {
                    let needed = &mut needs[new.lane.number()];
                    *needed = (new.ordinal + 1).max(*needed);
                }
            }
        }
        Self { segment, needs }
    }
}

/// Regions that wait for the decision between a small backup and an ordinary one.
#[derive(Debug)]
pub(crate) struct WaitingRegions {
    limit_bytes: usize,
    bytes: usize,
    /// Children of the waiting segments.
    children: usize,
    regions: Vec<ReadyRegion>,
}

impl WaitingRegions {
    pub(crate) fn new(limit_bytes: usize) -> Self {
        Self {
            limit_bytes,
            bytes: 0,
            children: 0,
            regions: Vec::new(),
        }
    }
}

impl WaitingRegions {
    /// Counts a segment that has to wait, and returns whether too many wait. A backup with almost
    /// no new data may have terabytes of them.
    fn is_too_long_with(&mut self, segment: &PlacedSegment) -> bool {
        self.children += segment.children();
        self.children > HELD_CHILDREN_MAX
    }
}

impl PackStage {
    pub(crate) fn run(mut self, input: &Receiver<ToPack>) -> Result<(), Halt> {
        while let Ok(item) = input.recv() {
            match item {
                ToPack::Region(region) => self.take_arrived(region.wait()?)?,
                ToPack::Segment { stream, segment } => {
                    if self
                        .held
                        .as_mut()
                        .is_some_and(|held| held.is_too_long_with(&segment))
                    {
                        self.release()?;
                    }
                    self.count(&segment.body);
                    let waiting = &mut self.streams[usize::from(stream.0)].waiting;
                    waiting.push_back(WaitingSegment::of(segment));
                }
                ToPack::End(stream) => self.streams[usize::from(stream.0)].ended = true,
                ToPack::Answer(wanted) => self.answers.push_back(wanted),
            }
            if self.held.is_none() {
                self.settle()?;
            }
            while self.answers.front().is_some_and(|wanted| self.order.has(*wanted)) {
                self.answers.pop_front();
                self.answer()?;
            }
        }
        if self.order.is_empty() && self.streams.iter().all(|stream| stream.ended) {
            self.finish()
        } else {
            Err(Halt::Closed)
        }
    }

    /// Counts a decided segment. The look-up stage refers to the last `fresh_max` fresh segments,
    /// and waiting segments may refer to earlier ones.
    fn count(&mut self, body: &SegmentBody) {
        match body {
            SegmentBody::Known(_) => {}
            SegmentBody::Repeated(_) => self.repeats_waiting += 1,
            SegmentBody::Fresh { number, .. } => {
                if self.repeats_waiting == 0 && self.fresh.len() >= 2 * self.fresh_max {
                    let oldest = (number + 1).saturating_sub(self.fresh_max as u64);
                    self.fresh = self.fresh.split_off(&oldest);
                }
            }
        }
    }

    /// Takes a region, and those that waited for it.
    fn take_arrived(&mut self, region: ReadyRegion) -> Result<(), Halt> {
        let lane = region.lane;
        self.order.push(region)?;
        while let Some(region) = self.order.pop(lane) {
            self.take_region(region)?;
        }
        Ok(())
    }

    fn take_region(&mut self, region: ReadyRegion) -> Result<(), Halt> {
        if let Some(held) = &mut self.held {
            held.bytes += region.bytes.stored_len() + region.entries.len() * 40;
            held.regions.push(region);
            if held.bytes > held.limit_bytes {
                self.release()?;
            }
            return Ok(());
        }
        self.append(region)
    }

    fn append(&mut self, region: ReadyRegion) -> Result<(), Halt> {
        let ReadyRegion {
            lane, entries, bytes, ..
        } = region;
        let first = self.builders.append(lane, bytes, &entries)?;
        self.places[lane.number()].assign(first, entries.len() as u64);
        Ok(())
    }

    /// Places the waiting regions into the containers that are open now.
    fn release(&mut self) -> Result<(), Halt> {
        if let Some(held) = self.held.take() {
            for region in held.regions {
                self.append(region)?;
            }
        }
        Ok(())
    }

    /// Writes the nodes of all segments whose chunks have places now. A segment that repeats one of
    /// another stream waits for that one, so several rounds may be needed.
    fn settle(&mut self) -> Result<(), Halt> {
        loop {
            let mut moved = false;
            for index in 0..self.streams.len() {
                while self.settle_one(index)? {
                    moved = true;
                }
            }
            if !moved {
                return Ok(());
            }
        }
    }

    fn settle_one(&mut self, index: usize) -> Result<bool, Halt> {
        let stream = &mut self.streams[index];
        let Some(WaitingSegment { segment, needs }) = stream.waiting.front() else {
            return Ok(false);
        };
        if self
            .places
            .iter()
            .zip(needs)
            .any(|(places, needed)| places.assigned() < *needed)
        {
            return Ok(false);
        }
        let level = SEGMENT_LEVEL;
        let known = match &segment.body {
            SegmentBody::Known(known) => *known,
            SegmentBody::Repeated(number) => match self.fresh.get(number) {
                Some(known) => {
                    self.repeats_waiting -= 1;
                    *known
                }
                None => return Ok(false),
            },
            SegmentBody::Fresh { number, children } => {
                let mut placed = Vec::with_capacity(children.len());
                for PlacedChild {
                    fingerprint,
                    len,
                    place,
                } in children
                {
                    placed.push(match place {
                        PlacedAt::Zeros => Child::zeros(*fingerprint, *len),
                        PlacedAt::Stored(location) => Child::chunk(*fingerprint, *len, *location),
                        PlacedAt::New(new) => match self.places[new.lane.number()].of(new.ordinal) {
                            Some(location) => Child::chunk(*fingerprint, *len, location),
                            None => return Ok(false),
                        },
                    });
                }
                let node = segment_node(&placed);
                let location = recipe::NodeSink::store(&mut self.builders, &segment.fingerprint, &node)
                    .map_err(IngestError::from)?;
                let known = KnownNode {
                    location,
                    containers_max: node.containers_max,
                };
                self.fresh.insert(*number, known);
                known
            }
        };
        let child = Child {
            fingerprint: segment.fingerprint,
            logical_len: segment.len,
            level,
            place: Place::At(known.location),
            containers_max: known.containers_max,
        };
        let tree = stream
            .tree
            .as_mut()
            .expect("a stream's tree is taken at its end only");
        tree.push_node(child, &mut self.builders)
            .map_err(IngestError::from)?;
        if let Some(WaitingSegment { segment, .. }) = stream.waiting.pop_front() {
            self.unplaced.remove(segment.children());
        }
        Ok(true)
    }

    /// Answers reclamation (rule 4): everything decided so far becomes durable or is declared.
    fn answer(&mut self) -> Result<(), Halt> {
        self.release()?;
        self.settle()?;
        self.builders.seal_all()?;
        let mut references: Vec<(ContainerId, SlotRange)> = Vec::new();
        for stream in &self.streams {
            let pending = stream.tree.iter().flat_map(TreeBuilder::pending);
            references.extend(pending.filter_map(|child| match child.place {
                Place::At(location) => Some((location.container, SlotRange::one(location.slot))),
                Place::Zeros => None,
            }));
            references.extend(
                stream
                    .root
                    .iter()
                    .map(|root| (root.location.container, SlotRange::one(root.location.slot))),
            );
        }
        let streams = self.streams.iter().map(PackStream::how_far);
        self.closer.send(ToClose::Answer {
            submitted: self.builders.submitted,
            references,
            streams: if self.is_resumable {
                streams.collect()
            } else {
                Vec::new()
            },
        })?;
        Ok(())
    }

    fn finish(mut self) -> Result<(), Halt> {
        if self.held.is_some() {
            self.builders.begin_small()?;
            self.release()?;
        }
        self.settle()?;
        for stream in &mut self.streams {
            if !stream.waiting.is_empty() {
                return Err(IngestError::Internal("a segment waits for a chunk that never came").into());
            }
            let tree = stream.tree.take().expect("taken once");
            stream.root = Some(tree.finish(&mut self.builders).map_err(IngestError::from)?);
        }
        self.builders.seal_all()?;
        let roots = self
            .streams
            .into_iter()
            .filter_map(|stream| stream.root)
            .collect();
        self.closer.send(ToClose::Finish {
            submitted: self.builders.submitted,
            roots,
        })?;
        Ok(())
    }
}
