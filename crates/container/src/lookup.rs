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
/// Building a table takes at most so many probes for each of its places. Distinct fingerprints
/// take less than one. Those of equal bits take the square of their number.
const PROBES_MAX: u64 = 256;

/// Maps fingerprints to positions. It uses open addressing by the bits that indexes keep, and is at
/// most half full. So the usual answer (not here) takes one or two probes. If a catalog has one
/// chunk very often, or somebody hostile made it, the positions are sorted instead.
#[derive(Debug)]
pub struct FingerprintTable {
    positions: Vec<u32>,
    shift: u32,
    /// Bits and positions, if the table would have taken too long.
    sorted: Vec<(u64, u32)>,
}

impl FingerprintTable {
    /// The table of fingerprints by position. Equal fingerprints may occur.
    pub fn new(fingerprints: impl ExactSizeIterator<Item = Fingerprint> + Clone) -> Self {
        let size = (fingerprints.len() * 2).next_power_of_two().max(2);
        let mut table = Self {
            positions: vec![EMPTY; size],
            shift: 64 - size.trailing_zeros(),
            sorted: Vec::new(),
        };
        let mut probes_left = PROBES_MAX * size as u64;
        for (fingerprint, position) in fingerprints.clone().zip(0u32..) {
            let mut at = table.home(&fingerprint);
            while table.positions[at] != EMPTY {
                at = (at + 1) & (size - 1);
                probes_left = probes_left.saturating_sub(1);
            }
            if probes_left == 0 {
                return Self::sorted(fingerprints);
            }
            table.positions[at] = position;
        }
        table
    }

    fn sorted(fingerprints: impl Iterator<Item = Fingerprint>) -> Self {
        let bits = fingerprints.map(|fingerprint| fingerprint.index_bits());
        let mut sorted: Vec<_> = bits.zip(0u32..).collect();
        sorted.sort_unstable();
        Self {
            positions: Vec::new(),
            shift: 0,
            sorted,
        }
    }

    fn home(&self, fingerprint: &Fingerprint) -> usize {
        usize::try_from(fingerprint.index_bits() >> self.shift).expect("fewer bits than the table's size")
    }

    /// Positions that may have the fingerprint. All that do have it are among them, in ascending
    /// order. The caller compares fingerprints.
    pub fn positions<'a>(&'a self, fingerprint: &Fingerprint) -> impl Iterator<Item = u32> + use<'a> {
        let size = self.positions.len();
        let home = if size == 0 { 0 } else { self.home(fingerprint) };
        // Positions were added in ascending order, so those of equal fingerprints are in that
        // order.
        let probed = (0..size)
            .map(move |n| self.positions[(home + n) & (size - 1)])
            .take_while(|position| *position != EMPTY);
        let bits = fingerprint.index_bits();
        let first = self.sorted.partition_point(|(other, _)| *other < bits);
        let equal = self.sorted[first..]
            .iter()
            .take_while(move |(other, _)| *other == bits);
        probed.chain(equal.map(|(_, position)| *position))
    }

    pub(crate) fn bytes_in_memory(&self) -> usize {
        self.positions.capacity() * size_of::<u32>() + self.sorted.capacity() * size_of::<(u64, u32)>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fingerprint(bits: u64, rest: u64) -> Fingerprint {
        let mut bytes = [0; 32];
        bytes[..8].copy_from_slice(&rest.to_be_bytes());
        bytes[8..16].copy_from_slice(&bits.to_be_bytes());
        Fingerprint::from_bytes(bytes)
    }

    /// Half of a million equal ones took minutes.
    #[test]
    fn equal_bits_cost_no_more_than_sorting() {
        for count in [600_u32, 500_000] {
            let all = |n: u64| match n % 3 {
                0 => fingerprint(7, 7),
                1 => fingerprint(7, n),
                _ => fingerprint(n << 40, n),
            };
            let table = FingerprintTable::new(
                (0..count)
                    .map(|n| all(u64::from(n)))
                    .collect::<Vec<_>>()
                    .into_iter(),
            );
            assert_eq!(table.sorted.is_empty(), count == 600);
            for n in [0, 1, 2, 3, 4, 5, 100, 599] {
                let wanted = all(n);
                let found: Vec<u32> = table
                    .positions(&wanted)
                    .filter(|position| all(u64::from(*position)) == wanted)
                    .collect();
                let expected: Vec<u32> = (0..count).filter(|at| all(u64::from(*at)) == wanted).collect();
                assert_eq!(found, expected, "{n} of {count}");
            }
            assert!(
                !table
                    .positions(&fingerprint(9, 9))
                    .any(|at| all(u64::from(at)) == fingerprint(9, 9))
            );
        }
    }
}
