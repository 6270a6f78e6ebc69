//! Shares and ratios, and their formats.

/// A share or ratio of two numbers; 0 if `whole` is 0.
#[expect(clippy::cast_precision_loss, reason = "shown with four figures at most")]
pub(super) fn share(part: u64, whole: u64) -> f64 {
    if whole == 0 {
        0.0
    } else {
        part as f64 / whole as f64
    }
}

/// A number as a float, for display.
pub(super) fn number(n: u64) -> f64 {
    share(n, 1)
}

/// `97.6 %`.
pub(super) fn percent(share: f64) -> String {
    format!("{:.2} %", 100.0 * share)
}

/// `1.5 GiB`.
pub(super) fn gib(bytes: u64) -> String {
    format!("{} GiB", share(bytes, 1 << 30))
}

/// `500 MB`.
pub(super) fn megabytes(bytes: u64) -> String {
    format!("{} MB", share(bytes, 1_000_000))
}

/// Bytes in MiB (2^20).
pub(super) fn mib(bytes: u64) -> f64 {
    share(bytes, 1 << 20)
}

/// The median: of an even number of values, the mean of the two in the middle; 0 of none.
pub(super) fn median(of: &mut [f64]) -> f64 {
    of.sort_unstable_by(f64::total_cmp);
    match of.get(of.len().saturating_sub(1) / 2..=of.len() / 2) {
        Some([low, high]) => f64::midpoint(*low, *high),
        Some([middle]) => *middle,
        _ => 0.0,
    }
}

/// The number of processor cores.
pub(super) fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, std::num::NonZero::get)
}
