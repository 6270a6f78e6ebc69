//! Updating references, and restores: figure 5, section 4.1.3.

use super::engine::cores;
use super::reclaim::{self, Updated};
use super::throughput::{self, Restored};
use super::{Size, gib, share, streams};
use crate::error::LabError;
use crate::reproduce::statistics::line;
use crate::reproduce::{Axis, Experiment, Part, Plot, Row, Run, Series};

/// Numbers of concurrent restores.
const RESTORES: [u64; 3] = [1, 2, 4];
/// Amounts of data, as multiples of the smallest change.
const CHANGES: [u64; 4] = [1, 2, 4, 8];
/// Number of runs, of which the least time counts.
const CHANGE_RUNS: usize = 5;

/// Figure 5: updating references, and restores.
pub(super) const PART: Part = Part("references");

/// Bytes of all backups and restores.
pub(super) fn bytes(size: &Size) -> u64 {
    let changes: u64 = CHANGES.iter().map(|times| times * size.change_bytes).sum();
    let references = size.filled_bytes + 2 * CHANGE_RUNS as u64 * changes;
    let most = RESTORES.iter().copied().max().unwrap_or(0);
    references + (RESTORES.iter().sum::<u64>() + most) * size.restored_bytes
}

/// Runs both experiments.
pub(super) fn run(size: &Size, run: &mut Run<'_>) -> Result<(), LabError> {
    run.progress.begin("references");
    let setting = |filled_bytes| reclaim::Setting {
        filled_bytes,
        filled_each: 1 << 30,
        changes: CHANGES.iter().map(|times| times * size.change_bytes).collect(),
        runs: CHANGE_RUNS,
    };
    let (_, empty) = reclaim::update(&setting(0), run.progress)?;
    let (idle, full) = reclaim::update(&setting(size.filled_bytes), run.progress)?;
    run.report(figure_5(&empty, &full, idle, size.filled_bytes))?;

    run.progress.begin("restores");
    let restored = throughput::restore(&RESTORES, size.restored_bytes, run.progress)?;
    run.report(restores(&restored, size.restored_bytes))
}

fn figure_5(empty: &[Updated], full: &[Updated], idle: f64, filled: u64) -> Experiment {
    let of = |updated: &[Updated], y: fn(&Updated) -> f64| -> Vec<(f64, f64)> {
        let each = updated
            .iter()
            .map(|one| (share(one.bytes, 1_000_000_000), y(one)));
        each.collect()
    };
    let mut rows = Vec::new();
    for (what, paper, y) in [
        ("added", 3.2, (|one: &Updated| one.added) as fn(&Updated) -> f64),
        ("deleted", 3.1, |one: &Updated| one.deleted),
    ] {
        let (few, many) = (of(empty, y), of(full, y));
        if let Some(fit) = line(&many) {
            let rate = 1.0 / fit.slope;
            rows.push(
                Row::new(
                    format!("data {what} to a second of updating references, store filled"),
                    format!("{paper} GB/s, linear"),
                    format!(
                        "{rate:.0} GB/s and {:.1} ms, R² {:.3}",
                        1000.0 * fit.intercept.max(0.0),
                        fit.r_squared
                    ),
                )
                .value(rate)
                .met(
                    fit.slope > 0.0 && fit.r_squared >= 0.9 && rate >= paper,
                    format!(
                        "less than linear, or slower; the largest takes {:.1} ms",
                        1000.0 * many.last().map_or(0.0, |one| one.1)
                    ),
                ),
            );
        }
        if let Some((few, many)) = few.last().zip(many.last()) {
            let ratio = many.1 / few.1;
            rows.push(
                Row::new(
                    format!("time for {:.1} GB {what}, filled store to empty", few.0),
                    "almost the same",
                    format!("{ratio:.2} ({:.1} ms to {:.1})", 1000.0 * many.1, 1000.0 * few.1),
                )
                .value(ratio)
                .met(ratio <= 1.5, "it takes more"),
            );
        }
    }
    rows.push(Row::new(
        "a prune that finds nothing to do, store filled",
        "",
        format!("{:.1} ms", 1000.0 * idle),
    ));
    if let Some(one) = full.last() {
        rows.push(Row::new(
            format!("of the largest change, {} GB", share(one.bytes, 1_000_000_000)),
            "",
            format!(
                "{} nodes read, {} containers removed",
                one.nodes_read, one.containers_removed
            ),
        ));
    }
    Experiment {
        name: "figure-5".to_owned(),
        title: "figure 5: time to update references".to_owned(),
        seeds: vec!["G7"],
        setup: format!(
            "Unique data is backed up and `prune` marks it; it is forgotten and `prune` reclaims it; the least time of {CHANGE_RUNS}. Stores \
             in memory that give up payload, containers of 16 MiB, one of them filled with {} of other backups before. What a disk \
             takes to delete files is not in it; prunes of stores on disk, copying what lives included, are in the results of \
             the project.",
            gib(filled)
        ),
        rows,
        plots: vec![Plot {
            name: "figure-5".to_owned(),
            title: "Time to update references".to_owned(),
            subtitle: format!("containers of 16 MiB, payload given up; filled: {}", gib(filled)),
            x: Axis::linear("changed, GB"),
            y: Axis::linear("seconds"),
            series: vec![
                Series::new("added, empty", of(empty, |one| one.added)),
                Series::new("added, filled", of(full, |one| one.added)),
                Series::new("deleted, empty", of(empty, |one| one.deleted)),
                Series::new("deleted, filled", of(full, |one| one.deleted)),
            ],
        }],
    }
}

fn restores(restored: &[Restored], bytes: u64) -> Experiment {
    let one = restored.first().map_or(0.0, |one| one.rate);
    let rows = restored.iter().map(|several| {
        let ratio = several.rate / one;
        let row = Row::new(
            format!("restore of {}", streams(several.streams)),
            if several.streams == 1 {
                "about 1,000 MB/s"
            } else {
                "430 MB/s, 0.43 of one"
            },
            format!(
                "{:.0} MB/s, {ratio:.2} of one; {:.1} MiB a container read",
                several.rate, several.speed_factor
            ),
        );
        let row = row.value(several.rate);
        if several.streams == 1 {
            row
        } else {
            row.met(ratio >= 0.43, "several at once are slower")
        }
    });
    Experiment {
        name: "restore".to_owned(),
        title: "section 4.1.3: restores of one stream and of several".to_owned(),
        seeds: vec!["G12", "G2"],
        setup: format!(
            "Streams of {} each in a store in memory that keeps its payload, containers of 16 MiB, restored to nowhere after the \
             index was deleted. No disk is between, so nothing seeks: what several at once cost the engine is seen alone. Every \
             byte is decrypted and verified. {} cores.",
            gib(bytes),
            cores()
        ),
        rows: rows.collect(),
        plots: Vec::new(),
    }
}
