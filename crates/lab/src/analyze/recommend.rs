//! Settings that follow from what was tried.

use super::{Given, Tried};

/// What a stored chunk takes beside its bytes: its entry in a catalog, that in the catalog's copy, its hook.
const CHUNK_OVERHEAD_BYTES: u64 = 64;
/// A setting that costs no more than this share is as good.
const AS_GOOD: f64 = 0.01;
/// The most that a cap may cost of the deduplication factor.
const CAP_LOSS_MAX: f64 = 0.03;
/// A cap is worth it from so much more speed.
const CAP_GAIN_MIN: f64 = 1.15;
/// Memory is enough where more makes restores no faster than this.
const SPEED_SHARE: f64 = 0.9;

/// Settings, each with the reason in words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recommended {
    /// Average chunk, in bytes.
    pub chunk_bytes: u32,
    /// Why.
    pub chunk_why: String,
    /// Containers for each 20 MB.
    pub cap: Option<u32>,
    /// Why.
    pub cap_why: String,
    /// How that size is asked for.
    pub chunk_option: &'static str,
    /// Memory of restores, in bytes; `None` where none of those restored reads anything.
    pub memory: Option<u64>,
    /// Why.
    pub memory_why: String,
}

pub(super) fn of(by_size: &[Given], by_cap: &[Given], backups: usize, fixed: bool) -> Recommended {
    let (chunk_bytes, chunk_why) = chunk(by_size);
    let (cap, cap_why) = cap(by_cap, backups);
    let chosen = by_cap.iter().find(|given| given.cap == cap);
    let (memory, memory_why) = memory(chosen);
    Recommended {
        chunk_bytes,
        chunk_why,
        chunk_option: if fixed {
            "backup --image-kib"
        } else {
            "init --chunk-kib"
        },
        cap,
        cap_why,
        memory,
        memory_why,
    }
}

fn all_bytes(given: &Given) -> u64 {
    given.bytes_stored + given.chunks_stored * CHUNK_OVERHEAD_BYTES
}

#[expect(clippy::cast_precision_loss, reason = "shares, shown with three figures")]
fn chunk(by_size: &[Given]) -> (u32, String) {
    let least = by_size.iter().map(all_bytes).min().unwrap_or(0);
    let is_as_good = |given: &&Given| all_bytes(given) as f64 <= least as f64 * (1.0 + AS_GOOD);
    // The default, if it is as good; else the longest, which needs the least memory.
    let default = by_size
        .iter()
        .filter(is_as_good)
        .find(|given| given.chunk_bytes == Tried::CHUNK_BYTES);
    let longest = by_size
        .iter()
        .filter(is_as_good)
        .max_by_key(|given| given.chunk_bytes);
    match default.or(longest) {
        Some(given) if default.is_some() => (
            given.chunk_bytes,
            "no other size takes more than 1 % less, what chunks take beside their bytes included".to_owned(),
        ),
        Some(given) => (
            given.chunk_bytes,
            format!(
                "the longest of those that take the least, what chunks take beside their bytes included: {:.1} % less than with {} KiB",
                saved(by_size, given) * 100.0,
                Tried::CHUNK_BYTES >> 10
            ),
        ),
        None => (Tried::CHUNK_BYTES, "nothing was tried".to_owned()),
    }
}

#[expect(clippy::cast_precision_loss, reason = "a share, shown with three figures")]
fn saved(by_size: &[Given], given: &Given) -> f64 {
    let default = by_size.iter().find(|one| one.chunk_bytes == Tried::CHUNK_BYTES);
    default.map_or(0.0, |default| {
        1.0 - all_bytes(given) as f64 / all_bytes(default).max(1) as f64
    })
}

/// The fastest of the caps that cost little, judged with the memory that a restore has by default.
fn cap(by_cap: &[Given], backups: usize) -> (Option<u32>, String) {
    let none = by_cap.iter().find(|given| given.cap.is_none());
    let Some((none, speed)) = none.and_then(|none| Some((none, middle(none)?))) else {
        return (None, "no restore reads anything".to_owned());
    };
    if backups < 2 {
        return (
            None,
            "a cap is for what many backups scatter; name several versions of the data to see what it gives"
                .to_owned(),
        );
    }
    let cheap = by_cap
        .iter()
        .filter(|given| given.cap.is_some() && given.factor >= none.factor * (1.0 - CAP_LOSS_MAX));
    let faster = cheap.filter_map(|given| Some((given, middle(given)? / speed)));
    let best = faster.max_by(|(_, a), (_, b)| a.total_cmp(b));
    match best.filter(|(_, times)| *times >= CAP_GAIN_MIN) {
        Some((given, times)) => (
            given.cap,
            format!(
                "with chunks of 8 KiB restores are {times:.2} times as fast, for {:.1} % of the deduplication",
                (1.0 - given.factor / none.factor) * 100.0
            ),
        ),
        None => (
            None,
            "no cap that costs at most 3 % of the deduplication makes restores 1.15 times as fast: these backups are not scattered"
                .to_owned(),
        ),
    }
}

/// With the second least memory, which is the default's.
fn middle(given: &Given) -> Option<f64> {
    let speed = given.speeds.get(1).or(given.speeds.first());
    speed.map(|(_, speed)| *speed)
}

fn memory(given: Option<&Given>) -> (Option<u64>, String) {
    let speeds = given.map_or(&[][..], |given| &given.speeds);
    let Some(best) = speeds.iter().map(|(_, speed)| *speed).reduce(f64::max) else {
        return (None, "no restore reads anything".to_owned());
    };
    let enough = speeds.iter().find(|(_, speed)| *speed >= best * SPEED_SHARE);
    let (bytes, speed) = enough.copied().unwrap_or((0, best));
    (
        Some(bytes),
        format!(
            "{speed:.1} MiB for each container read, with chunks of 8 KiB; no more memory that was tried gives more than {best:.1}"
        ),
    )
}
