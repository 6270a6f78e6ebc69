//! Averages, lines through points, and what is near enough.

pub(super) use crate::simulate::AVERAGED;
use crate::simulate::{Memory, Outcome};

/// A line through points, by least squares.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Line {
    pub(super) slope: f64,
    pub(super) intercept: f64,
    /// The share of the variance that it explains.
    pub(super) r_squared: f64,
}

/// The line through points; none where they do not tell one.
pub(super) fn line(points: &[(f64, f64)]) -> Option<Line> {
    let mean_x = mean(points.iter().map(|(x, _)| *x))?;
    let mean_y = mean(points.iter().map(|(_, y)| *y))?;
    let sum = |of: &dyn Fn(f64, f64) -> f64| -> f64 {
        points.iter().map(|(x, y)| of(x - mean_x, y - mean_y)).sum()
    };
    let (xx, xy, yy) = (sum(&|x, _| x * x), sum(&|x, y| x * y), sum(&|_, y| y * y));
    if xx == 0.0 || yy == 0.0 {
        return None;
    }
    let slope = xy / xx;
    Some(Line {
        slope,
        intercept: mean_y - slope * mean_x,
        r_squared: xy * xy / (xx * yy),
    })
}

/// The mean; none of nothing.
pub(super) fn mean(values: impl Iterator<Item = f64>) -> Option<f64> {
    let (mut sum, mut count) = (0.0, 0.0);
    for value in values {
        sum += value;
        count += 1.0;
    }
    (count > 0.0).then(|| sum / count)
}

/// Containers read for each MiB, the mean over those of these backups that were restored with this memory.
pub(super) fn fragmentation(outcomes: &[Outcome], memory: Memory) -> Option<f64> {
    mean(outcomes.iter().filter_map(|outcome| {
        let mut restored = outcome.restored.iter();
        restored.find(|one| one.memory == memory)?.containers_a_mib()
    }))
}

/// The speed factor: MiB for each container read, the inverse of [`fragmentation`] [Lillibridge 3.1].
pub(super) fn speed(outcomes: &[Outcome], memory: Memory) -> Option<f64> {
    fragmentation(outcomes, memory).map(|read| 1.0 / read)
}

/// The last [`AVERAGED`].
pub(super) fn last(outcomes: &[Outcome]) -> &[Outcome] {
    &outcomes[outcomes.len().saturating_sub(AVERAGED)..]
}

/// Fragmentation over time: the mean of [`AVERAGED`] backups up to each, numbered from 1.
pub(super) fn moving(outcomes: &[Outcome], memory: Memory) -> Vec<(f64, f64)> {
    let windows = outcomes.windows(AVERAGED).enumerate();
    windows
        .filter_map(|(n, window)| {
            #[expect(clippy::cast_precision_loss, reason = "some hundreds")]
            let backup = (n + AVERAGED) as f64;
            Some((backup, fragmentation(window, memory)?))
        })
        .collect()
}

/// Whether a ratio is the paper's within a factor of 1.5: the data of both are drawn, and not the same.
pub(super) fn is_near(ours: f64, paper: f64) -> bool {
    ours * 1.5 >= paper && ours <= paper * 1.5
}
