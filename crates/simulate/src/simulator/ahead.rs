//! Looking ahead beyond forward assembly: the recipe tells when a chunk is used next, and the
//! restore keeps it until then (L9, [Lillibridge 5, 6]). An assembly area of any size may come
//! beside the kept chunks. Real restores use `restore::belady`; this planner is for comparison.
//!
//! Memory has three parts: an assembly area as the paper's, a cache of single chunks, and known
//! references. References after the area are known up to their share of the memory. A read of a
//! container fills the area's spots and keeps chunks that the known references need. If there is no
//! room, the chunk whose next use is latest is dropped. With an area of size 0 there is a cache
//! alone: no room is set aside for unfilled spots, and equal chunks are kept once. With all
//! references known at no cost, the planner is a yardstick; it is greedy still, so it proves no
//! bound.

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap, VecDeque};

use restore::belady::{KEPT_BYTES, REFERENCE_BYTES};
use restore::plan::Reference;
use types::{ChunkLocation, ContainerId};

use crate::error::SimulateError;

/// How a restore uses memory to look ahead.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Ahead {
    /// Bytes of memory in all.
    pub bytes: u64,
    /// Bytes of the assembly area, in 64ths of the memory.
    pub area: u8,
    /// Bytes of references, in 64ths of the memory; `None`: all are known, and take nothing.
    pub references: Option<u8>,
}

impl Ahead {
    fn share(self, share: u8) -> u64 {
        self.bytes / 64 * u64::from(share.min(64))
    }

    /// How many references after the area are known.
    fn references_max(self) -> u64 {
        self.references
            .map_or(u64::MAX, |share| self.share(share) / REFERENCE_BYTES)
    }
}

/// A known spot of the stream.
#[derive(Debug, Clone, Copy)]
struct Spot {
    at: Option<ChunkLocation>,
    len: u64,
    is_filled: bool,
}

/// A kept chunk: its bytes, and where it is needed next.
#[derive(Debug, Clone, Copy)]
struct Kept {
    len: u64,
    next: u64,
}

#[derive(Debug)]
struct Area<I> {
    references: I,
    references_max: u64,
    area_max: u64,
    cache_max: u64,
    spots: VecDeque<Spot>,
    /// The number of the first spot.
    first: u64,
    /// The number after the last spot of the area, and the bytes of chunks in the area.
    area_end: u64,
    area_bytes: u64,
    /// Known spots, by chunk and by container.
    by_chunk: HashMap<ChunkLocation, VecDeque<u64>>,
    by_container: HashMap<ContainerId, VecDeque<u64>>,
    kept: HashMap<ChunkLocation, Kept>,
    by_next: BTreeMap<u64, ChunkLocation>,
    kept_bytes: u64,
    /// Bytes that each kept chunk takes beside its own.
    kept_extra: u64,
    reads: u64,
}

/// Counts the containers that a restore reads. Calls `poll` now and then, and returns its error.
pub(super) fn reads<E>(
    references: impl Iterator<Item = Result<Reference, E>>,
    memory: Ahead,
    poll: &dyn Fn() -> Result<(), SimulateError>,
) -> Result<u64, SimulateError>
where
    SimulateError: From<E>,
{
    let area_max = memory.share(memory.area);
    let known = memory.references.map_or(0, |share| memory.share(share));
    let mut area = Area {
        references,
        references_max: memory.references_max(),
        area_max: area_max.max(1),
        cache_max: memory.bytes.saturating_sub(area_max).saturating_sub(known),
        spots: VecDeque::new(),
        first: 0,
        area_end: 0,
        area_bytes: 0,
        by_chunk: HashMap::new(),
        by_container: HashMap::new(),
        kept: HashMap::new(),
        by_next: BTreeMap::new(),
        kept_bytes: 0,
        kept_extra: memory.references.map_or(0, |_| KEPT_BYTES),
        reads: 0,
    };
    while area.step()? {
        if area.first.is_multiple_of(1 << 14) {
            poll()?;
        }
    }
    Ok(area.reads)
}

impl<I, E> Area<I>
where
    I: Iterator<Item = Result<Reference, E>>,
    SimulateError: From<E>,
{
    /// Sends the first spot, after reading what it needs; `false` at the end.
    fn step(&mut self) -> Result<bool, SimulateError> {
        self.know()?;
        let Some(front) = self.spots.front().copied() else {
            return Ok(false);
        };
        if let Some(at) = front.at {
            if !front.is_filled {
                self.read(at.container);
            }
            self.area_bytes -= front.len;
            forget(&mut self.by_chunk, &at);
            forget(&mut self.by_container, &at.container);
        }
        self.spots.pop_front();
        self.first += 1;
        Ok(true)
    }

    /// Lets spots enter the area while it has room, and reads references after it up to their
    /// maximum.
    fn know(&mut self) -> Result<(), SimulateError> {
        loop {
            self.enter();
            let is_short = self.area_bytes < self.area_max && self.ahead() == 0;
            if !is_short && self.ahead() >= self.references_max {
                return Ok(());
            }
            let Some(reference) = self.references.next().transpose()? else {
                return Ok(());
            };
            let at = reference.chunk.map(|part| part.location);
            let number = self.first + self.spots.len() as u64;
            if let Some(at) = at {
                self.by_chunk.entry(at).or_default().push_back(number);
                self.by_container
                    .entry(at.container)
                    .or_default()
                    .push_back(number);
            }
            self.spots.push_back(Spot {
                at,
                len: reference.len,
                is_filled: at.is_none(),
            });
        }
    }

    /// The number of known spots after the area.
    fn ahead(&self) -> u64 {
        self.first + self.spots.len() as u64 - self.area_end.max(self.first)
    }

    /// Lets spots enter the area while it has room, and fills those whose chunk is kept. The first
    /// spot is always in it.
    fn enter(&mut self) {
        self.area_end = self.area_end.max(self.first);
        while self.area_bytes < self.area_max || self.area_end == self.first {
            let Ok(index) = usize::try_from(self.area_end - self.first) else {
                return;
            };
            let Some(spot) = self.spots.get_mut(index) else {
                return;
            };
            self.area_end += 1;
            let Some(at) = spot.at else { continue };
            self.area_bytes += spot.len;
            if self.kept.contains_key(&at) {
                spot.is_filled = true;
                self.keep_for_next(at);
            }
        }
    }

    /// Reads a container: fills spots of the area, and keeps chunks that later spots need.
    fn read(&mut self, container: ContainerId) {
        self.reads += 1;
        let numbers = self.by_container.get(&container).cloned().unwrap_or_default();
        for number in numbers {
            let Some(index) = number
                .checked_sub(self.first)
                .and_then(|n| usize::try_from(n).ok())
            else {
                continue;
            };
            let spot = &mut self.spots[index];
            let Some(at) = spot.at else { continue };
            if number < self.area_end {
                spot.is_filled = true;
            } else if let Entry::Vacant(vacant) = self.kept.entry(at) {
                vacant.insert(Kept {
                    len: spot.len,
                    next: number,
                });
                self.by_next.insert(number, at);
                self.kept_bytes += spot.len + self.kept_extra;
            }
        }
        while self.kept_bytes > self.cache_max
            && let Some((_, last)) = self.by_next.pop_last()
        {
            let gone = self.kept.remove(&last);
            self.kept_bytes -= gone.map_or(0, |kept| kept.len + self.kept_extra);
        }
    }

    /// Keeps a used chunk for the next spot after the area that needs it, if one is known.
    fn keep_for_next(&mut self, at: ChunkLocation) {
        let end = self.area_end;
        let next = self
            .by_chunk
            .get(&at)
            .and_then(|numbers| numbers.iter().copied().find(|number| *number >= end));
        let Some(kept) = self.kept.get_mut(&at) else {
            return;
        };
        self.by_next.remove(&kept.next);
        if let Some(next) = next {
            kept.next = next;
            self.by_next.insert(next, at);
        } else {
            self.kept_bytes -= kept.len + self.kept_extra;
            self.kept.remove(&at);
        }
    }
}

/// Removes the first spot, which was sent.
fn forget<K: std::hash::Hash + Eq>(spots: &mut HashMap<K, VecDeque<u64>>, key: &K) {
    if let Some(numbers) = spots.get_mut(key) {
        numbers.pop_front();
        if numbers.is_empty() {
            spots.remove(key);
        }
    }
}
