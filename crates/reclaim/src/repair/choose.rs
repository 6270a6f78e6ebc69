//! Which containers the newest backup leaves: pure.
//!
//! To restore a backup, each container that it needs is read about once, however little it needs of it [Lillibridge 5]. Copying what it
//! needs of one into a container of its own neighbours saves that read, but for the part of a container that the copy fills. So what a
//! copied byte saves is the more the less the container holds of the backup: those that hold least go first, until what may be
//! copied is used up, or those that are left are nearly full of it.

use std::collections::BTreeSet;

use types::ContainerId;

/// Containers that hold so much of the backup, in percent of a full one, are left as they are.
const NEARLY_FULL_PERCENT: u64 = 90;
/// At least this part of the reads is to be saved, or nothing is copied.
const GAIN_PART: u64 = 100;

/// What a backup needs of a container.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Need {
    /// The container.
    pub(super) container: ContainerId,
    /// Plain bytes of its chunks that the backup refers to, each once.
    pub(super) bytes: u64,
}

/// What is copied.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Choice {
    /// Of these containers, all that the backup needs.
    pub(super) containers: BTreeSet<ContainerId>,
    /// Plain bytes of it.
    pub(super) bytes: u64,
}

impl Choice {
    /// Containers that are read less, where a full one has so many plain bytes.
    fn saved(&self, full_bytes: u64) -> u64 {
        (self.containers.len() as u64).saturating_sub(self.bytes.div_ceil(full_bytes.max(1)))
    }
}

/// What is to be copied, of containers that have `full_bytes` plain bytes when they are full, within `budget` bytes. Nothing, where
/// that saves next to no reads.
pub(super) fn choose(needs: &[Need], full_bytes: u64, budget: u64) -> Choice {
    let enough = full_bytes / 100 * NEARLY_FULL_PERCENT;
    let mut least: Vec<&Need> = needs.iter().filter(|need| need.bytes < enough).collect();
    least.sort_unstable_by_key(|need| (need.bytes, need.container));
    let mut choice = Choice::default();
    for need in least {
        if choice.bytes + need.bytes > budget {
            break;
        }
        choice.bytes += need.bytes;
        choice.containers.insert(need.container);
    }
    let worth = (needs.len() as u64 / GAIN_PART).max(1);
    if choice.saved(full_bytes) < worth {
        return Choice::default();
    }
    choice
}

#[cfg(test)]
mod tests {
    use types::{ContainerKind, SequenceNumber, SessionId};

    use super::*;

    const FULL: u64 = 1000;

    fn needs(bytes: &[u64]) -> Vec<Need> {
        let id = |n| ContainerId {
            session: SessionId::new(1).unwrap(),
            kind: ContainerKind::Data,
            sequence: SequenceNumber::new(n).unwrap(),
        };
        let need = |(n, bytes): (u32, &u64)| Need {
            container: id(n),
            bytes: *bytes,
        };
        (0..).zip(bytes).map(need).collect()
    }

    fn chosen(bytes: &[u64], budget: u64) -> (Vec<u32>, u64) {
        let choice = choose(&needs(bytes), FULL, budget);
        let numbers = choice.containers.iter().map(|id| id.sequence.get());
        (numbers.collect(), choice.bytes)
    }

    #[test]
    fn those_that_hold_least_go_first() {
        let bytes = [1000, 300, 20, 700, 10, 400];
        assert_eq!(chosen(&bytes, 500), (vec![1, 2, 4], 330));
        assert_eq!(chosen(&bytes, 730), (vec![1, 2, 4, 5], 730));
        assert_eq!(chosen(&bytes, 5000), (vec![1, 2, 3, 4, 5], 1430));
    }

    #[test]
    fn what_is_nearly_full_stays() {
        assert_eq!(chosen(&[899, 900, 10, 20, 30], 5000), (vec![0, 2, 3, 4], 959));
    }

    #[test]
    fn what_saves_nothing_is_not_copied() {
        assert_eq!(chosen(&[500], 5000), (vec![], 0));
        // Two become two.
        assert_eq!(chosen(&[800, 700], 5000), (vec![], 0));
        assert_eq!(chosen(&[300, 700], 5000), (vec![0, 1], 1000));
        assert_eq!(chosen(&[300, 700], 0), (vec![], 0));
        // One of three hundred is not worth it.
        let mut many = vec![1000; 300];
        many.extend([10, 10]);
        assert_eq!(chosen(&many, 5000), (vec![], 0));
        many.extend([10, 10]);
        assert_eq!(chosen(&many, 5000).1, 40);
    }
}
