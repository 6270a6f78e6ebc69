//! Probes of the blocks of a pool.

use crate::pool::BLOCK_BYTES;
use crate::pool::entry::{MapEntry, PageReference};
use crate::pool::frame::{BlockKind, open, seal};
use crate::pool::header::VolumeHeader;
use crate::pool::log::LogBlockHead;
use crate::pool::state::{VolumeState, read_state_page, state_page};
use crate::pool::superblock::Superblock;
use crate::pool::table::TablePage;
use crate::wire::digest;

/// The frame of every kind, with the given and with the right magic and digest; and the payloads
/// of [`Superblock`], [`TablePage`], [`VolumeHeader`], a page of a state, and a page of the map.
pub fn pool_blocks(bytes: &[u8]) {
    for kind in BlockKind::ALL {
        frame(kind, bytes);
        if bytes.len() == BLOCK_BYTES {
            frame(kind, &with_magic_and_digest(kind, bytes));
        }
    }
    same_bytes!(Superblock, bytes);
    same_bytes!(VolumeHeader, bytes);
    if let Ok(page) = TablePage::from_bytes(bytes) {
        assert_eq!(page.to_bytes(), bytes, "accepted another encoding of {page:?}");
    }
    if let Ok((next, part)) = read_state_page(bytes) {
        assert_eq!(state_page(next, part), bytes, "accepted another encoding");
    }
    map_page(bytes);
}

/// [`LogBlockHead`] and the records behind it.
pub fn log_block(bytes: &[u8]) {
    let Ok((head, records)) = LogBlockHead::read(bytes) else {
        return;
    };
    let mut encoded = Vec::new();
    for record in &records {
        record.write(&mut encoded);
    }
    assert_eq!(
        head.with_records(&encoded),
        bytes,
        "accepted another encoding of {head:?} and {records:?}"
    );
}

/// [`VolumeState`].
pub fn volume_state(bytes: &[u8]) {
    same_bytes!(VolumeState, bytes);
}

fn frame(kind: BlockKind, block: &[u8]) {
    if let Ok(payload) = open(kind, block) {
        let mut again = [0xee; BLOCK_BYTES];
        seal(kind, payload, &mut again);
        assert_eq!(again.as_slice(), block, "accepted another frame of a {kind:?}");
    }
}

fn with_magic_and_digest(kind: BlockKind, bytes: &[u8]) -> Vec<u8> {
    let covered = bytes.get(24..).unwrap_or_default();
    let digest = digest(covered).to_le_bytes();
    [kind.magic().as_slice(), &digest, covered].concat()
}

/// The bytes as entries and as references.
fn map_page(bytes: &[u8]) {
    for packed in bytes.as_chunks().0.iter().copied().map(u64::from_le_bytes) {
        if let Some(entry) = MapEntry::from_u64(packed) {
            assert_eq!(entry.to_u64(), packed, "accepted another encoding of {entry:?}");
            let is_stored = MapEntry::from_stored(packed) == Some(entry);
            assert_eq!(is_stored, entry.stored() == entry, "{entry:?}");
        } else {
            assert_eq!(MapEntry::from_stored(packed), None);
        }
        let reference = PageReference::from_u64(packed);
        assert_eq!(reference.map_or(0, PageReference::to_u64), packed);
    }
}
