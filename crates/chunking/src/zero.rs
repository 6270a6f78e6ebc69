//! Finding chunks that are zeros only (RevDedup 3.3, R8).

const LANE: usize = 128;

/// Whether every byte is zero; true without bytes.
///
/// On zeros it runs at the speed of memory. On nearly everything else it stops within 128 bytes.
#[must_use]
pub fn is_zero(bytes: &[u8]) -> bool {
    let (lanes, rest) = bytes.as_chunks::<LANE>();
    lanes
        .iter()
        .all(|lane| lane.iter().fold(0, |seen, b| seen | b) == 0)
        && rest.iter().all(|&b| b == 0)
}
