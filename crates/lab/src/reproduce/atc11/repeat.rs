//! Duplicates that are found chunk by chunk, through sampled hooks and prefetched catalogs,
//! compared with equation 2 [Guo 3.2.1, 4.2] (G3, G4).

use std::sync::Arc;

use container::{CatalogView, Containers};
use crypto::{DomainKey, EncryptionKey, MasterKeys};
use env::{Env, MemoryStorage};
use format::container::CatalogEntry;
use index::sampling::{SamplingRate, predicted_efficiency};
use index::{Eviction, HookKind, MemoryIndex, Resolver, ResolverOptions, ResolverStats};
use types::{Fingerprint, Generation, Level, Slot, StoreId};

use super::chunks::{self, CONTAINER_CHUNKS};
use super::engine::CHUNK_BYTES;
use super::share;
use crate::error::LabError;
use crate::reproduce::Progress;

const SEED: u64 = 21;
/// Bytes that the cache takes for each fingerprint.
const PLACE_BYTES: u64 = 42;

/// The settings of a repeated look-up of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Setting {
    /// R.
    pub(super) rate: SamplingRate,
    /// Containers that the stream fills.
    pub(super) containers: u64,
    /// Containers whose fingerprints the cache has room for.
    pub(super) cached: u64,
    /// The order of eviction.
    pub(super) eviction: Eviction,
}

/// The results.
#[derive(Debug, Clone, Copy)]
pub(super) struct Repeated {
    pub(super) setting: Setting,
    /// The share of duplicates that was found.
    pub(super) found: f64,
    /// The share that equation 2 gives.
    pub(super) predicted: f64,
    pub(super) stats: ResolverStats,
}

/// Looks up a stored stream in its order, chunk by chunk. A backup would store again each chunk
/// that is not found.
pub(super) fn repeat(setting: Setting, progress: &Progress) -> Result<Repeated, LabError> {
    let keys = MasterKeys {
        domain: DomainKey::from_bytes([1; 32]),
        encryption: EncryptionKey::from_bytes([2; 32]),
    };
    let (env, _) = Env::simulated(Arc::new(MemoryStorage::new()), SEED);
    // All catalogs are in memory: the experiment measures which of them are requested.
    let containers = Containers::new(env, StoreId::from_bytes([3; 16]), &keys, u64::MAX);
    let index =
        MemoryIndex::new(usize::try_from(setting.containers * CONTAINER_CHUNKS * 10).unwrap_or(usize::MAX));
    let mut prints = Vec::new();
    for n in 0..setting.containers {
        prints.clear();
        chunks::sampled(SEED, n, SamplingRate::ONE, &mut prints);
        index.add(chunks::hooks(n, &prints).filter(|hook| hook.standing.stays_at(setting.rate)));
        containers.insert_catalog(Arc::new(catalog(n, &prints)));
    }
    let options = ResolverOptions {
        cache_bytes: setting.cached * CONTAINER_CHUNKS * PLACE_BYTES,
        eviction: setting.eviction,
    };
    let mut resolver = Resolver::new(index, containers, HookKind::Data, options);
    let (mut out, mut found) = (Vec::new(), 0);
    for n in 0..setting.containers {
        prints.clear();
        chunks::sampled(SEED, n, SamplingRate::ONE, &mut prints);
        for print in &prints {
            resolver
                .resolve(print, &|_| false, &|_| false, &mut out)
                .map_err(onefold::Error::from)?;
            found += u64::from(!out.is_empty());
        }
        progress.advance(CONTAINER_CHUNKS * u64::from(CHUNK_BYTES))?;
    }
    #[expect(clippy::cast_precision_loss, reason = "small")]
    let predicted = predicted_efficiency(setting.rate.period() as f64, CONTAINER_CHUNKS as f64);
    Ok(Repeated {
        setting,
        found: share(found, setting.containers * CONTAINER_CHUNKS),
        predicted,
        stats: resolver.stats(),
    })
}

fn catalog(n: u64, prints: &[Fingerprint]) -> CatalogView {
    let entries = prints.iter().zip(0..).map(|(print, slot)| CatalogEntry {
        slot: Slot::new(slot).expect("a container has few"),
        fingerprint: *print,
        len: CHUNK_BYTES,
        level: Level::new(0).expect("that of chunks"),
        logical_len: u64::from(CHUNK_BYTES),
    });
    CatalogView::from_entries(chunks::container(n), Generation::FIRST, entries.collect())
        .expect("no two chunks are alike")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equation_2_predicts_the_share_of_found_duplicates() {
        let progress = Progress::new(std::sync::Arc::default());
        let mut last = 1.1;
        for halvings in [0, 5, 7, 9] {
            let setting = Setting {
                rate: SamplingRate::new(halvings).unwrap(),
                containers: 24,
                cached: 4,
                eviction: Eviction::ContainerLru,
            };
            let repeated = repeat(setting, &progress).unwrap();
            // Three standard deviations of the number of chunks before the first hook, over 24
            // containers.
            let period = f64::from(1_u32 << halvings);
            let room = 3.0 * period / 24_f64.sqrt() / 4096.0;
            assert!((repeated.found - repeated.predicted).abs() < room, "{repeated:?}");
            assert!(repeated.found < last, "a lower rate finds less: {repeated:?}");
            assert_eq!(repeated.stats.catalog_loads, 24, "each once");
            last = repeated.found;
        }
    }
}
