//! The candidates from which a window's chunks may be taken.

use index::age_order;
use types::Fingerprint;

use super::cap::Holder;
use super::placed::PlacedAt;

/// A chunk to be decided on.
#[derive(Debug)]
pub(super) struct Wanted {
    pub(super) fingerprint: Fingerprint,
    pub(super) len: u32,
    pub(super) is_offered: bool,
    /// Whether a hook was not used because of the cap.
    pub(super) is_passed_over: bool,
    pub(super) place: Option<PlacedAt>,
    /// The last of its offers.
    pub(super) offer: Option<u32>,
}

/// A container or batch that may be chosen.
#[derive(Debug)]
pub(super) struct Candidate {
    pub(super) holder: Holder,
    /// Bytes that hooks promise for it.
    pub(super) promised: u64,
    /// The chunk whose hook named it first.
    pub(super) hinted_by: Option<usize>,
    pub(super) is_loaded: bool,
    pub(super) is_chosen: bool,
    /// The first and the last of its offers.
    pub(super) offers: Option<(u32, u32)>,
    /// Bytes that it has, or promises, and that no candidate chosen before has. A chunk counts once
    /// for each offer.
    pub(super) gain: u64,
}

/// A candidate has a chunk.
#[derive(Debug, Clone, Copy)]
pub(super) struct Offer {
    pub(super) chunk: u32,
    pub(super) candidate: u32,
    pub(super) place: PlacedAt,
    /// The offer before, of the same chunk.
    pub(super) of_chunk: Option<u32>,
    /// The next, of the same candidate.
    pub(super) of_candidate: Option<u32>,
}

impl Candidate {
    /// Counts a hook that names it.
    pub(super) fn promise(&mut self, bytes: u64) {
        self.promised += bytes;
        if !self.is_loaded {
            self.gain += bytes;
        }
    }

    /// Its content is known, so promises of hooks no longer count.
    pub(super) fn set_loaded(&mut self) {
        if !self.is_loaded {
            self.is_loaded = true;
            self.gain -= self.promised;
        }
    }
}

/// Of equal ranks the newer one is preferred: the session's own before others.
pub(super) fn newness(holder: Holder) -> (u64, u32) {
    match holder {
        Holder::Container(id) => (age_order(id), 0),
        Holder::Own(batch) => (u64::MAX, batch.number),
    }
}
