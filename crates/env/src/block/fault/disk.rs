//! A disk: live and durable blocks.
//!
//! Invariant: `pending` has exactly the blocks whose live bytes a power cut could change.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use types::ByteRange;

use super::content::{Content, Reader};
use super::cut::Judge;
use super::history::History;
use crate::block::device::{BLOCK_BYTES, BLOCK_LEN};

#[derive(Debug, Clone)]
pub(super) struct Disk {
    blocks: BTreeMap<u64, History<Content>>,
    pending: BTreeSet<u64>,
    len: History<u64>,
    unreadable: Vec<ByteRange>,
}

impl Disk {
    pub(super) fn new(len: u64) -> Self {
        Self {
            blocks: BTreeMap::new(),
            pending: BTreeSet::new(),
            len: History::durable(len),
            unreadable: Vec::new(),
        }
    }

    pub(super) fn len(&self) -> u64 {
        *self.len.live()
    }

    pub(super) fn grow(&mut self, len: u64, change: u64) {
        if len > self.len() {
            self.len.push(change, len);
        }
    }

    pub(super) fn is_readable(&self, range: ByteRange) -> bool {
        let touches = |bad: &ByteRange| bad.offset < range.end() && range.offset < bad.end();
        !self.unreadable.iter().any(touches)
    }

    pub(super) fn make_unreadable(&mut self, range: ByteRange) {
        self.unreadable.push(range);
    }

    pub(super) fn read(&self, reader: &Reader, offset: u64, out: &mut [u8]) {
        for (number, out) in (offset / BLOCK_BYTES..).zip(out.chunks_mut(BLOCK_LEN)) {
            let content = self.blocks.get(&number).map_or(&Content::Zeros, History::live);
            reader.read(number, content, out);
        }
    }

    /// Writes parts, from the beginning of a block on.
    pub(super) fn write(&mut self, reader: &Reader, offset: u64, bytes: &[u8], change: u64) {
        for (number, bytes) in (offset / BLOCK_BYTES..).zip(bytes.chunks(BLOCK_LEN)) {
            let mut block = [0; BLOCK_LEN];
            if bytes.len() < block.len() {
                self.read(reader, number * BLOCK_BYTES, &mut block);
            }
            block[..bytes.len()].copy_from_slice(bytes);
            // Equal blocks are one outcome of a power cut.
            let content = match block.iter().all(|byte| *byte == 0) {
                true => Content::Zeros,
                false => Content::Bytes(Arc::new(block)),
            };
            self.push(number, change, content);
        }
        let (offset, len) = (offset, bytes.len() as u64);
        let written = ByteRange { offset, len };
        self.unreadable = self
            .unreadable
            .iter()
            .flat_map(|bad| without(*bad, written))
            .collect();
    }

    pub(super) fn discard(&mut self, offset: u64, len: u64, change: u64) {
        for number in offset / BLOCK_BYTES..(offset + len) / BLOCK_BYTES {
            // Blocks that nobody wrote have nothing to forget.
            let Some(history) = self.blocks.get(&number) else {
                continue;
            };
            let old = match history.live() {
                Content::Zeros => None,
                Content::Bytes(bytes) => Some(Arc::clone(bytes)),
                Content::Discarded { old, .. } => old.clone(),
            };
            self.push(number, change, Content::Discarded { old, change });
        }
    }

    fn push(&mut self, number: u64, change: u64, content: Content) {
        let history = self
            .blocks
            .entry(number)
            .or_insert_with(|| History::durable(Content::Zeros));
        history.push(change, content);
        self.pending.insert(number);
    }

    /// Makes the changes up to this one durable.
    pub(super) fn flush(&mut self, change: u64) {
        self.len.settle(change);
        let blocks = &mut self.blocks;
        self.pending.retain(|number| {
            let history = blocks.get_mut(number).expect("pending blocks have histories");
            history.settle(change);
            !history.is_durable()
        });
    }

    /// A flush of the changes up to this one has failed.
    pub(super) fn doubt(&mut self, change: u64) {
        self.len.doubt(change);
        for number in &self.pending {
            let history = self.blocks.get_mut(number);
            history.expect("pending blocks have histories").doubt(change);
        }
    }

    pub(super) fn unflushed(&self) -> usize {
        self.pending.len()
    }

    pub(super) fn damage(&mut self, reader: &Reader, offset: u64, damage: impl FnOnce(&mut [u8])) {
        assert!(
            offset.is_multiple_of(BLOCK_BYTES) && offset < self.len(),
            "no block begins at {offset}"
        );
        let mut block = [0; BLOCK_LEN];
        self.read(reader, offset, &mut block);
        damage(&mut block);
        let number = offset / BLOCK_BYTES;
        let damaged = History::durable(Content::Bytes(Arc::new(block)));
        self.blocks.insert(number, damaged);
        self.pending.remove(&number);
    }

    /// How many outcomes of a power cut the length and each pending block have, in the order in
    /// which [`Self::after`] asks the judge.
    pub(super) fn choices(&self) -> impl Iterator<Item = usize> {
        let blocks = self.pending.iter().map(|number| &self.blocks[number]);
        std::iter::once(self.len.distinct().len()).chain(blocks.map(|block| block.distinct().len()))
    }

    /// The disk after a power cut.
    pub(super) fn after(&self, reader: &Reader, judge: &mut Judge) -> Self {
        let mut after = Self {
            blocks: self.blocks.clone(),
            pending: BTreeSet::new(),
            len: History::durable(judge.len(&self.len)),
            unreadable: self.unreadable.clone(),
        };
        for &number in &self.pending {
            let content = judge.block(&self.blocks[&number], |content, out| {
                reader.read(number, content, out);
            });
            after.blocks.insert(number, History::durable(content));
        }
        after.blocks.split_off(&(after.len() / BLOCK_BYTES));
        after
    }
}

/// What is left of the bad bytes beside the written ones.
fn without(bad: ByteRange, written: ByteRange) -> impl Iterator<Item = ByteRange> {
    let (start, end) = (
        written.offset.clamp(bad.offset, bad.end()),
        written.end().clamp(bad.offset, bad.end()),
    );
    [(bad.offset, start), (end, bad.end())]
        .into_iter()
        .filter(|(from, to)| from < to)
        .map(|(from, to)| ByteRange {
            offset: from,
            len: to - from,
        })
}
