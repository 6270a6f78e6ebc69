//! Caps other than fixed ones: how many containers do their restores read, at the same loss of
//! deduplication and with the same memory? (L9)
//!
//! Each kind of cap gives a curve: its loss of deduplication, and the reads of restores. Curves are
//! compared at equal loss: at most so many percent, with straight lines between the measured
//! points.

use std::collections::BTreeMap;

use ingest::{Cap, Capping, LookupMemory};
use simulate::{Assembly, Finding, Memory, Outcome, Policy, Settings};

use super::{CONTAINER_BYTES, Data};
use crate::error::LabError;
use crate::reproduce::statistics::{factor, interpolated};
use crate::reproduce::tee::{self, Trial};
use crate::reproduce::{Axis, Experiment, Plot, Progress, Row, Run, Series};

/// The number of last backups that are restored: a week of '2year' with its full one.
const RESTORED: u64 = 5;
/// Number of remembered windows, for kinds that remember any.
const REMEMBERED: u32 = 3;
/// Losses of the deduplication factor at which curves are compared, in percent.
const LOST: [f64; 3] = [2.0, 4.0, 8.0];
/// Simulators that run concurrently. Each holds a whole store.
const AT_ONCE: usize = 8;

/// A kind of cap: the name of its curve, and the caps along it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    Fixed,
    FixedRemembered,
    FixedLong,
    Adaptive,
    AdaptiveRemembered,
    Least,
    LeastRemembered,
}

impl Kind {
    const ALL: [Self; 7] = [
        Self::Fixed,
        Self::FixedRemembered,
        Self::FixedLong,
        Self::Adaptive,
        Self::AdaptiveRemembered,
        Self::Least,
        Self::LeastRemembered,
    ];

    fn name(self) -> &'static str {
        match self {
            Self::Fixed => "fixed",
            Self::FixedRemembered => "fixed, 3 windows remembered",
            Self::FixedLong => "fixed, windows of 60 MB",
            Self::Adaptive => "adaptive",
            Self::AdaptiveRemembered => "adaptive, 3 remembered",
            Self::Least => "least",
            Self::LeastRemembered => "least, 3 remembered",
        }
    }

    fn tried(self) -> Vec<Capping> {
        let caps: Vec<Cap> = match self {
            Self::Fixed => vec![90, 50, 30, 20, 12].into_iter().map(Cap::Fixed).collect(),
            Self::FixedRemembered => vec![50, 30, 20, 12].into_iter().map(Cap::Fixed).collect(),
            Self::FixedLong => vec![150, 90, 60, 36].into_iter().map(Cap::Fixed).collect(),
            Self::Adaptive | Self::AdaptiveRemembered => {
                vec![50, 30, 20].into_iter().map(Cap::Adaptive).collect()
            }
            Self::Least | Self::LeastRemembered => {
                let least = [32, 48, 64, 128, 256].into_iter();
                least.map(|kib| Cap::Least(kib << 10)).collect()
            }
        };
        let remembered_windows = match self {
            Self::FixedRemembered | Self::AdaptiveRemembered | Self::LeastRemembered => REMEMBERED,
            Self::Fixed | Self::FixedLong | Self::Adaptive | Self::Least => 0,
        };
        let window_bytes = if self == Self::FixedLong {
            60_000_000
        } else {
            20_000_000
        };
        let of = |cap| Capping {
            cap,
            remembered_windows,
            window_bytes,
        };
        caps.into_iter().map(of).collect()
    }
}

/// Replays of each data set: one for each cap.
pub(super) const REPLAYS: u64 = 30;

/// The caps to try, no cap first.
fn tries() -> Vec<(Option<Kind>, Capping)> {
    let kinds = Kind::ALL.into_iter();
    let capped = kinds.flat_map(|kind| kind.tried().into_iter().map(move |one| (Some(kind), one)));
    std::iter::once((None, Capping::NONE)).chain(capped).collect()
}

/// How a restore uses memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    Rolling,
    Cache,
}

/// The results of a cap.
#[derive(Debug, Clone, PartialEq)]
struct Tried {
    kind: Option<Kind>,
    /// Loss of deduplication: percent of the factor without a cap.
    lost: f64,
    /// Containers read with each memory: by the rolling area, and by the cache that looks ahead.
    reads: Vec<[f64; 2]>,
}

/// Measures all data sets.
pub(super) fn run(run: &mut Run<'_>, all: &mut [Data], bytes: u64) -> Result<(), LabError> {
    let memories = [(bytes / 64).max(2 * CONTAINER_BYTES), bytes / 4];
    let mut rows = Vec::new();
    let mut plots = Vec::new();
    for data in all {
        let tried = measure(data, bytes, &memories, run.progress)?;
        for (n, memory) in memories.iter().enumerate() {
            rows.extend(judged(data, *memory, n, &tried));
            plots.push(plot(data, *memory, n, &tried));
        }
    }
    run.report(Experiment {
        name: "caps".to_owned(),
        title: "caps at the same loss of deduplication and with the same memory".to_owned(),
        seeds: vec!["L3", "L4", "L8", "L9"],
        setup: format!(
            "{RESTORED} of the last backups of each data set, some {} MB each; containers of 4 MiB; memory a 64th of a backup (no less than two containers), \
             and a quarter; capped by the engine's policy, windows of 20 MB but where it is said, every chunk has a hook. 'least': a container holds at least 32 to \
             256 KiB of a window, or what it holds is stored again.",
            bytes / 1_000_000
        ),
        rows,
        plots,
    })
}

fn measure(
    data: &mut Data,
    bytes: u64,
    memories: &[u64],
    progress: &Progress,
) -> Result<Vec<Tried>, LabError> {
    let tries = tries();
    let mut outcomes = Vec::new();
    for group in tries.chunks(AT_ONCE) {
        progress.begin(format!(
            "{}, caps {} to {} of {}",
            data.name,
            outcomes.len() + 1,
            outcomes.len() + group.len(),
            tries.len()
        ));
        let each = group.iter();
        let trials = each.map(|(_, capping)| trial(data, *capping, bytes, memories));
        let trials = trials.collect();
        outcomes.extend(tee::run(|sink| data.workload.replay(sink), trials, progress)?);
    }
    let factors: Vec<f64> = outcomes.iter().filter_map(|one| factor(last(one))).collect();
    let without = factors.first().copied().unwrap_or(1.0);
    let each = tries.iter().zip(&outcomes).zip(factors);
    let tried = each.map(|(((kind, _), outcomes), factor)| Tried {
        kind: *kind,
        lost: 100.0 * (1.0 - factor / without),
        reads: (0..memories.len())
            .map(|n| reads(last(outcomes), n, memories.len()))
            .collect(),
    });
    Ok(tried.collect())
}

fn trial(data: &Data, capping: Capping, bytes: u64, memories: &[u64]) -> Trial {
    let ways = [Assembly::Rolling, Assembly::LookAhead].into_iter();
    let memories: Vec<Memory> = ways
        .flat_map(|assembly| {
            let each = memories.iter();
            each.map(move |bytes| Memory {
                bytes: *bytes,
                assembly,
            })
        })
        .collect();
    // The index and look-ups never drop an entry. A stored chunk has some 4 KB, and takes 96 bytes
    // of look-ups and 64 of hooks.
    let policy = Policy {
        capping,
        memory: LookupMemory::within(bytes / 4),
        index_bytes: usize::try_from(bytes / 16).unwrap_or(usize::MAX),
        ..Policy::default()
    };
    Trial {
        settings: Settings {
            container_bytes: CONTAINER_BYTES,
            finding: Finding::Engine(policy),
            schedule: data.schedule,
            memories: Vec::new(),
            skip: data.backups.saturating_sub(RESTORED),
        },
        schedule: Box::new(move |_| memories.clone()),
    }
}

fn last(outcomes: &[Outcome]) -> &[Outcome] {
    let last = usize::try_from(RESTORED).expect("a few");
    &outcomes[outcomes.len().saturating_sub(last)..]
}

/// Containers that all restores read with the n-th of so many memories.
#[expect(clippy::cast_precision_loss, reason = "numbers of containers")]
fn reads(outcomes: &[Outcome], n: usize, memories: usize) -> [f64; 2] {
    [n, memories + n].map(|n| {
        let restored = outcomes.iter().filter_map(|one| one.restored.get(n));
        restored.map(|one| one.containers_read).sum::<u64>() as f64
    })
}

/// The points of a kind, no cap first: the loss, and containers read.
fn curve(tried: &[Tried], kind: Kind, n: usize, way: Way) -> Vec<(f64, f64)> {
    let are = tried
        .iter()
        .filter(|one| one.kind.is_none() || one.kind == Some(kind));
    are.map(|one| (one.lost, one.reads[n][way as usize])).collect()
}

/// The fewest containers on a curve with at most this loss.
fn at_most(curve: &[(f64, f64)], lost: f64) -> Option<f64> {
    let there = curve.iter().filter(|point| point.0 <= lost).map(|point| point.1);
    there
        .chain(interpolated(curve, lost))
        .min_by(|a, b| a.total_cmp(b))
}

/// The reads of each kind, divided by those of fixed caps with a rolling area, with at most this
/// loss for all.
fn relative(tried: &[Tried], n: usize, way: Way, lost: f64) -> BTreeMap<Kind, f64> {
    let Some(fixed) = at_most(&curve(tried, Kind::Fixed, n, Way::Rolling), lost) else {
        return BTreeMap::new();
    };
    let kinds = Kind::ALL.into_iter();
    kinds
        .filter_map(|kind| Some((kind, at_most(&curve(tried, kind, n, way), lost)? / fixed.max(1.0))))
        .collect()
}

fn judged(data: &Data, memory: u64, n: usize, tried: &[Tried]) -> Vec<Row> {
    let mib = memory >> 20;
    LOST.into_iter()
        .filter_map(|lost| {
            let cached = relative(tried, n, Way::Cache, lost);
            let rolling = relative(tried, n, Way::Rolling, lost);
            let ours = *cached.get(&Kind::LeastRemembered)?;
            let list = |of: &BTreeMap<Kind, f64>| {
                let each = of.iter().map(|(kind, reads)| format!("{} {reads:.2}", kind.name()));
                each.collect::<Vec<_>>().join("; ")
            };
            let row = Row::new(
                format!(
                    "{}, {mib} MiB, at most {lost} % lost: containers that 'least, 3 remembered' reads with a cache that looks ahead, to those of fixed caps with a rolling area",
                    data.name
                ),
                "none; fewer",
                format!("{ours:.2} times (all with the cache: {}; rolling: {})", list(&cached), list(&rolling)),
            );
            let reason = "as many or more are read";
            Some(row.value(ours).met(ours < 1.0, reason))
        })
        .collect()
}

fn plot(data: &Data, memory: u64, n: usize, tried: &[Tried]) -> Plot {
    let series = |kind: Kind, way, name: &str| {
        let mut points = curve(tried, kind, n, way);
        points.retain(|(lost, _)| *lost <= 25.0);
        points.sort_by(|a, b| a.0.total_cmp(&b.0));
        Series::new(format!("{}{name}", kind.name()), points)
    };
    let mut all = vec![series(Kind::Fixed, Way::Rolling, "; rolling area")];
    all.extend(Kind::ALL.map(|kind| series(kind, Way::Cache, "")));
    let mib = memory >> 20;
    Plot {
        name: format!("caps-{}-{mib}", data.name.replace(", ", "-")),
        title: format!("{}: containers read, by what a cap loses", data.name),
        subtitle: format!(
            "containers of 4 MiB, memory {mib} MiB, a cache that looks ahead but where it is said"
        ),
        x: Axis::linear("deduplication factor lost, percent"),
        y: Axis::linear("containers read"),
        series: all,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn progress_expects_the_bytes_of_all_trials() {
        assert_eq!(tries().len() as u64, REPLAYS);
    }

    #[test]
    fn at_most_finds_the_fewest_reads_within_a_loss() {
        let curve = [(0.0, 100.0), (1.0, 60.0), (3.0, 40.0), (9.0, 10.0)];
        assert_eq!(at_most(&curve, 2.0), Some(50.0));
        assert_eq!(at_most(&curve, 6.0), Some(25.0));
        assert_eq!(at_most(&curve, 20.0), Some(10.0), "no point loses so much");
        assert_eq!(at_most(&curve[1..], 0.5), None);
    }

    #[test]
    fn kinds_are_set_against_fixed_caps_and_a_rolling_area() {
        let of = |kind, lost, rolling, cache| Tried {
            kind,
            lost,
            reads: vec![[rolling, cache]],
        };
        let tried = [
            of(None, 0.0, 100.0, 80.0),
            of(Some(Kind::Fixed), 2.0, 50.0, 40.0),
            of(Some(Kind::Least), 2.0, 45.0, 30.0),
        ];
        let cached = relative(&tried, 0, Way::Cache, 2.0);
        assert_eq!((cached[&Kind::Fixed], cached[&Kind::Least]), (0.8, 0.6));
        assert_eq!(cached[&Kind::Adaptive], 1.6, "nothing but no cap");
        assert_eq!(relative(&tried, 0, Way::Rolling, 2.0)[&Kind::Least], 0.9);
    }

    /// Every cap is tried on every small data set, and stores no less than no cap.
    #[test]
    fn every_data_set_is_capped_in_every_way() {
        let bytes = 8_000_000;
        let progress = Progress::new(Arc::default());
        for mut data in super::super::data(bytes, 3) {
            data.count().unwrap();
            let memories = [2 << 20, 4 << 20];
            let tried = measure(&mut data, 64 << 20, &memories, &progress).unwrap();
            assert_eq!(tried.len(), tries().len());
            assert!(tried[0].kind.is_none() && tried[0].lost == 0.0);
            assert!(
                tried.iter().all(|one| one.lost > -0.5 && one.reads.len() == 2),
                "{}: {tried:?}",
                data.name
            );
            assert!(
                tried
                    .iter()
                    .all(|one| one.reads.iter().flatten().all(|reads| *reads > 0.0))
            );
            assert_eq!(judged(&data, 2 << 20, 0, &tried).len(), LOST.len());
            assert_eq!(plot(&data, 2 << 20, 1, &tried).series.len(), Kind::ALL.len() + 1);
        }
    }
}
