//! Commit times that contradict what backups say of themselves.
//!
//! Who copies a store without its times, as `cp -r` does, gives all commits the time of the copy:
//! then a rule that keeps a backup a day finds one day. The storage's times are still what
//! retention goes by (INV-6), for they are one clock's. But where they lie together and the
//! backups' own times do not, one of both is wrong, and nobody here can say which.
//!
//! The rule, within a series and in the order of sessions: a step from one backup to the next is
//! *squeezed* where the source's clock went forward, and the storage's by less than a quarter of
//! that. At least [`STEPS_MIN`] such steps in a row, of an hour or more together, make their
//! backups squeezed. What a source's clock does by itself makes no such row: a clock that is ahead,
//! behind, or up to four times too fast agrees in its steps; one that is wrong once, or at each
//! boot until it is set, makes one squeezed step, and then goes back, or agrees again.

use types::UnixNanos;

use super::Candidate;

/// So many squeezed steps in a row are no accident.
const STEPS_MIN: usize = 2;
/// The shortest period that a rule knows: what lies closer together no rule can tell apart.
const SPREAD_NANOS_MIN: i64 = 3_600_000_000_000;
/// The storage's clock goes by less than the source's divided by this.
const SQUEEZED_BY: i64 = 4;

/// Marks the squeezed ones of a series, which come in the order of sessions with their commit times
/// straightened.
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
    source > 0 && storage <= source / SQUEEZED_BY
}

/// First and last of some times.
pub(super) fn span(times: impl Iterator<Item = UnixNanos> + Clone) -> (UnixNanos, UnixNanos) {
    let none = UnixNanos::new(0);
    (times.clone().min().unwrap_or(none), times.max().unwrap_or(none))
}
