//! Rates of whole backups: figures 4 and 6, tables 2 and 3.

use super::engine::cores;
use super::throughput::{self, IndexForm, Rates, Setting};
use super::{Size, gib, number, percent, streams};
use crate::error::LabError;
use crate::reproduce::{Axis, Experiment, Part, Plot, Row, Run, Series};

/// Fingerprinting threads in table 3.
const WORKERS: [usize; 3] = [1, 2, 4];
/// Backups of each stream: of unique data, of duplicates, and of these again.
const PASSES: u64 = 3;
/// Forms of the index are compared with at most so many streams.
const COMPARED_MAX: u64 = 16;
/// A time or rate counts as equal to another if it is at least this share of it.
const SAME: f64 = 0.8;
const STORE: &str = "Backups by the engine, chunks of 4 KiB, containers of 16 MiB, not compressed, into a store in memory that gives \
                     up data containers' regions, which were fingerprinted, sealed and put";

/// Figures 4 and 6, tables 2 and 3: concurrent streams, workers, forms of the index, and an index
/// near full.
pub(super) const PART: Part = Part("throughput");

/// Bytes of all backups.
pub(super) fn bytes(size: &Size) -> u64 {
    let compared = 4 * compared(size).count() * size.repeats;
    let runs = (size.streams.len() + compared + WORKERS.len()) as u64;
    runs * PASSES * size.stream_bytes
}

fn compared(size: &Size) -> impl Iterator<Item = u64> {
    size.streams
        .iter()
        .copied()
        .filter(|streams| *streams <= COMPARED_MAX)
}

/// Runs all of these experiments.
pub(super) fn run(size: &Size, run: &mut Run<'_>) -> Result<(), LabError> {
    run.progress.begin("streams at once");
    let setting = |streams, index| Setting {
        streams,
        bytes: size.stream_bytes,
        workers: None,
        index,
    };
    let each = size.streams.iter();
    let rates = each.map(|streams| throughput::back_up(setting(*streams, IndexForm::Runs), run.progress));
    let rates = rates.collect::<Result<Vec<_>, _>>()?;
    run.report(figure_4(&rates))?;

    run.progress.begin("workers");
    let each = WORKERS.map(|workers| {
        let setting = Setting {
            workers: Some(workers),
            ..setting(1, IndexForm::Runs)
        };
        throughput::back_up(setting, run.progress)
    });
    let rates = each.into_iter().collect::<Result<Vec<_>, _>>()?;
    run.report(table_3(&rates))?;

    run.progress.begin("forms of the index");
    let mut pairs = Vec::new();
    for streams in compared(size) {
        let forms = [IndexForm::Memory, IndexForm::Runs];
        pairs.push(best(forms.map(|form| setting(streams, form)), size.repeats, run)?);
    }
    run.report(table_2(&pairs))?;

    run.progress.begin("index near full");
    let mut pairs = Vec::new();
    for streams in compared(size) {
        let bytes = size.near_full_bytes;
        let forms = [IndexForm::Empty(bytes), IndexForm::NearFull(bytes)];
        pairs.push(best(forms.map(|form| setting(streams, form)), size.repeats, run)?);
    }
    run.report(figure_6(&pairs, size.near_full_bytes))
}

/// Two settings, measured alternately. Each rate is the best of several runs, because other work on
/// the machine only slows it.
struct Pair {
    rates: [Rates; 2],
    /// The worst rate of any run divided by the best of the same kind: the machine's own variation.
    /// 1 with one run.
    spread: f64,
}

fn best(settings: [Setting; 2], repeats: usize, run: &mut Run<'_>) -> Result<Pair, LabError> {
    let once = || -> Result<[Rates; 2], LabError> {
        let [first, second] = settings.map(|setting| throughput::back_up(setting, run.progress));
        Ok([first?, second?])
    };
    let mut best = once()?;
    let mut worst = best;
    for _ in 1..repeats {
        let again = once()?;
        for ((best, worst), again) in best.iter_mut().zip(&mut worst).zip(again) {
            best.unique = best.unique.max(again.unique);
            best.duplicates = best.duplicates.max(again.duplicates);
            best.again = best.again.max(again.again);
            best.found = best.found.min(again.found);
            worst.unique = worst.unique.min(again.unique);
            worst.duplicates = worst.duplicates.min(again.duplicates);
            worst.again = worst.again.min(again.again);
        }
    }
    let each = worst.iter().zip(&best).flat_map(|(worst, best)| {
        let (unique, duplicates) = (worst.unique / best.unique, worst.duplicates / best.duplicates);
        [unique, duplicates, worst.again / best.again]
    });
    Ok(Pair {
        spread: each.fold(1.0, f64::min),
        rates: best,
    })
}

fn rates_words(one: &Rates) -> String {
    format!(
        "{:.0} MB/s unique, {:.0} duplicates, {:.0} these again",
        one.unique, one.duplicates, one.again
    )
}

fn points(rates: &[Rates], x: fn(&Rates) -> f64, y: fn(&Rates) -> f64) -> Vec<(f64, f64)> {
    rates.iter().map(|one| (x(one), y(one))).collect()
}

fn figure_4(rates: &[Rates]) -> Experiment {
    let paper = |streams| match streams {
        1 => "about 880, 950 and 1,760 MB/s",
        4 => "about 1,000, 2,730 and 6,290 MB/s",
        16 => "about 980, 4,810 and 11,410 MB/s",
        32 => "about 980, 6,340 and 11,520 MB/s",
        64 => "about 990, 6,610 and 11,490 MB/s",
        _ => "",
    };
    let mut rows: Vec<Row> = rates
        .iter()
        .map(|one| {
            Row::new(
                streams(one.setting.streams),
                paper(one.setting.streams),
                rates_words(one),
            )
        })
        .collect();
    let many = || rates.iter().filter(|one| one.setting.streams > 1);
    let ratio = many().map(|one| one.duplicates / one.unique).fold(0.0, f64::max);
    rows.push(
        Row::new(
            "duplicates to unique data, most of several streams",
            "6.7",
            format!("{ratio:.2}"),
        )
        .value(ratio)
        .met(
            ratio >= 2.0,
            format!(
                "unique data waits for no disk here, and both are fingerprinted by {} cores, which is most of what duplicates cost",
                cores()
            ),
        ),
    );
    let one = rates.first().map_or(0.0, |one| one.unique);
    let least = many()
        .map(|several| several.unique / one)
        .fold(f64::INFINITY, f64::min);
    rows.push(
        Row::new(
            "unique data, several streams to one",
            "1.1: steady, where the file system falls to a third",
            format!("{least:.2} at least"),
        )
        .value(least)
        .met(
            least >= SAME,
            "each stream is a session of its own, with threads and an index to open",
        ),
    );
    let found = rates.iter().map(|one| one.found).fold(1.0, f64::min);
    rows.push(
        Row::new("duplicates found", "97 %", percent(found))
            .value(found)
            .met(found >= 0.97, "fewer are found"),
    );
    let bytes = rates.first().map_or(0, |one| one.setting.bytes);
    let at = |one: &Rates| number(one.setting.streams);
    Experiment {
        name: "figure-4".to_owned(),
        title: "figure 4: backups of many streams at once".to_owned(),
        seeds: vec!["G10", "G3"],
        setup: format!(
            "{STORE}. {} of unique data in all, each stream a series of its own; then the same by a store that was opened anew, and \
             the same at once again. Our backups forget catalogs that were read before when they begin, so these are as cold as \
             those. The paper's figures are read off its table 2, without the percentages there. It has no disk here to be as fast \
             as: rates beside one are in the results of the project. {} cores.",
            gib(bytes),
            cores()
        ),
        rows,
        plots: vec![Plot {
            name: "figure-4".to_owned(),
            title: "Backups of many streams at once".to_owned(),
            subtitle: format!(
                "{} in all, containers of 16 MiB, payload given up, {} cores",
                gib(bytes),
                cores()
            ),
            x: Axis::doubling("streams"),
            y: Axis::linear("MB/s of all streams"),
            series: vec![
                Series::new("unique data", points(rates, at, |one| one.unique)),
                Series::new("duplicates", points(rates, at, |one| one.duplicates)),
                Series::new("duplicates again", points(rates, at, |one| one.again)),
            ],
        }],
    }
}

fn table_3(rates: &[Rates]) -> Experiment {
    let paper = [
        "347, 354 and 356 MB/s",
        "599, 612 and 612 MB/s",
        "900, 1,167 and 1,172 MB/s",
    ];
    let workers = |one: &Rates| number(one.setting.workers.unwrap_or(1) as u64);
    let mut rows: Vec<Row> = rates
        .iter()
        .zip(paper)
        .map(|(one, paper)| Row::new(format!("{} workers", workers(one)), paper, rates_words(one)))
        .collect();
    if let [one, two, ..] = rates {
        let why = format!(
            "{} cores, which the thread that reads, the one that cuts and those that write share with the workers",
            cores()
        );
        for (what, paper, ratio) in [
            ("unique data", "1.73", two.unique / one.unique),
            ("duplicates", "1.73", two.duplicates / one.duplicates),
        ] {
            rows.push(
                Row::new(
                    format!("{what}, two workers to one"),
                    paper,
                    format!("{ratio:.2}"),
                )
                .value(ratio)
                .met(ratio >= 1.3, why.clone()),
            );
        }
    }
    let bytes = rates.first().map_or(0, |one| one.setting.bytes);
    Experiment {
        name: "table-3".to_owned(),
        title: "table 3: one stream and more fingerprinting threads".to_owned(),
        seeds: vec!["G10"],
        setup: format!(
            "{STORE}. One stream of {} of unique data, and twice more. The machine has {} cores. No network is between: the paper's \
             360, 697, 1,023 and 1,319 MB/s with 1 to 4 cores are without one, too.",
            gib(bytes),
            cores()
        ),
        rows,
        plots: vec![Plot {
            name: "table-3".to_owned(),
            title: "One stream and more fingerprinting threads".to_owned(),
            subtitle: format!(
                "{}, containers of 16 MiB, payload given up, {} cores",
                gib(bytes),
                cores()
            ),
            x: Axis::doubling("workers"),
            y: Axis::linear("MB/s"),
            series: vec![
                Series::new("unique data", points(rates, workers, |one| one.unique)),
                Series::new("duplicates", points(rates, workers, |one| one.duplicates)),
            ],
        }],
    }
}

/// Rows that compare the second form with the first.
fn beside(pairs: &[Pair], paper: impl Fn(u64) -> &'static str) -> Vec<Row> {
    let row = |pair: &Pair| {
        let [first, second] = &pair.rates;
        let ratios = [
            second.unique / first.unique,
            second.duplicates / first.duplicates,
            second.again / first.again,
        ];
        let least = ratios.into_iter().fold(f64::INFINITY, f64::min);
        let ours = ratios
            .map(|ratio| format!("{:+.1} %", 100.0 * (ratio - 1.0)))
            .join(", ");
        let apart = percent(1.0 - pair.spread);
        let why = if least >= pair.spread {
            format!("cannot be judged: runs of the same form were up to {apart} apart")
        } else {
            format!("slower, and runs of the same form were no more than {apart} apart")
        };
        Row::new(
            format!(
                "{}: unique, duplicates, these again",
                streams(first.setting.streams)
            ),
            paper(first.setting.streams),
            format!("{ours} ({})", rates_words(second)),
        )
        .value(least)
        .met(least >= SAME, why)
    };
    pairs.iter().map(row).collect()
}

fn both(pairs: &[Pair], names: [&str; 2]) -> Vec<Series> {
    let of = |at: usize, y: fn(&Rates) -> f64| -> Vec<(f64, f64)> {
        let each = pairs
            .iter()
            .map(|pair| (number(pair.rates[at].setting.streams), y(&pair.rates[at])));
        each.collect()
    };
    let [first, second] = names;
    vec![
        Series::new(format!("unique, {first}"), of(0, |one| one.unique)),
        Series::new(format!("unique, {second}"), of(1, |one| one.unique)),
        Series::new(format!("duplicates, {first}"), of(0, |one| one.duplicates)),
        Series::new(format!("duplicates, {second}"), of(1, |one| one.duplicates)),
    ]
}

fn table_2(pairs: &[Pair]) -> Experiment {
    let paper = |streams| match streams {
        1 => "-4.9 %, -26.4 %, +12.9 %",
        4 => "-0.5 %, -6.3 %, +0.6 %",
        16 => "+1.9 %, -0.2 %, +5.1 %",
        _ => "",
    };
    Experiment {
        name: "table-2".to_owned(),
        title: "table 2: backups with the index in runs, beside those with it in memory".to_owned(),
        seeds: vec!["G6", "G10"],
        setup: format!(
            "{STORE}. A percentage says how much faster or slower backups are with the index in runs than with all hooks in memory. \
             The runs are in memory too, so no backup waits for a device. Each figure is the best of some runs by turns."
        ),
        rows: beside(pairs, paper),
        plots: vec![Plot {
            name: "table-2".to_owned(),
            title: "Backups with the index in runs and in memory".to_owned(),
            subtitle: format!("containers of 16 MiB, payload given up, {} cores", cores()),
            x: Axis::doubling("streams"),
            y: Axis::linear("MB/s of all streams"),
            series: both(pairs, ["in memory", "in runs"]),
        }],
    }
}

fn figure_6(pairs: &[Pair], bytes: u64) -> Experiment {
    let used = pairs.first().map_or(0.0, |pair| pair.rates[1].index_used);
    Experiment {
        name: "figure-6".to_owned(),
        title: "figure 6: backups into a store whose index is nearly full".to_owned(),
        seeds: vec!["G11", "G10"],
        setup: format!(
            "{STORE}. The index has {} MiB and is {} full of other containers' hooks before the first backup, beside one that is \
             empty; the best of some runs by turns. How the index itself fares at 1.2 billion hooks is an experiment of its own.",
            bytes >> 20,
            percent(used)
        ),
        rows: beside(pairs, |_| "about the same, one stream slightly slower"),
        plots: vec![Plot {
            name: "figure-6".to_owned(),
            title: "Backups with an empty index and a nearly full one".to_owned(),
            subtitle: format!(
                "index of {} MiB, {} full, containers of 16 MiB, payload given up",
                bytes >> 20,
                percent(used)
            ),
            x: Axis::doubling("streams"),
            y: Axis::linear("MB/s of all streams"),
            series: both(pairs, ["empty", "near full"]),
        }],
    }
}
