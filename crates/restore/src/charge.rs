//! The charge of a fill on the budget.

use crate::belady::KEPT_BYTES;
use crate::plan::{Fill, Place, SPOT_BYTES};

/// What a fill takes of the room until it has left.
pub(crate) fn charge(fill: &Fill) -> u64 {
    match fill.place {
        Place::Spot(_) => fill.len + SPOT_BYTES,
        Place::Kept(_) => fill.len + KEPT_BYTES,
    }
}
