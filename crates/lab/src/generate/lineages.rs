//! The load generator of DD Boost [Douglis et al., section IV-B, figures 7 and 8; B12].
//!
//! Streams, each with a lineage of its own: nothing is shared across lineages. Each generation adds
//! 1 % of the file's bytes, deletes 1 %, and moves 3 % within it, in updates that stand in clusters
//! around a centre or, as in the paper's appendix, anywhere. TestOutput are generation 0, 1
//! (low-gen), every fifth, and the last (high-gen). The bytes compress to a half.
//!
//! The paper has a cluster of additions, one of deletions and two of modifications for each
//! gigabyte of its 20 GB files; here there are as many clusters in a file of any size, so that a
//! small file is a small picture of a large one. A centre follows the one before: half of the time
//! within 1 % of the file's size, and 8 % on average with a deviation of 18 %. The paper does not
//! say how long an update is, nor how far data moves: here 16 KiB on average, so that a generation
//! has 8 to 9 % new chunks, half of that compressed: about the 5 % that the paper transfers; and
//! within its cluster.

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
/// Shares of a file that change in a generation, in percent.
const ADDED: f64 = 1.0;
const DELETED: f64 = 1.0;
const MODIFIED: f64 = 3.0;
/// How wide a cluster is, in shares of the file.
const DEVIATION_ADDED: f64 = 0.009;
const DEVIATION_DELETED: f64 = 0.0045;
const DEVIATION_MODIFIED: f64 = 0.0025;
/// Half of the next centres are so near, in shares of the file.
const NEAR: f64 = 0.01;
/// The others: with this mean and deviation of the logarithm, all are 8 % away on average with a
/// deviation of 18 %.
const FAR: f64 = 0.155;
const FAR_SIGMA: f64 = 1.08;

/// Where updates fall.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Clusters {
    /// Normally distributed around the centres of clusters: figure 7.
    Normal,
    /// Anywhere: figure 8.
    Uniform,
}

/// The workload.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lineages {
    /// What all is drawn from.
    pub seed: u64,
    /// Bytes of generation 0 of each lineage; the paper's files have 20 GB.
    pub file_bytes: u64,
    /// Lineages; the paper has 1 to 64.
    pub lineages: u32,
    /// The last generation; the paper's is 41.
    pub generations: u32,
    /// Where updates fall.
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
        // What falls short of a byte in one cluster is for the next.
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
            // What would reach beyond the end lies before it.
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

/// A place so many shares of the file further on; past its end it goes on at its beginning.
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

    /// Bytes of the second that the first has not, and in how many places they stand.
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
    fn a_generation_adds_deletes_and_moves_what_the_paper_says() {
        let normal = seen(Clusters::Normal, 1, 1);
        let uniform = seen(Clusters::Uniform, 1, 1);
        let mut places = Vec::new();
        for seen in [normal, uniform] {
            let (first, second) = (&seen[0].1, &seen[1].1);
            assert_eq!(bytes(first), BYTES);
            // As much comes as goes, but for what two updates delete or move at once.
            assert!(bytes(second).abs_diff(BYTES) < BYTES / 200, "{}", bytes(second));
            let (new, runs) = new(first, second);
            // 1 %, and the chunks that updates cut: half of that once compressed is near what the
            // paper transfers.
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
    fn what_moves_is_not_lost() {
        // Each cluster one update, so that little is cut.
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
            // 1 %, and the edges of 80 updates; 3 % more if moved data were other data.
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
