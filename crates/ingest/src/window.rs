//! From a segment to where its chunks are: known whole, decided at once, or with the rest of its window.
//!
//! A segment is taken at once where it is known whole, or where its chunks need no more containers than the
//! window's share up to it: so buffers are held for a window's length only where a stream is fragmented. One that
//! needs more waits, and all after it, until the window is complete: then the containers of all their chunks are ranked
//! together [Lillibridge 3.2], whether a segment is known whole or not, and of known ones those are referred to whole
//! that need no more than the rest of the cap. Without a cap nothing waits.
//!
//! What must hold: what is decided goes to the packer in stream order, under the permit by which it was looked up;
//! decisions follow from the order of segments alone. One thread.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use container::PendingEntry;
use format::node::{Node, NodeEntry};
use recipe::KnownNode;
use types::{ContainerId, Fingerprint};

use crate::buffer::Buffer;
use crate::cap::{Accounts, Holder};
use crate::door::Lookup;
use crate::error::Halt;
use crate::lookup::{LookupStage, PlacedAt, PlacedChild, PlacedSegment, SegmentBody, ToPack};
use crate::piece::StreamIndex;
use crate::region::Lane;
use crate::segment::{Bytes, Segment, Segmenter};

/// One stream in the stage.
pub(crate) struct LookupStream {
    pub(crate) segmenter: Segmenter,
    pub(crate) lane: Lane,
    pub(crate) accounts: Accounts,
    /// What waits for the end of its window.
    pub(crate) waiting: Vec<Waiting>,
}

/// A segment that waits.
pub(crate) enum Waiting {
    /// Behind one that is open.
    Placed(PlacedSegment),
    /// For its window.
    Open(Segment),
}

/// The segments that this session has written last, by content.
#[derive(Debug)]
pub(crate) struct OwnSegments {
    max: usize,
    held: HashMap<Fingerprint, OwnSegment>,
    order: VecDeque<Fingerprint>,
    next: u64,
}

#[derive(Debug, Clone, Copy)]
struct OwnSegment {
    number: u64,
    containers: usize,
}

/// A segment that need not be written.
enum Whole {
    Own(OwnSegment),
    Known(KnownNode, Arc<Node>),
}

impl Whole {
    /// How many containers the window would be charged for it.
    fn charge(&self, accounts: &Accounts) -> usize {
        match self {
            _ if !accounts.is_capped() => 0,
            Self::Own(own) => own.containers,
            Self::Known(_, node) => {
                let containers = containers_of(node).into_iter().map(Holder::Container);
                containers.filter(|holder| !accounts.is_free(*holder)).count()
            }
        }
    }
}

impl OwnSegments {
    pub(crate) fn new(max: usize) -> Self {
        Self {
            max: max.max(1),
            held: HashMap::new(),
            order: VecDeque::new(),
            next: 0,
        }
    }

    /// Takes a segment that refers to so many containers; its number comes back.
    fn add(&mut self, fingerprint: Fingerprint, containers: usize) -> u64 {
        let number = self.next;
        self.next += 1;
        self.order.push_back(fingerprint);
        self.held.insert(fingerprint, OwnSegment { number, containers });
        if self.order.len() > self.max
            && let Some(oldest) = self.order.pop_front()
            && self
                .held
                .get(&oldest)
                .is_some_and(|held| held.number + (self.max as u64) < self.next)
        {
            self.held.remove(&oldest);
        }
        number
    }
}

impl LookupStage<'_> {
    /// Takes the next segment of a stream.
    pub(crate) fn take(&mut self, stream: StreamIndex, segment: Segment) -> Result<(), Halt> {
        self.counters.segments.add(1);
        let at = usize::from(stream.0);
        let len = segment.len;
        if !self.streams[at].waiting.is_empty() {
            self.streams[at].waiting.push(Waiting::Open(segment));
            return self.count(stream, len);
        }
        let door = self.door;
        let lookup = door.look_up();
        let left = self.streams[at].accounts.left_so_far(len);
        let known = self.find_whole(&lookup, &segment)?;
        let charge = known
            .as_ref()
            .map(|known| known.charge(&self.streams[at].accounts));
        if let Some(known) = known.filter(|_| charge <= Some(left)) {
            let body = self.refer_to_whole(at, known);
            self.send(stream, placed(&segment, body))?;
        } else if charge.is_some_and(|charge| charge <= self.streams[at].accounts.left()) {
            // More than its share, and yet the window may have room for it.
            self.streams[at].waiting.push(Waiting::Open(segment));
        } else {
            let accounts = &self.streams[at].accounts;
            let is_bound = self.decider.decide(&lookup, [&segment], accounts, left)?;
            if is_bound && accounts.is_capped() {
                self.streams[at].waiting.push(Waiting::Open(segment));
            } else {
                self.refer_to_chosen(at);
                let body = self.store(at, &segment, &mut 0)?;
                self.send(stream, placed(&segment, body))?;
            }
        }
        drop(lookup);
        self.count(stream, len)
    }

    /// Takes a segment that is referred to whatever it costs: copied from the previous backup.
    pub(crate) fn take_copied(&mut self, stream: StreamIndex, segment: PlacedSegment) -> Result<(), Halt> {
        let at = usize::from(stream.0);
        let len = segment.len;
        if let SegmentBody::Known(known) = &segment.body
            && self.streams[at].accounts.is_capped()
            && let Ok(node) = recipe::NodeSource::node(self.door.nodes(), known.location)
        {
            for container in containers_of(&node) {
                self.streams[at].accounts.refer(Holder::Container(container));
            }
        }
        if self.streams[at].waiting.is_empty() {
            self.send(stream, segment)?;
        } else {
            self.streams[at].waiting.push(Waiting::Placed(segment));
        }
        self.count(stream, len)
    }

    fn count(&mut self, stream: StreamIndex, len: u64) -> Result<(), Halt> {
        if self.streams[usize::from(stream.0)].accounts.add(len) {
            self.end_window(stream)?;
        }
        Ok(())
    }

    /// Decides on what waits, and begins a new window.
    pub(crate) fn end_window(&mut self, stream: StreamIndex) -> Result<(), Halt> {
        let at = usize::from(stream.0);
        let mut waiting = std::mem::take(&mut self.streams[at].waiting);
        if !waiting.is_empty() {
            let door = self.door;
            let lookup = door.look_up();
            let open = waiting.iter().filter_map(|item| match item {
                Waiting::Open(segment) => Some(segment),
                Waiting::Placed(_) => None,
            });
            let accounts = &self.streams[at].accounts;
            self.decider.decide(&lookup, open, accounts, accounts.left())?;
            self.refer_to_chosen(at);
            let mut chunk = 0;
            for item in waiting.drain(..) {
                let segment = match item {
                    Waiting::Placed(segment) => segment,
                    Waiting::Open(segment) => {
                        // A known one costs no new node, and no more than what was chosen leaves.
                        let known = self.find_whole(&lookup, &segment)?;
                        let accounts = &self.streams[at].accounts;
                        let body = match known.filter(|known| known.charge(accounts) <= accounts.left()) {
                            Some(known) => {
                                chunk += segment.chunks_read();
                                self.refer_to_whole(at, known)
                            }
                            None => self.store(at, &segment, &mut chunk)?,
                        };
                        placed(&segment, body)
                    }
                };
                self.send(stream, segment)?;
            }
        }
        self.streams[at].waiting = waiting;
        self.streams[at].accounts.end_window();
        Ok(())
    }

    fn send(&mut self, stream: StreamIndex, segment: PlacedSegment) -> Result<(), Halt> {
        Ok(self.output.send(ToPack::Segment { stream, segment })?)
    }

    /// A segment that is known whole.
    fn find_whole(&mut self, lookup: &Lookup<'_>, segment: &Segment) -> Result<Option<Whole>, Halt> {
        if let Some(own) = self.own_segments.held.get(&segment.fingerprint) {
            return Ok(Some(Whole::Own(*own)));
        }
        let found = lookup.find_segment(&mut self.segments, &segment.fingerprint)?;
        Ok(found.map(|(known, node)| Whole::Known(known, node)))
    }

    fn refer_to_whole(&mut self, at: usize, whole: Whole) -> SegmentBody {
        self.counters.segments_known.add(1);
        let accounts = &mut self.streams[at].accounts;
        match whole {
            Whole::Own(own) => {
                accounts.refer_to_some(own.containers);
                SegmentBody::Repeated(own.number)
            }
            Whole::Known(known, node) => {
                if accounts.is_capped() {
                    for id in containers_of(&node) {
                        accounts.refer(Holder::Container(id));
                    }
                }
                SegmentBody::Known(known)
            }
        }
    }

    fn refer_to_chosen(&mut self, at: usize) {
        let accounts = &mut self.streams[at].accounts;
        for holder in self.decider.chosen() {
            match holder {
                Holder::Own(batch) if self.decider.is_recent(batch) => {}
                holder => accounts.refer(holder),
            }
        }
    }

    /// Stores what of a segment is to be stored. `chunk` counts the chunks that were decided on.
    fn store(&mut self, at: usize, segment: &Segment, chunk: &mut usize) -> Result<SegmentBody, Halt> {
        let lane = self.streams[at].lane;
        let mut children = Vec::with_capacity(segment.children.len());
        for child in &segment.children {
            let place = match &child.bytes {
                Bytes::Zeros => PlacedAt::Zeros,
                Bytes::Stored(location) => {
                    let holder = Holder::Container(location.container);
                    self.streams[at].accounts.refer(holder);
                    PlacedAt::Stored(*location)
                }
                Bytes::Read { buffer, offset } => {
                    let decided = self.decider.place(*chunk);
                    let found = decided.is_none() && self.decider.is_offered(*chunk);
                    *chunk += 1;
                    let again = || self.decider.newest_recent(&child.fingerprint);
                    match decided.or_else(again) {
                        Some(place) => place,
                        None => {
                            let len = u32::try_from(child.len).expect("a chunk is at most some MiB");
                            let at = (buffer, *offset as usize);
                            if found {
                                self.counters.chunks_capped.add(1);
                                self.counters.bytes_capped.add(child.len);
                            }
                            self.store_chunk(lane, &child.fingerprint, len, at)?
                        }
                    }
                }
            };
            children.push(PlacedChild {
                fingerprint: child.fingerprint,
                len: child.len,
                place,
            });
        }
        let containers = if self.streams[at].accounts.is_capped() {
            containers_in(&children)
        } else {
            0
        };
        let number = self.own_segments.add(segment.fingerprint, containers);
        Ok(SegmentBody::Fresh { number, children })
    }

    fn store_chunk(
        &mut self,
        lane: Lane,
        fingerprint: &Fingerprint,
        len: u32,
        (buffer, offset): (&Arc<Buffer>, usize),
    ) -> Result<PlacedAt, Halt> {
        let region = &mut self.regions[lane.number()];
        let new = region.push(PendingEntry::chunk(*fingerprint, len), buffer, offset);
        let is_full = region.is_full();
        self.decider.own.add(fingerprint, len, new);
        self.counters.chunks_new.add(1);
        self.counters.bytes_new.add(u64::from(len));
        if is_full {
            self.close_region(lane)?;
        }
        Ok(PlacedAt::New(new))
    }
}

fn placed(segment: &Segment, body: SegmentBody) -> PlacedSegment {
    PlacedSegment {
        fingerprint: segment.fingerprint,
        len: segment.len,
        body,
    }
}

/// The containers that a segment's node refers to.
fn containers_of(node: &Arc<Node>) -> Vec<ContainerId> {
    let runs = node.entries.iter().filter_map(|entry| match entry {
        NodeEntry::Run { container, .. } => Some(*container),
        _ => None,
    });
    distinct(runs.collect())
}

/// How many containers a segment refers to, what is new counted as one.
fn containers_in(children: &[PlacedChild]) -> usize {
    let stored = children.iter().filter_map(|child| match child.place {
        PlacedAt::Stored(location) => Some(location.container),
        _ => None,
    });
    let is_new = children
        .iter()
        .any(|child| matches!(child.place, PlacedAt::New(_)));
    distinct(stored.collect()).len() + usize::from(is_new)
}

fn distinct(mut containers: Vec<ContainerId>) -> Vec<ContainerId> {
    containers.sort_unstable();
    containers.dedup();
    containers
}
