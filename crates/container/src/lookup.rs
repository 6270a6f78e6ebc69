//! A catalog's two tables: slot to entry, fingerprint to entries.
//!
//! Built once when a catalog is loaded, read without locks. Both are arrays of entry positions, so
//! that a catalog of 2,000 entries pays some 12 bytes each for finding them at once.

use format::container::CatalogEntry;
use types::{Fingerprint, Slot};

/// From slot to position.
#[derive(Debug)]
pub(crate) enum SlotTable {
    /// Slot n is entry n: every container as first sealed.
    Same(u32),
    /// Slots in ascending order, with their positions.
    Sorted(Vec<(u32, u32)>),
}

impl SlotTable {
    /// Of entries that list no slot twice.
    pub(crate) fn new(entries: &[CatalogEntry]) -> Self {
        let slots = || {
            entries
                .iter()
                .zip(0u32..)
                .map(|(entry, position)| (entry.slot.get(), position))
        };
        if slots().all(|(slot, position)| slot == position) {
            return Self::Same(u32::try_from(entries.len()).expect("at most one entry a slot"));
        }
        let mut sorted: Vec<_> = slots().collect();
        sorted.sort_unstable();
        Self::Sorted(sorted)
    }

    pub(crate) fn position(&self, slot: Slot) -> Option<usize> {
        let slot = slot.get();
        match self {
            Self::Same(count) => (slot < *count).then_some(slot as usize),
            Self::Sorted(sorted) => {
                let at = sorted.binary_search_by_key(&slot, |pair| pair.0).ok()?;
                Some(sorted[at].1 as usize)
            }
        }
    }

    pub(crate) fn bytes_in_memory(&self) -> usize {
        match self {
            Self::Same(_) => 0,
            Self::Sorted(sorted) => sorted.capacity() * size_of::<(u32, u32)>(),
        }
    }
}

const EMPTY: u32 = u32::MAX;

/// From fingerprint to positions: open addressing by the bits kept for indexes, at most half full,
/// so that the usual answer (not here) costs one or two probes.
#[derive(Debug)]
pub struct FingerprintTable {
    positions: Vec<u32>,
    shift: u32,
}

impl FingerprintTable {
    /// Of fingerprints by position; equal ones may be among them.
    pub fn new(fingerprints: impl ExactSizeIterator<Item = Fingerprint>) -> Self {
        let size = (fingerprints.len() * 2).next_power_of_two().max(2);
        let mut table = Self {
            positions: vec![EMPTY; size],
            shift: 64 - size.trailing_zeros(),
        };
        for (fingerprint, position) in fingerprints.zip(0u32..) {
            let mut at = table.home(&fingerprint);
            while table.positions[at] != EMPTY {
                at = (at + 1) & (size - 1);
            }
            table.positions[at] = position;
        }
        table
    }

    fn home(&self, fingerprint: &Fingerprint) -> usize {
        usize::try_from(fingerprint.index_bits() >> self.shift).expect("fewer bits than the table's size")
    }

    /// The positions that may have the fingerprint, and all that do among them, those in ascending
    /// order. The caller compares fingerprints.
    pub fn positions<'a>(&'a self, fingerprint: &Fingerprint) -> impl Iterator<Item = u32> + use<'a> {
        let mask = self.positions.len() - 1;
        let home = self.home(fingerprint);
        // They were added by position, so equal ones are in that order.
        (0..self.positions.len())
            .map(move |n| self.positions[(home + n) & mask])
            .take_while(|position| *position != EMPTY)
    }

    pub(crate) fn bytes_in_memory(&self) -> usize {
        self.positions.capacity() * size_of::<u32>()
    }
}
