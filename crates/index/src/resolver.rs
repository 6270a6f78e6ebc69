//! Resolves a fingerprint to the places of its bytes [Guo 3.2.1]: first from prefetched catalogs,
//! then by the index (G3).
//!
//! A stream's chunks are stored together, so a catalog that a hook named also answers for the
//! neighbours. Most chunks of a known stream cost no index read; with a sampled index they have no
//! hook of their own. What must hold: only the full fingerprint in a checked catalog decides, never
//! a hook. No place is returned for which the caller's `is_absent` is true (condemned, damaged, or
//! a node of an uncommitted session: INV-9). A damaged container costs deduplication, never the
//! backup. The answers follow only from the questions and the index, not from catalogs that others
//! loaded. For one thread; memory is the cache's budget (INV-7).

use std::collections::HashSet;

use container::Containers;
use types::{ChunkLocation, ContainerId, Fingerprint, SessionId, Slot};

use crate::cache::{Eviction, FingerprintCache};
use crate::candidates::age_order;
use crate::catalogs::{Catalog, CatalogSource};
use crate::error::IndexError;
use crate::hook::HookIndex;
use crate::kind::HookKind;
use crate::lists::CandidateLists;

/// The most catalogs that one look-up loads.
pub const LOADS_MAX: usize = 3;
/// The most containers that are remembered as unreadable, so that not every one of their chunks
/// tries again.
const LOST_MAX: usize = 4096;

/// The memory of a resolver.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ResolverOptions {
    /// Memory for fingerprints of prefetched catalogs, in bytes.
    pub cache_bytes: u64,
    /// Which fingerprints are evicted first.
    pub eviction: Eviction,
}

/// Counts; a snapshot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ResolverStats {
    /// Fingerprints looked up.
    pub lookups: u64,
    /// Found in a prefetched catalog.
    pub hits_cached: u64,
    /// Look-ups that used the index.
    pub index_reads: u64,
    /// Catalogs prefetched.
    pub catalog_loads: u64,
    /// Prefetched catalogs without the fingerprint that they were loaded for.
    pub false_loads: u64,
    /// Catalogs that could not be loaded: missing, damaged, or on a bad sector.
    pub failed_loads: u64,
}

impl ResolverStats {
    /// The sum of both.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self {
            lookups: self.lookups + other.lookups,
            hits_cached: self.hits_cached + other.hits_cached,
            index_reads: self.index_reads + other.index_reads,
            catalog_loads: self.catalog_loads + other.catalog_loads,
            false_loads: self.false_loads + other.false_loads,
            failed_loads: self.failed_loads + other.failed_loads,
        }
    }
}

/// Look-ups of one kind through hooks and catalogs. With one resolver for each session, the
/// localities of sessions do not mix.
#[derive(Debug)]
pub struct Resolver<I, C = Containers> {
    index: I,
    catalogs: C,
    kind: HookKind,
    /// A session whose containers are not returned.
    apart: Option<SessionId>,
    cache: FingerprintCache<ContainerId>,
    lost: HashSet<ContainerId>,
    asked: CandidateLists,
    matches: Vec<(ContainerId, u32)>,
    stats: ResolverStats,
}

impl<I: HookIndex, C: CatalogSource> Resolver<I, C> {
    /// A resolver with nothing prefetched.
    #[must_use]
    pub fn new(index: I, catalogs: C, kind: HookKind, options: ResolverOptions) -> Self {
        Self {
            index,
            catalogs,
            kind,
            apart: None,
            cache: FingerprintCache::new(options.cache_bytes, options.eviction),
            lost: HashSet::new(),
            asked: CandidateLists::default(),
            matches: Vec::new(),
            stats: ResolverStats::default(),
        }
    }

    /// Leaves out the containers of a running session. The session knows its own chunks, and the
    /// time when one of its containers is sealed must not matter.
    #[must_use]
    pub fn without(mut self, session: SessionId) -> Self {
        self.apart = Some(session);
        self
    }

    /// The same look-ups over other catalogs. Prefetched catalogs and their memory stay. Counts
    /// begin again.
    #[must_use]
    pub fn over<D: CatalogSource>(self, catalogs: D) -> Resolver<I, D> {
        Resolver {
            index: self.index,
            catalogs,
            kind: self.kind,
            apart: self.apart,
            cache: self.cache,
            lost: self.lost,
            asked: self.asked,
            matches: self.matches,
            stats: ResolverStats::default(),
        }
    }

    /// The source of catalogs.
    #[must_use]
    pub fn catalogs(&self) -> &C {
        &self.catalogs
    }

    /// The hooks.
    #[must_use]
    pub fn index(&self) -> &I {
        &self.index
    }

    /// Finds the places of a chunk or node: those in preferred containers first, then those in the
    /// newest. Prefetched catalogs alone answer if they have it. Else up to [`LOADS_MAX`] catalogs
    /// that the index names are prefetched, until one has it. Clears `out` first. If `out` stays
    /// empty, the caller should store the bytes.
    ///
    /// # Errors
    /// If the storage does not answer.
    pub fn resolve(
        &mut self,
        fingerprint: &Fingerprint,
        is_absent: &dyn Fn(ChunkLocation) -> bool,
        prefers: &dyn Fn(ContainerId) -> bool,
        out: &mut Vec<ChunkLocation>,
    ) -> Result<(), IndexError> {
        out.clear();
        self.cached(fingerprint, is_absent, out);
        if out.is_empty() {
            let mut hinted = Vec::new();
            self.hinted(fingerprint, &mut hinted);
            hinted.sort_by_key(|id| !prefers(*id));
            for id in hinted.into_iter().take(LOADS_MAX) {
                if let Some(view) = self.prefetch(id, Some(fingerprint))? {
                    self.places_in(&view, fingerprint, is_absent, out);
                }
                if !out.is_empty() {
                    break;
                }
            }
        }
        out.sort_by_key(|at| {
            (
                !prefers(at.container),
                std::cmp::Reverse(age_order(at.container)),
                at.slot,
            )
        });
        Ok(())
    }

    /// Adds to `out` the places of the fingerprint in prefetched catalogs.
    pub fn cached(
        &mut self,
        fingerprint: &Fingerprint,
        is_absent: &dyn Fn(ChunkLocation) -> bool,
        out: &mut Vec<ChunkLocation>,
    ) {
        self.stats.lookups += 1;
        self.matches.clear();
        self.cache.find(fingerprint, &mut self.matches);
        let before = out.len();
        for (container, slot) in &self.matches {
            let slot = Slot::new(*slot).expect("slots went in");
            let at = ChunkLocation {
                container: *container,
                slot,
            };
            if !is_absent(at) {
                out.push(at);
            }
        }
        self.stats.hits_cached += u64::from(out.len() > before);
    }

    /// The containers that the index names and whose catalogs are not prefetched, newest first.
    /// Clears `out` first. Reads no catalog.
    pub fn hinted(&mut self, fingerprint: &Fingerprint, out: &mut Vec<ContainerId>) {
        self.ask(std::slice::from_ref(fingerprint));
        self.hinted_of(0, out);
    }

    /// How many fingerprints should be [asked](Self::ask) for together.
    #[must_use]
    pub fn lookups_together(&self) -> usize {
        self.index.lookups_together()
    }

    /// Asks the index for several fingerprints together. [`Self::hinted_of`] returns the answers,
    /// until the next call.
    pub fn ask(&mut self, fingerprints: &[Fingerprint]) {
        self.index
            .candidates_together(self.apart, fingerprints, self.kind, &mut self.asked);
    }

    /// Like [`Self::hinted`], for the fingerprint with this number among those last
    /// [asked](Self::ask) for.
    ///
    /// # Panics
    /// If there were fewer.
    pub fn hinted_of(&mut self, number: usize, out: &mut Vec<ContainerId>) {
        self.stats.index_reads += 1;
        out.clear();
        let (cache, lost) = (&self.cache, &self.lost);
        let wanted = |id: &&ContainerId| !cache.contains(**id) && !lost.contains(id);
        out.extend(self.asked.of(number).iter().filter(wanted));
    }

    /// Whether a catalog is prefetched.
    #[must_use]
    pub fn is_cached(&self, id: ContainerId) -> bool {
        self.cache.contains(id)
    }

    /// Prefetches a catalog, possibly because of one fingerprint. `None`: it is missing, damaged,
    /// or on a bad sector.
    ///
    /// # Errors
    /// If the storage does not answer.
    pub fn prefetch(
        &mut self,
        id: ContainerId,
        wanted: Option<&Fingerprint>,
    ) -> Result<Option<C::Catalog>, IndexError> {
        let Some(catalog) = self.catalogs.catalog(id)? else {
            self.stats.failed_loads += 1;
            if self.lost.len() < LOST_MAX {
                self.lost.insert(id);
            }
            return Ok(None);
        };
        self.stats.catalog_loads += 1;
        if wanted.is_some_and(|wanted| !catalog.has(wanted)) {
            self.stats.false_loads += 1;
        }
        if !self.cache.contains(catalog.id()) {
            let prints = catalog.fingerprints(self.kind);
            self.cache
                .insert(catalog.id(), prints.map(|(print, slot)| (print, slot.get())));
        }
        Ok(Some(catalog))
    }

    /// Adds to `out` the places of the fingerprint in a catalog.
    pub fn places_in(
        &self,
        catalog: &C::Catalog,
        fingerprint: &Fingerprint,
        is_absent: &dyn Fn(ChunkLocation) -> bool,
        out: &mut Vec<ChunkLocation>,
    ) {
        let container = catalog.id();
        let slots = catalog.slots_of(fingerprint, self.kind);
        let places = slots.map(|slot| ChunkLocation { container, slot });
        out.extend(places.filter(|at| !is_absent(*at)));
    }

    /// Drops all prefetched catalogs. Needed after an epoch, which may have removed places in them.
    pub fn forget(&mut self) {
        self.cache.clear();
        self.lost.clear();
    }

    /// Counts since the start.
    #[must_use]
    pub fn stats(&self) -> ResolverStats {
        self.stats
    }
}
