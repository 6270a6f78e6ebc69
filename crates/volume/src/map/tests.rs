use env::MemoryDevice;
use format::pool::entry::MapEntry;

use super::*;

/// The first block of a page.
const FIRST: u64 = 1024;

fn block(number: u64) -> BlockNumber {
    BlockNumber::new(number).expect("a small number")
}

/// A device with stored pages, each of one entry, and the references to them.
fn stored(numbers: &[u64]) -> (Arc<MemoryDevice>, UpperPages) {
    let device = Arc::new(MemoryDevice::new(8 << 20));
    let mut upper = UpperPages::default();
    for (place, number) in (FIRST..).zip(numbers) {
        let leaf = Leaf::new(*number);
        leaf.set(
            5,
            MapEntry::Private {
                block: block(2000 + *number),
                birth: 1,
            },
        );
        let mut page = [0; BLOCK_BYTES];
        assert!(leaf.to_page(&mut page));
        device.write_at(place * env::BLOCK_BYTES, &page).expect("written");
        let reference = PageReference::to_page(block(place), &page).expect("a reference");
        let (gib, index) = split(*number);
        upper.second.entry(gib).or_default().set(index, Some(reference));
    }
    (device, upper)
}

#[test]
fn eviction_keeps_pages_that_are_dirty_or_held() {
    // Pages of one shard.
    let numbers: Vec<u64> = (0..400).map(|n| n * SHARDS as u64).collect();
    let (device, upper) = stored(&numbers);
    let map = Map::new(device, upper, 1);
    let (dirty, held) = (map.leaf(0).expect("read"), map.leaf(SHARDS as u64).expect("read"));
    let changed = MapEntry::Private {
        block: block(1999),
        birth: 1,
    };
    let dirty = dirty.expect("stored");
    dirty.set_dirty();
    dirty.set(7, changed);
    drop(dirty);
    let held = held.expect("stored");
    held.set(7, changed);
    for number in &numbers {
        let leaf = map.leaf(*number).expect("read").expect("stored");
        assert_eq!(leaf.get(5).block(), Some(block(2000 + *number)));
    }
    assert!(map.cached() <= map.leaves_max() + 1, "{}", map.cached());
    let again = map.leaf(0).expect("read").expect("stored");
    assert_eq!(again.get(7), changed, "a dirty page is never dropped");
    let again = map.leaf(SHARDS as u64).expect("read").expect("stored");
    assert!(
        Arc::ptr_eq(&again, &held),
        "a page that is held is the same for all"
    );
}

#[test]
fn a_page_that_is_not_the_one_referred_to_is_an_error() {
    let (device, upper) = stored(&[3, 4]);
    device
        .write_at(FIRST * env::BLOCK_BYTES, &[1; BLOCK_BYTES])
        .expect("written");
    let map = Map::new(device, upper, 1 << 20);
    match map.leaf(3) {
        Err(VolumeError::Damaged { block: at, .. }) => assert_eq!(at, block(FIRST)),
        other => panic!("{other:?}"),
    }
    assert!(map.leaf(4).expect("read").is_some());
    assert!(map.leaf(5).expect("read").is_none());
}

#[test]
fn numbers_are_those_of_stored_and_cached_pages_in_order() {
    let numbers = [0, 3, 511, 512, 700, 5000, 300_000];
    let (device, upper) = stored(&numbers);
    let map = Map::new(device, upper, 1 << 20);
    let new = [1, 513, 100_000];
    for number in new {
        map.leaf_or_new(number).expect("made");
    }
    let mut all: Vec<u64> = numbers.iter().chain(&new).copied().collect();
    all.sort_unstable();
    for from in [0, 1, 512, 513, 701, 300_001] {
        for to in [0, 512, 514, 5000, u64::MAX / 512] {
            for max in [1, 2, 3, 100] {
                let expected = all.iter().filter(|number| (from..to).contains(*number));
                let expected: Vec<u64> = expected.take(max).copied().collect();
                assert_eq!(
                    map.numbers(from, to, max),
                    expected,
                    "{from}..{to}, at most {max}"
                );
            }
        }
    }
}

/// A page may become stored and leave the cache while somebody asks for the numbers.
#[test]
fn a_page_that_leaves_the_cache_meanwhile_is_among_the_numbers() {
    // Of the last shard.
    const NUMBER: u64 = SHARDS as u64 - 1;
    let (device, mut upper) = stored(&[NUMBER]);
    let reference = upper.second.get_mut(&0).expect("stored").get(SHARDS - 1);
    let map = Map::new(device, UpperPages::default(), 1 << 20);
    map.leaf_or_new(NUMBER).expect("made");
    std::thread::scope(|scope| {
        let mut shard = map.shard(NUMBER);
        let numbers = scope.spawn(|| map.numbers(0, 1000, 10));
        // It waits for the shard, and has looked at all that comes before.
        env::Clock::sleep(&env::SystemClock, std::time::Duration::from_millis(200));
        let mut upper = map.upper_mut();
        upper.second.entry(0).or_default().set(SHARDS - 1, reference);
        shard.clear();
        drop((upper, shard));
        assert_eq!(numbers.join().expect("no panic"), [NUMBER]);
    });
}
