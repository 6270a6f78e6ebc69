//! A pool that is full: what still works, how space comes back, and gifts between volumes.

use env::block::fault::PowerCut;
use volume::{VolumeError, VolumeSettings};

use crate::model::{BLOCK, Crash, content};
use crate::world::{Op, Open, World};

/// Blocks of a volume: more than the pool has.
const WIDE: u64 = 4 * 1024;
const SMALL_EXTENTS: u64 = 10;

fn small() -> World {
    World::sized(VolumeSettings::default(), SMALL_EXTENTS, WIDE)
}

/// Writes successive blocks until the pool is full. Returns how many were written.
fn fill(world: &mut World, open: &Open, volume: usize) -> u64 {
    loop {
        let before = world.models[volume].len();
        fill_once(world, open, volume);
        world
            .run_all(open, &[Op::Flush { volume }, Op::Flush { volume }])
            .unwrap();
        if world.models[volume].len() == before {
            return before;
        }
    }
}

fn fill_once(world: &mut World, open: &Open, volume: usize) {
    for count in [64, 1] {
        let mut lba = world.models[volume].len();
        while lba + count <= world.blocks {
            let number = 1000 * (1 + volume as u64) * 1000 + lba;
            match world.run(
                open,
                Op::Write {
                    volume,
                    lba,
                    count,
                    number,
                },
            ) {
                Ok(()) => lba += count,
                Err(VolumeError::NoSpace) => {
                    world.models[volume].failed();
                    break;
                }
                Err(error) => panic!("{error}"),
            }
        }
    }
}

#[test]
fn a_full_pool_is_written_in_place_and_gives_space_back() {
    let mut world = small();
    let open = world.open().unwrap();
    let flush = Op::Flush { volume: 0 };
    let filled = fill(&mut world, &open, 0);
    assert!(filled > 2 * 1024, "{filled}");
    world.run_all(&open, &[flush, flush]).unwrap();
    // In place: whole blocks, parts of blocks, and flushes without end.
    for n in 0..600 {
        let lba = n * 7 % filled;
        let write = Op::Write {
            volume: 0,
            lba,
            count: 1,
            number: 7000 + n,
        };
        let parts = Op::Parts {
            volume: 0,
            lba: lba / 2,
            number: 90_000 + n,
        };
        world.run_all(&open, &[write, parts, flush]).unwrap();
    }
    // Others fail, and nothing is lost.
    let other = Op::Write {
        volume: 1,
        lba: 3,
        count: 512,
        number: 5,
    };
    for _ in 0..3 {
        let error = world.run(&open, other).unwrap_err();
        assert!(matches!(error, VolumeError::NoSpace), "{error}");
        world.models[1].failed();
    }
    world.compare(&open, Crash::Kill, "full");
    drop(open);
    // A full pool opens after a power cut and after a kill.
    let mut world = world.after(world.machine.power_cut(PowerCut::DropAll));
    let open = world.open().unwrap();
    world.compare(&open, Crash::PowerCut, "full, after a power cut");
    world.check(&open, "full, after a power cut");
    // Space comes back by a trim.
    let cut = Op::Cut {
        volume: 0,
        lba: 0,
        count: 2048,
    };
    world.run_all(&open, &[cut, flush, flush, flush]).unwrap();
    world
        .run_all(&open, &[Op::Collect { volume: 0 }, flush, flush])
        .unwrap();
    world.run(&open, other).unwrap();
    world.run_all(&open, &[Op::Flush { volume: 1 }]).unwrap();
    world.settle(&open, "after a trim");
}

#[test]
fn a_full_pool_shares_to_get_space() {
    let mut world = small();
    let open = world.open().unwrap();
    let flush = Op::Flush { volume: 0 };
    let filled = fill(&mut world, &open, 0);
    world.run_all(&open, &[flush, flush]).unwrap();
    // Equal contents, written in place.
    for lba in (0..filled - 64).step_by(64) {
        let write = Op::Fill {
            volume: 0,
            lba,
            count: 64,
            number: 1 + lba % 5,
        };
        world.run(&open, write).unwrap();
    }
    for _ in 0..2 {
        world
            .run_all(&open, &[flush, Op::Find { volume: 0 }, flush, flush])
            .unwrap();
    }
    world.check(&open, "shared");
    let filled = fill(&mut world, &open, 1);
    assert!(filled > 2 * 1024, "{filled}");
    world.compare(&open, Crash::Kill, "shared");
    world.settle(&open, "shared");
}

/// Volume 0 has all blocks, of which every third is free; the pool has no extent.
fn scattered() -> World {
    let mut world = World::sized(VolumeSettings::default(), 14, 2 * WIDE);
    let open = world.open().unwrap();
    let flush = Op::Flush { volume: 0 };
    let filled = fill(&mut world, &open, 0);
    for lba in (0..filled).step_by(3) {
        let cut = Op::Cut {
            volume: 0,
            lba,
            count: 1,
        };
        world.run(&open, cut).unwrap();
    }
    world.run_all(&open, &[flush, flush, flush]).unwrap();
    open.pool.close().unwrap();
    drop(open);
    world
}

#[test]
fn a_volume_gets_blocks_of_another_in_a_full_pool() {
    let base = scattered();
    let write = |lba, number| Op::Write {
        volume: 1,
        lba,
        count: 300,
        number,
    };
    let script = |world: &mut World, open: &Open| {
        // Its own free blocks first.
        for n in 0..7 {
            world.run(open, write(n * 300, 50_000 + n * 300))?;
        }
        world.run(open, Op::Flush { volume: 1 })
    };
    {
        let mut world = base.fork();
        let open = world.open().unwrap();
        let ended = script(&mut world, &open);
        assert!(
            ended.is_ok(),
            "{ended:?} {:?} {:?}",
            open.volumes[0].stats(),
            open.volumes[1].stats()
        );
        world.check(&open, "given");
    }
    let cuts = [PowerCut::DropAll, PowerCut::Seeded(1)];
    let step = if std::env::var("ONEFOLD_SWEEP").is_ok() {
        1
    } else {
        151
    };
    base.each_crash(step, &cuts, &script, &|world, crash, what| {
        let open = world.open().unwrap_or_else(|error| panic!("{what}: {error}"));
        world.compare(&open, crash, what);
        world.check(&open, what);
    });
}

#[test]
fn a_gift_survives_a_crash_of_the_recovery() {
    let base = scattered();
    // The taker's record is lost by the first power cut; the second one meets the recovery.
    let script = |world: &mut World, open: &Open| -> volume::Result<()> {
        for n in 0..7 {
            let lba = n * 300;
            world.run(
                open,
                Op::Write {
                    volume: 1,
                    lba,
                    count: 300,
                    number: 50_000 + lba,
                },
            )?;
        }
        Ok(())
    };
    let mut seen = 0;
    for n in 10..16 {
        let mut world = base.fork();
        let open = world.open().unwrap();
        world.machine.inject(env::block::fault::Fault::stop(n));
        if script(&mut world, &open).is_ok() {
            break;
        }
        drop(open);
        let cut = world.after(world.machine.power_cut(PowerCut::DropAll));
        for second in (1..).step_by(3) {
            let world = cut.fork();
            world.machine.inject(env::block::fault::Fault::stop(second));
            if world.open().is_ok() {
                break;
            }
            let mut after = world.after(world.machine.power_cut(PowerCut::KeepAll));
            let what = format!("operation {n}, then {second}");
            let open = after.open().unwrap_or_else(|error| panic!("{what}: {error}"));
            after.compare(&open, Crash::PowerCut, &what);
            after.check(&open, &what);
            seen += 1;
        }
    }
    assert!(seen > 10);
}

#[test]
fn a_pool_with_one_whole_extent_left_is_used_to_its_end() {
    // The log takes a whole extent as its spare one: what is free must be counted behind that.
    let mut world = small();
    let open = world.open().unwrap();
    fill(&mut world, &open, 0);
    let flush = Op::Flush { volume: 0 };
    world.run_all(&open, &[flush, flush]).unwrap();
    open.pool.close().unwrap();
    drop(open);
    let open = world.open().unwrap();
    for count in [512, 300, 200, 64, 8, 1] {
        let at = world.models[0].len();
        let result = open.volumes[0].write(
            at * BLOCK as u64,
            &content(3).repeat(usize::try_from(count).unwrap()),
            false,
        );
        match result {
            Ok(()) => {
                world.models[0].begin((at..at + count).map(|lba| (lba, 3)).collect());
                world.models[0].end();
            }
            Err(VolumeError::NoSpace) => {
                world.models[0].begin((at..at + count).map(|lba| (lba, 3)).collect());
                world.models[0].failed();
            }
            Err(error) => panic!("{error}"),
        }
    }
    world.compare(&open, Crash::Kill, "to its end");
    world.check(&open, "to its end");
}

/// What it shared is cut a part at a time, and given back in between: the records of that need
/// room, and so does the list of what is to be given back.
#[test]
fn a_removed_volume_gives_back_a_full_pool() {
    const SHARED: u64 = 250_000;
    let mut world = World::sized(VolumeSettings::default(), SMALL_EXTENTS, SHARED);
    let open = world.open().unwrap();
    let flush = Op::Flush { volume: 0 };
    for lba in (0..SHARED).step_by(1024) {
        // Neighbours differ.
        let write = Op::Write {
            volume: 0,
            lba,
            count: 1024.min(SHARED - lba),
            number: 1,
        };
        let find = Op::Find { volume: 0 };
        world.run_all(&open, &[write, flush, find, flush, flush]).unwrap();
    }
    fill(&mut world, &open, 1);
    let (volume, other) = (&open.volumes[0], &open.volumes[1]);
    let counted = volume.stats().counted_bytes / BLOCK as u64;
    assert!(counted > SHARED * 9 / 10, "{counted}");
    assert!(other.write(0, &content(77).repeat(64), false).is_ok(), "in place");
    let removed = open.pool.remove_volume("a").unwrap();
    let mut most = 0;
    let mut tries = 0;
    while !open.pool.removed().is_empty() {
        tries += 1;
        assert!(tries < 4, "{:?}", removed.stats());
        let dissolved = removed.dissolve(&mut |_| {
            most = most.max(removed.stats().unreferenced);
            true
        });
        dissolved.unwrap();
    }
    assert!(most < SHARED / 2, "{most} wait at the same time");
    // Its blocks are the other's now.
    let before = world.models[1].len();
    let filled = fill(&mut world, &open, 1);
    assert!(filled > before + 64, "{before}, then {filled}");
}

/// The open batch of an index that gives no answer takes no block that is kept for trims.
#[test]
fn a_full_pool_trims_while_the_index_gives_no_answer() {
    const LEAF: u64 = 512;
    let mut world = World::sized(VolumeSettings::default(), SMALL_EXTENTS, 250_000);
    let open = world.open().unwrap();
    let flush = Op::Flush { volume: 0 };
    // Many pages, each of which a batch changes.
    for page in 0..300 {
        let write = Op::Write {
            volume: 0,
            lba: page * LEAF,
            count: 1,
            number: 50_000 + page,
        };
        world.run(&open, write).unwrap();
    }
    fill(&mut world, &open, 0);
    world.run_all(&open, &[flush, flush]).unwrap();
    (1..=60).for_each(|call| world.index.fail_apply(call, ddi::fault::Failure::Before));
    let found = world.run(&open, Op::Find { volume: 0 });
    assert!(matches!(found, Err(VolumeError::Index(_))), "{found:?}");
    for page in 0..300 {
        let cut = Op::Cut {
            volume: 0,
            lba: page * LEAF,
            count: 1,
        };
        let ended = world.run(&open, cut);
        assert!(
            ended.is_ok(),
            "page {page}: {ended:?} {:?}",
            open.volumes[0].stats()
        );
    }
    world.compare(&open, Crash::Kill, "away");
    world.index.clear_failures();
    world.settle(&open, "back");
}
