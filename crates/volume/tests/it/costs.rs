//! What operations cost: requests of the device and calls of the index.

use env::block::fault::{Counters, OpKind};
use volume::VolumeSettings;

use crate::model::{BLOCK, content};
use crate::world::{Op, Open, World};

/// The requests of the device during an operation.
fn costs(world: &mut World, open: &Open, op: Op) -> Counters {
    let before = world.machine.counters();
    world.run(open, op).unwrap();
    world.machine.counters().since(&before)
}

fn write(lba: u64, number: u64) -> Op {
    Op::Write {
        volume: 0,
        lba,
        count: 1,
        number,
    }
}

#[test]
fn requests_of_the_steady_state() {
    let mut world = World::new();
    let open = world.open().unwrap();
    let flush = Op::Flush { volume: 0 };
    // The first write finds space; the second one is like all others.
    world.run(&open, write(0, 1)).unwrap();
    let applies = world.index.applies();
    world.machine.start_trace();
    let redirected = costs(&mut world, &open, write(1, 2));
    assert_eq!(
        (redirected.writes, redirected.reads, redirected.flushes),
        (2, 0, 0)
    );
    assert_eq!(
        redirected.write_bytes,
        2 * BLOCK as u64,
        "the block and a block of log"
    );
    world.run_all(&open, &[flush, flush]).unwrap();
    let in_place = costs(&mut world, &open, write(1, 3));
    assert_eq!((in_place.all(), in_place.writes), (1, 1));
    let again = costs(&mut world, &open, flush);
    assert_eq!((again.all(), again.flushes), (1, 1), "no log");
    let before = world.machine.counters();
    let mut read = vec![0; BLOCK];
    open.volumes[0].read(BLOCK as u64, &mut read).unwrap();
    let cost = world.machine.counters().since(&before);
    assert_eq!((cost.all(), cost.reads), (1, 1));
    assert_eq!(read, content(3));
    assert_eq!(world.index.applies(), applies, "the index is not asked");
    let parts = Op::Parts {
        volume: 0,
        lba: 1,
        number: 4,
    };
    let parts = costs(&mut world, &open, parts);
    assert_eq!(
        (parts.reads, parts.writes, parts.all()),
        (2, 2, 4),
        "two parts of a block"
    );
}

#[test]
fn a_row_of_blocks_is_one_request() {
    let mut world = World::new();
    let open = world.open().unwrap();
    let row = |number| Op::Write {
        volume: 0,
        lba: 0,
        count: 256,
        number,
    };
    let flush = Op::Flush { volume: 0 };
    world.run(&open, write(600, 1)).unwrap();
    let first = costs(&mut world, &open, row(10));
    assert_eq!(first.writes, 2, "the data and the log");
    world.run_all(&open, &[flush, flush]).unwrap();
    assert_eq!(costs(&mut world, &open, row(1000)).all(), 1, "in place");
    let before = world.machine.counters();
    let mut read = vec![0; 256 * BLOCK];
    open.volumes[0].read(0, &mut read).unwrap();
    assert_eq!(world.machine.counters().since(&before).all(), 1);
}

#[test]
fn a_trim_of_an_empty_volume_costs_nothing_and_of_a_written_one_its_pages() {
    let world = World::new();
    let open = world.open().unwrap();
    let len = 4 << 40;
    let big = open
        .pool
        .create_volume("big", len, VolumeSettings::default())
        .unwrap();
    let before = world.machine.counters();
    big.trim(0, len, false).unwrap();
    big.write_zeroes(0, len, false).unwrap();
    assert_eq!(big.status(0, len, 10).unwrap().len(), 1);
    assert_eq!(world.machine.counters().since(&before).all(), 0);
    // Pages that are far from each other.
    for n in 0..5 {
        big.write(n * (len / 5), &content(7), false).unwrap();
    }
    let before = world.machine.counters();
    world.machine.start_trace();
    big.trim(0, len, false).unwrap();
    let cost = world.machine.counters().since(&before);
    assert_eq!(
        (cost.reads, cost.writes),
        (0, 1),
        "one block of log for five pages"
    );
    assert!(
        world
            .machine
            .take_trace()
            .iter()
            .all(|one| one.kind == OpKind::Write)
    );
    assert_eq!(big.stats().mapped_bytes, 0);
}
