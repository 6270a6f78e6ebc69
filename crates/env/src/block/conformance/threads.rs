//! Cases of several threads.

use super::{Abilities, BLOCK, assert_bytes, pattern, read, write};
use crate::{BLOCK_BYTES, BlockDevice};

const THREADS: u64 = 4;
const ROUNDS: u32 = 20;
/// Blocks that are written once a round by each thread.
const BLOCKS: u64 = 16;

pub(super) fn writers_of_different_blocks_do_not_meet(device: &dyn BlockDevice, _: Abilities) {
    write(device, 0, &pattern(0, 64));
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            scope.spawn(move || {
                for round in 0..ROUNDS {
                    let bytes = pattern(round, 1);
                    // Each thread has every fourth block.
                    for block in (0..BLOCKS).map(|block| (block * THREADS + thread) * BLOCK_BYTES) {
                        write(device, block, &bytes);
                        assert_bytes(device, block, &bytes);
                    }
                }
            });
        }
    });
    for block in 0..THREADS * BLOCKS {
        assert_bytes(device, block * BLOCK_BYTES, &pattern(ROUNDS - 1, 1));
    }
}

pub(super) fn flushes_and_writes_at_once(device: &dyn BlockDevice, _: Abilities) {
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            scope.spawn(move || {
                for round in 0..ROUNDS {
                    write(device, thread * BLOCK_BYTES, &pattern(round, 1));
                    device.flush().expect("a flush beside writes");
                    assert_bytes(device, thread * BLOCK_BYTES, &pattern(round, 1));
                }
            });
        }
    });
}

pub(super) fn a_device_grows_for_several_threads(device: &dyn BlockDevice, abilities: Abilities) {
    if !abilities.grows {
        return;
    }
    let len = device.len();
    let before = read(device, 0, 4 * BLOCK);
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            scope.spawn(move || {
                for round in 0..u64::from(ROUNDS) {
                    let end = len + (round * THREADS + thread + 1) * BLOCK_BYTES;
                    device.grow(end).expect("growth beside growth");
                    assert!(device.len() >= end, "a device that was grown");
                    write(device, end - BLOCK_BYTES, &pattern(9, 1));
                }
            });
        }
    });
    let blocks = u64::from(ROUNDS) * THREADS;
    assert_eq!(device.len(), len + blocks * BLOCK_BYTES);
    for block in 0..blocks {
        assert_bytes(device, len + block * BLOCK_BYTES, &pattern(9, 1));
    }
    assert_bytes(device, 0, &before);
}
