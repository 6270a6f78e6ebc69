//! Looking ahead: the recipe shows when a chunk is needed next, and the planner keeps it until then
//! [Lillibridge 5, "future work"; L9].
//!
//! A part of the memory holds references: a stretch of the stream ahead is known. The rest is a
//! cache of single chunks. If the front spot needs a chunk that is not kept, the planner reads its
//! container. It keeps every chunk of it that the known references need soon enough (`Reach`). If
//! these are too many, it drops the chunks whose next use is latest. Chunks that are sent at once
//! need no room in the cache. Unlike the forward assembly area, the cache reserves no memory for
//! unfilled spots, and keeps a chunk only once for many spots.
//!
//! Pure: no I/O, no clocks. The same references and memory give the same plan.

use std::collections::hash_map::Entry;
use std::collections::{BTreeSet, HashMap, HashSet, VecDeque};
use std::num::NonZeroU32;

use types::{ChunkLocation, ContainerId};

use crate::plan::{ChunkPart, Fill, Next, Place, Reference, SPOT_BYTES, Step, Use, Uses};

/// The share of memory for known references: one part in so many.
const REFERENCES_SHARE: u64 = 6;
/// Memory of a known reference on average: `Known`, and its share of the tables.
pub const REFERENCE_BYTES: u64 = 192;
/// Memory of a kept chunk beside its bytes, in the planner and in the sender.
pub const KEPT_BYTES: u64 = 192;
/// At least so many references are known, and a step sends at least so many spots.
const KNOWN_MIN: u64 = 256;
/// One part in so many of the memory limits the cost of the spots that one step sends, whatever
/// their length. With the default memory, the limit fits a container of the largest usual size in
/// small chunks. Chunks beyond the limit are kept, which takes a copy of each.
const RUN_SPOTS_SHARE: u64 = 16;

/// Plans with known references and a cache of chunks.
#[derive(Debug)]
pub struct AheadPlanner<I> {
    references: I,
    has_ended: bool,
    sizes: Sizes,
    known: VecDeque<Known>,
    first_spot: u64,
    /// The last known spot that needs the chunk.
    last_of_chunk: HashMap<ChunkLocation, u64>,
    /// The last known spot that needs any chunk of the container.
    last_of_container: HashMap<ContainerId, u64>,
    /// Spots that need a kept chunk next.
    by_next: BTreeSet<u64>,
    kept_bytes: u64,
    /// The number of the next kept chunk.
    next_number: u64,
    reach: Reach,
    ready: VecDeque<Next>,
}

/// The division of the memory.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sizes {
    /// The most known references.
    pub(crate) known_max: usize,
    /// Bytes of chunks that the planner keeps.
    pub(crate) cache_bytes: u64,
    /// The most bytes that one step reads. A single chunk may be larger.
    pub(crate) step_bytes: u64,
    /// The most spots that are sent at once.
    pub(crate) run_spots: usize,
}

/// A spot that has not been sent.
#[derive(Debug)]
struct Known {
    reference: Reference,
    /// The distance to the next spot that needs the same chunk, and to the next one that needs any
    /// chunk of the same container.
    to_next_of_chunk: Option<NonZeroU32>,
    to_next_of_container: Option<NonZeroU32>,
    role: Role,
}

/// The role of a spot for its chunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Role {
    /// The first spot that needs it, and the kept chunk, if it is kept.
    First(Option<RetainedChunk>),
    /// An earlier spot needs it too.
    Later,
    /// Another reference contradicts this one about the chunk at this location. One of them is
    /// wrong. Each is verified separately.
    Stray,
}

/// A kept chunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct RetainedChunk {
    number: u64,
    /// The weight of its container when that was read ([`Reach`]).
    weight: u64,
}

/// The share of a planner's memory that is for known references, in bytes.
#[must_use]
pub fn references_bytes(memory_bytes: u64) -> u64 {
    let known = memory_bytes / REFERENCES_SHARE / REFERENCE_BYTES;
    known.max(KNOWN_MIN) * REFERENCE_BYTES
}

/// What one step found at the front.
#[derive(Default)]
struct StepFindings {
    entered: Vec<Reference>,
    uses: Vec<Use>,
    /// Uses of chunks that this step brings.
    of_new: Vec<Use>,
    /// Spots that need these chunks again.
    next_of_new: Vec<u64>,
}

impl<I, E> AheadPlanner<I>
where
    I: Iterator<Item = Result<Reference, E>>,
{
    /// Plans the restore of a stream with that much memory. A step may bring as many bytes again;
    /// `assemble` has room for both.
    pub fn new(references: I, memory_bytes: u64) -> Self {
        let references_bytes = references_bytes(memory_bytes);
        let count = |number: u64| usize::try_from(number).unwrap_or(usize::MAX);
        // A step brings its bytes before kept chunks leave. References and cache take at most the
        // memory, and a step with its spots takes as much again.
        let run_spots_bytes = (memory_bytes / RUN_SPOTS_SHARE).max(KNOWN_MIN * SPOT_BYTES);
        let sizes = Sizes {
            known_max: count(references_bytes / REFERENCE_BYTES),
            cache_bytes: memory_bytes.saturating_sub(references_bytes),
            step_bytes: memory_bytes.saturating_sub(run_spots_bytes).max(1),
            run_spots: count(run_spots_bytes / SPOT_BYTES),
        };
        Self::with(references, sizes)
    }

    pub(crate) fn with(references: I, sizes: Sizes) -> Self {
        Self {
            references,
            has_ended: false,
            sizes,
            known: VecDeque::new(),
            first_spot: 0,
            last_of_chunk: HashMap::new(),
            last_of_container: HashMap::new(),
            by_next: BTreeSet::new(),
            kept_bytes: 0,
            next_number: 0,
            reach: Reach::default(),
            ready: VecDeque::new(),
        }
    }

    /// The next spots, uses or step; `None` at the end. Every reference is returned as a spot, in
    /// order and once. Every spot that needs a chunk is filled once, by a step or from a kept
    /// chunk.
    ///
    /// # Errors
    /// Errors of the references: the recipe is damaged from there on.
    pub fn next_action(&mut self) -> Result<Option<Next>, E> {
        if self.ready.is_empty() {
            self.know()?;
            let Some(front) = self.known.front() else {
                return Ok(None);
            };
            match front.reference.chunk {
                Some(part) if front.role == Role::Stray => self.read_stray(part),
                Some(part) if front.role == Role::First(None) => self.read(part.location.container),
                _ => {
                    let run = self.pass(u64::MAX, 0);
                    self.tell(run, Vec::new());
                }
            }
        }
        Ok(self.ready.pop_front())
    }

    fn know(&mut self) -> Result<(), E> {
        while self.known.len() < self.sizes.known_max && !self.has_ended {
            let Some(reference) = self.references.next().transpose()? else {
                self.has_ended = true;
                return Ok(());
            };
            let number = self.first_spot + self.known.len() as u64;
            let role = match &reference.chunk {
                Some(part) => self.link(number, part),
                None => Role::Later,
            };
            self.known.push_back(Known {
                reference,
                to_next_of_chunk: None,
                to_next_of_container: None,
                role,
            });
        }
        Ok(())
    }

    /// Links a new spot to earlier spots that need the same chunk or container.
    fn link(&mut self, number: u64, part: &ChunkPart) -> Role {
        let first_spot = self.first_spot;
        let distance = |before: u64| u32::try_from(number - before).ok().and_then(NonZeroU32::new);
        let role = match self.last_of_chunk.entry(part.location) {
            Entry::Vacant(entry) => {
                entry.insert(number);
                Role::First(None)
            }
            Entry::Occupied(mut entry) => {
                let last = &mut self.known[index(first_spot, *entry.get())];
                let is_same = last.reference.chunk.is_some_and(|last| {
                    (last.fingerprint, last.chunk_len) == (part.fingerprint, part.chunk_len)
                });
                if !is_same {
                    return Role::Stray;
                }
                last.to_next_of_chunk = distance(*entry.get());
                entry.insert(number);
                Role::Later
            }
        };
        if let Some(last) = self.last_of_container.insert(part.location.container, number) {
            self.known[index(first_spot, last)].to_next_of_container = distance(last);
        }
        role
    }

    fn known_at(&mut self, spot: u64) -> &mut Known {
        &mut self.known[index(self.first_spot, spot)]
    }

    /// Keeps the chunks of the front spot's container that known spots within reach need, up to the
    /// bytes of a step. Returns these spots.
    fn keep(&mut self) -> Vec<u64> {
        let weight = self.weight_in_front();
        let most = self.kept_bytes.saturating_add(self.sizes.step_bytes);
        let mut new = Vec::new();
        let mut at = Some(self.first_spot);
        while let Some(spot) = at.filter(|spot| self.reach.includes(spot - self.first_spot, weight)) {
            if self.kept_bytes >= most {
                break;
            }
            let number = self.next_number;
            let known = self.known_at(spot);
            at = later(spot, known.to_next_of_container);
            if known.role == Role::First(None) {
                known.role = Role::First(Some(RetainedChunk { number, weight }));
                let bytes = known.kept_bytes();
                self.kept_bytes += bytes;
                self.next_number += 1;
                self.by_next.insert(spot);
                new.push(spot);
            }
        }
        new
    }

    /// The weight of the front spot's container: the square root of the bytes of its chunks that
    /// known spots need.
    fn weight_in_front(&self) -> u64 {
        let (mut bytes, mut at) = (0_u64, Some(self.first_spot));
        while let Some(spot) = at {
            let known = &self.known[index(self.first_spot, spot)];
            at = later(spot, known.to_next_of_container);
            if matches!(known.role, Role::First(_)) {
                bytes = bytes.saturating_add(known.kept_bytes());
            }
        }
        bytes.isqrt()
    }

    /// Drops the chunks whose next use is latest, until the rest fits. Returns the dropped chunks
    /// that were kept before `new`.
    fn evict(&mut self, new: u64) -> Vec<u64> {
        let mut evicted = Vec::new();
        while self.kept_bytes > self.sizes.cache_bytes
            && let Some(spot) = self.by_next.pop_last()
        {
            let known = self.known_at(spot);
            let role = std::mem::replace(&mut known.role, Role::First(None));
            let bytes = known.kept_bytes();
            self.kept_bytes -= bytes;
            if let Role::First(Some(kept)) = role
                && kept.number < new
            {
                evicted.push(kept.number);
                self.reach.evicted(spot - self.first_spot, kept.weight);
            }
        }
        evicted
    }

    /// Removes spots from the front whose chunks are kept, and chunks that no known spot needs any
    /// more. This step brings chunks from number `new` on, of `new_bytes`. A chunk that several
    /// spots of the run need counts for each.
    fn pass(&mut self, new: u64, mut new_bytes: u64) -> StepFindings {
        let mut run = StepFindings::default();
        let most = self.sizes.step_bytes.max(new_bytes);
        while run.entered.len() < self.sizes.run_spots && (new_bytes <= most || run.entered.is_empty()) {
            let Some(front) = self.known.front() else { break };
            let spot = self.first_spot;
            if let Some(part) = front.reference.chunk {
                let Role::First(Some(kept)) = front.role else {
                    break;
                };
                let number = kept.number;
                let len = front.reference.len;
                let next = later(spot, front.to_next_of_chunk);
                let kept_bytes = front.kept_bytes();
                if front.to_next_of_container.is_none() {
                    self.last_of_container.remove(&part.location.container);
                }
                self.by_next.remove(&spot);
                match next {
                    Some(next) => {
                        self.known_at(next).role = Role::First(Some(kept));
                        self.by_next.insert(next);
                    }
                    None => {
                        self.last_of_chunk.remove(&part.location);
                        self.kept_bytes -= kept_bytes;
                    }
                }
                let one = Use {
                    spot,
                    number,
                    part,
                    len,
                    is_last: next.is_none(),
                };
                if number < new {
                    run.uses.push(one);
                } else {
                    new_bytes += len;
                    match next {
                        Some(next) => run.next_of_new.push(next),
                        None => new_bytes = new_bytes.saturating_sub(kept_bytes),
                    }
                    run.of_new.push(one);
                }
            }
            run.entered
                .extend(self.known.pop_front().map(|known| known.reference));
            self.first_spot += 1;
            self.reach.passed();
        }
        run
    }

    /// Reads a container for the front spot, sends the spots that can be filled, and keeps the
    /// chunks of the rest that fit.
    fn read(&mut self, container: ContainerId) {
        let new = self.next_number;
        let before = self.kept_bytes;
        let came = self.keep();
        let mut run = self.pass(new, self.kept_bytes - before);
        let evicted = self.evict(new);
        // A chunk whose first spot was sent is filed under the next spot that needs it.
        let to_keep = self.kept_for(came.into_iter().chain(run.next_of_new.drain(..)), new);
        let stays: HashSet<u64> = to_keep.iter().map(|(number, _)| *number).collect();
        // Chunks that do not stay fill the spots of the run directly.
        let mut fills = Vec::with_capacity(run.of_new.len() + to_keep.len());
        for one in run.of_new.drain(..) {
            if stays.contains(&one.number) {
                run.uses.push(one);
            } else {
                fills.push(Fill {
                    place: Place::Spot(one.spot),
                    part: one.part,
                    len: one.len,
                });
            }
        }
        fills.extend(to_keep.into_iter().map(|(number, part)| Fill {
            place: Place::Kept(number),
            part: ChunkPart { skip: 0, ..part },
            len: part.chunk_len,
        }));
        self.tell(run, evicted);
        self.ready.push_back(Next::Step(Step { container, fills }));
    }

    /// Reads a container only for the front spot.
    fn read_stray(&mut self, part: ChunkPart) {
        let Some(front) = self.known.pop_front() else {
            return;
        };
        let fill = Fill {
            place: Place::Spot(self.first_spot),
            part,
            len: front.reference.len,
        };
        self.first_spot += 1;
        self.ready.push_back(Next::Spots(vec![front.reference]));
        self.ready.push_back(Next::Step(Step {
            container: part.location.container,
            fills: vec![fill],
        }));
    }

    /// The chunks that these spots need next and that are kept since `new`, with their numbers.
    fn kept_for(&mut self, spots: impl Iterator<Item = u64>, new: u64) -> Vec<(u64, ChunkPart)> {
        let first_spot = self.first_spot;
        let known = spots.filter(|spot| *spot >= first_spot).map(|spot| {
            let known = self.known_at(spot);
            (known.role, known.reference.chunk)
        });
        let kept = known.filter_map(|(role, part)| match role {
            Role::First(Some(kept)) if kept.number >= new => Some((kept.number, part?)),
            _ => None,
        });
        kept.collect()
    }

    fn tell(&mut self, run: StepFindings, evicted: Vec<u64>) {
        if !run.entered.is_empty() {
            self.ready.push_back(Next::Spots(run.entered));
        }
        if !(run.uses.is_empty() && evicted.is_empty()) {
            self.ready.push_back(Next::Uses(Uses {
                uses: run.uses,
                evicted,
            }));
        }
    }
}

/// The distance up to which a spot's chunk is kept.
///
/// Assume that the chunks of a container are kept for a distance D, and the container is read again
/// after that. This takes 1/D reads for each spot of the stream, and memory for its chunks over
/// half that distance. With the same memory, all containers together need the fewest reads if D is
/// inversely proportional to a square root: that of the bytes that a stretch of the stream needs of
/// the container. Chunks of a container that gives little to each stretch are worth keeping for
/// longer. So distances are multiplied by that root, the weight.
///
/// A chunk that is needed later than recently evicted chunks would be evicted too, and its fetching
/// and verification would be wasted. So the reach falls to the weighted distance at which a chunk
/// was evicted, and grows again as spots are sent. Chunks up to three times as far are kept as
/// well, because some of them do stay.
#[derive(Debug, Clone, Copy)]
struct Reach {
    /// Spots times weight.
    distance: u64,
}

impl Default for Reach {
    fn default() -> Self {
        Self {
            distance: Self::DISTANCE_MAX,
        }
    }
}

impl Reach {
    /// More than any memory holds, and far from overflow.
    const DISTANCE_MAX: u64 = 1 << 60;
    /// Chunks up to so many times as far are kept.
    const SLACK: u64 = 3;
    /// The reach grows by one part in so many for each sent spot.
    const GROWTH: u64 = 4096;

    const fn includes(self, spots: u64, weight: u64) -> bool {
        spots.saturating_mul(weight) / Self::SLACK <= self.distance
    }

    fn evicted(&mut self, spots: u64, weight: u64) {
        self.distance = self.distance.min(spots.saturating_mul(weight));
    }

    fn passed(&mut self) {
        let grown = self.distance + self.distance / Self::GROWTH + 1;
        self.distance = grown.min(Self::DISTANCE_MAX);
    }
}

impl Known {
    /// Memory of its chunk, if it is kept.
    fn kept_bytes(&self) -> u64 {
        self.reference.chunk.map_or(0, |part| part.chunk_len) + KEPT_BYTES
    }
}

fn later(spot: u64, distance: Option<NonZeroU32>) -> Option<u64> {
    distance.map(|distance| spot + u64::from(distance.get()))
}

fn index(first_spot: u64, spot: u64) -> usize {
    usize::try_from(spot - first_spot).expect("a known spot")
}
