//! Live windows of several lengths: figure 9.

use super::data::data_bytes;
use super::{Size, megabytes, mib, number, percent, setup, sg1, share};
use crate::error::LabError;
use crate::reproduce::statistics::{is_near, mean};
use crate::reproduce::stores::content;
use crate::reproduce::{Axis, Experiment, Plot, Row, Run, Series};

/// The cost of the longest window in the paper, in percent of all backups.
const POINTS: f64 = 3.4;

/// A series with one live window.
struct Window {
    live: u16,
    /// The final speed factor of each backup: MiB restored for each container read.
    speeds: Vec<f64>,
    /// The savings after each week, of bytes without zeros.
    saved: Vec<f64>,
}

impl Window {
    fn saved(&self) -> f64 {
        mean(self.saved.iter().copied()).unwrap_or(0.0)
    }
}

/// Bytes of all backups.
pub(super) fn bytes(size: &Size) -> u64 {
    size.live.len() as u64 * data_bytes(&sg1(size.windows))
}

/// Runs all lengths of windows.
pub(super) fn run(size: &Size, run: &mut Run<'_>) -> Result<(), LabError> {
    run.progress.begin("figure 9");
    let engine = |live| size.hybrid_with(live, 0).store(None, size.container_bytes);
    let engines = size.live.map(engine).into_iter().collect::<Result<Vec<_>, _>>()?;
    let mut saved = vec![Vec::new(); engines.len()];
    let mut lengths = Vec::new();
    content::each(&sg1(size.windows), |content| {
        lengths.push(content.data_bytes());
        let all = lengths.iter().sum();
        for (engine, saved) in engines.iter().zip(&mut saved) {
            engine.back_up(content, false)?;
            engine.optimize()?;
            saved.push(1.0 - share(engine.stored()?.chunks, all));
            run.progress.advance(content.data_bytes())?;
        }
        Ok(())
    })?;
    let mut windows = Vec::new();
    for ((engine, saved), live) in engines.iter().zip(saved).zip(size.live) {
        let read = engine.containers_read()?;
        let each = lengths.iter().zip(read);
        windows.push(Window {
            live,
            speeds: each
                .map(|(bytes, read)| mib(*bytes) / number(read.max(1)))
                .collect(),
            saved,
        });
    }
    run.report(experiment(size, &windows))
}

fn experiment(size: &Size, windows: &[Window]) -> Experiment {
    let (image_bytes, weeks) = size.windows;
    let mut rows = Vec::new();
    for window in windows {
        let at = |share: usize| {
            let last = window.speeds.len().saturating_sub(1);
            window.speeds.get(last * share / 4).copied().unwrap_or(0.0)
        };
        rows.push(Row::new(
            format!(
                "live window of {}: MiB a container read, oldest to newest",
                window.live
            ),
            "",
            (0..5)
                .map(|share| format!("{:.2}", at(share)))
                .collect::<Vec<_>>()
                .join(", "),
        ));
    }
    if let (Some(one), Some(most)) = (windows.first(), windows.last()) {
        let live = usize::from(most.live).min(most.speeds.len() - 1);
        let archival = most.speeds.len() - live;
        let of = |window: &Window| mean(window.speeds[..archival].iter().copied()).unwrap_or(0.0);
        let rises = of(one) < one.speeds.last().copied().unwrap_or(0.0);
        rows.push(
            Row::new(
                "live window of 1: archival backups are slower than the newest",
                "they are",
                if rises { "they are" } else { "they are not" },
            )
            .met(rises, "older ones are not more scattered here"),
        );
        rows.push(
            Row::new(
                format!("archival backups, live window of {} to 1", most.live),
                "faster: chains are shorter",
                format!(
                    "{:.2}: {:.2} to {:.2} MiB a container read",
                    of(most) / of(one),
                    of(most),
                    of(one)
                ),
            )
            .value(of(most) / of(one))
            .met(
                of(most) >= of(one),
                "an archival backup reads what it shares with all later ones wherever those have it",
            ),
        );
        let (first, last) = (most.speeds[archival], most.speeds[most.speeds.len() - 1]);
        rows.push(
            Row::new(
                format!("live window of {}: newest to oldest live backup", most.live),
                "falls a little",
                format!(
                    "{:.2}: {last:.2} to {first:.2} MiB a container read",
                    last / first
                ),
            )
            .value(last / first)
            .met(
                last <= first * 1.1,
                "newer ones are longer, and less of them is in older containers",
            ),
        );
        let last = |window: &Window| window.saved.last().copied().unwrap_or(0.0);
        let less = 100.0 * (last(one) - last(most));
        rows.push(
            Row::new(
                format!("saved, live window of 1 less that of {}, in points", most.live),
                "3.4: 96.6 and 93.2 %, averaged over all weeks",
                format!(
                    "{less:.1}: {} and {} after the last week; {} and {} on average over all",
                    percent(last(one)),
                    percent(last(most)),
                    percent(one.saved()),
                    percent(most.saved())
                ),
            )
            .value(less)
            .met(
                is_near(less, POINTS),
                format!(
                    "{} of {} backups are live, and whole segments alone save less of images as small as these (figure 4)",
                    most.live,
                    most.saved.len()
                ),
            ),
        );
    }
    let series = |value: fn(&Window) -> &Vec<f64>| -> Vec<Series> {
        let of = |window: &Window| {
            let points = value(window)
                .iter()
                .zip(1..)
                .map(|(value, week)| (number(week), *value));
            Series::new(format!("live window of {}", window.live), points.collect())
        };
        windows.iter().map(of).collect()
    };
    Experiment {
        name: "figure-9".to_owned(),
        title: "figure 9: live windows of several lengths".to_owned(),
        seeds: vec!["R5"],
        setup: format!(
            "{} SG1, images of {}, {weeks} weeks, in memory. Containers read as `onefold stats` counts them, with an area of 128 MiB; saved is of the bytes that are no zeros, after \
             each week.",
            setup(size),
            megabytes(image_bytes)
        ),
        rows,
        plots: vec![
            Plot {
                name: "figure-9".to_owned(),
                title: "Restores with several live windows".to_owned(),
                subtitle: format!(
                    "containers of {} MiB, area of 128 MiB",
                    mib(size.container_bytes.into())
                ),
                x: Axis::linear("week"),
                y: Axis::linear("MiB for each container read"),
                series: series(|window| &window.speeds),
            },
            Plot {
                name: "figure-9-saved".to_owned(),
                title: "What is saved with several live windows".to_owned(),
                subtitle: format!("containers of {} MiB", mib(size.container_bytes.into())),
                x: Axis::linear("week"),
                y: Axis::linear("saved share of all backups"),
                series: series(|window| &window.saved),
            },
        ],
    }
}
