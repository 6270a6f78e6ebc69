//! The share of duplicates found through sampled hooks, catalog prefetch, and a cache smaller than
//! the data (G3, G4): measured and compared with equation 2.

use std::collections::{HashSet, VecDeque};

use index::conformance::{fingerprint, with_anchors};
use index::sampling::predicted_efficiency;
use index::{HookIndex, HookKind, MemoryIndex};

use crate::store::*;

/// Chunks of a container: 32 MiB of 8 KiB, or the paper's 16 MiB of 4 KiB.
const CONTAINER_CHUNKS: usize = 4096;
/// 20 MiB in chunks of 8 KiB: a capping window.
const WINDOW_CHUNKS: usize = 2560;

fn mixed(n: u64) -> u64 {
    let n = (n ^ (n >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let n = (n ^ (n >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    n ^ (n >> 31)
}

/// A store of catalogs alone: chunks are numbers.
struct Store {
    index: MemoryIndex,
    catalogs: Vec<HashSet<u64>>,
    open: Vec<u64>,
    cached: VecDeque<usize>,
    cached_max: usize,
}

impl Store {
    fn new(budget: usize, cached_max: usize) -> Self {
        Self {
            index: MemoryIndex::new(budget),
            catalogs: Vec::new(),
            open: Vec::new(),
            cached: VecDeque::new(),
            cached_max,
        }
    }

    /// Backs up a stream. Returns whether each chunk was found.
    fn back_up(&mut self, stream: &[u64], window: usize) -> Vec<bool> {
        let mut found = Vec::with_capacity(stream.len());
        for window in stream.chunks(window) {
            for chunk in window
                .iter()
                .filter(|chunk| !self.is_cached(**chunk))
                .collect::<Vec<_>>()
            {
                self.prefetch(*chunk);
            }
            for chunk in window {
                let is_found = self.touch(*chunk);
                found.push(is_found);
                if !is_found {
                    self.store(*chunk);
                }
            }
        }
        self.seal();
        found
    }

    fn is_cached(&self, chunk: u64) -> bool {
        self.cached.iter().any(|n| self.catalogs[*n].contains(&chunk))
    }

    /// Uses a chunk's container, with LRU eviction of containers.
    fn touch(&mut self, chunk: u64) -> bool {
        let at = self
            .cached
            .iter()
            .position(|n| self.catalogs[*n].contains(&chunk));
        if let Some(at) = at {
            let container = self.cached.remove(at).unwrap();
            self.cached.push_front(container);
        }
        at.is_some()
    }

    fn prefetch(&mut self, chunk: u64) {
        let mut out = Vec::new();
        self.index
            .candidates(&fingerprint(mixed(chunk)), HookKind::Data, &mut out);
        if let Some(container) = out.first() {
            let n = usize::try_from(container.session.get() - 1).unwrap();
            self.cached.retain(|held| *held != n);
            self.cached.push_front(n);
            self.cached.truncate(self.cached_max);
        }
    }

    fn store(&mut self, chunk: u64) {
        self.open.push(chunk);
        if self.open.len() == CONTAINER_CHUNKS {
            self.seal();
        }
    }

    fn seal(&mut self) {
        let chunks = std::mem::take(&mut self.open);
        if chunks.is_empty() {
            return;
        }
        let container = data(self.catalogs.len() as u64 + 1, 0);
        let hooks = chunks.iter().map(|chunk| hook(mixed(*chunk), container));
        self.index.add(with_anchors(hooks.collect()));
        self.catalogs.push(chunks.into_iter().collect());
    }
}

/// A version with one chunk in a hundred new, in short runs at several places.
fn changed(stream: &[u64], next: &mut u64, version: u64) -> Vec<u64> {
    let mut out = stream.to_vec();
    let runs = stream.len() / 800;
    for run in 0..runs as u64 {
        let at = usize::try_from(mixed(version << 32 | run) % (stream.len() as u64 - 8)).unwrap();
        for chunk in &mut out[at..at + 8] {
            *chunk = *next;
            *next += 1;
        }
    }
    out
}

/// The share of duplicates found over three later versions, and R at the end.
fn measure(budget: usize, chunks: u64, window: usize) -> (f64, u64) {
    // The cache has room for an eighth of the containers.
    let cached_max = usize::try_from(chunks).unwrap() / CONTAINER_CHUNKS / 8;
    let mut store = Store::new(budget, cached_max);
    let mut next = chunks;
    let mut stream: Vec<u64> = (0..chunks).collect();
    let mut known: HashSet<u64> = stream.iter().copied().collect();
    store.back_up(&stream, window);
    let (mut duplicates, mut found) = (0u64, 0u64);
    for version in 1..4 {
        stream = changed(&stream, &mut next, version);
        let was_found = store.back_up(&stream, window);
        for (chunk, was_found) in stream.iter().zip(was_found) {
            duplicates += u64::from(!known.insert(*chunk));
            found += u64::from(was_found);
        }
    }
    #[expect(clippy::cast_precision_loss, reason = "a share")]
    let share = found as f64 / duplicates as f64;
    (share, store.index.rates().data.period())
}

#[test]
fn sampled_hooks_and_prefetch_find_nearly_all_duplicates() {
    for (budget, chunks, period) in [(80 << 10, 1 << 20, 128), (112 << 10, 3 << 18, 64)] {
        let (in_windows, r) = measure(budget, chunks, WINDOW_CHUNKS);
        assert_eq!(r, period);
        let (one_by_one, _) = measure(budget, chunks, 1);
        #[expect(clippy::cast_precision_loss, reason = "small")]
        let predicted = predicted_efficiency(period as f64, CONTAINER_CHUNKS as f64);
        println!(
            "R = 1/{period}: windows {in_windows:.4}, one by one {one_by_one:.4}, predicted {predicted:.4}"
        );
        assert!(in_windows >= 0.97, "{in_windows} in windows");
        assert!(one_by_one >= predicted - 0.01, "{one_by_one}, not {predicted}");
    }
}
