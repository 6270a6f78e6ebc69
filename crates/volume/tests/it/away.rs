//! A duplicates index that gives no answer for long: a batch stays open, the log is cut all the
//! same, and nothing is lost or counted twice.

use ddi::fault::Failure;
use ddi::{Bucket, DdiError, DuplicatesIndex};
use env::block::fault::PowerCut;
use types::{BatchSequence, VolumeId};
use volume::{Result, VolumeError, VolumeSettings};

use crate::model::Crash;
use crate::world::{Op, Open, World, flush, write};

fn checkpoint(volume: usize) -> Op {
    Op::Checkpoint { volume }
}

/// Runs an operation whose batch gets no answer.
fn unanswered(world: &mut World, open: &Open, failure: Failure, op: Op) -> Result<()> {
    (1..=3).for_each(|call| world.index.fail_apply(call, failure));
    match world.run(open, op) {
        Err(VolumeError::Index(_)) => Ok(()),
        Err(error) => Err(error),
        Ok(()) => panic!("{op:?} sent no batch"),
    }
}

/// From now on, the index answers: a batch that it refuses takes the failures that are planned.
fn answer_again(world: &World) {
    let (client, sequence) = (VolumeId::new(99).unwrap(), BatchSequence::new(50).unwrap());
    while let Err(DdiError::NoAnswer { .. }) = world.index.apply(Bucket::FIRST, client, sequence, &[]) {}
}

/// Open batches of the finder and of the collector, with checkpoints, and writes before and between
/// them.
fn script(world: &mut World, open: &Open, failure: Failure) -> Result<()> {
    world.run_all(open, &[write(1, 505, 20, 15), flush(1)])?;
    unanswered(world, open, failure, Op::Find { volume: 1 })?;
    let ops = [
        // These stay with the finder.
        write(1, 506, 2, 300),
        checkpoint(1),
        write(1, 600, 2, 400),
        write(1, 509, 1, 310),
        flush(1),
        checkpoint(1),
        write(1, 511, 1, 320),
        flush(1),
        Op::Collect { volume: 1 },
    ];
    world.run_all(open, &ops)?;
    world.run_all(open, &[write(0, 3, 6, 100), flush(0), flush(0)])?;
    unanswered(world, open, failure, Op::Collect { volume: 0 })?;
    let ops = [
        write(0, 0, 2, 500),
        checkpoint(0),
        write(0, 10, 2, 510),
        flush(0),
        checkpoint(0),
        flush(0),
        Op::Collect { volume: 0 },
        Op::Find { volume: 0 },
        flush(0),
    ];
    world.run_all(open, &ops)
}

/// Volume 0 has registered blocks.
fn base() -> World {
    let mut world = World::new();
    world.prepare(&[write(0, 0, 20, 10), flush(0), Op::Find { volume: 0 }, flush(0)]);
    world
}

#[test]
fn an_open_batch_is_carried_over_by_checkpoints() {
    let base = base();
    let cuts = [
        PowerCut::KeepAll,
        PowerCut::DropAll,
        PowerCut::TearAll,
        PowerCut::Seeded(1),
    ];
    for failure in [Failure::Before, Failure::After] {
        {
            let mut world = base.fork();
            let open = world.open().unwrap();
            let before = open.volumes[1].counts().checkpoints;
            script(&mut world, &open, failure).unwrap();
            assert_eq!(open.volumes[1].counts().checkpoints, before + 2);
            world.settle(&open, "carried");
        }
        let run = |world: &mut World, open: &Open| script(world, open, failure);
        let count = base.each_crash(1, &cuts, &run, &|world, crash, what| {
            answer_again(world);
            world.recovers(crash, &format!("{failure:?}, {what}"));
        });
        assert!(count > 60, "{count} operations");
    }
}

#[test]
fn a_log_is_cut_while_the_index_gives_no_answer() {
    // The pool has no extent for a log that grows.
    let mut world = World::sized(VolumeSettings::default(), 9, 1040);
    let open = world.open().unwrap();
    world.run_all(&open, &[write(1, 0, 2, 40), flush(1)]).unwrap();
    unanswered(&mut world, &open, Failure::Before, Op::Find { volume: 1 }).unwrap();
    for n in 0..3000 {
        let cut = Op::Cut {
            volume: 1,
            lba: 2 + n % 8,
            count: 1,
        };
        let ops = [write(1, 2 + n % 8, 1, 5000 + n), flush(1), cut, flush(1)];
        let ended = world.run_all(&open, &ops);
        assert!(ended.is_ok(), "write {n}: {ended:?}");
    }
    assert_eq!(world.index.statistics().unwrap().rows(), 0);
    world.compare(&open, Crash::Kill, "away");
    world.check(&open, "away, then back");
    world.settle(&open, "back");
}
