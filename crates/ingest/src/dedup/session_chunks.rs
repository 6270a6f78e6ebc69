//! The chunks that this session has stored, from the moment they are taken.
//!
//! They are identified by their numbers, whether their containers are sealed or cached meanwhile or
//! not. So every run of the same backup finds the same chunks. Numbers form batches of about a
//! container's plain bytes. A cache has the fingerprints of the batches used last. A batch that
//! left it comes back when a look-up meets one of its hooks: from a list that is kept until its
//! containers are put, and from their catalogs after that. Hooks are sampled more and more
//! sparsely, like those of the index [Guo 3.2.2].
//!
//! Invariant: memory stays within the budget, besides the lists of batches that are not put yet,
//! and some 60 bytes for each container (INV-7). The answers follow from the order of chunks alone.
//! One thread.

use std::collections::{HashMap, HashSet, VecDeque};

use index::{Catalog, CatalogSource, Eviction, FingerprintCache};
use types::{ContainerId, Fingerprint};

use super::placed::{Lane, NewChunk};
use super::places::SharedPlaces;

/// Memory of one hook in a table that grows by doubling.
const HOOK_BYTES: u64 = 56;

/// Consecutive new chunks of a lane.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Batch {
    pub(crate) number: u32,
    pub(crate) lane: Lane,
}

/// A batch with containers that are not put yet.
#[derive(Debug)]
struct Unsealed {
    number: u32,
    prints: Vec<Fingerprint>,
}

#[derive(Debug, Default)]
struct OwnLane {
    /// The first chunk's number of each batch.
    firsts: Vec<u64>,
    next: u64,
    /// Plain bytes of the last batch.
    bytes: u64,
    unsealed: VecDeque<Unsealed>,
}

/// The batch of a sampled fingerprint.
#[derive(Debug)]
struct Hook {
    batch: Batch,
    /// Zeros at the end of the sampling bits. It stays until the rate requires more.
    zeros: u8,
}

/// The session's own chunks.
#[derive(Debug)]
pub(crate) struct SessionChunks {
    batch_bytes: u64,
    places: [SharedPlaces; Lane::COUNT],
    lanes: [OwnLane; Lane::COUNT],
    cache: FingerprintCache<Batch>,
    hooks: HashMap<u64, Hook>,
    hooks_max: usize,
    /// The number of zeros that a hook must have: R = 1/2^n.
    zeros_min: u8,
    sealed: HashSet<ContainerId>,
    matches: Vec<(Batch, u32)>,
}

impl SessionChunks {
    /// Without chunks. Half of the budget is for fingerprints, half for hooks.
    pub(crate) fn new(
        budget_bytes: u64,
        batch_bytes: u64,
        eviction: Eviction,
        places: [SharedPlaces; Lane::COUNT],
    ) -> Self {
        Self {
            batch_bytes,
            places,
            lanes: Default::default(),
            cache: FingerprintCache::new(budget_bytes / 2, eviction),
            hooks: HashMap::new(),
            hooks_max: usize::try_from(budget_bytes / 2 / HOOK_BYTES)
                .unwrap_or(usize::MAX)
                .max(64),
            zeros_min: 0,
            sealed: HashSet::new(),
            matches: Vec::new(),
        }
    }

    /// Takes a new chunk.
    pub(crate) fn add(&mut self, fingerprint: &Fingerprint, len: u32, new: NewChunk) {
        let lane = &mut self.lanes[new.lane.number()];
        debug_assert_eq!(lane.next, new.ordinal, "numbers are given out in order");
        if lane.firsts.is_empty() || lane.bytes >= self.batch_bytes {
            lane.bytes = 0;
            let number = u32::try_from(lane.firsts.len()).expect("fewer batches than containers may be");
            lane.firsts.push(new.ordinal);
            lane.unsealed.push_back(Unsealed {
                number,
                prints: Vec::new(),
            });
        }
        lane.next = new.ordinal + 1;
        lane.bytes += u64::from(len);
        let open = lane
            .unsealed
            .back_mut()
            .expect("the last batch is never all sealed");
        let batch = Batch {
            number: open.number,
            lane: new.lane,
        };
        let place = u32::try_from(open.prints.len()).expect("a batch has fewer chunks than bytes");
        open.prints.push(*fingerprint);
        if place > 0 && !self.cache.contains(batch) {
            // The batch left the cache meanwhile. It comes back whole, because no hook leads to a
            // batch that counts as cached.
            self.cache.insert(batch, open.prints.iter().copied().zip(0..));
        } else {
            self.cache.insert(batch, [(*fingerprint, place)]);
        }
        self.add_hook(fingerprint, batch);
    }

    fn add_hook(&mut self, fingerprint: &Fingerprint, batch: Batch) {
        let zeros = u8::try_from(fingerprint.sample_bits().trailing_zeros()).expect("at most 32");
        if zeros < self.zeros_min {
            return;
        }
        self.hooks.insert(fingerprint.index_bits(), Hook { batch, zeros });
        while self.hooks.len() > self.hooks_max && self.zeros_min < 32 {
            self.zeros_min += 1;
            let zeros_min = self.zeros_min;
            self.hooks.retain(|_, hook| hook.zeros >= zeros_min);
        }
    }

    /// Calls back for each place of the fingerprint in cached batches.
    pub(crate) fn find(&mut self, fingerprint: &Fingerprint, mut found: impl FnMut(Batch, NewChunk)) {
        self.matches.clear();
        self.cache.find(fingerprint, &mut self.matches);
        for (batch, place) in &self.matches {
            let lane = &self.lanes[batch.lane.number()];
            let ordinal = lane.firsts[batch.number as usize] + u64::from(*place);
            found(
                *batch,
                NewChunk {
                    lane: batch.lane,
                    ordinal,
                },
            );
        }
    }

    /// The newest chunk of this fingerprint in cached batches of which `is_wanted` is true.
    pub(crate) fn newest(
        &mut self,
        fingerprint: &Fingerprint,
        is_wanted: impl Fn(Batch) -> bool,
    ) -> Option<NewChunk> {
        let mut newest = None;
        self.find(fingerprint, |batch, new| {
            if is_wanted(batch) && newest.is_none_or(|(before, _)| before < batch) {
                newest = Some((batch, new));
            }
        });
        newest.map(|(_, new)| new)
    }

    /// A batch that is not cached and has the fingerprint, according to its hook.
    pub(crate) fn hinted(&self, fingerprint: &Fingerprint) -> Option<Batch> {
        let hook = self.hooks.get(&fingerprint.index_bits())?;
        (!self.cache.contains(hook.batch)).then_some(hook.batch)
    }

    /// The sampling rate: one chunk in 2^n of this session has a hook.
    pub(crate) fn hooks_halved(&self) -> u8 {
        self.zeros_min
    }

    /// How many later batches its lane has.
    pub(crate) fn age(&self, batch: Batch) -> u64 {
        (self.lanes[batch.lane.number()].firsts.len() as u64).saturating_sub(u64::from(batch.number) + 1)
    }

    /// Brings a batch back into the cache. Chunks in unreadable catalogs are stored again when they
    /// are met.
    pub(crate) fn load(&mut self, batch: Batch, catalogs: &impl CatalogSource) {
        let lane = &self.lanes[batch.lane.number()];
        if let Some(unsealed) = lane.unsealed.iter().find(|held| held.number == batch.number) {
            self.cache.insert(batch, unsealed.prints.iter().copied().zip(0..));
            return;
        }
        let first = lane.firsts[batch.number as usize];
        let end = lane
            .firsts
            .get(batch.number as usize + 1)
            .copied()
            .unwrap_or(lane.next);
        for span in self.places[batch.lane.number()].between(first, end) {
            let Ok(Some(catalog)) = catalogs.catalog(span.first.container) else {
                continue;
            };
            let slots = (0..span.count).filter_map(|ahead| {
                let slot = span.first.slot.checked_add(u32::try_from(ahead).ok()?)?;
                let place = u32::try_from(span.first_ordinal + ahead - first).ok()?;
                Some((catalog.fingerprint(slot)?, place))
            });
            self.cache.insert(batch, slots);
        }
    }

    /// Records that a container was put. Drops lists that are no longer needed.
    pub(crate) fn sealed(&mut self, id: ContainerId) {
        self.sealed.insert(id);
        for (lane, places) in self.lanes.iter_mut().zip(&self.places) {
            // The last batch is still open.
            while lane.unsealed.len() > 1 {
                let number = lane.unsealed[0].number as usize;
                let (first, end) = (lane.firsts[number], lane.firsts[number + 1]);
                let spans = places.between(first, end);
                let placed: u64 = spans.iter().map(|span| span.count).sum();
                let all = placed == end - first
                    && spans
                        .iter()
                        .all(|span| self.sealed.contains(&span.first.container));
                if !all {
                    break;
                }
                lane.unsealed.pop_front();
                // The last of them may hold chunks of the next batch.
                for span in spans.iter().rev().skip(1) {
                    self.sealed.remove(&span.first.container);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn print(n: u64) -> Fingerprint {
        let mut bytes = [0; 32];
        let bits = (n + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        bytes[8..16].copy_from_slice(&bits.to_be_bytes());
        bytes[16..24].copy_from_slice(&n.to_be_bytes());
        Fingerprint::from_bytes(bytes)
    }

    /// An open batch that leaves the cache and grows is cached whole or not at all.
    #[test]
    fn an_open_batch_is_returned_whole() {
        let mut own = SessionChunks::new(0, 1 << 30, Eviction::ContainerLru, Default::default());
        let mut next = [0; Lane::COUNT];
        let mut add = |own: &mut SessionChunks, lane: Lane, n: u64| {
            let ordinal = next[lane.number()];
            next[lane.number()] += 1;
            own.add(&print(n), 1000, NewChunk { lane, ordinal });
        };
        (0..5).for_each(|n| add(&mut own, Lane::Metadata, n));
        (1000..1100).for_each(|n| add(&mut own, Lane::Content, n));
        let of_metadata = |batch: Batch| batch.lane == Lane::Metadata;
        assert!(own.newest(&print(0), of_metadata).is_none(), "it was pushed out");
        add(&mut own, Lane::Metadata, 5);
        for n in 0..6 {
            let found = own.newest(&print(n), of_metadata);
            assert_eq!(found.map(|new| new.ordinal), Some(n));
        }
    }
}
