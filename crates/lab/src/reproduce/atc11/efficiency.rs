//! Deduplication of the whole engine with a sampled index and a cache smaller than the working set
//! [Guo 4.2] (G3).
//!
//! Backups run through the unchanged engine, into a store that drops its payload. The engine
//! chooses R by the memory of its index. So the experiment searches for the memory that gives the
//! wanted R.

use index::Eviction;
use ingest::{IngestOptions, LookupMemory, StreamPiece, StreamSource};
use onefold::OpenOptions;

use super::chunks::CONTAINER_CHUNKS;
use super::engine::{CHUNK_BYTES, Engine, Job, Payload, Unique, advance, ingest_options};
use super::images::{images, job};
use super::share;
use crate::error::LabError;
use crate::generate::vm::{Counts, Image};
use crate::reproduce::Progress;
use crate::rng::noise;

/// Bytes that the cache takes for each fingerprint.
const PLACE_BYTES: u64 = 42;
/// Memory with which an index never samples.
const UNLIMITED: u64 = 1 << 40;
/// The stream of a one-block backup that makes the index rewrite its runs.
const ONE_BLOCK: u64 = 1 << 40;

/// An image that was backed up after the earlier ones.
#[derive(Debug, Clone, Copy)]
pub(super) struct Backed {
    pub(super) counts: Counts,
    /// Bytes of the image.
    pub(super) bytes: u64,
    /// Plain bytes stored of all images so far.
    pub(super) real_bytes: u64,
    /// T while the image was looked up; 1 for the first image, when there was nothing to sample.
    pub(super) period: u64,
    /// Bytes that a second backup of the same image stored.
    pub(super) again_bytes: u64,
    /// Catalogs loaded.
    pub(super) catalog_loads: u64,
}

impl Backed {
    /// Bytes of all unique blocks so far.
    pub(super) fn ideal_bytes(&self) -> u64 {
        self.counts.union * u64::from(CHUNK_BYTES)
    }

    /// The efficiency of table 4: ideal bytes divided by real bytes.
    pub(super) fn efficiency(&self) -> f64 {
        share(self.ideal_bytes(), self.real_bytes)
    }
}

/// The size of a cache, relative to what is looked up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Cache {
    /// Bytes for fingerprints of prefetched catalogs.
    pub(super) bytes: u64,
    /// Number of fingerprints that fit.
    pub(super) places: u64,
}

impl Cache {
    /// A cache for so many fingerprints, and for at least four containers'.
    pub(super) fn of(places: u64) -> Self {
        let places = places.max(4 * CONTAINER_CHUNKS);
        Self {
            bytes: places * PLACE_BYTES,
            places,
        }
    }

    /// Splits the memory equally between look-ups of chunks and of segments' nodes.
    fn options(self, workers: usize) -> IngestOptions {
        ingest_options(workers, 0).lookup(LookupMemory {
            catalog_bytes: self.bytes,
            node_bytes: self.bytes / 64,
            eviction: Eviction::ContainerLru,
            ..LookupMemory::default()
        })
    }
}

/// Backs up the four images, one after another, with a cache that has room for one in `cached` of
/// all their unique blocks.
pub(super) fn back_up_images(
    divisor: u64,
    cached: u64,
    period: u64,
    workers: usize,
    progress: &Progress,
) -> Result<(Cache, Vec<Backed>), LabError> {
    let images = images(divisor);
    let union = images.last().map_or(0, |image| image.counts.union);
    let cache = Cache::of(union / cached);
    let options = cache.options(workers);
    let mut engine = Engine::new(Payload::GivenUp, &OpenOptions::default())?;
    let (mut told, mut real_bytes, mut now) = (Vec::new(), 0, 1);
    for (n, image) in images.iter().enumerate() {
        if n > 0 {
            now = sample(&mut engine, period, progress)?;
        }
        let once = |name: &str| -> Result<_, LabError> {
            let mut ran = engine.back_up(vec![job(image, name, progress)], &options, progress)?;
            Ok(ran.reports.remove(0))
        };
        // Each image is a series of its own: no backup takes over unchanged parts of an earlier
        // image.
        let report = once(&format!("image-{n}"))?;
        real_bytes += report.totals.bytes_new;
        let again = once(&format!("image-{n}-again"))?;
        told.push(Backed {
            counts: image.counts,
            bytes: image.bytes(),
            real_bytes,
            period: now,
            again_bytes: again.totals.bytes_new,
            catalog_loads: report.lookups.catalog_loads,
        });
        real_bytes += again.totals.bytes_new;
    }
    Ok((cache, told))
}

/// Bytes of all four images, each backed up twice.
pub(super) fn bytes_of_images(divisor: u64) -> u64 {
    2 * images(divisor).iter().map(Image::bytes).sum::<u64>()
}

/// Unique streams that were backed up twice.
#[derive(Debug, Clone, Copy)]
pub(super) struct Repeated {
    /// The share of duplicates that was found.
    pub(super) found: f64,
    /// T while they were looked up.
    pub(super) period: u64,
    pub(super) cache: Cache,
    pub(super) chunks: u64,
    pub(super) catalog_loads: u64,
}

/// The order in which unique streams return.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Order {
    /// The same order.
    Same,
    /// Two streams alternate after so many blocks. No segment is the same as before, so every chunk
    /// is looked up.
    Woven(u64),
}

/// Backs up two streams of unique data, of `bytes` in all, and then once more at this T.
pub(super) fn back_up_again(
    bytes: u64,
    order: Order,
    period: u64,
    workers: usize,
    progress: &Progress,
) -> Result<Repeated, LabError> {
    let chunks = bytes / u64::from(CHUNK_BYTES);
    let cache = Cache::of(chunks / 8);
    let options = cache.options(workers);
    let mut engine = Engine::new(Payload::GivenUp, &OpenOptions::default())?;
    engine.back_up(Unique::jobs(0..2, bytes / 2, progress), &options, progress)?;
    let period = sample(&mut engine, period, progress)?;
    let jobs = match order {
        Order::Same => Unique::jobs(0..2, bytes / 2, progress),
        Order::Woven(blocks) => vec![Job {
            name: "woven".to_owned(),
            source: Box::new(Woven::new([0, 1], bytes / 2, blocks, progress)),
        }],
    };
    let ran = engine.back_up(jobs, &options, progress)?;
    let sum = |of: fn(&onefold::BackupReport) -> u64| ran.reports.iter().map(of).sum::<u64>();
    let new = sum(|report| report.totals.bytes_new);
    Ok(Repeated {
        found: 1.0 - share(new, sum(|report| report.totals.bytes_logical)),
        period,
        cache,
        chunks,
        catalog_loads: sum(|report| report.lookups.catalog_loads),
    })
}

/// Sets R to 1/T for hooks to chunks, and returns the resulting T. R stays from then on. Nodes are
/// few, and keep their R.
///
/// The function searches for the memory at which the engine chooses that R. A backup of one block
/// then begins with this memory, and rewrites all runs at that R. Sampled runs stay sampled, and
/// new runs use the R of existing ones. So more memory changes nothing from then on.
fn sample(engine: &mut Engine, period: u64, progress: &Progress) -> Result<u64, LabError> {
    let open = |bytes| OpenOptions::default().index_bytes_max(bytes);
    let mut at = |bytes| -> Result<u64, LabError> {
        engine.reopen(&open(bytes))?;
        Ok(engine.stats()?.index.rates.data.period())
    };
    let unlimited = at(UNLIMITED)?;
    if unlimited >= period {
        return Ok(unlimited);
    }
    // The least memory at which T is no larger than `period`.
    let mut least = |period: u64| -> Result<u64, LabError> {
        let (mut small, mut large) = (0, UNLIMITED);
        while large - small > 1 {
            let middle = u64::midpoint(small, large);
            if at(middle)? > period {
                small = middle;
            } else {
                large = middle;
            }
        }
        Ok(large)
    };
    // Takes the middle, because the engine's forecast of the size of runs is only about right.
    let middle = u64::midpoint(least(period)?, least((period / 2).max(1))?);
    engine.reopen(&open(middle))?;
    let block = Unique::jobs(ONE_BLOCK..ONE_BLOCK + 1, CHUNK_BYTES.into(), progress);
    engine.back_up(block, &ingest_options(1, 0), progress)?;
    engine.reopen(&open(UNLIMITED))?;
    Ok(engine.stats()?.index.rates.data.period())
}

/// Two unique streams that alternate.
struct Woven<'a> {
    streams: [u64; 2],
    /// Words of a turn, and words of each stream in all.
    turn: u64,
    words: u64,
    /// Words that both streams delivered so far.
    at: u64,
    progress: &'a Progress,
}

impl<'a> Woven<'a> {
    fn new(streams: [u64; 2], bytes: u64, turn_blocks: u64, progress: &'a Progress) -> Self {
        let turn = turn_blocks * u64::from(CHUNK_BYTES) / 8;
        Self {
            streams,
            turn,
            words: bytes / 8 / turn * turn,
            at: 0,
            progress,
        }
    }
}

impl StreamSource for Woven<'_> {
    fn next(&mut self, buffer: &mut [u8]) -> std::io::Result<StreamPiece> {
        let left_of_turn = self.turn - self.at % self.turn;
        let left = left_of_turn.min(2 * self.words - self.at);
        let room = (buffer.len() / 8) as u64;
        let words = left.min(room);
        if words == 0 {
            return Ok(StreamPiece::End);
        }
        let (turn, within) = (self.at / self.turn, self.at % self.turn);
        let first = turn / 2 * self.turn + within;
        let len = usize::try_from(8 * words).expect("no longer than the buffer");
        let stream = self.streams[usize::from(turn % 2 == 1)];
        noise(stream, first, &mut buffer[..len]);
        self.at += words;
        advance(self.progress, 8 * words)?;
        Ok(StreamPiece::Data(len))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn images_are_deduplicated_at_the_rate_wanted() {
        let progress = Progress::new(std::sync::Arc::default());
        let (cache, backed) = back_up_images(100, 2, 64, 2, &progress).unwrap();
        assert_eq!(progress.done(), bytes_of_images(100) + u64::from(CHUNK_BYTES));
        assert_eq!(cache.places, 4 * CONTAINER_CHUNKS);
        let periods: Vec<u64> = backed.iter().map(|one| one.period).collect();
        assert_eq!(periods, [1, 64, 64, 64]);
        for one in &backed {
            assert!(
                one.real_bytes >= one.ideal_bytes(),
                "nothing is found that is not there: {one:?}"
            );
            assert!(one.efficiency() > 0.9, "{one:?}");
        }
        let exact = back_up_images(100, 1, 1, 2, &progress).unwrap().1;
        assert!(
            exact
                .iter()
                .all(|one| one.real_bytes == one.ideal_bytes() && one.again_bytes == 0)
        );
    }

    #[test]
    fn woven_data_is_looked_up_chunk_by_chunk() {
        let progress = Progress::new(std::sync::Arc::default());
        let bytes = 64 << 20;
        let same = back_up_again(bytes, Order::Same, 128, 2, &progress).unwrap();
        assert!(same.period == 128 && same.found > 0.999, "{same:?}");
        let woven = back_up_again(bytes, Order::Woven(64), 128, 2, &progress).unwrap();
        assert!(woven.found > 0.9 && woven.catalog_loads >= 4, "{woven:?}");
        let hardly = back_up_again(bytes, Order::Woven(64), 4096, 2, &progress).unwrap();
        assert!(hardly.found < woven.found, "{hardly:?} {woven:?}");
    }
}
