//! Random operations with crashes in between, from seeds. `ONEFOLD_SEEDS=100000` runs more of them,
//! and `ONEFOLD_SEED_FIRST` begins elsewhere.

use ddi::DdiError;
use ddi::fault::Failure;
use env::block::fault::{Fault, PowerCut};
use env::{Entropy, SeededEntropy};
use volume::{VolumeError, VolumeSettings};

use crate::model::Crash;
use crate::world::{BLOCKS, NAMES, Op, World};

struct Draw(SeededEntropy);

impl Draw {
    fn below(&self, bound: u64) -> u64 {
        let mut bytes = [0; 8];
        self.0.fill(&mut bytes);
        u64::from_le_bytes(bytes) % bound
    }

    /// A place where operations meet: the ends of pages, and a few hot blocks.
    fn lba(&self, count: u64) -> u64 {
        let lba = match self.below(4) {
            0 => 505 + self.below(16),
            1 => BLOCKS - 1 - self.below(12),
            _ => self.below(24),
        };
        lba.min(BLOCKS - count)
    }

    fn op(&self) -> Op {
        let volume = usize::try_from(self.below(NAMES.len() as u64)).unwrap();
        let count = 1 + self.below(9);
        let (lba, number) = (self.lba(count), 1 + self.below(12));
        match self.below(20) {
            0..6 => Op::Write {
                volume,
                lba,
                count,
                number,
            },
            6 => Op::Fill {
                volume,
                lba,
                count,
                number: self.below(3),
            },
            7 => Op::Parts { volume, lba, number },
            8 => Op::Durable { volume, lba, number },
            9 => Op::Cut { volume, lba, count },
            10..13 => Op::Flush { volume },
            13..16 => Op::Find { volume },
            16..18 => Op::Collect { volume },
            _ => Op::Checkpoint { volume },
        }
    }

    fn fault(&self, n: u64) -> Fault {
        match self.below(3) {
            0 => Fault::stop(n),
            1 => Fault::stop(n).after(),
            _ => Fault::stop(n).within(512 * self.below(9)),
        }
    }

    fn cut(&self) -> PowerCut {
        match self.below(8) {
            0 => PowerCut::KeepAll,
            1 => PowerCut::DropAll,
            2 => PowerCut::TearAll,
            3 => PowerCut::Whole(self.below(u64::MAX)),
            _ => PowerCut::Seeded(self.below(u64::MAX)),
        }
    }
}

fn run(seed: u64) {
    let draw = Draw(SeededEntropy::new(seed));
    let settings = VolumeSettings {
        compare_bytes: draw.below(4) == 0,
        ..VolumeSettings::default()
    };
    let mut world = World::with(settings);
    for round in 0..1 + draw.below(4) {
        let what = format!("seed {seed}, round {round}");
        let open = world.open().unwrap_or_else(|error| panic!("{what}: {error}"));
        world.machine.inject(draw.fault(1 + draw.below(200)));
        if draw.below(3) == 0 {
            let failure = if draw.below(2) == 0 {
                Failure::Before
            } else {
                Failure::After
            };
            world.index.fail_apply(1 + draw.below(4), failure);
        }
        for _ in 0..10 + draw.below(60) {
            let op = draw.op();
            if let Err(error) = world.run(&open, op) {
                // Several lost answers in a row are an error; the batch stays open.
                if matches!(error, VolumeError::Index(DdiError::NoAnswer { .. })) {
                    continue;
                }
                assert!(world.machine.is_gone(), "{what}: {op:?}: {error}");
                break;
            }
        }
        drop(open);
        let crash = if draw.below(3) == 0 {
            Crash::Kill
        } else {
            Crash::PowerCut
        };
        let machine = match crash {
            Crash::Kill => world.machine.process(),
            Crash::PowerCut => world.machine.power_cut(draw.cut()),
        };
        machine.clear_faults();
        // Failures of several rounds in a row would be more than a batch tries again.
        world.index.clear_failures();
        world = world.after(machine);
        let open = world
            .open()
            .unwrap_or_else(|error| panic!("{what}, after it: {error}"));
        world.compare(&open, crash, &what);
        world.check(&open, &what);
        if draw.below(2) == 0 {
            world.settle(&open, &what);
        } else {
            world.write_torn(&open);
        }
    }
}

#[test]
fn random_operations_and_crashes_lose_nothing() {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let first = number("ONEFOLD_SEED_FIRST").unwrap_or(0);
    for seed in first..first + number("ONEFOLD_SEEDS").unwrap_or(150) {
        run(seed);
    }
}
