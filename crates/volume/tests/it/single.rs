//! One volume operation after another, without crashes.

use crate::model::{BLOCK, Crash, Model};
use crate::world::{BLOCKS, Op, World};

#[test]
fn what_was_written_is_read_and_equal_blocks_are_shared() {
    let mut world = World::new();
    let open = world.open().unwrap();
    let script = [
        Op::Write {
            volume: 0,
            lba: 3,
            count: 20,
            number: 100,
        },
        Op::Write {
            volume: 1,
            lba: 500,
            count: 30,
            number: 100,
        },
        Op::Fill {
            volume: 1,
            lba: 600,
            count: 40,
            number: 7,
        },
        Op::Fill {
            volume: 0,
            lba: 600,
            count: 4,
            number: 0,
        },
        Op::Flush { volume: 0 },
        Op::Find { volume: 0 },
        Op::Find { volume: 1 },
        Op::Parts {
            volume: 1,
            lba: 505,
            number: 9,
        },
        Op::Cut {
            volume: 1,
            lba: 510,
            count: 5,
        },
        Op::Flush { volume: 1 },
        Op::Collect { volume: 1 },
    ];
    world.run_all(&open, &script).unwrap();
    world.compare(&open, Crash::Kill, "live");
    world.settle(&open, "settled");
    // 30 successive numbers, 7 and 9: those that were overwritten and cut are in the other volume.
    assert_eq!(Model::contents(&world.models).len(), 32);
    let counts = open.volumes[1].counts();
    assert_eq!(counts.blocks_copied, 1, "{counts:?}");
}

#[test]
fn a_closed_pool_opens_with_everything() {
    let mut world = World::new();
    let open = world.open().unwrap();
    let script = [
        Op::Write {
            volume: 0,
            lba: 0,
            count: 512,
            number: 100,
        },
        Op::Write {
            volume: 0,
            lba: 512,
            count: 528,
            number: 300,
        },
        Op::Find { volume: 0 },
        Op::Cut {
            volume: 0,
            lba: 100,
            count: 900,
        },
    ];
    world.run_all(&open, &script).unwrap();
    open.pool.close().unwrap();
    drop(open);
    let open = world.open().unwrap();
    world.compare(&open, Crash::Kill, "opened again");
    world.settle(&open, "settled");
}

#[test]
fn a_settled_block_is_written_in_place_and_costs_no_log() {
    let mut world = World::new();
    let open = world.open().unwrap();
    let write = Op::Write {
        volume: 0,
        lba: 8,
        count: 1,
        number: 1,
    };
    for op in [write, Op::Flush { volume: 0 }, Op::Flush { volume: 0 }] {
        world.run(&open, op).unwrap();
    }
    let before = open.volumes[0].counts();
    world.machine.start_trace();
    world.run(&open, write).unwrap();
    assert_eq!(world.machine.take_trace().len(), 1, "one write of the device");
    let after = open.volumes[0].counts();
    assert_eq!(after.blocks_in_place - before.blocks_in_place, 1);
    assert_eq!(after.log_written, before.log_written);
}

#[test]
fn a_range_outside_of_the_volume_is_refused() {
    let world = World::new();
    let open = world.open().unwrap();
    let end = BLOCKS * BLOCK as u64;
    let mut out = [0; 1];
    open.volumes[0].read(end, &mut out).unwrap_err();
    open.volumes[0].write(end - 1, &[1, 2], false).unwrap_err();
    open.volumes[0].trim(end - 1, u64::MAX, false).unwrap_err();
    open.volumes[0].write(end, &[], false).unwrap();
}
