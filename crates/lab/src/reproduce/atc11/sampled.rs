//! Experiments on the index and look-ups alone: sampling, scale, equations 1 and 2, the form for
//! SSD.

use env::Clock;
use index::Eviction;
use index::sampling::{SamplingRate, predicted_efficiency, rate_that_fits};

use super::chunks::CONTAINER_CHUNKS;
use super::engine::CHUNK_BYTES;
use super::fill::{self, Halving, Scale};
use super::near_full::{self, BUDGET_BYTES, HOOKS};
use super::repeat::{self, Repeated, Setting};
use super::runs::{self, Measured};
use super::{Size, number, percent, share};
use crate::error::LabError;
use crate::reproduce::{Axis, Experiment, Part, Plot, Row, Run, Series};

/// R = 1/128.
const HALVINGS: u8 = 7;
/// The rates at which equation 2 is measured, as halvings.
const RATES: [u8; 8] = [2, 3, 4, 5, 6, 7, 8, 9];
/// The least share of synthetic duplicates that is found at the paper's rate.
const FOUND: f64 = 0.975;
const CACHED_CONTAINERS: u64 = 16;

/// Equation 1: progressive sampling.
pub(super) const EQUATION_1: Part = Part("equation-1");
/// Equation 2: duplicates found at a sampling rate.
pub(super) const EQUATION_2: Part = Part("equation-2");
/// Section 3.2.3: the form of the index for SSD.
pub(super) const RUNS: Part = Part("runs");
/// Figure 6, sections 4.1.1 and 4.3: the index near full.
pub(super) const INDEX: Part = Part("index");

/// Bytes of the backups that these experiments simulate.
pub(super) fn bytes(size: &Size, run: &Run<'_>) -> u64 {
    let scale = scale(size);
    let containers = fill::containers(scale) + fill::containers(scale) / 100;
    // At R = 1, R is halved after some 7 bytes a chunk. Until the last halving, the number of
    // chunks doubles each time.
    let halving = (size.halving_bytes as u64 / 7) << (HALVINGS - 1);
    let repeated = RATES.len() as u64 * size.repeated_containers * CONTAINER_CHUNKS;
    let chunks = run.bytes_of(INDEX, containers * CONTAINER_CHUNKS)
        + run.bytes_of(EQUATION_1, halving)
        + run.bytes_of(EQUATION_2, repeated);
    chunks * u64::from(CHUNK_BYTES)
}

fn scale(size: &Size) -> Scale {
    Scale {
        budget_bytes: usize::try_from(BUDGET_BYTES / size.index_divisor).unwrap_or(usize::MAX),
        // Slightly more, because the number of sampled chunks is random.
        hooks: (HOOKS + HOOKS / 4000) / size.index_divisor,
        rate: rate(HALVINGS),
    }
}

fn rate(halvings: u8) -> SamplingRate {
    SamplingRate::new(halvings).expect("far above the least")
}

/// Runs all of these experiments.
pub(super) fn run(size: &Size, clock: &dyn Clock, run: &mut Run<'_>) -> Result<(), LabError> {
    if run.wants(EQUATION_1) {
        run.progress.begin("equation 1");
        let halvings = fill::halve(size.halving_bytes, HALVINGS, run.progress)?;
        run.report(equation_1(size.halving_bytes, &halvings))?;
    }
    if run.wants(EQUATION_2) {
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
    }
    if run.wants(RUNS) {
        run.progress.begin("index in runs");
        let each = [1, 4, 8].map(|runs| runs::measure(size.runs_containers, runs, clock, run.progress));
        let measured = each.into_iter().collect::<Result<Vec<_>, _>>()?;
        run.report(in_runs(&measured))?;
    }
    if run.wants(INDEX) {
        run.progress.begin("index near full");
        let filled = fill::fill(scale(size), clock, run.progress)?;
        run.report(near_full::experiment(&filled, size.index_divisor))?;
    }
    Ok(())
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
            .met((0.9..1.15).contains(&ratio), "R is not within 0.9 and 1.15 of it")
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
    // R has its old value until a halving, and half of it from then on.
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
            // The number of chunks before each container's first hook has a mean over all
            // containers. The standard deviation of this mean is T / sqrt(containers).
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
        // Equation 2 is linear in T.
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
             again in its order, chunk by chunk, through sampled hooks and a cache with room for {cached} catalogs. The cache \
             drops the least recently used catalog first. Rates are powers of two: 1/128 keeps fewer hooks than the paper's 1/101, and equation 2 \
             has 96.90 % for it; 1/64 keeps more, 98.46 %; 1/101 has 97.56 %. A backup looks up a segment's chunks together \
             instead, and so also finds chunks before a hook (table 4)."
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
