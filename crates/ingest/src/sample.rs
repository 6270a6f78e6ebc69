//! Reads a share of the containers that a backup reuses, to find chunks that have rotted.
//!
//! A backup refers to containers of earlier backups without reading them. So it could refer for
//! years to chunks that nobody can restore any more. Therefore it reads a share of these
//! containers, each whole and once, before it first refers to them. It does so for unchanged files,
//! known segments and found chunks alike. From then on bad slots count as absent, and the backup
//! stores their chunks again from the source.
//!
//! Each backup samples other containers. The number of a container gives it a place on a circle.
//! Half of the share is an arc that moves on by the golden ratio with each session. Whichever
//! sessions are backups, such an arc falls into the widest gap that earlier arcs have left. So over
//! many backups every container is read, unless the budget of bytes ends the arcs early: then it
//! takes as many backups as it takes to read all within their budgets. The other half is an arc
//! with a random start, so that nobody can know which containers will not be read.
//!
//! Invariant: the sample reads no more than the budget and the container that exceeds it.
//! Timing decides nothing except whether the budget lasts. Any number of threads; one waits while
//! another reads.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use container::{Containers, Depth};
use types::{ContainerId, SessionId, Slot, SlotRange};

/// How far the arc moves from one session to the next, on a circle of 2^64.
const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

/// How many of the reused containers a backup reads.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct VerifyKnown {
    /// The share of the containers, 0 to 1.
    pub share: f64,
    /// Stored bytes after which no further container is read.
    pub bytes_max: u64,
}

impl VerifyKnown {
    /// Reads nothing.
    pub const NONE: Self = Self {
        share: 0.0,
        bytes_max: 0,
    };
}

/// The result of a sample.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct VerifiedKnown {
    /// Containers read.
    pub containers: u64,
    /// Bytes read.
    pub bytes: u64,
    /// Slots that no copy has, by container.
    pub bad: Vec<(ContainerId, Vec<SlotRange>)>,
}

/// The sample of one backup.
#[derive(Debug)]
pub(crate) struct Sample {
    /// The beginnings of both arcs, and the length of each; `None`: the whole circle.
    arcs: Option<([u64; 2], u64)>,
    bytes_max: u64,
    judged: Mutex<Judged>,
}

#[derive(Debug, Default)]
struct Judged {
    bytes: u64,
    /// For each container that was read, the slots that no copy has.
    read: HashMap<ContainerId, Vec<SlotRange>>,
}

impl Sample {
    /// The sample of one session; `chance` is a random number.
    pub(crate) fn new(how: VerifyKnown, session: SessionId, chance: u64) -> Self {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            clippy::cast_precision_loss,
            reason = "a share of a circle, to within a few places"
        )]
        let half = (how.share.clamp(0.0, 1.0) / 2.0 * u64::MAX as f64) as u64;
        let turn = session.get().wrapping_mul(GOLDEN);
        Self {
            arcs: (how.share < 1.0).then_some(([turn, chance], half)),
            bytes_max: if half == 0 { 0 } else { how.bytes_max },
            judged: Mutex::default(),
        }
    }

    /// Whether the sample includes a container.
    fn has(&self, id: ContainerId) -> bool {
        let Some((begins, len)) = self.arcs else {
            return true;
        };
        let place = place(id);
        begins.iter().any(|begin| place.wrapping_sub(*begin) < len)
    }

    /// Whether the sample includes the container, and no copy has one of these slots.
    pub(crate) fn is_bad(&self, containers: &Containers, id: ContainerId, slots: SlotRange) -> bool {
        if self.bytes_max == 0 || !self.has(id) {
            return false;
        }
        let mut judged = self.judged();
        if !judged.read.contains_key(&id) {
            if judged.bytes >= self.bytes_max {
                return false;
            }
            // If the storage does not answer, nothing is known about the container. A sound
            // generation that readers use is enough, and costs no listing of its folder.
            let Ok(verified) = containers.verify_known(id, Depth::Full) else {
                return false;
            };
            judged.bytes += verified.bytes_read;
            let lost = verified.lost(id.kind).unwrap_or_else(|| vec![all_slots()]);
            judged.read.insert(id, lost);
        }
        let meets = |bad: &SlotRange| bad.first().get() < slots.end() && slots.first().get() < bad.end();
        judged.read[&id].iter().any(meets)
    }

    /// The results so far.
    pub(crate) fn verified(&self) -> VerifiedKnown {
        let judged = self.judged();
        let bad = judged.read.iter().filter(|(_, bad)| !bad.is_empty());
        let mut bad: Vec<_> = bad.map(|(id, slots)| (*id, slots.clone())).collect();
        bad.sort_unstable();
        VerifiedKnown {
            containers: judged.read.len() as u64,
            bytes: judged.bytes,
            bad,
        }
    }

    fn judged(&self) -> MutexGuard<'_, Judged> {
        // Each entry is added in one step, so after a panic elsewhere the value is still valid.
        self.judged.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The place of a container on the circle: a hash of its number.
fn place(id: ContainerId) -> u64 {
    let mut place = id.to_u64();
    for _ in 0..2 {
        place = (place ^ (place >> 31)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    }
    place ^ (place >> 29)
}

fn all_slots() -> SlotRange {
    let first = Slot::new(0).expect("slots begin at 0");
    SlotRange::new(first, Slot::MAX.get() + 1).expect("all slots are a range")
}

#[cfg(test)]
mod tests {
    use types::{ContainerKind, SequenceNumber};

    use super::*;

    fn ids() -> Vec<ContainerId> {
        let id = |n: u32| ContainerId {
            session: SessionId::new(u64::from(n / 7) + 1).unwrap(),
            kind: ContainerKind::Data,
            sequence: SequenceNumber::new(n % 7).unwrap(),
        };
        (0..4000).map(id).collect()
    }

    fn sample(share: f64, session: u64, chance: u64) -> Sample {
        let how = VerifyKnown { share, bytes_max: 1 };
        Sample::new(how, SessionId::new(session).unwrap(), chance)
    }

    #[test]
    fn a_share_is_read_and_over_many_backups_everything() {
        let ids = ids();
        // For any number of readers between two backups.
        for step in [1, 2, 3, 7, 100] {
            let mut left: Vec<ContainerId> = ids.clone();
            let mut backups = 0;
            while !left.is_empty() {
                backups += 1;
                // Only the moving arc: the random one keeps its place.
                let sample = sample(0.02, 1000 + step * backups, 0);
                let read = ids.iter().filter(|id| sample.has(**id)).count();
                assert!((40..=120).contains(&read), "{read} of 4000 in 2 %");
                left.retain(|id| !sample.has(*id));
                assert!(backups < 1000, "{} never read in steps of {step}", left.len());
            }
        }
    }

    #[test]
    fn none_and_all_are_that() {
        let ids = ids();
        assert!(ids.iter().all(|id| sample(1.0, 5, 9).has(*id)));
        assert!(!ids.iter().any(|id| sample(0.0, 5, 9).has(*id)));
    }
}
