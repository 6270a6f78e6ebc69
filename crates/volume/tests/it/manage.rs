//! Crashes at every operation of what an administrator does: volumes made, removed and resized,
//! settings, a pool that grows, a recount, the first start.

use std::sync::Arc;

use ddi::DuplicatesIndex;
use ddi::fault::FaultyIndex;
use env::SeededEntropy;
use env::block::fault::{FailWith, Fault, FaultMachine, PowerCut};
use volume::{Pool, VolumeError, VolumeSettings};

use crate::model::{BLOCK, Crash, Model, content};
use crate::world::{BLOCKS, EXTENTS, NAMES, Op, Open, POOL, World, options};

const CUTS: &[PowerCut] = &[PowerCut::DropAll, PowerCut::TearAll, PowerCut::Seeded(1)];

/// Shared and private blocks in both volumes, and references to give back.
fn mixed() -> World {
    let mut world = World::new();
    let write = |volume, lba, count, number| Op::Write {
        volume,
        lba,
        count,
        number,
    };
    let flush = |volume| Op::Flush { volume };
    world.prepare(&[
        write(0, 0, 20, 10),
        write(1, 505, 20, 15),
        flush(0),
        flush(1),
        Op::Find { volume: 0 },
        Op::Find { volume: 1 },
        write(1, 508, 4, 100),
        write(0, 300, 5, 200),
        flush(0),
        flush(1),
        flush(1),
    ]);
    world
}

#[test]
fn a_volume_is_made_whole_or_not_at_all() {
    let script = |world: &mut World, open: &Open| {
        let made = open
            .pool
            .create_volume("c", 40 * BLOCK as u64, VolumeSettings::default())?;
        made.write(0, &content(10), false)?;
        let _ = world;
        made.flush()
    };
    let count = mixed().each_crash(1, CUTS, &script, &|world, crash, what| {
        let open = world.open().unwrap_or_else(|error| panic!("{what}: {error}"));
        let made = match open.pool.volume("c") {
            Ok(made) => made,
            Err(VolumeError::NoVolume { .. }) => open
                .pool
                .create_volume("c", 40 * BLOCK as u64, VolumeSettings::default())
                .unwrap_or_else(|error| panic!("{what}: {error}")),
            Err(error) => panic!("{what}: {error}"),
        };
        let mut read = vec![1; 40 * BLOCK];
        made.read(0, &mut read).unwrap();
        assert!(read[BLOCK..].iter().all(|byte| *byte == 0), "{what}");
        made.write(0, &content(10), true).unwrap();
        world.compare(&open, crash, what);
        world.settle(&open, what);
    });
    assert!(count > 10, "{count}");
}

/// Frees the blocks of removed volumes, as the pool's threads do.
fn dissolve_all(open: &Open) {
    for volume in open.pool.removed() {
        volume.dissolve(&mut |_| true).unwrap();
    }
    assert!(open.pool.removed().is_empty());
}

#[test]
fn a_removed_volume_gives_everything_back() {
    let script = |_: &mut World, open: &Open| open.pool.remove_volume("b")?.dissolve(&mut |_| true);
    let verify = |world: &mut World, crash, what: &str| {
        let open = world.open().unwrap_or_else(|error| panic!("{what}: {error}"));
        world.compare(&open, crash, what);
        world.check(&open, what);
        if open.pool.volume("b").is_err() {
            dissolve_all(&open);
            world.models[1] = Model::new(BLOCKS);
            // A new volume takes the removed one's place, and is zeros.
            let made = open
                .pool
                .create_volume("b", BLOCKS * BLOCK as u64, VolumeSettings::default());
            let made = made.unwrap_or_else(|error| panic!("{what}: {error}"));
            let mut read = vec![1; usize::try_from(BLOCKS).unwrap() * BLOCK];
            made.read(0, &mut read).unwrap();
            assert!(read.iter().all(|byte| *byte == 0), "{what}");
            drop(open);
            let open = world.open().unwrap();
            world.settle(&open, what);
        } else {
            world.settle(&open, what);
        }
    };
    let base = mixed();
    assert!(base.each_crash(2, CUTS, &script, &verify) > 10);
    let mut world = base.fork();
    let open = world.open().unwrap();
    script(&mut world, &open).unwrap();
    drop(open);
    verify(&mut world, Crash::Kill, "removed");
}

/// The bytes that a new volume has in the place of the removed one.
fn kept_by_husk(open: &Open) -> u64 {
    let made = open
        .pool
        .create_volume("b", BLOCKS * BLOCK as u64, VolumeSettings::default());
    made.unwrap().stats().free_bytes
}

#[test]
fn an_interrupted_removal_gives_all_extents_back() {
    const WIDE: u64 = 4 * 1024;
    let mut world = World::sized(VolumeSettings::default(), EXTENTS, WIDE);
    world.prepare(&[
        Op::Write {
            volume: 1,
            lba: 0,
            count: WIDE,
            number: 10,
        },
        Op::Flush { volume: 1 },
    ]);
    let script = |_: &mut World, open: &Open| open.pool.remove_volume("b")?.dissolve(&mut |_| true);
    let least = {
        let mut world = world.fork();
        let open = world.open().unwrap();
        script(&mut world, &open).unwrap();
        kept_by_husk(&open)
    };
    assert!(least < 3 << 22, "{least}");
    let count = world.each_crash(1, CUTS, &script, &|world, _, what| {
        let open = world.open().unwrap_or_else(|error| panic!("{what}: {error}"));
        if open.pool.volume("b").is_ok() {
            return;
        }
        dissolve_all(&open);
        let kept = kept_by_husk(&open);
        assert!(
            kept <= least + (1 << 22),
            "{what}: {kept} bytes, {least} without a crash"
        );
        world.check(&open, what);
    });
    assert!(count > 10, "{count}");
}

#[test]
fn a_volume_that_is_lengthened_loses_nothing() {
    let base = mixed();
    let open = base.open().unwrap();
    let volume = &open.volumes[1];
    volume.resize(2000 * BLOCK as u64).unwrap();
    volume.write(1999 * BLOCK as u64, &content(10), true).unwrap();
    // Somebody else has made it longer meanwhile.
    assert!(!volume.lengthen(BLOCKS * BLOCK as u64).unwrap());
    assert_eq!(volume.len_bytes(), 2000 * BLOCK as u64);
    let mut read = vec![0; BLOCK];
    volume.read(1999 * BLOCK as u64, &mut read).unwrap();
    assert_eq!(read, content(10));
    assert!(volume.lengthen(2001 * BLOCK as u64).unwrap());
    assert_eq!(volume.len_bytes(), 2001 * BLOCK as u64);
}

#[test]
fn a_resized_volume_has_zeros_where_it_grew() {
    let script = |_: &mut World, open: &Open| {
        let volume = &open.volumes[1];
        volume.resize(2000 * BLOCK as u64)?;
        volume.write(1999 * BLOCK as u64, &content(10), true)?;
        volume.resize(510 * BLOCK as u64)?;
        volume.resize(BLOCKS * BLOCK as u64)
    };
    let verify = |world: &mut World, _: Crash, what: &str| {
        let open = world.open().unwrap_or_else(|error| panic!("{what}: {error}"));
        let volume = &open.volumes[1];
        let blocks = volume.len_bytes() / BLOCK as u64;
        assert!([510, BLOCKS, 2000].contains(&blocks), "{what}: {blocks}");
        volume.resize(BLOCKS * BLOCK as u64).unwrap();
        let mut read = vec![1; usize::try_from(BLOCKS).unwrap() * BLOCK];
        volume.read(0, &mut read).unwrap();
        for (lba, block) in read.chunks_exact(BLOCK).enumerate() {
            let before = match lba {
                508..512 => 100 + lba as u64 - 508,
                505..525 => 15 + lba as u64 - 505,
                _ => 0,
            };
            let is_cut = lba >= 510 && block.iter().all(|byte| *byte == 0);
            assert!(is_cut || block == content(before), "{what}: block {lba}");
            assert!(
                is_cut || lba < 510 || blocks != 510,
                "{what}: block {lba} is back"
            );
        }
        volume.resize(2000 * BLOCK as u64).unwrap();
        let mut read = vec![1; 960 * BLOCK];
        volume.read(BLOCKS * BLOCK as u64, &mut read).unwrap();
        assert!(read.iter().all(|byte| *byte == 0), "{what}: behind the old end");
        world.check(&open, what);
    };
    let base = mixed();
    assert!(base.each_crash(1, CUTS, &script, &verify) > 10);
    let mut world = base.fork();
    let open = world.open().unwrap();
    script(&mut world, &open).unwrap();
    drop(open);
    let open = world.open().unwrap();
    assert_eq!(open.volumes[1].len_bytes(), BLOCKS * BLOCK as u64);
    let mut read = vec![1; 20 * BLOCK];
    open.volumes[1].read(510 * BLOCK as u64, &mut read).unwrap();
    assert!(read.iter().all(|byte| *byte == 0));
}

#[test]
fn settings_are_the_old_or_the_new_ones() {
    let new = VolumeSettings {
        compare_bytes: true,
        interval_s: 7,
        ..VolumeSettings::default()
    };
    let script = move |_: &mut World, open: &Open| open.volumes[0].set(new);
    let verify = move |world: &mut World, crash, what: &str| {
        let open = world.open().unwrap_or_else(|error| panic!("{what}: {error}"));
        let found = open.volumes[0].settings();
        assert!(
            found == new || found == VolumeSettings::default(),
            "{what}: {found:?}"
        );
        world.compare(&open, crash, what);
        world.settle(&open, what);
    };
    let base = mixed();
    base.each_crash(1, CUTS, &script, &verify);
    let mut world = base.fork();
    let open = world.open().unwrap();
    script(&mut world, &open).unwrap();
    open.pool.close().unwrap();
    drop(open);
    assert_eq!(world.open().unwrap().volumes[0].settings(), new);
}

#[test]
fn a_pool_that_grows_is_short_or_long() {
    let long = (EXTENTS + 600) << 22;
    let script = |_: &mut World, open: &Open| {
        open.pool.grow((EXTENTS + 2) << 22)?;
        open.pool.grow((EXTENTS + 600) << 22)?;
        let write = vec![7; 4 << 20];
        (0..8).try_for_each(|_| open.volumes[0].write(0, &write, false))
    };
    let count = mixed().each_crash(4, CUTS, &script, &|world, _, what| {
        let open = world.open().unwrap_or_else(|error| panic!("{what}: {error}"));
        match open.pool.grow(long) {
            Ok(()) | Err(VolumeError::Invalid { .. }) => {}
            Err(error) => panic!("{what}: {error}"),
        }
        open.volumes[0].write(0, &vec![8; 4 << 20], true).unwrap();
        world.check(&open, what);
        drop(open);
        let open = world.open().unwrap();
        assert!(matches!(open.pool.grow(long), Err(VolumeError::Invalid { .. })));
    });
    assert!(count > 5, "{count}");
}

/// Runs this while the n-th operation of the device fails, for each n. Returns after the first n at
/// which it succeeds.
fn each_failure(base: &World, script: &dyn Fn(&mut World, &Open, FailWith, u64) -> bool) {
    for with in [FailWith::Io, FailWith::NoSpace] {
        for share in [Fault::fail as fn(u64, FailWith) -> Fault, |n, with| {
            Fault::fail(n, with).after()
        }] {
            for n in 1.. {
                let mut world = base.fork();
                let open = world.open().unwrap();
                world.machine.inject(share(n, with));
                if script(&mut world, &open, with, n) {
                    assert!(n > 4, "{n} operations");
                    break;
                }
            }
        }
    }
}

/// Writes successive blocks until the pool is full.
fn fill(volume: &volume::Volume, number: u64) {
    volume.resize(200 << 20).unwrap();
    for lba in (0..50 * 1024).step_by(64) {
        let bytes: Vec<u8> = (0..64).flat_map(|n| content(number + lba + n)).collect();
        match volume.write(lba * BLOCK as u64, &bytes, false) {
            Ok(()) => {}
            Err(VolumeError::NoSpace) => return,
            Err(error) => panic!("{error}"),
        }
    }
    panic!("the pool is larger than it was made");
}

#[test]
fn a_growth_that_failed_leaves_the_pool_as_it_was() {
    let long = (EXTENTS + 8) << 22;
    each_failure(&mixed(), &|world, open, with, n| {
        if open.pool.grow(long).is_ok() {
            return true;
        }
        world.machine.clear_faults();
        let what = format!("{with:?} at operation {n}");
        // Another volume of the same start may be stopped by the flush that failed.
        if open.volumes[0].flush().is_err() {
            return false;
        }
        fill(&open.volumes[0], 1_000_000);
        open.volumes[0].flush().unwrap();
        let free = open.pool.stats().unwrap().free_bytes;
        assert!(free < 3 << 22, "{what}: {free}");
        // What volume 0 has behind the pool's end would be free now, and volume 1 would get it.
        let after = world.after(world.machine.process());
        let open = after.open().unwrap_or_else(|error| panic!("{what}: {error}"));
        after.check(&open, &what);
        match open.pool.grow(long) {
            Ok(()) | Err(VolumeError::Invalid { .. }) => {}
            Err(error) => panic!("{what}: {error}"),
        }
        fill(&open.volumes[1], 2_000_000);
        after.check(&open, &what);
        let mut read = vec![0; BLOCK];
        for lba in (0..20_000).step_by(100) {
            open.volumes[0].read(lba * BLOCK as u64, &mut read).unwrap();
            let is_whole = read == content(1_000_000 + lba) || read.iter().all(|byte| *byte == 0);
            assert!(is_whole || lba < 600, "{what}: block {lba}");
        }
        false
    });
}

#[test]
fn a_growth_that_failed_can_be_repeated() {
    each_failure(&mixed(), &|world, open, with, n| {
        if open.pool.grow((EXTENTS + 600) << 22).is_ok() {
            return true;
        }
        world.machine.clear_faults();
        let what = format!("{with:?} at operation {n}");
        if open.volumes[0].flush().is_err() {
            return false;
        }
        // A shorter growth takes at least what the first one may have made durable.
        open.pool.grow((EXTENTS + 550) << 22).unwrap();
        let free = open.pool.stats().unwrap().free_bytes;
        assert!(free > 540 << 22, "{what}: {free}");
        open.pool.grow((EXTENTS + 1200) << 22).unwrap();
        open.volumes[0].write(0, &vec![7; 4 << 20], true).unwrap();
        world.check(open, &what);
        for machine in [
            world.machine.process(),
            world.machine.power_cut(PowerCut::TearAll),
        ] {
            let after = world.after(machine);
            let open = after.open().unwrap_or_else(|error| panic!("{what}: {error}"));
            after.check(&open, &what);
            assert!(open.pool.stats().unwrap().free_bytes > 1190 << 22, "{what}");
        }
        false
    });
}

#[test]
fn a_volume_that_could_not_be_made_leaves_nothing() {
    each_failure(&mixed(), &|world, open, with, n| {
        let make = |open: &Open, name: &str| {
            let settings = VolumeSettings::default();
            open.pool.create_volume(name, 40 * BLOCK as u64, settings)
        };
        if make(open, "c").is_ok() {
            return true;
        }
        world.machine.clear_faults();
        let what = format!("{with:?} at operation {n}");
        let is_made = !open.pool.failed().is_empty();
        if open.volumes[0].flush().is_ok() {
            // These write the same page of the table.
            make(open, "d").unwrap().write(0, &content(10), true).unwrap();
            match make(open, "c") {
                Ok(_) => assert!(!is_made, "{what}"),
                Err(VolumeError::VolumeExists { .. }) => assert!(is_made, "{what}"),
                Err(error) => panic!("{what}: {error}"),
            }
            if !is_made {
                world.check(open, &what);
            }
        }
        for cut in [PowerCut::KeepAll, PowerCut::DropAll, PowerCut::TearAll] {
            for (crash, machine) in [
                (Crash::Kill, world.machine.process()),
                (Crash::PowerCut, world.machine.power_cut(cut)),
            ] {
                let mut after = world.after(machine).fork();
                let open = after.open().unwrap_or_else(|error| panic!("{what}: {error}"));
                let names: Vec<String> = open.pool.volumes().iter().map(|one| one.name()).collect();
                let mut distinct = names.clone();
                distinct.dedup();
                assert_eq!(names, distinct, "{what}");
                after.compare(&open, crash, &what);
                after.check(&open, &what);
            }
        }
        false
    });
}

#[test]
fn a_pool_grows_beyond_its_table() {
    // A whole extent of the table is about 504 * 512 extents.
    let extents = 504 * 512 + 8;
    let world = World::new();
    let open = world.open().unwrap();
    open.pool.grow(extents << 22).unwrap();
    open.volumes[0].write(0, &content(9), true).unwrap();
    let free = open.pool.stats().unwrap().free_bytes;
    assert!(free > (504 * 512) << 22, "{free}");
    drop(open);
    let open = world.open().unwrap();
    let mut read = vec![0; BLOCK];
    open.volumes[0].read(0, &mut read).unwrap();
    assert_eq!(read, content(9));
    assert!(open.pool.stats().unwrap().free_bytes > (504 * 512) << 22);
}

#[test]
fn a_recount_that_is_interrupted_can_be_repeated() {
    let script = |_: &mut World, open: &Open| open.pool.recount(&mut |_| {}).map(|_| ());
    let verify = |world: &mut World, crash, what: &str| {
        let open = world.open().unwrap_or_else(|error| panic!("{what}: {error}"));
        world.compare(&open, crash, what);
        // Until it is repeated, nothing may be freed by what the index says.
        if open.pool.stats().unwrap().index_matches {
            world.check(&open, what);
        }
        open.pool.recount(&mut |_| {}).unwrap();
        world.settle(&open, what);
    };
    let base = mixed();
    assert!(base.each_crash(1, CUTS, &script, &verify) > 10);
}

#[test]
fn a_first_start_that_is_interrupted_can_be_repeated() {
    let start = |machine: &FaultMachine, index: &Arc<FaultyIndex>| {
        let disk = Arc::new(machine.open("disk").unwrap());
        match Pool::open(disk.clone(), Arc::clone(index) as _, &options()) {
            Err(VolumeError::NotAPool { .. }) => {
                Pool::create(&*disk, &SeededEntropy::new(7), POOL, "")?;
            }
            Err(error) => return Err(error),
            Ok(pool) => drop(pool),
        }
        let pool = Pool::open(disk, Arc::clone(index) as _, &options())?;
        assert!(pool.failed().is_empty(), "{:?}", pool.failed());
        for name in NAMES {
            match pool.create_volume(name, BLOCKS * BLOCK as u64, VolumeSettings::default()) {
                Ok(_) | Err(VolumeError::VolumeExists { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(pool)
    };
    let index = Arc::new(FaultyIndex::new(POOL, options().clock));
    for n in 1.. {
        let machine = FaultMachine::new();
        drop(machine.create("disk", EXTENTS << 22));
        machine.inject(Fault::stop(n));
        if start(&machine, &index).is_ok() {
            assert!(n > 20, "{n} operations");
            return;
        }
        let cuts = CUTS.iter().map(|cut| machine.power_cut(*cut));
        let all: Vec<_> = cuts.chain([machine.process()]).collect();
        for (outcome, machine) in all.into_iter().enumerate() {
            machine.clear_faults();
            let pool = start(&machine, &index)
                .unwrap_or_else(|error| panic!("operation {n}, outcome {outcome}: {error}"));
            let found = pool.check(true, &mut |_| {}).unwrap().findings;
            assert!(
                found.is_empty(),
                "operation {n}, outcome {outcome}: {:?}",
                &found[..1]
            );
            assert_eq!(pool.volumes().len(), 2);
        }
        assert_eq!(index.statistics().unwrap().rows(), 0);
    }
}

#[test]
fn the_threads_of_a_pool_dissolve_removed_volumes_and_share_blocks() {
    let mut world = mixed().fork();
    let open = world.open().unwrap();
    open.pool.remove_volume("b").unwrap();
    let background = open.pool.start().unwrap();
    let is_done = || {
        let stats = open.pool.stats().unwrap();
        open.pool.removed().is_empty() && stats.backlog_bytes == 0
    };
    while !is_done() {
        std::thread::yield_now();
    }
    background.stop();
    world.models[1] = Model::new(BLOCKS);
    drop(open);
    let open = world.open().unwrap();
    world.settle(&open, "dissolved");
}

#[test]
fn a_pool_refuses_the_index_of_another_pool() {
    let world = World::new();
    let other: Arc<FaultyIndex> = Arc::new(FaultyIndex::new([4; 16], options().clock));
    let disk = Arc::new(world.machine.open("disk").unwrap());
    let before = world.machine.counters().mutating();
    let refused = Pool::open(disk, other as _, &options());
    assert!(
        matches!(refused, Err(VolumeError::Index(ddi::DdiError::OtherPool { .. }))),
        "{refused:?}"
    );
    assert_eq!(world.machine.counters().mutating(), before, "nothing is written");
    assert!(world.open().is_ok());
}

/// A volume is removed by a request, whose thread frees its blocks for hours.
#[test]
fn a_removed_volume_holds_up_no_other() {
    let mut world = mixed().fork();
    let open = world.open().unwrap();
    let write = crate::world::write(0, 100, 8, 900);
    world.run_all(&open, &[write, Op::Flush { volume: 0 }]).unwrap();
    let removed = open.pool.remove_volume("b").unwrap();
    let (may_end, wait) = std::sync::mpsc::channel::<()>();
    std::thread::scope(|scope| {
        let (begun, has_begun) = std::sync::mpsc::channel();
        scope.spawn(move || {
            let mut is_first = true;
            let dissolved = removed.dissolve(&mut |_| {
                if std::mem::take(&mut is_first) {
                    begun.send(()).unwrap();
                    wait.recv().unwrap();
                }
                true
            });
            dissolved.unwrap();
        });
        has_begun.recv().unwrap();
        let background = open.pool.start().unwrap();
        while open.volumes[0].stats().backlog_bytes > 0 {
            std::thread::yield_now();
        }
        // Neither does the end wait for it.
        background.stop();
        may_end.send(()).unwrap();
    });
    assert!(open.pool.removed().is_empty());
}

/// No finder examines a volume that shares nothing, also after a start.
#[test]
fn without_sharing_there_is_no_backlog() {
    let mut world = World::with(VolumeSettings {
        deduplicate: false,
        ..VolumeSettings::default()
    });
    for is_first in [true, false] {
        let open = world.open().unwrap();
        if is_first {
            let ops = [crate::world::write(0, 0, 100, 1), Op::Flush { volume: 0 }];
            world.run_all(&open, &ops).unwrap();
        }
        assert_eq!(open.pool.stats().unwrap().backlog_bytes, 0);
    }
}

/// After a start the finder has not looked for private blocks yet, and they are a backlog all the
/// same.
#[test]
fn the_backlog_outlives_a_start() {
    let mut world = World::new();
    let open = world.open().unwrap();
    let ops = [crate::world::write(0, 0, 100, 1), Op::Flush { volume: 0 }];
    world.run_all(&open, &ops).unwrap();
    let backlog = |open: &crate::world::Open| open.pool.stats().unwrap().backlog_bytes;
    assert_eq!(backlog(&open), 100 * env::BLOCK_BYTES);
    drop(open);
    let open = world.open().unwrap();
    assert_eq!(backlog(&open), 100 * env::BLOCK_BYTES);
    let mut told = Vec::new();
    let tell = &mut |_, left| {
        told.push(left);
        true
    };
    open.pool.drain(&open.volumes, tell).unwrap();
    assert!(told[0] < 100 * env::BLOCK_BYTES, "{told:?}");
    assert_eq!((backlog(&open), told.last()), (0, Some(&0)));
    let again = crate::world::write(0, 50, 10, 200);
    world.run_all(&open, &[again]).unwrap();
    assert_eq!(backlog(&open), 10 * env::BLOCK_BYTES);
}
