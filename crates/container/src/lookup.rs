//! The two tables of a catalog: from slot to entry, and from fingerprint to entries.
//!
//! They are built once when a catalog is loaded, and read without locks. Both are arrays of entry
//! positions. So a catalog of 2,000 entries takes some 12 bytes for each entry to find it at once.

use format::container::CatalogEntry;
use types::{Fingerprint, Slot};

/// Maps slots to positions.
#[derive(Debug)]
pub(crate) enum SlotTable {
    /// Slot n is entry n: every container as first sealed.
    Same(u32),
    /// Slots in ascending order, with their positions.
    Sorted(Vec<(u32, u32)>),
}

impl SlotTable {
    /// The table of these entries. No slot may occur twice.
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

/// Maps fingerprints to positions. It uses open addressing by the bits that indexes keep, and is at
/// most half full. So the usual answer (not here) takes one or two probes.
#[derive(Debug)]
pub struct FingerprintTable {
    positions: Vec<u32>,
    shift: u32,
}

impl FingerprintTable {
    /// The table of fingerprints by position. Equal fingerprints may occur.
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

    /// Positions that may have the fingerprint. All that do have it are among them, in ascending
    /// order. The caller compares fingerprints.
    pub fn positions<'a>(&'a self, fingerprint: &Fingerprint) -> impl Iterator<Item = u32> + use<'a> {
        let mask = self.positions.len() - 1;
        let home = self.home(fingerprint);
        // Positions were added in ascending order, so those of equal fingerprints are in that
        // order.
        (0..self.positions.len())
            .map(move |n| self.positions[(home + n) & mask])
            .take_while(|position| *position != EMPTY)
    }

    pub(crate) fn bytes_in_memory(&self) -> usize {
        self.positions.capacity() * size_of::<u32>()
    }
}
