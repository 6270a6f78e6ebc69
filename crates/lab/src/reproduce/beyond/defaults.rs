//! Backups and restores with default options, on '2year': what do they cost compared with other
//! caps and with none, and how fast do restores stay? (L3, L9; figure 5)

use ingest::{Cap, Capping, LookupMemory};
use simulate::{Assembly, Finding, Memory, Outcome, Policy, Schedule, Settings};

use super::CONTAINER_BYTES;
use crate::error::LabError;
use crate::generate::{TwoYear, Workload as _};
use crate::reproduce::statistics::{AVERAGED, factor, fragmentation, last, speed};
use crate::reproduce::tee::{self, Trial};
use crate::reproduce::{Axis, Experiment, Plot, Progress, Row, Run, Series};

/// Bytes of the first snapshot.
const SNAPSHOT_BYTES: u64 = 1_000_000_000;
/// The paper's smaller memory of figure 5.
const MEMORY_BYTES: u64 = 128 << 20;
/// Backups of a week, the first of which is full.
const WEEK: u64 = 5;
/// The largest loss of deduplication in percent, and the least gain of restore speed.
const LOST_MAX: f64 = 8.0;
const FASTER: f64 = 2.5;

const LRU: Memory = Memory {
    bytes: MEMORY_BYTES,
    assembly: Assembly::Lru,
};
const ROLLING: Memory = Memory {
    bytes: MEMORY_BYTES,
    assembly: Assembly::Rolling,
};
const LOOK_AHEAD: Memory = Memory {
    bytes: MEMORY_BYTES,
    assembly: Assembly::LookAhead,
};

/// Caps to compare with the default, besides none: other minimums of bytes that a container must
/// hold of a window, in KiB.
const LEAST_KIB: [u64; 2] = [48, 96];

const TRIALS: u64 = 2 + LEAST_KIB.len() as u64;

/// Weeks of '2year', with this size of the first snapshot.
#[derive(Debug, Clone, Copy)]
struct Extent {
    snapshot_bytes: u64,
    weeks: u32,
}

impl Extent {
    fn backups(self) -> u64 {
        WEEK * u64::from(self.weeks)
    }

    /// Bytes of all backups: files grow by 2 % of the first snapshot each time. A fifth of the
    /// backups is full, and the others hold some 4 %.
    fn bytes(self) -> u64 {
        let mean = self.snapshot_bytes + self.snapshot_bytes / 100 * self.backups();
        (mean / 5 + mean / 25) * self.backups()
    }
}

/// Measures so many weeks.
pub(super) fn run(run: &mut Run<'_>, weeks: u32) -> Result<(), LabError> {
    let extent = Extent {
        snapshot_bytes: SNAPSHOT_BYTES,
        weeks,
    };
    run.progress.expect(TRIALS * extent.bytes());
    run.progress.begin("2year, the default");
    let before = run.progress.done();
    let outcomes = measure(extent, run.progress)?;
    run.progress
        .correct(TRIALS * extent.bytes(), run.progress.done() - before);
    run.report(experiment(extent, &outcomes))
}

/// The outcomes without a cap, with the default cap, and with the other caps.
fn measure(extent: Extent, progress: &Progress) -> Result<Vec<Vec<Outcome>>, LabError> {
    let load = TwoYear {
        snapshot_bytes: extent.snapshot_bytes,
        weeks: extent.weeks,
        ..TwoYear::default()
    };
    let trial = |capping| {
        let backups = extent.backups();
        // Every chunk has a hook, and look-ups drop no entry within a backup.
        let policy = Policy {
            capping,
            memory: LookupMemory::within(extent.snapshot_bytes / 2),
            index_bytes: usize::try_from(extent.snapshot_bytes / 8).unwrap_or(usize::MAX),
            ..Policy::default()
        };
        Trial {
            settings: Settings {
                container_bytes: CONTAINER_BYTES,
                finding: Finding::Engine(policy),
                schedule: Schedule::Cycle(30),
                memories: Vec::new(),
                skip: 0,
            },
            schedule: Box::new(move |backup| {
                let is_measured = backup % WEEK == 0 || backup + AVERAGED as u64 >= backups;
                if is_measured {
                    vec![LRU, ROLLING, LOOK_AHEAD]
                } else {
                    Vec::new()
                }
            }),
        }
    };
    let mut trials = vec![trial(Capping::NONE), trial(Capping::default())];
    trials.extend(LEAST_KIB.map(|kib| trial(Capping::of(Cap::Least(kib << 10)))));
    Ok(tee::run(|sink| load.replay(sink), trials, progress)?)
}

/// The names of the caps.
fn names() -> Vec<String> {
    let name = |what: &str, cap| match cap {
        Cap::Least(bytes) => format!("{what}least {} KiB, 3 windows remembered", bytes >> 10),
        cap => format!("{what}{cap:?}"),
    };
    let default = name("the default, ", Capping::default().cap);
    let others = LEAST_KIB.map(|kib| name("", Cap::Least(kib << 10)));
    ["no cap".to_owned(), default].into_iter().chain(others).collect()
}

fn experiment(extent: Extent, outcomes: &[Vec<Outcome>]) -> Experiment {
    let mut rows = Vec::new();
    let none = last(&outcomes[0]);
    for (at, (name, capped)) in names().iter().zip(outcomes).enumerate() {
        // Without a cap, nothing is lost.
        let is_capped = at > 0;
        rows.extend(is_capped.then(|| lost(name, none, last(capped))).flatten());
        rows.extend(gained(name, none, last(capped)));
    }
    Experiment {
        name: "default-cap".to_owned(),
        title: "the default and other caps on '2year'".to_owned(),
        seeds: vec!["L3", "L9"],
        setup: format!(
            "2year-cycle30, {} MB at first, {} backups; containers of 4 MiB; LRU, rolling area and cache that looks ahead of 128 MiB; averages are of the last {AVERAGED} backups; \
             every chunk has a hook and look-ups forget nothing within a backup.",
            extent.snapshot_bytes / 1_000_000,
            extent.backups(),
        ),
        rows,
        plots: vec![plot(outcomes)],
    }
}

/// The loss of a cap.
fn lost(name: &str, none: &[Outcome], capped: &[Outcome]) -> Option<Row> {
    let (without, with) = (factor(none)?, factor(capped)?);
    let lost = 100.0 * (1.0 - with / without);
    let row = Row::new(
        format!("{name}: deduplication factor lost"),
        "none; at most 8 %",
        format!("{lost:.1} % ({without:.2} without a cap, {with:.2} with it)"),
    );
    Some(row.value(lost).met(lost <= LOST_MAX, "these data lose more"))
}

/// The gain of restore speed by a cap and by looking ahead.
fn gained(name: &str, none: &[Outcome], capped: &[Outcome]) -> Option<Row> {
    let gain = |with: Memory, without: Memory| Some(speed(capped, with)? / speed(none, without)?);
    let less = |with, without| Some(fragmentation(none, without)? / fragmentation(capped, with)?);
    let gains = |memory| Some((gain(memory, LRU)?, gain(memory, memory)?));
    let (faster, same) = gains(LOOK_AHEAD)?;
    let (rolling, _) = gains(ROLLING)?;
    let (lru, _) = gains(LRU)?;
    let less = less(LOOK_AHEAD, LRU)?;
    let row = Row::new(
        format!("figure 5, {name}: a restore that looks ahead with 128 MiB, to no cap and LRU of 128 MiB"),
        "1.7X for 8 % lost, LRU; target of the default 2.5X",
        format!(
            "{faster:.2}X (rolling area {rolling:.2}X, LRU {lru:.2}X; to no cap, looking ahead too, {same:.2}X; {less:.2}X by the mean \
             of containers read a MiB)"
        ),
    );
    let reason =
        "each restore of these data reads most containers once, so only a stricter cap makes it faster";
    Some(row.value(faster).met(faster >= FASTER, reason))
}

fn plot(outcomes: &[Vec<Outcome>]) -> Plot {
    let full = |outcomes: &[Outcome], memory| {
        let restored = outcomes.iter().enumerate().filter_map(|(backup, outcome)| {
            let is_full = (backup as u64).is_multiple_of(WEEK);
            let mut restored = outcome.restored.iter().filter(|_| is_full);
            let one = restored.find(|one| one.memory == memory)?;
            #[expect(clippy::cast_precision_loss, reason = "some hundreds")]
            let number = (backup + 1) as f64;
            Some((number, one.containers_a_mib()?))
        });
        restored.collect()
    };
    let mut series = vec![Series::new("no cap, LRU", full(&outcomes[0], LRU))];
    for (name, outcomes) in names().into_iter().zip(outcomes) {
        series.push(Series::new(
            format!("{name}, looking ahead"),
            full(outcomes, LOOK_AHEAD),
        ));
    }
    Plot {
        name: "default-cap-2year".to_owned(),
        title: "Containers read by full backups over time".to_owned(),
        subtitle: "containers of 4 MiB, memory 128 MiB".to_owned(),
        x: Axis::linear("backup"),
        y: Axis::linear("containers read for each MiB"),
        series,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn the_default_is_set_against_other_caps() {
        let extent = Extent {
            snapshot_bytes: 64_000_000,
            weeks: 6,
        };
        let outcomes = measure(extent, &Progress::new(Arc::default())).unwrap();
        let experiment = experiment(extent, &outcomes);
        assert_eq!(experiment.rows.len(), 7);
        let lost = experiment
            .rows
            .iter()
            .filter(|row| row.what.contains("factor lost"));
        assert!(lost.clone().count() == 3 && lost.into_iter().all(|row| !row.what.starts_with("no cap")));
        assert!(experiment.rows[2].value > experiment.rows[0].value);
        assert!(experiment.plots[0].series.iter().all(|one| one.points.len() == 6));
        let stored = |n: usize| outcomes[n].iter().map(|one| one.bytes_new).sum::<u64>();
        assert!(
            stored(3) > stored(1) && stored(1) > stored(0),
            "these data are capped"
        );
    }
}
