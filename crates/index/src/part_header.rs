//! The bytes of a part of a run, and its header, which has the place of each section.
//!
//! ```text
//! front      magic 8, version u16, 0 u16, length of meta u32, meta, digest over all before; to a full block
//! summaries  data, then node: see `summary`
//! leaves     data, then node: see `records`
//! tables     data, then node: see `spans`
//! ```
//!
//! Everything is in blocks of 4 KiB. The header has the first key of every summary block. So a
//! look-up reads one summary block (resident: some 11 bits for each hook). It reads one leaf if the
//! summary says that the key may be there, and then rows of the table. Every block behind the
//! header has its own digest, checked when it is read, so opening reads only the header. Entries of
//! equal keys never straddle summary blocks or parts.
//!
//! Runs are not encrypted. Keys are parts of keyed hashes, and say nothing about content. They show
//! which containers share chunks, as do sizes and times in the storage. In return, a run is
//! memory-mapped and used without a copy. Runs are not authenticated: a forged run can at worst
//! name wrong containers, and their sealed catalogs decide (INV-8). Places that must not be
//! returned are filtered elsewhere (INV-9).

use format::names::IndexRunName;
use format::wire::{Reader, Writer, digest};
use types::{SessionId, StoreId};

use crate::block::BLOCK_BYTES;
use crate::object_header::{HEAD_BYTES, Head};
use crate::records::RecordShape;
use crate::sampling::{SamplingRate, SamplingRates};
use crate::spans::TABLE_ROWS;
use crate::summary::{REMAINDER_BITS, SHIFT_MAX, SHIFT_MIN, SUMMARY_BITS};

const HEAD: Head = Head {
    magic: *b"1FOLDidx",
    // Version 1 was an exact index with 12 bytes for each hook.
    version: 2,
    what: "a run",
};
const WHAT: &str = "index run";

/// One kind's hooks within a part.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Section {
    pub(crate) entries: u32,
    /// Bits of a key below its quotient.
    pub(crate) shift: u32,
    /// Bits of a container's ordinal.
    pub(crate) ordinal_bits: u32,
    /// Containers in the table.
    pub(crate) containers: u32,
    /// Rows of the table.
    pub(crate) rows: u32,
    /// First key of each summary block.
    pub(crate) tops: Vec<u64>,
}

impl Section {
    /// The layout of its records.
    pub(crate) fn shape(&self) -> RecordShape {
        RecordShape {
            low_bits: self.shift.saturating_sub(REMAINDER_BITS),
            ordinal_bits: self.ordinal_bits,
        }
    }

    /// Bytes of its hooks, without the free ends of blocks: a merge cannot reduce these bytes.
    pub(crate) fn net_bytes(&self) -> u64 {
        u64::from(self.entries) * (self.shape().bits() as u64 + SUMMARY_BITS) / 8
    }

    pub(crate) fn leaves(&self) -> usize {
        usize::try_from(self.shape().leaves(u64::from(self.entries))).unwrap_or(usize::MAX)
    }

    pub(crate) fn table_blocks(&self) -> usize {
        (self.rows as usize).div_ceil(TABLE_ROWS)
    }
}

/// The content of the front.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Meta {
    pub(crate) store: StoreId,
    pub(crate) name: IndexRunName,
    /// Whether no further part follows.
    pub(crate) is_last: bool,
    /// Sessions whose sampled hooks are all in this run: first and count, ascending.
    pub(crate) covered: Vec<(SessionId, u64)>,
    /// The rates at which the run was written.
    pub(crate) rates: SamplingRates,
    pub(crate) sections: [Section; 2],
}

impl Meta {
    fn body_blocks(&self) -> Option<usize> {
        let of_section = |s: &Section| {
            s.tops
                .len()
                .checked_add(s.leaves())?
                .checked_add(s.table_blocks())
        };
        self.sections
            .iter()
            .try_fold(0usize, |sum, section| sum.checked_add(of_section(section)?))
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
        w.u8(self.rates.data.halvings());
        w.u8(self.rates.node.halvings());
        for section in &self.sections {
            w.varint32(section.entries);
            w.varint32(section.shift);
            w.varint32(section.ordinal_bits);
            w.varint32(section.containers);
            w.varint32(section.rows);
            w.list(&section.tops, |w, top| w.u64(*top));
        }

        let mut out = HEAD.write(&meta);
        let value = digest(&out);
        Writer::new(&mut out).u128(value);
        out.resize(out.len().next_multiple_of(BLOCK_BYTES), 0);
        out
    }

    /// Checks the front of an object, and the object's length against it. Returns also the number
    /// of the first block after the front.
    pub(crate) fn decode(object: &[u8]) -> Result<(Self, usize), String> {
        let text = |e: format::FormatError| e.to_string();
        let mut r = Reader::new(WHAT, object);
        let meta = HEAD.read(&mut r)?;
        let covered_by_digest = object.get(..HEAD_BYTES + meta.len()).unwrap_or_default();
        if r.u128().map_err(text)? != digest(covered_by_digest) {
            return Err("its front is damaged".to_owned());
        }
        let front = r.position().next_multiple_of(BLOCK_BYTES);
        let meta = Self::decode_meta(meta).map_err(text)?;
        let expected = meta
            .body_blocks()
            .and_then(|body| body.checked_mul(BLOCK_BYTES))
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
        let rates = SamplingRates {
            data: rate(&mut r)?,
            node: rate(&mut r)?,
        };
        let sections = [section(&mut r)?, section(&mut r)?];
        r.finish()?;
        Ok(Self {
            store,
            name,
            is_last,
            covered,
            rates,
            sections,
        })
    }
}

fn rate(r: &mut Reader<'_>) -> format::Result<SamplingRate> {
    let here = r.fault("no rate is that low");
    SamplingRate::new(r.u8()?).ok_or(here)
}

fn section(r: &mut Reader<'_>) -> format::Result<Section> {
    let section = Section {
        entries: r.varint32()?,
        shift: r.varint32()?,
        ordinal_bits: r.varint32()?,
        containers: r.varint32()?,
        rows: r.varint32()?,
        tops: r.list(8, Reader::u64)?,
    };
    r.require(
        (SHIFT_MIN..=SHIFT_MAX).contains(&section.shift) && section.ordinal_bits <= u32::BITS,
        "records are too wide",
    )?;
    r.require(section.rows <= section.containers, "rows without containers")?;
    r.require(
        section.tops.is_empty() == (section.entries == 0) && section.tops.len() <= section.entries as usize,
        "summary and entries do not fit each other",
    )?;
    r.require(
        section.tops.is_sorted_by(|a, b| a < b),
        "first keys are not in order",
    )?;
    Ok(section)
}
