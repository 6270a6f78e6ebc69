//! Expiry of the oldest backups, one by one and in batches: figure 10.

use std::path::Path;
use std::time::Duration;

use onefold::PruneReport;

use super::weeks::{Stores, data_words};
use super::{Size, median, mib, number, setup};
use crate::error::LabError;
use crate::reproduce::stores::cold;
use crate::reproduce::stores::engine::Engine;
use crate::reproduce::{Axis, Experiment, Plot, Row, Run, Series};

/// The least speed-up, compared with reclaiming from an inline store.
const TIMES_MIN: f64 = 20.0;
/// The largest ratio of the slowest to the fastest that counts as flat.
const FLAT_MAX: f64 = 2.0;
/// Bytes of progress that one expiry counts as.
const STEP: u64 = 16 << 20;

/// Expired backups.
#[derive(Debug, Clone, Copy, Default)]
struct Expired {
    /// The number of expired backups, or the number of the last one.
    backups: u64,
    took: Duration,
    copied: u64,
    deleted: u64,
}

impl Expired {
    fn of(backups: usize, took: Duration, report: &PruneReport) -> Self {
        Self {
            backups: backups as u64,
            took,
            copied: report.bytes_copied,
            deleted: report.bytes_deleted,
        }
    }

    fn seconds(&self) -> f64 {
        self.took.as_secs_f64()
    }
}

/// Bytes of progress.
pub(super) fn bytes(size: &Size) -> u64 {
    2 * STEP * (u64::from(size.weeks.1).saturating_sub(1) + size.batches as u64)
}

/// Expires backups in copies of both stores.
pub(super) fn run(size: &Size, stores: &Stores, run: &mut Run<'_>) -> Result<(), LabError> {
    let places = Stores::places(&stores.folder);
    let copy = stores.folder.join("copy");
    // The times of expiry must not include what earlier weeks left unused.
    stores.conventional.prune_all()?;
    stores.hybrid.prune_all()?;
    let (mut singly, mut batches) = (Vec::new(), Vec::new());
    for place in &places {
        run.progress.begin("figure 10, one by one");
        singly.push(one_by_one(place, &copy, run)?);
        run.progress.begin("figure 10, batches");
        batches.push(in_batches(size, place, &copy, run)?);
    }
    run.report(experiment(size, stores, &singly, &batches))
}

fn one_by_one(place: &Path, copy: &Path, run: &Run<'_>) -> Result<Vec<Expired>, LabError> {
    let engine = copied(place, copy)?;
    let backups = engine.backups()?;
    let mut all = Vec::new();
    for (n, backup) in backups.iter().enumerate().take(backups.len().saturating_sub(1)) {
        let (took, report) = engine.expire(&[*backup])?;
        all.push(Expired::of(n + 1, took, &report));
        run.progress.advance(STEP)?;
    }
    drop(engine);
    cold::remove(copy)?;
    Ok(all)
}

fn in_batches(size: &Size, place: &Path, copy: &Path, run: &Run<'_>) -> Result<Vec<Expired>, LabError> {
    let mut all = Vec::new();
    for batch in 0..size.batches {
        let engine = copied(place, copy)?;
        let backups = engine.backups()?;
        let most = backups.len().saturating_sub(1);
        // From one backup to all but the newest.
        let count = 1 + (most - 1) * batch / (size.batches - 1).max(1);
        let (took, report) = engine.expire(&backups[..count])?;
        all.push(Expired::of(count, took, &report));
        drop(engine);
        cold::remove(copy)?;
        run.progress.advance(STEP)?;
    }
    Ok(all)
}

/// A copy of a store, flushed to the disk, opened, and pruned once. That prune finds nothing, but
/// it reads objects that later prunes need not read again.
fn copied(place: &Path, copy: &Path) -> Result<Engine, LabError> {
    cold::copy(place, copy)?;
    cold::drop_cached(copy)?;
    let engine = Engine::open(copy)?;
    engine.prune_all()?;
    Ok(engine)
}

fn times(of: &[Expired]) -> Vec<f64> {
    of.iter().map(Expired::seconds).collect()
}

fn points(of: &[Expired]) -> Vec<(f64, f64)> {
    of.iter()
        .map(|one| (number(one.backups), one.seconds()))
        .collect()
}

fn rows(what: &str, [conventional, hybrid]: [&[Expired]; 2]) -> Vec<Row> {
    let megabytes =
        |of: &[Expired], value: fn(&Expired) -> u64| number(of.iter().map(value).sum::<u64>()) / 1e6;
    let copied: u64 = hybrid.iter().map(|one| one.copied).sum();
    let (inline, ours) = (median(&mut times(conventional)), median(&mut times(hybrid)));
    let quarter = hybrid.len().div_ceil(4);
    let first = median(&mut times(&hybrid[..quarter]));
    let last = median(&mut times(&hybrid[hybrid.len() - quarter..]));
    let flat = first.max(last) / first.min(last).max(1e-9);
    vec![
        Row::new(
            format!("{what}: bytes copied, hybrid"),
            "none",
            format!(
                "{copied}, {:.1} MB freed; inline {:.1} MB copied, {:.1} freed",
                megabytes(hybrid, |one| one.deleted),
                megabytes(conventional, |one| one.copied),
                megabytes(conventional, |one| one.deleted)
            ),
        )
        .value(number(copied))
        .met(
            copied == 0,
            "something of what archival backups share is rewritten",
        ),
        Row::new(
            format!("{what}: time of the last quarter to that of the first, whichever is more"),
            "flat",
            format!("{flat:.2}: {:.1} and {:.1} ms, medians", 1e3 * last, 1e3 * first),
        )
        .value(flat)
        .met(
            flat <= FLAT_MAX,
            "each backup costs a tombstone and containers to unlink",
        ),
        Row::new(
            format!("{what}: time, inline to hybrid"),
            "much more; at least 20",
            format!(
                "{:.1}: {:.1} to {:.1} ms, medians",
                inline / ours,
                1e3 * inline,
                1e3 * ours
            ),
        )
        .value(inline / ours)
        .met(
            inline / ours >= TIMES_MIN,
            "an inline prune's time follows what it copies, and the store is small; the rest is sessions, barriers and marks, which both have",
        ),
    ]
}

fn experiment(size: &Size, stores: &Stores, singly: &[Vec<Expired>], batches: &[Vec<Expired>]) -> Experiment {
    let mut all = Vec::new();
    let mut plots = Vec::new();
    for (what, name, axis, of) in [
        ("one by one", "figure-10-a", "backup that expires", singly),
        (
            "batches of the oldest",
            "figure-10-b",
            "backups that expire together",
            batches,
        ),
    ] {
        let [conventional, hybrid] = of else { continue };
        all.extend(rows(what, [conventional, hybrid]));
        plots.push(Plot {
            name: name.to_owned(),
            title: format!("Forget and prune, {what}"),
            subtitle: format!("containers of {} MiB, on disk", mib(size.container_bytes.into())),
            x: Axis::linear(axis),
            y: Axis::decades("s"),
            series: vec![
                Series::new("conventional", points(conventional)),
                Series::new("hybrid", points(hybrid)),
            ],
        });
    }
    Experiment {
        name: "figure-10".to_owned(),
        title: "figure 10: expiry of the oldest backups".to_owned(),
        seeds: vec!["R4", "R9"],
        setup: format!(
            "{} {} Times are of forget and of a prune that leaves nothing unused, as nothing was before, of copies of both stores, one by one or each batch on a copy of its \
             own, which was pruned once before. The paper's mark-and-sweep scans all containers.",
            setup(size),
            data_words(size, stores)
        ),
        rows: all,
        plots,
    }
}
