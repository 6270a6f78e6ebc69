//! Region rows: 40 bytes each, plain.

use crate::container::{Codec, RegionRow};
use crate::error::{FormatError, Result};
use crate::frame::TAG_BYTES;
use crate::wire::{Reader, Writer};

/// Bytes of one row.
pub const REGION_ROW_BYTES: usize = 40;
/// The most plain bytes of a region: it closes at 1 MiB at the latest, and the last chunk of at
/// most 16 MiB may exceed this.
pub const REGION_PLAIN_BYTES_MAX: u32 = 17 << 20;
/// The most stored bytes of a region: a region that does not shrink is stored raw.
#[expect(clippy::cast_possible_truncation, reason = "16")]
pub const REGION_STORED_BYTES_MAX: u32 = REGION_PLAIN_BYTES_MAX + TAG_BYTES as u32;

const WHAT: &str = "region row";

impl Codec {
    /// Its number in rows.
    #[must_use]
    pub const fn number(self) -> u8 {
        match self {
            Self::Raw => 0,
            Self::Zstd => 1,
        }
    }

    /// The inverse of [`Self::number`].
    #[must_use]
    pub const fn from_number(number: u8) -> Option<Self> {
        match number {
            0 => Some(Self::Raw),
            1 => Some(Self::Zstd),
            _ => None,
        }
    }
}

/// The bytes of all rows, one after another.
#[must_use]
pub fn encode_rows(rows: &[RegionRow]) -> Vec<u8> {
    let mut out = Vec::with_capacity(rows.len() * REGION_ROW_BYTES);
    let mut w = Writer::new(&mut out);
    for row in rows {
        w.u64(row.offset);
        w.u32(row.stored_len);
        w.u32(row.first_entry);
        w.u32(row.entry_count);
        w.u8(row.codec.number());
        w.put(&[0; 3]);
        w.u128(row.digest);
    }
    out
}

/// The inverse of [`encode_rows`]. [`super::ContainerTail::parse`] checks how rows fit together.
///
/// # Errors
/// `Malformed` for bytes that no row encodes to.
pub fn decode_rows(bytes: &[u8]) -> Result<Vec<RegionRow>> {
    let mut r = Reader::new(WHAT, bytes);
    let mut rows = Vec::with_capacity(bytes.len() / REGION_ROW_BYTES);
    while r.remaining() > 0 {
        let (offset, stored_len, first_entry, entry_count) = (r.u64()?, r.u32()?, r.u32()?, r.u32()?);
        let here = r.fault("the codec is not known");
        let codec = Codec::from_number(r.u8()?).ok_or(here)?;
        r.reserved::<3>()?;
        rows.push(RegionRow {
            offset,
            stored_len,
            first_entry,
            entry_count,
            codec,
            digest: r.u128()?,
        });
    }
    Ok(rows)
}

/// Checks that the rows cover the bytes from `begin` on, up to `end` if it is known, and the
/// entries from 0 to `entry_count`, without gap or overlap. Returns the end of the rows' bytes. If
/// the end is not known, the generation is trimmed, and regions may be without entries.
pub(super) fn check_rows(rows: &[RegionRow], begin: u64, end: Option<u64>, entry_count: u32) -> Result<u64> {
    let invalid = |why| Err(FormatError::Invalid { what: WHAT, why });
    let (mut offset, mut entry) = (begin, 0u32);
    for row in rows {
        if row.offset != offset || row.first_entry != entry {
            return invalid("regions do not follow each other without gap or overlap");
        }
        if row.stored_len as usize <= TAG_BYTES || row.stored_len > REGION_STORED_BYTES_MAX {
            return invalid("a region's stored length is impossible");
        }
        if row.entry_count == 0 && end.is_some() {
            return invalid("a region holds no entry");
        }
        let Some(next) = entry.checked_add(row.entry_count) else {
            return invalid("the regions' entries are more than 32 bits count");
        };
        entry = next;
        offset = offset.saturating_add(row.stored_len.into());
    }
    if end.is_some_and(|end| offset != end) || entry != entry_count {
        return invalid("the regions do not end where the catalog begins, or their entries do not add up");
    }
    if end.is_none() && !rows.iter().any(|row| row.entry_count > 0) {
        return invalid("a trimmed generation has no region left");
    }
    Ok(offset)
}
