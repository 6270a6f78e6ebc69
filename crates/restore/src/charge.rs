//! The charge of a fill on the budget.

use crate::belady::KEPT_BYTES;
use crate::plan::{Fill, Place, SPOT_BYTES};

/// The bytes of the budget that a fill takes until it was sent.
pub(crate) fn charge(fill: &Fill) -> u64 {
    match fill.place {
        Place::Spot(_) => fill.len + SPOT_BYTES,
        Place::Kept(_) => fill.len + KEPT_BYTES,
    }
}
