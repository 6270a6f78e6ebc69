//! Several direct reads at once.

use super::*;
use crate::AlignedBuffer;

/// A direct device of so many blocks, if the file system and the system can do it.
fn direct(path: &Path) -> Option<FileDevice> {
    match FileDevice::open(path, FileCaching::Direct) {
        Err(DeviceError::NoDirect { .. }) => None,
        device => Some(device.unwrap()).filter(|device| device.queue.is_some()),
    }
}

fn memory(blocks: usize) -> AlignedBuffer {
    let mut memory = AlignedBuffer::with_capacity(blocks * BLOCK_LEN);
    memory.grow_to(blocks * BLOCK_LEN);
    memory
}

#[test]
fn several_direct_reads_are_one_call_of_the_system() {
    let folder = folder();
    let Some(device) = direct(&filled(&folder, 200)) else {
        println!("skipped: no direct requests, or no rings");
        return;
    };
    assert!(device.reads_at_once() > 1);
    // More than one call takes, and backwards.
    let mut memory = memory(100);
    let blocks = (0..100_u64).map(|number| 199 - 2 * number);
    let mut reads: Vec<_> = memory
        .chunks_mut(BLOCK_LEN)
        .zip(blocks.clone())
        .map(|(out, block)| BlockRead::new(block * BLOCK_BYTES, out))
        .collect();
    let mut queued: Vec<_> = reads.iter_mut().collect();
    let results = device.queue.as_ref().unwrap().read(&device.file, &mut queued);
    assert_eq!(results, vec![Some(4096); 100], "the system did all");
    for (read, block) in reads.iter().zip(blocks) {
        assert!(
            read.out.iter().all(|byte| u64::from(*byte) == block + 1),
            "{block}"
        );
    }
}

#[test]
fn a_read_that_the_system_did_not_do_whole_is_told_and_the_others_are_done() {
    let folder = folder();
    let path = filled(&folder, 3);
    let Some(device) = direct(&path) else {
        println!("skipped: no direct requests, or no rings");
        return;
    };
    let file = fs::OpenOptions::new().write(true).open(&path).unwrap();
    file.set_len(BLOCK_BYTES + 512).unwrap();
    let mut memory = memory(4);
    let (first, rest) = memory.split_at_mut(BLOCK_LEN);
    let (second, third) = rest.split_at_mut(BLOCK_LEN);
    let mut reads = [
        BlockRead::new(BLOCK_BYTES, second),
        BlockRead::new(0, first),
        BlockRead::new(0, third),
    ];
    device.read_many(&mut reads);
    let [cut, whole, long] = &reads;
    assert!(whole.done.is_ok() && *whole.out == [1; BLOCK_LEN], "{whole:?}");
    for read in [cut, long] {
        assert!(
            matches!(read.done, Err(DeviceError::TooShort { len: 4608, .. })),
            "{read:?}"
        );
    }
}

#[test]
fn an_error_of_the_system_is_the_reads_own() {
    let folder = folder();
    let Some(mut device) = direct(&filled(&folder, 2)) else {
        println!("skipped: no direct requests, or no rings");
        return;
    };
    // The system refuses reads of a file that was opened for writing.
    device.file = fs::OpenOptions::new().write(true).open(&device.path).unwrap();
    let mut memory = memory(2);
    let mut reads: Vec<_> = memory
        .chunks_mut(BLOCK_LEN)
        .map(|out| BlockRead::new(0, out))
        .collect();
    let mut queued: Vec<_> = reads.iter_mut().collect();
    let results = device.queue.as_ref().unwrap().read(&device.file, &mut queued);
    assert_eq!(results, vec![Some(-libc::EBADF); 2]);
    device.read_many(&mut reads);
    for read in reads {
        assert!(
            matches!(read.done, Err(DeviceError::Io { action: "read", .. })),
            "{read:?}"
        );
    }
}
