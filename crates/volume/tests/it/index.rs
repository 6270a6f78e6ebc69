//! A duplicates index that loses answers, and one that forgets what it acknowledged.

use ddi::fault::Failure;
use env::block::fault::{Fault, PowerCut};
use volume::{VolumeError, VolumeSettings};

use crate::model::{BLOCK, Crash, Model, content};
use crate::world::{BLOCKS, Op, Open, World, flush, write};

/// Batches of every kind: six of them.
fn script() -> Vec<Op> {
    let (find, collect) = (|volume| Op::Find { volume }, |volume| Op::Collect { volume });
    vec![
        write(0, 0, 20, 10),
        find(0),
        write(1, 505, 20, 15),
        find(1),
        flush(0),
        write(0, 3, 6, 100),
        write(1, 508, 3, 200),
        flush(0),
        flush(1),
        flush(0),
        flush(1),
        collect(0),
        collect(1),
        find(1),
        find(0),
        flush(0),
    ]
}

#[test]
fn a_lost_answer_at_every_batch_changes_no_count() {
    let base = World::new();
    for failure in [Failure::Before, Failure::After] {
        for n in 1.. {
            let mut world = base.fork();
            let open = world.open().unwrap();
            let applies = world.index.applies();
            world.index.fail_apply(n, failure);
            world.run_all(&open, &script()).unwrap();
            if world.index.applies() - applies < n {
                assert!(n > 5, "{n} batches");
                break;
            }
            world.settle(&open, &format!("{failure:?} at batch {n}"));
        }
    }
}

#[test]
fn a_batch_without_an_answer_waits_and_is_sent_again() {
    let base = World::new();
    for crash in [None, Some(Crash::Kill), Some(Crash::PowerCut)] {
        for failure in [Failure::Before, Failure::After] {
            for n in 1..=6 {
                let mut world = base.fork();
                let mut open = world.open().unwrap();
                (n..n + 3).for_each(|call| world.index.fail_apply(call, failure));
                let mut has_failed = false;
                for op in script() {
                    match world.run(&open, op) {
                        Ok(()) => {}
                        Err(VolumeError::Index(_)) if !has_failed => {
                            has_failed = true;
                            // The blocks are written meanwhile.
                            world
                                .run_all(&open, &[write(0, 1, 2, 300), write(1, 509, 9, 310)])
                                .unwrap();
                            let Some(crash) = crash else {
                                continue;
                            };
                            let machine = match crash {
                                Crash::Kill => world.machine.process(),
                                Crash::PowerCut => world.machine.power_cut(PowerCut::Seeded(n)),
                            };
                            drop(open);
                            world = world.after(machine);
                            open = world.open().unwrap();
                            world.compare(&open, crash, "without an answer");
                            world.write_torn(&open);
                        }
                        Err(error) => panic!("{op:?}: {error}"),
                    }
                }
                assert!(has_failed, "batch {n}");
                world.settle(&open, &format!("{crash:?}, {failure:?} at batch {n}"));
            }
        }
    }
}

fn needs_recount(open: &Open) {
    for volume in &open.volumes {
        let error = volume.find(0, true, &mut |_| true).unwrap_err();
        assert!(matches!(error, VolumeError::NeedsRecount { .. }), "{error}");
        let error = volume.collect(&mut |_| true).unwrap_err();
        assert!(matches!(error, VolumeError::NeedsRecount { .. }), "{error}");
    }
}

/// The index is not the one that the pool used: nothing is shared or freed until a recount.
fn heals(mut world: World, what: &str) {
    let open = world.open().unwrap();
    world.compare(&open, Crash::Kill, what);
    // Writes go on.
    let ops = [
        write(0, 0, 9, 400),
        write(1, 505, 4, 404),
        Op::Cut {
            volume: 1,
            lba: 520,
            count: 3,
        },
        flush(0),
        flush(1),
    ];
    world.run_all(&open, &ops).unwrap();
    world.compare(&open, Crash::Kill, what);
    needs_recount(&open);
    drop(open);
    // Also behind a start.
    let open = world.open().unwrap();
    needs_recount(&open);
    assert!(!open.pool.stats().unwrap().index_matches, "{what}");
    open.pool.recount(&mut |_| {}).unwrap();
    world.compare(&open, Crash::Kill, what);
    world.settle(&open, what);
    drop(open);
    let open = world.open().unwrap();
    world.settle(&open, &format!("{what}, started again"));
}

#[test]
fn an_index_that_forgot_batches_stops_sharing_until_a_recount() {
    for kept in 0..6 {
        let mut world = World::new();
        let open = world.open().unwrap();
        let mut is_marked = false;
        for op in script() {
            if !is_marked && world.index.applies() == kept {
                world.index.mark();
            } else {
                is_marked = true;
            }
            world.run(&open, op).unwrap();
        }
        drop(open);
        world.index.lose_since_mark();
        heals(world, &format!("the index has {kept} batches"));
    }
}

#[test]
fn an_old_copy_of_the_pool_stops_sharing_until_a_recount() {
    let script = script();
    for len in [2, 4, 9, 12] {
        let mut world = World::new();
        let open = world.open().unwrap();
        world.run_all(&open, &script[..len]).unwrap();
        world.run_all(&open, &[flush(0), flush(1)]).unwrap();
        let copy = world.after(world.machine.power_cut(PowerCut::KeepAll));
        world.run_all(&open, &script[len..]).unwrap();
        drop(open);
        heals(copy, &format!("the pool is as it was before operation {len}"));
    }
}

#[test]
fn equal_fingerprints_of_one_batch_are_compared_too() {
    let settings = VolumeSettings {
        compare_bytes: true,
        ..VolumeSettings::default()
    };
    let mut world = World::with(settings);
    let open = world.open().unwrap();
    let fill = Op::Fill {
        volume: 0,
        lba: 0,
        count: 40,
        number: 7,
    };
    world.run_all(&open, &[fill, Op::Find { volume: 0 }]).unwrap();
    assert_eq!(open.volumes[0].counts().different, 0);
    world.settle(&open, "one content");
    assert_eq!(Model::contents(&world.models).len(), 1);
    assert_eq!(world.blocks, BLOCKS);
}

/// Only a volume that the copy does not have has used the index since.
#[test]
fn an_old_copy_without_a_newer_volume_stops_sharing_until_a_recount() {
    let mut world = World::new();
    let open = world.open().unwrap();
    let ops = [write(0, 0, 20, 10), Op::Find { volume: 0 }, flush(0), flush(0)];
    world.run_all(&open, &ops).unwrap();
    open.pool.close().unwrap();
    let copy = world.after(world.machine.power_cut(PowerCut::KeepAll));
    let made = open.pool.create_volume("c", 1 << 20, VolumeSettings::default());
    let made = made.unwrap();
    made.write(0, &content(10), true).unwrap();
    made.write(BLOCK as u64, &content(900), true).unwrap();
    made.find(0, true, &mut |_| true).unwrap();
    drop((made, open));
    // A removed volume is no stranger.
    let open = world.open().unwrap();
    assert!(open.pool.stats().unwrap().index_matches);
    open.pool.remove_volume("c").unwrap();
    open.pool
        .removed()
        .iter()
        .for_each(|one| one.dissolve(&mut |_| true).unwrap());
    drop(open);
    assert!(world.open().unwrap().pool.stats().unwrap().index_matches);
    heals(copy, "the copy has no volume c");
}

/// Volume 1 refers to a block of volume 0's batch.
fn share(world: &mut World, open: &Open) {
    let ops = [
        write(1, 30, 8, 10),
        flush(1),
        flush(1),
        Op::Find { volume: 1 },
        flush(1),
        flush(1),
    ];
    world.run_all(open, &ops).unwrap();
}

/// Writes over volume 0's blocks, frees what is free, and writes over all free blocks.
fn use_all(world: &mut World, open: &Open, what: &str) {
    let ops = [
        write(0, 0, 8, 300),
        flush(0),
        flush(0),
        Op::Cut {
            volume: 0,
            lba: 8,
            count: 4,
        },
        flush(0),
        flush(0),
        write(0, 600, 300, 2000),
        flush(0),
    ];
    world.run_all(open, &ops).unwrap();
    world.compare(open, Crash::Kill, what);
}

#[test]
fn a_block_of_a_batch_that_a_lost_index_had_is_not_written_in_place() {
    for orphan in [false, true] {
        let what = format!("with an orphan: {orphan}");
        let mut world = World::new();
        let open = world.open().unwrap();
        world
            .run_all(&open, &[write(0, 0, 12, 10), flush(0), flush(0)])
            .unwrap();
        open.pool.close().unwrap();
        world.index.mark();
        // The intents are durable, and the answers are in memory.
        world.run(&open, Op::Find { volume: 0 }).unwrap();
        share(&mut world, &open);
        if orphan {
            world.run_all(&open, &[write(0, 2, 1, 77)]).unwrap();
        }
        drop(open);
        let mut world = world.after(world.machine.power_cut(PowerCut::DropAll));
        world.index.lose_since_mark();
        let open = world.open().unwrap();
        world.compare(&open, Crash::PowerCut, &what);
        world.write_torn(&open);
        assert!(!open.pool.stats().unwrap().index_matches, "{what}");
        use_all(&mut world, &open, &what);
        drop(open);
        heals(world, &what);
    }
}

#[test]
fn a_recount_keeps_blocks_of_an_open_batch_that_others_share() {
    for orphan in [false, true] {
        let what = format!("with an orphan: {orphan}");
        let mut world = World::new();
        let open = world.open().unwrap();
        world
            .run_all(&open, &[write(0, 0, 12, 10), flush(0), flush(0)])
            .unwrap();
        (1..=3).for_each(|call| world.index.fail_apply(call, Failure::After));
        let found = world.run(&open, Op::Find { volume: 0 });
        assert!(matches!(found, Err(VolumeError::Index(_))), "{found:?}");
        share(&mut world, &open);
        if orphan {
            world
                .run_all(&open, &[write(0, 2, 1, 77), flush(0), flush(0)])
                .unwrap();
        }
        open.pool.recount(&mut |_| {}).unwrap();
        use_all(&mut world, &open, &what);
        world.settle(&open, &what);
    }
}

/// The log has answers of the batch's first page alone, and the index has lost the batch. So the
/// index did have it: another volume must not give back what these answers share.
#[test]
fn a_lost_batch_is_noticed_by_answers_in_the_log() {
    /// Pages whose answers fill several blocks of log.
    const WIDE: u64 = 3072;
    let base = World::sized(VolumeSettings::default(), 24, WIDE);
    let mut noticed = 0;
    for n in 1.. {
        let mut world = base.fork();
        let open = world.open().unwrap();
        // The other volume has the contents first.
        let ops = [write(1, 0, WIDE, 10), flush(1), flush(1), Op::Find { volume: 1 }];
        world.run_all(&open, &ops).unwrap();
        // In another order, so that an answer takes some bytes.
        for lba in 0..WIDE {
            let number = 10 + lba * 397 % WIDE;
            world.run(&open, write(0, lba, 1, number)).unwrap();
        }
        world.run_all(&open, &[flush(0), flush(0)]).unwrap();
        open.pool.close().unwrap();
        drop(open);
        let open = world.open().unwrap();
        world.index.mark();
        world.machine.inject(Fault::stop(n).within(4096));
        let found = world.run_all(&open, &[Op::Find { volume: 0 }, flush(0)]);
        drop(open);
        if found.is_ok() {
            break;
        }
        let what = format!("operation {n}");
        let mut world = world.after(world.machine.process());
        world.index.lose_since_mark();
        let open = world.open().unwrap();
        world.compare(&open, Crash::Kill, &what);
        noticed += u32::from(!open.pool.stats().unwrap().index_matches);
        // Gives back what the other volume shared, and writes over what is free then.
        for number in [4000, 8000, 12_000, 16_000, 20_000, 24_000] {
            let ops = [write(1, 0, WIDE, number), flush(1), flush(1)];
            world.run_all(&open, &ops).unwrap();
            for op in [Op::Collect { volume: 1 }, flush(1), Op::Find { volume: 1 }] {
                match world.run(&open, op) {
                    Ok(()) | Err(VolumeError::NeedsRecount { .. }) => {}
                    Err(error) => panic!("{what}: {error}"),
                }
            }
        }
        world.compare(&open, Crash::Kill, &what);
    }
    assert!(noticed > 0, "no crash fell between two answers");
}
