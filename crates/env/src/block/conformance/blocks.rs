//! Cases of reads and writes.

use std::io::{IoSlice, IoSliceMut};

use super::{Abilities, BLOCK, assert_bytes, pattern, read, write};
use crate::{AlignedBuffer, BLOCK_BYTES, BlockDevice, BlockRead, DeviceError};

pub(super) fn blocks_that_nobody_wrote_are_zeros(device: &dyn BlockDevice, abilities: Abilities) {
    if abilities.is_zeros {
        assert_bytes(device, 0, &[0; 4 * BLOCK]);
        assert_bytes(device, device.len() - BLOCK_BYTES, &[0; BLOCK]);
    }
}

pub(super) fn a_block_has_what_was_written_last(device: &dyn BlockDevice, _: Abilities) {
    let last = device.len() - BLOCK_BYTES;
    write(device, 0, &pattern(1, 4));
    write(device, last, &pattern(2, 1));
    write(device, BLOCK_BYTES, &pattern(3, 2));
    write(device, BLOCK_BYTES, &pattern(4, 1));
    let mut expected = pattern(1, 4);
    expected[BLOCK..3 * BLOCK].copy_from_slice(&pattern(3, 2));
    expected[BLOCK..2 * BLOCK].copy_from_slice(&pattern(4, 1));
    assert_bytes(device, 0, &expected);
    assert_bytes(device, last, &pattern(2, 1));
    assert_bytes(device, 2 * BLOCK_BYTES, &expected[2 * BLOCK..3 * BLOCK]);
}

/// Ranges that no device has: offset and length.
fn bad_ranges(device: &dyn BlockDevice) -> Vec<(u64, usize)> {
    let len = device.len();
    vec![
        (1, BLOCK),
        (512, BLOCK),
        (0, 1),
        (0, BLOCK - 512),
        (0, BLOCK + 512),
        (len, BLOCK),
        (len - BLOCK_BYTES, 2 * BLOCK),
        (len + BLOCK_BYTES, 0),
        (u64::MAX - BLOCK_BYTES + 1, BLOCK),
        (u64::MAX, 1),
    ]
}

pub(super) fn only_whole_blocks_of_the_device_are_taken(device: &dyn BlockDevice, _: Abilities) {
    let len = device.len();
    let last = len - 2 * BLOCK_BYTES;
    write(device, 0, &pattern(1, 3));
    write(device, last, &pattern(2, 2));
    for (offset, count) in bad_ranges(device) {
        let mut bytes = vec![0xBB; count];
        let outcomes = [
            ("read", device.read_at(offset, &mut bytes)),
            ("write", device.write_at(offset, &bytes)),
            ("discard", device.discard(offset, count as u64)),
            (
                "vectored read",
                device.read_vectored_at(offset, &mut [IoSliceMut::new(&mut vec![0; count])]),
            ),
            (
                "vectored write",
                device.write_vectored_at(offset, &[IoSlice::new(&bytes)]),
            ),
        ];
        for (action, outcome) in outcomes {
            let is_told = matches!(&outcome, Err(DeviceError::OutOfRange { len: told, .. }) if *told == len);
            assert!(is_told, "{action} of {count} bytes at {offset}: {outcome:?}");
        }
    }
    // Together they are whole blocks, but each alone is not.
    let (a, b) = ([0xBB; 512], [0xBB; BLOCK - 512]);
    let outcome = device.write_vectored_at(0, &[IoSlice::new(&a), IoSlice::new(&b)]);
    assert!(
        matches!(outcome, Err(DeviceError::OutOfRange { .. })),
        "{outcome:?}"
    );
    assert_eq!(device.len(), len);
    assert_bytes(device, 0, &pattern(1, 3));
    assert_bytes(device, last, &pattern(2, 2));
}

pub(super) fn several_reads_have_outcomes_of_their_own(device: &dyn BlockDevice, _: Abilities) {
    const BLOCKS: usize = 150;
    let bytes = pattern(5, BLOCKS);
    write(device, 0, &bytes);
    let bad = bad_ranges(device);
    assert!(device.reads_at_once() > 0);
    for count in [0, 1, 2, 100] {
        // Neighbours, the same blocks again, bad ranges, and memory that begins anywhere.
        let places: Vec<(u64, usize)> = (0..count)
            .map(|number| match bad.get(number % 20) {
                Some(bad) if number > 2 => *bad,
                _ => (
                    (number * 7 % BLOCKS.min(90)) as u64 * BLOCK_BYTES,
                    (1 + number % 50) * BLOCK,
                ),
            })
            .collect();
        let mut memory: Vec<AlignedBuffer> = places
            .iter()
            .map(|(_, len)| {
                let mut buffer = AlignedBuffer::with_capacity(len + 8);
                buffer.grow_to(len + 8);
                buffer
            })
            .collect();
        let mut reads: Vec<BlockRead<'_>> = memory
            .iter_mut()
            .zip(&places)
            .enumerate()
            .map(|(number, (buffer, (offset, len)))| {
                let begin = if number % 9 == 5 { 8 } else { 0 };
                BlockRead::new(*offset, &mut buffer[begin..begin + len])
            })
            .collect();
        device.read_many(&mut reads);
        for (read, (offset, len)) in reads.iter().zip(&places) {
            if bad.contains(&(*offset, *len)) {
                let is_told = matches!(read.done, Err(DeviceError::OutOfRange { .. }));
                assert!(is_told, "{len} bytes at {offset}: {:?}", read.done);
            } else {
                let at = usize::try_from(*offset).expect("a small number");
                assert!(read.done.is_ok() && *read.out == bytes[at..at + len], "{read:?}");
            }
        }
    }
}

pub(super) fn a_request_may_be_empty(device: &dyn BlockDevice, _: Abilities) {
    for offset in [0, BLOCK_BYTES, device.len()] {
        write(device, offset, &[]);
        assert!(read(device, offset, 0).is_empty());
        device.discard(offset, 0).expect("a discard of nothing");
        device.write_vectored_at(offset, &[]).expect("no buffers");
        device.read_vectored_at(offset, &mut []).expect("no buffers");
    }
}

pub(super) fn a_request_may_be_large(device: &dyn BlockDevice, _: Abilities) {
    let blocks = (5 << 20) / BLOCK + 1;
    write(device, 0, &pattern(0, blocks + 2));
    write(device, BLOCK_BYTES, &pattern(1, blocks));
    assert_bytes(device, BLOCK_BYTES, &pattern(1, blocks));
    assert_bytes(device, 0, &pattern(0, 1));
    let end = (blocks + 1) * BLOCK;
    assert_bytes(device, end as u64, &pattern(0, blocks + 2)[end..]);
}

pub(super) fn memory_may_begin_anywhere(device: &dyn BlockDevice, _: Abilities) {
    // Longer than the buffers through which a device copies.
    let blocks = (2 << 20) / BLOCK + 3;
    let bytes = pattern(5, blocks);
    for shift in [1, 8, 512, 2049] {
        let mut memory = vec![0; shift + bytes.len()];
        memory[shift..].copy_from_slice(&bytes);
        write(device, BLOCK_BYTES, &memory[shift..]);
        memory.fill(0);
        device
            .read_at(BLOCK_BYTES, &mut memory[shift..])
            .expect("a read into such memory");
        assert!(
            memory[shift..] == bytes[..],
            "read into memory shifted by {shift}"
        );
        assert!(memory[..shift].iter().all(|byte| *byte == 0), "bytes before it");
        write(device, BLOCK_BYTES, &pattern(6, blocks));
    }
}

pub(super) fn several_buffers_are_one_range(device: &dyn BlockDevice, _: Abilities) {
    write(device, 0, &pattern(1, 8));
    let bytes = pattern(2, 6);
    // The second one begins at an odd address.
    let mut shifted = vec![0; 1 + 2 * BLOCK];
    shifted[1..].copy_from_slice(&bytes[BLOCK..3 * BLOCK]);
    let parts = [&bytes[..BLOCK], &shifted[1..], &[], &bytes[3 * BLOCK..]];
    let parts = parts.map(IoSlice::new);
    device
        .write_vectored_at(BLOCK_BYTES, &parts)
        .expect("buffers of whole blocks");
    let mut expected = pattern(1, 8);
    expected[BLOCK..7 * BLOCK].copy_from_slice(&bytes);
    assert_bytes(device, 0, &expected);

    let (mut a, mut b, mut c) = (vec![0; 3 * BLOCK], vec![0; 1 + BLOCK], vec![0; 4 * BLOCK]);
    let mut parts = [
        IoSliceMut::new(&mut a),
        IoSliceMut::new(&mut []),
        IoSliceMut::new(&mut b[1..]),
        IoSliceMut::new(&mut c),
    ];
    device
        .read_vectored_at(0, &mut parts)
        .expect("buffers of whole blocks");
    assert!(
        [&a[..], &b[1..], &c[..]].concat() == expected,
        "a read into buffers"
    );
}

pub(super) fn there_may_be_many_buffers(device: &dyn BlockDevice, _: Abilities) {
    let blocks = 1500;
    let bytes = pattern(7, blocks);
    let parts: Vec<_> = bytes.chunks(BLOCK).map(IoSlice::new).collect();
    device.write_vectored_at(0, &parts).expect("many buffers");
    assert_bytes(device, 0, &bytes);
    let mut out = vec![0; blocks * BLOCK];
    let mut parts: Vec<_> = out.chunks_mut(BLOCK).map(IoSliceMut::new).collect();
    device.read_vectored_at(0, &mut parts).expect("many buffers");
    assert!(
        parts.iter().all(|part| part.len() == BLOCK),
        "the caller's buffers"
    );
    assert!(out == bytes, "a read into many buffers");
}
