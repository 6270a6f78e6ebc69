//! Figures 2 and 8: the gain of more memory, and ways to use it [Lillibridge 4.3, 4.5; L2, L5].

use simulate::{Assembly, Memory, Outcome};

use super::data::{Data, said_mib};
use crate::reproduce::statistics::{AVERAGED, fragmentation, is_near, last, speed, together};
use crate::reproduce::{Axis, Experiment, Plot, Row, Series};

/// From 32 MB to 8 GB.
const SIZES_MIB: [u64; 9] = [32, 64, 128, 256, 512, 1024, 2048, 4096, 8192];
/// The sizes that the paper regards as practical.
const PRACTICAL_MIB: [u64; 4] = [128, 256, 512, 1024];
/// The data set is divided into so many equal parts, and evaluated after each.
const PERIODS: u64 = 4;

/// The backups over which a period's averages are taken, numbered from 0.
fn period(data: &Data, n: u64) -> std::ops::Range<u64> {
    let end = data.backups * (n + 1) / PERIODS;
    end.saturating_sub(AVERAGED as u64)..end
}

/// The memories with which this backup is restored.
pub(super) fn memories(data: &Data, backup: u64) -> Vec<Memory> {
    let each = |assembly| SIZES_MIB.map(|mib| data.memory(mib, assembly));
    if period(data, PERIODS - 1).contains(&backup) {
        [Assembly::Lru, Assembly::Fixed, Assembly::Rolling]
            .into_iter()
            .flat_map(each)
            .collect()
    } else if (0..PERIODS).any(|n| period(data, n).contains(&backup)) {
        each(Assembly::Lru).to_vec()
    } else {
        Vec::new()
    }
}

fn of_period<'a>(data: &Data, outcomes: &'a [Outcome], n: u64) -> &'a [Outcome] {
    let place = |backup| usize::try_from(backup).map_or(outcomes.len(), |at: usize| at.min(outcomes.len()));
    let period = period(data, n);
    &outcomes[place(period.start)..place(period.end)]
}

fn speeds(data: &Data, outcomes: &[Outcome], assembly: Assembly) -> Vec<(f64, f64)> {
    SIZES_MIB
        .iter()
        .filter_map(|mib| {
            #[expect(clippy::cast_precision_loss, reason = "some thousands")]
            let x = *mib as f64;
            Some((x, speed(outcomes, data.memory(*mib, assembly))?))
        })
        .collect()
}

fn plot(name: String, title: String, data: &Data, series: Vec<Series>) -> Plot {
    Plot {
        name,
        title,
        subtitle: data.setup(),
        x: Axis::doubling("memory, MiB of the paper's"),
        y: Axis::doubling("speed factor, MiB for each container read"),
        series,
    }
}

/// Figure 2: speed over the size of the LRU cache, after each period.
pub(super) fn lru(data: &Data, outcomes: &[Outcome]) -> Experiment {
    let name = format!("figure-02-{}", data.name);
    let gain = |n, (less, more)| {
        let outcomes = of_period(data, outcomes, n);
        let speed = |mib| speed(outcomes, data.memory(mib, Assembly::Lru));
        Some(speed(more)? / speed(less)?)
    };
    let named = |n| {
        let period = period(data, n);
        format!("backups {}-{}", period.start + 1, period.end)
    };
    let mut rows = Vec::new();
    for n in [0, PERIODS - 1] {
        let (first, last) = data.says.most_memory;
        let (least, most) = if n == 0 { first } else { last };
        if let Some(gain) = gain(n, (32, 8192)) {
            rows.push(
                Row::new(
                    format!("8 GiB to 32 MiB, LRU, {}", named(n)),
                    format!("{least}-{most}X"),
                    format!("{gain:.1}X"),
                )
                .value(gain)
                .met(is_between(gain, (least, most)), data.far_with_lru(32)),
            );
        }
        let (first, last) = data.says.more_memory;
        let paper = if n == 0 { first } else { last };
        if let Some(gain) = gain(n, (128, 1024)) {
            rows.push(
                Row::new(
                    format!("1 GiB to 128 MiB, LRU, {}", named(n)),
                    format!("{paper}X"),
                    format!("{gain:.1}X"),
                )
                .value(gain)
                .met(is_near(gain, paper), data.far_with_lru(128)),
            );
        }
    }
    let series = (0..PERIODS).map(|n| {
        let points = speeds(data, of_period(data, outcomes, n), Assembly::Lru);
        Series::new(named(n), points)
    });
    let series = series.collect();
    Experiment {
        title: format!("figure 2: speed as the LRU cache grows, {}", data.name),
        seeds: vec!["L2"],
        setup: data.setup(),
        rows,
        plots: vec![plot(
            name.clone(),
            format!("Speed as the LRU cache grows, {}", data.name),
            data,
            series,
        )],
        name,
    }
}

/// Whether the value is within the bounds, or near one of them.
fn is_between(ours: f64, (least, most): (f64, f64)) -> bool {
    (least..=most).contains(&ours) || is_near(ours, least) || is_near(ours, most)
}

/// The same figures by other averages. The paper's captions name its average, so only figures of
/// that one are judged.
fn by_other_averages(data: &Data, outcomes: &[Outcome]) -> Vec<Row> {
    type Speed = fn(&[Outcome], Memory) -> Option<f64>;
    let averages: [(&str, Speed); 2] = [
        ("by the mean of containers read a MiB", |outcomes, memory| {
            Some(1.0 / fragmentation(outcomes, memory)?)
        }),
        ("by containers read for all of these backups together", together),
    ];
    let rows = averages.into_iter().filter_map(|(which, speed)| {
        let speed = |mib, assembly| speed(outcomes, data.memory(mib, assembly));
        let ratios =
            PRACTICAL_MIB.map(|mib| Some(speed(mib, Assembly::Rolling)? / speed(mib, Assembly::Lru)?));
        let ratios: Option<Vec<f64>> = ratios.into_iter().collect();
        let ratios: Vec<String> = ratios?.iter().map(|ratio| format!("{ratio:.1}X")).collect();
        Some(Row::new(
            format!(
                "rolling to LRU {which}, {}",
                PRACTICAL_MIB.map(said_mib).join(", ")
            ),
            "no figure",
            ratios.join(", "),
        ))
    });
    rows.collect()
}

/// Figure 8: LRU, the fixed and the rolling area.
pub(super) fn assembly(data: &Data, outcomes: &[Outcome]) -> Experiment {
    let name = format!("figure-08-{}", data.name);
    let outcomes = last(outcomes);
    let speed = |mib, assembly| speed(outcomes, data.memory(mib, assembly));
    let mut rows = Vec::new();
    let (least, most) = data.says.rolling;
    let must = least.min(2.0);
    for mib in PRACTICAL_MIB {
        let ratio = |lru_mib| Some(speed(mib, Assembly::Rolling)? / speed(lru_mib, Assembly::Lru)?);
        if let Some(ratio) = ratio(mib) {
            let what = format!("rolling to LRU, average speed, {}", said_mib(mib));
            rows.push(
                Row::new(
                    what,
                    format!("{least}-{most}X; target {must}X"),
                    format!("{ratio:.1}X"),
                )
                .value(ratio)
                .met(
                    ratio >= must && ratio <= 1.5 * most,
                    format!(
                        "not within {must}X and {:.1}X: {}",
                        1.5 * most,
                        data.far_with_lru(mib)
                    ),
                ),
            );
        }
        if let Some(ratio) = ratio(2 * mib) {
            let (least, most) = data.says.rolling_half;
            let what = format!("rolling to LRU of twice the memory, {}", said_mib(mib));
            rows.push(
                Row::new(what, format!("{least}-{most}X"), format!("{ratio:.2}X"))
                    .value(ratio)
                    .met(is_between(ratio, (least, most)), data.far_with_lru(2 * mib)),
            );
        }
    }
    rows.extend(by_other_averages(data, outcomes));
    for mib in SIZES_MIB {
        if let (Some(rolling), Some(fixed)) = (speed(mib, Assembly::Rolling), speed(mib, Assembly::Fixed)) {
            let ratio = rolling / fixed;
            let what = format!("rolling to fixed, {}", said_mib(mib));
            rows.push(
                Row::new(what, "1.07-1.23X", format!("{ratio:.2}X"))
                    .value(ratio)
                    .met(
                        (1.0..1.5).contains(&ratio),
                        format!("outside 1 to 1.5: {}", data.says.untold),
                    ),
            );
        }
    }
    let kinds = [
        ("rolling", Assembly::Rolling),
        ("fixed", Assembly::Fixed),
        ("LRU", Assembly::Lru),
    ];
    let series = kinds.map(|(name, assembly)| Series::new(name, speeds(data, outcomes, assembly)));
    Experiment {
        title: format!("figure 8: how memory is used, {}", data.name),
        seeds: vec!["L2", "L5"],
        setup: data.setup(),
        rows,
        plots: vec![plot(
            name.clone(),
            format!(
                "Speed as memory grows, last {AVERAGED} backups, not capped, {}",
                data.name
            ),
            data,
            series.to_vec(),
        )],
        name,
    }
}
