//! SG1 on disk, week after week: figures 5 and 7.

use std::path::PathBuf;
use std::time::Duration;

use super::baseline::{self, Rates};
use super::data::data_bytes;
use super::layout::StoreLayout;
use super::{Size, median, megabytes, megabytes_a_second, mib, number, setup, sg1};
use crate::error::LabError;
use crate::reproduce::statistics::mean;
use crate::reproduce::stores::cold::Folder;
use crate::reproduce::stores::content;
use crate::reproduce::stores::engine::Engine;
use crate::reproduce::{Axis, Experiment, Plot, Row, Run, Series};

/// The least rate of reverse deduplication, relative to raw reading and writing of the same bytes.
const REVERSE_MIN: f64 = 0.5;
/// Bytes for measuring raw rates, and the number of runs.
const RAW_BYTES: u64 = 512 << 20;
const RAW_RUNS: usize = 3;

/// The cost of a week.
#[derive(Debug, Clone, Copy)]
pub(super) struct Week {
    /// Bytes of the backup, without zeros.
    pub(super) bytes: u64,
    conventional: Duration,
    hybrid: Duration,
    /// Bytes that each store added.
    new: [u64; 2],
    /// Times of making the previous backup archival, and of the prune; `None` in the first week.
    reverse: Option<(Duration, Duration)>,
    /// Bytes copied to archive containers, and bytes that prune copied.
    archived: u64,
    copied: u64,
}

/// What layout repair may copy, in percent of newly stored bytes: as much, and twice as much.
pub(super) const REPAIR_PERCENTS: [u16; 2] = [100, 200];

/// The stores with all weeks.
pub(super) struct Stores {
    pub(super) folder: Folder,
    pub(super) conventional: Engine,
    pub(super) hybrid: Engine,
    /// Stores of layout `hybrid` with layout repair, within [`REPAIR_PERCENTS`]; empty if repair is
    /// not requested.
    pub(super) repaired: Vec<RepairedStore>,
    pub(super) weeks: Vec<Week>,
    raw: Rates,
}

/// A store whose newest backup is repaired each week.
pub(super) struct RepairedStore {
    /// Its budget.
    pub(super) percent: u16,
    pub(super) engine: Engine,
    /// Bytes that its backups added, bytes that repairs copied, and bytes that prunes copied.
    pub(super) new: u64,
    pub(super) by_repairs: u64,
    pub(super) by_prunes: u64,
    /// The time of optimize and prune.
    pub(super) took: Duration,
}

impl RepairedStore {
    fn week(&mut self, content: &content::Content) -> Result<(), LabError> {
        let (_, report) = self.engine.back_up(content, false)?;
        let reversed = self.engine.optimize()?;
        let repaired = reversed.optimized.repaired.iter();
        self.new += report.totals.bytes_new;
        self.by_repairs += repaired.map(|(_, repaired)| repaired.bytes_copied).sum::<u64>();
        self.by_prunes += reversed.pruned.bytes_copied;
        self.took += reversed.optimizing + reversed.pruning;
        Ok(())
    }
}

impl Stores {
    /// The folders of the first two stores, conventional first.
    pub(super) fn places(folder: &Folder) -> [PathBuf; 2] {
        ["conventional", "hybrid"].map(|name| folder.join(name))
    }
}

/// Bytes of all backups, with or without the repaired stores.
pub(super) fn bytes(size: &Size, with_repair: bool) -> u64 {
    let repaired = if with_repair { REPAIR_PERCENTS.len() } else { 0 };
    (3 + 2 * repaired as u64) * data_bytes(&sg1(size.weeks))
}

/// Backs up all weeks in both layouts, and in repaired stores if they are requested.
pub(super) fn build(size: &Size, with_repair: bool, run: &Run<'_>) -> Result<Stores, LabError> {
    run.progress.begin("figures 5 and 7");
    let folder = Folder::new(run.folder.join("stores"))?;
    let unique = baseline::unique(RAW_BYTES.min(size.unique.0))?;
    let each = (0..RAW_RUNS).map(|_| baseline::raw(size, &folder.join("raw"), &unique));
    let raw = baseline::medians(&each.collect::<Result<Vec<_>, _>>()?);
    drop(unique);
    let [one, other] = Stores::places(&folder);
    let conventional = StoreLayout::Conventional.store(Some(&one), size.container_bytes)?;
    let hybrid = size.hybrid().store(Some(&other), size.container_bytes)?;
    let mut repaired = Vec::new();
    for percent in REPAIR_PERCENTS.into_iter().filter(|_| with_repair) {
        let place = folder.join(&format!("repaired-{percent}"));
        repaired.push(RepairedStore {
            percent,
            engine: size
                .hybrid_with(1, percent)
                .store(Some(&place), size.container_bytes)?,
            new: 0,
            by_repairs: 0,
            by_prunes: 0,
            took: Duration::ZERO,
        });
    }
    let mut weeks: Vec<Week> = Vec::new();
    content::each(&sg1(size.weeks), |content| {
        let bytes = content.data_bytes();
        let (of_conventional, inline) = conventional.back_up(content, false)?;
        run.progress.advance(bytes)?;
        let (of_hybrid, whole) = hybrid.back_up(content, false)?;
        run.progress.advance(bytes)?;
        let reversed = hybrid.optimize()?;
        run.progress.advance(bytes)?;
        let backups = &reversed.optimized.backups;
        let took = (reversed.optimizing, reversed.pruning);
        weeks.push(Week {
            bytes,
            conventional: of_conventional,
            hybrid: of_hybrid,
            new: [inline, whole].map(|report| report.totals.bytes_new),
            reverse: (!backups.is_empty()).then_some(took),
            archived: backups.iter().map(|(_, done)| done.bytes_archived).sum(),
            copied: reversed.pruned.bytes_copied,
        });
        for repaired in &mut repaired {
            repaired.week(content)?;
            run.progress.advance(2 * bytes)?;
        }
        Ok(())
    })?;
    Ok(Stores {
        folder,
        conventional,
        hybrid,
        repaired,
        weeks,
        raw,
    })
}

/// Reports the cost of the weeks.
pub(super) fn report(size: &Size, stores: &Stores, run: &mut Run<'_>) -> Result<(), LabError> {
    run.report(figure_5(size, stores))?;
    run.report(figure_7(size, stores))
}

/// The origin of the data, in words.
pub(super) fn data_words(size: &Size, stores: &Stores) -> String {
    let (image_bytes, weeks) = size.weeks;
    format!(
        "SG1, images of {}, {weeks} weeks, {} without zeros in the last; on disk, raw {:.0} MB/s written and {:.0} read there.",
        megabytes(image_bytes),
        megabytes(stores.weeks.last().map_or(0, |week| week.bytes)),
        stores.raw.write,
        stores.raw.read
    )
}

/// The mean of the first and of the last quarter of the points.
fn quarters(points: &[(f64, f64)]) -> (f64, f64) {
    let count = points.len().div_ceil(4);
    let of = |part: &[(f64, f64)]| mean(part.iter().map(|point| point.1)).unwrap_or(0.0);
    (of(&points[..count]), of(&points[points.len() - count..]))
}

fn figure_5(size: &Size, stores: &Stores) -> Experiment {
    let points = |took: fn(&Week) -> Duration| -> Vec<(f64, f64)> {
        let each = stores.weeks.iter().zip(1..).skip(1);
        each.map(|(week, n)| (number(n), megabytes_a_second(week.bytes, took(week))))
            .collect()
    };
    let (conventional, hybrid) = (points(|week| week.conventional), points(|week| week.hybrid));
    let (first, last) = quarters(&hybrid);
    let (first_of_chunks, last_of_chunks) = quarters(&conventional);
    let new = |layout: usize| number(stores.weeks.iter().skip(1).map(|week| week.new[layout]).sum());
    let rows = vec![
        Row::new(
            "hybrid: rate in the last quarter of the weeks, to the first",
            "falls, about to a half (figure 5 a), towards that of unique data",
            format!("{:.2}: {last:.0} to {first:.0} MB/s", last / first),
        )
        .value(last / first),
        Row::new(
            "conventional: rate in the last quarter of the weeks, to the first",
            "stable",
            format!(
                "{:.2}: {last_of_chunks:.0} to {first_of_chunks:.0} MB/s",
                last_of_chunks / first_of_chunks
            ),
        )
        .value(last_of_chunks / first_of_chunks),
        Row::new(
            "hybrid to conventional, first quarter",
            "faster, about 2 to 4; later slower",
            format!(
                "{:.2}, and {:.2} in the last quarter",
                first / first_of_chunks,
                last / last_of_chunks
            ),
        )
        .value(first / first_of_chunks)
        .met(
            first >= first_of_chunks,
            "both are cut and fingerprinted in this time, which the paper leaves out, and our conventional mode does not wait for look-ups: known segments are found whole. \
             What hybrid stores more costs time",
        ),
        Row::new(
            "stored anew from the second week on, hybrid to conventional",
            "",
            format!(
                "{:.2}: {:.0} to {:.0} MB of {:.0}",
                new(1) / new(0),
                new(1) / 1e6,
                new(0) / 1e6,
                number(stores.weeks.iter().skip(1).map(|week| week.bytes).sum()) / 1e6
            ),
        )
        .value(new(1) / new(0)),
    ];
    Experiment {
        name: "figure-5".to_owned(),
        title: "figure 5: backups over the weeks".to_owned(),
        seeds: vec!["R1"],
        setup: format!("{} {}", setup(size), data_words(size, stores)),
        rows,
        plots: vec![Plot {
            name: "figure-5".to_owned(),
            title: "Backups of SG1 over the weeks".to_owned(),
            subtitle: format!("containers of {} MiB, on disk", mib(size.container_bytes.into())),
            x: Axis::linear("week"),
            y: Axis::linear("MB/s"),
            series: vec![
                Series::new("conventional", conventional),
                Series::new("hybrid", hybrid),
            ],
        }],
    }
}

fn figure_7(size: &Size, stores: &Stores) -> Experiment {
    let points: Vec<(f64, f64)> = stores
        .weeks
        .windows(2)
        .zip(1..)
        .filter_map(|(pair, n)| {
            let (optimizing, pruning) = pair[1].reverse?;
            Some((number(n), megabytes_a_second(pair[0].bytes, optimizing + pruning)))
        })
        .collect();
    // Each byte is read once and written once.
    let raw = 1.0 / (1.0 / stores.raw.read + 1.0 / stores.raw.write);
    let middle = median(&mut points.iter().map(|point| point.1).collect::<Vec<_>>());
    let least = points.iter().map(|point| point.1).fold(f64::INFINITY, f64::min);
    let (first, last) = quarters(&points);
    let sum = |of: fn(&Week) -> u64| stores.weeks.iter().map(of).sum::<u64>();
    let times = stores.weeks.iter().filter_map(|week| week.reverse);
    let (optimizing, pruning) = times.fold((Duration::ZERO, Duration::ZERO), |sum, one| {
        (sum.0 + one.0, sum.1 + one.1)
    });
    let rows = vec![
        Row::new(
            "median week, to raw read and write of as many bytes",
            "about 0.5 at least",
            format!(
                "{:.2}: {middle:.0} to {raw:.0} MB/s; {:.2} in the slowest week, {least:.0} MB/s",
                middle / raw,
                least / raw
            ),
        )
        .value(middle / raw)
        .met(
            middle >= REVERSE_MIN * raw,
            "what sessions with their barriers cost weighs more the smaller a backup is, and what prunes copy is read and written once more",
        ),
        Row::new(
            "last quarter of the weeks, to the first",
            "falls as backups have more of their own",
            format!("{:.2}: {last:.0} to {first:.0} MB/s", last / first),
        )
        .value(last / first),
        Row::new(
            "of all bytes: copied to archive containers, and by the prunes",
            "",
            format!(
                "{:.1} and {:.1} of {:.1} MB",
                number(sum(|week| week.archived)) / 1e6,
                number(sum(|week| week.copied)) / 1e6,
                number(sum(|week| week.bytes)) / 1e6
            ),
        ),
        Row::new(
            "time in all: optimize, and prune",
            "",
            format!("{:.1} and {:.1} s", optimizing.as_secs_f64(), pruning.as_secs_f64()),
        ),
    ];
    Experiment {
        name: "figure-7".to_owned(),
        title: "figure 7: reverse deduplication over the weeks".to_owned(),
        seeds: vec!["R2", "R4"],
        setup: format!(
            "{} {} Rates are bytes of the backup that becomes archival, for the time of optimize and of the prune that follows.",
            setup(size),
            data_words(size, stores)
        ),
        rows,
        plots: vec![Plot {
            name: "figure-7".to_owned(),
            title: "Reverse deduplication of SG1 over the weeks".to_owned(),
            subtitle: format!("containers of {} MiB, on disk", mib(size.container_bytes.into())),
            x: Axis::linear("week"),
            y: Axis::linear("MB/s"),
            series: vec![
                Series::new(
                    "raw read and write",
                    points.iter().map(|point| (point.0, raw)).collect(),
                ),
                Series::new("reverse deduplication", points),
            ],
        }],
    }
}
