//! Logs that are long: they cross extents, and records of one batch fill several blocks.

use env::block::fault::{Fault, OpKind, PowerCut};
use volume::VolumeSettings;

use crate::model::{BLOCK, Crash};
use crate::world::{BLOCKS, Op, World};

/// Fills so many blocks of log: one with each write, as nothing is flushed.
fn fill_log(world: &mut World, open: &crate::world::Open, blocks: u64) {
    for n in 0..blocks {
        let write = Op::Write {
            volume: 0,
            lba: n % 700,
            count: 1,
            number: 1 + n % 900,
        };
        world.run(open, write).unwrap();
    }
}

/// Crashes, recovers, writes enough to use all that is free, and crashes again.
fn survives(world: &World, crash: Crash, what: &str) {
    let machine = match crash {
        Crash::Kill => world.machine.process(),
        Crash::PowerCut => world.machine.power_cut(PowerCut::Seeded(3)),
    };
    world.index.mark();
    let mut after = world.after(machine);
    let mut open = after.open().unwrap();
    after.compare(&open, crash, what);
    after.check(&open, what);
    after.write_torn(&open);
    for number in [1, 2000] {
        let fill = Op::Write {
            volume: 0,
            lba: 0,
            count: BLOCKS,
            number,
        };
        after.run_all(&open, &[fill, Op::Flush { volume: 0 }]).unwrap();
        drop(open);
        after = after.after(after.machine.process());
        open = after.open().unwrap();
        after.compare(&open, Crash::Kill, what);
    }
    after.settle(&open, what);
    world.index.lose_since_mark();
}

#[test]
fn a_log_that_crosses_extents_is_replayed() {
    let mut world = World::new();
    let open = world.open().unwrap();
    // The first extent was the volume's when the log began; later ones came from the pool since.
    fill_log(&mut world, &open, 2100);
    world.run(&open, Op::Flush { volume: 0 }).unwrap();
    fill_log(&mut world, &open, 10);
    survives(&world, Crash::PowerCut, "flushed, power cut");
    survives(&world, Crash::Kill, "killed");
}

#[test]
fn a_log_in_an_extent_that_held_data_is_replayed() {
    let mut world = World::new();
    let open = world.open().unwrap();
    let flush = Op::Flush { volume: 0 };
    // Data in every free extent of the volume, then none.
    for round in 0..3 {
        let (lba, count) = (0, BLOCKS);
        let write = Op::Write {
            volume: 0,
            lba,
            count,
            number: 1 + 2000 * round,
        };
        let cut = Op::Cut {
            volume: 0,
            lba,
            count,
        };
        world
            .run_all(&open, &[write, flush, cut, flush, flush, flush])
            .unwrap();
    }
    fill_log(&mut world, &open, 2100);
    survives(&world, Crash::Kill, "killed");
}

/// Blocks of a volume whose answers fill several blocks of log.
const MANY: u64 = 4400;

const fn fill(volume: usize, number: u64) -> Op {
    Op::Write {
        volume,
        lba: 0,
        count: MANY,
        number,
    }
}

/// Ends the process in the middle of each write of several blocks of log.
fn in_each_log_write(before: &[Op], script: &[Op], name: &str) {
    let mut base = World::sized(VolumeSettings::default(), 64, MANY);
    base.prepare(before);
    let mut whole = base.fork();
    let open = whole.open().unwrap();
    whole.machine.start_trace();
    whole.run_all(&open, script).unwrap();
    let trace = whole.machine.take_trace();
    let mut tried = 0;
    let mutating = trace.iter().filter(|operation| operation.kind.is_mutating());
    for (n, operation) in mutating.enumerate() {
        let log_blocks = operation.len / BLOCK as u64;
        if operation.kind != OpKind::Write || !(2..80).contains(&log_blocks) {
            continue;
        }
        for blocks in 1..log_blocks.min(4) {
            let mut world = base.fork();
            let open = world.open().unwrap();
            let fault = Fault::stop(n as u64 + 1).within(blocks * BLOCK as u64);
            world.machine.inject(fault);
            world.run_all(&open, script).unwrap_err();
            let what = format!("{name}, operation {n}, {blocks} of {log_blocks} blocks");
            let mut after = world.after(world.machine.process());
            let open = after.open().unwrap_or_else(|error| panic!("{what}: {error}"));
            after.compare(&open, Crash::Kill, &what);
            after.settle(&open, &what);
            tried += 1;
        }
    }
    assert!(tried > 2, "{name}: {tried} points");
}

#[test]
fn a_batch_whose_answers_are_cut_in_two_is_counted_once() {
    let flush = |volume| Op::Flush { volume };
    let (find, collect) = (|volume| Op::Find { volume }, |volume| Op::Collect { volume });
    let shared = [
        fill(0, 1),
        flush(0),
        find(0),
        fill(1, 1),
        flush(1),
        find(1),
        flush(1),
    ];
    in_each_log_write(&shared[..5], &shared[5..], "known");
    in_each_log_write(&[fill(0, 1)], &[find(0), flush(0)], "new");
    let again = [fill(1, 9000), flush(1), flush(1)];
    let script = [collect(1), flush(1)];
    in_each_log_write(&[&shared[..], &again[..]].concat(), &script, "remains");
    let both = [fill(0, 9000), flush(0), collect(0)];
    in_each_log_write(&[&shared[..], &again[..], &script[..]].concat(), &both, "freed");
}
