//! Decides which chunks of a window the backup refers to, and which it stores [Guo 3.2.1,
//! Lillibridge 3.2, 4.8] (G3, L3, L8).
//!
//! Every chunk is looked up among the session's own chunks, and in the catalogs prefetched last. A
//! chunk that neither has is looked up among the hooks, and the catalogs that hooks name are
//! prefetched. Then containers are ranked by the bytes of the window that they hold and those
//! ranked before do not. Of equal ones the newer counts more. Without a cap, a hook's catalog is
//! loaded at once, and all found chunks are referred to. With a cap, only the hooks of a sample of
//! the chunks rank the containers that are not prefetched, and catalogs are loaded in the order of
//! that rank. Once as many containers are chosen as the cap allows, chunks that no free container
//! has are stored again.
//!
//! Invariant: the decision follows from the order of chunks, the index and the session's view
//! alone. A catalog is never loaded for a chunk that the caches answer. It does not matter how many
//! chunks one query of the index has (the laboratory's `as_the_engine` test). It allocates nothing
//! for a chunk. One thread.

use index::sampling::SampleLevel;
use std::collections::HashMap;

use index::{CatalogSource, HookIndex, LOADS_MAX, Resolver};
use types::{ChunkLocation, ContainerId, Fingerprint};

use super::Holdings;
use super::candidate::{Candidate, Offer, Wanted, newness};
use super::cap::{Accounts, Holder};
use super::placed::PlacedAt;
use super::segment::{Bytes, Segment};
use super::session_chunks::{Batch, SessionChunks};
use crate::error::IngestError;

/// With a cap, one chunk in 2^n is looked up among the hooks before containers are ranked.
const RANKING_LEVEL: u8 = 4;

/// Decides on chunks. It reuses its allocations.
#[derive(Debug)]
pub(crate) struct Decider<I, C> {
    pub(crate) own: SessionChunks,
    pub(crate) chunks: Resolver<I, C>,
    /// The number of the newest batches of own chunks that are not charged.
    recent_batches: u64,
    /// The index has the hook of one chunk in 2^n, as of the backup's beginning. Its later sampling
    /// rate depends on when containers are sealed.
    pub(crate) hooks_halved: u8,
    wanted: Vec<Wanted>,
    candidates: Vec<Candidate>,
    /// Their numbers.
    numbers: HashMap<Holder, u32>,
    offers: Vec<Offer>,
    locations: Vec<ChunkLocation>,
    hinted: Vec<ContainerId>,
    asked: Asked,
}

/// The last query of the index.
#[derive(Debug, Default)]
struct Asked {
    /// In ascending order.
    chunks: Vec<usize>,
    fingerprints: Vec<Fingerprint>,
}

impl<I: HookIndex, C: CatalogSource> Decider<I, C> {
    pub(crate) fn new(
        own: SessionChunks,
        chunks: Resolver<I, C>,
        recent_batches: u64,
        hooks_halved: u8,
    ) -> Self {
        Self {
            own,
            hooks_halved,
            chunks,
            recent_batches,
            wanted: Vec::new(),
            candidates: Vec::new(),
            numbers: HashMap::new(),
            offers: Vec::new(),
            locations: Vec::new(),
            hinted: Vec::new(),
            asked: Asked::default(),
        }
    }

    /// Whether an own batch is charged nothing.
    pub(crate) fn is_recent(&self, batch: Batch) -> bool {
        self.own.age(batch) < self.recent_batches
    }

    /// Whether a reference is charged nothing.
    fn is_free(&self, accounts: &Accounts, holder: Holder) -> bool {
        accounts.is_free(holder) || matches!(holder, Holder::Own(batch) if self.is_recent(batch))
    }

    /// Decides on the chunks of these segments that were read. It refers to at most `left` charged
    /// containers, and to no charged one that holds fewer than `least` bytes. Returns whether more
    /// containers would have found more chunks. [`Self::place`] returns the decisions.
    pub(crate) fn decide<'s, B: 's>(
        &mut self,
        holdings: &impl Holdings<Index = I, Catalogs = C>,
        segments: impl IntoIterator<Item = &'s Segment<B>>,
        accounts: &Accounts,
        left: usize,
        least: u64,
    ) -> Result<bool, IngestError> {
        self.wanted.clear();
        self.candidates.clear();
        self.numbers.clear();
        self.offers.clear();
        let read = segments
            .into_iter()
            .flat_map(|segment| &segment.children)
            .filter(|child| matches!(child.bytes, Bytes::Read(_)));
        self.wanted.extend(read.map(|child| Wanted {
            fingerprint: child.fingerprint,
            len: u32::try_from(child.len).expect("a chunk is at most some MiB"),
            is_offered: false,
            is_passed_over: false,
            place: None,
            offer: None,
        }));
        for chunk in 0..self.wanted.len() {
            self.ask_caches(holdings, chunk);
        }
        let mut left = left;
        let is_capped = left != usize::MAX;
        if is_capped {
            self.ask_samples();
            self.choose(holdings, accounts, &mut left, least)?;
        }
        // Even if none is left, because free containers can still be used.
        self.ask_hooks(holdings, accounts, left)?;
        self.choose(holdings, accounts, &mut left, least)?;
        let open = |offer: &Offer| self.wanted[offer.chunk as usize].place.is_none();
        let passed_over = |wanted: &Wanted| wanted.is_passed_over && !wanted.is_offered;
        Ok(self.offers.iter().any(open)
            || self.wanted.iter().any(passed_over)
            || self
                .candidates
                .iter()
                .any(|candidate| !candidate.is_loaded && candidate.promised > 0))
    }

    /// After [`Self::decide`] on a whole window: if fewer than `least` bytes of it would be stored,
    /// new or again, no chunk is stored again. Otherwise these chunks would be in a container that
    /// holds no more of the window than the rejected ones, and would be stored again in each
    /// backup.
    pub(crate) fn decide_on_rest(
        &mut self,
        holdings: &impl Holdings<Index = I, Catalogs = C>,
        accounts: &Accounts,
        least: u64,
    ) -> Result<(), IngestError> {
        let open = self.wanted.iter().filter(|wanted| wanted.place.is_none());
        if open.map(|wanted| u64::from(wanted.len)).sum::<u64>() < least {
            self.choose(holdings, accounts, &mut { usize::MAX }, 0)?;
        }
        Ok(())
    }

    /// The decision about the n-th chunk that was read. `None`: it must be stored, unless it was
    /// stored since.
    pub(crate) fn place(&self, chunk: usize) -> Option<PlacedAt> {
        self.wanted[chunk].place
    }

    /// Whether the n-th chunk was found anywhere.
    pub(crate) fn is_offered(&self, chunk: usize) -> bool {
        self.wanted[chunk].is_offered
    }

    /// The newest place where this session has just stored a chunk.
    pub(crate) fn newest_recent(&mut self, fingerprint: &Fingerprint) -> Option<PlacedAt> {
        let mut newest = None::<(Batch, PlacedAt)>;
        self.own.find(fingerprint, |batch, new| {
            if newest.is_none_or(|(before, _)| before < batch) {
                newest = Some((batch, PlacedAt::New(new)));
            }
        });
        let (batch, place) = newest?;
        self.is_recent(batch).then_some(place)
    }

    /// The holders that were chosen.
    pub(crate) fn chosen(&self) -> impl Iterator<Item = Holder> {
        let chosen = self.candidates.iter().filter(|candidate| candidate.is_chosen);
        chosen.map(|candidate| candidate.holder)
    }

    /// The number of a candidate. Makes a new one if needed. The last one is requested most often.
    fn candidate(&mut self, holder: Holder, is_loaded: bool) -> usize {
        let last = self.candidates.len().checked_sub(1);
        let last = last.filter(|last| self.candidates[*last].holder == holder);
        let next = self.candidates.len();
        let number = last.unwrap_or_else(|| {
            let new = u32::try_from(next).expect("no more than chunks");
            *self.numbers.entry(holder).or_insert(new) as usize
        });
        if number == next {
            self.candidates.push(Candidate {
                holder,
                promised: 0,
                hinted_by: None,
                is_loaded: false,
                is_chosen: false,
                offers: None,
                gain: 0,
            });
        }
        if is_loaded {
            self.candidates[number].set_loaded();
        }
        number
    }

    fn offer(&mut self, chunk: usize, holder: Holder, place: PlacedAt) {
        let number = self.candidate(holder, true);
        let wanted = &mut self.wanted[chunk];
        let candidate = &mut self.candidates[number];
        let offer = u32::try_from(self.offers.len()).expect("a window has fewer offers than bytes");
        self.offers.push(Offer {
            chunk: u32::try_from(chunk).expect("a window has fewer chunks than bytes"),
            candidate: u32::try_from(number).expect("no more than chunks"),
            place,
            of_chunk: wanted.offer.replace(offer),
            of_candidate: None,
        });
        wanted.is_offered = true;
        if wanted.place.is_none() {
            candidate.gain += u64::from(wanted.len);
        }
        let first = match candidate.offers {
            None => offer,
            Some((first, last)) => {
                self.offers[last as usize].of_candidate = Some(offer);
                first
            }
        };
        candidate.offers = Some((first, offer));
    }

    /// Adds offers of cached batches and catalogs. Returns whether there are any.
    fn ask_caches(&mut self, holdings: &impl Holdings<Index = I, Catalogs = C>, chunk: usize) -> bool {
        let fingerprint = self.wanted[chunk].fingerprint;
        let mut own = None::<(Batch, PlacedAt)>;
        // Of its own chunks the newest is enough.
        self.own.find(&fingerprint, |batch, new| {
            if own.is_none_or(|(newest, _)| newest < batch) {
                own = Some((batch, PlacedAt::New(new)));
            }
        });
        if let Some((batch, place)) = own {
            self.offer(chunk, Holder::Own(batch), place);
        }
        let mut locations = std::mem::take(&mut self.locations);
        locations.clear();
        self.chunks
            .cached(&fingerprint, &|at| holdings.is_absent(at), &mut locations);
        for at in &locations {
            self.offer(chunk, Holder::Container(at.container), PlacedAt::Stored(*at));
        }
        self.locations = locations;
        self.wanted[chunk].is_offered
    }

    /// Ranks containers that are not prefetched by hooks: a sample of the chunks represents all.
    fn ask_samples(&mut self) {
        let mut hinted = std::mem::take(&mut self.hinted);
        self.asked.chunks.clear();
        let ranks = |wanted: &Wanted| {
            !wanted.is_offered && SampleLevel::of(&wanted.fingerprint).get() >= RANKING_LEVEL
        };
        for chunk in 0..self.wanted.len() {
            if !ranks(&self.wanted[chunk]) {
                continue;
            }
            let Wanted { fingerprint, len, .. } = self.wanted[chunk];
            if let Some(batch) = self.own.hinted(&fingerprint) {
                let promised = promised(len, self.own.hooks_halved());
                let candidate = self.candidate(Holder::Own(batch), false);
                self.candidates[candidate].promise(promised);
            }
            let promised = promised(len, self.hooks_halved);
            let number = self.number_asked(chunk, ranks);
            self.chunks.hinted_of(number, &mut hinted);
            for id in &hinted {
                let candidate = self.candidate(Holder::Container(*id), false);
                let candidate = &mut self.candidates[candidate];
                candidate.promise(promised);
                candidate.hinted_by.get_or_insert(chunk);
            }
        }
        self.hinted = hinted;
    }

    /// The number of a chunk in the last query of the index. If the chunk is not in it, makes a new
    /// query for it and the wanted chunks after it, as many as are worth it.
    fn number_asked(&mut self, chunk: usize, is_wanted: impl Fn(&Wanted) -> bool) -> usize {
        if let Ok(number) = self.asked.chunks.binary_search(&chunk) {
            return number;
        }
        let Asked { chunks, fingerprints } = &mut self.asked;
        chunks.clear();
        fingerprints.clear();
        let wanted = self.wanted.iter().enumerate().skip(chunk);
        let wanted = wanted.filter(|(_, wanted)| is_wanted(wanted));
        for (number, wanted) in wanted.take(self.chunks.lookups_together()) {
            chunks.push(number);
            fingerprints.push(wanted.fingerprint);
        }
        self.chunks.ask(fingerprints);
        0
    }

    /// Looks up every chunk without an offer among the hooks, and prefetches the catalogs that they
    /// name: at most `left` charged ones. Records if more are named.
    fn ask_hooks(
        &mut self,
        holdings: &impl Holdings<Index = I, Catalogs = C>,
        accounts: &Accounts,
        left: usize,
    ) -> Result<(), IngestError> {
        let mut hinted = std::mem::take(&mut self.hinted);
        self.asked.chunks.clear();
        let (mut loads, mut loaded) = (0, false);
        for chunk in 0..self.wanted.len() {
            if self.wanted[chunk].is_offered || (loaded && self.ask_caches(holdings, chunk)) {
                continue;
            }
            let fingerprint = self.wanted[chunk].fingerprint;
            if let Some(batch) = self.own.hinted(&fingerprint) {
                let is_free = self.is_free(accounts, Holder::Own(batch));
                if is_free || loads < left {
                    self.own.load(batch, self.chunks.catalogs());
                    loads += usize::from(!is_free);
                    loaded = true;
                    if self.ask_caches(holdings, chunk) {
                        continue;
                    }
                } else {
                    self.wanted[chunk].is_passed_over = true;
                }
            }
            let number = self.number_asked(chunk, |wanted| !wanted.is_offered);
            self.chunks.hinted_of(number, &mut hinted);
            for id in hinted.iter().take(LOADS_MAX) {
                let is_free = self.is_free(accounts, Holder::Container(*id));
                if !is_free && loads >= left {
                    self.wanted[chunk].is_passed_over = true;
                    continue;
                }
                loads += usize::from(!is_free);
                loaded = true;
                self.chunks.prefetch(*id, Some(&fingerprint))?;
                if self.ask_caches(holdings, chunk) {
                    break;
                }
            }
        }
        self.hinted = hinted;
        // With sampled hooks, chunks before a container's first hook are found only now.
        for chunk in 0..self.wanted.len() {
            if loaded && !self.wanted[chunk].is_offered {
                self.ask_caches(holdings, chunk);
            }
        }
        Ok(())
    }

    /// Chooses candidates by rank: at most `left` charged ones, each of which gains `least` bytes.
    /// It loads a candidate that only hooks name when its turn comes.
    fn choose(
        &mut self,
        holdings: &impl Holdings<Index = I, Catalogs = C>,
        accounts: &Accounts,
        left: &mut usize,
        least: u64,
    ) -> Result<(), IngestError> {
        let mut loads = *left;
        let each = self.candidates.iter();
        let is_free: Vec<bool> = each
            .map(|candidate| self.is_free(accounts, candidate.holder))
            .collect();
        loop {
            let may_be = |(number, candidate): (usize, &Candidate)| {
                let is_free = is_free[number];
                let has_room = is_free || *left > 0 && (candidate.is_loaded || loads > 0);
                let rank = (is_free, candidate.gain, newness(candidate.holder));
                let is_worth_it = candidate.gain >= if is_free { 1 } else { least.max(1) };
                (has_room && is_worth_it).then_some((rank, number))
            };
            let ranked = self.candidates.iter().enumerate().filter_map(may_be);
            let Some(((is_free, ..), best)) = ranked.max_by_key(|(rank, _)| *rank) else {
                return Ok(());
            };
            // Without a cap nothing is charged.
            let charge = usize::from(!is_free && *left != usize::MAX);
            if !self.candidates[best].is_loaded {
                loads -= charge;
                self.load(holdings, best)?;
                continue;
            }
            self.candidates[best].is_chosen = true;
            *left -= charge;
            self.take_offers(best);
        }
    }

    /// Takes the chunks that a candidate offers and that have no place yet.
    fn take_offers(&mut self, number: usize) {
        let mut next = self.candidates[number].offers.map(|(first, _)| first);
        while let Some(offer) = next {
            let Offer {
                chunk,
                place,
                of_candidate,
                ..
            } = self.offers[offer as usize];
            next = of_candidate;
            let wanted = &mut self.wanted[chunk as usize];
            if wanted.place.is_some() {
                continue;
            }
            wanted.place = Some(place);
            let mut other = wanted.offer;
            while let Some(offer) = other {
                let Offer {
                    candidate, of_chunk, ..
                } = self.offers[offer as usize];
                self.candidates[candidate as usize].gain -= u64::from(wanted.len);
                other = of_chunk;
            }
        }
    }

    /// Prefetches a candidate, and adds its offers.
    fn load(
        &mut self,
        holdings: &impl Holdings<Index = I, Catalogs = C>,
        number: usize,
    ) -> Result<(), IngestError> {
        self.candidates[number].set_loaded();
        let holder = self.candidates[number].holder;
        match holder {
            Holder::Own(batch) => {
                self.own.load(batch, self.chunks.catalogs());
                for chunk in 0..self.wanted.len() {
                    let fingerprint = self.wanted[chunk].fingerprint;
                    if let Some(new) = self.own.newest(&fingerprint, |held| held == batch) {
                        self.offer(chunk, holder, PlacedAt::New(new));
                    }
                }
            }
            Holder::Container(id) => {
                let asked = self.candidates[number].hinted_by;
                let asked = asked.map(|chunk| self.wanted[chunk].fingerprint);
                let Some(view) = self.chunks.prefetch(id, asked.as_ref())? else {
                    return Ok(());
                };
                let mut locations = std::mem::take(&mut self.locations);
                for chunk in 0..self.wanted.len() {
                    locations.clear();
                    let fingerprint = self.wanted[chunk].fingerprint;
                    self.chunks
                        .places_in(&view, &fingerprint, &|at| holdings.is_absent(at), &mut locations);
                    if let Some(at) = locations.first() {
                        self.offer(chunk, holder, PlacedAt::Stored(*at));
                    }
                }
                self.locations = locations;
            }
        }
        Ok(())
    }
}

/// The bytes that a hook of a sampled chunk represents, if one chunk in 2^n has a hook.
fn promised(len: u32, hooks_halved: u8) -> u64 {
    u64::from(len) << RANKING_LEVEL.max(hooks_halved)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A sample of all chunks represents all, whichever of the two was sampled.
    #[test]
    fn a_hook_represents_all_chunks_without_one() {
        let chunks = 1 << 12;
        for hooks_halved in 0..10 {
            let hooks = chunks >> hooks_halved.max(RANKING_LEVEL);
            assert_eq!(
                hooks * promised(9000, hooks_halved),
                chunks * 9000,
                "{hooks_halved}"
            );
        }
    }
}
