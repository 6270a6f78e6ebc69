//! Figures 10, 11 and 12: the size of containers [Lillibridge 4.7; L7].

use simulate::{Assembly, Memory, Outcome};

use super::data::{Data, said_bytes, said_mib};
use crate::error::LabError;
use crate::reproduce::Progress;
use crate::reproduce::statistics::{AVERAGED, fragmentation, last};
use crate::reproduce::{Axis, Experiment, Plot, Row, Series};

/// The sizes to try, relative to that of the other figures.
const TIMES: [(u64, u64); 7] = [(1, 4), (1, 2), (1, 1), (2, 1), (4, 1), (8, 1), (16, 1)];
const SIZES_MIB: [u64; 4] = [128, 256, 512, 1024];
/// Simulators that run concurrently.
const AT_ONCE: usize = 4;
/// The paper's sample system: milliseconds to open a container, and to read a MB.
const OPEN_MS: f64 = 20.0;
const READ_MS: f64 = 1.0;

/// The number of trials.
pub(super) const TRIALS: u64 = TIMES.len() as u64;

/// Sizes of containers in bytes, and the results of each.
pub(super) type Sized = Vec<(u64, Vec<Outcome>)>;

/// Runs all sizes, a few concurrently.
pub(super) fn measure(data: &Data, progress: &Progress) -> Result<Sized, LabError> {
    let sizes = TIMES.map(|(times, part)| data.container_bytes * times / part);
    let mut sized = Vec::new();
    for group in sizes.chunks(AT_ONCE) {
        let said: Vec<String> = group.iter().map(|bytes| said_bytes(*bytes)).collect();
        progress.begin(format!("{}, containers of {}", data.name, said.join(", ")));
        let trials = group.iter().map(|bytes| {
            let of = data.clone();
            data.exact(*bytes, move |backup| memories(&of, backup))
        });
        let outcomes = data.replay(trials.collect(), progress)?;
        sized.extend(group.iter().copied().zip(outcomes));
    }
    Ok(sized)
}

fn memories(data: &Data, backup: u64) -> Vec<Memory> {
    if backup + (AVERAGED as u64) < data.backups {
        return Vec::new();
    }
    let each = |assembly| SIZES_MIB.map(|mib| data.memory(mib, assembly));
    [each(Assembly::Lru), each(Assembly::Rolling)].concat()
}

/// For each size of containers in MiB: what a restore reads for each MiB.
fn reads(data: &Data, sized: &Sized, mib: u64, assembly: Assembly) -> Vec<(f64, f64)> {
    let memory = data.memory(mib, assembly);
    let each = sized.iter();
    each.filter_map(|(bytes, outcomes)| Some((in_mib(*bytes), fragmentation(last(outcomes), memory)?)))
        .collect()
}

#[expect(clippy::cast_precision_loss, reason = "a few megabytes")]
fn in_mib(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}

/// Figures 10 and 11: containers read.
pub(super) fn experiment(data: &Data, sized: &Sized, assembly: Assembly) -> Experiment {
    let (name, figure, seeds, how) = match assembly {
        Assembly::Lru => ("figure-10", "figure 10", vec!["L2", "L7"], "LRU"),
        Assembly::Rolling | Assembly::Fixed | Assembly::LookAhead => {
            ("figure-11", "figure 11", vec!["L5", "L7"], "rolling")
        }
    };
    let mut rows = Vec::new();
    let mut series = Vec::new();
    for mib in SIZES_MIB {
        let points = reads(data, sized, mib, assembly);
        let said: Vec<String> = points
            .iter()
            .map(|(size, read)| format!("{read:.2} at {size} MiB"))
            .collect();
        let what = format!("containers read for each MiB, {} {how}", said_mib(mib));
        rows.push(if assembly == Assembly::Lru {
            let more = points.windows(2).any(|pair| pair[1].1 > pair[0].1);
            Row::new(
                what,
                "larger ones are read more often, sooner or later",
                said.join(", "),
            )
            .met(more, "the data fit the cache")
        } else {
            let fewer = points.windows(2).all(|pair| pair[1].1 < pair[0].1);
            Row::new(what, "strictly fewer the larger they are", said.join(", "))
                .met(fewer && points.len() > 1, "somewhere they are not fewer")
        });
        series.push(Series::new(format!("{how} {}", said_mib(mib)), points));
    }
    let name = format!("{name}-{}", data.name);
    Experiment {
        title: format!(
            "{figure}: containers read as their size varies, {how}, {}",
            data.name
        ),
        seeds,
        setup: setup(data),
        rows,
        plots: vec![plot(
            name.clone(),
            format!("Containers read as their size varies, {how}, {}", data.name),
            data,
            "containers read for each MiB",
            series,
        )],
        name,
    }
}

/// Figure 12: the restore rate of the paper's sample system.
pub(super) fn speed(data: &Data, sized: &Sized) -> Experiment {
    let mut rows = Vec::new();
    let mut series = Vec::new();
    for (how, assembly) in [("rolling", Assembly::Rolling), ("LRU", Assembly::Lru)] {
        for mib in SIZES_MIB {
            let speed = |(size, read): (f64, f64)| (size, 1000.0 / (read * (OPEN_MS + READ_MS * size)));
            let points: Vec<(f64, f64)> = reads(data, sized, mib, assembly).into_iter().map(speed).collect();
            let best = points.iter().copied().max_by(|a, b| a.1.total_cmp(&b.1));
            let told = match (assembly, mib) {
                (Assembly::Rolling, 128) => Some(8.0),
                (Assembly::Rolling, 1024) => Some(16.0),
                _ => None,
            };
            if let Some((size, speed)) = best {
                let what = format!("fastest size of containers, {} {how}", said_mib(mib));
                let ours = format!("{size} MiB ({speed:.1} MB/s)");
                rows.push(match told {
                    None => Row::new(what, "plotted, without a figure", ours).value(size),
                    Some(paper) => Row::new(what, format!("{paper} MB"), ours).value(size).met(
                        size * 2.0 >= paper && size <= paper * 2.0,
                        "more than a doubling away",
                    ),
                });
            }
            series.push(Series::new(format!("{how} {}", said_mib(mib)), points));
        }
    }
    let name = format!("figure-12-{}", data.name);
    Experiment {
        title: format!(
            "figure 12: speed of a sample system as the size of containers varies, {}",
            data.name
        ),
        seeds: vec!["L7"],
        setup: format!(
            "{} A container is opened in {OPEN_MS} ms, a MB read in {READ_MS} ms, all containers taken as full.",
            setup(data)
        ),
        rows,
        plots: vec![plot(
            name.clone(),
            format!(
                "Speed of a sample system as the size of containers varies, {}",
                data.name
            ),
            data,
            "MB/s",
            series,
        )],
        name,
    }
}

fn setup(data: &Data) -> String {
    format!("{} Here containers are of other sizes, too.", data.setup())
}

fn plot(name: String, title: String, data: &Data, y: &str, series: Vec<Series>) -> Plot {
    Plot {
        name,
        title,
        subtitle: data.setup(),
        x: Axis::doubling("size of containers, MiB"),
        y: Axis::decades(y),
        series,
    }
}
