//! The answer of a look-up: the newest containers that may have a fingerprint.

use types::{ContainerId, SessionId};

/// The most candidates of a look-up, and the most that a merge keeps for one fingerprint: the
/// newest.
pub const CANDIDATES_MAX: usize = 8;

/// A key that orders containers by age. Newer sessions have greater keys; within a session, later
/// containers of any kind.
#[must_use]
pub fn age_order(id: ContainerId) -> u64 {
    (id.session.get() << 27) | (u64::from(id.sequence.get()) << 3) | u64::from(id.kind.number())
}

/// Turns found containers into an answer: without those of the session `apart`, newest first, each
/// once, and not too many.
pub(crate) fn chosen_of(found: &mut Vec<ContainerId>, apart: Option<SessionId>) {
    found.retain(|id| Some(id.session) != apart);
    found.sort_unstable_by_key(|id| std::cmp::Reverse(age_order(*id)));
    found.dedup();
    found.truncate(CANDIDATES_MAX);
}
