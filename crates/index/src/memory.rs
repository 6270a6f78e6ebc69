//! Hooks of recently sealed containers, before they are in a run.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use types::ContainerId;

use crate::hook::Hook;
use crate::kind::HookKind;
use crate::sampling::Standing;

/// Bytes of one entry: key, container, standing, control byte, with a table at most seven eighths
/// full.
pub(crate) const ENTRY_BYTES_IN_MEMORY: usize = 40;

/// A container and the hook's standing in it.
type HookContainer = (u64, u8);

/// Hashes index bits, which come from keyed hashes already.
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

/// A map of one kind's hooks. Nearly every fingerprint has one container; further containers are in
/// `more`.
#[derive(Debug, Default)]
pub(crate) struct MemoryHooks {
    one: Map<HookContainer>,
    more: Map<Vec<HookContainer>>,
    /// The number of hooks in `more`. It is needed for every hook that is added.
    more_count: usize,
}

impl MemoryHooks {
    pub(crate) fn insert(&mut self, hook: &Hook) {
        let new = (hook.container.to_u64(), hook.standing.to_bits());
        match self.one.get(&hook.bits) {
            None => drop(self.one.insert(hook.bits, new)),
            Some(held) if held.0 == new.0 => {}
            Some(_) => {
                let more = self.more.entry(hook.bits).or_default();
                if !more.iter().any(|held| held.0 == new.0) {
                    more.push(new);
                    self.more_count += 1;
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
                .filter_map(|held| ContainerId::from_u64(held.0)),
        );
    }

    pub(crate) fn len(&self) -> usize {
        self.one.len() + self.more_count
    }

    pub(crate) fn hooks(&self, kind: HookKind) -> Vec<Hook> {
        let more = self
            .more
            .iter()
            .flat_map(|(bits, held)| held.iter().map(move |held| (bits, held)));
        let all = self.one.iter().chain(more);
        all.filter_map(|(bits, (id, standing))| {
            Some(Hook {
                kind,
                bits: *bits,
                container: ContainerId::from_u64(*id)?,
                standing: Standing::from_bits(*standing),
            })
        })
        .collect()
    }

    /// Removes all hooks, and frees the memory.
    pub(crate) fn clear(&mut self) {
        *self = Self::default();
    }
}

#[cfg(test)]
mod tests {
    use types::{ContainerKind, Fingerprint, SequenceNumber, SessionId};

    use super::*;
    use crate::sampling::Anchors;

    /// The count equals the number of hooks, however many containers a fingerprint is in.
    #[test]
    fn the_count_is_that_of_the_hooks() {
        let mut hooks = MemoryHooks::default();
        for round in 0..3_u32 {
            for n in 0..40_u8 {
                let container = ContainerId {
                    session: SessionId::new(1).expect("a session"),
                    kind: ContainerKind::Data,
                    sequence: SequenceNumber::new(u32::from(n) % (round + 1)).expect("a number"),
                };
                let print = Fingerprint::from_bytes([n / 4; 32]);
                hooks.insert(&Hook::of(HookKind::Data, &print, container, &Anchors::default()));
                assert_eq!(hooks.len(), hooks.hooks(HookKind::Data).len());
            }
        }
        assert_eq!(hooks.len(), 10 * 3);
        hooks.clear();
        assert_eq!(hooks.len(), 0);
    }
}
