//! Figures 4, 5, 6, 7 and 9: capping, by the engine's own policy [Lillibridge 3.2, 4.4, 4.6; L3,
//! L4, L6].
//!
//! The baseline is the engine without a cap. So differences between the engine and the paper's
//! simulator affect both sides: each backup begins a container, and windows end with segments.

use ingest::{Cap, Capping};
use simulate::{Assembly, Memory, Outcome};

use super::data::{Data, said_bytes, said_mib};
use crate::error::LabError;
use crate::reproduce::Progress;
use crate::reproduce::statistics::{AVERAGED, factor, interpolated, is_near, last, moving, speed};
use crate::reproduce::{Axis, Experiment, Plot, Row, Series};

/// The length of the paper's segments, in MB. A window has at least this length.
const WINDOW_MB: u64 = 20;
/// The paper's caps, in containers for each window; 0 means none.
pub(super) const CAPS: [u32; 14] = [0, 250, 200, 150, 130, 110, 90, 70, 50, 40, 30, 20, 15, 10];
/// A selection of them.
pub(super) const SOME_CAPS: [u32; 6] = [0, 130, 90, 50, 20, 10];
/// The caps of figure 6, over time.
const OVER_TIME: [u32; 5] = [0, 90, 50, 20, 10];
/// The memory of the restores in figure 6.
const OVER_TIME_MIB: u64 = 128;
/// LRU caches of figures 4 and 5.
const LRU_MIB: [u64; 4] = [32, 128, 1024, 8192];
/// Memories of figures 7 and 9.
const BOTH_MIB: [u64; 2] = [128, 1024];
/// Simulators that run concurrently. Each holds the whole store.
const AT_ONCE: usize = 6;

/// A cap and window to try.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Try {
    /// Containers for each window; 0 for no cap.
    pub(super) cap: u32,
    pub(super) window_mb: u64,
}

/// A cap and its results.
pub(super) type Tried = (Try, Vec<Outcome>);

/// The caps of figures 4, 5, 6 and 9.
pub(super) fn caps(caps: &[u32]) -> Vec<Try> {
    let window_mb = WINDOW_MB;
    caps.iter().map(|cap| Try { cap: *cap, window_mb }).collect()
}

/// The same caps for each MB, at longer windows too, for figure 7. Skips the ones that [`caps`]
/// has.
pub(super) fn windows(windows_mb: &[u64], caps: &[u32]) -> Vec<Try> {
    let each = windows_mb.iter().filter(|mb| **mb != WINDOW_MB);
    each.flat_map(|mb| {
        let capped = caps.iter().filter(|cap| **cap > 0);
        capped.map(|cap| Try {
            cap: cap * u32::try_from(*mb / WINDOW_MB).expect("a few"),
            window_mb: *mb,
        })
    })
    .collect()
}

/// Runs all tries, a few concurrently.
pub(super) fn measure(data: &Data, tries: &[Try], progress: &Progress) -> Result<Vec<Tried>, LabError> {
    let mut tried = Vec::with_capacity(tries.len());
    for group in tries.chunks(AT_ONCE) {
        let caps: Vec<String> = group.iter().map(|one| said_cap(one.cap)).collect();
        progress.begin(format!("{}, {}", data.name, caps.join(", ")));
        let trials = group.iter().map(|one| {
            let capping = Capping {
                cap: if one.cap == 0 {
                    Cap::None
                } else {
                    Cap::Fixed(one.cap)
                },
                window_bytes: one.window_mb * 1_000_000,
                ..Capping::NONE
            };
            let (data_too, one) = (data.clone(), *one);
            data.capped(capping, move |backup| memories(&data_too, one, backup))
        });
        let outcomes = data.replay(trials.collect(), progress)?;
        tried.extend(group.iter().copied().zip(outcomes));
    }
    Ok(tried)
}

fn memories(data: &Data, one: Try, backup: u64) -> Vec<Memory> {
    let mut all = Vec::new();
    if backup + AVERAGED as u64 >= data.backups {
        all.extend(LRU_MIB.map(|mib| data.memory(mib, Assembly::Lru)));
        all.extend(BOTH_MIB.map(|mib| data.memory(mib, Assembly::Rolling)));
    } else if one.window_mb == WINDOW_MB && OVER_TIME.contains(&one.cap) {
        all.push(data.memory(OVER_TIME_MIB, Assembly::Lru));
    }
    all
}

fn said_cap(cap: u32) -> String {
    if cap == 0 {
        "no cap".to_owned()
    } else {
        format!("cap {cap}")
    }
}

fn setup(data: &Data) -> String {
    format!(
        "{} Capped by the engine's policy, windows of {}; every chunk has a hook, and look-ups forget nothing from one backup to the next.",
        data.setup(),
        said_bytes(WINDOW_MB * 1_000_000)
    )
}

fn of_window(tried: &[Tried], window_mb: u64) -> impl Iterator<Item = (u32, &[Outcome])> {
    // Without a cap, the length of windows does not matter.
    let are = tried
        .iter()
        .filter(move |(one, _)| one.cap == 0 || one.window_mb == window_mb);
    are.map(|(one, outcomes)| (one.cap, outcomes.as_slice()))
}

/// Deduplication factor and speed of each cap.
fn curve(tried: &[Tried], window_mb: u64, memory: Memory) -> Vec<(f64, f64)> {
    of_window(tried, window_mb)
        .filter_map(|(_, outcomes)| Some((factor(last(outcomes))?, speed(last(outcomes), memory)?)))
        .collect()
}

/// For each cap: the percentage of the deduplication factor that it loses, and how many times as
/// fast it restores.
fn gains(tried: &[Tried], window_mb: u64, memory: Memory) -> Vec<(f64, f64)> {
    let curve = curve(tried, window_mb, memory);
    let Some((factor, speed)) = curve.first().copied() else {
        return Vec::new();
    };
    let gain = |(with, faster): (f64, f64)| (100.0 * (1.0 - with / factor), faster / speed);
    curve.into_iter().map(gain).collect()
}

fn plot(name: &str, title: String, data: &Data, x: &str, y: &str, series: Vec<Series>) -> Plot {
    Plot {
        name: format!("{name}-{}", data.name),
        title: format!("{title}, {}", data.name),
        subtitle: data.setup(),
        x: Axis::linear(x),
        y: Axis::linear(y),
        series,
    }
}

const FACTOR: &str = "cumulative deduplication factor";
const SPEED: &str = "speed factor, MiB for each container read";

/// Figure 4: deduplication and speed.
pub(super) fn trade_off(data: &Data, tried: &[Tried]) -> Experiment {
    let series = LRU_MIB.map(|mib| {
        let points = curve(tried, WINDOW_MB, data.memory(mib, Assembly::Lru));
        Series::new(format!("LRU {}", said_mib(mib)), points)
    });
    let mut rows = Vec::new();
    for (cap, outcomes) in of_window(tried, WINDOW_MB) {
        let memory = data.memory(OVER_TIME_MIB, Assembly::Lru);
        if let (Some(factor), Some(speed)) = (factor(last(outcomes)), speed(last(outcomes), memory)) {
            let ours = format!("{factor:.2}; {speed:.3} with {} LRU", said_mib(OVER_TIME_MIB));
            let what = format!("deduplication factor and speed factor, {}", said_cap(cap));
            rows.push(Row::new(what, "plotted, without a figure", ours).value(speed));
        }
    }
    Experiment {
        name: format!("figure-04-{}", data.name),
        title: format!(
            "figure 4: deduplication and speed as the cap varies, {}",
            data.name
        ),
        seeds: vec!["L3"],
        setup: setup(data),
        rows,
        plots: vec![plot(
            "figure-04",
            "Deduplication and speed, by cap".to_owned(),
            data,
            SPEED,
            FACTOR,
            series
                .into_iter()
                .map(|series| Series {
                    points: series
                        .points
                        .into_iter()
                        .map(|(factor, speed)| (speed, factor))
                        .collect(),
                    ..series
                })
                .collect(),
        )],
    }
}

/// Figure 5: relative loss and gain.
pub(super) fn relative(data: &Data, tried: &[Tried]) -> Experiment {
    let of = |mib| gains(tried, WINDOW_MB, data.memory(mib, Assembly::Lru));
    let mut rows = Vec::new();
    for (mib, percent, paper) in data.says.gains {
        let Some(gain) = interpolated(&of(*mib), *percent) else {
            continue;
        };
        let what = format!(
            "speed for {percent} % of the deduplication factor lost, {} LRU",
            said_mib(*mib)
        );
        let row = Row::new(what, format!("{paper}X"), format!("{gain:.1}X")).value(gain);
        rows.push(row.met(gain * 1.5 >= *paper, data.far_with_lru(*mib)));
    }
    // The paper's claim: the best of the caps that lose at most 8 %.
    let best = of(OVER_TIME_MIB)
        .into_iter()
        .filter(|(lost, _)| *lost <= 8.0)
        .max_by(|a, b| a.1.total_cmp(&b.1));
    if let Some((lost, gain)) = best {
        let what = format!(
            "best of the caps that lose at most 8 %, {} LRU",
            said_mib(OVER_TIME_MIB)
        );
        let ours = format!("{gain:.2}X for {lost:.1} %");
        let row = Row::new(what, "at least 1.7X", ours).value(gain);
        rows.push(row.met(
            gain >= 1.7,
            format!(
                "less than 1.7X, or no cap that was tried loses so little; {}",
                data.far_with_lru(OVER_TIME_MIB)
            ),
        ));
    }
    let series = LRU_MIB.map(|mib| Series::new(format!("LRU {}", said_mib(mib)), of(mib)));
    Experiment {
        name: format!("figure-05-{}", data.name),
        title: format!("figure 5: deduplication lost and speed gained, {}", data.name),
        seeds: vec!["L3"],
        setup: setup(data),
        rows,
        plots: vec![plot(
            "figure-05",
            "Deduplication lost and speed gained, by cap".to_owned(),
            data,
            "deduplication factor lost, percent",
            "times faster than without a cap",
            series.to_vec(),
        )],
    }
}

/// Figure 6: fragmentation over time.
pub(super) fn over_time(data: &Data, tried: &[Tried]) -> Experiment {
    let memory = data.memory(OVER_TIME_MIB, Assembly::Lru);
    let mut rows = Vec::new();
    let mut series = Vec::new();
    let mut at_end: Vec<(u32, f64)> = Vec::new();
    for (cap, outcomes) in of_window(tried, WINDOW_MB).filter(|(cap, _)| OVER_TIME.contains(cap)) {
        let points = moving(outcomes, memory);
        if let (Some((_, first)), Some((_, last))) = (points.first(), points.last()) {
            at_end.push((cap, *last));
            let growth = last / first;
            let what = format!(
                "growth of fragmentation, containers read for each MiB, {}",
                said_cap(cap)
            );
            let ours = format!("{growth:.1}X, from {first:.2} to {last:.2}");
            let told = data.says.capped_growth.iter().find(|(told, _)| *told == cap);
            rows.push(match told {
                None => Row::new(what, "plotted, without a figure", ours).value(growth),
                Some((_, paper)) => {
                    let row = Row::new(what, format!("{paper}X"), ours).value(growth);
                    row.met(is_near(growth, *paper), data.far_with_lru(OVER_TIME_MIB))
                }
            });
        }
        series.push(Series::new(said_cap(cap), points));
    }
    let said = at_end
        .iter()
        .map(|(cap, read)| format!("{} {read:.1}", said_cap(*cap)));
    let said: Vec<String> = said.collect();
    let row = Row::new(
        "containers read for each MiB at the end: the lower the cap, the fewer",
        "no cap above 90 above 50 above 20 above 10",
        said.join(", "),
    );
    let falls = at_end.windows(2).all(|pair| pair[0].1 > pair[1].1);
    rows.push(row.met(
        falls && at_end.len() > 1,
        format!("the order is another: {}", data.says.untold),
    ));
    Experiment {
        name: format!("figure-06-{}", data.name),
        title: format!(
            "figure 6: fragmentation over time as the cap varies, {}",
            data.name
        ),
        seeds: vec!["L1", "L3"],
        setup: setup(data),
        rows,
        plots: vec![plot(
            "figure-06",
            format!("Fragmentation over time by cap, LRU {}", said_mib(OVER_TIME_MIB)),
            data,
            "backup",
            "containers read for each MiB, moving average of 20 backups",
            series,
        )],
    }
}

/// Figure 7: longer windows.
pub(super) fn longer_windows(data: &Data, tried: &[Tried], windows_mb: &[u64]) -> Experiment {
    let mut rows = Vec::new();
    let mut plots = Vec::new();
    for mib in BOTH_MIB {
        let memory = data.memory(mib, Assembly::Lru);
        let size = said_mib(mib);
        let short = gains(tried, WINDOW_MB, memory);
        for mb in windows_mb.iter().filter(|mb| **mb != WINDOW_MB) {
            // Compares at the middle of the range that both curves span.
            let long = gains(tried, *mb, memory);
            let most = |curve: &[(f64, f64)]| curve.iter().fold(0.0_f64, |most, (lost, _)| most.max(*lost));
            let lost = most(&short).min(most(&long)).min(15.0);
            if let (Some(less), Some(more)) = (interpolated(&short, lost), interpolated(&long, lost)) {
                let gain = more / less;
                let what = format!("windows of {mb} MB to {WINDOW_MB} MB at {lost:.0} % lost, {size} LRU");
                let paper = if mib == 1024 && *mb == 160 {
                    format!("{}X", data.says.longer_windows)
                } else {
                    "plotted, without a figure".to_owned()
                };
                let row = Row::new(what, paper, format!("{gain:.2}X")).value(gain);
                rows.push(if mib == 1024 {
                    row.met(
                        gain >= 1.0,
                        format!("longer windows do not help: {}", data.says.untold),
                    )
                } else {
                    row
                });
            }
        }
        let series = windows_mb.iter().map(|mb| {
            let points = curve(tried, *mb, memory)
                .into_iter()
                .map(|(factor, speed)| (speed, factor));
            Series::new(format!("{mb} MB"), points.collect())
        });
        let title = format!("Deduplication and speed by length of window, LRU {size}");
        plots.push(plot(
            &format!("figure-07-{mib}"),
            title,
            data,
            SPEED,
            FACTOR,
            series.collect(),
        ));
    }
    Experiment {
        name: format!("figure-07-{}", data.name),
        title: format!("figure 7: longer windows, {}", data.name),
        seeds: vec!["L4"],
        setup: format!(
            "{} A longer window has as many containers for each MB.",
            data.setup()
        ),
        rows,
        plots,
    }
}

/// Figure 9: capping and assembly.
pub(super) fn with_assembly(data: &Data, tried: &[Tried]) -> Experiment {
    let mut rows = Vec::new();
    let mut series = Vec::new();
    for mib in BOTH_MIB {
        let [lru, rolling] = [Assembly::Lru, Assembly::Rolling].map(|assembly| data.memory(mib, assembly));
        let size = said_mib(mib);
        let ratios: Vec<(u32, f64)> = of_window(tried, WINDOW_MB)
            .filter_map(|(cap, outcomes)| {
                let outcomes = last(outcomes);
                Some((cap, speed(outcomes, rolling)? / speed(outcomes, lru)?))
            })
            .collect();
        if let (Some((_, without)), Some((cap, with))) = (ratios.first(), ratios.last()) {
            let row = Row::new(
                format!(
                    "rolling to LRU, {size}: without a cap, and with {}",
                    said_cap(*cap)
                ),
                "tapers off as the cap falls",
                format!("{without:.2}X, {with:.2}X"),
            );
            rows.push(
                row.value(*with)
                    .met(with < without, format!("it does not; {}", data.far_with_lru(mib))),
            );
        }
        for (name, memory) in [("rolling", rolling), ("LRU", lru)] {
            let points = curve(tried, WINDOW_MB, memory)
                .into_iter()
                .map(|(factor, speed)| (speed, factor));
            series.push(Series::new(format!("{name} {size}"), points.collect()));
        }
    }
    Experiment {
        name: format!("figure-09-{}", data.name),
        title: format!("figure 9: capping with assembly, {}", data.name),
        seeds: vec!["L3", "L5", "L6"],
        setup: setup(data),
        rows,
        plots: vec![plot(
            "figure-09",
            "Deduplication and speed by cap, LRU and rolling".to_owned(),
            data,
            SPEED,
            FACTOR,
            series,
        )],
    }
}
