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
//!
//! With blocks, a file is a disk image: each generation overwrites 5 % of its blocks in place with
//! new data. The paper has no such files. Clusters are four runs of blocks, as many as the paper
//! has in a gigabyte. Uniform updates have 16 KiB on average and are anywhere.

use std::collections::BTreeSet;

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
/// Clusters in a file of blocks.
const BLOCK_CLUSTERS: u64 = 4;
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
    /// Updates overwrite whole blocks of so many bytes, which are the chunks; otherwise they add,
    /// delete and move data.
    pub block_bytes: Option<u32>,
    /// The generations that are written; if empty, those of the paper.
    pub only: Vec<u32>,
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
            block_bytes: None,
            only: Vec::new(),
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
        if !self.only.is_empty() {
            return self.only.contains(&generation);
        }
        generation <= 1 || generation.is_multiple_of(5) || generation == self.generations
    }

    fn change(&self, lineage: &mut Lineage) {
        let len = lineage.rope.len();
        if len == 0 {
            return;
        }
        if let Some(block_bytes) = self.block_bytes {
            return self.change_blocks(lineage, block_bytes);
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

    /// Overwrites blocks in place.
    fn change_blocks(&self, lineage: &mut Lineage, block_bytes: u32) {
        let (len, block_bytes) = (lineage.rope.len(), u64::from(block_bytes));
        let count = len.div_ceil(block_bytes);
        let mut left = Share::percent(ADDED + DELETED + MODIFIED).of(count);
        let (mut changed, mut centre) = (BTreeSet::new(), lineage.rng.below(len));
        for clusters in (1..=BLOCK_CLUSTERS).rev() {
            let mut share = left / clusters;
            left -= share;
            while share > 0 {
                let (first, some) = match self.clusters {
                    Clusters::Normal => (centre, share),
                    Clusters::Uniform => {
                        let bytes = lineage.rng.exponential(self.update_bytes);
                        (
                            lineage.rng.below(len),
                            bytes.div_ceil(block_bytes).clamp(1, share),
                        )
                    }
                };
                share -= some;
                // A block that has changed already counts once.
                let blocks = (first / block_bytes..).map(|block| block % count);
                let new = blocks
                    .filter(|block| !changed.contains(block))
                    .take(usize::try_from(some).unwrap_or(0));
                let new: Vec<u64> = new.collect();
                changed.extend(new);
            }
            centre = next_centre(centre, len, &mut lineage.rng);
        }
        let edit = |block: u64| {
            let at = block * block_bytes;
            let bytes = block_bytes.min(len - at);
            Edit {
                at,
                delete: bytes,
                insert: Insert::New(bytes),
            }
        };
        let mut edits: Vec<Edit> = changed.into_iter().map(edit).collect();
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
        self.block_bytes.map_or(Ok(()), check_chunk_bytes)?;
        if let Some(beyond) = self.only.iter().find(|only| **only > self.generations) {
            return Err(SimulateError::Settings(format!(
                "there is no generation {beyond}: the last one is {}",
                self.generations
            )));
        }
        let (lengths, least, most) = match self.block_bytes {
            Some(block) => (Lengths::Fixed(block), block, block),
            None => {
                let mean = self.chunk_bytes;
                (Lengths::Content(mean), mean / 4, 4 * mean)
            }
        };
        let lineages = (1..=u64::from(self.lineages)).map(|number| {
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
                lineage.rope.say(least, most, out)?;
                out.end()?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
