//! Fills the index in memory to a scale, and times look-ups on the way [Guo 3.2.3, 4.1.1, 4.3] (G4,
//! G5, G11).

use std::sync::mpsc;

use env::Clock;
use index::sampling::{SamplingRate, rate_that_fits};
use index::{CandidateLists, Hook, HookIndex, HookKind, MemoryIndex, MemoryStats};
use types::Fingerprint;

use super::chunks::{self, CONTAINER_CHUNKS};
use super::engine::CHUNK_BYTES;
use super::{median, nanos_each, share};
use crate::error::LabError;
use crate::reproduce::Progress;

/// A thread draws the hooks of so many containers at a time. The index adds those of few containers
/// in less than a millisecond.
const FEW: u64 = 16;
const MANY: u64 = 1 << 16;
/// Containers that are added one at a time before look-ups are timed, so that insertion is timed as
/// in a backup.
const SINGLE: u64 = 2048;
/// Look-ups that are timed together: few enough that another process hardly ever interrupts them.
const ROUND: usize = 512;
/// Rounds of each kind of look-up at a load, alternating with the nearly empty index.
const ROUNDS: usize = 601;
/// Seeds of stored chunks, and of chunks that are not stored.
const STORED: u64 = 11;
const NEW: u64 = 12;

/// How much the index is filled.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Scale {
    /// Memory of the index, in bytes.
    pub(super) budget_bytes: usize,
    /// The approximate final number of hooks.
    pub(super) hooks: u64,
    /// The sampling rate of the drawn hooks.
    pub(super) rate: SamplingRate,
}

/// The index at a load.
#[derive(Debug, Clone, Copy)]
pub(super) struct Load {
    /// Share of the final number of hooks.
    pub(super) share: f64,
    /// The content of the index.
    pub(super) stats: MemoryStats,
    /// Insertion time of the last hooks before this load, in nanoseconds for each hook.
    pub(super) insert_ns: f64,
    /// Look-up time of hooks in the index, and of chunks that are not in it: nanoseconds each.
    pub(super) known_ns: f64,
    pub(super) new_ns: f64,
    /// The rate of look-ups, divided by that of an index of the same budget with 1 % of the hooks.
    /// Both are measured alternately.
    pub(super) known_ratio: f64,
    pub(super) new_ratio: f64,
}

/// An index that was filled.
#[derive(Debug)]
pub(super) struct Filled {
    pub(super) scale: Scale,
    pub(super) loads: Vec<Load>,
    /// Chunks whose fingerprints were drawn and checked.
    pub(super) chunks: u64,
    /// Looked-up hooks that were added but not found.
    pub(super) lost: u64,
    /// Looked-up chunks that were not added, but for which the index named a container.
    pub(super) made_up: u64,
    /// Time to remove one container in 16 at once: nanoseconds for each removed hook.
    pub(super) remove_ns: f64,
    /// The rate of look-ups with all hooks, divided by that of the same index after the removal of
    /// all but 1 % of them. The emptied index still has all its memory, and its hooks are spread
    /// over all of it.
    pub(super) emptied_known_ratio: f64,
    pub(super) emptied_new_ratio: f64,
}

/// The loads at which look-ups are timed. The others are compared with the first.
pub(super) const LOADS: [f64; 5] = [0.01, 0.25, 0.5, 0.75, 1.0];

/// Fills an index, and measures insertion and look-ups at each of [`LOADS`].
pub(super) fn fill(scale: Scale, clock: &dyn Clock, progress: &Progress) -> Result<Filled, LabError> {
    let containers = containers(scale);
    let at = |share: f64| {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            clippy::cast_precision_loss,
            reason = "a number of containers"
        )]
        let n = (containers as f64 * share).ceil() as u64;
        n.max(1)
    };
    let (index, nearly_empty) = (
        MemoryIndex::new(scale.budget_bytes),
        MemoryIndex::new(scale.budget_bytes),
    );
    let first = at(LOADS[0]);
    let of = |begin, end, order| Stretch {
        begin,
        end,
        rate: scale.rate,
        order,
    };
    add(&nearly_empty, of(0, first, Order::Sorted), clock, progress)?;
    let asked_first = Asked::new(first, scale.rate);
    let mut filled = Filled {
        scale,
        loads: Vec::new(),
        chunks: containers * CONTAINER_CHUNKS,
        lost: 0,
        made_up: 0,
        remove_ns: 0.0,
        emptied_known_ratio: 0.0,
        emptied_new_ratio: 0.0,
    };
    let mut begin = 0;
    for share in LOADS {
        let end = at(share);
        let singly = begin.max(end.saturating_sub(SINGLE));
        add(&index, of(begin, singly, Order::Sorted), clock, progress)?;
        let insert_ns = add(&index, of(singly, end, Order::ByContainer), clock, progress)?;
        begin = end;
        let asked = Asked::new(end, scale.rate);
        let known = compare((&index, &asked.known), (&nearly_empty, &asked_first.known), clock);
        let new = compare((&index, &asked.new), (&nearly_empty, &asked_first.new), clock);
        let stats = index.stats();
        filled.lost += known.missed;
        filled.made_up += new.found;
        filled.loads.push(Load {
            share,
            stats,
            insert_ns,
            known_ns: known.nanos,
            new_ns: new.nanos,
            known_ratio: known.ratio,
            new_ratio: new.ratio,
        });
    }
    let before = index.stats().entries[0];
    let began = clock.monotonic();
    index.retain(&|container| {
        let n = chunks::number_of(container);
        n < first || !n.is_multiple_of(16)
    });
    let took = clock.monotonic().saturating_sub(began);
    filled.remove_ns = nanos_each(took, before - index.stats().entries[0]);
    index.retain(&|container| chunks::number_of(container) < first);
    let fresh = |prints| compare((&index, prints), (&nearly_empty, prints), clock);
    let (known, new) = (fresh(&asked_first.known), fresh(&asked_first.new));
    filled.lost += known.missed;
    filled.made_up += new.found;
    if let Some(full) = filled.loads.last() {
        filled.emptied_known_ratio = full.known_ratio / known.ratio;
        filled.emptied_new_ratio = full.new_ratio / new.ratio;
    }
    Ok(filled)
}

/// The number of containers that have so many hooks.
pub(super) fn containers(scale: Scale) -> u64 {
    (scale.hooks * scale.rate.period()).div_ceil(CONTAINER_CHUNKS)
}

/// The order in which hooks are added to the index.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Order {
    /// Container by container, as they are sealed.
    ByContainer,
    /// Hooks of many containers together, in the order of their bits, as from a run when a store is
    /// opened. This is faster, since the index writes to adjacent places.
    Sorted,
}

/// Containers to add.
#[derive(Debug, Clone, Copy)]
struct Stretch {
    begin: u64,
    end: u64,
    rate: SamplingRate,
    order: Order,
}

impl Stretch {
    /// Draws the hooks of all containers, in batches as large as the order needs, until `send`
    /// returns `false`.
    fn draw(self, mut send: impl FnMut(u64, Vec<Hook>) -> bool) {
        let batch = match self.order {
            Order::ByContainer => FEW,
            Order::Sorted => MANY,
        };
        let mut prints = Vec::new();
        let mut n = self.begin;
        while n < self.end {
            let until = (n + batch).min(self.end);
            let (mut first, mut rest) = (Vec::new(), Vec::new());
            for container in n..until {
                prints.clear();
                chunks::sampled(STORED, container, self.rate, &mut prints);
                let mut hooks = chunks::hooks(container, &prints);
                // The index numbers containers in the order of their first hooks, so the first hook
                // of each comes in the order of containers.
                first.extend(hooks.next());
                match self.order {
                    Order::ByContainer => first.extend(hooks),
                    Order::Sorted => rest.extend(hooks),
                }
            }
            rest.sort_unstable_by_key(|hook| hook.bits);
            first.append(&mut rest);
            if !send(until - n, first) {
                return;
            }
            n = until;
        }
    }
}

/// Adds hooks. Returns the index's time for each in nanoseconds: the median over all batches.
fn add(
    index: &MemoryIndex,
    stretch: Stretch,
    clock: &dyn Clock,
    progress: &Progress,
) -> Result<f64, LabError> {
    let (drawing, batches) = mpsc::sync_channel(1);
    std::thread::scope(|scope| {
        scope.spawn(move || stretch.draw(|containers, hooks| drawing.send((containers, hooks)).is_ok()));
        let mut nanos = Vec::new();
        for (containers, hooks) in batches {
            let (count, began) = (hooks.len() as u64, clock.monotonic());
            index.add(hooks);
            nanos.push(nanos_each(clock.monotonic().saturating_sub(began), count));
            progress.advance(containers * CONTAINER_CHUNKS * u64::from(CHUNK_BYTES))?;
        }
        Ok(median(&mut nanos))
    })
}

/// Fingerprints to look up.
struct Asked {
    known: Vec<Fingerprint>,
    new: Vec<Fingerprint>,
}

impl Asked {
    /// Random hooks of the first `containers` containers, drawn with replacement so that they
    /// belong to as many containers as possible; and chunks of no container.
    fn new(containers: u64, rate: SamplingRate) -> Self {
        let count = (ROUND * ROUNDS) as u64;
        let mut drawing = 0;
        let known = (0..count).map(|_| chunks::one_sampled(STORED, containers, rate, &mut drawing));
        Self {
            known: known.collect(),
            new: (0..count).map(|n| chunks::fingerprint(NEW, n)).collect(),
        }
    }
}

/// Look-up times of one index, and its rate relative to another.
struct Compared {
    nanos: f64,
    ratio: f64,
    found: u64,
    missed: u64,
}

/// An index, and fingerprints to look up in it.
type Question<'a> = (&'a MemoryIndex, &'a Vec<Fingerprint>);

/// Times both alternately, so that other work on the machine disturbs both alike. Returns medians.
fn compare((index, prints): Question, (other, prints_of_other): Question, clock: &dyn Clock) -> Compared {
    let (mut nanos, mut ratios, mut found) = (Vec::new(), Vec::new(), 0);
    for (round, round_of_other) in prints.chunks(ROUND).zip(prints_of_other.chunks(ROUND)) {
        let (of_other, _) = ask(other, round_of_other, clock);
        let (of_index, found_here) = ask(index, round, clock);
        found += found_here;
        nanos.push(of_index);
        ratios.push(of_other / of_index);
    }
    Compared {
        nanos: median(&mut nanos),
        ratio: median(&mut ratios),
        found,
        missed: prints.len() as u64 - found,
    }
}

/// Nanoseconds for each look-up, and the number of look-ups that found something.
fn ask(index: &MemoryIndex, prints: &[Fingerprint], clock: &dyn Clock) -> (f64, u64) {
    let (mut out, mut found) = (CandidateLists::default(), 0);
    let began = clock.monotonic();
    for some in prints.chunks(index.lookups_together()) {
        index.candidates_together(None, some, HookKind::Data, &mut out);
        found += (0..some.len())
            .map(|n| u64::from(!out.of(n).is_empty()))
            .sum::<u64>();
    }
    let took = clock.monotonic().saturating_sub(began);
    (nanos_each(took, prints.len() as u64), found)
}

/// The index at the moment when R was halved.
#[derive(Debug, Clone, Copy)]
pub(super) struct Halving {
    /// Chunks stored by then.
    pub(super) chunks: u64,
    /// The content of the index.
    pub(super) before: MemoryStats,
    /// The R that equation 1 gives for this memory, these entries and this much data.
    pub(super) predicted: f64,
}

/// Fills an index with every chunk's hook, beginning at R = 1, until R was halved so often:
/// progressive sampling [Guo 3.2.2].
pub(super) fn halve(
    budget_bytes: usize,
    halvings: u8,
    progress: &Progress,
) -> Result<Vec<Halving>, LabError> {
    let index = MemoryIndex::new(budget_bytes);
    let (mut told, mut before) = (Vec::new(), index.stats());
    let mut prints = Vec::new();
    for n in 0.. {
        let rate = before.rates.data;
        prints.clear();
        chunks::sampled(STORED, n, rate, &mut prints);
        index.add(chunks::hooks(n, &prints));
        progress.advance(CONTAINER_CHUNKS * u64::from(CHUNK_BYTES))?;
        let now = index.stats();
        if now.rates.data != rate {
            let chunks = n * CONTAINER_CHUNKS;
            #[expect(clippy::cast_precision_loss, reason = "bytes of gigabytes")]
            let (memory, stored) = (before.bytes as f64, chunks as f64 * f64::from(CHUNK_BYTES));
            told.push(Halving {
                chunks,
                before,
                predicted: rate_that_fits(memory, before.bytes_per_entry, f64::from(CHUNK_BYTES), stored),
            });
            if told.len() == usize::from(halvings) {
                break;
            }
        }
        before = now;
    }
    Ok(told)
}

/// Bytes of so many chunks, in terabytes.
pub(super) fn terabytes(chunks: u64) -> f64 {
    share(chunks, 1_000_000_000_000) * f64::from(CHUNK_BYTES)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;

    use env::SystemClock;

    use super::*;

    #[test]
    fn a_filled_index_has_all_added_hooks() {
        let progress = Progress::new(std::sync::Arc::default());
        let scale = Scale {
            budget_bytes: 1 << 20,
            hooks: 100_000,
            rate: SamplingRate::new(7).unwrap(),
        };
        let filled = fill(scale, &SystemClock, &progress).unwrap();
        let last = filled.loads.last().unwrap();
        assert!(
            last.stats.entries[0].abs_diff(100_000) < 1_500,
            "{:?}",
            last.stats
        );
        assert!(
            last.stats.bytes_per_entry <= 8.0 && last.stats.bytes <= 1 << 20,
            "{:?}",
            last.stats
        );
        assert_eq!(filled.lost, 0);
        // Four look-ups in a million match the tag of another hook.
        assert!(filled.made_up < 40, "{}", filled.made_up);
        assert_eq!(last.stats.rates.data, SamplingRate::ONE, "all fitted");
        assert!(
            filled
                .loads
                .iter()
                .all(|load| load.known_ns > 0.0 && load.known_ratio > 0.0)
        );
        assert!(filled.emptied_known_ratio > 0.0 && filled.emptied_new_ratio > 0.0);
        let few = filled.loads[0].stats.entries[0];
        assert!((800..1400).contains(&few), "{few}");
    }

    #[test]
    fn the_rate_falls_as_equation_1_says() {
        let progress = Progress::new(std::sync::Arc::default());
        let told = halve(200 << 10, 5, &progress).unwrap();
        let periods: Vec<u64> = told.iter().map(|one| one.before.rates.data.period()).collect();
        assert_eq!(periods, [1, 2, 4, 8, 16]);
        for one in &told {
            #[expect(clippy::cast_precision_loss, reason = "small")]
            let ratio = one.predicted * one.before.rates.data.period() as f64;
            assert!((0.95..1.2).contains(&ratio), "{ratio}: {one:?}");
        }
    }

    #[test]
    fn filling_ends_when_someone_asks() {
        let cancelled = std::sync::Arc::new(AtomicBool::new(true));
        let scale = Scale {
            budget_bytes: 1 << 20,
            hooks: 50_000,
            rate: SamplingRate::new(7).unwrap(),
        };
        let filled = fill(scale, &SystemClock, &Progress::new(cancelled));
        assert!(filled.is_err_and(|error| error.is_interrupted()));
    }
}
