//! The bytes of a part of a run: a static search tree in blocks of 4 KiB.
//!
//! ```text
//! front    magic 8, version u16, 0 u16, length of meta u32, meta, digest over all before; to a full block
//! leaves   data, then node: count u16, entries of (bits u64, place u32), digest at the end
//! fences   data, then node: count u16, 0 x 6, the first bits of 509 leaves, digest
//! table    count u16, 0 x 6, 509 container ids, digest
//! ```
//!
//! A place is the container's ordinal in the table, and above it the hook's [`Standing`].
//!
//! The first bits of every fence block stand in the front, so a look-up reads one fence block (hot: one
//! in 339 * 509 entries) and one leaf. Every block carries its own digest, checked when it is read: opening
//! reads the front alone. Entries of equal bits never straddle blocks or parts.
//!
//! Not encrypted: bits are of keyed hashes and say nothing of content; what shows is which containers
//! share chunks, which reading the storage shows too (sizes and times of what a backup wrote and did not).
//! In return a run is used where it lies, memory-mapped, without a copy. Not authenticated: a forged run
//! can at worst name wrong containers, whose sealed catalogs have the truth (INV-8); what must not be
//! returned is filtered elsewhere (INV-9).

use format::names::IndexRunName;
use format::wire::{Reader, Writer, digest};
use types::{SessionId, StoreId};

use crate::sampling::Standing;

pub(crate) const BLOCK_BYTES: usize = 4096;
pub(crate) const DIGEST_BYTES: usize = 16;
pub(crate) const ENTRY_BYTES: usize = 12;
pub(crate) const LEAF_ENTRIES: usize = (BLOCK_BYTES - DIGEST_BYTES - 2) / ENTRY_BYTES;
pub(crate) const BLOCK_NUMBERS: usize = (BLOCK_BYTES - DIGEST_BYTES - 8) / 8;

/// Bits of a place that are the container's ordinal: a part has no more containers than entries.
const ORDINAL_BITS: u32 = 32 - Standing::BITS;

const MAGIC: [u8; 8] = *b"1FOLDidx";
const VERSION: u16 = 1;
const PREFIX_BYTES: usize = 16;
const WHAT: &str = "index run";

/// One kind's tree within a part.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Section {
    pub(crate) entries: u64,
    pub(crate) leaves: u32,
    /// First bits of each fence block.
    pub(crate) tops: Vec<u64>,
}

/// What the front says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Meta {
    pub(crate) store: StoreId,
    pub(crate) name: IndexRunName,
    /// Whether no further part follows.
    pub(crate) is_last: bool,
    /// Sessions whose hooks are all in this run: first and count, ascending.
    pub(crate) covered: Vec<(SessionId, u64)>,
    pub(crate) sections: [Section; 2],
    pub(crate) containers: u32,
}

impl Section {
    pub(crate) fn fence_blocks(&self) -> usize {
        self.tops.len()
    }
}

impl Meta {
    pub(crate) fn table_blocks(&self) -> usize {
        (self.containers as usize).div_ceil(BLOCK_NUMBERS)
    }

    fn body_blocks(&self) -> usize {
        let of_section = |s: &Section| s.leaves as usize + s.fence_blocks();
        self.sections.iter().map(of_section).sum::<usize>() + self.table_blocks()
    }

    /// The front, padded to full blocks.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut meta = Vec::new();
        let mut w = Writer::new(&mut meta);
        w.store(self.store);
        w.session(self.name.first);
        w.session(self.name.last);
        w.varint32(self.name.number);
        w.flag(self.is_last);
        w.list(&self.covered, |w, (first, count)| {
            w.session(*first);
            w.varint(*count);
        });
        for section in &self.sections {
            w.varint(section.entries);
            w.varint32(section.leaves);
            w.list(&section.tops, |w, top| w.u64(*top));
        }
        w.varint32(self.containers);

        let mut out = Vec::new();
        let mut w = Writer::new(&mut out);
        w.put(&MAGIC);
        w.u16(VERSION);
        w.u16(0);
        w.u32(u32::try_from(meta.len()).expect("a few numbers a megabyte of run"));
        w.put(&meta);
        let value = digest(&out);
        Writer::new(&mut out).u128(value);
        out.resize(out.len().next_multiple_of(BLOCK_BYTES), 0);
        out
    }

    /// Checks the front of an object and that its length is what the front says. Returns the first
    /// block after the front, too.
    pub(crate) fn decode(object: &[u8]) -> Result<(Self, usize), String> {
        let text = |e: format::FormatError| e.to_string();
        let mut r = Reader::new(WHAT, object);
        if r.array::<8>().map_err(text)? != MAGIC {
            return Err("it does not begin as a run does".to_owned());
        }
        let version = r.u16().map_err(text)?;
        if version != VERSION {
            return Err(format!("its version is {version}, this program knows {VERSION}"));
        }
        r.reserved::<2>().map_err(text)?;
        let meta_len = r.u32().map_err(text)? as usize;
        let meta = r.take(meta_len).map_err(text)?;
        let covered_by_digest = object.get(..PREFIX_BYTES + meta_len).unwrap_or_default();
        if r.u128().map_err(text)? != digest(covered_by_digest) {
            return Err("its front is damaged".to_owned());
        }
        let front = r.position().next_multiple_of(BLOCK_BYTES);
        let meta = Self::decode_meta(meta).map_err(text)?;
        let expected = meta
            .body_blocks()
            .checked_mul(BLOCK_BYTES)
            .and_then(|body| body.checked_add(front));
        if expected != Some(object.len()) {
            return Err("it is truncated or too long".to_owned());
        }
        Ok((meta, front / BLOCK_BYTES))
    }

    fn decode_meta(bytes: &[u8]) -> format::Result<Self> {
        let mut r = Reader::new(WHAT, bytes);
        let store = r.store()?;
        let name = IndexRunName {
            first: r.session()?,
            last: r.session()?,
            number: r.varint32()?,
        };
        let is_last = r.flag()?;
        let covered = r.list(2, |r| Ok((r.session()?, r.varint()?)))?;
        let mut sections = [Section::default(), Section::default()];
        for section in &mut sections {
            section.entries = r.varint()?;
            section.leaves = r.varint32()?;
            section.tops = r.list(8, Reader::u64)?;
            let fences = (section.leaves as usize).div_ceil(BLOCK_NUMBERS);
            r.require(
                section.tops.len() == fences,
                "fences and leaves do not fit each other",
            )?;
            r.require(section.tops.is_sorted(), "fences are not in order")?;
        }
        let containers = r.varint32()?;
        r.finish()?;
        Ok(Self {
            store,
            name,
            is_last,
            covered,
            sections,
            containers,
        })
    }
}

/// Ends a block: pads it and appends its digest.
pub(crate) fn close_block(out: &mut Vec<u8>) {
    let begin = (out.len() - 1) / BLOCK_BYTES * BLOCK_BYTES;
    out.resize(begin + BLOCK_BYTES - DIGEST_BYTES, 0);
    let value = digest(&out[begin..]);
    Writer::new(out).u128(value);
}

/// Appends blocks of numbers.
pub(crate) fn put_numbers(out: &mut Vec<u8>, numbers: &[u64]) {
    for block in numbers.chunks(BLOCK_NUMBERS) {
        let mut w = Writer::new(out);
        w.u16(u16::try_from(block.len()).expect("at most 509"));
        w.put(&[0; 6]);
        for number in block {
            w.u64(*number);
        }
        close_block(out);
    }
}

/// A block whose digest is right.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Block<'a>(&'a [u8]);

impl<'a> Block<'a> {
    pub(crate) fn check(object: &'a [u8], number: usize) -> Option<Self> {
        let begin = number.checked_mul(BLOCK_BYTES)?;
        let bytes = object.get(begin..begin.checked_add(BLOCK_BYTES)?)?;
        let (body, stored) = bytes.split_at_checked(BLOCK_BYTES - DIGEST_BYTES)?;
        (digest(body).to_le_bytes() == stored).then_some(Self(body))
    }

    fn count(self) -> usize {
        self.0
            .first_chunk::<2>()
            .map_or(0, |bytes| usize::from(u16::from_le_bytes(*bytes)))
    }

    /// The numbers of a fence or table block.
    pub(crate) fn numbers(self) -> impl ExactSizeIterator<Item = u64> + use<'a> {
        let body = self.0.get(8..).unwrap_or_default();
        let (numbers, _) = body.as_chunks::<8>();
        let count = self.count().min(numbers.len());
        numbers[..count].iter().map(|bytes| u64::from_le_bytes(*bytes))
    }

    /// One number of a fence or table block.
    pub(crate) fn number(self, at: usize) -> Option<u64> {
        self.numbers().nth(at)
    }

    /// The entries of a leaf: bits and place.
    pub(crate) fn entries(self) -> Entries<'a> {
        let body = self.0.get(2..).unwrap_or_default();
        let (entries, _) = body.as_chunks::<ENTRY_BYTES>();
        let count = self.count().min(entries.len());
        Entries(&entries[..count])
    }
}

/// Where a hook leads, and how long it stays.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Place {
    /// The container's ordinal in the table.
    pub(crate) ordinal: u32,
    pub(crate) standing: Standing,
}

impl Place {
    pub(crate) fn to_u32(self) -> u32 {
        debug_assert!(
            self.ordinal >> ORDINAL_BITS == 0,
            "no more containers than entries"
        );
        self.ordinal | (u32::from(self.standing.to_bits()) << ORDINAL_BITS)
    }

    fn from_u32(place: u32) -> Self {
        let standing = u8::try_from(place >> ORDINAL_BITS).expect("six bits");
        Self {
            ordinal: place & ((1 << ORDINAL_BITS) - 1),
            standing: Standing::from_bits(standing),
        }
    }
}

/// The entries of a leaf.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Entries<'a>(&'a [[u8; ENTRY_BYTES]]);

impl Entries<'_> {
    pub(crate) fn get(self, at: usize) -> Option<(u64, Place)> {
        self.0.get(at).map(split_entry)
    }

    /// The places of the entries with these bits, in order.
    pub(crate) fn equal(self, bits: u64) -> impl Iterator<Item = Place> {
        let first = self.0.partition_point(|entry| split_entry(entry).0 < bits);
        self.0[first..]
            .iter()
            .map(split_entry)
            .take_while(move |entry| entry.0 == bits)
            .map(|entry| entry.1)
    }
}

fn split_entry(entry: &[u8; ENTRY_BYTES]) -> (u64, Place) {
    let (mut bits, mut place) = ([0; 8], [0; 4]);
    bits.copy_from_slice(&entry[..8]);
    place.copy_from_slice(&entry[8..]);
    (
        u64::from_le_bytes(bits),
        Place::from_u32(u32::from_le_bytes(place)),
    )
}
