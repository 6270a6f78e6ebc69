//! Finds storage clocks that were far ahead, so that backups seem older than they are.
//!
//! A rule that keeps what is not older than some span counts back from the newest backup of a
//! group. If the storage's clock was years ahead when that one was committed, or still is, all
//! others seem years old, and the rule would forget them. The times of the storage agree with the
//! order of backups, so straightening does not mend them.
//!
//! The rule: a backup's age is *stretched* if it is at most a quarter of what the storage says by
//! the times that backups state themselves, and an hour or more less. The newest backup of a series
//! is *ahead* if the age of another one is stretched, and the source's clock never went back
//! between the two. A source without a clock that runs while it is off may seem so too; its user
//! says which times count.

use types::UnixNanos;

use super::Candidate;
use super::squeezed::{SPREAD_NANOS_MIN, TOO_FAST_MAX};

/// Whether the age of a backup is stretched, given the times of the newest one and of this one by
/// the storage's clock and by the source's.
fn is_stretched(storage: [UnixNanos; 2], own: [UnixNanos; 2]) -> bool {
    let age = |[newest, one]: [UnixNanos; 2]| newest.get().saturating_sub(one.get());
    let (storage, own) = (age(storage), age(own));
    own > 0 && storage.saturating_sub(own) >= SPREAD_NANOS_MIN && own <= storage / TOO_FAST_MAX
}

/// Marks the newest backup of a series if it is ahead. They come in the order of sessions, with
/// straightened commit times.
pub(super) fn mark(series: &mut [Candidate], own: &[UnixNanos]) {
    let Some((newest, before)) = series.split_last_mut() else {
        return;
    };
    let own_newest = own[before.len()];
    for (at, one) in before.iter().enumerate().rev() {
        if own[at] >= own[at + 1] {
            return;
        }
        if is_stretched([newest.committed_at, one.committed_at], [own_newest, own[at]]) {
            newest.is_ahead = true;
            return;
        }
    }
}

/// Whether a backup seems older than it is, because the newest one of its group is ahead.
pub(super) fn seems_old(one: &Candidate, newest: &Candidate) -> bool {
    newest.is_ahead
        && is_stretched(
            [newest.committed_at, one.committed_at],
            [newest.own_at, one.own_at],
        )
}
