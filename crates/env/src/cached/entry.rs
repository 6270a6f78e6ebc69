//! The bytes of one entry of a cache: a run of an object's bytes, with what they are and digests.
//!
//! ```text
//! magic 8, bytes of the header u32, stamp u8, of the stamp u64, length of the object u64,
//! offset u64, bytes u64, length of the name u16, name, a digest of 16 bytes for each block of
//! 64 KiB, a digest of all of that; then the bytes
//! ```
//!
//! A reader checks the header and the blocks that it needs. Bytes that fail are as good as none
//! (INV-8), so an entry may be cut short or damaged at any time. The format is the cache's own: an
//! entry with other magic bytes is dropped.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::unix::fs::FileExt;

use types::{ByteRange, ObjectName};

const MAGIC: [u8; 8] = *b"1fcache1";
const BLOCK_BYTES: u64 = 64 << 10;
const DIGEST_BYTES: usize = 16;
/// The header without name and digests.
const FIXED_BYTES: usize = 8 + 4 + 1 + 8 + 8 + 8 + 8 + 2;
/// The longest header that is read: of some 16 GiB.
const HEADER_BYTES_MAX: u32 = 4 << 20;

/// When an entry counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stamp {
    /// While a listing shows the object with this time.
    PutAt(i64),
    /// While a listing shows the object with its length: this process has put it, and has not seen
    /// its time.
    Unlisted,
    /// In this period and before.
    Period(u64),
}

/// What an entry has of which object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Header {
    pub(super) name: ObjectName,
    pub(super) stamp: Stamp,
    pub(super) object_len: u64,
    /// The bytes of the object that the entry has.
    pub(super) range: ByteRange,
}

/// An entry that is open, with a good header.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) header: Header,
    file: File,
    digests: Vec<u8>,
    /// Where the bytes begin in the file.
    begin: u64,
}

fn digest(bytes: &[u8]) -> [u8; DIGEST_BYTES] {
    let mut out = [0; DIGEST_BYTES];
    out.copy_from_slice(&blake3::hash(bytes).as_bytes()[..DIGEST_BYTES]);
    out
}

/// Writes an entry.
pub(super) fn write(mut to: impl Write, header: &Header, bytes: &[u8]) -> io::Result<()> {
    let name = header.name.as_str().as_bytes();
    let block_bytes = usize::try_from(BLOCK_BYTES).map_err(io::Error::other)?;
    let digests: Vec<u8> = bytes.chunks(block_bytes).flat_map(digest).collect();
    let len = FIXED_BYTES + name.len() + digests.len() + DIGEST_BYTES;
    let (tag, value) = match header.stamp {
        Stamp::PutAt(at) => (0u8, at.cast_unsigned()),
        Stamp::Unlisted => (1, 0),
        Stamp::Period(period) => (2, period),
    };
    let mut head = Vec::with_capacity(len);
    head.extend_from_slice(&MAGIC);
    head.extend_from_slice(&u32::try_from(len).map_err(io::Error::other)?.to_le_bytes());
    head.push(tag);
    for number in [value, header.object_len, header.range.offset, header.range.len] {
        head.extend_from_slice(&number.to_le_bytes());
    }
    let name_len = u16::try_from(name.len()).map_err(io::Error::other)?;
    head.extend_from_slice(&name_len.to_le_bytes());
    head.extend_from_slice(name);
    head.extend_from_slice(&digests);
    let of_header = digest(&head);
    head.extend_from_slice(&of_header);
    to.write_all(&head)?;
    to.write_all(bytes)
}

fn number(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(bytes.get(at..at + 8)?.try_into().ok()?))
}

impl Entry {
    /// Reads the header. `None`: it is damaged, or of another version.
    pub(super) fn open(mut file: File) -> Option<Self> {
        let mut head = [0; FIXED_BYTES];
        file.read_exact(&mut head).ok()?;
        let len = u32::from_le_bytes(head.get(8..12)?.try_into().ok()?);
        if head[..8] != MAGIC || len > HEADER_BYTES_MAX {
            return None;
        }
        let rest = (len as usize).checked_sub(FIXED_BYTES + DIGEST_BYTES)?;
        let mut whole = head.to_vec();
        whole.resize(len as usize, 0);
        file.read_exact(whole.get_mut(FIXED_BYTES..)?).ok()?;
        let (covered, of_header) = whole.split_at(len as usize - DIGEST_BYTES);
        if digest(covered) != of_header {
            return None;
        }
        let value = number(&whole, 13)?;
        let stamp = match whole.get(12)? {
            0 => Stamp::PutAt(value.cast_signed()),
            1 => Stamp::Unlisted,
            2 => Stamp::Period(value),
            _ => return None,
        };
        let (object_len, offset, bytes) = (number(&whole, 21)?, number(&whole, 29)?, number(&whole, 37)?);
        let name_len = usize::from(u16::from_le_bytes(whole.get(45..47)?.try_into().ok()?));
        let name = std::str::from_utf8(whole.get(FIXED_BYTES..FIXED_BYTES + name_len)?).ok()?;
        let digests = covered.get(FIXED_BYTES + name_len..)?.to_vec();
        let is_whole = digests.len() == rest - name_len
            && (digests.len() / DIGEST_BYTES) as u64 == bytes.div_ceil(BLOCK_BYTES)
            && file.metadata().ok()?.len() == u64::from(len) + bytes
            && offset.checked_add(bytes)? <= object_len;
        is_whole.then_some(Self {
            header: Header {
                name: ObjectName::new(name).ok()?,
                stamp,
                object_len,
                range: ByteRange { offset, len: bytes },
            },
            file,
            digests,
            begin: u64::from(len),
        })
    }

    /// These bytes of the object. `None`: the entry does not have them all.
    ///
    /// # Errors
    /// The entry is damaged or cannot be read.
    pub(super) fn read(&self, range: ByteRange) -> Option<io::Result<Vec<u8>>> {
        let own = self.header.range;
        let from = range.offset.checked_sub(own.offset)?;
        let end = from.checked_add(range.len).filter(|end| *end <= own.len)?;
        Some(self.read_checked(from, end, own.len))
    }

    /// Bytes `from..end` of the entry's `len`, whose blocks are as they were written.
    fn read_checked(&self, from: u64, end: u64, len: u64) -> io::Result<Vec<u8>> {
        let damaged = || io::Error::from(io::ErrorKind::InvalidData);
        let size = |bytes: u64| usize::try_from(bytes).map_err(|_| damaged());
        let first = from / BLOCK_BYTES;
        let begin = first * BLOCK_BYTES;
        let until = end.div_ceil(BLOCK_BYTES).saturating_mul(BLOCK_BYTES).min(len);
        let mut bytes = vec![0; size(until.saturating_sub(begin))?];
        self.file.read_exact_at(&mut bytes, self.begin + begin)?;
        let digests = self.digests.chunks(DIGEST_BYTES).skip(size(first)?);
        let is_good = bytes
            .chunks(size(BLOCK_BYTES)?)
            .zip(digests)
            .all(|(block, expected)| digest(block) == expected);
        if !is_good {
            return Err(damaged());
        }
        bytes.truncate(size(end - begin)?);
        bytes.drain(..size(from - begin)?);
        Ok(bytes)
    }
}
