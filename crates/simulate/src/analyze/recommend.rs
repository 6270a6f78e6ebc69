//! Settings that follow from the trials. A default stays unless the data argue against it: a user
//! names only a few versions, and the versions of years are more scattered.

use ingest::{Cap, Capping};

use super::names::{bytes_name, cap_name};
use super::{Given, Tried};

/// A stored chunk takes so many bytes beside its own: entries in the catalog and in the copy of the
/// catalog, and a hook.
const CHUNK_OVERHEAD_BYTES: u64 = 64;
/// A setting that is better by at most this share counts as equally good.
const AS_GOOD: f64 = 0.01;
/// The largest share of the deduplication factor without a cap that any cap may cost. The default
/// cap was chosen to keep within it.
const LOSS_MAX: f64 = 0.08;
/// The largest share of the base's deduplication factor that another cap may cost.
const MORE_LOSS_MAX: f64 = 0.03;
/// Another cap must restore at least this many times as fast as the base.
const MORE_GAIN_MIN: f64 = 1.15;
/// Memory is enough if it gives at least this share of the best speed.
const SPEED_SHARE: f64 = 0.9;

/// Settings, each with the reason in words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recommended {
    /// Average chunk, in bytes.
    pub chunk_bytes: u32,
    /// Why.
    pub chunk_why: String,
    /// The cap.
    pub cap: Cap,
    /// Why.
    pub cap_why: String,
    /// The option that sets the chunk size.
    pub chunk_option: &'static str,
    /// Memory of restores, in bytes; `None` if no restore reads anything.
    pub memory: Option<u64>,
    /// Why.
    pub memory_why: String,
}

pub(super) fn of(by_size: &[Given], by_cap: &[Given], backups: usize, tried: &Tried) -> Recommended {
    let (chunk_bytes, chunk_why) = chunk(by_size);
    let (cap, cap_why) = cap(by_cap, backups, tried.memory);
    let chosen = by_cap.iter().find(|given| given.cap == cap);
    let (memory, memory_why) = memory(chosen, tried.memory);
    Recommended {
        chunk_bytes,
        chunk_why,
        chunk_option: tried.chunk_option(),
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
    // Takes the default if it is as good; else the longest, which needs the least memory.
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

/// A cap compared with no cap.
#[derive(Debug, Clone, Copy)]
struct Judged {
    cap: Cap,
    /// How many times as fast restores are.
    times: f64,
    /// The share of the deduplication factor that remains.
    kept: f64,
}

impl Judged {
    const NONE: Self = Self {
        cap: Cap::None,
        times: 1.0,
        kept: 1.0,
    };

    fn lost_percent(self) -> f64 {
        (1.0 - self.kept).max(0.0) * 100.0
    }

    fn is_dear(self) -> bool {
        self.kept < 1.0 - LOSS_MAX
    }

    /// Whether the gain in restore speed is no larger than the loss of deduplication.
    fn gains_nothing(self) -> bool {
        self.times * self.kept <= 1.0 + AS_GOOD
    }

    /// Whether this cap should replace `other`: it is not dear, costs little more, and restores are
    /// clearly faster.
    fn pays_beside(self, other: Self) -> bool {
        let is_cheap = !self.is_dear() && self.kept >= other.kept * (1.0 - MORE_LOSS_MAX);
        is_cheap && self.times >= other.times * MORE_GAIN_MIN
    }

    fn words(self) -> String {
        format!(
            "restores are {:.2} times as fast as without a cap, for {:.1} % of the deduplication",
            self.times,
            self.lost_percent()
        )
    }
}

/// The base is the default cap, or no cap if the default costs too much or gains nothing. The
/// fastest cap that pays compared with the base replaces it. Speeds are those with a restore's
/// default memory.
fn cap(by_cap: &[Given], backups: usize, memory: u64) -> (Cap, String) {
    let default = Capping::default().cap;
    let none = by_cap.iter().find(|given| given.cap == Cap::None);
    let none = none.and_then(|none| Some((none, none.speed(memory)?)));
    let judged = |given: &Given| {
        let (none, speed) = none?;
        Some(Judged {
            cap: given.cap,
            times: given.speed(memory)? / speed,
            kept: given.factor / none.factor,
        })
    };
    let all: Vec<Judged> = by_cap.iter().filter_map(judged).collect();
    let Some(usual) = all.iter().copied().find(|one| one.cap == default) else {
        return (default, "the default; no restore reads anything".to_owned());
    };
    if backups < 2 && !usual.is_dear() {
        return (
            default,
            "the default; a cap is for what many backups scatter: name several versions of the data to see what it gives"
                .to_owned(),
        );
    }
    let named = cap_name(default);
    let (base, against) = if usual.is_dear() {
        let lost = usual.lost_percent();
        let dear =
            format!("the default, {named}, costs {lost:.1} % of the deduplication, which is more than 8 %");
        (Judged::NONE, Some(dear))
    } else if usual.gains_nothing() {
        let nothing = format!(
            "with the default, {named}, {}: nothing is gained so far",
            usual.words()
        );
        (Judged::NONE, Some(nothing))
    } else {
        (usual, None)
    };
    let others = all.into_iter().filter(|one| one.pays_beside(base));
    let best = others.max_by(|a, b| a.times.total_cmp(&b.times));
    match (best, against) {
        (Some(best), Some(against)) => (best.cap, format!("{}; {against}", best.words())),
        (Some(best), None) => (
            best.cap,
            format!("{}; with the default, {named}, {}", best.words(), usual.words()),
        ),
        (None, Some(against)) => (
            Cap::None,
            format!(
                "{against}; no cap that was tried makes restores 1.15 times as fast for at most 3 % of the deduplication"
            ),
        ),
        (None, None) => (
            default,
            format!(
                "the default: with chunks of 8 KiB {}; no other that was tried makes them 1.15 times as fast again for at most 3 % more",
                usual.words()
            ),
        ),
    }
}

/// The default memory. If it is not enough: the least that is. If less is as good: less.
fn memory(given: Option<&Given>, default: u64) -> (Option<u64>, String) {
    let speeds = given.map_or(&[][..], |given| &given.speeds);
    let Some(best) = speeds.iter().map(|(_, speed)| *speed).reduce(f64::max) else {
        return (None, "no restore reads anything".to_owned());
    };
    let with_least = |speed: f64| speeds.iter().copied().find(|(_, with)| *with >= speed);
    let usual = speeds.iter().copied().find(|(bytes, _)| *bytes == default);
    let usual = usual.unwrap_or((default, 0.0));
    let named = bytes_name(default);
    let is_enough = usual.1 >= best * SPEED_SHARE;
    let enough = with_least(if is_enough {
        usual.1 * (1.0 - AS_GOOD)
    } else {
        best * SPEED_SHARE
    });
    let chosen = enough.unwrap_or(usual);
    let ground = if chosen.0 == default {
        format!("the default; no memory that was tried gives more than {best:.2}")
    } else if is_enough {
        format!(
            "the default, {named}, gives {:.2}: no more than 1 % more",
            usual.1
        )
    } else {
        format!(
            "the least that gives 90 % of the {best:.2} with the most; the default, {named}, gives {:.2}",
            usual.1
        )
    };
    (
        Some(chosen.0),
        format!(
            "{:.2} MiB for each container read, with chunks of 8 KiB; {ground}",
            chosen.1
        ),
    )
}

#[cfg(test)]
mod tests;
