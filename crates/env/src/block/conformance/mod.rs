//! The suite that every block device must pass.
//!
//! [`check`] runs all of [`CASES`] on one device, one after the other, and a random sequence of
//! operations beside plain bytes. The device must have at least [`LEN_MIN`] bytes. The cases
//! overwrite them. [`check_reopened`] checks that a device that is opened again has its bytes.
//!
//! If the device breaks a promise of [`BlockDevice`], these functions panic, like a test's
//! assertion: they are for tests only. They do not check durability, because nothing here can cut
//! the power.

mod blocks;
mod changes;
mod model;
#[cfg(test)]
mod tests;
mod threads;

use crate::{BLOCK_BYTES, BlockDevice};

pub use model::{Op, check_operations, random_operations};

/// Bytes that a device needs for the cases.
pub const LEN_MIN: u64 = 8 << 20;

/// What a device can do beyond [`BlockDevice`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Abilities {
    /// Blocks that nobody wrote are zeros, and nobody has written the device: a new file, not a
    /// disk.
    pub is_zeros: bool,
    /// It gets longer on request.
    pub grows: bool,
}

/// A case: its name, and the function that runs it.
pub type Case = (&'static str, fn(&dyn BlockDevice, Abilities));

/// All cases, in their order: the first one needs a device that nobody has written.
pub const CASES: &[Case] = &[
    ("zeros", blocks::blocks_that_nobody_wrote_are_zeros),
    ("blocks", blocks::a_block_has_what_was_written_last),
    ("ranges", blocks::only_whole_blocks_of_the_device_are_taken),
    ("empty", blocks::a_request_may_be_empty),
    ("large", blocks::a_request_may_be_large),
    ("memory", blocks::memory_may_begin_anywhere),
    ("many-reads", blocks::several_reads_have_outcomes_of_their_own),
    ("vectored", blocks::several_buffers_are_one_range),
    ("many-buffers", blocks::there_may_be_many_buffers),
    ("discard", changes::a_discard_touches_its_blocks_alone),
    ("grow", changes::a_device_grows_and_keeps_its_bytes),
    ("writers", threads::writers_of_different_blocks_do_not_meet),
    ("flushes", threads::flushes_and_writes_at_once),
    ("growers", threads::a_device_grows_for_several_threads),
];

/// Runs every case, and a random sequence of operations beside plain bytes.
///
/// # Panics
/// If the device differs from the contract of [`BlockDevice`].
pub fn check(device: &dyn BlockDevice, abilities: Abilities) {
    assert!(device.len() >= LEN_MIN, "the suite needs {LEN_MIN} bytes");
    for (_, case) in CASES {
        case(device, abilities);
    }
    check_operations(device, &random_operations(1, 500));
}

/// Opens a device, writes to it, drops it, and opens it again.
///
/// # Panics
/// If the device has other bytes or another length then.
pub fn check_reopened(open: impl Fn() -> Box<dyn BlockDevice>) {
    let first = open();
    let (len, last) = (first.len(), first.len() - BLOCK_BYTES);
    write(&*first, 0, &pattern(1, 3));
    write(&*first, last, &pattern(2, 1));
    first.flush().expect("a flush");
    write(&*first, 0, &pattern(3, 1));
    drop(first);
    let second = open();
    assert_eq!(second.len(), len, "the length of a reopened device");
    let mut expected = pattern(1, 3);
    expected[..BLOCK].copy_from_slice(&pattern(3, 1));
    assert_bytes(&*second, 0, &expected);
    assert_bytes(&*second, last, &pattern(2, 1));
}

const BLOCK: usize = super::device::BLOCK_LEN;

/// Bytes that differ between seeds, blocks and places.
fn pattern(seed: u32, blocks: usize) -> Vec<u8> {
    let words = (0..blocks * BLOCK / 4).zip(1_u32..);
    words
        .flat_map(|(_, word)| {
            (word ^ seed.wrapping_mul(0x9E37_79B1))
                .wrapping_mul(2_654_435_761)
                .to_le_bytes()
        })
        .collect()
}

#[track_caller]
fn write(device: &dyn BlockDevice, offset: u64, bytes: &[u8]) {
    device
        .write_at(offset, bytes)
        .expect("whole blocks of the device can be written");
}

#[track_caller]
fn read(device: &dyn BlockDevice, offset: u64, len: usize) -> Vec<u8> {
    let mut out = vec![0xA5; len];
    device
        .read_at(offset, &mut out)
        .expect("whole blocks of the device can be read");
    out
}

#[track_caller]
fn assert_bytes(device: &dyn BlockDevice, offset: u64, expected: &[u8]) {
    let found = read(device, offset, expected.len());
    if let Some(at) = found.iter().zip(expected).position(|(a, b)| a != b) {
        panic!(
            "byte {} is {}, not {}",
            offset + at as u64,
            found[at],
            expected[at]
        );
    }
}
