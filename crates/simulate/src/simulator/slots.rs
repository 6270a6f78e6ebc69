//! Conversions to slots and to new chunks of containers.

use types::{Fingerprint, Slot};

use super::containers::Held;

/// A slot as look-ups know it.
pub(super) fn slot(number: u32) -> Slot {
    Slot::new(number).expect("no container has more chunks than slots")
}

/// A chunk without a reference.
pub(super) fn unnamed(fingerprint: Fingerprint, len: u32) -> Held {
    Held {
        fingerprint,
        len,
        uses: 0,
    }
}
