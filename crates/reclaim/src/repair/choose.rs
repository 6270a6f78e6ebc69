//! Chooses the containers that the newest backup leaves: pure.
//!
//! A restore reads each needed container about once, however little it needs of it [Lillibridge 5].
//! Copying that little into a new container saves the read, except for the part of a new container
//! that the copy fills. So a copied byte saves more if its container holds less of the backup:
//! containers that hold least are chosen first. Rather full containers save little for what they
//! cost, and the budget may be needed more when the next backup has scattered its changes: they are
//! chosen only while more than a reserve is left. The choice ends where a container of copies is
//! full, or nearly: a container that is hardly begun costs a read for almost nothing.

use std::collections::BTreeSet;

use types::ContainerId;

/// Containers that hold so much of the backup, in percent of a full one, are left as they are.
const NEARLY_FULL_PERCENT: u64 = 95;
/// Those that hold so much leave the reserve.
const RATHER_FULL_PERCENT: u64 = 80;
/// The reserve: this part of the backup.
const RESERVE_PART: u64 = 10;
/// Those of which so many times as many plain bytes are needed as a full one has on average go
/// last.
const HUGE_TIMES: u128 = 8;
/// At least this part of the reads is to be saved, or nothing is copied.
const GAIN_PART: u64 = 100;

/// What a backup needs of a container.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Need {
    /// The container.
    pub(super) container: ContainerId,
    /// Plain bytes of its chunks that the backup refers to, each once.
    pub(super) bytes: u64,
    /// What those take in it.
    pub(super) stored: u64,
    /// How many they are.
    pub(super) chunks: u64,
}

/// How much may be copied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Budget {
    /// Plain bytes.
    pub(super) bytes: u64,
    /// Chunks.
    pub(super) chunks: u64,
}

/// What is copied.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Choice {
    /// Of these containers, all that the backup needs.
    pub(super) containers: BTreeSet<ContainerId>,
    /// Plain bytes of it.
    pub(super) bytes: u64,
}

/// What is to be copied, of containers that take `full_bytes` when they are full, within `budget`:
/// as many of those that hold least as save most reads. Nothing, where that saves next to none.
pub(super) fn choose(needs: &[Need], full_bytes: u64, budget: Budget) -> Choice {
    let percent = |percent| full_bytes / 100 * percent;
    let (rather, nearly) = (percent(RATHER_FULL_PERCENT), percent(NEARLY_FULL_PERCENT));
    let all: u64 = needs.iter().map(|need| need.bytes).sum();
    let beyond_reserve = budget.bytes.saturating_sub(all / RESERVE_PART);
    let all_stored: u64 = needs.iter().map(|need| need.stored).sum();
    // One that takes little may have very much, and would hold up all others until there is as much
    // to spend.
    let plain = u128::from(full_bytes) * u128::from(all) / u128::from(all_stored.max(1));
    let is_huge = |need: &Need| u128::from(need.bytes) > plain * HUGE_TIMES;
    let mut least: Vec<&Need> = needs.iter().filter(|need| need.stored < nearly).collect();
    least.sort_unstable_by_key(|need| (is_huge(need), need.stored, need.container));
    let (mut bytes, mut chunks, mut stored, mut best) = (0, 0, 0, (0, 0));
    for (count, need) in (1..).zip(&least) {
        let may = if need.stored < rather {
            budget.bytes
        } else {
            beyond_reserve
        };
        bytes += need.bytes;
        chunks += need.chunks;
        stored += need.stored;
        if bytes > may || chunks > budget.chunks {
            break;
        }
        let saved = saved(count, stored, full_bytes);
        if saved > best.0 {
            best = (saved, count);
        }
    }
    let (saved, count) = best;
    if saved < (needs.len() as u64 / GAIN_PART).max(1) {
        return Choice::default();
    }
    let chosen = least.iter().take(count);
    Choice {
        containers: chosen.clone().map(|need| need.container).collect(),
        bytes: chosen.map(|need| need.bytes).sum(),
    }
}

/// How many reads it saves to copy what is needed of so many containers, which takes so much.
fn saved(containers: usize, stored: u64, full_bytes: u64) -> u64 {
    (containers as u64).saturating_sub(stored.div_ceil(full_bytes.max(1)))
}

#[cfg(test)]
mod tests {
    use types::{ContainerKind, SequenceNumber, SessionId};

    use super::*;

    const FULL: u64 = 1000;

    fn needs(bytes: &[(u64, u64)]) -> Vec<Need> {
        let id = |n| ContainerId {
            session: SessionId::new(1).unwrap(),
            kind: ContainerKind::Data,
            sequence: SequenceNumber::new(n).unwrap(),
        };
        let need = |(n, (bytes, stored)): (u32, &(u64, u64))| Need {
            container: id(n),
            bytes: *bytes,
            stored: *stored,
            chunks: 10,
        };
        (0..).zip(bytes).map(need).collect()
    }

    /// Of what does not compress.
    fn chosen(bytes: &[u64], budget: u64) -> (Vec<u32>, u64) {
        let bytes: Vec<_> = bytes.iter().map(|bytes| (*bytes, *bytes)).collect();
        of_packed(&bytes, budget)
    }

    /// Of what takes less than it is.
    fn of_packed(bytes: &[(u64, u64)], budget: u64) -> (Vec<u32>, u64) {
        let budget = Budget {
            bytes: budget,
            chunks: u64::MAX,
        };
        let choice = choose(&needs(bytes), FULL, budget);
        let numbers = choice.containers.iter().map(|id| id.sequence.get());
        (numbers.collect(), choice.bytes)
    }

    #[test]
    fn those_that_hold_least_go_first() {
        let bytes = [1000, 300, 20, 500, 10, 400];
        assert_eq!(chosen(&bytes, 500), (vec![1, 2, 4], 330));
        assert_eq!(chosen(&bytes, 730), (vec![1, 2, 4, 5], 730));
        assert_eq!(chosen(&bytes, 9), (vec![], 0));
    }

    #[test]
    fn what_is_copied_ends_where_a_container_does() {
        // The fourth would fill a second container.
        assert_eq!(
            chosen(&[10, 400, 500, 510, 1000, 1000], 2000),
            (vec![0, 1, 2], 910)
        );
        // Two more are worth it.
        assert_eq!(
            chosen(&[10, 400, 500, 510, 520, 530, 1000, 1000], 3000),
            (vec![0, 1, 2, 3, 4], 1940)
        );
    }

    #[test]
    fn rather_full_ones_go_where_more_than_the_reserve_may_be_copied() {
        // The reserve is 400 bytes.
        let bytes = [800, 100, 50, 1000, 1000, 1050];
        assert_eq!(chosen(&bytes, 1349), (vec![1, 2], 150));
        assert_eq!(chosen(&bytes, 1350), (vec![0, 1, 2], 950));
        // One that is less full leaves none.
        let bytes = [799, 100, 50, 1000, 1000, 1051];
        assert_eq!(chosen(&bytes, 949), (vec![0, 1, 2], 949));
    }

    #[test]
    fn nearly_full_ones_stay() {
        assert_eq!(chosen(&[949, 30, 20, 1000], 5000), (vec![0, 1, 2], 999));
        assert_eq!(chosen(&[950, 30, 20, 1000], 5000), (vec![1, 2], 50));
    }

    #[test]
    fn what_counts_is_what_they_take() {
        // Text and pictures: all of the pictures is needed, and but a part of the text, which is
        // more.
        let bytes = [(1000, 1000), (3000, 300), (2000, 200)];
        assert_eq!(of_packed(&bytes, 5000), (vec![1, 2], 5000));
        // The budget is of plain bytes.
        assert_eq!(of_packed(&bytes, 4999), (vec![], 0));
    }

    #[test]
    fn what_takes_little_and_has_very_much_goes_last() {
        // A full one has 2000 on average.
        let bytes = [(16_001, 15), (200, 100), (300, 150), (500, 8235)];
        assert_eq!(of_packed(&bytes, 16_000), (vec![1, 2], 500));
        assert_eq!(of_packed(&bytes, 16_501), (vec![0, 1, 2], 16_501));
        let bytes = [(15_900, 15), (200, 100), (300, 150), (500, 8235)];
        assert_eq!(of_packed(&bytes, 15_899), (vec![], 0));
    }

    #[test]
    fn so_many_chunks_are_copied_at_most() {
        let needs = needs(&[(200, 100), (300, 150), (400, 200), (1000, 1000)]);
        let of_chunks = |chunks| {
            let bytes = u64::MAX;
            choose(&needs, FULL, Budget { bytes, chunks }).containers.len()
        };
        assert_eq!([19, 20, 29, 30].map(of_chunks), [0, 2, 2, 3]);
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
