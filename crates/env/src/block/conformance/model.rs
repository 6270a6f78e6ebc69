//! Sequences of operations, run beside plain bytes.

use std::io::{IoSlice, IoSliceMut};

use super::{BLOCK, write};
use crate::{BLOCK_BYTES, BlockDevice, Entropy, SeededEntropy};

/// Blocks that the operations touch: few, so that operations meet.
const BLOCKS: usize = 48;

/// One operation. Any number chooses a block.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Op {
    /// Write blocks, with one buffer or a buffer for each.
    Write {
        /// The first block.
        block: u8,
        /// The number of blocks.
        count: u8,
        /// The value that all bytes have.
        value: u8,
        /// Whether each block has a buffer of its own.
        is_vectored: bool,
    },
    /// Read blocks, with one buffer or a buffer for each.
    Read {
        /// The first block.
        block: u8,
        /// The number of blocks.
        count: u8,
        /// Whether each block has a buffer of its own.
        is_vectored: bool,
    },
    /// Discard blocks.
    Discard {
        /// The first block.
        block: u8,
        /// The number of blocks.
        count: u8,
    },
    /// A flush.
    Flush,
}

/// That many operations, the same for the same seed.
#[must_use]
pub fn random_operations(seed: u64, count: usize) -> Vec<Op> {
    let entropy = SeededEntropy::new(seed);
    let draw = move || {
        let mut bytes = [0; 5];
        entropy.fill(&mut bytes);
        bytes
    };
    (0..count).map(|_| random_operation(draw())).collect()
}

fn random_operation([kind, block, count, value, flag]: [u8; 5]) -> Op {
    let is_vectored = flag % 2 == 0;
    match kind % 16 {
        0..=6 => Op::Write {
            block,
            count,
            value,
            is_vectored,
        },
        7..=11 => Op::Read {
            block,
            count,
            is_vectored,
        },
        12..=14 => Op::Discard { block, count },
        _ => Op::Flush,
    }
}

/// Runs the operations on the first blocks of the device, which it overwrites. Compares every read
/// with plain bytes. A discarded block is not compared until it is written.
///
/// # Panics
/// If they differ.
pub fn check_operations(device: &dyn BlockDevice, ops: &[Op]) {
    write(device, 0, &[0; BLOCKS * BLOCK]);
    let mut values = [Some(0); BLOCKS];
    for op in ops {
        match *op {
            Op::Write {
                block,
                count,
                value,
                is_vectored,
            } => {
                let blocks = blocks(block, count);
                let bytes = vec![value; blocks.len() * BLOCK];
                let parts: Vec<_> = bytes.chunks(BLOCK).map(IoSlice::new).collect();
                let offset = blocks.start as u64 * BLOCK_BYTES;
                let written = match is_vectored {
                    true => device.write_vectored_at(offset, &parts),
                    false => device.write_at(offset, &bytes),
                };
                written.unwrap_or_else(|error| panic!("{op:?}: {error}"));
                values[blocks].fill(Some(value));
            }
            Op::Read {
                block,
                count,
                is_vectored,
            } => assert_values(device, op, &values, blocks(block, count), is_vectored),
            Op::Discard { block, count } => {
                let blocks = blocks(block, count);
                let (offset, len) = (blocks.start as u64, blocks.len() as u64);
                device
                    .discard(offset * BLOCK_BYTES, len * BLOCK_BYTES)
                    .unwrap_or_else(|error| panic!("{op:?}: {error}"));
                values[blocks].fill(None);
            }
            Op::Flush => device.flush().expect("a flush"),
        }
    }
    assert_values(device, &Op::Flush, &values, 0..BLOCKS, false);
}

fn blocks(block: u8, count: u8) -> std::ops::Range<usize> {
    let start = usize::from(block) % BLOCKS;
    start..start + usize::from(count) % (BLOCKS - start).min(12)
}

fn assert_values(
    device: &dyn BlockDevice,
    op: &Op,
    values: &[Option<u8>; BLOCKS],
    blocks: std::ops::Range<usize>,
    is_vectored: bool,
) {
    let mut out = vec![0xA5; blocks.len() * BLOCK];
    let offset = blocks.start as u64 * BLOCK_BYTES;
    let outcome = if is_vectored {
        let mut parts: Vec<_> = out.chunks_mut(BLOCK).map(IoSliceMut::new).collect();
        device.read_vectored_at(offset, &mut parts)
    } else {
        device.read_at(offset, &mut out)
    };
    outcome.unwrap_or_else(|error| panic!("{op:?}: {error}"));
    for (block, found) in blocks.zip(out.chunks(BLOCK)) {
        let Some(value) = values[block] else {
            continue;
        };
        assert!(
            found.iter().all(|byte| *byte == value),
            "block {block} has not the value {value} at {op:?}"
        );
    }
}
