//! Containers: header, region rows, catalog, footer (docs/format.md, "Container").
//!
//! An object is `header | regions | sealed catalog | region rows | footer`. Header, rows and footer
//! are plain. The footer repeats the header, so one read of the tail is enough to verify the object
//! and to open the catalog, and a rotten header does no harm. A trimmed generation has no regions
//! of its own. Its rows say where the regions are in its body, the object of an older generation,
//! and which of them were given back. Encoding and decoding are pure. The `container` crate seals,
//! compresses and reads.

mod body;
mod catalog;
mod copy;
mod row;
mod slots;
mod tail;

pub use body::{BODY_BYTES, Body, encode_trailer};
pub use catalog::CATALOG_ENTRIES_MAX;
pub use row::{REGION_PLAIN_BYTES_MAX, REGION_ROW_BYTES, REGION_STORED_BYTES_MAX, decode_rows, encode_rows};
pub use tail::{
    CATALOG_STORED_BYTES_MAX, CONTAINER_MAGIC, CONTAINER_VERSION, ContainerTail, FOOTER_BYTES, FOOTER_MAGIC,
    HEADER_BYTES, TailParse,
};

use types::{ContainerId, Fingerprint, Generation, Level, Slot, StoreId};

/// The first bytes of every generation of a container. Fixed size, plain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ContainerHeader {
    /// The store of the container.
    pub store: StoreId,
    /// Its id, kind included.
    pub id: ContainerId,
    /// The number of its rewrites.
    pub generation: Generation,
    /// Fresh for every write attempt; the container's key is derived from it.
    pub salt: [u8; 32],
}

/// How a region's plaintext became its stored bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Codec {
    /// Encrypted uncompressed: compression did not shrink it.
    Raw,
    /// One zstd frame with its content size, then encrypted.
    Zstd,
}

/// The row of a region in the trailer. It is plain, so that scrubbing and copying need no key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RegionRow {
    /// Offset of its stored bytes from the start of the object; for a trimmed generation, from the
    /// start of its body.
    pub offset: u64,
    /// Length of its stored bytes, tag included.
    pub stored_len: u32,
    /// Its first entry in the catalog's physical order.
    pub first_entry: u32,
    /// The number of its entries. 0 only in a trimmed generation: the region's bytes were given
    /// back.
    pub entry_count: u32,
    /// The codec to apply after decryption.
    pub codec: Codec,
    /// XXH3-128 of the stored bytes.
    pub digest: u128,
}

/// The fixed-size end of a container: the places of the other parts, and a digest over header, rows
/// and itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ContainerFooter {
    /// The number of region rows before it.
    pub region_count: u32,
    /// The number of entries in the catalog.
    pub entry_count: u32,
    /// Offset of the sealed catalog.
    pub catalog_offset: u64,
    /// Its stored length, tag included.
    pub catalog_stored_len: u32,
    /// XXH3-128 of the stored catalog.
    pub catalog_digest: u128,
    /// Offset of the region rows.
    pub rows_offset: u64,
    /// Whether the regions are in a body. The body's record precedes the rows.
    pub is_trimmed: bool,
}

/// The content of one slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CatalogEntry {
    /// The slot.
    pub slot: Slot,
    /// The chunk's or node's full fingerprint.
    pub fingerprint: Fingerprint,
    /// Plain bytes in the region: the chunk's length, or the encoded node's.
    pub len: u32,
    /// Its level: 0 for a chunk.
    pub level: Level,
    /// For a node, the bytes of the stream below it; for a chunk, equal to `len`. So a position
    /// inside a run of nodes is found without reading the nodes.
    pub logical_len: u64,
}

/// A container's table of contents, sealed in the container. Entries are in physical order.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Catalog {
    /// The entries, in the order of their bytes in the regions.
    pub entries: Vec<CatalogEntry>,
}

/// A copy of a data container's catalog with 16-byte fingerprints: one chunk of a `catalog`
/// container.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CatalogCopy {
    /// The container of the catalog.
    pub container: ContainerId,
    /// The generation of the catalog.
    pub generation: Generation,
    /// Slot, fingerprint prefix and length of every chunk, in physical order.
    pub entries: Vec<CatalogCopyEntry>,
}

/// One entry of a [`CatalogCopy`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CatalogCopyEntry {
    /// The slot.
    pub slot: Slot,
    /// The first 16 bytes of the fingerprint.
    pub fingerprint_prefix: [u8; 16],
    /// The chunk's length.
    pub len: u32,
}
