//! One volume operation after another, without crashes.

use crate::model::{BLOCK, Crash, Model, content};
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

/// Every write of the script succeeds in a full pool, because it frees another block.
#[test]
fn a_full_pool_takes_overwrites_and_refuses_the_first_write_of_a_block() {
    let mut world = World::new();
    let open = world.open().unwrap();
    let big = open
        .pool
        .create_volume("big", 64 << 20, volume::VolumeSettings::default())
        .unwrap();
    let mut at = 0;
    let full = loop {
        let block = crate::model::content(1_000_000 + at);
        match big.write(at * BLOCK as u64, &block, false) {
            Ok(()) => at += 1,
            Err(error) => break error,
        }
    };
    assert!(matches!(full, volume::VolumeError::NoSpace), "{full}");
    assert!(at > 12_000, "{at} blocks of 48 MiB are written");
    // A part of a block that nobody wrote is a first write, too: the last blocks are for others.
    for lba in at..at + 1000 {
        match big.write(lba * BLOCK as u64 + 512, &[7; 512], false) {
            Ok(()) => {}
            Err(error) => assert!(matches!(error, volume::VolumeError::NoSpace), "{error}"),
        }
    }
    big.checkpoint().unwrap();
    let free = big.stats().free_bytes / BLOCK as u64;
    assert!(free > 256, "{free} blocks are left for overwrites");
    // Registered, and nobody else refers to them: each overwrite needs another block for a while.
    big.find(0, true, &mut |_| true).unwrap();
    for lba in 0..2000 {
        big.write(lba * BLOCK as u64, &crate::model::content(7_000_000 + lba), false)
            .unwrap_or_else(|error| panic!("block {lba}: {error}"));
    }
    world.run(&open, Op::Flush { volume: 0 }).unwrap();
    // Space comes back by a trim.
    big.trim(0, 16 << 20, true).unwrap();
    big.flush().unwrap();
    big.collect(&mut |_| true).unwrap();
    big.write(at * BLOCK as u64, &crate::model::content(5), true)
        .unwrap();
    world.check(&open, "full");
    let mut read = vec![0; BLOCK];
    big.read(5000 * BLOCK as u64, &mut read).unwrap();
    assert_eq!(read, crate::model::content(1_005_000));
}

/// Else a load that drops references faster than the collector may give them back would keep the
/// finder waiting until it ends.
#[test]
fn the_collector_leaves_what_is_dropped_during_its_pauses_for_the_next_call() {
    let world = World::new();
    let open = world.open().unwrap();
    let volume = &open.volumes[0];
    let fill = |lbas: std::ops::Range<u64>, number: u64| {
        for lba in lbas {
            let block = crate::model::content(number + lba);
            volume.write(lba * BLOCK as u64, &block, false).unwrap();
        }
        volume.flush().unwrap();
        volume.flush().unwrap();
    };
    fill(0..100, 1_000_000);
    assert_eq!(volume.find(0, true, &mut |_| true).unwrap().examined, 100);
    fill(0..50, 2_000_000);
    let mut pauses = 0;
    let mut write_more = |_| {
        pauses += 1;
        if pauses == 1 {
            fill(50..100, 2_000_000);
        }
        true
    };
    assert_eq!(volume.collect(&mut write_more).unwrap(), 50);
    assert_eq!(pauses, 1);
    assert_eq!(volume.collect(&mut |_| true).unwrap(), 50);
    assert_eq!(volume.collect(&mut |_| true).unwrap(), 0);
}

#[test]
fn a_read_tells_its_holes() {
    let world = World::new();
    let open = world.open().unwrap();
    let volume = &open.volumes[0];
    // Data on both sides of a page's end, and one block alone.
    for lba in [3, 510, 511, 512] {
        volume.write(lba * BLOCK as u64, &content(7), false).unwrap();
    }
    volume.write(600 * BLOCK as u64, &content(7), false).unwrap();
    volume.trim(600 * BLOCK as u64, BLOCK as u64, false).unwrap();
    let has_block = |at: usize| matches!(at / BLOCK, 3 | 510..=512);
    let len = usize::try_from(BLOCKS).unwrap() * BLOCK;
    for (at, len) in [
        (0, len),
        (2 * BLOCK + 100, 2 * BLOCK),
        (3 * BLOCK + 100, 512),
        (4 * BLOCK - 1, 2),
        (100, 512),
        (509 * BLOCK + 1, 5 * BLOCK),
        (513 * BLOCK - 7, 200 * BLOCK),
    ] {
        let mut read = vec![1; len];
        let mut is_hole = vec![false; len];
        let mut tell = |hole: std::ops::Range<usize>| is_hole[hole].fill(true);
        volume.read_with_holes(at as u64, &mut read, &mut tell).unwrap();
        for place in 0..len {
            assert_eq!(is_hole[place], !has_block(at + place), "{at}, {place}");
            assert!(!is_hole[place] || read[place] == 0);
        }
    }
}
