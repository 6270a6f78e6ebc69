//! Packing: takes compressed regions and their entries, and gives one sealed object.
//!
//! Invariant: the builder collects an object's bytes in one aligned buffer, with room for each
//! region's tag. So sealing encrypts in place, and disks write from there. A buffer that grows
//! copies its bytes. A caller that knows the length, or packs many containers, passes a buffer that
//! has room for all: then nothing is copied. Sealing draws a fresh salt for each attempt. A builder
//! belongs to one thread at a time. Sealing takes much computing, and is meant for a writer thread.
//! Nothing here touches the storage.

use crypto::{SealKey, TAG_BYTES};
use env::AlignedBuffer;
use format::FormatError;
use format::container::{
    Body, CATALOG_ENTRIES_MAX, Catalog, CatalogEntry, Codec, ContainerFooter, ContainerHeader, FOOTER_BYTES,
    HEADER_BYTES, REGION_PLAIN_BYTES_MAX, REGION_ROW_BYTES, REGION_STORED_BYTES_MAX, RegionRow,
    encode_trailer,
};
use format::node::Node;
use format::wire;
use types::{ContainerId, Fingerprint, Generation, Level, RegionIndex, Slot};

use crate::compress::CompressedRegion;
use crate::containers::Containers;
use crate::error::{ContainerError, Part};
use crate::identity::{CATALOG_NUMBER, Identity, seal_key};
use crate::sealed::SealedContainer;
use crate::view::{Contents, Regions};

/// Stored bytes for which a builder has room at first. Doubled six times, it is the default target
/// [Guo 3.1] and a region beyond it.
const FIRST_BYTES: usize = ((16 << 20) + (1 << 20)) / 64;
/// Catalog bytes of an entry: fingerprint and length, and a node's further columns.
const ENTRY_BYTES: u64 = Fingerprint::BYTES as u64 + 3;

/// A chunk or node to be stored, as its catalog will list it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PendingEntry {
    /// Its full fingerprint.
    pub fingerprint: Fingerprint,
    /// Plain bytes in the region.
    pub len: u32,
    /// Its level: 0 for a chunk.
    pub level: Level,
    /// For a node, the bytes of the stream below it; for a chunk, equal to `len`.
    pub logical_len: u64,
}

impl PendingEntry {
    /// The entry of a chunk.
    #[must_use]
    pub fn chunk(fingerprint: Fingerprint, len: u32) -> Self {
        let level = Level::new(0).expect("0 is a level");
        Self {
            fingerprint,
            len,
            level,
            logical_len: u64::from(len),
        }
    }

    /// The entry of a node. Appends the encoded node to its region's plain bytes. `None` if the
    /// node is longer than an entry can say.
    #[must_use]
    pub fn node(fingerprint: Fingerprint, node: &Node, plain: &mut Vec<u8>) -> Option<Self> {
        let before = plain.len();
        node.encode(plain);
        Some(Self {
            fingerprint,
            len: u32::try_from(plain.len() - before).ok()?,
            level: node.level,
            logical_len: node.logical_len,
        })
    }

    fn at(self, slot: Slot) -> CatalogEntry {
        let Self {
            fingerprint,
            len,
            level,
            logical_len,
        } = self;
        CatalogEntry {
            slot,
            fingerprint,
            len,
            level,
            logical_len,
        }
    }
}

/// Counts the size of a container, without its bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SizeCount {
    bytes: u64,
    regions: u64,
    entries: u64,
}

impl Default for SizeCount {
    /// The count of an empty container.
    fn default() -> Self {
        Self {
            bytes: HEADER_BYTES as u64,
            regions: 0,
            entries: 0,
        }
    }
}

impl SizeCount {
    /// Counts a region: its stored bytes without the tag, and its number of entries.
    pub fn add_region(&mut self, bytes: u64, entries: u64) {
        self.bytes += bytes + TAG_BYTES as u64;
        self.regions += 1;
        self.entries += entries;
    }

    /// Like [`ContainerBuilder::stored_len`].
    #[must_use]
    pub fn stored_len(&self) -> u64 {
        self.bytes + self.regions * REGION_ROW_BYTES as u64 + FOOTER_BYTES as u64 + self.entries * ENTRY_BYTES
    }

    /// Like [`ContainerBuilder::has_room_for`].
    #[must_use]
    pub fn has_room_for(&self, entries: u64) -> bool {
        self.entries + entries <= u64::from(CATALOG_ENTRIES_MAX)
    }
}

/// A generation of a container that is being packed.
#[derive(Debug)]
pub struct ContainerBuilder {
    at: Identity,
    bytes: AlignedBuffer,
    regions: Vec<OpenRegion>,
    catalog: Catalog,
}

/// A region in the buffer, with room for its tag.
#[derive(Debug, Clone, Copy)]
struct OpenRegion {
    offset: usize,
    stored_len: u32,
    first_entry: u32,
    entry_count: u32,
    codec: Codec,
}

impl ContainerBuilder {
    /// An empty container. Its memory grows with it: most containers of nodes and of copies are
    /// small, and memory that the allocator used before is cleared when it is reserved.
    #[must_use]
    pub fn new(id: ContainerId, generation: Generation) -> Self {
        Self::in_buffer(id, generation, AlignedBuffer::with_capacity(FIRST_BYTES))
    }

    /// An empty container in the caller's buffer. Its bytes are cleared.
    #[must_use]
    pub fn in_buffer(id: ContainerId, generation: Generation, mut bytes: AlignedBuffer) -> Self {
        bytes.clear();
        bytes.extend_zeros(HEADER_BYTES);
        Self {
            at: Identity::main(id, generation),
            bytes,
            regions: Vec::new(),
            catalog: Catalog::default(),
        }
    }

    /// The container that is being packed.
    #[must_use]
    pub fn id(&self) -> ContainerId {
        self.at.id
    }

    /// The generation that is being packed.
    #[must_use]
    pub fn generation(&self) -> Generation {
        self.at.generation
    }

    /// Entries so far. This is also the next slot of a first generation.
    #[must_use]
    pub fn entry_count(&self) -> usize {
        self.catalog.entries.len()
    }

    /// Whether there are slots for so many more entries.
    #[must_use]
    pub fn has_room_for(&self, entries: usize) -> bool {
        self.entry_count() + entries <= CATALOG_ENTRIES_MAX as usize
    }

    /// The approximate size of the object in bytes: the size of the catalog is an estimate.
    #[must_use]
    pub fn stored_len(&self) -> u64 {
        let counted = SizeCount {
            bytes: self.bytes.len() as u64,
            regions: self.regions.len() as u64,
            entries: self.entry_count() as u64,
        };
        counted.stored_len()
    }

    /// Adds a region. Its plain bytes are those of the entries, in order. The entries get
    /// consecutive slots. Returns the first slot.
    ///
    /// # Panics
    /// If there are no entries, if their lengths do not add up to the region's, or if the container
    /// has no room for them ([`Self::has_room_for`]). Then the caller miscounts, and sealing would
    /// write an unreadable object.
    pub fn append(&mut self, region: CompressedRegion, entries: &[PendingEntry]) -> Slot {
        let first = self.list(entries);
        let plain_len = entries.iter().map(|entry| u64::from(entry.len)).sum();
        assert!(
            plain_len == region.plain_len() as u64,
            "a region is as long as its entries together"
        );
        self.add(region.codec(), [region.bytes()], plain_len, entries.len());
        first
    }

    /// Like [`Self::append`], for a region that is stored uncompressed. It gathers the bytes from
    /// several pieces.
    ///
    /// # Panics
    /// As [`Self::append`].
    pub fn append_raw<'a>(
        &mut self,
        pieces: impl IntoIterator<Item = &'a [u8]>,
        entries: &[PendingEntry],
    ) -> Slot {
        let first = self.list(entries);
        let plain_len = entries.iter().map(|entry| u64::from(entry.len)).sum();
        let stored = self.add(Codec::Raw, pieces, plain_len, entries.len());
        assert!(stored == plain_len, "a region is as long as its entries together");
        first
    }

    /// Gives the next slots to entries. Returns the first slot.
    fn list(&mut self, entries: &[PendingEntry]) -> Slot {
        let first = u32::try_from(self.entry_count())
            .ok()
            .and_then(|n| Slot::new(n).ok());
        let first = first.expect("the caller asks has_room_for");
        assert!(self.has_room_for(entries.len()), "the caller asks has_room_for");
        let last = first.get();
        let listed = entries
            .iter()
            .zip(last..)
            .map(|(entry, slot)| entry.at(Slot::new(slot).expect("has_room_for was asked")));
        self.catalog.entries.extend(listed);
        first
    }

    /// Adds a region to a later generation. Survivors keep their slots (INV-2).
    ///
    /// # Panics
    /// As [`Self::append`].
    pub fn append_survivors(&mut self, region: CompressedRegion, entries: &[CatalogEntry]) {
        assert!(
            self.has_room_for(entries.len()),
            "survivors are no more than there are slots"
        );
        self.catalog.entries.extend_from_slice(entries);
        let plain_len = entries.iter().map(|entry| u64::from(entry.len)).sum();
        assert!(
            plain_len == region.plain_len() as u64,
            "a region is as long as its entries together"
        );
        self.add(region.codec(), [region.bytes()], plain_len, entries.len());
    }

    /// Adds a region's bytes, and room for its tag. Returns the length of the bytes.
    fn add<'a>(
        &mut self,
        codec: Codec,
        pieces: impl IntoIterator<Item = &'a [u8]>,
        plain_len: u64,
        entries: usize,
    ) -> u64 {
        assert!(entries > 0, "a region holds at least one entry");
        assert!(
            plain_len <= u64::from(REGION_PLAIN_BYTES_MAX),
            "a region closes at 1 MiB and a chunk"
        );
        let offset = self.bytes.len();
        for piece in pieces {
            self.bytes.extend_from_slice(piece);
        }
        let bytes = (self.bytes.len() - offset) as u64;
        self.bytes.extend_zeros(TAG_BYTES);
        let stored_len = u32::try_from(self.bytes.len() - offset).expect("no longer than its plain bytes");
        let entry_count = u32::try_from(entries).expect("no more than slots");
        let after = u32::try_from(self.entry_count()).expect("no more than slots");
        let first_entry = after - entry_count;
        self.regions.push(OpenRegion {
            offset,
            stored_len,
            first_entry,
            entry_count,
            codec,
        });
        bytes
    }

    /// Encrypts every region in place, computes digests, and appends catalog, rows and footer.
    ///
    /// # Errors
    /// `Inconsistent` if the catalog breaks a rule of the format: a survivor's slot occurs twice.
    pub fn seal(self, containers: &Containers) -> Result<SealedContainer, ContainerError> {
        let Self {
            at,
            mut bytes,
            regions,
            catalog,
        } = self;
        catalog
            .check()
            .map_err(|e| at.refused(Part::Catalog, bytes.len() as u64, 0, e))?;
        // No reader takes a container with a longer region, so none is written.
        if regions.iter().any(|one| one.stored_len > REGION_STORED_BYTES_MAX) {
            let why = FormatError::Invalid {
                what: "region",
                why: "it has more stored bytes than a region may have",
            };
            return Err(at.refused(Part::Trailer, bytes.len() as u64, 0, why));
        }
        let store = containers.store();
        let mut salt = [0; 32];
        containers.env().entropy.fill(&mut salt);
        let key = seal_key(containers.encryption(), &salt);
        let header = ContainerHeader {
            store,
            id: at.id,
            generation: at.generation,
            salt,
        };
        bytes[..HEADER_BYTES].copy_from_slice(&header.encode());

        let mut rows = Vec::with_capacity(regions.len());
        for (region, number) in regions.iter().zip(0u32..) {
            RegionIndex::new(number).expect("no more regions than entries");
            let stored = &mut bytes[region.offset..region.offset + region.stored_len as usize];
            key.seal_with_room(u64::from(number), &at.associated_data(store, number), stored);
            rows.push(RegionRow {
                offset: region.offset as u64,
                stored_len: region.stored_len,
                first_entry: region.first_entry,
                entry_count: region.entry_count,
                codec: region.codec,
                digest: wire::digest(stored),
            });
        }

        append_trailer(&mut bytes, containers, &header, &key, &catalog, None, &rows);
        let regions = Regions::of(at, None, key, containers.encryption());
        let contents = Contents::new(at, salt, bytes.len() as u64, catalog, rows, Some(regions))
            .expect("regions and entries were added together");
        Ok(SealedContainer::new(bytes, contents))
    }
}

/// Appends the sealed catalog, the body's record, the rows and the footer.
pub(crate) fn append_trailer(
    bytes: &mut AlignedBuffer,
    containers: &Containers,
    header: &ContainerHeader,
    key: &SealKey,
    catalog: &Catalog,
    body: Option<&Body>,
    rows: &[RegionRow],
) {
    let catalog_at = bytes.len();
    let mut sealed_catalog = Vec::new();
    catalog.encode(&mut sealed_catalog);
    let at = Identity::main(header.id, header.generation);
    let aad = at.associated_data(containers.store(), CATALOG_NUMBER);
    key.seal(u64::from(CATALOG_NUMBER), &aad, &mut sealed_catalog, 0);
    bytes.extend_from_slice(&sealed_catalog);
    let catalog_stored_len = u32::try_from(bytes.len() - catalog_at).expect("at most 2^20 short entries");
    let trailer = encode_trailer(body, rows);
    let rows_bytes = rows.len() * REGION_ROW_BYTES;
    let footer = ContainerFooter {
        region_count: u32::try_from(rows.len()).expect("no more regions than slots"),
        entry_count: u32::try_from(catalog.entries.len()).expect("no more than slots"),
        catalog_offset: catalog_at as u64,
        catalog_stored_len,
        catalog_digest: wire::digest(&bytes[catalog_at..]),
        rows_offset: (bytes.len() + trailer.len() - rows_bytes) as u64,
        is_trimmed: body.is_some(),
    };
    bytes.extend_from_slice(&trailer);
    bytes.extend_from_slice(&footer.encode(header, &trailer));
}
