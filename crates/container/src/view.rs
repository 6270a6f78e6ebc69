//! A container's catalog, checked and ready for look-ups.
//!
//! Invariant: a [`CatalogView`] exists only for a trailer with the right digest, a catalog with our
//! seal, and rows and entries that fit each other. Its users need not check again. It is immutable,
//! and threads share it by `Arc`. It describes one generation: slots stay valid for ever (INV-2),
//! regions only while that generation exists.

use std::ops::Range;

use crypto::{EncryptionKey, SealKey};
use format::FormatError;
use format::container::{Body, Catalog, CatalogEntry, HEADER_BYTES, RegionRow};
use types::{ContainerId, Fingerprint, Generation, RegionIndex, Slot, SlotRange};

use crate::identity::{CopyOf, Identity, seal_key};
use crate::lookup::{FingerprintTable, SlotTable};

/// The place of one entry's bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EntryPlace {
    /// The region.
    pub region: RegionIndex,
    /// First byte in the region's plaintext.
    pub offset: u32,
    /// Plain bytes.
    pub len: u32,
}

/// A checked catalog, with its tables for look-up. It is cheap to share, and takes some 80 bytes
/// for each entry.
#[derive(Debug)]
pub struct CatalogView {
    contents: Contents,
}

/// The common data of all views of one generation.
#[derive(Debug)]
pub(crate) struct Contents {
    pub(crate) at: Identity,
    /// The salt in the header.
    pub(crate) salt: [u8; 32],
    pub(crate) object_len: u64,
    pub(crate) catalog: Catalog,
    pub(crate) rows: Vec<RegionRow>,
    /// Absent in views that were made from entries alone: these have no regions to open.
    pub(crate) regions: Option<Regions>,
    offsets: Vec<u32>,
    slots: SlotTable,
    fingerprints: FingerprintTable,
}

/// The place of a generation's regions, and the keys to open them.
#[derive(Debug)]
pub(crate) struct Regions {
    pub(crate) at: Identity,
    pub(crate) body: Option<Body>,
    pub(crate) key: SealKey,
}

impl Regions {
    /// The regions of a generation that `key` seals.
    pub(crate) fn of(at: Identity, body: Option<Body>, key: SealKey, encryption: &EncryptionKey) -> Self {
        match body {
            None => Self { at, body, key },
            Some(of) => Self {
                at: Identity::body(at.id, of.generation),
                body,
                key: seal_key(encryption, &of.salt),
            },
        }
    }
}

impl Contents {
    /// Builds the tables of a decoded catalog, after checking that the rows fit it.
    pub(crate) fn new(
        at: Identity,
        salt: [u8; 32],
        object_len: u64,
        catalog: Catalog,
        rows: Vec<RegionRow>,
        regions: Option<Regions>,
    ) -> Result<Self, FormatError> {
        catalog.check_rows(&rows)?;
        let mut offsets = Vec::with_capacity(catalog.entries.len());
        let mut rest = catalog.entries.as_slice();
        for row in &rows {
            let (held, after) = rest.split_at(rest.len().min(row.entry_count as usize));
            let mut offset = 0;
            for entry in held {
                offsets.push(offset);
                offset += entry.len;
            }
            rest = after;
        }
        Ok(Self::with_offsets(
            at, salt, object_len, catalog, rows, regions, offsets,
        ))
    }

    fn with_offsets(
        at: Identity,
        salt: [u8; 32],
        object_len: u64,
        catalog: Catalog,
        rows: Vec<RegionRow>,
        regions: Option<Regions>,
        offsets: Vec<u32>,
    ) -> Self {
        let slots = SlotTable::new(&catalog.entries);
        let fingerprints = FingerprintTable::new(catalog.entries.iter().map(|entry| entry.fingerprint));
        Self {
            at,
            salt,
            object_len,
            catalog,
            rows,
            regions,
            offsets,
            slots,
            fingerprints,
        }
    }

    pub(crate) fn body(&self) -> Option<&Body> {
        self.regions.as_ref()?.body.as_ref()
    }

    /// The object with the regions.
    pub(crate) fn regions_at(&self) -> Identity {
        self.regions.as_ref().map_or(self.at, |regions| regions.at)
    }

    fn bytes_in_memory(&self) -> u64 {
        let bytes = size_of::<Self>()
            + self.catalog.entries.capacity() * size_of::<CatalogEntry>()
            + self.rows.capacity() * size_of::<RegionRow>()
            + self.offsets.capacity() * size_of::<u32>()
            + self.slots.bytes_in_memory()
            + self.fingerprints.bytes_in_memory();
        bytes as u64
    }
}

impl CatalogView {
    pub(crate) const fn of(contents: Contents) -> Self {
        Self { contents }
    }

    /// A view of entries without regions: for planning, and for tests that need only catalogs.
    /// Reading a region of it is an error.
    ///
    /// # Errors
    /// The rule of the format that the entries break: a slot occurs twice, or a chunk has two
    /// lengths.
    pub fn from_entries(
        id: ContainerId,
        generation: Generation,
        entries: Vec<CatalogEntry>,
    ) -> Result<Self, FormatError> {
        let catalog = Catalog { entries };
        catalog.check()?;
        let at = Identity {
            id,
            generation,
            copy: CopyOf::Main,
        };
        let contents = Contents::with_offsets(at, [0; 32], 0, catalog, Vec::new(), None, Vec::new());
        Ok(Self::of(contents))
    }

    /// A view of a catalog that a remote store has sent: entries and rows. It cannot read a region
    /// here, but it describes regions that the store has sent.
    ///
    /// # Errors
    /// The rule of the format that the entries or rows break.
    pub fn from_rows(
        id: ContainerId,
        generation: Generation,
        entries: Vec<CatalogEntry>,
        rows: Vec<RegionRow>,
    ) -> Result<Self, FormatError> {
        let catalog = Catalog { entries };
        catalog.check()?;
        let at = Identity {
            id,
            generation,
            copy: CopyOf::Main,
        };
        Ok(Self::of(Contents::new(at, [0; 32], 0, catalog, rows, None)?))
    }

    pub(crate) fn contents(&self) -> &Contents {
        &self.contents
    }

    /// The container.
    #[must_use]
    pub fn id(&self) -> ContainerId {
        self.contents.at.id
    }

    /// The generation.
    #[must_use]
    pub fn generation(&self) -> Generation {
        self.contents.at.generation
    }

    /// The length of the object in bytes, without that of a body; 0 for a view made from entries.
    #[must_use]
    pub fn object_len(&self) -> u64 {
        self.contents.object_len
    }

    /// For a trimmed generation: the generation whose object has its regions.
    #[must_use]
    pub fn body(&self) -> Option<Generation> {
        Some(self.contents.body()?.generation)
    }

    /// For a trimmed generation: the length of the object with its regions, in bytes.
    #[must_use]
    pub fn body_len(&self) -> Option<u64> {
        Some(self.contents.body()?.len)
    }

    /// The slots whose regions end beyond this length of the object with the regions.
    #[must_use]
    pub fn slots_beyond(&self, len: u64) -> Vec<SlotRange> {
        let rows = self.rows().iter().zip(0u32..);
        let beyond = rows.filter(|(row, _)| {
            row.entry_count > 0 && row.offset.saturating_add(u64::from(row.stored_len)) > len
        });
        let regions = beyond.filter_map(|(_, number)| RegionIndex::new(number).ok());
        regions.flat_map(|region| self.slots_in(region)).collect()
    }

    /// Stored bytes of one copy of this generation. For a trimmed one, the rest of its body is
    /// included.
    #[must_use]
    pub fn stored_bytes(&self) -> u64 {
        let kept = self.rows().iter().filter(|row| row.entry_count > 0);
        let in_body = self.body().map_or(0, |_| {
            HEADER_BYTES as u64 + kept.map(|row| u64::from(row.stored_len)).sum::<u64>()
        });
        self.object_len() + in_body
    }

    /// All entries, in the order of their bytes.
    #[must_use]
    pub fn entries(&self) -> &[CatalogEntry] {
        &self.contents.catalog.entries
    }

    /// The region rows, in order.
    #[must_use]
    pub fn rows(&self) -> &[RegionRow] {
        &self.contents.rows
    }

    /// The entry of a slot; `None` if the slot was removed or never existed.
    #[must_use]
    pub fn entry(&self, slot: Slot) -> Option<&CatalogEntry> {
        self.entries().get(self.position(slot)?)
    }

    /// The entry's index in [`Self::entries`].
    #[must_use]
    pub fn position(&self, slot: Slot) -> Option<usize> {
        self.contents.slots.position(slot)
    }

    /// An entry with this fingerprint: the first one in physical order.
    #[must_use]
    pub fn find(&self, fingerprint: &Fingerprint) -> Option<&CatalogEntry> {
        self.find_all(fingerprint).next()
    }

    /// All entries with this fingerprint, in physical order.
    pub fn find_all(&self, fingerprint: &Fingerprint) -> impl Iterator<Item = &CatalogEntry> {
        let fingerprint = *fingerprint;
        let positions = self.contents.fingerprints.positions(&fingerprint);
        positions
            .filter_map(|position| self.entries().get(position as usize))
            .filter(move |entry| entry.fingerprint == fingerprint)
    }

    /// The region that holds a slot.
    #[must_use]
    pub fn region_of(&self, slot: Slot) -> Option<RegionIndex> {
        Some(self.place_of(slot)?.region)
    }

    /// Region, offset and length of a slot.
    #[must_use]
    pub fn place_of(&self, slot: Slot) -> Option<EntryPlace> {
        self.place_at(self.position(slot)?)
    }

    /// Like [`Self::place_of`], by index in [`Self::entries`].
    #[must_use]
    pub fn place_at(&self, position: usize) -> Option<EntryPlace> {
        let entry = self.entries().get(position)?;
        let offset = *self.contents.offsets.get(position)?;
        let after = self
            .rows()
            .partition_point(|row| row.first_entry as usize <= position);
        let region = RegionIndex::new(u32::try_from(after.checked_sub(1)?).ok()?).ok()?;
        Some(EntryPlace {
            region,
            offset,
            len: entry.len,
        })
    }

    /// One region's row.
    #[must_use]
    pub fn row(&self, region: RegionIndex) -> Option<&RegionRow> {
        self.rows().get(region.get() as usize)
    }

    /// The entries in a region, as indices in [`Self::entries`].
    #[must_use]
    pub fn positions_in(&self, region: RegionIndex) -> Range<usize> {
        self.row(region).map_or(0..0, |row| {
            let first = row.first_entry as usize;
            first..first + row.entry_count as usize
        })
    }

    /// Plain bytes of a region; 0 if it does not exist.
    #[must_use]
    pub fn plain_len(&self, region: RegionIndex) -> u64 {
        let positions = self.positions_in(region);
        self.entries()
            .get(positions)
            .unwrap_or_default()
            .iter()
            .map(|entry| u64::from(entry.len))
            .sum()
    }

    /// The slots in a region, in ascending ranges. They are lost with the region.
    #[must_use]
    pub fn slots_in(&self, region: RegionIndex) -> Vec<SlotRange> {
        let entries = self.entries().get(self.positions_in(region)).unwrap_or_default();
        let mut slots: Vec<u32> = entries.iter().map(|entry| entry.slot.get()).collect();
        slots.sort_unstable();
        slots
            .chunk_by(|a, b| a + 1 == *b)
            .filter_map(|run| SlotRange::new(Slot::new(run[0]).ok()?, u32::try_from(run.len()).ok()?))
            .collect()
    }

    pub(crate) fn is_same_generation(&self, other: &Self) -> bool {
        self.id() == other.id() && self.generation() == other.generation()
    }

    /// Memory of the view, for budgets (INV-7).
    #[must_use]
    pub fn bytes_in_memory(&self) -> u64 {
        self.contents.bytes_in_memory()
    }
}
