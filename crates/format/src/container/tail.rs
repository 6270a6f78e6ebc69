//! Header, footer, and the tail of a container, which one ranged read returns.
//!
//! A digest in the footer covers the header's copy, the rows and the footer itself. The catalog and
//! each region have digests of their own. A torn object has no footer magic at its end, or a wrong
//! digest.

use crate::container::body::{BODY_BYTES, encode_trailer};
use crate::container::row::{REGION_ROW_BYTES, check_rows, decode_rows};
use crate::container::{Body, CATALOG_ENTRIES_MAX, ContainerFooter, ContainerHeader, RegionRow};
use crate::error::{FormatError, Result};
use crate::frame::{DIGEST_BYTES, TAG_BYTES};
use crate::wire::{Reader, Writer, digest};

/// The first bytes of every container.
pub const CONTAINER_MAGIC: [u8; 8] = *b"1FOLDcon";
/// The bytes before a container's last digest.
pub const FOOTER_MAGIC: [u8; 8] = *b"1FOLDend";
/// The version of the container layout that this code writes.
pub const CONTAINER_VERSION: u16 = 1;
/// Bytes of the header.
pub const HEADER_BYTES: usize = 72;
/// Bytes of the footer: the header again, 56 of its own, the digest.
pub const FOOTER_BYTES: usize = HEADER_BYTES + 56 + DIGEST_BYTES;
/// The most stored bytes of a catalog, tag included.
pub const CATALOG_STORED_BYTES_MAX: u32 = 128 << 20;

const HEADER: &str = "container header";
const FOOTER: &str = "container footer";

impl ContainerHeader {
    /// The header's bytes.
    #[must_use]
    pub fn encode(&self) -> [u8; HEADER_BYTES] {
        let mut out = Vec::with_capacity(HEADER_BYTES);
        let mut w = Writer::new(&mut out);
        w.put(&CONTAINER_MAGIC);
        w.u16(CONTAINER_VERSION);
        w.u8(self.id.kind.number());
        w.u8(0);
        w.generation(self.generation);
        w.store(self.store);
        w.container(self.id);
        w.put(&self.salt);
        out.try_into().expect("the fields add up to the header's length")
    }

    /// The inverse of [`Self::encode`], from exactly [`HEADER_BYTES`] bytes.
    ///
    /// # Errors
    /// `Malformed`, `NewerVersion`.
    pub fn decode(bytes: &[u8]) -> Result<Self> {
        let mut r = Reader::new(HEADER, bytes);
        let no_magic = r.fault("the magic bytes are missing");
        if r.array::<8>()? != CONTAINER_MAGIC {
            return Err(no_magic);
        }
        container_version(&mut r, HEADER)?;
        let kind = r.u8()?;
        r.reserved::<1>()?;
        let generation = r.generation()?;
        let store = r.store()?;
        let id = r.container()?;
        r.require(kind == id.kind.number(), "the kind is not the one in the id")?;
        let salt = r.array()?;
        r.finish()?;
        Ok(Self {
            store,
            id,
            generation,
            salt,
        })
    }
}

impl ContainerFooter {
    /// The footer's bytes. `trailer` must be the preceding bytes from [`encode_trailer`].
    #[must_use]
    pub fn encode(&self, header: &ContainerHeader, trailer: &[u8]) -> [u8; FOOTER_BYTES] {
        let mut out = Vec::with_capacity(trailer.len() + FOOTER_BYTES);
        out.extend_from_slice(trailer);
        let mut w = Writer::new(&mut out);
        w.put(&header.encode());
        w.u64(self.rows_offset);
        w.u64(self.catalog_offset);
        w.u32(self.catalog_stored_len);
        w.u32(self.region_count);
        w.u32(self.entry_count);
        w.u16(CONTAINER_VERSION);
        w.u16(u16::from(self.is_trimmed));
        w.u128(self.catalog_digest);
        w.put(&FOOTER_MAGIC);
        let value = digest(&out);
        Writer::new(&mut out).u128(value);
        out.split_off(trailer.len())
            .try_into()
            .expect("the fields add up to the footer's length")
    }

    /// Reads a footer without the parts that its digest covers: for a program that only has to know
    /// where the parts of the object are.
    ///
    /// # Errors
    /// If this is no footer of an object of that length.
    pub fn read_alone(bytes: &[u8], object_len: u64) -> Result<(Self, ContainerHeader)> {
        let (footer, header) = Self::decode(bytes)?;
        footer.check_places(object_len)?;
        Ok((footer, header))
    }

    /// Decodes the footer and the header's copy. It checks only each field by itself.
    fn decode(bytes: &[u8]) -> Result<(Self, ContainerHeader)> {
        let mut r = Reader::new(FOOTER, bytes);
        let header = r.take(HEADER_BYTES)?;
        let (rows_offset, catalog_offset) = (r.u64()?, r.u64()?);
        let (catalog_stored_len, region_count, entry_count) = (r.u32()?, r.u32()?, r.u32()?);
        // A torn object ends in any bytes. They must not pass for the version of a later program.
        let no_magic = r.fault("the magic bytes are missing: torn, or not a container");
        if !bytes
            .split_last_chunk::<DIGEST_BYTES>()
            .is_some_and(|(rest, _)| rest.ends_with(&FOOTER_MAGIC))
        {
            return Err(no_magic);
        }
        // Nor may one rotten bit: the header's copy repeats the version.
        let version_again = header.get(CONTAINER_MAGIC.len()..CONTAINER_MAGIC.len() + 2);
        let version = r.clone().take(2)?;
        r.require(
            version_again == Some(version),
            "its version is not the one in the header's copy",
        )?;
        container_version(&mut r, FOOTER)?;
        let unknown = r.fault("a flag is not known");
        let is_trimmed = match r.u16()? {
            0 => false,
            1 => true,
            _ => return Err(unknown),
        };
        let catalog_digest = r.u128()?;
        r.take(FOOTER_MAGIC.len() + DIGEST_BYTES)?;
        r.finish()?;
        let footer = Self {
            region_count,
            entry_count,
            catalog_offset,
            catalog_stored_len,
            catalog_digest,
            rows_offset,
            is_trimmed,
        };
        Ok((footer, ContainerHeader::decode(header)?))
    }

    const fn body_bytes(&self) -> usize {
        if self.is_trimmed { BODY_BYTES } else { 0 }
    }

    /// Checks that the places are within an object of that length and adjoin each other.
    fn check_places(&self, object_len: u64) -> Result<()> {
        let invalid = |why| Err(FormatError::Invalid { what: FOOTER, why });
        let catalog_end = self.catalog_offset.checked_add(self.catalog_stored_len.into());
        let rows_len = u64::from(self.region_count) * REGION_ROW_BYTES as u64;
        let body_bytes = self.body_bytes() as u64;
        let catalog_end = catalog_end.and_then(|end| end.checked_add(body_bytes));
        let begins = if self.is_trimmed {
            self.catalog_offset == HEADER_BYTES as u64
        } else {
            self.catalog_offset >= HEADER_BYTES as u64
        };
        if !begins || catalog_end != Some(self.rows_offset) {
            return invalid("the catalog does not lie between header and rows");
        }
        if self.rows_offset.checked_add(rows_len + FOOTER_BYTES as u64) != Some(object_len) {
            return invalid("the rows do not lie between catalog and footer");
        }
        if self.catalog_stored_len as usize <= TAG_BYTES || self.catalog_stored_len > CATALOG_STORED_BYTES_MAX
        {
            return invalid("the catalog's length is impossible");
        }
        let regions_max = if self.is_trimmed {
            CATALOG_ENTRIES_MAX
        } else {
            self.entry_count
        };
        if self.entry_count > CATALOG_ENTRIES_MAX || self.region_count > regions_max {
            return invalid("there are more entries than slots, or more regions than entries");
        }
        Ok(())
    }
}

/// The result of parsing the end of an object.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(
    clippy::large_enum_variant,
    reason = "the large one is what nearly every call comes to"
)]
pub enum TailParse<'a> {
    /// Too few bytes: read the last `tail_bytes` (at most the whole object).
    Need {
        /// How many of the object's last bytes are needed.
        tail_bytes: u64,
    },
    /// The trailer, verified.
    Whole(ContainerTail<'a>),
}

/// A container's trailer, verified except for the catalog.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ContainerTail<'a> {
    /// The header, from its copy in the footer.
    pub header: ContainerHeader,
    /// The footer.
    pub footer: ContainerFooter,
    /// For a trimmed generation: the body with its regions.
    pub body: Option<Body>,
    /// The regions, in order of their bytes.
    pub rows: Vec<RegionRow>,
    sealed_catalog: &'a [u8],
}

impl<'a> ContainerTail<'a> {
    /// Reads a trailer from the last bytes of an object of `object_len` bytes.
    ///
    /// With too few bytes, the result says how many are needed. A second call with those does not
    /// ask again, unless the object changed.
    ///
    /// # Errors
    /// `Malformed` if it is torn or no container; `DigestMismatch`; `NewerVersion`; `Invalid` if
    /// the parts do not fit together.
    pub fn parse(tail: &'a [u8], object_len: u64) -> Result<TailParse<'a>> {
        let torn = |why| {
            Err(FormatError::Malformed {
                what: FOOTER,
                offset: object_len,
                why,
            })
        };
        if object_len < (HEADER_BYTES + FOOTER_BYTES) as u64 {
            return torn("the object is too short for a container");
        }
        if tail.len() as u64 > object_len {
            return torn("the tail is longer than the object");
        }
        let Some(footer_at) = tail.len().checked_sub(FOOTER_BYTES) else {
            return Ok(TailParse::Need {
                tail_bytes: FOOTER_BYTES as u64,
            });
        };
        let (footer, header) = ContainerFooter::decode(tail.get(footer_at..).unwrap_or_default())?;
        footer.check_places(object_len)?;

        let tail_bytes = object_len - footer.catalog_offset;
        let Some(begin) = usize::try_from(tail_bytes)
            .ok()
            .and_then(|len| tail.len().checked_sub(len))
        else {
            return Ok(TailParse::Need { tail_bytes });
        };
        let mut r = Reader::new(FOOTER, tail.get(begin..).unwrap_or_default());
        let sealed_catalog = r.take(footer.catalog_stored_len as usize)?;
        let covered = r.clone().take_all_but(DIGEST_BYTES)?;
        let body = r.take(footer.body_bytes())?;
        let rows = r.take_all_but(FOOTER_BYTES)?;
        r.take(FOOTER_BYTES - DIGEST_BYTES)?;
        let (expected, found) = (r.u128()?, digest(covered));
        if expected != found {
            return Err(FormatError::DigestMismatch {
                what: FOOTER,
                expected,
                found,
            });
        }
        let rows = decode_rows(rows)?;
        let body = footer.is_trimmed.then(|| Body::decode(body)).transpose()?;
        let begin = HEADER_BYTES as u64;
        let end = body.is_none().then_some(footer.catalog_offset);
        let end = check_rows(&rows, begin, end, footer.entry_count)?;
        if body.is_some() && header.id.kind.is_mirrored() {
            return Err(FormatError::Invalid {
                what: FOOTER,
                why: "a container of a kind that is mirrored is never trimmed",
            });
        }
        if body.is_some_and(|body| body.generation >= header.generation || end > body.len) {
            return Err(FormatError::Invalid {
                what: FOOTER,
                why: "the regions do not lie in an older generation's object",
            });
        }
        Ok(TailParse::Whole(ContainerTail {
            header,
            footer,
            body,
            rows,
            sealed_catalog,
        }))
    }

    /// The catalog's ciphertext and tag. Verifies its digest.
    ///
    /// # Errors
    /// `DigestMismatch`.
    pub fn sealed_catalog(&self) -> Result<&'a [u8]> {
        let (expected, found) = (self.footer.catalog_digest, digest(self.sealed_catalog));
        if expected == found {
            Ok(self.sealed_catalog)
        } else {
            Err(FormatError::DigestMismatch {
                what: "catalog",
                expected,
                found,
            })
        }
    }

    /// The trailer's plain bytes as at the object's end: body, rows and footer.
    #[must_use]
    pub fn encode_plain(&self) -> Vec<u8> {
        let mut out = encode_trailer(self.body.as_ref(), &self.rows);
        let footer = self.footer.encode(&self.header, &out);
        out.extend_from_slice(&footer);
        out
    }
}

fn container_version(r: &mut Reader<'_>, what: &'static str) -> Result<()> {
    let zero = r.fault("version 0 was never written");
    match r.u16()? {
        0 => Err(zero),
        v if v > CONTAINER_VERSION => Err(FormatError::NewerVersion {
            what,
            found: v,
            known: CONTAINER_VERSION,
        }),
        _ => Ok(()),
    }
}
