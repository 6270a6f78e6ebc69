//! A kill and power cuts at every operation of the device, in a script with everything in it.

use env::block::fault::{Fault, PowerCut};
use volume::VolumeSettings;

use crate::model::Crash;
use crate::world::{Op, World};

/// Writes, flushes, trims, parts of blocks, the finder and the collector, so that each kind of
/// record is followed by each kind of crash.
const SCRIPT: &[Op] = &[
    Op::Write {
        volume: 0,
        lba: 0,
        count: 6,
        number: 10,
    },
    Op::Write {
        volume: 1,
        lba: 508,
        count: 8,
        number: 12,
    },
    Op::Flush { volume: 0 },
    Op::Write {
        volume: 0,
        lba: 2,
        count: 2,
        number: 30,
    },
    Op::Flush { volume: 0 },
    Op::Flush { volume: 0 },
    Op::Write {
        volume: 0,
        lba: 2,
        count: 3,
        number: 12,
    },
    Op::Fill {
        volume: 0,
        lba: 20,
        count: 3,
        number: 0,
    },
    Op::Find { volume: 0 },
    Op::Find { volume: 1 },
    Op::Write {
        volume: 0,
        lba: 3,
        count: 2,
        number: 50,
    },
    Op::Parts {
        volume: 1,
        lba: 509,
        number: 51,
    },
    Op::Durable {
        volume: 1,
        lba: 510,
        number: 52,
    },
    Op::Cut {
        volume: 1,
        lba: 511,
        count: 3,
    },
    Op::Flush { volume: 1 },
    Op::Collect { volume: 1 },
    Op::Checkpoint { volume: 0 },
    Op::Write {
        volume: 0,
        lba: 0,
        count: 1,
        number: 70,
    },
    Op::Flush { volume: 0 },
    Op::Collect { volume: 0 },
    Op::Fill {
        volume: 1,
        lba: 0,
        count: 5,
        number: 70,
    },
    Op::Find { volume: 1 },
    Op::Flush { volume: 1 },
    Op::Write {
        volume: 0,
        lba: 0,
        count: 4,
        number: 80,
    },
    Op::Checkpoint { volume: 1 },
    Op::Collect { volume: 1 },
    Op::Find { volume: 0 },
    Op::Write {
        volume: 1,
        lba: 0,
        count: 3,
        number: 90,
    },
];

/// Runs the script until the n-th operation; `None` if it has fewer.
fn until(n: u64, fault: Fault, settings: VolumeSettings) -> Option<World> {
    let mut world = World::with(settings);
    let open = world.open().unwrap();
    world.machine.inject(fault);
    let ended = world.run_all(&open, SCRIPT);
    if ended.is_ok() {
        return None;
    }
    assert!(world.machine.is_gone(), "operation {n}: {ended:?}");
    Some(world)
}

fn each_point(step: u64, settings: VolumeSettings, mut check: impl FnMut(u64, &World, &str)) {
    for n in (1..).step_by(usize::try_from(step).unwrap()) {
        for (fault, what) in [
            (Fault::stop(n), "before"),
            (Fault::stop(n).after(), "after"),
            (Fault::stop(n).within(1024), "within"),
        ] {
            let Some(world) = until(n, fault, settings) else {
                return;
            };
            check(n, &world, &format!("operation {n}, {what}"));
        }
    }
}

/// Tries the world after a crash: what is read, what is counted, and a second crash at once.
fn survive(world: &World, machine: env::block::fault::FaultMachine, crash: Crash, what: &str) {
    world.index.mark();
    let mut after = world.after(machine);
    let open = after.open().unwrap_or_else(|error| panic!("{what}: {error}"));
    after.compare(&open, crash, what);
    after.settle(&open, what);
    drop(open);
    // Other outcomes of the same crash begin with the same index.
    world.index.lose_since_mark();
}

#[test]
fn a_kill_at_every_operation_loses_nothing_acknowledged() {
    each_point(1, VolumeSettings::default(), |_, world, what| {
        survive(world, world.machine.process(), Crash::Kill, what);
    });
}

/// Steps of the sweep of power cuts. `ONEFOLD_SWEEP=1` tries every operation, with more outcomes.
fn sweep() -> (u64, u64) {
    match std::env::var("ONEFOLD_SWEEP") {
        Ok(_) => (1, 40),
        Err(_) => (1, 4),
    }
}

fn power_cuts(settings: VolumeSettings) {
    let (step, seeds) = sweep();
    each_point(step, settings, |n, world, what| {
        let mut cuts = vec![PowerCut::KeepAll, PowerCut::DropAll, PowerCut::TearAll];
        cuts.extend((0..seeds).map(|seed| PowerCut::Seeded(seed * 1000 + n)));
        for cut in cuts {
            let machine = world.machine.power_cut(cut);
            survive(world, machine, Crash::PowerCut, &format!("{what}, {cut:?}"));
        }
    });
}

#[test]
fn a_power_cut_at_every_operation_loses_nothing_flushed() {
    power_cuts(VolumeSettings::default());
}

#[test]
fn bytes_are_compared_and_a_power_cut_loses_nothing() {
    let settings = VolumeSettings {
        compare_bytes: true,
        ..VolumeSettings::default()
    };
    let mut world = World::with(settings);
    let open = world.open().unwrap();
    world.run_all(&open, SCRIPT).unwrap();
    world.settle(&open, "with comparison");
}
