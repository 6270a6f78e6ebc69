//! Finds commit times that contradict the times in the backups.
//!
//! `cp -r` copies a store without its times, so all commits get the time of the copy. Then a rule
//! that keeps one backup a day finds only one day. Retention still uses the storage's times
//! (INV-6), because they come from one clock. But if the storage's times are close together and the
//! backups' own times are not, one of the two is wrong, and the program cannot tell which.
//!
//! The rule, within a series and in the order of sessions: a step from one backup to the next is
//! *squeezed* if the source's clock went forward, and the storage's by at most a quarter of that.
//! [`STEPS_MIN`] or more such steps in a row, of an hour or more together, make their backups
//! squeezed. A wrong clock of a source does not cause that. One that is ahead, behind, or up to
//! four times too fast agrees in its steps. One that is wrong once, or at each boot until it is
//! set, makes one squeezed step, and then goes back or agrees again.

use types::UnixNanos;

use super::Candidate;

/// This many squeezed steps in a row are no accident.
const STEPS_MIN: usize = 2;
/// The shortest period that a rule knows: no rule can distinguish times that are closer together.
pub(super) const SPREAD_NANOS_MIN: i64 = 3_600_000_000_000;
/// A wrong clock of a source is at most so many times too fast or too slow. In a squeezed step the
/// storage's clock moves at most by the source's step divided by this.
pub(super) const TOO_FAST_MAX: i64 = 4;

/// Marks the squeezed backups of a series. They come in the order of sessions, with straightened
/// commit times.
pub(super) fn mark(series: &mut [Candidate], own: &[UnixNanos]) {
    let mut begin = 0;
    while begin < series.len() {
        let mut end = begin;
        while end + 1 < series.len() && is_squeezed(&series[end..=end + 1], &own[end..=end + 1]) {
            end += 1;
        }
        let spread = own[end].get().saturating_sub(own[begin].get());
        if end - begin >= STEPS_MIN && spread >= SPREAD_NANOS_MIN {
            for one in &mut series[begin..=end] {
                one.is_squeezed = true;
            }
        }
        begin = end + 1;
    }
}

fn is_squeezed(step: &[Candidate], own: &[UnixNanos]) -> bool {
    let [from, to] = step else { return false };
    let [own_from, own_to] = own else { return false };
    let source = own_to.get().saturating_sub(own_from.get());
    let storage = to.committed_at.get().saturating_sub(from.committed_at.get());
    source > 0 && storage <= source / TOO_FAST_MAX
}

/// The first and the last of some times.
pub(super) fn span(times: impl Iterator<Item = UnixNanos> + Clone) -> (UnixNanos, UnixNanos) {
    let none = UnixNanos::new(0);
    (times.clone().min().unwrap_or(none), times.max().unwrap_or(none))
}
