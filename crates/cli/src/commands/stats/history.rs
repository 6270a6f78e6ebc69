//! How the layout of a series' backups has changed: as a line of text, and as a drawing.

use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::io::Write;
use std::path::Path;

use anyhow::{Context, Result};
use cli_support::output::Output;
use onefold::{BackupLayout, Snapshot};
use simulate::plot::{Axis, Plot, Series, svg};

/// The backups of a series, oldest first: when each was made, in days since 1970, and its MiB of
/// each container.
type History = Vec<(f64, f64)>;

/// The shortest history that a line of text says more of than the list above it.
const TOLD_MIN: usize = 3;
/// The longest line of text, in letters; the newest backups count.
const LETTERS_MAX: usize = 60;

/// The histories of all series, by their names.
fn histories(backups: &[Snapshot], layouts: &[BackupLayout]) -> BTreeMap<String, History> {
    let mut all: BTreeMap<String, History> = BTreeMap::new();
    for layout in layouts.iter().filter(|layout| layout.speed_factor.is_finite()) {
        let Some(snapshot) = backups.iter().find(|snapshot| snapshot.id == layout.id) else {
            continue;
        };
        let series = &snapshot.backup.series;
        let paths: Vec<_> = series
            .paths
            .iter()
            .map(|path| String::from_utf8_lossy(path))
            .collect();
        let name = format!("{}:{}", String::from_utf8_lossy(&series.host), paths.join(","));
        #[expect(clippy::cast_precision_loss, reason = "an axis of days")]
        let day = snapshot.backup.source_time.get() as f64 / (86_400.0 * 1e9);
        all.entry(name).or_default().push((day, layout.speed_factor));
    }
    for history in all.values_mut() {
        history.sort_by(|a, b| a.0.total_cmp(&b.0));
    }
    all
}

/// Prints the speed factor of each series over time.
pub(super) fn show(backups: &[Snapshot], layouts: &[BackupLayout], output: Output) -> Result<()> {
    for (name, history) in histories(backups, layouts) {
        if history.len() < TOLD_MIN {
            continue;
        }
        let factors: Vec<f64> = history.iter().map(|(_, factor)| *factor).collect();
        let (first, last) = (factors[0], factors[factors.len() - 1]);
        output.line(format!(
            "{name}: {}  {first:.2} to {last:.2} MiB from each container, over {} backups",
            sparkline(&factors),
            factors.len()
        ))?;
    }
    Ok(())
}

/// The values as bars of text, from 0 to the largest.
fn sparkline(values: &[f64]) -> String {
    const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let shown = &values[values.len().saturating_sub(LETTERS_MAX)..];
    let most = shown.iter().copied().fold(f64::MIN_POSITIVE, f64::max);
    let bar = |value: &f64| {
        let level = value / most * 7.0;
        BARS.iter()
            .zip(0u8..8)
            .rev()
            .find(|(_, step)| level >= f64::from(*step) - 0.5)
            .map_or(BARS[0], |(bar, _)| *bar)
    };
    shown.iter().map(bar).collect()
}

/// Draws the speed factors of all series over time into a new file.
pub(super) fn draw(backups: &[Snapshot], layouts: &[BackupLayout], file: &Path) -> Result<()> {
    let histories = histories(backups, layouts);
    let first = histories
        .values()
        .flatten()
        .map(|(day, _)| *day)
        .fold(f64::INFINITY, f64::min);
    let of_series = |(name, history): (String, History)| {
        let since = history.into_iter().map(|(day, factor)| (day - first, factor));
        Series::new(name, since.collect())
    };
    let plot = Plot {
        name: "speed-factor".to_owned(),
        title: "How fast backups restore".to_owned(),
        subtitle: "MiB restored for each container that is read; more is faster".to_owned(),
        x: Axis::linear("when the backup was made, days after the first"),
        y: Axis::linear("speed factor, MiB a container"),
        series: histories.into_iter().map(of_series).collect(),
    };
    let shown = || file.display().to_string();
    let mut drawing = OpenOptions::new()
        .write(true)
        .create_new(true)
        .open(file)
        .with_context(shown)?;
    drawing.write_all(svg(&plot).as_bytes()).with_context(shown)
}

#[cfg(test)]
mod tests {
    use super::sparkline;

    #[test]
    fn bars_are_as_high_as_their_values() {
        assert_eq!(sparkline(&[8.0, 4.0, 1.0, 0.0, 7.5]), "█▅▂▁█");
        assert_eq!(sparkline(&[0.0, 0.0]), "▁▁");
        assert_eq!(sparkline(&vec![1.0; 100]).chars().count(), 60);
    }
}
