//! The load generator of DD Boost [Douglis et al., section IV-B, figures 7 and 8; B12].
//!
//! Each stream has a lineage of its own, and lineages share nothing. Each generation adds 1 % of
//! the file's bytes, deletes 1 %, and moves 3 % within it. Updates form clusters around centres or,
//! as in the paper's appendix, are uniform. TestOutput consists of generation 0, 1 (low-gen), every
//! fifth, and the last (high-gen). The bytes compress to a half.
//!
//! The paper has one cluster of additions, one of deletions and two of modifications for each
//! gigabyte of its 20 GB files. Here a file of any size has as many clusters, so that a small file
//! is a scaled-down large one. Half of the centres follow the previous one within 1 % of the file's
//! size. The mean distance is 8 %, with a deviation of 18 %.
//!
//! The paper says neither how long an update is nor how far data moves. Here an update has 16 KiB
//! on average, and data moves within its cluster. Then a generation has 8 to 9 % new chunks,
//! compressed to half of that: about the 5 % that the paper transfers.

use simulate::{BackupHead, Extent, SimulateError};

use super::files::Share;
use super::lengths::{Lengths, Maker};
use super::rope::{Edit, Insert, Rope};
use super::{Compression, Parts, Workload, check_chunk_bytes, check_some};
use crate::rng::Rng;

/// Clusters in a file.
const CLUSTERS_ADDED: u64 = 20;
const CLUSTERS_DELETED: u64 = 20;
const CLUSTERS_MODIFIED: u64 = 40;
/// Shares of a file that each generation changes, in percent.
const ADDED: f64 = 1.0;
const DELETED: f64 = 1.0;
const MODIFIED: f64 = 3.0;
/// Standard deviations of clusters, in shares of the file.
const DEVIATION_ADDED: f64 = 0.009;
const DEVIATION_DELETED: f64 = 0.0045;
const DEVIATION_MODIFIED: f64 = 0.0025;
/// Half of the next centres are within this distance, in shares of the file.
const NEAR: f64 = 0.01;
/// Mean distance of the other centres, with the next deviation of its logarithm. Over all centres,
/// the mean is 8 % and the deviation 18 %.
const FAR: f64 = 0.155;
const FAR_SIGMA: f64 = 1.08;

/// Where updates are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Clusters {
    /// Normally distributed around the centres of clusters: figure 7.
    Normal,
    /// Uniformly distributed: figure 8.
    Uniform,
}

/// The workload.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lineages {
    /// The seed of all random numbers.
    pub seed: u64,
    /// Bytes of generation 0 of each lineage; the paper has 20 GB.
    pub file_bytes: u64,
    /// Number of lineages; the paper has 1 to 64.
    pub lineages: u32,
    /// The number of the last generation; the paper has 41.
    pub generations: u32,
    /// Where updates are.
    pub clusters: Clusters,
    /// Bytes of an update on average.
    pub update_bytes: u64,
    /// Bytes of a chunk on average.
    pub chunk_bytes: u32,
}

impl Default for Lineages {
    fn default() -> Self {
        Self {
            seed: 1,
            file_bytes: 20_000_000_000,
            lineages: 64,
            generations: 41,
            clusters: Clusters::Normal,
            update_bytes: 16 << 10,
            chunk_bytes: 8192,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Add,
    Delete,
    Move,
}

struct Lineage {
    rope: Rope,
    maker: Maker,
    rng: Rng,
}

impl Lineages {
    /// Whether this generation is written to the store.
    fn is_written(&self, generation: u32) -> bool {
        generation <= 1 || generation.is_multiple_of(5) || generation == self.generations
    }

    fn change(&self, lineage: &mut Lineage) {
        let len = lineage.rope.len();
        if len == 0 {
            return;
        }
        let mut edits = Vec::new();
        let mut centre = lineage.rng.below(len);
        let mut left = [
            (Kind::Add, CLUSTERS_ADDED),
            (Kind::Delete, CLUSTERS_DELETED),
            (Kind::Move, CLUSTERS_MODIFIED),
        ];
        // Fractions of a byte carry over from cluster to cluster.
        let mut shares = [ADDED, DELETED, MODIFIED].map(|percent| Share::percent(percent).of(len));
        for n in 0..CLUSTERS_ADDED + CLUSTERS_DELETED + CLUSTERS_MODIFIED {
            if n > 0 {
                centre = next_centre(centre, len, &mut lineage.rng);
            }
            let mut drawn = lineage.rng.below(left.iter().map(|(_, count)| count).sum());
            let kind = left.iter().position(|(_, count)| {
                let is_this = drawn < *count;
                drawn = drawn.saturating_sub(*count);
                is_this
            });
            let kind = kind.expect("less was drawn than is left");
            let bytes = shares[kind] / left[kind].1;
            shares[kind] -= bytes;
            left[kind].1 -= 1;
            self.cluster(left[kind].0, bytes, centre, len, &mut lineage.rng, &mut edits);
        }
        lineage.rope.edit(&mut edits, &mut lineage.maker);
    }

    fn cluster(&self, kind: Kind, bytes: u64, centre: u64, len: u64, rng: &mut Rng, edits: &mut Vec<Edit>) {
        let deviation = match kind {
            Kind::Add => DEVIATION_ADDED,
            Kind::Delete => DEVIATION_DELETED,
            Kind::Move => DEVIATION_MODIFIED,
        };
        let place = |rng: &mut Rng| match self.clusters {
            Clusters::Uniform => rng.below(len),
            Clusters::Normal => {
                let away = rng.normal() * deviation;
                moved(centre, away, len)
            }
        };
        let mut left = bytes;
        while left > 0 {
            let some = rng.exponential(self.update_bytes).clamp(1, left);
            left -= some;
            let at = place(rng);
            // An update that would reach beyond the end begins earlier.
            let from = at.min(len - some.min(len));
            let delete = |from, delete| Edit {
                at: from,
                delete,
                insert: Insert::Nothing,
            };
            match kind {
                Kind::Add => edits.push(Edit {
                    at,
                    delete: 0,
                    insert: Insert::New(some),
                }),
                Kind::Delete => edits.push(delete(from, some)),
                Kind::Move => {
                    edits.push(delete(from, some));
                    edits.push(Edit {
                        at: place(rng),
                        delete: 0,
                        insert: Insert::Copy(from, some),
                    });
                }
            }
        }
    }
}

fn next_centre(centre: u64, len: u64, rng: &mut Rng) -> u64 {
    let away = if rng.happens(500_000) {
        rng.share() * NEAR
    } else {
        FAR * (FAR_SIGMA * rng.normal() - FAR_SIGMA * FAR_SIGMA / 2.0).exp()
    };
    let back = rng.happens(500_000);
    moved(centre, if back { -away } else { away }, len)
}

/// The place at this distance, in shares of the file. Distances wrap around at the end.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_precision_loss,
    reason = "places that are drawn"
)]
fn moved(place: u64, shares: f64, len: u64) -> u64 {
    let at = (place as f64 / len as f64 + shares).rem_euclid(1.0) * len as f64;
    (at as u64).min(len - 1)
}

impl Workload for Lineages {
    fn name(&self) -> &'static str {
        "lineages"
    }

    fn seed(&self) -> u64 {
        self.seed
    }

    fn compression(&self) -> Compression {
        Compression::Half
    }

    fn generate(&self, out: &mut dyn Parts) -> Result<(), SimulateError> {
        check_some(self.file_bytes, "bytes of a file")?;
        check_some(self.lineages.into(), "lineages")?;
        check_some(self.update_bytes, "bytes of an update")?;
        check_chunk_bytes(self.chunk_bytes)?;
        let lineages = (1..=u64::from(self.lineages)).map(|number| {
            let lengths = Lengths::Content(self.chunk_bytes);
            let mut maker = Maker::new(lengths, Rng::new(self.seed, 2 * number), number);
            Lineage {
                rope: Rope::new(self.file_bytes, &mut maker),
                maker,
                rng: Rng::new(self.seed, 2 * number + 1),
            }
        });
        let mut lineages: Vec<_> = lineages.collect();
        for generation in 0..=self.generations {
            if generation > 0 {
                lineages.iter_mut().for_each(|lineage| self.change(lineage));
            }
            if !self.is_written(generation) {
                continue;
            }
            for (lineage, number) in lineages.iter().zip(1..) {
                out.begin(&BackupHead {
                    name: format!("{}-{number:02}-gen-{generation:02}", self.name()),
                    extent: Extent::Full,
                })?;
                lineage
                    .rope
                    .say(self.chunk_bytes / 4, 4 * self.chunk_bytes, out)?;
                out.end()?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;
    use crate::generate::tests::Seen;
    use simulate::Chunk;

    const BYTES: u64 = 200_000_000;

    fn seen(clusters: Clusters, lineages: u32, generations: u32) -> Vec<(BackupHead, Vec<Chunk>)> {
        let mut workload = Lineages {
            file_bytes: BYTES / u64::from(lineages),
            lineages,
            generations,
            clusters,
            ..Lineages::default()
        };
        Seen::of(&mut workload).0
    }

    fn bytes<'a>(chunks: impl IntoIterator<Item = &'a Chunk>) -> u64 {
        chunks.into_iter().map(|chunk| u64::from(chunk.len)).sum()
    }

    /// Bytes of the second list that the first does not have, and the number of alternating runs of
    /// known and new chunks.
    fn new(first: &[Chunk], second: &[Chunk]) -> (u64, usize) {
        let known: HashSet<_> = first.iter().map(|chunk| chunk.fingerprint).collect();
        let is_new = |chunk: &&Chunk| !known.contains(&chunk.fingerprint);
        let places = second.chunk_by(|a, b| is_new(&a) == is_new(&b)).count();
        (bytes(second.iter().filter(is_new)), places)
    }

    #[test]
    fn generations_are_written_as_the_paper_does() {
        let seen = seen(Clusters::Normal, 2, 11);
        let names: Vec<_> = seen.iter().map(|(head, _)| head.name.as_str()).collect();
        let expected = [
            "lineages-01-gen-00",
            "lineages-02-gen-00",
            "lineages-01-gen-01",
            "lineages-02-gen-01",
            "lineages-01-gen-05",
            "lineages-02-gen-05",
            "lineages-01-gen-10",
            "lineages-02-gen-10",
            "lineages-01-gen-11",
            "lineages-02-gen-11",
        ];
        assert_eq!(names, expected);
        let of = |lineage: usize| {
            let each = seen.iter().skip(lineage).step_by(2);
            let prints = each.flat_map(|(_, chunks)| chunks.iter().map(|chunk| chunk.fingerprint));
            prints.collect::<HashSet<_>>()
        };
        assert!(of(0).is_disjoint(&of(1)), "nothing is shared across lineages");
    }

    #[test]
    fn a_generation_adds_deletes_and_moves_as_much_as_the_paper_says() {
        let normal = seen(Clusters::Normal, 1, 1);
        let uniform = seen(Clusters::Uniform, 1, 1);
        let mut places = Vec::new();
        for seen in [normal, uniform] {
            let (first, second) = (&seen[0].1, &seen[1].1);
            assert_eq!(bytes(first), BYTES);
            // Additions and deletions cancel, except where two updates delete or move the same
            // bytes.
            assert!(bytes(second).abs_diff(BYTES) < BYTES / 200, "{}", bytes(second));
            let (new, runs) = new(first, second);
            // 1 %, and the chunks that updates cut: compressed to half, this is near what the paper
            // transfers.
            let share = new * 1000 / BYTES;
            assert!((60..130).contains(&share), "{share}");
            places.push(runs);
        }
        assert!(
            places[0] * 10 < places[1] * 9,
            "changes stand together: {places:?}"
        );
    }

    #[test]
    fn moved_data_is_not_lost() {
        // Each cluster is one update, so that few chunks are cut.
        let mut workload = Lineages {
            file_bytes: BYTES,
            lineages: 1,
            generations: 1,
            clusters: Clusters::Uniform,
            update_bytes: 16 << 20,
            ..Lineages::default()
        };
        let seen = Seen::of(&mut workload).0;
        let (first, second) = (&seen[0].1, &seen[1].1);
        for (a, b) in [(first, second), (second, first)] {
            // 1 %, and the edges of 80 updates. If moved data were different data, it would be 3 %
            // more.
            let share = new(a, b).0 * 1000 / BYTES;
            assert!((13..27).contains(&share), "{share}");
        }
    }

    #[test]
    fn centres_follow_each_other_as_far_as_the_paper_says() {
        let mut rng = Rng::new(1, 1);
        let len = 1_000_000_000_u64;
        let mut near = 0;
        for _ in 0..10_000 {
            let next = next_centre(len / 2, len, &mut rng);
            near += u64::from(next.abs_diff(len / 2) <= len / 100);
        }
        assert!((4900..5400).contains(&near), "{near}");
    }
}
