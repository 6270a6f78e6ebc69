//! The index in memory: hooks in some 7 bytes each under a byte budget, by progressive sampling
//! [Guo 3.2] (G3, G4, G5).
//!
//! All data is in pages of one pool, by number and without pointers: a table of entries for each
//! kind, and the containers that entries name by ordinal. When the pool is full, R halves, and
//! hooks that no longer sample are dropped. When only anchors are left and the budget is still too
//! small, the oldest containers are forgotten whole, and
//! [counted](MemoryStats::forgotten_containers).
//!
//! Invariant: allocated bytes stay within the budget (INV-7), except for some 100 KiB for a
//! moment while a segment is packed again, and 24 bytes a container while these get new ordinals. A
//! hook that stays at the rates in force is found, or its container is forgotten. A false answer
//! comes at most once in a GiB of new data ([`MemoryStats`] has the rate). Many threads may look up
//! while one adds. Nothing fails: an index may forget.

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

/// What the index in memory holds; a snapshot.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct MemoryStats {
    /// The budget.
    pub budget_bytes: u64,
    /// Allocated of it.
    pub bytes: u64,
    /// R.
    pub rates: SamplingRates,
    /// Entries of chunks, and of nodes.
    pub entries: [u64; 2],
    /// Containers that they name.
    pub containers: u64,
    /// Entries, as a share of the slots there are for them. 0 to 1.
    pub load: f64,
    /// Bytes allocated, as a share of the entries: pages, containers and all.
    pub bytes_per_entry: f64,
    /// Catalogs loaded for nothing, for each GiB of new data in chunks of 8 KiB: expected, from the
    /// entries.
    pub false_loads_per_gib: f64,
    /// Share of duplicates found, if streams repeat in order [Guo, equation 2].
    pub predicted_efficiency: f64,
    /// Containers that the budget had no room for.
    pub forgotten_containers: u64,
}

/// Hooks in memory.
#[derive(Debug)]
pub struct MemoryIndex {
    tables: RwLock<Tables>,
    lookups: AtomicU64,
}

impl MemoryIndex {
    /// An empty one, of so many bytes at most (and no less than [`MEMORY_BYTES_MIN`]).
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

    /// Adds hooks, each once. Quickest when they come by container, or in order of their bits.
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

    /// Forgets all.
    pub(crate) fn clear(&self) {
        let mut tables = self.write();
        *tables = Tables::new(tables.budget_bytes());
    }

    /// Whether the hooks of a container are here. All that stay at the rates, or none.
    #[must_use]
    pub fn holds(&self, container: ContainerId) -> bool {
        self.read().holds(container)
    }

    /// Appends the containers that may hold the fingerprint, in no order.
    pub(crate) fn find(&self, fingerprint: &Fingerprint, kind: HookKind, out: &mut Vec<ContainerId>) {
        self.lookups.fetch_add(1, Ordering::Relaxed);
        let rank = Rank::of_level(SampleLevel::of(fingerprint));
        self.read().find(kind, fingerprint.index_bits(), rank, out);
    }

    /// As [`Self::find`] for each fingerprint: which of them, and a container, in the order of
    /// fingerprints.
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

    /// Look-ups so far, with those whose answers were not needed.
    #[must_use]
    pub fn lookups(&self) -> u64 {
        self.lookups.load(Ordering::Relaxed)
    }

    /// What it holds.
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

    /// Writes all of it as one object that [`Self::restore`] takes back: without a copy in memory,
    /// in one sequential write. `filled` are the parts of runs that it was filled from. Losing it
    /// costs only time (INV-4).
    ///
    /// # Errors
    /// Of the storage.
    pub fn checkpoint(
        &self,
        storage: &dyn Storage,
        store: StoreId,
        name: &ObjectName,
        filled: &[IndexRunName],
    ) -> Result<(), StorageError> {
        image::write(&self.read(), storage, store, name, filled)
    }

    /// Takes back what [`Self::checkpoint`] wrote, and what it was filled from; `None` when it was
    /// written with another budget.
    ///
    /// # Errors
    /// What is wrong with it, as a sentence: not a byte is other than as it was written.
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
