//! Restores after all weeks: figures 6 and 8.

use std::time::Duration;

use onefold::{AssembleOptions, AssembleStats, SessionId};

use super::data::data_bytes;
use super::weeks::{Stores, data_words};
use super::{Size, cores, median, megabytes_a_second, mib, number, setup, sg1, share};
use crate::error::LabError;
use crate::reproduce::stores::array::Disks;
use crate::reproduce::stores::engine::Engine;
use crate::reproduce::{Axis, Experiment, Plot, Row, Run, Series};

/// The newest backup: so many times fewer containers, and faster.
const TIMES_MIN: f64 = 4.0;
/// Restores of the newest backup, of which the median counts.
const RUNS: usize = 3;

/// A restore.
#[derive(Debug, Clone, Copy)]
struct Restored {
    week: u64,
    bytes: u64,
    took: Duration,
    stats: AssembleStats,
}

impl Restored {
    fn rate(&self) -> f64 {
        megabytes_a_second(self.bytes, self.took)
    }

    /// MiB restored for each container read.
    fn speed_factor(&self) -> f64 {
        mib(self.bytes) / number(self.stats.containers_read.max(1))
    }
}

/// Bytes of all restores, about.
pub(super) fn bytes(size: &Size) -> u64 {
    let each = data_bytes(&sg1(size.weeks)) / u64::from(size.weeks.1);
    let restored = (size.weeks.1 as usize).div_ceil(size.restored_every) + RUNS;
    // The newest ones from two kinds of disks with heads besides.
    4 * each * (restored as u64 + 1)
}

/// Restores backups of both stores, with the default threads and with one.
pub(super) fn run(size: &Size, stores: &Stores, run: &mut Run<'_>) -> Result<(), LabError> {
    run.progress.begin("figures 6 and 8");
    let [conventional, hybrid] = stores.backups()?;
    let default = AssembleOptions::for_cores(cores());
    let one = AssembleOptions {
        workers: 1,
        ..default
    };
    let all =
        |engine, backups: &[SessionId], options| restore_all(size, stores, engine, backups, options, run);
    let of_conventional = [
        all(&stores.conventional, &conventional, default)?,
        all(&stores.conventional, &conventional, one)?,
    ];
    let of_hybrid = [
        all(&stores.hybrid, &hybrid, default)?,
        all(&stores.hybrid, &hybrid, one)?,
    ];
    let [conventional, conventional_one] = of_conventional;
    let [hybrid, hybrid_one] = of_hybrid;
    let heads = [Disks::PAPERS, Disks::ONE].map(|disks| on_heads(stores, disks, default, run));
    let [papers, single] = heads;
    run.report(figure_6(size, stores, &conventional, &hybrid, [papers?, single?]))?;
    run.report(figure_8(
        size,
        stores,
        [&conventional, &conventional_one],
        [&hybrid, &hybrid_one],
    ))
}

fn restore_all(
    size: &Size,
    stores: &Stores,
    engine: &Engine,
    backups: &[SessionId],
    options: AssembleOptions,
    run: &Run<'_>,
) -> Result<Vec<Restored>, LabError> {
    let mut restored = Vec::new();
    for (n, (backup, week)) in backups.iter().zip(&stores.weeks).enumerate() {
        if !size.is_restored(n, backups.len()) {
            continue;
        }
        let runs = if n + 1 == backups.len() { RUNS } else { 1 };
        let mut all = Vec::new();
        for _ in 0..runs {
            let (took, stats) = engine.restore(*backup, options)?;
            all.push(Restored {
                week: n as u64 + 1,
                bytes: week.bytes,
                took,
                stats,
            });
            run.progress.advance(week.bytes)?;
        }
        all.sort_by_key(|one| one.took);
        restored.push(all[runs / 2]);
    }
    Ok(restored)
}

/// The newest backup of both stores from disks with heads, conventional first: MB (10^6) a second.
fn on_heads(
    stores: &Stores,
    disks: Disks,
    options: AssembleOptions,
    run: &Run<'_>,
) -> Result<[f64; 2], LabError> {
    let mut rates = [0.0; 2];
    for (engine, rate) in [&stores.conventional, &stores.hybrid].into_iter().zip(&mut rates) {
        if let (Some(backup), Some(week)) = (engine.backups()?.last(), stores.weeks.last()) {
            let (took, _) = engine.restore_from(disks, *backup, options)?;
            *rate = megabytes_a_second(week.bytes, took);
            run.progress.advance(week.bytes)?;
        }
    }
    Ok(rates)
}

fn points(of: &[Restored], value: fn(&Restored) -> f64) -> Vec<(f64, f64)> {
    of.iter().map(|one| (number(one.week), value(one))).collect()
}

fn figure_6(
    size: &Size,
    stores: &Stores,
    conventional: &[Restored],
    hybrid: &[Restored],
    on_heads: [[f64; 2]; 2],
) -> Experiment {
    let mut rows = Vec::new();
    if let (Some(inline), Some(ours)) = (conventional.last(), hybrid.last()) {
        let fewer = share(inline.stats.containers_read, ours.stats.containers_read);
        rows.push(
            Row::new(
                "newest: containers read, conventional to hybrid",
                "5 by throughput; at least 4",
                format!(
                    "{fewer:.2}: {} to {}; {:.2} to {:.2} MiB restored a container read",
                    inline.stats.containers_read,
                    ours.stats.containers_read,
                    inline.speed_factor(),
                    ours.speed_factor()
                ),
            )
            .value(fewer)
            .met(
                fewer >= TIMES_MIN,
                "the images are smaller than the paper's: all of the conventional store is few containers, which memory holds more of",
            ),
        );
        let faster = ours.rate() / inline.rate();
        rows.push(
            Row::new(
                "newest: cold restore, hybrid to conventional",
                "5; at least 4",
                format!("{faster:.2}: {:.0} to {:.0} MB/s", ours.rate(), inline.rate()),
            )
            .value(faster)
            .met(
                faster >= TIMES_MIN,
                format!(
                    "what scattered reads cost is this disk's, which has no heads to move, and a restore reads no more than the regions that it needs: {:.0} and \
                     {:.0} MB for {:.0}",
                    number(inline.stats.region_bytes_read) / 1e6,
                    number(ours.stats.region_bytes_read) / 1e6,
                    number(ours.bytes) / 1e6
                ),
            ),
        );
        for (what, [inline, ours]) in ["the paper's array of 8 disks", "one of its disks"]
            .into_iter()
            .zip(on_heads)
        {
            let faster = ours / inline.max(1e-9);
            rows.push(
                Row::new(
                    format!("newest: restore from {what}, modelled, hybrid to conventional"),
                    "5; at least 4",
                    format!("{faster:.2}: {ours:.0} to {inline:.0} MB/s"),
                )
                .value(faster)
                .met(
                    faster >= TIMES_MIN,
                    "a restore reads no more of a container than it needs, and that costs seeks where it is scattered",
                ),
            );
        }
        let ratio = |of: &[Restored]| {
            of.last().map_or(0.0, Restored::speed_factor) / of.first().map_or(1.0, Restored::speed_factor)
        };
        let (falls, stays) = (ratio(conventional), ratio(hybrid));
        rows.push(
            Row::new(
                "MiB a container read, newest to oldest backup",
                "conventional falls by 86 % from week 2; RevDedup rises",
                format!("conventional {falls:.2}, hybrid {stays:.2}"),
            )
            .value(stays)
            .met(
                falls < 1.0 && stays > falls,
                "newer ones are not more scattered here",
            ),
        );
    }
    let plot = |name: &str, title: &str, label: &str, value: fn(&Restored) -> f64| Plot {
        name: name.to_owned(),
        title: title.to_owned(),
        subtitle: format!(
            "containers of {} MiB, memory of 96 MiB, on disk, cold",
            mib(size.container_bytes.into())
        ),
        x: Axis::linear("week"),
        y: Axis::linear(label),
        series: vec![
            Series::new("conventional", points(conventional, value)),
            Series::new("hybrid", points(hybrid, value)),
        ],
    };
    Experiment {
        name: "figure-6".to_owned(),
        title: "figure 6: restores of each backup".to_owned(),
        seeds: vec!["R2", "R7"],
        setup: format!(
            "{} {} Restores have 96 MiB of memory, as by default, half of which holds what they look ahead for; the store is opened anew and nothing of it is in \
             the page cache. The newest is the median of {RUNS}. \
             Disks with heads are a model under the same store and restores, with the page cache as it is: each disk has one head, which takes {:.1} ms to go elsewhere and then \
             reads {:.0} MB/s; the array has {} with stripes of {} KiB, and reads as the paper's does.",
            setup(size),
            data_words(size, stores),
            Disks::PAPERS.seek.as_secs_f64() * 1e3,
            number(Disks::PAPERS.bytes_a_second) / 1e6,
            Disks::PAPERS.count,
            Disks::PAPERS.stripe_bytes >> 10,
        ),
        rows,
        plots: vec![
            plot(
                "figure-6-containers",
                "Containers that restores read",
                "MiB for each container read",
                Restored::speed_factor,
            ),
            plot("figure-6-rates", "Rates of cold restores", "MB/s", Restored::rate),
        ],
    }
}

fn figure_8(
    size: &Size,
    stores: &Stores,
    [conventional, conventional_one]: [&[Restored]; 2],
    [hybrid, hybrid_one]: [&[Restored]; 2],
) -> Experiment {
    let gain = |many: &[Restored], one: &[Restored]| {
        let mut each: Vec<f64> = many
            .iter()
            .zip(one)
            .map(|(many, one)| many.rate() / one.rate())
            .collect();
        100.0 * (median(&mut each) - 1.0)
    };
    let row = |what: &str, paper: &str, many: &[Restored], one: &[Restored]| {
        let gain = gain(many, one);
        Row::new(
            format!("{what}: faster with the default threads"),
            paper,
            format!("{gain:.1} %"),
        )
        .value(gain)
    };
    let workers = AssembleOptions::for_cores(cores()).workers;
    Experiment {
        name: "figure-8".to_owned(),
        title: "figure 8: restores with reads ahead".to_owned(),
        seeds: vec!["R7"],
        setup: format!(
            "{} {} The paper tells the kernel what will be read, or does not. Here {workers} threads fetch, as by default, or one, which still fetches while another writes. \
             Cold page cache, 96 MiB of memory; medians over the backups.",
            setup(size),
            data_words(size, stores)
        ),
        rows: vec![
            row("conventional", "23.9 %", conventional, conventional_one),
            row("hybrid", "45.8 %", hybrid, hybrid_one),
        ],
        plots: vec![Plot {
            name: "figure-8".to_owned(),
            title: "Cold restores with one thread that fetches and more".to_owned(),
            subtitle: format!(
                "containers of {} MiB, memory of 96 MiB, on disk, cold",
                mib(size.container_bytes.into())
            ),
            x: Axis::linear("week"),
            y: Axis::linear("MB/s"),
            series: vec![
                Series::new(
                    format!("conventional, {workers} threads"),
                    points(conventional, Restored::rate),
                ),
                Series::new("conventional, 1 thread", points(conventional_one, Restored::rate)),
                Series::new(
                    format!("hybrid, {workers} threads"),
                    points(hybrid, Restored::rate),
                ),
                Series::new("hybrid, 1 thread", points(hybrid_one, Restored::rate)),
            ],
        }],
    }
}
