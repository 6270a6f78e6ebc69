//! From the end of an object to a checked catalog.
//!
//! Invariant: there are three types, and each is made only from the one before: bytes as read
//! ([`TailBytes`]), a trailer with the right digest and identity ([`Trailer`]), and an opened
//! catalog ([`Contents`]). This takes one ranged read if the guess is long enough (a catalog of
//! some 6,000 entries), two otherwise. If a sector before the trailer cannot be read, only the
//! trailer is read.

use std::sync::atomic::{AtomicU64, Ordering};

use crypto::EncryptionKey;
use env::Storage;
use format::container::{
    Body, Catalog, ContainerFooter, ContainerHeader, ContainerTail, FOOTER_BYTES, RegionRow, TailParse,
};
use types::StoreId;

use crate::ContainerError;
use crate::error::Part;
use crate::identity::{CATALOG_NUMBER, Identity, seal_key};
use crate::view::{Contents, Regions};

/// How much of an object's end is read at first.
pub const TAIL_GUESS_BYTES: u64 = 256 << 10;
/// The most that is read at first on a far storage, where longer trailers were met.
const LEARNED_BYTES_MAX: u64 = 2 << 20;

/// How much of an object's end to read at first on a far storage: what the longest trailer so far
/// needed. A second read costs more there than some bytes too many.
#[derive(Debug)]
pub(crate) struct TailGuess(AtomicU64);

impl Default for TailGuess {
    fn default() -> Self {
        Self(AtomicU64::new(TAIL_GUESS_BYTES))
    }
}

impl TailGuess {
    pub(crate) fn of(&self, storage: &dyn Storage) -> u64 {
        if storage.is_far() {
            self.0.load(Ordering::Relaxed)
        } else {
            TAIL_GUESS_BYTES
        }
    }

    /// Learns from a trailer that needed so many bytes.
    pub(crate) fn learn(&self, bytes: u64) {
        let rounded = bytes.next_multiple_of(TAIL_GUESS_BYTES / 4);
        self.0
            .fetch_max(rounded.min(LEARNED_BYTES_MAX), Ordering::Relaxed);
    }
}

/// The end of an object, as read and unchecked.
pub(crate) struct TailBytes {
    bytes: Vec<u8>,
    object_len: u64,
}

/// A trailer with the right digest, under its own name. Its seals are not opened.
pub(crate) struct Trailer {
    pub(crate) header: ContainerHeader,
    pub(crate) footer: ContainerFooter,
    pub(crate) rows: Vec<RegionRow>,
    pub(crate) body: Option<Body>,
    pub(crate) object_len: u64,
    sealed_catalog: Result<Vec<u8>, ContainerError>,
}

impl TailBytes {
    /// Reads the end of the object, as far as its trailer needs: so many bytes at first. Passes the
    /// length of each read to the callback.
    pub(crate) fn read(
        storage: &dyn Storage,
        at: Identity,
        guess: u64,
        note_read: &mut dyn FnMut(u64),
    ) -> Result<Self, ContainerError> {
        let name = at.name();
        let mut read = |want| -> Result<Self, ContainerError> {
            let (bytes, object_len) = storage.get_tail(&name, want)?;
            note_read(bytes.len() as u64);
            Ok(Self { bytes, object_len })
        };
        let tail = match read(guess) {
            // The unreadable sector may be in the regions before the trailer.
            Err(error) if error.is_damage() => read(FOOTER_BYTES as u64).map_err(|_| error)?,
            other => other?,
        };
        match tail.parse(at)? {
            TailParse::Need { tail_bytes } => read(tail_bytes),
            TailParse::Whole(_) => Ok(tail),
        }
    }

    fn parse(&self, at: Identity) -> Result<TailParse<'_>, ContainerError> {
        ContainerTail::parse(&self.bytes, self.object_len).map_err(|e| {
            let rows_at = self.object_len.saturating_sub(self.bytes.len() as u64);
            at.refused(Part::Trailer, rows_at, self.object_len, e)
        })
    }

    /// The number of bytes that were read.
    pub(crate) fn len(&self) -> u64 {
        self.bytes.len() as u64
    }

    /// Checks digest, places and identity.
    pub(crate) fn check(self, at: Identity, store: Option<StoreId>) -> Result<Trailer, ContainerError> {
        let object_len = self.object_len;
        let tail = match self.parse(at)? {
            TailParse::Whole(tail) => tail,
            TailParse::Need { .. } => {
                let why = "the object is shorter than its trailer says".to_owned();
                let (container, generation) = (at.id, at.generation);
                return Err(ContainerError::Torn {
                    container,
                    generation,
                    offset: object_len,
                    object_len,
                    why,
                });
            }
        };
        at.confirm(&tail.header, store.unwrap_or(tail.header.store))?;
        let offset = tail.footer.catalog_offset;
        let sealed_catalog = tail
            .sealed_catalog()
            .map(<[u8]>::to_vec)
            .map_err(|e| at.refused(Part::Catalog, offset, object_len, e));
        Ok(Trailer {
            header: tail.header,
            footer: tail.footer,
            rows: tail.rows,
            body: tail.body,
            object_len,
            sealed_catalog,
        })
    }
}

impl Trailer {
    /// An error of the stored catalog's digest. This check needs no key.
    pub(crate) fn take_catalog_error(self) -> Option<ContainerError> {
        self.sealed_catalog.err()
    }

    /// Opens and checks the catalog.
    pub(crate) fn open(
        self,
        at: Identity,
        store: StoreId,
        encryption: &EncryptionKey,
    ) -> Result<Contents, ContainerError> {
        let Self {
            header,
            footer,
            rows,
            body,
            object_len,
            sealed_catalog,
        } = self;
        let mut sealed = sealed_catalog?;
        let offset = footer.catalog_offset;
        let key = seal_key(encryption, &header.salt);
        let aad = at.associated_data(store, CATALOG_NUMBER);
        let (container, generation) = (at.id, at.generation);
        let plain = key
            .open(u64::from(CATALOG_NUMBER), &aad, &mut sealed)
            .map_err(|_| ContainerError::Forged {
                container,
                generation,
                part: Part::Catalog,
                offset,
            })?;
        let refused = |e| at.refused(Part::Catalog, offset, object_len, e);
        let catalog = Catalog::decode(plain).map_err(refused)?;
        let regions = Regions::of(at, body, key, encryption);
        Contents::new(at, header.salt, object_len, catalog, rows, Some(regions)).map_err(refused)
    }
}
