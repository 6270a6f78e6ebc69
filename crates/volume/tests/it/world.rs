//! A pool on a simulated machine, and operations on its volumes beside their models.

use std::ops::ControlFlow;
use std::sync::Arc;

use ddi::fault::FaultyIndex;
use ddi::{Bucket, ClientPosition, DuplicatesIndex};
use env::block::fault::{Fault, FaultMachine, PowerCut};
use env::{Env, ManualClock, MemoryStorage, SeededEntropy};
use types::VolumeId;
use volume::{Pool, PoolOptions, Result, Volume, VolumeSettings};

use crate::model::{BLOCK, Crash, Model, content};

/// The pool and its index.
pub(crate) const POOL: [u8; 16] = [3; 16];
pub(crate) const EXTENTS: u64 = 24;
pub(crate) const NAMES: [&str; 2] = ["a", "b"];
/// Two pages of the map, and a part of a third.
pub(crate) const BLOCKS: u64 = 1040;

/// An operation of a script.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Op {
    /// Writes blocks with successive numbers, from this one on.
    Write {
        volume: usize,
        lba: u64,
        count: u64,
        number: u64,
    },
    /// Writes one number into all these blocks.
    Fill {
        volume: usize,
        lba: u64,
        count: u64,
        number: u64,
    },
    /// Writes a block in two parts.
    Parts {
        volume: usize,
        lba: u64,
        number: u64,
    },
    /// Writes durably.
    Durable {
        volume: usize,
        lba: u64,
        number: u64,
    },
    Cut {
        volume: usize,
        lba: u64,
        count: u64,
    },
    Flush {
        volume: usize,
    },
    Find {
        volume: usize,
    },
    Collect {
        volume: usize,
    },
    Checkpoint {
        volume: usize,
    },
}

pub(crate) fn write(volume: usize, lba: u64, count: u64, number: u64) -> Op {
    Op::Write {
        volume,
        lba,
        count,
        number,
    }
}

pub(crate) fn flush(volume: usize) -> Op {
    Op::Flush { volume }
}

/// A pool on a machine.
pub(crate) struct World {
    pub(crate) machine: FaultMachine,
    pub(crate) index: Arc<FaultyIndex>,
    pub(crate) models: Vec<Model>,
    pub(crate) blocks: u64,
}

/// The pool while it is open.
pub(crate) struct Open {
    pub(crate) pool: Arc<Pool>,
    pub(crate) volumes: Vec<Arc<Volume>>,
}

/// Copies of models.
pub(crate) struct Models(Vec<Model>);

impl Models {
    pub(crate) fn compare_live(mut self, open: &Open, what: &str) {
        for (volume, model) in open.volumes.iter().zip(&mut self.0) {
            let mut read = vec![0; usize::try_from(model.blocks).unwrap() * BLOCK];
            volume.read(0, &mut read).unwrap();
            model.survived(Crash::Kill, &read, what);
        }
    }
}

pub(crate) fn options() -> PoolOptions {
    let storage = Arc::new(MemoryStorage::new());
    let (env, _): (Env, ManualClock) = Env::simulated(storage, 1);
    PoolOptions {
        clock: env.clock,
        map_cache_bytes: 1 << 20,
    }
}

impl World {
    /// A pool with two volumes.
    pub(crate) fn new() -> Self {
        Self::with(VolumeSettings::default())
    }

    pub(crate) fn with(settings: VolumeSettings) -> Self {
        Self::sized(settings, EXTENTS, BLOCKS)
    }

    /// A pool of so many extents, with two volumes of so many blocks.
    pub(crate) fn sized(settings: VolumeSettings, extents: u64, blocks: u64) -> Self {
        let index = Arc::new(FaultyIndex::new(POOL, options().clock));
        let machine = FaultMachine::new();
        let disk = machine.create("disk", extents << 22);
        Pool::create(&disk, &SeededEntropy::new(7), POOL, "").unwrap();
        let pool = Pool::open(Arc::new(disk), Arc::clone(&index) as _, &options()).unwrap();
        for name in NAMES {
            pool.create_volume(name, blocks * BLOCK as u64, settings).unwrap();
        }
        pool.close().unwrap();
        Self {
            machine,
            index,
            models: vec![Model::new(blocks); NAMES.len()],
            blocks,
        }
    }

    /// A copy of this world, whose pool was closed, with an index of its own.
    pub(crate) fn fork(&self) -> Self {
        let index = Arc::new(FaultyIndex::new(POOL, options().clock));
        let mut rows = Vec::new();
        let scanned = self.index.scan(Bucket::FIRST, &mut |row| {
            rows.push(row);
            ControlFlow::Continue(())
        });
        scanned.unwrap();
        let position = |number| {
            let client = VolumeId::new(number).unwrap();
            let (bucket, last) = (Bucket::FIRST, self.index.client(Bucket::FIRST, client).unwrap()?);
            Some(ClientPosition { bucket, client, last })
        };
        let clients: Vec<ClientPosition> = (1..9).filter_map(position).collect();
        let mut rebuild = index.rebuild().unwrap();
        rebuild.load(Bucket::FIRST, &rows).unwrap();
        rebuild.finish(&clients).unwrap();
        let world = self.after(self.machine.power_cut(PowerCut::KeepAll));
        Self { index, ..world }
    }

    /// Runs the script on copies of this world, and ends each at another operation of the device.
    /// Tries a kill and these power cuts there. Returns the number of operations.
    pub(crate) fn each_crash(
        &self,
        step: usize,
        cuts: &[PowerCut],
        script: &dyn Fn(&mut Self, &Open) -> Result<()>,
        verify: &dyn Fn(&mut Self, Crash, &str),
    ) -> u64 {
        for n in (1..).step_by(step) {
            for (fault, share) in [
                (Fault::stop(n), "before"),
                (Fault::stop(n).after(), "after"),
                (Fault::stop(n).within(1024), "within"),
            ] {
                let mut world = self.fork();
                let open = world.open().unwrap();
                world.machine.inject(fault);
                let ended = script(&mut world, &open);
                if ended.is_ok() && !world.machine.is_gone() {
                    return n;
                }
                assert!(world.machine.is_gone(), "operation {n}: {ended:?}");
                drop(open);
                world.index.mark();
                let kill = (Crash::Kill, world.machine.process());
                let cuts = cuts.iter().map(|cut| {
                    let cut = match cut {
                        PowerCut::Seeded(seed) => PowerCut::Seeded(seed * 1000 + n),
                        other => *other,
                    };
                    (Crash::PowerCut, world.machine.power_cut(cut))
                });
                let machines: Vec<_> = cuts.chain([kill]).collect();
                for (number, (crash, machine)) in machines.into_iter().enumerate() {
                    let what = format!("operation {n}, {share}, outcome {number} ({crash:?})");
                    verify(&mut world.after(machine), crash, &what);
                    world.index.lose_since_mark();
                }
            }
        }
        unreachable!("scripts end")
    }

    /// Opens, compares, settles.
    pub(crate) fn recovers(&mut self, crash: Crash, what: &str) {
        let open = self.open().unwrap_or_else(|error| panic!("{what}: {error}"));
        self.compare(&open, crash, what);
        self.settle(&open, what);
    }

    /// The models as they are, to compare without a change of them.
    pub(crate) fn clone_models(&self) -> Models {
        Models(self.models.clone())
    }

    /// Opens, also if a volume cannot be recovered.
    pub(crate) fn try_open(&self) -> Result<Pool> {
        let disk = Arc::new(self.machine.open("disk").unwrap());
        Pool::open(disk, Arc::clone(&self.index) as _, &options())
    }

    /// Opens after the newer or the older copy of a block of metadata rotted. The older one may be
    /// that of another state: then it must not be believed.
    pub(crate) fn recovers_or_reverts(&mut self, what: &str) {
        let pool = self.try_open().unwrap_or_else(|error| panic!("{what}: {error}"));
        drop(pool);
    }

    /// Runs operations, and closes the pool.
    pub(crate) fn prepare(&mut self, script: &[Op]) {
        let open = self.open().unwrap();
        self.run_all(&open, script).unwrap();
        open.pool.close().unwrap();
    }

    pub(crate) fn open(&self) -> Result<Open> {
        let disk = Arc::new(self.machine.open("disk").unwrap());
        let pool = Pool::open(disk, Arc::clone(&self.index) as _, &options())?;
        assert!(pool.failed().is_empty(), "{:?}", pool.failed());
        // A script may have removed one.
        let volumes = NAMES.iter().filter_map(|name| pool.volume(name).ok());
        let volumes = volumes.collect();
        let pool = Arc::new(pool);
        Ok(Open { pool, volumes })
    }

    /// Runs one operation on the open pool.
    pub(crate) fn run(&mut self, open: &Open, op: Op) -> Result<()> {
        let models = &mut self.models;
        match op {
            Op::Write {
                volume,
                lba,
                count,
                number,
            } => {
                let writes: Vec<(u64, u64)> = (0..count).map(|n| (lba + n, number + n)).collect();
                let bytes: Vec<u8> = writes.iter().flat_map(|(_, number)| content(*number)).collect();
                models[volume].begin(writes);
                open.volumes[volume].write(lba * BLOCK as u64, &bytes, false)?;
                models[volume].end();
            }
            Op::Fill {
                volume,
                lba,
                count,
                number,
            } => {
                models[volume].begin((0..count).map(|n| (lba + n, number)).collect());
                let bytes = content(number).repeat(usize::try_from(count).unwrap());
                open.volumes[volume].write(lba * BLOCK as u64, &bytes, false)?;
                models[volume].end();
            }
            Op::Parts { volume, lba, number } => {
                models[volume].begin(vec![(lba, number)]);
                let (at, bytes) = (lba * BLOCK as u64, content(number));
                open.volumes[volume].write(at, &bytes[..1536], false)?;
                open.volumes[volume].write(at + 1536, &bytes[1536..], false)?;
                models[volume].end();
            }
            Op::Durable { volume, lba, number } => {
                models[volume].begin(vec![(lba, number)]);
                open.volumes[volume].write(lba * BLOCK as u64, &content(number), true)?;
                models[volume].end();
                models[volume].flushed();
            }
            Op::Cut { volume, lba, count } => {
                models[volume].begin((0..count).map(|n| (lba + n, 0)).collect());
                let (at, len) = (lba * BLOCK as u64, count * BLOCK as u64);
                open.volumes[volume].write_zeroes(at, len, false)?;
                models[volume].end();
            }
            Op::Flush { volume } => {
                open.volumes[volume].flush()?;
                models[volume].flushed();
            }
            Op::Find { volume } => {
                open.volumes[volume].find(0, true, &mut |_| true)?;
            }
            Op::Collect { volume } => {
                open.volumes[volume].collect(&mut |_| true)?;
            }
            Op::Checkpoint { volume } => open.volumes[volume].checkpoint()?,
        }
        Ok(())
    }

    /// Runs a script to its end, or to the machine's.
    pub(crate) fn run_all(&mut self, open: &Open, script: &[Op]) -> Result<()> {
        script.iter().try_for_each(|op| self.run(open, *op))
    }

    /// The same world after a crash.
    pub(crate) fn after(&self, machine: FaultMachine) -> Self {
        Self {
            machine,
            index: Arc::clone(&self.index),
            models: self.models.clone(),
            blocks: self.blocks,
        }
    }

    /// Compares all volumes with their models after a crash.
    pub(crate) fn compare(&mut self, open: &Open, crash: Crash, what: &str) {
        for (volume, model) in open.volumes.iter().zip(&mut self.models) {
            let mut read = vec![0; usize::try_from(model.blocks).unwrap() * BLOCK];
            volume.read(0, &mut read).unwrap();
            model.survived(crash, &read, what);
        }
    }

    /// Writes the blocks again that a power cut tore, as their user does.
    pub(crate) fn write_torn(&mut self, open: &Open) {
        for (volume, model) in open.volumes.iter().zip(&mut self.models) {
            for lba in model.torn() {
                model.begin(vec![(lba, 5)]);
                volume.write(lba * BLOCK as u64, &content(5), false).unwrap();
                model.end();
            }
        }
    }

    /// Shares and frees everything, and checks that nothing is lost or counted wrongly (V3, V6,
    /// D9).
    pub(crate) fn settle(&mut self, open: &Open, what: &str) {
        self.write_torn(open);
        self.check(open, what);
        for _ in 0..2 {
            for volume in &open.volumes {
                volume.find(0, true, &mut |_| true).unwrap();
                volume.flush().unwrap();
                volume.flush().unwrap();
            }
            for volume in &open.volumes {
                volume.collect(&mut |_| true).unwrap();
                volume.flush().unwrap();
                volume.flush().unwrap();
            }
        }
        self.check(open, what);
        for model in &mut self.models {
            model.flushed();
        }
        let rows = self.index.statistics().unwrap().rows();
        let contents = Model::contents(&self.models);
        let pending: Vec<_> = open.volumes.iter().map(|volume| volume.stats()).collect();
        assert_eq!(
            rows,
            contents.len() as u64,
            "{what}: rows of the index; {pending:?}"
        );
        self.compare(open, Crash::Kill, what);
    }

    pub(crate) fn check(&self, open: &Open, what: &str) {
        let checked = open.pool.check(true, &mut |_| {}).unwrap();
        let (count, first) = (checked.findings.len(), checked.findings.iter().take(4));
        assert_eq!(count, 0, "{what}: {:#?}", first.collect::<Vec<_>>());
    }
}

/// Volumes with shared blocks.
pub(crate) fn shared() -> World {
    let mut world = World::new();
    world.prepare(&[
        write(0, 0, 20, 10),
        write(1, 505, 20, 15),
        flush(0),
        flush(1),
        Op::Find { volume: 0 },
        Op::Find { volume: 1 },
        flush(0),
        flush(1),
    ]);
    world
}
