//! Restores after all weeks: figures 6 and 8. Layout repair is added, which the paper does not
//! have.

use std::time::Duration;

use onefold::{AssembleOptions, AssembleStats};

use super::data::data_bytes;
use super::weeks::{REPAIR_PERCENTS, Stores, data_words};
use super::{Size, cores, median, megabytes_a_second, mib, number, requests, setup, sg1, share};
use crate::error::LabError;
use crate::reproduce::stores::array::Disks;
use crate::reproduce::stores::engine::Engine;
use crate::reproduce::{Axis, Experiment, Plot, Row, Run, Series};

/// For the newest backup: the least factor of fewer containers, and of speed.
const TIMES_MIN: f64 = 4.0;
/// Restores of the newest backup. The median counts.
const RUNS: usize = 3;
/// Disks that this machine does not have.
const HEADS: [(&str, Disks); 2] = [
    ("the paper's array of 8 disks", Disks::PAPERS),
    ("one of its disks", Disks::ONE),
];

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

/// Approximate bytes of all restores.
pub(super) fn bytes(size: &Size) -> u64 {
    let each = data_bytes(&sg1(size.weeks)) / u64::from(size.weeks.1);
    let restored = (size.weeks.1 as usize).div_ceil(size.restored_every) + RUNS;
    // Two restores for two layouts, and one for each repaired store; the newest backup of each from
    // all kinds of disks with heads.
    let repaired = REPAIR_PERCENTS.len();
    each * ((4 + repaired) * restored + (2 + repaired) * HEADS.len() + requests::RESTORES) as u64
}

/// Restores backups of both stores, with the default threads and with one.
pub(super) fn run(size: &Size, stores: &Stores, run: &mut Run<'_>) -> Result<(), LabError> {
    run.progress.begin("figures 6 and 8");
    let default = AssembleOptions::for_cores(cores());
    let one = default.workers(1).prefetch_threads(0);
    let all = |engine: &Engine, options| restore_all(size, stores, engine, options, run);
    let [conventional, conventional_one] = [
        all(&stores.conventional, default)?,
        all(&stores.conventional, one)?,
    ];
    let [hybrid, hybrid_one] = [all(&stores.hybrid, default)?, all(&stores.hybrid, one)?];
    let mut layouts = vec![
        Restores::new(stores, &stores.conventional, conventional, default, run)?,
        Restores::new(stores, &stores.hybrid, hybrid, default, run)?,
    ];
    for repaired in &stores.repaired {
        let of_repaired = all(&repaired.engine, default)?;
        layouts.push(Restores::new(
            stores,
            &repaired.engine,
            of_repaired,
            default,
            run,
        )?);
    }
    run.report(figure_6(size, stores, &layouts))?;
    let [conventional, hybrid] = [&layouts[0].each, &layouts[1].each];
    run.report(figure_8(
        size,
        stores,
        [conventional, &conventional_one],
        [hybrid, &hybrid_one],
    ))?;
    requests::run(size, stores, run)
}

fn restore_all(
    size: &Size,
    stores: &Stores,
    engine: &Engine,
    options: AssembleOptions,
    run: &Run<'_>,
) -> Result<Vec<Restored>, LabError> {
    let backups = engine.backups()?;
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

/// Restores from one store.
struct Restores {
    each: Vec<Restored>,
    /// Restores of the newest backup from [`HEADS`], in MB (10^6) a second.
    on_heads: [f64; 2],
}

impl Restores {
    fn new(
        stores: &Stores,
        engine: &Engine,
        each: Vec<Restored>,
        options: AssembleOptions,
        run: &Run<'_>,
    ) -> Result<Self, LabError> {
        let mut on_heads = [0.0; 2];
        for ((_, disks), rate) in HEADS.into_iter().zip(&mut on_heads) {
            if let (Some(backup), Some(week)) = (engine.backups()?.last(), stores.weeks.last()) {
                let (took, _) = engine.restore_from(disks, *backup, options)?;
                *rate = megabytes_a_second(week.bytes, took);
                run.progress.advance(week.bytes)?;
            }
        }
        Ok(Self { each, on_heads })
    }
}

fn points(of: &[Restored], value: fn(&Restored) -> f64) -> Vec<(f64, f64)> {
    of.iter().map(|one| (number(one.week), value(one))).collect()
}

/// Rows that compare the newest backup in a layout with the conventional one.
fn newest(what: &str, inline: &Restores, ours: &Restores) -> Vec<Row> {
    let (Some(of_inline), Some(of_ours)) = (inline.each.last(), ours.each.last()) else {
        return Vec::new();
    };
    let fewer = share(of_inline.stats.containers_read, of_ours.stats.containers_read);
    let faster = of_ours.rate() / of_inline.rate();
    let mut rows = vec![
        Row::new(
            format!("newest: containers read, conventional to {what}"),
            "5 by throughput; at least 4",
            format!(
                "{fewer:.2}: {} to {}; {:.2} to {:.2} MiB restored a container read",
                of_inline.stats.containers_read,
                of_ours.stats.containers_read,
                of_inline.speed_factor(),
                of_ours.speed_factor()
            ),
        )
        .value(fewer)
        .met(
            fewer >= TIMES_MIN,
            "the images are smaller than the paper's: all of the conventional store is few containers, which memory holds more of",
        ),
        Row::new(
            format!("newest: cold restore, {what} to conventional"),
            "5; at least 4",
            format!("{faster:.2}: {:.0} to {:.0} MB/s", of_ours.rate(), of_inline.rate()),
        )
        .value(faster)
        .met(
            faster >= TIMES_MIN,
            format!(
                "this disk has no heads to move, so scattered reads cost little; and a restore reads only the regions that it needs: {:.0} and \
                 {:.0} MB for {:.0} MB",
                number(of_inline.stats.region_bytes_read) / 1e6,
                number(of_ours.stats.region_bytes_read) / 1e6,
                number(of_ours.bytes) / 1e6
            ),
        ),
    ];
    for ((disks, _), (inline, ours)) in HEADS
        .into_iter()
        .zip(inline.on_heads.into_iter().zip(ours.on_heads))
    {
        let faster = ours / inline.max(1e-9);
        rows.push(
            Row::new(
                format!("newest: restore from {disks}, modelled, {what} to conventional"),
                "5; at least 4",
                format!("{faster:.2}: {ours:.0} to {inline:.0} MB/s"),
            )
            .value(faster)
            .met(
                faster >= TIMES_MIN,
                "the paper reads whole containers; a restore here reads only the regions that it needs, which makes conventional restores faster than the \
                 paper's; and both layouts seek equally often to catalogs and nodes",
            ),
        );
    }
    rows
}

fn with_repair(percent: u16) -> String {
    format!("hybrid with layout repair of {percent} %")
}

fn figure_6(size: &Size, stores: &Stores, layouts: &[Restores]) -> Experiment {
    let repaired = stores.repaired.iter();
    let names = ["conventional".to_owned(), "hybrid".to_owned()].into_iter();
    let names: Vec<String> = names
        .chain(repaired.map(|one| with_repair(one.percent)))
        .collect();
    let mut rows = Vec::new();
    if let [conventional, hybrid, ..] = layouts {
        for (of, what) in layouts.iter().zip(&names).skip(1) {
            rows.extend(newest(what, conventional, of));
        }
        let ratio = |of: &[Restored]| {
            of.last().map_or(0.0, Restored::speed_factor) / of.first().map_or(1.0, Restored::speed_factor)
        };
        let (falls, stays) = (ratio(&conventional.each), ratio(&hybrid.each));
        rows.push(
            Row::new(
                "MiB a container read, newest to oldest backup",
                "conventional falls by 86 % from week 2; RevDedup rises",
                format!("conventional {falls:.2}, hybrid {stays:.2}"),
            )
            .value(stays)
            .met(
                falls < 1.0 && stays > falls,
                "newer conventional backups are not more scattered than older ones here",
            ),
        );
    }
    for repaired in &stores.repaired {
        let part = share(repaired.by_repairs, repaired.new);
        rows.push(
            Row::new(
                format!(
                    "{}: copied by repairs, of the bytes stored anew",
                    with_repair(repaired.percent)
                ),
                "",
                format!(
                    "{part:.2}: {:.0} of {:.0} MB; {:.0} MB by prunes; optimize and prune took {:.1} s in all",
                    number(repaired.by_repairs) / 1e6,
                    number(repaired.new) / 1e6,
                    number(repaired.by_prunes) / 1e6,
                    repaired.took.as_secs_f64()
                ),
            )
            .value(part)
            .met(
                100.0 * part <= f64::from(repaired.percent),
                "more is copied than was allowed",
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
        series: layouts
            .iter()
            .zip(&names)
            .map(|(of, name)| Series::new(name, points(&of.each, value)))
            .collect(),
    };
    Experiment {
        name: "figure-6".to_owned(),
        title: "figure 6: restores of each backup".to_owned(),
        seeds: vec!["R2", "R7", "L9"],
        setup: format!(
            "{} {} Restores have 96 MiB of memory, as by default, half of which holds what they look ahead for; the store is opened anew and nothing of it is in \
             the page cache. The newest is the median of {RUNS}. Disks with heads are a model under the same store and restores, with the page cache as it is: each disk has one \
             head, which takes {:.1} ms to go elsewhere and then reads {:.0} MB/s; the array has {} with stripes of {} KiB, and reads as the paper's does. With layout repair, \
             which the paper has not, optimize puts the newest backup in order too, and copies for it at most so many percent of what it stored anew.",
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
