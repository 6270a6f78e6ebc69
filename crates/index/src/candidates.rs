//! The answer of a look-up: the newest containers that may hold a fingerprint.

use types::{ContainerId, SessionId};

/// Candidates a look-up gives at most, and a merge keeps of one fingerprint: the newest.
pub const CANDIDATES_MAX: usize = 8;

/// Newer sessions are greater; within one, later containers, whatever their kind.
#[must_use]
pub fn age_order(id: ContainerId) -> u64 {
    (id.session.get() << 27) | (u64::from(id.sequence.get()) << 3) | u64::from(id.kind.number())
}

/// What an index found, as its answer: without a session's own, newest first, each once, and not
/// too many.
pub(crate) fn chosen_of(found: &mut Vec<ContainerId>, apart: Option<SessionId>) {
    found.retain(|id| Some(id.session) != apart);
    found.sort_unstable_by_key(|id| std::cmp::Reverse(age_order(*id)));
    found.dedup();
    found.truncate(CANDIDATES_MAX);
}
