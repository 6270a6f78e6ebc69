use std::sync::Arc;

use ddi::fault::{Failure, FaultyIndex};
use env::{BlockDevice, Env, FileCaching, FileDevice, MemoryDevice, MemoryStorage, SeededEntropy};
use format::pool::EXTENT_BLOCKS;
use format::pool::header::VolumeSettings;
use types::{Lba, VolumeId};

use super::*;
use crate::pool::{Pool, PoolOptions};

const BLOCK: usize = format::pool::BLOCK_BYTES;
const EXTENTS: u64 = 16;
/// Blocks that the volume has written.
const WRITTEN: u64 = 2000;
/// Blocks that the user does not write.
const OTHERS: u64 = 3000;

/// A volume whose log is in one extent and has no spare one, in a pool without a free extent.
struct World {
    pool: Pool,
    index: Arc<FaultyIndex>,
    volume: Arc<Volume>,
}

impl World {
    fn new() -> Self {
        Self::on(Arc::new(MemoryDevice::new(EXTENTS << 22)))
    }

    fn on(device: Arc<dyn BlockDevice>) -> Self {
        let options = options();
        let index = Arc::new(FaultyIndex::new([3; 16], Arc::clone(&options.clock)));
        Pool::create(&*device, &SeededEntropy::new(7), [3; 16], "").expect("made");
        let pool = Pool::open(device, Arc::clone(&index) as _, &options).expect("opened");
        let settings = VolumeSettings::default();
        let volume = pool.create_volume("a", 64 << 20, settings).expect("made");
        for lba in (0..WRITTEN).step_by(100) {
            let bytes: Vec<u8> = (lba..lba + 100).flat_map(content).collect();
            volume.write(lba * BLOCK as u64, &bytes, false).expect("written");
        }
        volume.flush_now().expect("flushed");
        volume.flush_now().expect("flushed");
        {
            // Another volume has all other extents.
            let mut table = pool.shared.table();
            let other = VolumeId::new(99).expect("small");
            table
                .grant(&*pool.shared.device, other, 1 << 20)
                .expect("granted");
        }
        let world = Self { pool, index, volume };
        let first = world.volume.core().log.position().extent;
        while world.volume.core().log.position().extent == first {
            world.fill_log(1);
        }
        // So few that the extent of the former log does not become a spare one.
        world.keep_free(60);
        world.volume.checkpoint().expect("a checkpoint");
        world.keep_free(700);
        let core = world.volume.core();
        assert!(core.log.spare().is_none() && core.log.position().index < 100);
        drop(core);
        world
    }

    /// Leaves so many blocks free. The others are lost, which does not matter here.
    fn keep_free(&self, blocks: u64) {
        let mut core = self.volume.core();
        while core.free.len() > blocks {
            core.free.take_run(1).expect("there are more");
        }
    }

    /// Fills blocks of log with records that change nothing.
    fn fill_log(&self, blocks: u64) {
        for _ in 0..blocks {
            let mut core = self.volume.core();
            let core = &mut *core;
            let record = Record::Cut {
                lba: Lba::new(OTHERS).expect("small"),
                count: 1,
            };
            core.append(&record).expect("there is room");
            core.log.seal(&mut core.free).expect("there is room");
        }
        self.volume.flush_now().expect("flushed");
    }

    /// Fills the log for as long as operations may begin.
    fn fill_log_to_its_end(&self) {
        while self.volume.core().has_log_room() {
            self.fill_log(1);
        }
    }

    /// The index does not answer the next batch.
    fn lose_answers(&self) {
        (1..=3).for_each(|call| self.index.fail_apply(call, Failure::Before));
    }

    fn checkpoints(&self) -> u64 {
        self.volume.counts().checkpoints
    }

    fn write_one(&self, lba: u64) {
        let written = self.volume.write(lba * BLOCK as u64, &content(9000 + lba), true);
        written.expect("there is room");
    }
}

fn options() -> PoolOptions {
    let (env, _) = Env::simulated(Arc::new(MemoryStorage::new()), 1);
    PoolOptions {
        clock: env.clock,
        map_cache_bytes: 1 << 20,
    }
}

fn content(number: u64) -> Vec<u8> {
    let mut block = vec![7; BLOCK];
    block[..8].copy_from_slice(&number.to_le_bytes());
    block
}

#[test]
fn a_checkpoint_that_makes_room_in_the_log_alone_is_enough_for_a_write() {
    let world = World::new();
    world.fill_log_to_its_end();
    let (free, checkpoints) = (world.volume.core().free.len(), world.checkpoints());
    assert!((600..EXTENT_BLOCKS).contains(&free), "{free}");
    assert_eq!(world.pool.shared.table().free(), 0);
    world.write_one(OTHERS + 1);
    assert_eq!(world.checkpoints(), checkpoints + 1);
    assert!(world.volume.core().free.len() < free);
}

#[test]
fn an_open_batch_leaves_room_for_checkpoints_whatever_is_written_beside_it() {
    let world = World::new();
    // Operations may begin, and fill so much of the log that a batch may not.
    while world.volume.core().has_batch_room() {
        world.fill_log(1);
    }
    assert!(world.volume.core().has_log_room());
    let checkpoints = world.checkpoints();
    world.lose_answers();
    let found = world.volume.find(0, true, &mut |_| true);
    assert!(matches!(found, Err(VolumeError::Index(_))), "{found:?}");
    assert_eq!(world.checkpoints(), checkpoints + 1, "before the batch");
    // Many writers have seen that there is room, and write their records after that.
    world.fill_log_to_its_end();
    world.fill_log(100);
    for round in 0..3 {
        world.write_one(OTHERS + round);
        assert_eq!(world.checkpoints(), checkpoints + 2 + round, "with the batch");
        world.fill_log_to_its_end();
        world.fill_log(100);
    }
    let examined = world
        .volume
        .find(0, true, &mut |_| true)
        .expect("answers")
        .examined;
    assert_eq!(examined, 3, "what was written beside the batch");
}

#[test]
fn references_of_a_batch_under_way_count_for_the_next_checkpoint() {
    let world = World::new();
    world.volume.find(0, true, &mut |_| true).expect("registered");
    world
        .volume
        .trim(0, WRITTEN * BLOCK as u64, true)
        .expect("trimmed");
    world.volume.flush_now().expect("flushed");
    world.volume.checkpoint().expect("a checkpoint");
    let before = world.volume.core().reserve();
    world.lose_answers();
    let collected = world.volume.collect(&mut |_| true);
    assert!(matches!(collected, Err(VolumeError::Index(_))), "{collected:?}");
    assert!(world.volume.core().unreferenced.is_empty());
    assert_eq!(world.volume.core().reserve(), before);
    // An answer, and then blocks that are free.
    assert_eq!(world.volume.collect(&mut |_| true).expect("answers"), 0);
    world.volume.flush_now().expect("flushed");
    assert_eq!(world.volume.core().in_batch, 0);
}

/// Trims blocks and writes them again until the log has turned round, and some more.
fn turn(volume: &Volume, numbers: &mut [u64]) {
    let (mut turned, mut checkpoints) = (0, 0);
    let mut before = volume.core().log.position();
    for n in 0..4000 {
        let (place, at) = (n % 128, n as u64 % 128 * BLOCK as u64);
        numbers[place] += 10_000;
        volume.trim(at, BLOCK as u64, false).expect("trimmed");
        volume
            .write(at, &content(numbers[place]), false)
            .expect("written");
        if n % 8 == 7 {
            volume.flush().expect("flushed");
        }
        let here = volume.core().log.position();
        assert_eq!(here.extent, before.extent);
        if here.index < before.index {
            checkpoints = volume.counts().checkpoints;
        }
        turned += u32::from(turned > 0 || here.index < before.index);
        before = here;
        if turned > 20 {
            assert_eq!(
                volume.counts().checkpoints,
                checkpoints,
                "the turn is behind the last one"
            );
            return;
        }
    }
    panic!("the log has not turned round");
}

/// The process ends without a word, and another one opens the file.
#[test]
fn a_log_that_has_turned_round_is_replayed_from_a_file() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("pool");
    let file = FileDevice::create(&path, EXTENTS << 22, FileCaching::PageCache);
    let World { pool, index, volume } = World::on(Arc::new(file.expect("a file")));
    let (mut pool, mut volume) = (pool, volume);
    let mut numbers: Vec<u64> = (0..WRITTEN).collect();
    for round in 0..3 {
        turn(&volume, &mut numbers);
        drop((pool, volume));
        let file = FileDevice::open(&path, FileCaching::PageCache).expect("the file");
        pool = Pool::open(Arc::new(file), Arc::clone(&index) as _, &options()).expect("opened");
        assert!(pool.failed().is_empty(), "{:?}", pool.failed());
        volume = pool.volume("a").expect("the volume");
        let mut read = vec![0; BLOCK];
        for (number, at) in numbers.iter().zip((0..).step_by(BLOCK)) {
            volume.read(at, &mut read).expect("read");
            assert!(read == content(*number), "round {round}, byte {at}");
        }
    }
}

#[test]
fn pages_that_writes_and_the_finder_are_about_to_change_count_for_the_next_checkpoint() {
    let world = World::new();
    let volume = &world.volume;
    let reserve = || volume.core().reserve();
    let before = reserve();
    let runs = volume.allocate(1, Purpose::First).expect("there is room");
    assert_eq!(reserve(), before + PAGE_BLOCKS);
    volume.give_up(&runs);
    assert_eq!(reserve(), before);
    world.write_one(OTHERS);
    assert_eq!(volume.core().reserved_pages, 0);
    volume.checkpoint().expect("a checkpoint");
    // The blocks of four pages, and of the one that was written last.
    let before = reserve();
    world.lose_answers();
    let found = volume.find(0, true, &mut |_| true);
    assert!(matches!(found, Err(VolumeError::Index(_))), "{found:?}");
    assert_eq!(reserve(), before + 5 * PAGE_BLOCKS);
    assert!(volume.core().dirty.is_empty());
    volume.collect(&mut |_| true).expect("answers");
    let core = volume.core();
    assert_eq!((core.batch_pages, core.dirty.len()), (0, 5));
}

/// Fills the pool with overwrites of shared blocks.
fn overwrite_until_full(world: &World) -> u64 {
    let volume = &world.volume;
    volume.find(0, true, &mut |_| true).expect("registered");
    volume.checkpoint().expect("a checkpoint");
    // Nothing comes back from the collector.
    world.pool.shared.set_unread();
    for lba in 0..WRITTEN {
        match volume.write(lba * BLOCK as u64, &content(20_000 + lba), false) {
            Ok(()) => {}
            Err(VolumeError::NoSpace) => return lba,
            Err(error) => panic!("{error}"),
        }
    }
    panic!("it is never full");
}

#[test]
fn a_pool_that_overwrites_filled_takes_trims() {
    let world = World::new();
    let written = overwrite_until_full(&world);
    assert!(written > 100, "{written}");
    let volume = &world.volume;
    let cut = volume.write_zeroes(0, 512 * BLOCK as u64, true);
    cut.expect("blocks were kept for it");
    volume
        .resize(1024 * BLOCK as u64)
        .expect("blocks were kept for it");
}

#[test]
fn a_trim_in_a_full_pool_takes_blocks_of_other_volumes_or_of_the_collector() {
    for has_giver in [true, false] {
        let world = World::new();
        let volume = &world.volume;
        volume.find(0, true, &mut |_| true).expect("registered");
        volume
            .trim(0, 100 * BLOCK as u64, true)
            .expect("there are blocks");
        volume.checkpoint().expect("a checkpoint");
        let _other = has_giver.then(|| {
            world.pool.shared.set_unread();
            let others = world
                .pool
                .shared
                .table()
                .granted(VolumeId::new(99).expect("small"));
            let mut table = world.pool.shared.table();
            let device = &*world.pool.shared.device;
            table.release(device, &others).expect("released");
            drop(table);
            let settings = VolumeSettings::default();
            let other = world.pool.create_volume("b", 1 << 20, settings);
            let other = other.expect("made");
            let other_id = VolumeId::new(98).expect("small");
            world.pool.shared.grant(other_id, 1 << 20).expect("granted");
            other
        });
        let reserve = volume.core().reserve();
        world.keep_free(reserve - 2);
        let trimmed = volume.trim(1000 * BLOCK as u64, 100 * BLOCK as u64, true);
        trimmed.unwrap_or_else(|error| panic!("with a giver: {has_giver}: {error}"));
    }
}

/// The longest list of references while requests work on blocks a part at a time.
fn longest_list(world: &World, mut request: impl FnMut(&Volume, u64)) -> usize {
    let mut longest = 0;
    for lba in (0..WRITTEN).step_by(50) {
        request(&world.volume, lba);
        longest = longest.max(world.volume.core().unreferenced.len());
    }
    longest
}

#[test]
fn requests_that_drop_references_give_some_back_if_very_many_wait() {
    const PART: usize = 50 * BLOCK;
    let max = crate::write::REFERENCES_MAX;
    let trim = |volume: &Volume, lba| {
        volume
            .trim(lba * BLOCK as u64, PART as u64, false)
            .expect("trimmed");
    };
    let world = World::new();
    world.volume.find(0, true, &mut |_| true).expect("registered");
    let longest = longest_list(&world, trim);
    assert!((max..=max + 50).contains(&longest), "trims: {longest}");
    assert!(world.volume.counts().given_back > 100);
    // If the index is away, requests go on.
    let world = World::new();
    world.volume.find(0, true, &mut |_| true).expect("registered");
    (1..=100).for_each(|call| world.index.fail_apply(call, Failure::Before));
    let applies = world.index.applies();
    longest_list(&world, trim);
    {
        let core = world.volume.core();
        assert_eq!((core.unreferenced.len() + core.in_batch) as u64, WRITTEN);
    }
    assert!((1..20).contains(&(world.index.applies() - applies)));
}

#[test]
fn overwrites_that_drop_references_give_some_back_if_very_many_wait() {
    let max = crate::write::REFERENCES_MAX;
    let world = World::on(Arc::new(MemoryDevice::new((4 * EXTENTS) << 22)));
    let volume = &world.volume;
    volume.find(0, true, &mut |_| true).expect("registered");
    // So many blocks that no overwrite needs the collector for its space.
    let others = world
        .pool
        .shared
        .table()
        .granted(VolumeId::new(99).expect("small"));
    let device = &*world.pool.shared.device;
    let mut table = world.pool.shared.table();
    table.release(device, &others).expect("released");
    drop(table);
    let longest = longest_list(&world, |volume, lba| {
        let bytes: Vec<u8> = (lba..lba + 49).flat_map(|n| content(30_000 + n)).collect();
        volume
            .write(lba * BLOCK as u64, &bytes, false)
            .expect("there is room");
        let at = (lba + 49) * BLOCK as u64;
        volume.write(at, &[9; 512], false).expect("there is room");
    });
    assert!((max - 50..=max + 50).contains(&longest), "{longest}");
}

#[test]
fn the_collector_is_due_when_very_many_references_wait() {
    let device: Arc<dyn BlockDevice> = Arc::new(MemoryDevice::new(EXTENTS << 22));
    let clock: Arc<dyn env::Clock> = Arc::new(env::SystemClock);
    let index = Arc::new(FaultyIndex::new([3; 16], Arc::clone(&clock)));
    Pool::create(&*device, &SeededEntropy::new(7), [3; 16], "").expect("made");
    let options = PoolOptions { clock, ..options() };
    let pool = Pool::open(device, index as _, &options).expect("opened");
    let pool = Arc::new(pool);
    let settings = VolumeSettings {
        interval_s: 1 << 20,
        ..VolumeSettings::default()
    };
    let volume = pool.create_volume("a", 64 << 20, settings).expect("made");
    let bytes: Vec<u8> = (0..900).flat_map(content).collect();
    volume.write(0, &bytes, true).expect("written");
    volume.find(0, true, &mut |_| true).expect("registered");
    volume.trim(0, 900 * BLOCK as u64, true).expect("trimmed");
    assert!(volume.has_many_references());
    let background = pool.start().expect("threads");
    for _ in 0..500 {
        if !volume.has_many_references() {
            break;
        }
        options.clock.sleep(std::time::Duration::from_millis(20));
    }
    background.stop();
    assert!(!volume.has_many_references());
}
