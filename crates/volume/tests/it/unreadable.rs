//! Blocks that the device cannot read: each is set aside, and everything else goes on.

use std::collections::BTreeSet;

use ddi::DuplicatesIndex;
use env::BlockDevice;
use env::block::fault::{Counted, FailWith, Fault, OpKind, PowerCut};
use format::pool::frame::{BlockKind, open_in};
use types::ByteRange;
use volume::{Finding, Volume, VolumeError, VolumeSettings};

use crate::model::{BLOCK, Crash, content};
use crate::world::{EXTENTS, Op, Open, POOL, World, flush, write};

/// The blocks of the pool with this content.
fn blocks_with(world: &World, number: u64) -> Vec<u64> {
    let disk = world.machine.open("disk").unwrap();
    let wanted = content(number);
    let mut block = vec![0; BLOCK];
    let all = (0..EXTENTS * 1024).filter(|at| {
        // Other blocks may be unreadable.
        disk.read_at(at * BLOCK as u64, &mut block).is_ok() && block == wanted
    });
    all.collect()
}

fn make_unreadable(world: &World, blocks: &[u64]) {
    for block in blocks {
        let (offset, len) = (block * BLOCK as u64, BLOCK as u64);
        world.machine.make_unreadable("disk", ByteRange { offset, len });
    }
}

/// The disk has the block again.
fn repair(world: &World, blocks: &[u64], number: u64) {
    let disk = world.machine.open("disk").unwrap();
    for block in blocks {
        disk.write_at(block * BLOCK as u64, &content(number)).unwrap();
    }
}

/// What a check says of blocks that cannot be read.
fn found_by_check(open: &Open, read_data: bool) -> Vec<(u64, usize)> {
    let findings = open.pool.check(read_data, &mut |_| {}).unwrap().findings;
    let all = findings.iter().map(|finding| match finding {
        Finding::UnreadableBlock { block, volumes } => (block.get(), volumes.len()),
        other => panic!("{other}"),
    });
    all.collect()
}

fn unreadable(volume: &Volume) -> u64 {
    volume.stats().unreadable_bytes / BLOCK as u64
}

fn find(volume: &Volume) -> u64 {
    volume.find(0, true, &mut |_| true).unwrap().examined
}

#[test]
fn most_blocks_of_a_batch_are_the_devices_fault_and_nothing_is_set_aside() {
    let mut world = World::new();
    let open = world.open().unwrap();
    let ops = [write(0, 0, 100, 100), flush(0), flush(0)];
    world.run_all(&open, &ops).unwrap();
    let bad: Vec<u64> = (100..180)
        .flat_map(|number| blocks_with(&world, number))
        .collect();
    make_unreadable(&world, &bad);
    let volume = &open.volumes[0];
    let error = volume.find(0, true, &mut |_| true).unwrap_err();
    assert!(matches!(error, VolumeError::Device(_)), "{error}");
    assert_eq!(unreadable(volume), 0);
    for (block, number) in bad.iter().zip(100..) {
        repair(&world, &[*block], number);
    }
    assert_eq!((find(volume), unreadable(volume)), (100, 0));
    // The same of the collector.
    world
        .run_all(&open, &[write(0, 0, 100, 900), flush(0), flush(0)])
        .unwrap();
    make_unreadable(&world, &bad);
    let error = volume.collect(&mut |_| true).unwrap_err();
    assert!(matches!(error, VolumeError::Device(_)), "{error}");
    assert_eq!(unreadable(volume), 0);
    for (block, number) in bad.iter().zip(100..) {
        repair(&world, &[*block], number);
    }
    assert_eq!(volume.collect(&mut |_| true).unwrap(), 100);
    world.settle(&open, "repaired");
}

#[test]
fn the_finder_examines_all_blocks_but_the_unreadable_one() {
    let mut world = World::new();
    let open = world.open().unwrap();
    let ops = [write(0, 0, 20, 100), flush(0), flush(0)];
    world.run_all(&open, &ops).unwrap();
    let bad = blocks_with(&world, 113);
    assert_eq!(bad.len(), 1);
    make_unreadable(&world, &bad);
    let volume = &open.volumes[0];
    assert_eq!((find(volume), unreadable(volume)), (20, 1));
    assert_eq!(world.index.statistics().unwrap().rows(), 19);
    assert_eq!(open.pool.stats().unwrap().unreadable_bytes, BLOCK as u64);
    // Nobody reads it again but its users, who get the error.
    world.machine.start_trace();
    assert_eq!(find(volume), 0);
    assert!(
        world
            .machine
            .take_trace()
            .iter()
            .all(|one| one.kind != OpKind::Read)
    );
    let mut read = vec![0; BLOCK];
    let error = volume.read(13 * BLOCK as u64, &mut read).unwrap_err();
    assert!(matches!(error, VolumeError::Device(_)), "{error}");
    volume.read(14 * BLOCK as u64, &mut read).unwrap();
    assert_eq!(read, content(114));
    assert_eq!(found_by_check(&open, false), [(bad[0], 1)]);
    assert_eq!(found_by_check(&open, true), [(bad[0], 1)]);
    // The next start meets it again.
    open.pool.close().unwrap();
    drop(open);
    let open = world.open().unwrap();
    let volume = &open.volumes[0];
    assert_eq!(unreadable(volume), 0);
    assert_eq!(found_by_check(&open, true), [(bad[0], 1)]);
    assert_eq!((find(volume), unreadable(volume)), (1, 1));
    // A write mends it.
    world.run_all(&open, &[write(0, 13, 1, 500), flush(0)]).unwrap();
    assert_eq!((find(volume), unreadable(volume)), (1, 0));
    world.settle(&open, "mended");
}

#[test]
fn a_write_in_place_mends_an_unreadable_block_and_a_cut_forgets_it() {
    let mut world = World::new();
    let open = world.open().unwrap();
    let ops = [write(0, 0, 2, 100), flush(0), flush(0)];
    world.run_all(&open, &ops).unwrap();
    for number in [100, 101] {
        make_unreadable(&world, &blocks_with(&world, number));
    }
    let volume = &open.volumes[0];
    assert_eq!((find(volume), unreadable(volume)), (2, 2));
    let before = volume.counts().blocks_in_place;
    world.run(&open, write(0, 0, 1, 200)).unwrap();
    assert_eq!(volume.counts().blocks_in_place, before + 1);
    let cut = Op::Cut {
        volume: 0,
        lba: 1,
        count: 1,
    };
    world.run(&open, cut).unwrap();
    assert_eq!((find(volume), unreadable(volume)), (1, 0));
    world.settle(&open, "mended");
}

#[test]
fn a_device_that_reads_nothing_is_no_matter_of_a_block() {
    let mut world = World::new();
    let open = world.open().unwrap();
    world.run_all(&open, &[write(0, 0, 20, 100), flush(0)]).unwrap();
    let all = Fault::fail_from(1, FailWith::Io).counting(Counted::Only(OpKind::Read));
    world.machine.inject(all);
    let volume = &open.volumes[0];
    let error = volume.find(0, true, &mut |_| true).unwrap_err();
    assert!(matches!(error, VolumeError::Device(_)), "{error}");
    world.machine.clear_faults();
    assert_eq!((unreadable(volume), find(volume)), (0, 20));
    world.settle(&open, "reads again");
}

/// Contents 15 to 29 are shared. Returns the block of content 16.
fn shared(settings: VolumeSettings) -> (World, Vec<u64>) {
    let mut world = World::with(settings);
    world.prepare(&[
        write(0, 0, 20, 10),
        flush(0),
        Op::Find { volume: 0 },
        write(1, 505, 20, 15),
        flush(1),
        Op::Find { volume: 1 },
        flush(0),
        flush(1),
        flush(1),
    ]);
    // Volume 1 had another one, which is free.
    let mut blocks = blocks_with(&world, 16);
    blocks.truncate(1);
    (world, blocks)
}

#[test]
fn the_collector_keeps_references_to_an_unreadable_block() {
    for crash in [Crash::Kill, Crash::PowerCut] {
        for has_checkpoint in [false, true] {
            let (mut world, bad) = shared(VolumeSettings::default());
            let what = format!("{crash:?}, {has_checkpoint}");
            let open = world.open().unwrap();
            make_unreadable(&world, &bad);
            // One of these references cannot be given back.
            let ops = [
                write(1, 506, 5, 500),
                flush(1),
                flush(1),
                Op::Collect { volume: 1 },
            ];
            world.run_all(&open, &ops).unwrap();
            let volume = &open.volumes[1];
            let left = |volume: &Volume| volume.stats().unreferenced;
            assert_eq!((left(volume), unreadable(volume)), (1, 1), "{what}");
            assert_eq!(volume.counts().given_back, 4, "{what}");
            assert_eq!(found_by_check(&open, false), [(bad[0], 1)], "{what}");
            if has_checkpoint {
                world.run(&open, Op::Checkpoint { volume: 1 }).unwrap();
            }
            // Later ones are.
            let ops = [
                write(1, 512, 3, 600),
                flush(1),
                flush(1),
                Op::Collect { volume: 1 },
                flush(1),
                flush(1),
            ];
            world.run_all(&open, &ops).unwrap();
            assert_eq!((left(volume), unreadable(volume)), (1, 1), "{what}");
            assert_eq!(volume.counts().given_back, 7, "{what}");
            drop(open);
            let machine = match crash {
                Crash::Kill => world.machine.process(),
                Crash::PowerCut => world.machine.power_cut(PowerCut::KeepAll),
            };
            let mut world = world.after(machine);
            let open = world.open().unwrap();
            assert_eq!(left(&open.volumes[1]), 1, "{what}");
            world.run(&open, Op::Collect { volume: 1 }).unwrap();
            assert_eq!(left(&open.volumes[1]), 1, "{what}");
            // The next start gives it back, if the device can read the block.
            repair(&world, &bad, 16);
            drop(open);
            let open = world.open().unwrap();
            world.settle(&open, &what);
            assert_eq!(left(&open.volumes[1]), 0, "{what}");
        }
    }
}

#[test]
fn nothing_is_shared_with_a_block_that_cannot_be_compared() {
    let settings = VolumeSettings {
        compare_bytes: true,
        ..VolumeSettings::default()
    };
    let (mut world, bad) = shared(settings);
    let open = world.open().unwrap();
    make_unreadable(&world, &bad);
    let ops = [write(1, 700, 1, 16), write(1, 701, 1, 17), flush(1)];
    world.run_all(&open, &ops).unwrap();
    let volume = &open.volumes[1];
    assert_eq!(find(volume), 2);
    assert_eq!((volume.counts().shared, volume.counts().different), (1, 0));
    let mut read = vec![0; BLOCK];
    volume.read(700 * BLOCK as u64, &mut read).unwrap();
    assert_eq!(read, content(16));
    world
        .run_all(&open, &[flush(1), Op::Collect { volume: 1 }])
        .unwrap();
    assert_eq!(volume.stats().unreferenced, 1);
    assert_eq!(found_by_check(&open, true), [(bad[0], 2)]);
    // The disk reads it again. The volume's own block is compared once more when it was written.
    repair(&world, &bad, 16);
    assert_eq!(find(volume), 0);
    drop(open);
    let open = world.open().unwrap();
    let volume = &open.volumes[1];
    find(volume);
    let shared = |volume: &Volume| volume.stats().counted_bytes / BLOCK as u64;
    let before = shared(volume);
    world
        .run_all(&open, &[write(1, 700, 1, 16), flush(1), flush(1)])
        .unwrap();
    assert_eq!((find(volume), shared(volume)), (1, before + 1));
    world.settle(&open, "compared again");
}

/// What is freed may be what the finder lacked.
#[test]
fn references_are_given_back_although_the_finder_fails() {
    let settings = VolumeSettings {
        quiet_intervals: 0,
        ..VolumeSettings::default()
    };
    let (mut world, _) = shared(settings);
    let open = world.open().unwrap();
    let ops = [write(1, 0, 100, 300), write(1, 506, 5, 500), flush(1), flush(1)];
    world.run_all(&open, &ops).unwrap();
    let bad: Vec<u64> = (300..400)
        .flat_map(|number| blocks_with(&world, number))
        .collect();
    make_unreadable(&world, &bad);
    assert_eq!(open.volumes[1].stats().unreferenced, 5);
    let background = open.pool.start().unwrap();
    while open.volumes[1].stats().unreferenced > 0 {
        std::thread::yield_now();
    }
    background.stop();
}

#[test]
fn a_device_that_fails_during_a_comparison_leaves_the_batch_open() {
    let settings = VolumeSettings {
        compare_bytes: true,
        ..VolumeSettings::default()
    };
    for crashes in [false, true] {
        let (mut world, _) = shared(settings);
        let mut open = world.open().unwrap();
        // The pages of the map are in memory then.
        find(&open.volumes[1]);
        let ops = [write(1, 700, 2, 16), flush(1), flush(1)];
        world.run_all(&open, &ops).unwrap();
        let before = world.index.applies();
        // The finder reads both blocks at once. Then the device reads nothing.
        let all = Fault::fail_from(2, FailWith::Io).counting(Counted::Only(OpKind::Read));
        world.machine.inject(all);
        let error = open.volumes[1].find(0, true, &mut |_| true).unwrap_err();
        assert!(matches!(error, VolumeError::Device(_)), "{error}");
        world.machine.clear_faults();
        assert_eq!(world.index.applies(), before + 1);
        // The volume serves, and the next iteration ends the batch.
        let ops = [write(1, 701, 1, 800), flush(1), Op::Checkpoint { volume: 1 }];
        world.run_all(&open, &ops).unwrap();
        if crashes {
            drop(open);
            open = world.open().unwrap();
        }
        assert_eq!((find(&open.volumes[1]), unreadable(&open.volumes[1])), (1, 0));
        world.settle(&open, "compared");
    }
}

/// The contents of blocks, before they cannot be read.
fn take_away_all(world: &World, blocks: &[u64]) -> Vec<Vec<u8>> {
    blocks.iter().map(|block| take_away(world, *block)).collect()
}

fn put_back_all(world: &World, blocks: &[u64], contents: &[Vec<u8>]) {
    for (block, bytes) in blocks.iter().zip(contents) {
        put_back(world, *block, bytes);
    }
}

/// The content of a block, before it cannot be read.
fn take_away(world: &World, block: u64) -> Vec<u8> {
    let disk = world.machine.open("disk").unwrap();
    let mut bytes = vec![0; BLOCK];
    disk.read_at(block * BLOCK as u64, &mut bytes).unwrap();
    make_unreadable(world, &[block]);
    bytes
}

/// Makes the block readable as it was, unless somebody has written it.
fn put_back(world: &World, block: u64, bytes: &[u8]) {
    let disk = world.machine.open("disk").unwrap();
    let at = block * BLOCK as u64;
    if disk.read_at(at, &mut vec![0; BLOCK]).is_err() {
        disk.write_at(at, bytes).unwrap();
    }
}

/// Blocks of the volumes' metadata, and of the log.
fn metadata(world: &World) -> Vec<u64> {
    let disk = world.machine.open("disk").unwrap();
    let mut bytes = vec![0; BLOCK];
    let kinds = [BlockKind::Header, BlockKind::State, BlockKind::Log];
    let all = (0..EXTENTS * 1024).filter(|at| {
        disk.read_at(at * BLOCK as u64, &mut bytes).unwrap();
        kinds.iter().any(|kind| open_in(POOL, *kind, &bytes).is_ok())
    });
    all.collect()
}

#[test]
fn a_volume_that_cannot_be_read_fails_alone_and_comes_back() {
    let (base, _) = shared(VolumeSettings::default());
    let mut left = BTreeSet::new();
    for block in metadata(&base) {
        let what = format!("block {block}");
        let mut world = base.fork();
        let bytes = take_away(&world, block);
        let pool = world.try_open().unwrap_or_else(|error| panic!("{what}: {error}"));
        // Most are of logs and states that are not needed any more.
        if !pool.failed().is_empty() {
            left.insert(pool.volumes()[0].name());
            assert_eq!((pool.failed().len(), pool.volumes().len()), (1, 1), "{what}");
            let volume = &pool.volumes()[0];
            let (lba, number) = if volume.name() == "a" { (6, 16) } else { (506, 16) };
            let mut read = vec![0; BLOCK];
            volume.read(lba * BLOCK as u64, &mut read).unwrap();
            assert_eq!(read, content(number), "{what}");
            let used = usize::from(volume.name() == "b");
            world.models[used].begin(vec![(lba, 77)]);
            volume.write(lba * BLOCK as u64, &content(77), true).unwrap();
            world.models[used].end();
            volume.find(0, true, &mut |_| true).unwrap();
            assert_eq!(volume.collect(&mut |_| true).unwrap(), 0, "{what}");
            let findings = pool.check(true, &mut |_| {}).unwrap().findings;
            let is_failed = |finding: &Finding| matches!(finding, Finding::Failed { .. });
            assert_eq!(findings.iter().filter(|one| is_failed(one)).count(), 1, "{what}");
            let error = pool.recount(&mut |_| {}).unwrap_err();
            assert!(matches!(error, VolumeError::Contradiction { .. }), "{error}");
            // Its extents stay its own.
            let made = pool.create_volume("c", 8 << 20, VolumeSettings::default());
            made.unwrap().write(0, &vec![9; 8 << 20], true).unwrap();
            pool.close().unwrap();
        }
        drop(pool);
        put_back(&world, block, &bytes);
        world.recovers(Crash::Kill, &what);
    }
    assert_eq!(left.len(), 2, "each volume has a state that can fail alone");
}

#[test]
fn nothing_of_a_volume_that_cannot_be_read_is_freed_by_an_index_that_forgot_it() {
    let mut world = World::new();
    let open = world.open().unwrap();
    let (find, collect) = (|volume| Op::Find { volume }, |volume| Op::Collect { volume });
    let ops = [write(1, 0, 9, 20), flush(1), find(1), flush(1)];
    world.run_all(&open, &ops).unwrap();
    world.index.mark();
    let ops = [write(0, 0, 9, 20), flush(0), find(0), flush(0), flush(0)];
    world.run_all(&open, &ops).unwrap();
    open.pool.close().unwrap();
    drop(open);
    world.index.lose_since_mark();
    // Volume 0 was made first: its header is the first one.
    let blocks = &metadata(&world)[..2];
    let bytes = take_away_all(&world, blocks);
    let pool = world.try_open().unwrap();
    let names: Vec<String> = pool.volumes().iter().map(|one| one.name()).collect();
    assert_eq!(names, ["b"]);
    let open = Open {
        volumes: vec![pool.volume("b").unwrap(); 2],
        pool: std::sync::Arc::new(pool),
    };
    let ops = [
        write(1, 0, 9, 60),
        flush(1),
        flush(1),
        collect(1),
        flush(1),
        flush(1),
        write(1, 100, 900, 1000),
        flush(1),
    ];
    world.run_all(&open, &ops).unwrap();
    drop(open);
    put_back_all(&world, blocks, &bytes);
    let open = world.open().unwrap();
    world.compare(&open, Crash::Kill, "volume 0 is back");
    assert!(!open.pool.stats().unwrap().index_matches);
    open.pool.recount(&mut |_| {}).unwrap();
    world.settle(&open, "counted again");
}

#[test]
fn a_name_that_was_given_twice_becomes_two_names() {
    let world = World::new();
    let blocks = &metadata(&world)[..2];
    let bytes = take_away_all(&world, blocks);
    let pool = world.try_open().unwrap();
    let made = pool.create_volume("a", 8 << 20, VolumeSettings::default());
    made.unwrap().write(0, &content(5), true).unwrap();
    drop(pool);
    put_back_all(&world, blocks, &bytes);
    for _ in 0..2 {
        let open = world.open().unwrap();
        let names: Vec<String> = open.pool.volumes().iter().map(|one| one.name()).collect();
        assert_eq!(names, ["a", "a-3", "b"]);
        let mut read = vec![0; BLOCK];
        open.pool.volume("a-3").unwrap().read(0, &mut read).unwrap();
        assert_eq!(read, content(5));
        world.check(&open, "two names");
    }
}

#[test]
fn a_recount_passes_over_an_unreadable_block() {
    let (mut world, bad) = shared(VolumeSettings::default());
    let open = world.open().unwrap();
    make_unreadable(&world, &bad);
    let done = open.pool.recount(&mut |_| {}).unwrap();
    assert_eq!((done.unreadable, done.contents), (1, 24));
    let ops = [
        write(1, 506, 1, 500),
        write(0, 6, 1, 501),
        write(0, 100, 1, 502),
        flush(0),
        flush(1),
        flush(0),
        flush(1),
        Op::Find { volume: 0 },
        Op::Collect { volume: 0 },
        Op::Collect { volume: 1 },
    ];
    world.run_all(&open, &ops).unwrap();
    // Readable again, it is not what the index has, and is never freed.
    repair(&world, &bad, 16);
    drop(open);
    let open = world.open().unwrap();
    world
        .run_all(&open, &[Op::Collect { volume: 0 }, Op::Collect { volume: 1 }])
        .unwrap();
    world.compare(&open, Crash::Kill, "counted again");
    assert!(blocks_with(&world, 16).contains(&bad[0]));
}
