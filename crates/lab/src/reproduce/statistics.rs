//! Averages, lines through points, and closeness to the paper.

pub(super) use simulate::{AVERAGED, mean};
use simulate::{Memory, Outcome};

/// A line through points, by least squares.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Line {
    pub(super) slope: f64,
    pub(super) intercept: f64,
    /// The share of the variance that the line explains.
    pub(super) r_squared: f64,
}

/// The line through points; `None` if they do not determine one.
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

/// Containers read for each MiB: the mean over the backups that were restored with this memory.
pub(super) fn fragmentation(outcomes: &[Outcome], memory: Memory) -> Option<f64> {
    mean(outcomes.iter().filter_map(|outcome| {
        let mut restored = outcome.restored.iter();
        restored.find(|one| one.memory == memory)?.containers_a_mib()
    }))
}

/// The average speed: the mean over these backups of their speed factors, in MiB for each container
/// read [Lillibridge 3.1].
///
/// The captions of figures 2, 4 and 7 to 9 use this average of speeds or speed factors. Figures 1,
/// 3, 6, 10 and 11 show [`fragmentation`]. Its inverse is smaller.
pub(super) fn speed(outcomes: &[Outcome], memory: Memory) -> Option<f64> {
    mean(outcomes.iter().filter_map(|outcome| {
        let mut restored = outcome.restored.iter();
        restored.find(|one| one.memory == memory)?.speed_factor()
    }))
}

/// MiB for each container read, over all these backups together. Longer backups have more weight.
#[expect(clippy::cast_precision_loss, reason = "a figure to show")]
pub(super) fn together(outcomes: &[Outcome], memory: Memory) -> Option<f64> {
    let restored = outcomes.iter().flat_map(|outcome| &outcome.restored);
    let (bytes, read) = restored
        .filter(|one| one.memory == memory)
        .fold((0, 0), |(bytes, read), one| {
            (bytes + one.bytes, read + one.containers_read)
        });
    (read > 0).then(|| bytes as f64 / f64::from(1 << 20) / read as f64)
}

/// The mean of the deduplication factors after these backups.
pub(super) fn factor(outcomes: &[Outcome]) -> Option<f64> {
    mean(outcomes.iter().map(Outcome::factor))
}

/// The value at x on the lines between neighbouring points; `None` outside of the points.
pub(super) fn interpolated(points: &[(f64, f64)], x: f64) -> Option<f64> {
    let mut points = points.to_vec();
    points.sort_by(|a, b| a.0.total_cmp(&b.0));
    let at = points.iter().find(|point| point.0 == x).map(|point| point.1);
    at.or_else(|| {
        let pair = points.windows(2).find(|pair| pair[0].0 < x && x < pair[1].0)?;
        let share = (x - pair[0].0) / (pair[1].0 - pair[0].0);
        Some(pair[0].1 + share * (pair[1].1 - pair[0].1))
    })
}

/// The last [`AVERAGED`] backups.
pub(super) fn last(outcomes: &[Outcome]) -> &[Outcome] {
    &outcomes[outcomes.len().saturating_sub(AVERAGED)..]
}

/// Fragmentation over time: the mean of the [`AVERAGED`] backups up to each one, numbered from 1.
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

/// Whether a ratio is within a factor of 1.5 of the paper's. Both data sets are random, and differ.
pub(super) fn is_near(ours: f64, paper: f64) -> bool {
    ours * 1.5 >= paper && ours <= paper * 1.5
}

#[cfg(test)]
mod tests {
    use simulate::{Assembly, Extent, Restored};

    use super::*;

    /// A backup of `mib` MiB whose restore reads `containers_read` containers.
    fn outcome(mib: u64, containers_read: u64) -> Outcome {
        let memory = Memory {
            bytes: 1,
            assembly: Assembly::Lru,
        };
        let bytes = mib << 20;
        Outcome {
            name: String::new(),
            extent: Extent::Full,
            chunks: 1,
            bytes,
            bytes_new: 0,
            bytes_kept: bytes,
            bytes_stored: 1 << 20,
            containers: 1,
            looked: None,
            restored: vec![Restored {
                memory,
                containers_read,
                bytes,
            }],
            ahead: Vec::new(),
            at_least: Vec::new(),
        }
    }

    #[test]
    fn a_line_through_points_is_the_least_squares() {
        let line_of = |points: &[(f64, f64)]| line(points).unwrap();
        let exact = line_of(&[(1.0, 5.0), (2.0, 7.0), (4.0, 11.0)]);
        assert!((exact.slope - 2.0).abs() < 1e-12 && (exact.intercept - 3.0).abs() < 1e-12);
        assert!((exact.r_squared - 1.0).abs() < 1e-12);
        let scattered = line_of(&[(0.0, 0.0), (1.0, 2.0), (2.0, 1.0), (3.0, 3.0)]);
        assert!((scattered.slope - 0.8).abs() < 1e-12 && (scattered.intercept - 0.3).abs() < 1e-12);
        assert!((scattered.r_squared - 0.64).abs() < 1e-12);
        assert_eq!(line(&[(1.0, 2.0)]), None);
        assert_eq!(line(&[]), None);
    }

    #[test]
    fn points_in_any_order_are_joined_by_lines() {
        let points = [(8.0, 3.0), (0.0, 1.0), (4.0, 1.5)];
        assert_eq!(interpolated(&points, 4.0), Some(1.5));
        assert_eq!(interpolated(&points, 2.0), Some(1.25));
        assert_eq!(interpolated(&points, 6.0), Some(2.25));
        assert_eq!(interpolated(&points, 8.1), None);
        assert_eq!(interpolated(&[], 1.0), None);
    }

    #[test]
    fn the_average_speed_is_of_speeds() {
        let outcomes = [outcome(2, 1), outcome(2, 2), outcome(2, 0)];
        let memory = outcomes[0].restored[0].memory;
        assert_eq!(speed(&outcomes[..2], memory), Some(1.5));
        assert_eq!(
            fragmentation(&outcomes[..2], memory),
            Some(0.75),
            "its inverse is less"
        );
        assert_eq!(speed(&outcomes[2..], memory), None);
        assert_eq!(speed(&[], memory), None);
        let longer = [outcome(2, 1), outcome(30, 3)];
        assert_eq!(together(&longer, memory), Some(8.0));
        assert_eq!(together(&outcomes[2..], memory), None);
    }

    #[test]
    fn near_is_within_half_as_much_again() {
        assert!(is_near(3.0, 2.0) && is_near(2.0, 3.0) && is_near(2.0, 2.0));
        assert!(!is_near(3.1, 2.0) && !is_near(2.0, 3.1));
    }
}
