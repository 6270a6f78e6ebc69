//! The table of extents: who has each extent of the pool (D5).
//!
//! A page has two copies, in neighbouring blocks, which are written in turn.

use types::{ExtentNumber, VolumeId};

use crate::error::Result;
use crate::wire::{Reader, Writer};

/// Entries of a page.
pub const TABLE_PAGE_ENTRIES: usize = 504;
/// Bytes of a page's payload.
pub const TABLE_PAGE_BYTES: usize = 8 + 4 + 8 * TABLE_PAGE_ENTRIES;
/// Entries of a whole extent of the table: its pages have two blocks each.
pub const TABLE_EXTENT_ENTRIES: usize = TABLE_PAGE_ENTRIES * 512;
/// The largest number of grants of an extent; later ones begin again at 0.
pub const GRANTS_MAX: u32 = 0x1fff_ffff;

/// Who has an extent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExtentOwner {
    /// Nobody.
    Free,
    /// Granted to a volume, whose log may not say so yet.
    Granted(VolumeId),
    /// A volume; a checkpoint of it knows.
    Owned(VolumeId),
    /// The extent of a volume's header. Its blocks behind the header are the volume's.
    Header(VolumeId),
    /// The pool: superblocks and the table.
    Pool,
}

/// An entry of the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TableEntry {
    /// Who has the extent.
    pub owner: ExtentOwner,
    /// How often it was granted. It tells an old record about the extent from a new one.
    pub grants: u32,
}

impl TableEntry {
    /// A free extent that was never granted.
    pub const FRESH: Self = Self {
        owner: ExtentOwner::Free,
        grants: 0,
    };

    /// The kind in the upper 3 bits (0 to 4, in the order of [`ExtentOwner`]), grants in the next
    /// 29, the volume in the lower 32. Without a volume, the lower bits are 0; the pool's own
    /// extents are never granted.
    ///
    /// # Panics
    /// If the grants are above [`GRANTS_MAX`], or volume 0 has the extent, or the pool's extent was
    /// granted: the entry could not be read back.
    #[must_use]
    pub const fn to_u64(self) -> u64 {
        let (kind, volume) = match self.owner {
            ExtentOwner::Free => (0, 0),
            ExtentOwner::Granted(volume) => (1, volume.get()),
            ExtentOwner::Owned(volume) => (2, volume.get()),
            ExtentOwner::Header(volume) => (3, volume.get()),
            ExtentOwner::Pool => (4, 0),
        };
        assert!(self.grants <= GRANTS_MAX, "a number of grants has 29 bits");
        assert!(
            (volume != 0) == (1 <= kind && kind <= 3),
            "volumes are numbered from 1"
        );
        assert!(
            self.grants == 0 || kind != 4,
            "nobody grants an extent of the pool"
        );
        (kind << 61) | ((self.grants as u64) << 32) | volume as u64
    }

    /// The inverse of [`Self::to_u64`]; `None` if no entry is packed like this.
    #[must_use]
    pub fn from_u64(value: u64) -> Option<Self> {
        let grants = u32::try_from((value >> 32) & u64::from(GRANTS_MAX)).ok()?;
        let number = u32::try_from(value & 0xffff_ffff).ok()?;
        let volume = VolumeId::new(number).ok()?;
        let owner = match value >> 61 {
            0 if number == 0 => ExtentOwner::Free,
            1 if number != 0 => ExtentOwner::Granted(volume),
            2 if number != 0 => ExtentOwner::Owned(volume),
            3 if number != 0 => ExtentOwner::Header(volume),
            4 if number == 0 && grants == 0 => ExtentOwner::Pool,
            _ => return None,
        };
        Some(Self { owner, grants })
    }
}

/// A page of the table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TablePage {
    /// Counts the writes of this page; the whole copy with the larger number holds.
    pub counter: u64,
    /// The first extent that it is about: a multiple of [`TABLE_PAGE_ENTRIES`].
    pub first: ExtentNumber,
    /// [`TABLE_PAGE_ENTRIES`] entries.
    pub entries: Vec<TableEntry>,
}

impl TablePage {
    /// The payload of the block.
    ///
    /// # Panics
    /// If the page has another number of entries, or begins elsewhere, or [`TableEntry::to_u64`]
    /// panics: it could not be read back.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        assert_eq!(self.entries.len(), TABLE_PAGE_ENTRIES, "a page is whole");
        assert!(is_page(self.first), "a page begins behind the one before");
        let mut out = Vec::with_capacity(TABLE_PAGE_BYTES);
        let mut w = Writer::new(&mut out);
        w.u64(self.counter);
        w.u32(self.first.get());
        for entry in &self.entries {
            w.u64(entry.to_u64());
        }
        out
    }

    /// The page of a payload.
    ///
    /// # Errors
    /// `Malformed` if it is no page.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self> {
        let mut r = Reader::new("table page", bytes);
        r.require(bytes.len() == TABLE_PAGE_BYTES, "it has another length")?;
        let counter = r.u64()?;
        let here = r.fault("no page begins at this extent");
        let first = ExtentNumber::new(r.u32()?).ok();
        let first = first.filter(|first| is_page(*first)).ok_or(here)?;
        let mut entries = Vec::with_capacity(TABLE_PAGE_ENTRIES);
        for _ in 0..TABLE_PAGE_ENTRIES {
            let here = r.fault("an entry has no meaning");
            entries.push(TableEntry::from_u64(r.u64()?).ok_or(here)?);
        }
        r.finish()?;
        Ok(Self {
            counter,
            first,
            entries,
        })
    }
}

/// Whether a page begins at this extent.
const fn is_page(first: ExtentNumber) -> bool {
    (first.get() as usize).is_multiple_of(TABLE_PAGE_ENTRIES)
}
