//! Reads hooks in order, from runs and from memory, for merging.
//!
//! Parts are read through the storage in pieces, not through their mapping, so that a merge does
//! not fill this process's memory (INV-7). A part whose object was deleted meanwhile is read
//! through its mapping. Every block's digest is checked. One thread at a time may use it.

use std::collections::VecDeque;

use env::StorageError;
use format::names;
use types::ByteRange;

use crate::block::{BLOCK_BYTES, Block};
use crate::hook::{Hook, HookOrder};
use crate::kind::HookKind;
use crate::part::{Damaged, Part};
use crate::records::{Entry, standing_of};
use crate::run::Run;
use crate::spans::Spans;
use crate::summary::{SummaryBlock, bits_of_key};
use crate::writer::PART_ENTRIES_MAX;

/// Blocks read in one request.
const PIECE_BLOCKS: usize = 64;

/// Why a source cannot continue.
#[derive(Debug)]
pub(crate) enum Fault<'a> {
    /// This part is damaged.
    Damaged(&'a Part),
    /// The storage does not answer.
    Storage(StorageError),
}

/// A stretch of a part's blocks that was read ahead.
#[derive(Debug)]
struct BlockStretch<'a> {
    part: &'a Part,
    first: usize,
    bytes: Vec<u8>,
    /// The last block whose digest was checked.
    checked: Option<usize>,
}

impl<'a> BlockStretch<'a> {
    fn new(part: &'a Part) -> Self {
        Self {
            part,
            first: 0,
            bytes: Vec::new(),
            checked: None,
        }
    }

    fn block(&mut self, number: usize) -> Result<Block<'_>, Fault<'a>> {
        let is_held = number >= self.first && number - self.first < self.bytes.len() / BLOCK_BYTES;
        if !is_held {
            self.fill(number)?;
        }
        let bytes = Block::bytes_at(&self.bytes, number - self.first).ok_or(Fault::Damaged(self.part))?;
        if self.checked == Some(number) {
            return Ok(Block::checked_before(bytes));
        }
        self.checked = Some(number);
        Block::check(bytes).ok_or(Fault::Damaged(self.part))
    }

    fn fill(&mut self, first: usize) -> Result<(), Fault<'a>> {
        let object = self.part.object();
        let from = first.saturating_mul(BLOCK_BYTES).min(object.len());
        let until = (from + PIECE_BLOCKS * BLOCK_BYTES).min(object.len());
        let name = names::index_run(self.part.meta().name);
        let range = ByteRange {
            offset: from as u64,
            len: (until - from) as u64,
        };
        self.first = first;
        self.bytes = match self.part.storage().get_range(&name, range) {
            Ok(bytes) => bytes,
            Err(StorageError::NotFound { .. }) => object[from..until].to_vec(),
            Err(StorageError::PastEnd { .. }) => return Err(Fault::Damaged(self.part)),
            Err(error) => return Err(Fault::Storage(error)),
        };
        Ok(())
    }
}

/// One part's hooks in order.
#[derive(Debug)]
pub(crate) struct Scanner<'a> {
    part: &'a Part,
    kind: HookKind,
    table: Spans,
    summary: BlockStretch<'a>,
    leaves: BlockStretch<'a>,
    /// The number of the next summary block, and the upper bits of keys of the previous one.
    next_block: usize,
    uppers: std::vec::IntoIter<u64>,
    position: usize,
}

impl<'a> Scanner<'a> {
    fn new(part: &'a Part) -> Result<Self, Fault<'a>> {
        Ok(Self {
            part,
            kind: HookKind::Data,
            table: part
                .table(HookKind::Data)
                .map_err(|Damaged| Fault::Damaged(part))?,
            summary: BlockStretch::new(part),
            leaves: BlockStretch::new(part),
            next_block: 0,
            uppers: Vec::new().into_iter(),
            position: 0,
        })
    }

    /// The next hook; `None` at the end.
    fn next(&mut self) -> Result<Option<Hook>, Fault<'a>> {
        let damaged = || Fault::Damaged(self.part);
        loop {
            if let Some(upper) = self.uppers.next() {
                let entry = self.entry()?;
                let shift = self.part.section(self.kind).0.shape().low_bits;
                let container = self.table.container(entry.ordinal).ok_or_else(damaged)?;
                return Ok(Some(Hook {
                    kind: self.kind,
                    bits: bits_of_key(upper << shift | entry.key),
                    container,
                    standing: standing_of(entry.rank),
                }));
            }
            let (section, places) = self.part.section(self.kind);
            if self.next_block < section.tops.len() {
                let block = self.summary.block(places.summary + self.next_block)?;
                let block = SummaryBlock::parse(block).ok_or_else(damaged)?;
                if block.position != self.position as u64 {
                    return Err(damaged());
                }
                self.uppers = block.keys().collect::<Vec<_>>().into_iter();
                self.next_block += 1;
            } else if self.position != section.entries as usize {
                return Err(damaged());
            } else if self.kind == HookKind::Data {
                (self.kind, self.next_block, self.position) = (HookKind::Node, 0, 0);
                self.table = self.part.table(self.kind).map_err(|Damaged| damaged())?;
            } else {
                return Ok(None);
            }
        }
    }

    fn entry(&mut self) -> Result<Entry, Fault<'a>> {
        let (section, places) = self.part.section(self.kind);
        if self.position >= section.entries as usize {
            return Err(Fault::Damaged(self.part));
        }
        let shape = section.shape();
        let (leaf, at) = (self.position / shape.stride(), self.position % shape.stride());
        self.position += 1;
        let block = self.leaves.block(places.leaves + leaf)?;
        shape.read(block, at).ok_or(Fault::Damaged(self.part))
    }
}

/// Hooks in order, from a run or from memory.
#[derive(Debug)]
pub(crate) enum Source<'a> {
    Run {
        run: &'a Run,
        ahead: VecDeque<&'a Part>,
        scanner: Option<(Box<Scanner<'a>>, &'a Part)>,
        last: Option<HookOrder>,
    },
    Sorted {
        hooks: &'a [Hook],
    },
}

impl<'a> Source<'a> {
    pub(crate) fn run(run: &'a Run) -> Self {
        Self::Run {
            run,
            ahead: run.parts.iter().map(|part| &**part).collect(),
            scanner: None,
            last: None,
        }
    }

    /// The containers of all its hooks of a kind, possibly with others.
    pub(crate) fn containers(&self, kind: HookKind) -> Result<Spans, Fault<'a>> {
        match self {
            // All parts have the same table. Each container has a hook, so a table with more
            // containers is false, and would cost time (INV-8).
            Self::Run { run, .. } => match run.parts.first() {
                None => Ok(Spans::default()),
                Some(part) => {
                    let table = part.table(kind).ok();
                    let most = run.parts.len() * PART_ENTRIES_MAX;
                    let table = table.filter(|table| table.len() as usize <= most);
                    table.ok_or(Fault::Damaged(part))
                }
            },
            Self::Sorted { hooks } => {
                let of_kind = hooks.iter().filter(|hook| hook.kind == kind);
                Ok(Spans::of(of_kind.map(|hook| hook.container)))
            }
        }
    }

    /// The next hook, in ascending order; or the damaged part.
    pub(crate) fn next(&mut self) -> Result<Option<Hook>, Fault<'a>> {
        let (ahead, scanner, last) = match self {
            Self::Sorted { hooks } => {
                let Some((first, rest)) = hooks.split_first() else {
                    return Ok(None);
                };
                *hooks = rest;
                return Ok(Some(*first));
            }
            Self::Run {
                ahead, scanner, last, ..
            } => (ahead, scanner, last),
        };
        loop {
            if let Some((scanner, part)) = scanner
                && let Some(hook) = scanner.next()?
            {
                let order = Some(hook.order());
                if order < *last {
                    return Err(Fault::Damaged(part));
                }
                *last = order;
                return Ok(Some(hook));
            }
            let Some(part) = ahead.pop_front() else {
                return Ok(None);
            };
            *scanner = Some((Box::new(Scanner::new(part)?), part));
        }
    }
}
