//! Restores that look ahead: does a cache of chunks read fewer containers than an assembly area of
//! the same memory?
//!
//! Memory may hold an assembly area, a cache of single chunks that the recipe needs after it, or
//! both. The experiment measures every split on every data set. It compares them with real
//! restores, which use a cache alone and keep only chunks that are likely to stay. There are two
//! yardsticks. A cache that knows the whole recipe at no cost is greedy. The proved lower bound of
//! all restores may be out of reach.

use restore::belady::{KEPT_BYTES, REFERENCE_BYTES};
use simulate::{
    Ahead, Assembly, BackupHead, Chunk, Finding, Memory, Outcome, Settings, SimulateError, Simulator, Sink,
};

use super::{CONTAINER_BYTES, Data};
use crate::error::LabError;
use crate::reproduce::{Axis, Experiment, Plot, Progress, Row, Run, Series};

/// The number of last backups that are restored.
const RESTORED: u64 = 4;
/// The share of memory for references, in 64ths.
const KNOWN: u8 = 8;
/// The splits to try: the area's share of memory, in 64ths.
const AREAS: [u8; 4] = [0, 14, 28, 42];
/// A split is as good as the best one if it reads at most this multiple.
const AS_GOOD: f64 = 1.02;

/// Replays of each data set.
pub(super) const REPLAYS: u64 = 2;

/// Measures all data sets, with two sizes of memory.
pub(super) fn run(run: &mut Run<'_>, all: &mut [Data], bytes: u64) -> Result<(), LabError> {
    let mut rows = Vec::new();
    let mut plots = Vec::new();
    for data in all {
        run.progress.begin(data.name);
        // Backups have some 256 MB or more, so both sizes differ.
        for memory in [(bytes / 64).max(2 * CONTAINER_BYTES), bytes / 16] {
            let outcomes = replay(data, memory, run.progress)?;
            let (row, plot) = judged(data, memory, &outcomes);
            rows.extend(row);
            plots.push(plot);
        }
    }
    run.report(Experiment {
        name: "look-ahead".to_owned(),
        title: "restores that look ahead, against assembly areas of the same memory".to_owned(),
        seeds: vec!["L5", "L9"],
        setup: format!(
            "{} of the last backups of each data set, some {} MB each; containers of 4 MiB; memory a 64th of a backup (no less than two containers), and a 16th; \
             a reference that is known ahead takes {REFERENCE_BYTES} bytes of it, a chunk that is kept {KEPT_BYTES} more than its own",
            RESTORED,
            bytes / 1_000_000
        ),
        rows,
        plots,
    })
}

/// A sink that counts, and passes everything on.
struct Counted<'a, S> {
    sink: S,
    progress: &'a Progress,
}

impl<S: Sink> Sink for Counted<'_, S> {
    fn begin(&mut self, head: &BackupHead) -> Result<(), SimulateError> {
        self.sink.begin(head)
    }
    fn chunks(&mut self, chunks: &[Chunk]) -> Result<(), SimulateError> {
        let bytes: u64 = chunks.iter().map(|chunk| u64::from(chunk.len)).sum();
        self.progress.advance(bytes)?;
        self.sink.chunks(chunks)
    }
    fn end(&mut self) -> Result<(), SimulateError> {
        self.sink.end()
    }
}

fn replay(data: &mut Data, memory: u64, progress: &Progress) -> Result<Vec<Outcome>, SimulateError> {
    let settings = Settings {
        container_bytes: CONTAINER_BYTES,
        finding: Finding::Exact { seal: true },
        schedule: data.schedule,
        memories: [Assembly::Lru, Assembly::Rolling, Assembly::LookAhead]
            .map(|assembly| Memory {
                bytes: memory,
                assembly,
            })
            .to_vec(),
        skip: data.backups.saturating_sub(RESTORED),
    };
    let ahead = |area, references| Ahead {
        bytes: memory,
        area,
        references,
    };
    let mut tried = vec![ahead(0, None)];
    tried.extend(AREAS.map(|area| ahead(area, Some(KNOWN))));
    let mut outcomes = Vec::new();
    let tell = |outcome| {
        outcomes.push(outcome);
        Ok(())
    };
    let simulator = Simulator::new(settings, tell)?.until(progress.cancelled());
    let mut sink = Counted {
        sink: simulator.looking_ahead(tried),
        progress,
    };
    data.workload.replay(&mut sink)?;
    Ok(outcomes)
}

/// Containers that all restores together read.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Reads {
    lru: f64,
    rolling: f64,
    cache: f64,
    splits: [f64; AREAS.len()],
    yardstick: f64,
    at_least: f64,
}

#[expect(clippy::cast_precision_loss, reason = "numbers of containers")]
fn reads(outcomes: &[Outcome]) -> Reads {
    let restored = |n: usize| {
        let reads = outcomes
            .iter()
            .filter_map(|one| Some(one.restored.get(n)?.containers_read));
        reads.sum::<u64>() as f64
    };
    let ahead = |n: usize| {
        let reads = outcomes.iter().filter_map(|one| Some(one.ahead.get(n)?.1));
        reads.sum::<u64>() as f64
    };
    let at_least = outcomes.iter().flat_map(|one| &one.at_least);
    Reads {
        at_least: at_least.map(|(_, reads)| *reads).sum::<u64>() as f64,
        lru: restored(0),
        rolling: restored(1),
        cache: restored(2),
        yardstick: ahead(0),
        splits: std::array::from_fn(|n| ahead(n + 1)),
    }
}

fn judged(data: &Data, memory: u64, outcomes: &[Outcome]) -> (Vec<Row>, Plot) {
    let reads = reads(outcomes);
    let best = reads.splits.into_iter().fold(reads.rolling, f64::min);
    let of = format!("{}, {} MiB", data.name, memory >> 20);
    let against_best = reads.cache / best.max(1.0);
    let rows = vec![
        Row::new(
            format!("{of}: restores that look ahead, against the best split"),
            "none; at most 1.02 times the containers",
            format!("{against_best:.3} times ({} and {best} containers)", reads.cache),
        )
        .value(against_best)
        .met(against_best <= AS_GOOD, "another split reads less"),
        Row::new(
            format!("{of}: the same, against rolling assembly"),
            "none",
            format!(
                "{:.2} times the containers; rolling reads {:.2} times what container LRU does",
                reads.cache / reads.rolling.max(1.0),
                reads.rolling / reads.lru.max(1.0)
            ),
        )
        .value(reads.cache / reads.rolling.max(1.0)),
        Row::new(
            format!("{of}: the same, against a cache that knows the whole recipe without memory for it"),
            "none",
            format!(
                "{:.3} times the containers",
                reads.cache / reads.yardstick.max(1.0)
            ),
        )
        .value(reads.cache / reads.yardstick.max(1.0)),
        Row::new(
            format!("{of}: the same, against what any restore reads at least"),
            "none",
            format!(
                "{:.2} times the containers ({}; container LRU {:.2} times, rolling {:.2})",
                reads.cache / reads.at_least.max(1.0),
                reads.at_least,
                reads.lru / reads.at_least.max(1.0),
                reads.rolling / reads.at_least.max(1.0)
            ),
        )
        .value(reads.cache / reads.at_least.max(1.0)),
    ];
    let share = |area: u8| f64::from(area) / 64.0 * 100.0;
    let each = AREAS.iter().zip(reads.splits);
    let mut splits: Vec<(f64, f64)> = each.map(|(area, reads)| (share(*area), reads)).collect();
    splits.push((100.0, reads.rolling));
    let across = |reads: f64| vec![(0.0, reads), (100.0, reads)];
    let plot = Plot {
        name: format!("look-ahead-{}-{}", data.name.replace(", ", "-"), memory >> 20),
        title: format!(
            "{}: containers read, by the assembly area's share of memory",
            data.name
        ),
        subtitle: format!("containers of 4 MiB, memory {} MiB", memory >> 20),
        x: Axis::linear("area, % of memory"),
        y: Axis::linear("containers read"),
        series: vec![
            Series::new("area and cache", splits),
            Series::new("look-ahead, as restores do", across(reads.cache)),
            Series::new("container LRU", across(reads.lru)),
            Series::new("all known", across(reads.yardstick)),
            Series::new("at least, whatever is done", across(reads.at_least)),
        ],
    };
    (rows, plot)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::super::data;
    use super::*;

    /// Small data of every kind is restored in every way. A planner that knows everything reads no
    /// more than an area does.
    #[test]
    fn every_data_set_is_restored_in_every_way() {
        let bytes = 8_000_000;
        let progress = Progress::new(Arc::default());
        for mut data in data(bytes, 3) {
            data.count().unwrap();
            let outcomes = replay(&mut data, 2 << 20, &progress).unwrap();
            let reads = reads(&outcomes);
            assert!(reads.yardstick > 0.0, "{}", data.name);
            assert!(reads.yardstick <= reads.rolling, "{}: {reads:?}", data.name);
            let (rows, plot) = judged(&data, 2 << 20, &outcomes);
            assert!(0.0 < reads.at_least && reads.at_least <= reads.yardstick.min(reads.cache));
            assert_eq!((rows.len(), plot.series[0].points.len()), (4, AREAS.len() + 1));
        }
    }
}
