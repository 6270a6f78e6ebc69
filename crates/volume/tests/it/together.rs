//! Several reads at once, and the runs of one read.

use env::BlockDevice;
use types::ByteRange;
use volume::VolumeRead;

use crate::model::{BLOCK, content};
use crate::world::{Open, World, flush, write};

const ROW: u64 = 64;

/// A row of blocks that are in pieces on the device: written by fours, every second four first.
fn scattered(world: &mut World, open: &Open) {
    for first in (0..ROW).step_by(8).chain((4..ROW).step_by(8)) {
        world.run(open, write(0, first, 4, 1000 + first)).unwrap();
    }
    world.run_all(open, &[flush(0), flush(0)]).unwrap();
}

fn expected() -> Vec<u8> {
    (0..ROW).flat_map(|lba| content(1000 + lba)).collect()
}

/// Where the disk has this content.
fn place(world: &World, number: u64) -> u64 {
    let disk = world.machine.open("disk").unwrap();
    let (mut block, wanted) = (vec![0; BLOCK], content(number));
    (0..disk.len() / BLOCK as u64)
        .map(|at| at * BLOCK as u64)
        .find(|at| disk.read_at(*at, &mut block).is_ok() && block == wanted)
        .expect("it was written")
}

#[test]
fn each_run_of_a_read_is_one_request_and_an_unreadable_one_fails_it() {
    let mut world = World::new();
    let open = world.open().unwrap();
    scattered(&mut world, &open);
    let before = world.machine.counters();
    let mut read = vec![0; expected().len()];
    open.volumes[0].read(0, &mut read).unwrap();
    assert!(read == expected());
    let cost = world.machine.counters().since(&before);
    assert_eq!((cost.reads, cost.all()), (ROW / 4, ROW / 4));
    for lba in [0, 30, ROW - 1] {
        let (offset, len) = (place(&world, 1000 + lba), BLOCK as u64);
        world.machine.make_unreadable("disk", ByteRange { offset, len });
        open.volumes[0].read(0, &mut read).unwrap_err();
        let disk = world.machine.open("disk").unwrap();
        disk.write_at(offset, &content(1000 + lba)).unwrap();
        open.volumes[0].read(0, &mut read).unwrap();
    }
}

#[test]
fn each_of_several_reads_has_its_own_outcome_and_holes() {
    let mut world = World::new();
    let open = world.open().unwrap();
    scattered(&mut world, &open);
    let volume = &open.volumes[0];
    let (offset, len) = (place(&world, 1000 + 9), BLOCK as u64);
    world.machine.make_unreadable("disk", ByteRange { offset, len });
    let before = volume.stats();
    let row = expected();
    let ranges = [
        (0, 2 * BLOCK),
        (8 * len, 4 * BLOCK),
        (volume.len_bytes(), BLOCK),
        ((ROW - 1) * len, 3 * BLOCK),
        (12 * len + 5, 5000),
        (9 * len + 1, 1),
    ];
    let mut memory: Vec<Vec<u8>> = ranges.iter().map(|(_, len)| vec![0xEE; *len]).collect();
    let mut reads: Vec<_> = ranges
        .iter()
        .zip(&mut memory)
        .map(|((at, _), out)| VolumeRead::new(*at, out))
        .collect();
    let mut holes = Vec::new();
    volume.read_many(&mut reads, &mut |number, hole| holes.push((number, hole)));
    let done: Vec<bool> = reads.iter().map(|read| read.done.is_ok()).collect();
    assert_eq!(done, [true, false, false, true, true, false]);
    assert_eq!(holes, [(3, BLOCK..3 * BLOCK)]);
    assert!(memory[0] == row[..2 * BLOCK]);
    assert!(memory[3][..BLOCK] == row[row.len() - BLOCK..]);
    assert!(memory[3][BLOCK..].iter().all(|byte| *byte == 0));
    assert!(memory[4] == row[12 * BLOCK + 5..][..5000]);
    let (before, after) = (before.counts, volume.stats().counts);
    assert_eq!(after.reads.count - before.reads.count, 3);
    assert_eq!(after.read_bytes - before.read_bytes, 5 * BLOCK as u64 + 5000);
}
