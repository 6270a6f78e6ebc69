//! Packing and reading give the same bytes.

use container::{CatalogCopies, Compression, ContainerBuilder, ContainerError, compress_region};
use format::container::Codec;
use proptest::prelude::*;
use types::{ContainerKind, RegionIndex};

use crate::store::*;

fn chunk() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        (any::<u64>(), 1usize..3000).prop_map(|(seed, len)| noise(seed, len)),
        (any::<u8>(), 1usize..3000).prop_map(|(byte, len)| vec![byte; len]),
        proptest::collection::vec(0u8..4, 1..2000),
    ]
}

fn compression() -> impl Strategy<Value = Compression> {
    prop_oneof![
        Just(Compression::Off),
        (-5i32..12).prop_map(|level| Compression::Auto { level }),
        (-5i32..12).prop_map(Compression::Level),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(ProptestConfig::default().cases.div_ceil(5)))]

    #[test]
    fn every_chunk_is_read_back(
        regions in proptest::collection::vec(proptest::collection::vec(chunk(), 1..12), 1..6),
        compression in compression(),
        kind in 0u8..5,
    ) {
        let mut store = Store::new();
        let id = id(ContainerKind::from_number(kind).unwrap(), 5, 9);
        let sealed = store.seal(id, 0, &regions, compression);
        store.containers.put(&sealed).unwrap();
        store.reopen();

        let view = store.containers.catalog(id).unwrap();
        prop_assert_eq!(view.object_len(), sealed.bytes().len() as u64);
        let written = sealed.catalog();
        prop_assert_eq!(view.entries(), written.entries());
        prop_assert_eq!(view.rows(), written.rows());
        let chunks: Vec<Vec<u8>> = regions.concat();
        prop_assert_eq!(&store.read_all(id).unwrap(), &chunks);

        let last = RegionIndex::new(u32::try_from(regions.len()).unwrap()).unwrap();
        let all = store.containers.read_regions(&view, RegionIndex::new(0).unwrap()..last).unwrap();
        for (region, plain) in all.iter().zip(&regions) {
            prop_assert_eq!(region.bytes(), plain.concat());
        }
        for (n, chunk) in (0u32..).zip(&chunks) {
            let fingerprint = store.containers.fingerprinter().chunk(chunk);
            let found: Vec<u32> = view.find_all(&fingerprint).map(|entry| entry.slot.get()).collect();
            let expected: Vec<u32> =
                (0u32..).zip(&chunks).filter(|(_, other)| *other == chunk).map(|(at, _)| at).collect();
            prop_assert_eq!(found, expected);
            let place = view.place_of(slot(n)).unwrap();
            let region = &all[place.region.get() as usize];
            prop_assert_eq!(region.slot_bytes(&view, slot(n)).unwrap(), chunk.as_slice());
        }
        prop_assert!(store.containers.verify(id, container::Depth::Full).unwrap().is_sound());
    }
}

#[test]
fn incompressible_regions_are_stored_raw() {
    let plain = noise(5, 128 << 10);
    for compression in [
        Compression::Off,
        Compression::Auto { level: 3 },
        Compression::Level(3),
    ] {
        let region = compress_region(plain.clone(), compression);
        assert_eq!(
            (region.codec(), region.bytes()),
            (Codec::Raw, plain.as_slice()),
            "{compression:?}"
        );
    }
    let text = b"all work and no play ".repeat(6000);
    for compression in [
        Compression::Auto { level: 3 },
        Compression::Level(3),
        Compression::Level(-3),
    ] {
        let region = compress_region(text.clone(), compression);
        assert_eq!(
            (region.codec(), region.plain_len()),
            (Codec::Zstd, text.len()),
            "{compression:?}"
        );
        assert!(region.stored_len() < text.len() / 10);
    }
    assert_eq!(
        compress_region(text.clone(), Compression::Off).codec(),
        Codec::Raw
    );
}

#[test]
fn one_place_that_shrinks_is_enough_for_auto() {
    let mut plain = noise(5, 128 << 10);
    let middle = plain.len() / 2;
    plain[middle..middle + 8192].fill(b'x');
    assert_eq!(
        compress_region(plain, Compression::Auto { level: 3 }).codec(),
        Codec::Zstd
    );
}

/// Bytes that repeat although all values are equally frequent; and bytes that never repeat, but
/// lack some values.
#[test]
fn auto_sees_repetition_and_unevenness() {
    let auto = Compression::Auto { level: 3 };
    let noise = noise(5, 128 << 10);
    let repeating: Vec<u8> = noise[..1024].iter().copied().cycle().take(noise.len()).collect();
    let uneven: Vec<u8> = noise.iter().map(|byte| byte % 200).collect();
    for plain in [repeating, uneven] {
        let region = compress_region(plain.clone(), auto);
        assert_eq!(region.codec(), Codec::Zstd);
        assert_eq!(region, compress_region(plain, Compression::Level(3)));
    }
}

#[test]
fn two_seals_of_one_content_share_no_stored_byte_run() {
    let store = Store::new();
    let one = store.seal(data(1), 0, &sample(), Compression::Off);
    let two = store.seal(data(1), 0, &sample(), Compression::Off);
    let row = one.catalog().rows()[0];
    let at = usize::try_from(row.offset).unwrap();
    assert_ne!(
        one.bytes()[at..at + 16],
        two.bytes()[at..at + 16],
        "each attempt has a salt of its own"
    );
}

#[test]
fn the_estimate_of_the_stored_length_is_close() {
    let store = Store::new();
    let mut builder = ContainerBuilder::new(data(1), generation(0));
    for n in 0..50 {
        let chunks: Vec<Vec<u8>> = (0..20).map(|m| noise(n * 100 + m, 500)).collect();
        let entries: Vec<_> = chunks.iter().map(|chunk| store.entry(chunk)).collect();
        builder.append(compress_region(chunks.concat(), Compression::Off), &entries);
    }
    let estimate = builder.stored_len();
    let real = builder.seal(&store.containers).unwrap().bytes().len() as u64;
    assert!(estimate.abs_diff(real) < real / 100, "{estimate} against {real}");
}

#[test]
#[should_panic(expected = "as long as its entries")]
fn entries_that_are_not_the_region_are_refused_at_once() {
    let store = Store::new();
    let entry = store.entry(b"four");
    ContainerBuilder::new(data(1), generation(0))
        .append(compress_region(b"five!".to_vec(), Compression::Off), &[entry]);
}

#[test]
fn a_name_that_is_taken_is_the_callers_to_know() {
    let store = Store::new();
    store.put(data(1), &sample());
    let rival = store.seal(data(1), 0, &sample(), Compression::Off);
    let lost = store.containers.put(&rival);
    assert!(matches!(lost, Err(ContainerError::AlreadyExists { container, .. }) if container == data(1)));
}

#[test]
fn catalog_copies_list_the_content_of_containers() {
    let store = Store::new();
    let views: Vec<_> = (0..5).map(|n| store.put(data(n), &sample()).catalog()).collect();
    let of = id(ContainerKind::Catalog, 3, 77);
    let mut copies = CatalogCopies::new(&store.containers, of, Compression::Level(3));
    assert!(copies.is_empty());
    views.iter().for_each(|view| copies.add(view));
    assert_eq!(copies.len(), 5);
    store
        .containers
        .put(&copies.seal(&store.containers).unwrap())
        .unwrap();

    let mut seen = Vec::new();
    store
        .containers
        .catalog_copies(of, |copy| seen.push(copy))
        .unwrap();
    assert_eq!(seen.len(), 5);
    for (copy, view) in seen.iter().zip(&views) {
        assert_eq!((copy.container, copy.generation), (view.id(), view.generation()));
        for (copied, entry) in copy.entries.iter().zip(view.entries()) {
            assert_eq!(copied.fingerprint_prefix, entry.fingerprint.prefix16());
            assert_eq!((copied.slot, copied.len), (entry.slot, entry.len));
        }
    }
}

#[test]
fn a_duplicate_slot_cannot_be_sealed() {
    let store = Store::new();
    let twice = survivor(store.entry(b"four"), slot(7));
    let mut builder = ContainerBuilder::new(data(1), generation(1));
    let region = compress_region(b"fourfour".to_vec(), Compression::Off);
    builder.append_survivors(region, &[twice, twice]);
    assert!(matches!(
        builder.seal(&store.containers),
        Err(ContainerError::Inconsistent { .. })
    ));
}
