use std::sync::atomic::{AtomicU64, Ordering};

use ddi::MemoryIndex;
use env::{BlockDevice, DeviceError, Env, MemoryDevice, MemoryStorage, SeededEntropy};
use format::pool::header::VolumeSettings;
use format::pool::record::Record;
use types::Lba;

use super::*;
use crate::hooked::HookedDevice;
use crate::pool::{Pool, PoolOptions};

const BLOCK: usize = format::pool::BLOCK_BYTES;
const EXTENTS: u64 = 16;
/// Blocks of a page of the map.
const PAGE: u64 = 512;
/// Pages that have one block each.
const PAGES: u64 = 120;

/// A pool with one volume.
struct World {
    device: Arc<dyn BlockDevice>,
    index: Arc<MemoryIndex>,
}

impl World {
    fn new(device: Arc<dyn BlockDevice>) -> Self {
        Pool::create(&*device, &SeededEntropy::new(7), [3; 16], "").expect("made");
        let index = Arc::new(MemoryIndex::new([3; 16]));
        let world = Self { device, index };
        let bytes = PAGES * PAGE * BLOCK as u64;
        let made = world.open().create_volume("a", bytes, VolumeSettings::default());
        made.expect("made");
        world
    }

    fn open(&self) -> Pool {
        let (env, _) = Env::simulated(Arc::new(MemoryStorage::new()), 1);
        let options = PoolOptions {
            clock: env.clock,
            map_cache_bytes: 1 << 20,
        };
        Pool::open(Arc::clone(&self.device), Arc::clone(&self.index) as _, &options).expect("opened")
    }
}

/// Another volume has all other extents.
fn take_all(pool: &Pool) {
    let mut table = pool.shared.table();
    let other = VolumeId::new(99).expect("small");
    table
        .grant(&*pool.shared.device, other, 1 << 20)
        .expect("granted");
}

fn content(number: u64) -> Vec<u8> {
    let mut block = vec![7; BLOCK];
    block[..8].copy_from_slice(&number.to_le_bytes());
    block
}

fn write(volume: &Volume, lba: u64, number: u64) {
    let written = volume.write(lba * BLOCK as u64, &content(number), true);
    written.expect("there is room");
}

fn reads(volume: &Volume, lba: u64, number: u64) {
    let mut read = vec![0; BLOCK];
    volume.read(lba * BLOCK as u64, &mut read).expect("read");
    assert!(read == content(number), "block {lba}");
}

/// The process ends when the log changes many pages, and the last checkpoint had so few free blocks
/// that the next one does not fit. The first block of each page stays.
fn without_blocks() -> World {
    let world = World::new(Arc::new(MemoryDevice::new(EXTENTS << 22)));
    let pool = world.open();
    let volume = pool.volume("a").expect("the volume");
    for page in 0..PAGES {
        write(&volume, page * PAGE, 1 + page);
        write(&volume, page * PAGE + 1, 1000 + page);
    }
    volume.find(0, true, &mut |_| true).expect("registered");
    take_all(&pool);
    volume.flush_now().expect("flushed");
    volume.checkpoint().expect("a checkpoint");
    // The log takes its spare extent, and gets no other one.
    let first = volume.core().log.position().extent;
    let cut = |lba| Record::Cut {
        lba: Lba::new(lba).expect("small"),
        count: 1,
    };
    while volume.core().log.position().extent == first {
        let mut core = volume.core();
        let core = &mut *core;
        core.append(&cut(PAGE - 1)).expect("there is room");
        core.log.seal(&mut core.free).expect("there is room");
    }
    volume.flush_now().expect("flushed");
    for free in [40, 90] {
        let mut core = volume.core();
        while core.free.len() > free {
            core.free.take_run(1).expect("there are more");
        }
        core.is_changed = true;
        drop(core);
        volume.checkpoint().expect("a checkpoint");
    }
    assert!(volume.core().log.spare().is_none());
    for page in 0..PAGES {
        volume
            .core()
            .append(&cut(page * PAGE + 1))
            .expect("there is room");
    }
    volume.flush_now().expect("flushed");
    world
}

fn is_whole(pool: &Pool, what: &str) {
    assert!(pool.failed().is_empty(), "{what}: {:?}", pool.failed());
    let volume = pool.volume("a").expect("the volume");
    for page in 0..PAGES {
        reads(&volume, page * PAGE, 1 + page);
        let mut read = vec![1; BLOCK];
        let at = (page * PAGE + 1) * BLOCK as u64;
        volume.read(at, &mut read).expect("read");
        assert!(read == [0; BLOCK], "{what}: page {page}");
        write(&volume, page * PAGE + 2, 5000 + page);
    }
    // Blocks that the test has lost are no concern of it.
    let findings = pool.check(true, &mut |_| {}).expect("checked").findings;
    let is_lost = |one: &crate::finding::Finding| matches!(one, crate::finding::Finding::Lost { .. });
    let others: Vec<_> = findings.iter().filter(|one| !is_lost(one)).collect();
    assert!(others.is_empty(), "{what}: {others:?}");
}

#[test]
fn a_volume_without_a_block_for_its_first_checkpoint_comes_back_when_the_pool_grows() {
    let world = without_blocks();
    let pool = world.open();
    assert_eq!(pool.failed().len(), 1, "no block at all");
    pool.grow((EXTENTS + 8) << 22).expect("grown");
    drop(pool);
    is_whole(&world.open(), "grown");
    is_whole(&world.open(), "started again");
}

#[test]
fn a_volume_uses_extents_that_it_did_not_know_for_its_first_checkpoint() {
    let world = without_blocks();
    let pool = world.open();
    assert_eq!(pool.failed().len(), 1, "no block at all");
    {
        // An extent was granted, and the process ended before the log had the record.
        let mut table = pool.shared.table();
        let others = table.granted(VolumeId::new(99).expect("small"));
        table
            .release(&*pool.shared.device, &others[..1])
            .expect("released");
        let own = VolumeId::new(1).expect("small");
        let granted = table.grant(&*pool.shared.device, own, 1).expect("granted");
        assert_eq!(granted.len(), 1);
    }
    drop(pool);
    is_whole(&world.open(), "granted");
    is_whole(&world.open(), "started again");
}

/// As after a panic of an older program in the middle of a checkpoint.
#[test]
fn an_extent_that_is_in_use_is_not_adopted() {
    let world = World::new(Arc::new(MemoryDevice::new(EXTENTS << 22)));
    let pool = world.open();
    let volume = pool.volume("a").expect("the volume");
    let extents = volume.core().credited.len();
    volume.credit(2).expect("granted");
    volume.core().credited.truncate(extents);
    for lba in 0..1500 {
        write(&volume, lba, 1 + lba);
    }
    volume.core().credited.clear();
    volume.checkpoint().expect("a checkpoint");
    let granted = pool.shared.table().granted(volume.id);
    assert!(!granted.is_empty(), "the table does not know");
    drop((volume, pool));
    let pool = world.open();
    let volume = pool.volume("a").expect("the volume");
    for lba in 2000..4000 {
        write(&volume, lba, 10_000 + lba);
    }
    for lba in 0..1500 {
        reads(&volume, lba, 1 + lba);
    }
}

/// A checkpoint stores the shorter length before the shrink fails.
#[test]
fn a_shrink_that_fails_does_not_take_effect_at_the_next_start() {
    let device = HookedDevice::new(EXTENTS << 22);
    let world = World::new(Arc::clone(&device) as _);
    let pool = world.open();
    let volume = pool.volume("a").expect("the volume");
    (0..3).for_each(|page| write(&volume, page * PAGE + 1, 1 + page));
    pool.close().expect("closed");
    drop((volume, pool));
    let pool = world.open();
    let volume = pool.volume("a").expect("the volume");
    let len = volume.len_bytes();
    // The third page cannot be read, and meanwhile there is a checkpoint.
    let (reads_before, beside) = (AtomicU64::new(0), Arc::clone(&volume));
    device.set(Arc::new(move |_, written| {
        if written.is_some() || reads_before.fetch_add(1, Ordering::SeqCst) < 2 {
            return Ok(());
        }
        beside.checkpoint().expect("a checkpoint");
        let device = "a device".to_owned();
        Err(DeviceError::NoSpace { device })
    }));
    let error = volume.resize(BLOCK as u64).expect_err("the device fails");
    assert!(matches!(error, VolumeError::Device(_)), "{error}");
    device.clear();
    assert_eq!(volume.len_bytes(), len);
    drop((volume, pool));
    let pool = world.open();
    let volume = pool.volume("a").expect("the volume");
    assert_eq!(volume.len_bytes(), len);
    reads(&volume, 2 * PAGE + 1, 3);
}
