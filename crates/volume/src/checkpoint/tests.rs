use std::panic::{AssertUnwindSafe, catch_unwind};

use ddi::MemoryIndex;
use env::{Env, MemoryStorage, SeededEntropy};
use format::pool::header::VolumeSettings;

use super::*;
use crate::hooked::HookedDevice;
use crate::pool::{Pool, PoolOptions};

fn pool() -> (Arc<HookedDevice>, Pool, Arc<Volume>) {
    let device = HookedDevice::new(16 << 22);
    Pool::create(&*device, &SeededEntropy::new(7), [3; 16], "").expect("made");
    let (env, _) = Env::simulated(Arc::new(MemoryStorage::new()), 1);
    let options = PoolOptions {
        clock: env.clock,
        map_cache_bytes: 1 << 20,
    };
    let index = Arc::new(MemoryIndex::new([3; 16]));
    let pool = Pool::open(Arc::clone(&device) as _, index, &options).expect("opened");
    let settings = VolumeSettings::default();
    let volume = pool.create_volume("a", 64 << 20, settings).expect("made");
    (device, pool, volume)
}

#[test]
fn a_state_fits_its_pages_however_many_blocks_are_taken_and_not_used() {
    const EXTENTS: usize = 120;
    for pages in [1, 1000, 60_000, EXTENTS * 1024 - 20] {
        for used in [2, 3, 7, 1000] {
            let (_device, _pool, volume) = pool();
            let mut core = volume.core();
            let core = &mut *core;
            let first = 100_000;
            for number in first..first + u32::try_from(EXTENTS).expect("small") {
                core.free.add_extent(ExtentNumber::new(number).expect("in range"));
            }
            let free = core.free.len();
            let before = core.state(&[], &[]);
            let (taken, state_blocks) = take_blocks(core, pages, &before).expect("there are blocks");
            assert_eq!(taken.len(), pages);
            assert_eq!(core.free.len() + (pages + state_blocks.len()) as u64, free);
            let of_used = |number: &usize| number.is_multiple_of(used);
            let unused: Vec<BlockNumber> = (0..pages)
                .filter(|number| !of_used(number))
                .map(|number| taken[number])
                .collect();
            let state = with_free(&core.state(&[], &[]), &unused).to_bytes().len();
            let room = state_blocks.len() * STATE_PAGE_BYTES;
            assert!(
                state <= room,
                "{pages} pages, {used}: {state} bytes, room for {room}"
            );
        }
    }
}

#[test]
fn a_checkpoint_without_room_takes_no_block() {
    let (_device, _pool, volume) = pool();
    let mut core = volume.core();
    let before = core.state(&[], &[]);
    let free = usize::try_from(core.free.len()).expect("few");
    let taken = take_blocks(&mut core, free - 1, &before);
    assert!(matches!(taken, Err(VolumeError::NoSpace)));
    assert!(core.state(&[], &[]) == before);
}

#[test]
fn a_panic_in_a_checkpoint_stops_the_volume() {
    let (device, _pool, volume) = pool();
    volume.write(0, &[5; BLOCK_BYTES], true).expect("written");
    device.set(Arc::new(|_, written| {
        let is_state = |bytes: &[u8]| bytes.starts_with(b"1F-STAT\n");
        assert!(!written.is_some_and(is_state), "a defect");
        Ok(())
    }));
    let made = catch_unwind(AssertUnwindSafe(|| volume.checkpoint()));
    assert!(made.is_err(), "{made:?}");
    device.clear();
    for result in [volume.checkpoint(), volume.flush()] {
        assert!(matches!(result, Err(VolumeError::Stopped { .. })), "{result:?}");
    }
}
