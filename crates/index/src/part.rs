//! Reading one part of a run where it lies.
//!
//! Opening checks the front alone; each block is checked when it is read. A part that turns out damaged
//! is not used again, and no longer counts as covering its sessions. Immutable but for that one flag; may
//! be read from many threads. Keeps its mapping when the object is deleted.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use env::ObjectBytes;
use format::names::{self, IndexRunName};
use types::{ContainerId, StoreId};

use crate::hook::{Hook, HookKind};
use crate::layout::{BLOCK_NUMBERS, Block, Meta};

/// A block of a part is not what was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Damaged;

/// One object of a run.
#[derive(Debug)]
pub(crate) struct Part {
    meta: Meta,
    object: ObjectBytes,
    /// First blocks: leaves, fences by kind, and the table.
    leaves_at: [usize; 2],
    fences_at: [usize; 2],
    table_at: usize,
    damaged: AtomicBool,
    blocks_read: AtomicU64,
}

impl Part {
    /// Checks the front.
    pub(crate) fn open(object: ObjectBytes, name: IndexRunName, store: StoreId) -> Result<Self, String> {
        let (meta, first) = Meta::decode(&object)?;
        if meta.store != store {
            return Err(format!("it is of store {}", meta.store));
        }
        if meta.name != name {
            return Err(format!("it was written as {}", names::index_run(meta.name)));
        }
        let [data, node] = &meta.sections;
        let leaves_at = [first, first + data.leaves as usize];
        let fences = leaves_at[1] + node.leaves as usize;
        let fences_at = [fences, fences + data.fence_blocks()];
        let table_at = fences_at[1] + node.fence_blocks();
        let (damaged, blocks_read) = (AtomicBool::new(false), AtomicU64::new(0));
        Ok(Self {
            meta,
            object,
            leaves_at,
            fences_at,
            table_at,
            damaged,
            blocks_read,
        })
    }

    pub(crate) fn meta(&self) -> &Meta {
        &self.meta
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.object.len() as u64
    }

    pub(crate) fn entries(&self) -> u64 {
        self.meta.sections.iter().map(|section| section.entries).sum()
    }

    pub(crate) fn is_damaged(&self) -> bool {
        self.damaged.load(Ordering::Relaxed)
    }

    /// Marks the part; true the first time.
    pub(crate) fn set_damaged(&self) -> bool {
        !self.damaged.swap(true, Ordering::Relaxed)
    }

    pub(crate) fn blocks_read(&self) -> u64 {
        self.blocks_read.load(Ordering::Relaxed)
    }

    fn block(&self, number: usize) -> Result<Block<'_>, Damaged> {
        self.blocks_read.fetch_add(1, Ordering::Relaxed);
        Block::check(&self.object, number).ok_or(Damaged)
    }

    /// Appends the containers of the hooks with these bits, newest first.
    pub(crate) fn find(&self, kind: HookKind, bits: u64, out: &mut Vec<ContainerId>) -> Result<(), Damaged> {
        let tops = &self.meta.sections[kind.number()].tops;
        let Some(fence) = tops.partition_point(|top| *top <= bits).checked_sub(1) else {
            return Ok(());
        };
        let block = self.block(self.fences_at[kind.number()] + fence)?;
        // Not sorted means forged; what follows then finds nothing, which is all it can do.
        let leaf = block.numbers().take_while(|first| *first <= bits).count();
        let Some(leaf) = leaf.checked_sub(1) else {
            return Ok(());
        };
        let leaf = fence * BLOCK_NUMBERS + leaf;
        if leaf >= self.meta.sections[kind.number()].leaves as usize {
            return Err(Damaged);
        }
        let block = self.block(self.leaves_at[kind.number()] + leaf)?;
        for place in block.entries().equal(bits) {
            out.push(self.container(place.ordinal)?);
        }
        Ok(())
    }

    fn container(&self, ordinal: u32) -> Result<ContainerId, Damaged> {
        if ordinal >= self.meta.containers {
            return Err(Damaged);
        }
        let block = self.block(self.table_at + ordinal as usize / BLOCK_NUMBERS)?;
        let id = block.number(ordinal as usize % BLOCK_NUMBERS).ok_or(Damaged)?;
        ContainerId::from_u64(id).ok_or(Damaged)
    }

    /// The container table, for reading the whole part in order.
    fn table(&self) -> Result<Vec<ContainerId>, Damaged> {
        let mut out = Vec::with_capacity(self.meta.containers as usize);
        for n in 0..self.meta.table_blocks() {
            for id in self.block(self.table_at + n)?.numbers() {
                out.push(ContainerId::from_u64(id).ok_or(Damaged)?);
            }
        }
        if out.len() == self.meta.containers as usize {
            Ok(out)
        } else {
            Err(Damaged)
        }
    }
}

/// Reads a part's hooks in order, a block at a time.
#[derive(Debug)]
pub(crate) struct Scanner<'a> {
    part: &'a Part,
    table: Vec<ContainerId>,
    kind: HookKind,
    leaf: usize,
    entry: usize,
    block: Option<Block<'a>>,
}

impl<'a> Scanner<'a> {
    pub(crate) fn new(part: &'a Part) -> Result<Self, Damaged> {
        Ok(Self {
            part,
            table: part.table()?,
            kind: HookKind::Data,
            leaf: 0,
            entry: 0,
            block: None,
        })
    }

    /// The next hook; `None` at the end.
    pub(crate) fn next(&mut self) -> Result<Option<Hook>, Damaged> {
        loop {
            if let Some(block) = self.block
                && let Some((bits, place)) = block.entries().get(self.entry)
            {
                self.entry += 1;
                let container = *self.table.get(place.ordinal as usize).ok_or(Damaged)?;
                return Ok(Some(Hook {
                    kind: self.kind,
                    bits,
                    container,
                    standing: place.standing,
                }));
            }
            let number = self.kind.number();
            if self.leaf < self.part.meta.sections[number].leaves as usize {
                self.block = Some(self.part.block(self.part.leaves_at[number] + self.leaf)?);
                (self.leaf, self.entry) = (self.leaf + 1, 0);
            } else if self.kind == HookKind::Data {
                (self.kind, self.leaf, self.block) = (HookKind::Node, 0, None);
            } else {
                return Ok(None);
            }
        }
    }
}
