//! Disks that fail, rot and refuse: no panic, no wrong data, clear errors.

use env::block::fault::{Counted, FailWith, Fault, PowerCut};
use volume::{Finding, VolumeError, VolumeSettings};

use crate::model::{BLOCK, Crash, content};
use crate::world::{EXTENTS, NAMES, Op, Open, POOL, World, flush, shared, write};

/// One of each operation, with shared blocks before.
fn script() -> Vec<Op> {
    vec![
        write(0, 0, 5, 30),
        flush(0),
        Op::Parts {
            volume: 1,
            lba: 507,
            number: 9,
        },
        Op::Find { volume: 0 },
        write(0, 2, 2, 60),
        flush(0),
        flush(0),
        Op::Parts {
            volume: 0,
            lba: 3,
            number: 8,
        },
        Op::Cut {
            volume: 1,
            lba: 510,
            count: 4,
        },
        flush(1),
        flush(1),
        Op::Collect { volume: 1 },
        Op::Durable {
            volume: 0,
            lba: 9,
            number: 70,
        },
        Op::Checkpoint { volume: 0 },
        write(0, 0, 3, 80),
        Op::Checkpoint { volume: 1 },
        Op::Find { volume: 1 },
        flush(0),
    ]
}

/// Runs all operations, also behind failed ones. Returns whether one failed.
fn run_on(world: &mut World, open: &Open, what: &str) -> bool {
    let mut has_failed = false;
    for op in script() {
        let Err(error) = world.run(open, op) else {
            continue;
        };
        has_failed = true;
        for model in &mut world.models {
            model.failed();
        }
        let is_known = matches!(
            error,
            VolumeError::Device(_) | VolumeError::Stopped { .. } | VolumeError::NoSpace
        );
        assert!(is_known, "{what}: {op:?}: {error}");
    }
    has_failed
}

#[test]
fn an_error_of_the_disk_at_every_operation_loses_nothing() {
    let base = shared();
    for with in [FailWith::Io, FailWith::NoSpace] {
        for counted in [Counted::All, Counted::Mutating] {
            for n in 1.. {
                let mut world = base.fork();
                let open = world.open().unwrap();
                world.machine.inject(Fault::fail(n, with).counting(counted));
                let what = format!("{with:?} at operation {n} of {counted:?}");
                let before = world.machine.counters();
                run_on(&mut world, &open, &what);
                let done = world.machine.counters().since(&before);
                let operations = match counted {
                    Counted::All => done.all(),
                    _ => done.mutating(),
                };
                if operations < n {
                    assert!(n > 20, "{what}");
                    break;
                }
                world.machine.clear_faults();
                // Reads of the same process, then those of the next one.
                world.clone_models().compare_live(&open, &what);
                drop(open);
                let mut after = world.after(world.machine.process());
                after.recovers(Crash::Kill, &what);
            }
        }
    }
}

#[test]
fn a_disk_without_space_under_a_sparse_file_loses_nothing() {
    let base = shared();
    for n in 1.. {
        let mut world = base.fork();
        let open = world.open().unwrap();
        world.machine.inject(Fault::fail_from(n, FailWith::NoSpace));
        let what = format!("no space from operation {n} on");
        if !run_on(&mut world, &open, &what) {
            break;
        }
        drop(open);
        world.machine.clear_faults();
        let machine = world.machine.power_cut(PowerCut::Seeded(n));
        let mut after = world.after(machine);
        after.recovers(Crash::PowerCut, &what);
    }
}

#[test]
fn a_failed_flush_stops_the_volume_and_a_start_recovers_it() {
    let mut world = shared().fork();
    let open = world.open().unwrap();
    world.run(&open, write(0, 0, 4, 100)).unwrap();
    let flush_fails = Fault::fail(1, FailWith::Io).counting(Counted::Only(env::block::fault::OpKind::Flush));
    world.machine.inject(flush_fails);
    assert!(matches!(world.run(&open, flush(0)), Err(VolumeError::Device(_))));
    for op in [write(0, 30, 1, 5), flush(0)] {
        let error = world.run(&open, op).unwrap_err();
        assert!(matches!(error, VolumeError::Stopped { .. }), "{error}");
        world.models[0].begin(Vec::new());
    }
    let mut read = vec![0; BLOCK];
    open.volumes[0].read(0, &mut read).unwrap();
    assert_eq!(read, content(100));
    drop(open);
    let mut after = world.after(world.machine.process());
    after.recovers(Crash::Kill, "started again");
}

/// Blocks of the pool by what they begin with: the frame's kind.
fn blocks_of(world: &World, wanted: impl Fn(&[u8]) -> bool) -> Vec<u64> {
    let disk = world.machine.open("disk").unwrap();
    let mut block = vec![0; BLOCK];
    let all = (0..EXTENTS * 1024).filter(|number| {
        env::BlockDevice::read_at(&disk, number * BLOCK as u64, &mut block).unwrap();
        wanted(&block)
    });
    all.collect()
}

fn is_kind(block: &[u8], kind: format::pool::frame::BlockKind) -> bool {
    let superblock = format::pool::frame::BlockKind::Superblock;
    let pool = if kind == superblock { [0; 16] } else { POOL };
    format::pool::frame::open_in(pool, kind, block).is_ok()
}

fn rot(world: &World, block: u64) {
    world
        .machine
        .damage("disk", block * BLOCK as u64, |bytes| bytes[100] ^= 0x40);
}

#[test]
fn one_copy_of_superblock_table_or_header_is_enough() {
    use format::pool::frame::BlockKind;
    let base = shared();
    for kind in [BlockKind::Superblock, BlockKind::Table, BlockKind::Header] {
        let blocks = blocks_of(&base, |block| is_kind(block, kind));
        assert!(
            !blocks.is_empty() && blocks.len().is_multiple_of(2),
            "{kind:?}: {blocks:?}"
        );
        for block in &blocks {
            let mut world = base.fork();
            rot(&world, *block);
            world.recovers_or_reverts(&format!("{kind:?}, block {block}"));
        }
        for pair in blocks.chunks(2).filter(|_| kind != BlockKind::Superblock) {
            let world = base.fork();
            pair.iter().for_each(|block| rot(&world, *block));
            let what = format!("{kind:?}, blocks {pair:?}");
            match world.try_open() {
                Err(VolumeError::Damaged { .. }) => assert_eq!(kind, BlockKind::Table, "{what}"),
                Err(error) => panic!("{what}: {error}"),
                Ok(pool) => {
                    assert_eq!(kind, BlockKind::Header, "{what}");
                    assert_eq!((pool.failed().len(), pool.volumes().len()), (1, 1), "{what}");
                }
            }
        }
    }
    let world = base.fork();
    for block in blocks_of(&base, |block| is_kind(block, BlockKind::Superblock)) {
        rot(&world, block);
    }
    assert!(matches!(world.try_open(), Err(VolumeError::NotAPool { .. })));
}

#[test]
fn rot_in_the_metadata_of_a_volume_leaves_the_others_usable() {
    use format::pool::frame::BlockKind;
    let base = shared();
    let metadata = blocks_of(&base, |block| is_kind(block, BlockKind::State));
    let mut tried = 0;
    for block in metadata {
        let world = base.fork();
        rot(&world, block);
        let pool = world.try_open().unwrap();
        tried += pool.failed().len();
        for volume in pool.volumes() {
            let (volume_number, lba, number) = match volume.name() == NAMES[0] {
                true => (0, 3, 13),
                false => (1, 506, 16),
            };
            let mut read = vec![0; BLOCK];
            volume.read(lba * BLOCK as u64, &mut read).unwrap();
            assert_eq!(read, content(number), "volume {volume_number}");
            volume.write(lba * BLOCK as u64, &content(99), true).unwrap();
            volume.find(0, true, &mut |_| true).unwrap();
            volume.flush().unwrap();
            volume.collect(&mut |_| true).unwrap();
        }
        let checked = pool.check(true, &mut |_| {}).unwrap();
        let has_failed = |finding: &Finding| matches!(finding, Finding::Failed { .. });
        assert_eq!(
            checked.findings.iter().filter(|one| has_failed(one)).count(),
            pool.failed().len()
        );
        if !pool.failed().is_empty() {
            let error = pool.recount(&mut |_| {}).unwrap_err();
            assert!(matches!(error, VolumeError::Contradiction { .. }), "{error}");
        }
    }
    assert!(tried >= 2, "the last state of each volume");
}

#[test]
fn rot_in_a_page_of_the_map_is_an_error_of_its_range() {
    let base = shared();
    // The page of volume 0's first blocks: entries of successive blocks.
    let pages = blocks_of(&base, |block| {
        let entry = |n: usize| u64::from_le_bytes(block[n * 8..n * 8 + 8].try_into().unwrap());
        entry(0) != 0
            && entry(20) == 0
            && (1..20).all(|n| entry(n) & 0xff_ffff == (entry(0) & 0xff_ffff) + n as u64)
    });
    let mut errors = 0;
    for page in pages {
        let world = base.fork();
        rot(&world, page);
        let pool = world.try_open().unwrap();
        let volume = pool.volume(NAMES[0]).unwrap();
        let mut read = vec![0; BLOCK];
        match volume.read(0, &mut read) {
            Ok(()) => continue,
            Err(VolumeError::Damaged { .. }) => errors += 1,
            Err(error) => panic!("{error}"),
        }
        assert!(volume.write(0, &content(1), false).is_err());
        volume.read(600 * BLOCK as u64, &mut read).unwrap();
        volume.write(600 * BLOCK as u64, &content(1), true).unwrap();
        assert_eq!(volume.find(0, true, &mut |_| true).unwrap().examined, 1);
        pool.volume(NAMES[1])
            .unwrap()
            .read(505 * BLOCK as u64, &mut read)
            .unwrap();
        assert_eq!(read, content(15));
        let findings = pool.check(false, &mut |_| {}).unwrap().findings;
        let is_unreadable = |finding: &Finding| matches!(finding, Finding::Unreadable { .. });
        assert!(findings.iter().any(is_unreadable), "{findings:?}");
    }
    assert_eq!(errors, 1);
}

#[test]
fn a_rotten_shared_block_is_found_and_never_freed() {
    let mut world = shared().fork();
    // Content 16 is in both volumes.
    let blocks = blocks_of(&world, |block| block == content(16));
    assert!(!blocks.is_empty());
    let open = world.open().unwrap();
    for block in &blocks {
        rot(&world, *block);
    }
    let findings = open.pool.check(true, &mut |_| {}).unwrap().findings;
    let rotten: Vec<_> = findings
        .iter()
        .filter_map(|finding| match finding {
            Finding::Rotten { block, volumes } => Some((block.get(), volumes.len())),
            _ => None,
        })
        .collect();
    assert_eq!(rotten.len(), 1, "{findings:?}");
    assert_eq!(rotten[0].1, 2, "{findings:?}");
    let shared = rotten[0].0;
    // Both references go away; the block stays set aside, also after a start.
    let ops = [
        write(0, 6, 1, 500),
        write(1, 506, 1, 501),
        flush(0),
        flush(1),
        flush(0),
        flush(1),
    ];
    world.run_all(&open, &ops).unwrap();
    for volume in [0, 1] {
        world
            .run_all(&open, &[Op::Collect { volume }, flush(volume), flush(volume)])
            .unwrap();
    }
    let is_aside = |open: &Open| {
        let findings = open.pool.check(true, &mut |_| {}).unwrap().findings;
        let is_block = |finding: &Finding| {
            let first = match finding {
                Finding::TwoUses { block, first, .. } => (block.get(), *first),
                _ => return false,
            };
            first == (shared, volume::Use::Suspect)
        };
        assert!(findings.iter().any(is_block), "{findings:?}");
    };
    is_aside(&open);
    drop(open);
    let open = world.open().unwrap();
    is_aside(&open);
    world.compare(&open, Crash::Kill, "rotten");
}

#[test]
fn a_recount_gives_no_row_to_a_rotten_block() {
    let mut world = shared().fork();
    let blocks = blocks_of(&world, |block| block == content(16));
    let open = world.open().unwrap();
    for block in &blocks {
        rot(&world, *block);
    }
    for _ in 0..2 {
        let done = open.pool.recount(&mut |_| {}).unwrap();
        assert_eq!((done.rotten, done.contents), (1, 24));
        let findings = open.pool.check(true, &mut |_| {}).unwrap().findings;
        let [Finding::Rotten { block, volumes }] = &findings[..] else {
            panic!("{findings:?}");
        };
        assert!(blocks.contains(&block.get()), "{blocks:?}");
        assert_eq!(volumes.len(), 2);
    }
    // The bytes that the rotten block has now are shared with nothing.
    let mut bytes = vec![0; BLOCK];
    open.volumes[0].read(6 * BLOCK as u64, &mut bytes).unwrap();
    open.volumes[0].write(700 * BLOCK as u64, &bytes, true).unwrap();
    assert_eq!(open.volumes[0].find(0, true, &mut |_| true).unwrap().examined, 1);
    assert_eq!(open.volumes[0].counts().shared, 0);
    open.volumes[0]
        .trim(700 * BLOCK as u64, BLOCK as u64, true)
        .unwrap();
    drop(open);
    // Nor is it freed when nothing refers to it.
    let open = world.open().unwrap();
    let free = open.pool.stats().unwrap().free_bytes;
    let ops = [
        write(0, 6, 1, 16),
        write(1, 506, 1, 16),
        flush(0),
        flush(1),
        flush(0),
        flush(1),
        Op::Collect { volume: 0 },
        Op::Collect { volume: 1 },
        flush(0),
        flush(1),
        flush(0),
        flush(1),
    ];
    world.run_all(&open, &ops).unwrap();
    assert!(open.pool.stats().unwrap().free_bytes < free);
    for volume in &open.volumes {
        assert_eq!(volume.stats().unreferenced, 0);
    }
    world.compare(&open, Crash::Kill, "rotten");
}

#[test]
fn a_rotten_block_in_the_middle_of_a_flushed_log_is_an_error() {
    use format::pool::frame::BlockKind;
    let mut world = shared().fork();
    let open = world.open().unwrap();
    let before = blocks_of(&world, |block| is_kind(block, BlockKind::Log));
    for n in 0..6 {
        world
            .run_all(&open, &[write(0, n, 1, 700 + n), flush(0)])
            .unwrap();
    }
    world.run(&open, flush(0)).unwrap();
    drop(open);
    let after = blocks_of(&world, |block| is_kind(block, BlockKind::Log));
    let new: Vec<u64> = after
        .into_iter()
        .filter(|block| !before.contains(block))
        .collect();
    assert!(new.len() > 5, "{new:?}");
    for block in &new[1..new.len() - 2] {
        let world = world.fork();
        rot(&world, *block);
        let pool = world.try_open().unwrap();
        assert_eq!(pool.failed().len(), 1, "block {block} of {new:?}");
    }
}

#[test]
fn with_a_lost_volume_its_blocks_stay() {
    use format::pool::frame::BlockKind;
    let base = shared();
    for block in blocks_of(&base, |block| is_kind(block, BlockKind::Header)).chunks(2) {
        let world = base.fork();
        block.iter().for_each(|block| rot(&world, *block));
        let pool = world.try_open().unwrap();
        assert_eq!(pool.failed().len(), 1);
        let error = pool.recount(&mut |_| {}).unwrap_err();
        assert!(matches!(error, VolumeError::Contradiction { .. }), "{error}");
        let made = pool.create_volume("c", 512 * BLOCK as u64, VolumeSettings::default());
        made.unwrap().write(0, &content(10), true).unwrap();
    }
}
