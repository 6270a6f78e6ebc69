//! Power cuts that leave blocks which the device cannot read: they count as torn ones, and nothing
//! that was flushed is lost silently.

use env::BlockDevice;
use env::block::fault::{Fault, OpKind, PowerCut};
use format::pool::frame::{BlockKind, open_in};
use format::pool::log::LogBlockHead;
use types::ByteRange;
use volume::{Pool, Result, VolumeSettings};

use crate::model::{BLOCK, Crash};
use crate::world::{EXTENTS, Op, Open, POOL, World, flush, shared, write};

/// The pool's own extents: superblocks and the table.
const OWN_BLOCKS: u64 = 2 * 1024;

fn make_unreadable(world: &World, block: u64) {
    let (offset, len) = (block * BLOCK as u64, BLOCK as u64);
    world.machine.make_unreadable("disk", ByteRange { offset, len });
}

fn read(world: &World, block: u64) -> Vec<u8> {
    let mut bytes = vec![0; BLOCK];
    let disk = world.machine.open("disk").unwrap();
    disk.read_at(block * BLOCK as u64, &mut bytes).unwrap();
    bytes
}

fn write_back(world: &World, block: u64, bytes: &[u8]) {
    let disk = world.machine.open("disk").unwrap();
    disk.write_at(block * BLOCK as u64, bytes).unwrap();
}

/// No block is written in place: it would be a block of the user that cannot be read.
fn script() -> Vec<Op> {
    vec![
        write(0, 30, 5, 300),
        flush(0),
        write(0, 2, 3, 320),
        flush(0),
        write(1, 600, 40, 330),
        flush(1),
        flush(1),
        Op::Find { volume: 1 },
        Op::Checkpoint { volume: 0 },
        write(0, 40, 3, 400),
        write(0, 50, 3, 410),
        flush(0),
        Op::Collect { volume: 0 },
        Op::Checkpoint { volume: 1 },
        write(1, 700, 2, 420),
        flush(1),
        write(1, 720, 2, 430),
    ]
}

/// Blocks that were written since the last flush. Those of the table are another matter.
fn unflushed(world: &World) -> Vec<u64> {
    let trace = world.machine.take_trace();
    let behind = trace
        .rsplit(|operation| operation.kind == OpKind::Flush)
        .next()
        .unwrap_or_default();
    let writes = behind.iter().filter(|operation| operation.kind == OpKind::Write);
    let blocks = writes.flat_map(|one| {
        let first = one.offset / BLOCK as u64;
        first..first + one.len / BLOCK as u64
    });
    blocks.filter(|block| *block >= OWN_BLOCKS).collect()
}

#[test]
fn blocks_that_a_power_cut_tore_may_be_unreadable() {
    let base = shared();
    let mut tried = 0;
    for n in 1.. {
        for (number, cut) in [PowerCut::KeepAll, PowerCut::DropAll].into_iter().enumerate() {
            for every in [1, 2, 3] {
                let mut world = base.fork();
                let open = world.open().unwrap();
                world.machine.start_trace();
                world.machine.inject(Fault::stop(n).after());
                let ended = world.run_all(&open, &script());
                if ended.is_ok() && !world.machine.is_gone() {
                    assert!(tried > 200, "{tried}");
                    return;
                }
                drop(open);
                let torn = unflushed(&world);
                let mut after = world.after(world.machine.power_cut(cut));
                for block in torn.iter().skip(number).step_by(every) {
                    make_unreadable(&after, *block);
                    tried += 1;
                }
                let what = format!("operation {n}, {cut:?}, every {every}. of {torn:?}");
                after.recovers(Crash::PowerCut, &what);
            }
        }
    }
}

/// The blocks of the present log of volume 0, in order.
fn log_of(world: &World) -> Vec<(u64, LogBlockHead)> {
    let all = (0..EXTENTS * 1024).filter_map(|block| {
        let bytes = read(world, block);
        let head = LogBlockHead::read_head(open_in(POOL, BlockKind::Log, &bytes).ok()?).ok()?;
        Some((block, head))
    });
    let mut all: Vec<_> = all.filter(|(_, head)| head.volume.get() == 1).collect();
    let epoch = all.iter().map(|(_, head)| head.epoch).max();
    all.retain(|(_, head)| Some(head.epoch) == epoch);
    all.sort_by_key(|(_, head)| head.sequence);
    all
}

/// Volume 0 is left out, nothing is freed, and it comes back.
fn is_refused(world: &mut World, block: u64, what: &str) {
    let bytes = read(world, block);
    make_unreadable(world, block);
    let pool = world.try_open().unwrap_or_else(|error| panic!("{what}: {error}"));
    assert_eq!(pool.failed().len(), 1, "{what}");
    let why = pool.failed().into_values().next().unwrap();
    assert!(why.contains("comes back"), "{what}: {why}");
    drop(pool);
    write_back(world, block, &bytes);
    world.recovers(Crash::PowerCut, what);
}

#[test]
fn an_unreadable_block_of_a_flushed_log_is_not_its_end() {
    let mut world = shared();
    let open = world.open().unwrap();
    for n in 0..6 {
        world
            .run_all(&open, &[write(0, 30 + n, 1, 700 + n), flush(0)])
            .unwrap();
    }
    world.run(&open, flush(0)).unwrap();
    drop(open);
    let log = log_of(&world);
    assert!(log.len() > 6, "{log:?}");
    let (last, flushed) = log.split_last().unwrap();
    for (block, _) in flushed {
        is_refused(&mut world.fork(), *block, &format!("block {block} of {log:?}"));
    }
    // Nobody knows whether the last one was flushed: it is taken for torn, and the log goes on
    // behind it.
    let mut world = world.after(world.machine.power_cut(PowerCut::DropAll));
    make_unreadable(&world, last.0);
    let open = world.open().unwrap();
    world.compare(&open, Crash::PowerCut, "the last one");
    world.run_all(&open, &[write(0, 60, 1, 800), flush(0)]).unwrap();
    drop(open);
    let disk = world.machine.open("disk").unwrap();
    let is_read = disk.read_at(last.0 * BLOCK as u64, &mut vec![0; BLOCK]).is_ok();
    assert!(!is_read, "nobody has written the block");
    world.recovers(Crash::Kill, "behind the last one");
}

/// Fills so many blocks of log.
fn fill_log(world: &mut World, open: &Open, blocks: u64) -> Result<()> {
    (0..blocks).try_for_each(|n| world.run(open, write(0, 30 + n % 400, 1, 1 + n % 900)))
}

#[test]
fn marks_in_the_next_extent_count() {
    let mut world = shared();
    let open = world.open().unwrap();
    // No mark is in the first extent of the log.
    fill_log(&mut world, &open, 1100).unwrap();
    world
        .run_all(&open, &[flush(0), write(0, 30, 1, 5), flush(0)])
        .unwrap();
    drop(open);
    let log = log_of(&world);
    let last = log.iter().position(|(_, head)| head.next.is_some()).unwrap();
    assert!(last > 100 && log.len() > last + 10);
    for place in [last - 50, last] {
        is_refused(
            &mut world.fork(),
            log[place].0,
            &format!("place {place}, the extent ends at {last}"),
        );
    }
    // The same of rot, as long as a block behind it names the next extent.
    let rotten = world.fork();
    let at = log[last - 50].0 * BLOCK as u64;
    rotten.machine.damage("disk", at, |bytes| bytes[100] ^= 1);
    assert_eq!(rotten.try_open().unwrap().failed().len(), 1);
}

#[test]
fn if_most_of_an_extent_cannot_be_read_nobody_knows_the_end_of_the_log() {
    let mut world = shared();
    let open = world.open().unwrap();
    world.run_all(&open, &[write(0, 30, 1, 700), flush(0)]).unwrap();
    drop(open);
    let log = log_of(&world);
    let extent = log[0].0 / 1024;
    let blocks: Vec<u64> = (log[0].0..(extent + 1) * 1024).collect();
    assert!(blocks.len() > 600);
    let before: Vec<Vec<u8>> = blocks.iter().map(|block| read(&world, *block)).collect();
    blocks.iter().for_each(|block| make_unreadable(&world, *block));
    let pool: Pool = world.try_open().unwrap();
    assert_eq!(pool.failed().len(), 1);
    drop(pool);
    for (block, bytes) in blocks.iter().zip(before) {
        write_back(&world, *block, &bytes);
    }
    world.recovers(Crash::Kill, "readable again");
}

#[test]
fn a_header_with_one_readable_copy_is_whole() {
    const SMALL: u64 = 9;
    let mut world = World::sized(VolumeSettings::default(), SMALL, 1040);
    let open = world.open().unwrap();
    // What an earlier header refers to is used again.
    for n in 0..8 {
        let cut = Op::Cut {
            volume: 0,
            lba: 0,
            count: 1040,
        };
        let ops = [
            cut,
            flush(0),
            flush(0),
            write(0, 0, 1040, 1 + 2000 * n),
            flush(0),
            flush(0),
        ];
        world.run_all(&open, &ops).unwrap();
        if n < 2 {
            world.run(&open, Op::Checkpoint { volume: 0 }).unwrap();
        }
    }
    drop(open);
    let is_header = |block: &u64| open_in(POOL, BlockKind::Header, &read(&world, *block)).is_ok();
    let headers: Vec<u64> = (0..SMALL * 1024).filter(is_header).collect();
    assert_eq!(headers.len(), 4);
    for block in &headers {
        let what = format!("block {block} of {headers:?}");
        let mut unreadable = world.fork();
        make_unreadable(&unreadable, *block);
        unreadable.recovers(Crash::Kill, &what);
        let mut rotten = world.fork();
        rotten
            .machine
            .damage("disk", block * BLOCK as u64, |bytes| bytes[100] ^= 1);
        rotten.recovers(Crash::Kill, &what);
    }
}
