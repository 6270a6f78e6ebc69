//! The index in memory: hooks of some 7 bytes each, within a byte budget, by progressive sampling
//! [Guo 3.2] (G3, G4, G5).
//!
//! All data is in pages of one pool. Pages have numbers, and there are no pointers. A table of
//! entries exists for each kind. Entries name containers by ordinal. If the pool is full, R halves,
//! and hooks that are no longer sampled are dropped. If only anchors are left and the budget is
//! still too small, the oldest containers are dropped whole, and
//! [counted](MemoryStats::forgotten_containers).
//!
//! Invariant: allocated bytes stay within the budget (INV-7). There are two short exceptions: some
//! 100 KiB while a segment is packed again, and 24 bytes for each container while containers get
//! new ordinals. A hook that stays at the rates in force is found, or its container was dropped. A
//! false answer occurs at most once in a GiB of new data ([`MemoryStats`] has the rate). Many
//! threads may look up while one adds. Nothing fails: an index may forget.

mod batched_lookup;
pub(crate) mod directory;
mod hint;
pub(crate) mod hook_table;
mod image;
mod ordinals;
pub(crate) mod pages;
mod rewrite;
pub(crate) mod slots;
mod tables;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use env::{Storage, StorageError};
use format::names::IndexRunName;
use types::{ContainerId, Fingerprint, ObjectName, SessionId, StoreId};

use crate::candidates::chosen_of;
use crate::hook::{Hook, HookIndex};
use crate::kind::HookKind;
use crate::lists::CandidateLists;
use crate::sampling::{SampleLevel, SamplingRates, efficiency_of};
use crate::table::batched_lookup::TOGETHER;
pub(crate) use crate::table::slots::LOOKUPS_PER_GIB;
use crate::table::slots::Rank;
use crate::table::tables::Tables;

/// The least budget, in bytes.
pub const MEMORY_BYTES_MIN: usize = 64 << 10;

/// The content of the index in memory; a snapshot.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct MemoryStats {
    /// The budget.
    pub budget_bytes: u64,
    /// Allocated bytes of the budget.
    pub bytes: u64,
    /// R.
    pub rates: SamplingRates,
    /// Entries by kind: chunks, nodes.
    pub entries: [u64; 2],
    /// Containers in the entries.
    pub containers: u64,
    /// The share of slots that have an entry, 0 to 1.
    pub load: f64,
    /// Allocated bytes for each entry: pages, containers and everything else.
    pub bytes_per_entry: f64,
    /// The expected number of catalogs loaded for nothing, for each GiB of new data in chunks of 8
    /// KiB. It follows from the entries.
    pub false_loads_per_gib: f64,
    /// The share of duplicates found, if streams repeat in order [Guo, equation 2].
    pub predicted_efficiency: f64,
    /// Containers that were dropped, because the budget had no room for them.
    pub forgotten_containers: u64,
}

/// Hooks in memory.
#[derive(Debug)]
pub struct MemoryIndex {
    tables: RwLock<Tables>,
    lookups: AtomicU64,
}

impl MemoryIndex {
    /// An empty index of at most `budget_bytes` (and no less than [`MEMORY_BYTES_MIN`]).
    #[must_use]
    pub fn new(budget_bytes: usize) -> Self {
        Self::of(Tables::new(budget_bytes.max(MEMORY_BYTES_MIN)))
    }

    fn of(tables: Tables) -> Self {
        Self {
            tables: RwLock::new(tables),
            lookups: AtomicU64::new(0),
        }
    }

    /// Adds hooks, each once. This is fastest if they come by container, or in the order of their
    /// bits.
    pub fn add(&self, hooks: impl IntoIterator<Item = Hook>) {
        let mut tables = self.write();
        for hook in hooks {
            tables.add(&hook);
        }
    }

    /// Drops the hooks of the containers for which `keep` is false.
    pub fn retain(&self, keep: &dyn Fn(ContainerId) -> bool) {
        self.write().retain(keep);
    }

    /// The rates in force.
    #[must_use]
    pub fn rates(&self) -> SamplingRates {
        self.read().rates()
    }

    /// Removes all hooks.
    pub(crate) fn clear(&self) {
        let mut tables = self.write();
        *tables = Tables::new(tables.budget_bytes());
    }

    /// Whether the hooks of a container are here: all that stay at the rates, or none.
    #[must_use]
    pub fn holds(&self, container: ContainerId) -> bool {
        self.read().holds(container)
    }

    /// Appends the containers that may have the fingerprint, in any order.
    pub(crate) fn find(&self, fingerprint: &Fingerprint, kind: HookKind, out: &mut Vec<ContainerId>) {
        self.lookups.fetch_add(1, Ordering::Relaxed);
        let rank = Rank::of_level(SampleLevel::of(fingerprint));
        self.read().find(kind, fingerprint.index_bits(), rank, out);
    }

    /// Like [`Self::find`] for each fingerprint. Each result is the number of the fingerprint and a
    /// container, in the order of fingerprints.
    pub(crate) fn find_together(
        &self,
        fingerprints: &[Fingerprint],
        kind: HookKind,
        out: &mut Vec<(usize, ContainerId)>,
    ) {
        self.lookups
            .fetch_add(fingerprints.len() as u64, Ordering::Relaxed);
        let wanted = |n: usize| {
            let print = &fingerprints[n];
            (print.index_bits(), Rank::of_level(SampleLevel::of(print)))
        };
        self.read().find_together(kind, fingerprints.len(), wanted, out);
    }

    /// Look-ups so far, including those whose answers were not needed.
    #[must_use]
    pub fn lookups(&self) -> u64 {
        self.lookups.load(Ordering::Relaxed)
    }

    /// Counts of its content.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "shares, shown with three figures")]
    pub fn stats(&self) -> MemoryStats {
        let tables = self.read();
        let entries = HookKind::ALL.map(|kind| tables.table(kind).entries());
        let all: u64 = entries.iter().sum();
        let slots: usize = HookKind::ALL
            .map(|kind| tables.table(kind).pages() * tables.table(kind).layout().slots())
            .iter()
            .sum();
        let share = |of: u64, in_all: u64| {
            if in_all == 0 {
                0.0
            } else {
                of as f64 / in_all as f64
            }
        };
        let rates = tables.rates();
        let data = tables.table(HookKind::Data);
        MemoryStats {
            budget_bytes: tables.budget_bytes() as u64,
            bytes: tables.bytes() as u64,
            rates,
            entries,
            containers: tables.containers(),
            load: share(all, slots as u64),
            bytes_per_entry: share(tables.bytes() as u64, all),
            false_loads_per_gib: data.false_candidates_per_gib(),
            predicted_efficiency: efficiency_of(rates.data, entries[HookKind::Data.number()], data.anchors()),
            forgotten_containers: tables.forgotten(),
        }
    }

    /// Writes everything as one object, which [`Self::restore`] reads: without a copy in memory, in
    /// one sequential write. `filled` are the parts of runs that the index was filled from. Losing
    /// the object costs only time (INV-4).
    ///
    /// # Errors
    /// Errors of the storage.
    pub fn checkpoint(
        &self,
        storage: &dyn Storage,
        store: StoreId,
        name: &ObjectName,
        filled: &[IndexRunName],
    ) -> Result<(), StorageError> {
        image::write(&self.read(), storage, store, name, filled)
    }

    /// Restores an object of [`Self::checkpoint`]. Returns also the parts of runs that it was
    /// filled from; `None` if it was written with another budget.
    ///
    /// # Errors
    /// A description of the problem. Any changed byte is an error.
    pub fn restore(
        bytes: &[u8],
        store: StoreId,
        budget_bytes: usize,
    ) -> Result<Option<(Self, Vec<IndexRunName>)>, String> {
        let read = image::read(bytes, store, budget_bytes.max(MEMORY_BYTES_MIN))?;
        Ok(read.map(|(tables, filled)| (Self::of(tables), filled)))
    }

    fn read(&self) -> RwLockReadGuard<'_, Tables> {
        self.tables.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Tables> {
        self.tables.write().unwrap_or_else(PoisonError::into_inner)
    }
}

impl HookIndex for MemoryIndex {
    fn candidates_without(
        &self,
        apart: Option<SessionId>,
        fingerprint: &Fingerprint,
        kind: HookKind,
        out: &mut Vec<ContainerId>,
    ) {
        out.clear();
        self.find(fingerprint, kind, out);
        chosen_of(out, apart);
    }

    fn lookups_together(&self) -> usize {
        TOGETHER
    }

    fn candidates_together(
        &self,
        apart: Option<SessionId>,
        fingerprints: &[Fingerprint],
        kind: HookKind,
        out: &mut CandidateLists,
    ) {
        if fingerprints.len() < 2 {
            return self.candidates_one_by_one(apart, fingerprints, kind, out);
        }
        let mut found = Vec::new();
        self.find_together(fingerprints, kind, &mut found);
        out.fill(fingerprints.len(), apart, found);
    }
}
