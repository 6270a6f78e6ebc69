//! Real threads: writers, readers, finder, collector, checkpoints and flushes at once.
//!
//! Each writer has blocks of its own, of which it knows what they must read as, and all write to
//! shared blocks. `ONEFOLD_THREADS_SECONDS=600` runs longer.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use ddi::{DuplicatesIndex, MemoryIndex};
use env::block::fault::{Fault, FaultMachine, PowerCut};
use env::{BlockDevice, Clock, Entropy, MemoryDevice, SeededEntropy, SystemClock};
use volume::{Pool, PoolOptions, Result, Volume, VolumeError, VolumeSettings};

use crate::model::{BLOCK, Crash, Model, content, number_of};
use crate::world::{POOL, options};

/// Pages of the map, more than the smallest cache has.
const PAGES: u64 = 90;
const BLOCKS: u64 = PAGES * 512;
/// Writers of each volume.
const WRITERS: u64 = 2;
/// Blocks in a row that have one owner.
const GROUP: u64 = 8;

struct Draw(SeededEntropy);

impl Draw {
    fn below(&self, bound: u64) -> u64 {
        let mut bytes = [0; 8];
        self.0.fill(&mut bytes);
        u64::from_le_bytes(bytes) % bound
    }
}

/// A writer with its blocks.
struct Writer {
    volume: Arc<Volume>,
    number: u64,
    draw: Draw,
    model: Model,
    /// Contents are drawn from so many.
    contents: u64,
}

impl Writer {
    /// A row of blocks of this writer: the first blocks of some page.
    fn row(&self) -> (u64, u64) {
        let page = self.draw.below(PAGES);
        let count = 1 + self.draw.below(GROUP);
        let group = self.number + WRITERS * self.draw.below(3);
        (page * 512 + group * GROUP, count)
    }

    fn step(&mut self) -> Result<()> {
        let (lba, count) = self.row();
        let at = lba * BLOCK as u64;
        let number = 1 + self.draw.below(self.contents);
        match self.draw.below(16) {
            0..6 => {
                self.model
                    .begin((lba..lba + count).map(|lba| (lba, number)).collect());
                let bytes = content(number).repeat(usize::try_from(count).unwrap());
                self.volume.write(at, &bytes, false)?;
                self.model.end();
            }
            6..8 => {
                let bytes = content(number);
                self.model.begin(vec![(lba, number)]);
                self.volume.write(at, &bytes[..512], false)?;
                self.volume.write(at + 512, &bytes[512..], false)?;
                self.model.end();
            }
            8 => {
                self.model.begin((lba..lba + count).map(|lba| (lba, 0)).collect());
                self.volume.trim(at, count * BLOCK as u64, false)?;
                self.model.end();
            }
            9 => {
                self.volume.flush()?;
                self.model.flushed();
            }
            10..12 => {
                // Blocks of all writers: each sector is whole, and says a number.
                let lba = self.draw.below(PAGES) * 512 + 400 + self.draw.below(8);
                let bytes = content(number);
                self.volume.write(lba * BLOCK as u64, &bytes, false)?;
                let mut read = vec![0; 2 * BLOCK];
                self.volume.read(lba * BLOCK as u64, &mut read)?;
                for sector in read.chunks_exact(512) {
                    let found = number_of(sector).expect("a whole sector");
                    assert!(found <= self.contents, "{found}");
                }
            }
            _ => {
                let mut read = vec![0; usize::try_from(GROUP).unwrap() * BLOCK];
                let first = lba - lba % GROUP;
                self.volume.read(first * BLOCK as u64, &mut read)?;
                self.model.reads_as(first, &read, Crash::Kill, "live");
            }
        }
        Ok(())
    }

    /// Works until it is told to stop, or the machine ends.
    fn run(mut self, stopping: &AtomicBool) -> Self {
        while !stopping.load(Ordering::Acquire) {
            match self.step() {
                Ok(()) => {}
                Err(VolumeError::NoSpace) => self.model.failed(),
                Err(VolumeError::Device(_) | VolumeError::Stopped { .. }) => break,
                Err(error) => panic!("{error}"),
            }
        }
        self
    }
}

fn pool_of(device: Arc<dyn BlockDevice>, index: &Arc<MemoryIndex>) -> Arc<Pool> {
    let options = PoolOptions {
        map_cache_bytes: 1,
        ..options()
    };
    Arc::new(Pool::open(device, Arc::clone(index) as _, &options).unwrap())
}

/// Runs all threads. `contents` small: much is shared; large: the pool becomes full.
fn run(
    pool: &Arc<Pool>,
    seed: u64,
    contents: u64,
    time: Duration,
    is_gone: &dyn Fn() -> bool,
) -> Vec<Writer> {
    let volumes = pool.volumes();
    let stopping = AtomicBool::new(false);
    let writers: Vec<Writer> = volumes
        .iter()
        .flat_map(|volume| {
            (0..WRITERS).map(move |number| Writer {
                volume: Arc::clone(volume),
                number,
                draw: Draw(SeededEntropy::new(seed * 100 + number)),
                model: Model::new(BLOCKS),
                contents,
            })
        })
        .collect();
    std::thread::scope(|scope| {
        let stopping = &stopping;
        let running: Vec<_> = writers
            .into_iter()
            .map(|writer| scope.spawn(move || writer.run(stopping)))
            .collect();
        let volumes = &volumes;
        let worker = |work: fn(&Volume) -> Result<()>| {
            scope.spawn(move || {
                while !stopping.load(Ordering::Acquire) {
                    for volume in volumes {
                        match work(volume) {
                            Ok(()) | Err(VolumeError::NoSpace) => {}
                            Err(VolumeError::Device(_) | VolumeError::Stopped { .. }) => return,
                            Err(error) => panic!("{error}"),
                        }
                    }
                }
            })
        };
        worker(|volume| volume.find(0, false, &mut |_| true).map(|_| ()));
        worker(|volume| volume.collect(&mut |_| true).map(|_| ()));
        worker(Volume::checkpoint);
        worker(|volume| {
            drop(volume.stats());
            SystemClock.sleep(Duration::from_micros(100));
            Ok(())
        });
        let begun = SystemClock.monotonic();
        while SystemClock.monotonic().saturating_sub(begun) < time && !is_gone() {
            SystemClock.sleep(Duration::from_millis(20));
        }
        stopping.store(true, Ordering::Release);
        running.into_iter().map(|writer| writer.join().unwrap()).collect()
    })
}

fn seconds() -> u64 {
    let given = std::env::var("ONEFOLD_THREADS_SECONDS").ok();
    given.and_then(|text| text.parse().ok()).unwrap_or(1)
}

fn compare(writers: &mut [Writer], pool: &Pool, crash: Crash) {
    for writer in writers {
        let volume = pool.volume(&writer.volume.name()).unwrap();
        writer.model.read_all(&volume, crash);
    }
}

/// Everything is shared and freed; the index has each content once.
fn settle(pool: &Pool, index: &MemoryIndex) {
    let volumes = pool.volumes();
    for _ in 0..2 {
        pool.drain(&volumes, &mut |_, _| true).unwrap();
    }
    let findings = pool.check(true, &mut |_| {}).unwrap().findings;
    assert!(
        findings.is_empty(),
        "{:?}",
        findings.iter().take(4).collect::<Vec<_>>()
    );
    let mut contents = std::collections::BTreeSet::new();
    for volume in &volumes {
        let mut page = vec![0; 512 * BLOCK];
        for number in 0..PAGES {
            volume.read(number * 512 * BLOCK as u64, &mut page).unwrap();
            let blocks = page
                .chunks_exact(BLOCK)
                .filter(|block| block.iter().any(|byte| *byte != 0));
            contents.extend(blocks.map(<[u8]>::to_vec));
        }
    }
    assert_eq!(index.statistics().unwrap().rows(), contents.len() as u64);
}

fn make(device: &Arc<dyn BlockDevice>, index: &Arc<MemoryIndex>) -> Arc<Pool> {
    Pool::create(&**device, &SeededEntropy::new(7), POOL, "").unwrap();
    let pool = pool_of(Arc::clone(device), index);
    for name in ["a", "b"] {
        pool.create_volume(name, BLOCKS * BLOCK as u64, VolumeSettings::default())
            .unwrap();
    }
    pool
}

#[test]
fn threads_lose_nothing_and_count_exactly() {
    // Few contents in much space, and more contents than a small pool has blocks.
    for (seed, extents, contents) in [(1, 40_u64, 300), (2, 11, 1_000_000)] {
        let device: Arc<dyn BlockDevice> = Arc::new(MemoryDevice::new(extents << 22));
        let index = Arc::new(MemoryIndex::new(POOL));
        let pool = make(&device, &index);
        let time = Duration::from_secs(seconds());
        let mut writers = run(&pool, seed, contents, time, &|| false);
        compare(&mut writers, &pool, Crash::Kill);
        settle(&pool, &index);
        compare(&mut writers, &pool, Crash::Kill);
        pool.close().unwrap();
        drop(writers);
        drop(pool);
        let pool = pool_of(device, &index);
        settle(&pool, &index);
    }
}

#[test]
fn threads_that_end_in_the_middle_lose_nothing_acknowledged() {
    let rounds = 10 * seconds();
    for round in 0..rounds {
        let machine = FaultMachine::new();
        let device: Arc<dyn BlockDevice> = Arc::new(machine.create("disk", 24 << 22));
        let index = Arc::new(MemoryIndex::new(POOL));
        let pool = make(&device, &index);
        machine.inject(Fault::stop(50 + 97 * round));
        let gone = || machine.is_gone();
        let mut writers = run(&pool, 100 + round, 200, Duration::from_secs(20), &gone);
        drop(pool);
        let (crash, after) = if round % 2 == 0 {
            (Crash::Kill, machine.process())
        } else {
            (Crash::PowerCut, machine.power_cut(PowerCut::Seeded(round)))
        };
        after.clear_faults();
        let pool = pool_of(Arc::new(after.open("disk").unwrap()), &index);
        compare(&mut writers, &pool, crash);
        settle(&pool, &index);
    }
}
