//! How long the reads of a restore are: on a disk, and on a storage that is far.

use recipe::StoreReader;

/// How long reads are.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ReadSizes {
    /// The most stored bytes of a piece, unless a single region has more.
    pub(crate) piece_bytes_max: usize,
    /// So many unneeded bytes are read rather than requesting twice: they arrive in the time of a
    /// request.
    pub(crate) gap_bytes_max: u64,
}

impl ReadSizes {
    /// For a disk.
    pub(crate) const NEAR: Self = Self {
        piece_bytes_max: 4 << 20,
        gap_bytes_max: 256 << 10,
    };
    /// For an object store: half a container is one request.
    pub(crate) const FAR: Self = Self {
        piece_bytes_max: 8 << 20,
        gap_bytes_max: 1 << 20,
    };

    pub(crate) fn of(reader: &dyn StoreReader) -> Self {
        if reader.is_far() { Self::FAR } else { Self::NEAR }
    }
}
