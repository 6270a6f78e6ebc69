//! The state of objects after a power loss, if no barrier had made their changes durable.

use std::sync::Arc;

use rand_chacha::ChaCha8Rng;
use rand_core::{Rng, SeedableRng};

use super::history::{History, Version};

/// Which un-barriered changes survive a power loss. Each object is decided on its own: a later put
/// may survive where an earlier one did not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CrashPolicy {
    /// All changes survive, as with a quick disk.
    KeepAll,
    /// No change survives: new objects are gone, and deleted ones are back.
    DropAll,
    /// New objects are torn: half of them are cut in the middle, the others have zeros from the
    /// middle on. Deleted objects are back.
    TearAll,
    /// The seed decides for each object: it has any state since the last barrier over it, and a new
    /// object is whole or torn at any point.
    Seeded(u64),
}

/// Decides, object by object in the order of their names.
pub(super) struct Judge {
    policy: CrashPolicy,
    random: ChaCha8Rng,
    torn: u64,
}

impl Judge {
    pub(super) fn new(policy: CrashPolicy) -> Self {
        let seed = if let CrashPolicy::Seeded(seed) = policy {
            seed
        } else {
            0
        };
        Self {
            policy,
            random: ChaCha8Rng::seed_from_u64(seed),
            torn: 0,
        }
    }

    /// The version on the disk after the power loss.
    pub(super) fn survivor(&mut self, history: &History) -> Option<Version> {
        let [durable, changes @ ..] = history.states() else {
            return None;
        };
        let Some(last) = changes.last() else {
            return durable.version.clone();
        };
        match self.policy {
            CrashPolicy::KeepAll => last.version.clone(),
            CrashPolicy::DropAll => durable.version.clone(),
            CrashPolicy::TearAll => match changes.iter().rev().find_map(|state| state.version.as_ref()) {
                Some(put) => {
                    self.torn += 1;
                    Some(tear(put, put.bytes.len() / 2, self.torn.is_multiple_of(2)))
                }
                None => durable.version.clone(),
            },
            CrashPolicy::Seeded(_) => {
                let pick = self.below(changes.len() + 1);
                let Some(change) = pick.checked_sub(1).and_then(|index| changes.get(index)) else {
                    return durable.version.clone();
                };
                let version = change.version.as_ref()?;
                if self.below(2) == 0 {
                    return Some(version.clone());
                }
                let at = self.below(version.bytes.len().max(1));
                let zeros = self.below(2) == 0;
                Some(tear(version, at, zeros))
            }
        }
    }

    /// Whether a trim that no barrier covered is undone.
    pub(super) fn undoes_trim(&mut self) -> bool {
        match self.policy {
            CrashPolicy::KeepAll => false,
            CrashPolicy::DropAll | CrashPolicy::TearAll => true,
            CrashPolicy::Seeded(_) => self.below(2) == 0,
        }
    }

    /// Whether the given-back bytes stay lost although the renaming is undone.
    pub(super) fn keeps_holes(&mut self) -> bool {
        matches!(self.policy, CrashPolicy::Seeded(_)) && self.below(2) == 0
    }

    /// Whether a lock's file is still there (nobody holds it any longer).
    pub(super) fn keeps_lock(&mut self) -> bool {
        match self.policy {
            CrashPolicy::KeepAll => true,
            CrashPolicy::DropAll | CrashPolicy::TearAll => false,
            CrashPolicy::Seeded(_) => self.below(2) == 0,
        }
    }

    fn below(&mut self, bound: usize) -> usize {
        let draw = self.random.next_u64() % bound.max(1) as u64;
        usize::try_from(draw).expect("it is less than a usize")
    }
}

/// The version cut at that byte, or with zeros from there to its end.
pub(super) fn tear(version: &Version, at: usize, zeros: bool) -> Version {
    let mut bytes = version.bytes[..at.min(version.bytes.len())].to_vec();
    if zeros {
        bytes.resize(version.bytes.len(), 0);
    }
    Version {
        bytes: Arc::new(bytes),
        put_at: version.put_at,
        given_back: 0,
    }
}
