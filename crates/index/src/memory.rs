//! Hooks of containers sealed a moment ago, before they are a run.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use types::ContainerId;

use crate::hook::{Hook, HookKind};

/// Bytes that one entry takes: key, container, control byte, at seven eighths full or less.
pub(crate) const ENTRY_BYTES_IN_MEMORY: usize = 32;

/// Index bits are of keyed hashes already.
#[derive(Debug, Default)]
pub(crate) struct BitsHasher(u64);

impl Hasher for BitsHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = self.0.rotate_left(8) ^ u64::from(*byte);
        }
    }

    fn write_u64(&mut self, bits: u64) {
        self.0 = bits;
    }
}

type Map<V> = HashMap<u64, V, BuildHasherDefault<BitsHasher>>;

/// A map of one kind's hooks. Nearly every fingerprint has one container; the others stand apart.
#[derive(Debug, Default)]
pub(crate) struct MemoryHooks {
    one: Map<u64>,
    more: Map<Vec<u64>>,
}

impl MemoryHooks {
    pub(crate) fn insert(&mut self, bits: u64, container: ContainerId) {
        let id = container.to_u64();
        match self.one.get(&bits) {
            None => drop(self.one.insert(bits, id)),
            Some(held) if *held == id => {}
            Some(_) => {
                let more = self.more.entry(bits).or_default();
                if !more.contains(&id) {
                    more.push(id);
                }
            }
        }
    }

    pub(crate) fn find(&self, bits: u64, out: &mut Vec<ContainerId>) {
        let Some(one) = self.one.get(&bits) else { return };
        let more = self.more.get(&bits).into_iter().flatten();
        out.extend(
            std::iter::once(one)
                .chain(more)
                .filter_map(|id| ContainerId::from_u64(*id)),
        );
    }

    pub(crate) fn len(&self) -> usize {
        self.one.len() + self.more.values().map(Vec::len).sum::<usize>()
    }

    pub(crate) fn hooks(&self, kind: HookKind) -> Vec<Hook> {
        let more = self
            .more
            .iter()
            .flat_map(|(bits, ids)| ids.iter().map(move |id| (bits, id)));
        let all = self.one.iter().chain(more);
        all.filter_map(|(bits, id)| {
            Some(Hook {
                kind,
                bits: *bits,
                container: ContainerId::from_u64(*id)?,
            })
        })
        .collect()
    }

    /// Forgets all, and gives the memory back.
    pub(crate) fn clear(&mut self) {
        *self = Self::default();
    }
}
