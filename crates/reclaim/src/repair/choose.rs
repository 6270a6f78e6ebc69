//! Chooses the containers whose chunks are copied for the newest backup. Pure.
//!
//! A restore reads each needed container about once, however little it needs of it [Lillibridge 5].
//! Copying that little into a new container saves the read, except for the part of a new container
//! that the copy fills. So a copied byte saves more if its container holds less of the backup:
//! containers that hold least are chosen first. Rather full containers save little for their cost,
//! and the next backup may need the budget more, when it has scattered its changes. So they are
//! chosen only while more than a reserve is left. The choice ends where a container of copies is
//! full, or nearly full: an almost empty container costs a read, and saves almost none.

use std::collections::BTreeSet;

use types::ContainerId;

/// Containers that the backup uses for so many percent of a full one stay as they are.
const NEARLY_FULL_PERCENT: u64 = 95;
/// Containers that it uses for so many percent are chosen only beyond the reserve.
const RATHER_FULL_PERCENT: u64 = 80;
/// The reserve is the backup's plain bytes divided by this.
const RESERVE_PART: u64 = 10;
/// A container is huge if the backup needs more plain bytes of it than this many average full
/// containers have. Huge ones are chosen last.
const HUGE_TIMES: u128 = 8;
/// A choice must save at least the number of reads divided by this, or nothing is copied.
const GAIN_PART: u64 = 100;

/// The chunks that a backup needs of a container.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Need {
    /// The container.
    pub(super) container: ContainerId,
    /// Plain bytes of its chunks that the backup refers to, each once.
    pub(super) bytes: u64,
    /// Stored bytes of these chunks.
    pub(super) stored: u64,
    /// The number of these chunks.
    pub(super) chunks: u64,
}

/// The most to copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Budget {
    /// Plain bytes.
    pub(super) bytes: u64,
    /// Chunks.
    pub(super) chunks: u64,
}

/// The chunks to copy.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Choice {
    /// All chunks that the backup needs of these containers.
    pub(super) containers: BTreeSet<ContainerId>,
    /// Their plain bytes.
    pub(super) bytes: u64,
}

/// Chooses the chunks to copy within `budget`; a full container has `full_bytes`. It takes the
/// containers that hold least, as many as save the most reads. It takes none if that saves almost
/// no read.
pub(super) fn choose(needs: &[Need], full_bytes: u64, budget: Budget) -> Choice {
    let percent = |percent| full_bytes / 100 * percent;
    let (rather, nearly) = (percent(RATHER_FULL_PERCENT), percent(NEARLY_FULL_PERCENT));
    let all: u64 = needs.iter().map(|need| need.bytes).sum();
    let beyond_reserve = budget.bytes.saturating_sub(all / RESERVE_PART);
    let all_stored: u64 = needs.iter().map(|need| need.stored).sum();
    // A container with few stored bytes may have very many plain bytes. Early in the order, it
    // would block all others until the budget is large enough.
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

/// How many reads it saves to copy the needed chunks of so many containers, which have so many
/// stored bytes.
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

    /// The choice for data that does not compress.
    fn chosen(bytes: &[u64], budget: u64) -> (Vec<u32>, u64) {
        let bytes: Vec<_> = bytes.iter().map(|bytes| (*bytes, *bytes)).collect();
        of_packed(&bytes, budget)
    }

    /// The choice for data that compresses: plain and stored bytes.
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
    fn containers_with_the_least_bytes_are_chosen_first() {
        let bytes = [1000, 300, 20, 500, 10, 400];
        assert_eq!(chosen(&bytes, 500), (vec![1, 2, 4], 330));
        assert_eq!(chosen(&bytes, 730), (vec![1, 2, 4, 5], 730));
        assert_eq!(chosen(&bytes, 9), (vec![], 0));
    }

    #[test]
    fn copies_end_at_the_end_of_a_container() {
        // The fourth would fill a second container.
        assert_eq!(
            chosen(&[10, 400, 500, 510, 1000, 1000], 2000),
            (vec![0, 1, 2], 910)
        );
        // Two more save enough reads.
        assert_eq!(
            chosen(&[10, 400, 500, 510, 520, 530, 1000, 1000], 3000),
            (vec![0, 1, 2, 3, 4], 1940)
        );
    }

    #[test]
    fn rather_full_containers_are_chosen_if_more_than_the_reserve_may_be_copied() {
        // The reserve is 400 bytes.
        let bytes = [800, 100, 50, 1000, 1000, 1050];
        assert_eq!(chosen(&bytes, 1349), (vec![1, 2], 150));
        assert_eq!(chosen(&bytes, 1350), (vec![0, 1, 2], 950));
        // A container that is less full would leave no reserve.
        let bytes = [799, 100, 50, 1000, 1000, 1051];
        assert_eq!(chosen(&bytes, 949), (vec![0, 1, 2], 949));
    }

    #[test]
    fn nearly_full_ones_stay() {
        assert_eq!(chosen(&[949, 30, 20, 1000], 5000), (vec![0, 1, 2], 999));
        assert_eq!(chosen(&[950, 30, 20, 1000], 5000), (vec![1, 2], 50));
    }

    #[test]
    fn the_choice_counts_stored_bytes_of_chunks() {
        // Text and pictures. The backup needs all pictures, and only a part of the text, but that
        // part is larger.
        let bytes = [(1000, 1000), (3000, 300), (2000, 200)];
        assert_eq!(of_packed(&bytes, 5000), (vec![1, 2], 5000));
        // The budget counts plain bytes.
        assert_eq!(of_packed(&bytes, 4999), (vec![], 0));
    }

    #[test]
    fn extremely_compressed_containers_are_chosen_last() {
        // A full container has 2000 plain bytes on average.
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
    fn containers_are_not_copied_if_that_saves_too_few_reads() {
        assert_eq!(chosen(&[500], 5000), (vec![], 0));
        // Two containers would become two.
        assert_eq!(chosen(&[800, 700], 5000), (vec![], 0));
        assert_eq!(chosen(&[300, 700], 5000), (vec![0, 1], 1000));
        assert_eq!(chosen(&[300, 700], 0), (vec![], 0));
        // Saving one read of three hundred is not enough.
        let mut many = vec![1000; 300];
        many.extend([10, 10]);
        assert_eq!(chosen(&many, 5000), (vec![], 0));
        many.extend([10, 10]);
        assert_eq!(chosen(&many, 5000).1, 40);
    }
}
