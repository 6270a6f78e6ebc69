//! What is measured of the index and of look-ups alone: sampling, scale, equations 1 and 2, the form for SSD.

use env::Clock;
use index::Eviction;
use index::sampling::{SamplingRate, predicted_efficiency, rate_that_fits};

use super::chunks::CONTAINER_CHUNKS;
use super::engine::CHUNK_BYTES;
use super::fill::{self, Filled, Halving, Scale};
use super::repeat::{self, Repeated, Setting};
use super::runs::{self, Measured};
use super::{Size, number, percent, share};
use crate::error::LabError;
use crate::reproduce::{Axis, Experiment, Plot, Row, Run, Series};

/// The index of 1.2 billion hooks has this much memory at most.
const BUDGET_BYTES: u64 = 10_000_000_000;
const HOOKS: u64 = 1_200_000_000;
/// R = 1/128.
const HALVINGS: u8 = 7;
/// The paper's processor, in cycles a nanosecond.
const CYCLES: f64 = 3.0;
/// The rates that equation 2 is looked at for, as halvings.
const RATES: [u8; 8] = [2, 3, 4, 5, 6, 7, 8, 9];
/// Of synthetic duplicates at the paper's rate, this share is found.
const FOUND: f64 = 0.975;
/// A look-up rate near full is at least this share of that at 1 %.
const NEAR_FULL: f64 = 0.8;
const CACHED_CONTAINERS: u64 = 16;

/// Bytes of the backups that all this stands for.
pub(super) fn bytes(size: &Size) -> u64 {
    let scale = scale(size);
    let containers = fill::containers(scale) + fill::containers(scale) / 100;
    // R is halved when it has taken, at R = 1, some 7 bytes a chunk; until the last it is doubled each time.
    let halving = (size.halving_bytes as u64 / 7) << (HALVINGS - 1);
    let repeated = RATES.len() as u64 * size.repeated_containers * CONTAINER_CHUNKS;
    (containers * CONTAINER_CHUNKS + halving + repeated) * u64::from(CHUNK_BYTES)
}

fn scale(size: &Size) -> Scale {
    Scale {
        budget_bytes: usize::try_from(BUDGET_BYTES / size.index_divisor).unwrap_or(usize::MAX),
        // A little more: how many of so many chunks sample is drawn.
        hooks: (HOOKS + HOOKS / 4000) / size.index_divisor,
        rate: rate(HALVINGS),
    }
}

fn rate(halvings: u8) -> SamplingRate {
    SamplingRate::new(halvings).expect("far above the least")
}

/// Runs all of them.
pub(super) fn run(size: &Size, clock: &dyn Clock, run: &mut Run<'_>) -> Result<(), LabError> {
    run.progress.begin("equation 1");
    let halvings = fill::halve(size.halving_bytes, HALVINGS, run.progress)?;
    run.report(equation_1(size.halving_bytes, &halvings))?;
    run.progress.begin("equation 2");
    let each = RATES.iter().map(|halvings| {
        let setting = Setting {
            rate: rate(*halvings),
            containers: size.repeated_containers,
            cached: CACHED_CONTAINERS,
            eviction: Eviction::ContainerLru,
        };
        repeat::repeat(setting, run.progress)
    });
    let repeated = each.collect::<Result<Vec<_>, _>>()?;
    run.report(equation_2(&repeated))?;
    run.progress.begin("index in runs");
    let each = [1, 4, 8].map(|runs| runs::measure(size.runs_containers, runs, clock, run.progress));
    let measured = each.into_iter().collect::<Result<Vec<_>, _>>()?;
    run.report(in_runs(&measured))?;
    run.progress.begin("index near full");
    let filled = fill::fill(scale(size), clock, run.progress)?;
    run.report(near_full(&filled, size.index_divisor))
}

fn equation_1(budget_bytes: usize, halvings: &[Halving]) -> Experiment {
    let period = |one: &Halving| number(one.before.rates.data.period());
    let mut rows: Vec<Row> = halvings
        .iter()
        .map(|one| {
            let ratio = one.predicted * period(one);
            Row::new(
                format!(
                    "R when the index was full at {:.1} GB stored",
                    1000.0 * fill::terabytes(one.chunks)
                ),
                format!("1/{:.1} by equation 1", 1.0 / one.predicted),
                format!(
                    "{}, {:.2} bytes an entry",
                    one.before.rates.data, one.before.bytes_per_entry
                ),
            )
            .value(ratio)
            .met((0.9..1.15).contains(&ratio), "R is more than a tenth off")
        })
        .collect();
    let entry = halvings.last().map_or(0.0, |one| one.before.bytes_per_entry);
    let (memory, chunk, stored) = (64e9, f64::from(CHUNK_BYTES), 1e15);
    let here = rate_that_fits(memory, entry, chunk, stored);
    rows.push(
        Row::new(
            "R for table 1: 64 GB of memory for 1,000 TB",
            "1/86 with 22 bytes an entry",
            format!(
                "1/{:.1} with {entry:.2}, so 1/{}",
                1.0 / here,
                (1.0 / here).log2().ceil().exp2()
            ),
        )
        .value(here)
        .met(here >= 1.0 / 86.0, "an entry takes more"),
    );
    let at = |one: &Halving| 1000.0 * fill::terabytes(one.chunks);
    // R is what it was until then, and half of it from then on.
    let steps = halvings
        .iter()
        .flat_map(|one| [(at(one), period(one)), (at(one), 2.0 * period(one))]);
    let predicted = halvings.iter().map(|one| (at(one), 1.0 / one.predicted));
    Experiment {
        name: "equation-1".to_owned(),
        title: "equation 1 and section 3.2.2: progressive sampling".to_owned(),
        seeds: vec!["G4", "G5"],
        setup: format!(
            "The engine's index in memory, {} MiB, takes every chunk's hook from R = 1 on; chunks of 4 KiB, containers of 16 MiB. \
             R is a power of two: it is halved when the memory is used up, so at that moment it is equation 1's.",
            budget_bytes >> 20
        ),
        rows,
        plots: vec![Plot {
            name: "equation-1".to_owned(),
            title: "The sampling rate falls as the store grows".to_owned(),
            subtitle: format!("index memory {} MiB, chunks of 4 KiB", budget_bytes >> 20),
            x: Axis::doubling("stored, GB"),
            y: Axis::doubling("T = 1/R"),
            series: vec![
                Series::new("measured", steps.collect()),
                Series::new("equation 1", predicted.collect()),
            ],
        }],
    }
}

fn equation_2(repeated: &[Repeated]) -> Experiment {
    let period = |one: &Repeated| one.setting.rate.period();
    let mut rows: Vec<Row> = repeated
        .iter()
        .map(|one| {
            // One standard deviation of the mean of what comes before each container's first hook is T / sqrt(containers).
            let room =
                3.0 * number(period(one)) / number(one.setting.containers).sqrt() / number(CONTAINER_CHUNKS);
            Row::new(
                format!("duplicates found at R = {}", one.setting.rate),
                format!("{} by equation 2", percent(one.predicted)),
                format!(
                    "{}, {} catalogs loaded",
                    percent(one.found),
                    one.stats.catalog_loads
                ),
            )
            .value(one.found)
            .met(one.found >= one.predicted - room, "less than equation 2 has")
        })
        .collect();
    let paper = predicted_efficiency(101.0, number(CONTAINER_CHUNKS));
    let around = |wanted: u64| repeated.iter().find(|one| period(one) == wanted);
    if let Some((more, fewer)) = around(64).zip(around(128)) {
        // Equation 2 is a line over T.
        let at_101 = more.found + (fewer.found - more.found) * (101.0 - 64.0) / 64.0;
        rows.push(
            Row::new(
                "synthetic duplicates found at R = 1/101",
                format!(
                    "no less than 97 %; {} by equation 2, {} aimed at",
                    percent(paper),
                    percent(FOUND)
                ),
                format!(
                    "{} between {} at 1/64 and {} at 1/128",
                    percent(at_101),
                    percent(more.found),
                    percent(fewer.found)
                ),
            )
            .value(at_101)
            .met(at_101 >= FOUND, "less than is aimed at"),
        );
    }
    let points = |of: fn(&Repeated) -> f64| {
        let each = repeated.iter().map(|one| (number(period(one)), 100.0 * of(one)));
        each.collect::<Vec<_>>()
    };
    let (containers, cached) = repeated
        .first()
        .map_or((0, 0), |one| (one.setting.containers, one.setting.cached));
    Experiment {
        name: "equation-2".to_owned(),
        title: "equation 2 and section 4.2: duplicates found at a sampling rate".to_owned(),
        seeds: vec!["G3", "G4"],
        setup: format!(
            "The engine's look-ups (`index::Resolver`): a stream that fills {containers} containers of 4,096 chunks is looked up \
             again in its order, chunk by chunk, through sampled hooks and a cache with room for {cached} catalogs, the least \
             recently used going first. Rates are powers of two: 1/128 keeps fewer hooks than the paper's 1/101, and equation 2 \
             has 96.90 % for it; 1/64 keeps more, 98.46 %; 1/101 has 97.56 %. A backup looks up a segment's chunks together \
             instead, and so finds what stands before a hook (table 4)."
        ),
        rows,
        plots: vec![Plot {
            name: "equation-2".to_owned(),
            title: "Duplicates found at a sampling rate".to_owned(),
            subtitle: format!("{containers} containers of 16 MiB, cache of {cached}, chunk by chunk"),
            x: Axis::doubling("T = 1/R"),
            y: Axis::linear("duplicates found, %"),
            series: vec![
                Series::new("measured", points(|one| one.found)),
                Series::new("equation 2", points(|one| one.predicted)),
            ],
        }],
    }
}

fn in_runs(measured: &[Measured]) -> Experiment {
    let mut rows = Vec::new();
    for one in measured {
        let runs = if one.runs == 1 {
            "1 run".to_owned()
        } else {
            format!("{} runs", one.runs)
        };
        rows.push(
            Row::new(
                format!("blocks read for a look-up that finds its hook, {runs}"),
                "at most 1",
                format!(
                    "{:.4}, and {:.4} where there is none",
                    one.known.blocks, one.new.blocks
                ),
            )
            .value(one.known.blocks)
            .met(
                one.known.blocks < 1.02 && one.new.blocks < 0.02,
                "filters are passed in vain",
            ),
        );
        rows.push(Row::new(
            format!("look-up, {runs}, beside the index in memory"),
            "",
            format!(
                "{:.0} ns beside {:.0} found, {:.0} beside {:.0} not found",
                one.known.nanos, one.known.memory_nanos, one.new.nanos, one.new.memory_nanos
            ),
        ));
    }
    if let Some(one) = measured.first() {
        rows.push(Row::new(
            "bytes of a hook",
            "18",
            format!(
                "{:.2}, of which {:.2} are used by every look-up",
                share(one.bytes, one.hooks),
                share(one.resident_bytes, one.hooks)
            ),
        ));
        rows.push(Row::new(
            "writing the index anew",
            "128 GB in under 9 minutes: 237 MB/s of an SSD",
            format!("{:.0} MB/s sorted and written to memory", one.written),
        ));
    }
    let hooks = measured.first().map_or(0, |one| one.hooks);
    Experiment {
        name: "table-2-index".to_owned(),
        title: "section 3.2.3: the form of the index for SSD".to_owned(),
        seeds: vec!["G6"],
        setup: format!(
            "The engine's index in sorted runs, {:.1} million hooks at R = 1, asked by turns with the index in memory. Runs are in \
             memory: what a device takes for a block is not in the times. Summaries and filters, which every look-up uses, do not \
             count as blocks read.",
            number(hooks) / 1e6
        ),
        rows,
        plots: Vec::new(),
    }
}

fn near_full(filled: &Filled, divisor: u64) -> Experiment {
    let first = filled.loads.first();
    let Some((first, last)) = first.zip(filled.loads.last()) else {
        unreachable!("an index is asked at several loads");
    };
    let stats = last.stats;
    let hooks = stats.entries[0];
    let part = |what: &str| {
        if divisor == 1 {
            what.to_owned()
        } else {
            format!("{what} (a {divisor}th of the paper's)")
        }
    };
    let terabytes = fill::terabytes(filled.chunks);
    let least = |of: fn(&fill::Load) -> f64| of(last);
    let (known, new) = (least(|load| load.known_ratio), least(|load| load.new_ratio));
    let emptied = |which: &str, ratio: f64| {
        Row::new(
            format!("rate of look-ups {which}, near full to itself emptied to 1 %"),
            "slightly slower",
            format!("{ratio:.2}"),
        )
        .value(ratio)
        .met(
            ratio >= NEAR_FULL,
            "the fuller table misses the processor's caches more often",
        )
    };
    // Of those that a backup of duplicates makes, one in T finds: what comes before each container's first hook is asked for in vain.
    let mixed = |known: f64, new: f64| known + (number(filled.scale.rate.period()) - 1.0) * new;
    let of_other = mixed(last.known_ns * known, last.new_ns * new);
    let as_asked = of_other / mixed(last.known_ns, last.new_ns);
    let cycles = |nanos: f64| format!("{nanos:.0} ns, {:.0} cycles at 3 GHz", nanos * CYCLES);
    let insert = filled.loads.iter().map(|load| load.insert_ns).fold(0.0, f64::max);
    let period = filled.scale.rate.period();
    let sustained = number(period) * f64::from(CHUNK_BYTES) / last.known_ns;
    let rows = vec![
        Row::new(
            part("memory for 1.2 billion hooks"),
            "25 GB; at most 10 are aimed at",
            format!(
                "{:.2} GB for {:.3} billion, {:.2} bytes each",
                number(stats.bytes) / 1e9,
                number(hooks) / 1e9,
                stats.bytes_per_entry
            ),
        )
        .value(number(stats.bytes))
        .met(
            stats.bytes <= BUDGET_BYTES / divisor && hooks >= HOOKS / divisor && filled.lost == 0,
            "the index had to drop hooks",
        ),
        Row::new(
            part("data that they are the index of, in chunks of 4 KiB"),
            "500 TB, 123 billion chunks, at R = 1/101",
            format!(
                "{terabytes:.0} TB, {:.1} billion chunks, at R = 1/{period}",
                number(filled.chunks) / 1e9
            ),
        )
        .value(terabytes)
        .met(terabytes * number(divisor) >= 500.0, "less"),
        Row::new(
            "hooks that were added and are not found, of those asked for",
            "",
            format!(
                "{}; {} new chunks were taken for known ones",
                filled.lost, filled.made_up
            ),
        )
        .value(number(filled.lost))
        .met(filled.lost == 0, "hooks are lost"),
        Row::new(
            "rate of look-ups as backups make them, near full to another index at 1 %",
            "slightly slower",
            format!("{as_asked:.2}, one in {} finding", filled.scale.rate.period()),
        )
        .value(as_asked)
        .met(
            as_asked >= NEAR_FULL,
            "the fuller table misses the processor's caches more often",
        ),
        Row::new(
            "rate of look-ups that find, near full to another index at 1 %",
            "slightly slower",
            format!("{known:.2}"),
        )
        .value(known)
        .met(
            known >= NEAR_FULL,
            "the fuller table misses the processor's caches more often",
        ),
        Row::new(
            "rate of look-ups that find nothing, near full to another at 1 %",
            "slightly slower",
            format!("{new:.2}"),
        )
        .value(new)
        .met(
            new >= NEAR_FULL,
            "the fuller table misses the processor's caches more often",
        ),
        emptied("that find", filled.emptied_known_ratio),
        emptied("that find nothing", filled.emptied_new_ratio),
        Row::new(
            "look-up, near full",
            "12,020 cycles at most",
            cycles(last.known_ns),
        )
        .value(last.known_ns)
        .met(last.known_ns * CYCLES <= 12_020.0, "slower"),
        Row::new("insertion, at any load", "7,619 cycles at most", cycles(insert))
            .value(insert)
            .met(insert * CYCLES <= 7_619.0, "slower"),
        Row::new(
            "removal, one container in 16 together",
            "16,836 cycles at most",
            cycles(filled.remove_ns),
        )
        .value(filled.remove_ns)
        .met(filled.remove_ns * CYCLES <= 16_836.0, "slower"),
        Row::new(
            "rate of duplicates that the index can sustain, one thread",
            "98.5 GB/s at T = 101",
            format!("{sustained:.0} GB/s at T = {period}"),
        )
        .value(sustained)
        .met(sustained >= 98.5, "slower"),
    ];
    let points = |of: fn(&fill::Load) -> f64| {
        let each = filled.loads.iter().map(|load| (100.0 * load.share, of(load)));
        each.collect::<Vec<_>>()
    };
    let subtitle = format!(
        "{:.2} GB for {:.2} billion hooks, R = 1/{period}",
        number(filled.scale.budget_bytes as u64) / 1e9,
        number(hooks) / 1e9
    );
    let plot = |name: &str, title: &str, y: Axis, series| Plot {
        name: name.to_owned(),
        title: title.to_owned(),
        subtitle: subtitle.clone(),
        x: Axis::linear("hooks, % of all"),
        y,
        series,
    };
    Experiment {
        name: "figure-6-index".to_owned(),
        title: "figure 6, sections 4.1.1 and 4.3: the index near full".to_owned(),
        seeds: vec!["G4", "G5", "G11"],
        setup: format!(
            "The engine's index in memory (`index::MemoryIndex`), at most {:.2} GB. The fingerprint of each of {:.1} billion chunks \
             is drawn, and of each container of 4,096 the hooks that stay at R = 1/{period} are added. Look-ups are timed by turns \
             with those of another index of the same budget at 1 % of the hooks (load {:.2} of its slots; {:.2} near full), which has \
             taken so much less memory, and then with those of the same index after all but 1 % were removed, in the memory that \
             it has had: medians. Known hooks are drawn from all that an index holds.",
            number(filled.scale.budget_bytes as u64) / 1e9,
            number(filled.chunks) / 1e9,
            first.stats.load,
            stats.load
        ),
        rows,
        plots: vec![
            plot(
                "figure-6-index",
                "Look-ups as the index fills",
                Axis::linear("rate, of that at 1 %"),
                vec![
                    Series::new("found", points(|load| load.known_ratio)),
                    Series::new("not found", points(|load| load.new_ratio)),
                ],
            ),
            plot(
                "figure-6-index-times",
                "Time of a look-up and of an insertion",
                Axis::linear("nanoseconds"),
                vec![
                    Series::new("look-up, found", points(|load| load.known_ns)),
                    Series::new("look-up, not found", points(|load| load.new_ns)),
                    Series::new("insertion", points(|load| load.insert_ns)),
                ],
            ),
        ],
    }
}
