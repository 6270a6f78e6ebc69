//! Reading one part of a run, memory-mapped.
//!
//! Opening checks only the header. Each block is checked at its first read. A damaged part is not
//! used again, and no longer covers its sessions. A part is immutable except for that flag, the
//! record of checked blocks, and counts. Many threads may read it. It keeps its mapping when the
//! object is deleted.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use env::{ObjectBytes, Storage};
use format::names::{self, IndexRunName};
use types::{ContainerId, StoreId};

use crate::block::{BLOCK_BYTES, Block};
use crate::kind::HookKind;
use crate::part_header::{Meta, Section};
use crate::spans::{Spans, TableBlock, in_row};
use crate::summary::SummaryBlock;

/// A block of a part has a wrong digest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Damaged;

/// The first blocks of the parts of one section.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Places {
    pub(crate) summary: usize,
    pub(crate) leaves: usize,
    pub(crate) table: usize,
}

/// One object of a run.
#[derive(Debug)]
pub(crate) struct Part {
    meta: Meta,
    storage: Arc<dyn Storage>,
    object: ObjectBytes,
    places: [Places; 2],
    /// One bit for each block whose digest was checked.
    checked: Box<[AtomicU64]>,
    damaged: AtomicBool,
    leaves_read: AtomicU64,
}

impl Part {
    /// Opens a part: checks its front.
    pub(crate) fn open(
        storage: Arc<dyn Storage>,
        object: ObjectBytes,
        name: IndexRunName,
        store: StoreId,
    ) -> Result<Self, String> {
        let (meta, first) = Meta::decode(&object)?;
        if meta.store != store {
            return Err(format!("it is of store {}", meta.store));
        }
        if meta.name != name {
            return Err(format!("it was written as {}", names::index_run(meta.name)));
        }
        let mut at = first;
        let mut take = |blocks: usize| {
            at += blocks;
            at - blocks
        };
        let [data, node] = &meta.sections;
        let summary = [take(data.tops.len()), take(node.tops.len())];
        let leaves = [take(data.leaves()), take(node.leaves())];
        let table = [take(data.table_blocks()), take(node.table_blocks())];
        let places = [0, 1].map(|kind| Places {
            summary: summary[kind],
            leaves: leaves[kind],
            table: table[kind],
        });
        let checked = (0..at.div_ceil(64)).map(|_| AtomicU64::new(0)).collect();
        Ok(Self {
            meta,
            storage,
            object,
            places,
            checked,
            damaged: AtomicBool::new(false),
            leaves_read: AtomicU64::new(0),
        })
    }

    pub(crate) fn meta(&self) -> &Meta {
        &self.meta
    }

    pub(crate) fn section(&self, kind: HookKind) -> (&Section, Places) {
        (&self.meta.sections[kind.number()], self.places[kind.number()])
    }

    pub(crate) fn storage(&self) -> &dyn Storage {
        &*self.storage
    }

    pub(crate) fn object(&self) -> &[u8] {
        &self.object
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.object.len() as u64
    }

    /// Bytes of the summaries and tables, which look-ups of absent keys touch.
    pub(crate) fn resident_bytes(&self) -> u64 {
        let of_section = |s: &Section| (s.tops.len() + s.table_blocks()) as u64;
        self.meta.sections.iter().map(of_section).sum::<u64>() * BLOCK_BYTES as u64
    }

    pub(crate) fn is_damaged(&self) -> bool {
        self.damaged.load(Ordering::Relaxed)
    }

    /// Marks the part as damaged. Returns true the first time.
    pub(crate) fn set_damaged(&self) -> bool {
        !self.damaged.swap(true, Ordering::Relaxed)
    }

    pub(crate) fn leaves_read(&self) -> u64 {
        self.leaves_read.load(Ordering::Relaxed)
    }

    fn block(&self, number: usize) -> Result<Block<'_>, Damaged> {
        let bytes = Block::bytes_at(&self.object, number).ok_or(Damaged)?;
        let flags = self.checked.get(number / 64).ok_or(Damaged)?;
        let flag = 1 << (number % 64);
        if flags.load(Ordering::Relaxed) & flag != 0 {
            return Ok(Block::checked_before(bytes));
        }
        let block = Block::check(bytes).ok_or(Damaged)?;
        flags.fetch_or(flag, Ordering::Relaxed);
        Ok(block)
    }

    /// Appends the containers of the hooks with this key, newest first.
    pub(crate) fn find(&self, kind: HookKind, key: u64, out: &mut Vec<ContainerId>) -> Result<(), Damaged> {
        let (section, places) = self.section(kind);
        let Some(at) = section.tops.partition_point(|top| *top <= key).checked_sub(1) else {
            return Ok(());
        };
        let summary = SummaryBlock::parse(self.block(places.summary + at)?).ok_or(Damaged)?;
        let Some(positions) = summary.find(key, section.shift) else {
            return Ok(());
        };
        if positions.end > u64::from(section.entries) {
            return Err(Damaged);
        }
        let shape = section.shape();
        let low = key & ((1 << shape.low_bits) - 1);
        let mut leaf: Option<(usize, Block<'_>)> = None;
        for position in positions {
            let position = usize::try_from(position).map_err(|_| Damaged)?;
            let (number, block) = match leaf {
                Some((number, block)) if position - number * shape.stride() < shape.per_leaf() => {
                    (number, block)
                }
                _ => {
                    let number = position / shape.stride();
                    self.leaves_read.fetch_add(1, Ordering::Relaxed);
                    (number, self.block(places.leaves + number)?)
                }
            };
            leaf = Some((number, block));
            let entry = shape
                .read(block, position - number * shape.stride())
                .ok_or(Damaged)?;
            if entry.key == low {
                out.push(self.container(kind, entry.ordinal)?);
            }
        }
        Ok(())
    }

    /// Binary search in the mapped table.
    fn container(&self, kind: HookKind, ordinal: u32) -> Result<ContainerId, Damaged> {
        let (section, places) = self.section(kind);
        if ordinal >= section.containers {
            return Err(Damaged);
        }
        let block = |at| TableBlock::parse(self.block(places.table + at)?).ok_or(Damaged);
        let (mut low, mut high) = (0, section.table_blocks());
        while high - low > 1 {
            let middle = usize::midpoint(low, high);
            if block(middle)?.row_of(ordinal).is_some() {
                low = middle;
            } else {
                high = middle;
            }
        }
        let row = block(low)?.row_of(ordinal).ok_or(Damaged)?;
        in_row(row, ordinal).ok_or(Damaged)
    }

    /// The whole table.
    pub(crate) fn table(&self, kind: HookKind) -> Result<Spans, Damaged> {
        let (section, places) = self.section(kind);
        let mut rows = Vec::new();
        for at in 0..section.table_blocks() {
            rows.extend(
                TableBlock::parse(self.block(places.table + at)?)
                    .ok_or(Damaged)?
                    .rows(),
            );
        }
        if rows.len() != section.rows as usize {
            return Err(Damaged);
        }
        Spans::from_rows(rows, section.containers).ok_or(Damaged)
    }
}
