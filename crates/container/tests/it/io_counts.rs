//! Requests of reads to the storage.

use container::{Compression, TAIL_GUESS_BYTES};
use types::RegionIndex;

use crate::store::*;

fn region(n: u32) -> RegionIndex {
    RegionIndex::new(n).unwrap()
}

#[test]
fn a_catalog_is_one_read_and_a_run_of_regions_another() {
    let mut store = Store::new();
    let regions: Vec<Vec<Vec<u8>>> = (0..40).map(|n| vec![noise(n, 20_000)]).collect();
    store.put(data(1), &regions);
    store.reopen();
    let start = store.storage.counters();
    let view = store.containers.catalog(data(1)).unwrap();
    let cost = store.storage.counters().since(&start);
    assert_eq!(
        (cost.gets, cost.lists, cost.heads, cost.get_bytes),
        (1, 0, 0, TAIL_GUESS_BYTES)
    );

    let start = store.storage.counters();
    let read = store
        .containers
        .read_regions(&view, region(5)..region(25))
        .unwrap();
    let cost = store.storage.counters().since(&start);
    assert_eq!((read.len(), cost.gets, cost.get_bytes), (20, 1, 20 * 20_016));
    assert_eq!(
        store
            .containers
            .read_regions(&view, region(7)..region(7))
            .unwrap(),
        []
    );

    let start = store.storage.counters();
    store.read(data(1), 3).unwrap();
    let cost = store.storage.counters().since(&start);
    assert_eq!(
        (cost.gets, cost.get_bytes),
        (1, 20_016),
        "one chunk costs its region alone"
    );
    let stats = store.containers.stats();
    assert_eq!((stats.reads, stats.catalog_loads), (3, 1));
}

#[test]
fn a_catalog_longer_than_the_guess_is_two_reads() {
    let mut store = Store::new();
    let chunks: Vec<Vec<u8>> = (0..9_000).map(|n| noise(n, 8)).collect();
    store.put(data(1), &[chunks]);
    store.reopen();
    let start = store.storage.counters();
    let view = store.containers.catalog(data(1)).unwrap();
    let cost = store.storage.counters().since(&start);
    assert_eq!((cost.gets, cost.lists, view.entries().len()), (2, 0, 9_000));
    assert_eq!(store.read(data(1), 8_999).unwrap(), noise(8_999, 8));
}

#[test]
fn putting_writes_each_byte_once() {
    let store = Store::new();
    let sealed = store.seal(data(1), 0, &sample(), Compression::Off);
    store.containers.put(&sealed).unwrap();
    let cost = store.storage.counters();
    assert_eq!((cost.puts, cost.put_bytes), (1, sealed.bytes().len() as u64));
    assert_eq!((cost.gets, cost.lists, cost.heads, cost.barriers), (0, 0, 0, 0));
    let start = store.storage.counters();
    store.containers.catalog(data(1)).unwrap();
    assert_eq!(
        store.storage.counters().since(&start).gets,
        0,
        "its catalog is known already"
    );
}

#[test]
fn regions_between_wanted_ones_are_read_and_not_opened() {
    let mut store = Store::new();
    let regions: Vec<Vec<Vec<u8>>> = (0..6).map(|n| vec![noise(n, 2_000), vec![7; 900]]).collect();
    let rows = store.put(data(1), &regions).catalog().rows().to_vec();
    store.damage(&name(data(1), 0), |bytes| {
        bytes[usize::try_from(rows[2].offset).unwrap()] ^= 1;
    });
    store.reopen();
    let view = store.containers.catalog(data(1)).unwrap();
    let mut buffer = container::RegionBuffer::default();
    let start = store.storage.counters();
    let wanted = [region(1), region(3), region(4)];
    store
        .containers
        .read_regions_into(&view, &wanted, &mut buffer)
        .unwrap();
    let cost = store.storage.counters().since(&start);
    let span = rows[5].offset - rows[1].offset;
    assert_eq!(
        (cost.gets, cost.get_bytes),
        (1, span),
        "one read, and a damage between is nobody's"
    );
    let found: Vec<_> = buffer
        .regions()
        .map(|(index, bytes)| (index, bytes.to_vec()))
        .collect();
    let whole = |n: usize| regions[n].concat();
    assert_eq!(
        found,
        [
            (wanted[0], whole(1)),
            (wanted[1], whole(3)),
            (wanted[2], whole(4))
        ]
    );
    assert!(
        buffer.slot(&view, slot(4)).is_none(),
        "a slot of the region between"
    );
    assert!(buffer.slot(&view, slot(6)).is_some());
}
