//! The table of extents: who has each extent of the pool (D5).
//!
//! A page has two copies, in neighbouring blocks, which are written in turn.

use types::{ExtentNumber, VolumeId};

use crate::error::{FormatError, Result};
use crate::wire::{Reader, Writer};

/// Entries of a page.
pub const TABLE_PAGE_ENTRIES: usize = 504;
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
    /// 29, the volume in the lower 32.
    #[must_use]
    pub const fn to_u64(self) -> u64 {
        let (kind, volume) = match self.owner {
            ExtentOwner::Free => (0, 0),
            ExtentOwner::Granted(volume) => (1, volume.get()),
            ExtentOwner::Owned(volume) => (2, volume.get()),
            ExtentOwner::Header(volume) => (3, volume.get()),
            ExtentOwner::Pool => (4, 0),
        };
        (kind << 61) | (((self.grants & GRANTS_MAX) as u64) << 32) | volume as u64
    }

    /// The inverse of [`Self::to_u64`].
    #[must_use]
    pub fn from_u64(value: u64) -> Option<Self> {
        let number = u32::try_from(value & 0xffff_ffff).ok()?;
        let volume = VolumeId::new(number).ok()?;
        let owner = match value >> 61 {
            0 if number == 0 => ExtentOwner::Free,
            1 => ExtentOwner::Granted(volume),
            2 => ExtentOwner::Owned(volume),
            3 => ExtentOwner::Header(volume),
            4 if number == 0 => ExtentOwner::Pool,
            _ => return None,
        };
        let grants = u32::try_from((value >> 32) & 0x1fff_ffff).ok()?;
        Some(Self { owner, grants })
    }
}

/// A page of the table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TablePage {
    /// Counts the writes of this page; the whole copy with the larger number holds.
    pub counter: u64,
    /// The first extent that it is about.
    pub first: ExtentNumber,
    /// [`TABLE_PAGE_ENTRIES`] entries.
    pub entries: Vec<TableEntry>,
}

impl TablePage {
    /// The payload of the block.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(12 + 8 * self.entries.len());
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
        let counter = r.u64()?;
        let first = ExtentNumber::new(r.u32()?).map_err(|_| FormatError::Invalid {
            what: "table page",
            why: "its first extent is out of range",
        })?;
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
