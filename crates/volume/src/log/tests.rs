use env::{BlockDevice, Entropy, MemoryDevice, SeededEntropy};
use format::pool::header::{VolumeHeader, VolumeSettings};
use types::Lba;

use super::*;
use crate::found_log::read_log;

const EXTENTS: u32 = 8;
const POOL: PoolId = [5; 16];

fn below(entropy: &SeededEntropy, bound: u64) -> u64 {
    let mut bytes = [0; 8];
    entropy.fill(&mut bytes);
    u64::from_le_bytes(bytes) % bound
}

fn extent(number: u32) -> ExtentNumber {
    ExtentNumber::new(number).expect("a small number")
}

/// A log on a device, and what a header says of it.
struct World {
    device: MemoryDevice,
    free: FreeBlocks,
    log: LogBuffer,
    header: VolumeHeader,
    /// Times that the log turned round.
    turns: u32,
}

impl World {
    fn new() -> Self {
        let volume = VolumeId::new(3).expect("small");
        let begin = LogPosition {
            extent: extent(1),
            index: 0,
            sequence: 1,
        };
        let log = LogBuffer::resume(POOL, volume, 7, vec![begin.extent], begin, EXTENT_END, 0);
        let header = VolumeHeader {
            volume,
            counter: 1,
            name: "v".to_owned(),
            blocks: 1 << 20,
            birth: 1,
            epoch: 7,
            root: None,
            state: None,
            log: Some(begin),
            settings: VolumeSettings::default(),
        };
        Self {
            device: MemoryDevice::new(u64::from(EXTENTS) * EXTENT_BLOCKS * BLOCK_BYTES as u64),
            free: FreeBlocks::default(),
            log,
            header,
            turns: 0,
        }
    }

    /// Fills some blocks of log. Returns false if there is no room.
    fn fill(&mut self, blocks: u64) -> bool {
        for n in 0..blocks {
            self.log.take_spare(&mut self.free);
            if !self.log.has_room(0) {
                return false;
            }
            let record = Record::Cut {
                lba: Lba::new(n).expect("small"),
                count: 1,
            };
            self.log.append(&record, &mut self.free).expect("there is room");
            let before = self.log.position();
            self.log.seal(&mut self.free).expect("there is room");
            let after = self.log.position();
            self.turns += u32::from(after.extent == before.extent && after.index == 0);
        }
        self.write();
        true
    }

    fn write(&mut self) {
        for (block, bytes) in self.log.take_sealed() {
            let at = block.get() * BLOCK_BYTES as u64;
            self.device.write_at(at, &bytes[..]).expect("in memory");
        }
    }

    /// What a start finds is what was written since the last checkpoint.
    fn check(&self, what: &str) {
        let found = read_log(&self.device, POOL, &self.header).expect("a whole log");
        let begin = self.header.log.expect("a log").sequence;
        let here = self.log.position();
        let sequences: Vec<u64> = found.blocks.iter().map(|block| block.0).collect();
        assert_eq!(sequences, (begin..here.sequence).collect::<Vec<_>>(), "{what}");
        assert_eq!(found.next, here, "{what}");
        assert_eq!(found.extents, self.log.extents, "{what}");
        assert_eq!(found.limit, self.log.limit, "{what}");
    }

    /// The log as a start resumes it.
    fn start(&mut self) {
        let found = read_log(&self.device, POOL, &self.header).expect("a whole log");
        let (volume, epoch) = (self.header.volume, self.header.epoch);
        let (next, blocks) = (found.next, found.len);
        self.free.add_spare(self.log.spare());
        self.log = LogBuffer::resume(POOL, volume, epoch, found.extents, next, found.limit, blocks);
    }
}

impl FreeBlocks {
    fn add_spare(&mut self, spare: Option<ExtentNumber>) {
        if let Some(extent) = spare {
            self.add_extent(extent);
        }
    }
}

/// Checkpoints, starts and new extents in any order: a start always finds the log, and a log with
/// one extent goes on for ever as long as there are checkpoints.
#[test]
fn a_log_is_found_however_it_turned_round() {
    let mut turns = 0;
    for seed in 0..30 {
        let entropy = SeededEntropy::new(seed);
        let mut world = World::new();
        let mut plan: Option<(LogPosition, usize, u64)> = None;
        let mut others: Vec<ExtentNumber> = (2..EXTENTS).map(extent).collect();
        for step in 0..60 {
            let what = format!("seed {seed}, step {step}");
            match below(&entropy, 10) {
                0 if seed % 3 == 0 => world.free.add_spare(others.pop()),
                1 => {
                    // Other things use the free extents.
                    while let Some(extent) = world.free.take_extent() {
                        let at = block_at(extent, 0).get() * BLOCK_BYTES as u64;
                        let garbage = vec![0xa5; BLOCK_BYTES * 1024];
                        world.device.write_at(at, &garbage).expect("in memory");
                        others.push(extent);
                    }
                }
                2 if plan.is_none() => world.start(),
                3 | 4 if plan.is_none() => {
                    world.log.seal(&mut world.free).expect("nothing is open");
                    let count = world.log.extents_before_open().len();
                    plan = Some((world.log.position(), count, world.log.blocks()));
                }
                5 | 6 => {
                    if let Some((at, count, blocks)) = plan.take() {
                        world.header.log = Some(at);
                        for extent in world.log.release(at, count, blocks) {
                            world.free.add_extent(extent);
                        }
                    }
                }
                _ => {
                    let blocks = 1 + below(&entropy, 300);
                    let has_room = world.fill(blocks);
                    world.write();
                    if !has_room && plan.is_none() {
                        let count = world.log.extents_before_open().len();
                        let at = world.log.position();
                        let blocks = world.log.blocks();
                        world.header.log = Some(at);
                        for extent in world.log.release(at, count, blocks) {
                            world.free.add_extent(extent);
                        }
                        assert!(world.log.has_room(0), "{what}");
                    }
                }
            }
            world.check(&what);
        }
        turns += world.turns;
    }
    assert!(turns > 30, "{turns}");
}
