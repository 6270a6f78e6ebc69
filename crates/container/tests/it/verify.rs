//! Deep checks report every damage.

use container::{ContainerError, CopyOf, Depth, Part, verify_digests};
use env::fault::FaultStorage;
use env::{Storage, StorageError};
use format::names;
use types::{ByteRange, ContainerKind, ObjectName, RegionIndex, SlotRange};

use crate::store::*;

fn regions() -> Vec<Vec<Vec<u8>>> {
    (0..4)
        .map(|n| (0..3).map(|m| noise(n * 10 + m, 40)).collect())
        .collect()
}

fn part(n: u32) -> Part {
    Part::Region(RegionIndex::new(n).unwrap())
}

#[test]
fn all_damages_are_listed_not_only_the_first() {
    let store = Store::new();
    let sealed = store.put(data(1), &regions());
    let rows = sealed.catalog().rows().to_vec();
    store.damage(&name(data(1), 0), |bytes| {
        bytes[3] ^= 1;
        for n in [1, 3] {
            bytes[usize::try_from(rows[n].offset).unwrap() + 5] ^= 1;
        }
    });
    for depth in [Depth::Full, Depth::Digests] {
        let found = store.containers.verify(data(1), depth).unwrap();
        let parts: Vec<Part> = found.damages.iter().map(|damage| damage.part).collect();
        assert_eq!(parts, [Part::Header, part(1), part(3)]);
        assert_eq!((found.regions, found.generation), (4, Some(generation(0))));
        assert_eq!(found.damages[1].entries, 3..6);
        if depth == Depth::Full {
            let slots = |first| vec![SlotRange::new(slot(first), 3).unwrap()];
            assert_eq!(
                (&found.damages[1].slots, &found.damages[2].slots),
                (&slots(3), &slots(9))
            );
        }
    }
    let keyless = verify_digests(&store.storage, &name(data(1), 0)).unwrap();
    assert_eq!(keyless.damages.len(), 3);
}

/// Seals and digests are right, but the fingerprints belong to another domain: each chunk is a
/// finding of its own.
#[test]
fn a_deep_check_compares_every_chunk_with_its_fingerprint() {
    let storage = FaultStorage::new();
    Store::on(storage.clone(), store_id(1), &keys(1)).put(data(1), &regions());
    let mixed = crypto::MasterKeys {
        domain: keys(9).domain,
        encryption: keys(1).encryption,
    };
    let other = Store::on(storage, store_id(1), &mixed);
    let found = other.containers.verify(data(1), Depth::Full).unwrap();
    assert_eq!(found.damages.len(), 12);
    for (number, damage) in (0..).zip(&found.damages) {
        assert_eq!(
            (damage.part, &damage.entries),
            (part(number / 3), &(number..number + 1))
        );
        assert_eq!(damage.slots, [SlotRange::one(slot(number))]);
        assert!(
            matches!(damage.error, ContainerError::FingerprintMismatch { slot: at, .. } if at == slot(number)),
            "{}",
            damage.error
        );
    }
    assert!(
        other
            .containers
            .verify(data(1), Depth::Digests)
            .unwrap()
            .is_sound()
    );
}

#[test]
fn each_copy_is_checked() {
    let id = id(ContainerKind::Recipe, 1, 1);
    let store = Store::new();
    let sealed = store.put(id, &regions());
    let at = usize::try_from(sealed.catalog().rows()[2].offset).unwrap();
    let mirror = names::mirror(id, generation(0)).unwrap();
    store.damage(&mirror, |bytes| bytes[at] ^= 1);
    let found = store.containers.verify(id, Depth::Full).unwrap();
    assert_eq!(found.damages.len(), 1);
    assert_eq!(
        (found.damages[0].copy, found.damages[0].part),
        (CopyOf::Mirror, part(2))
    );
    assert_eq!(found.regions, 8);
    assert_eq!(verify_digests(&store.storage, &mirror).unwrap().damages.len(), 1);
    assert!(verify_digests(&store.storage, &name(id, 0)).unwrap().is_sound());

    store.storage.delete(&mirror).unwrap();
    let found = store.containers.verify(id, Depth::Digests).unwrap();
    assert!(matches!(found.damages[0].error, ContainerError::Missing { .. }));
}

#[test]
fn a_missing_container_is_a_finding() {
    let store = Store::new();
    let found = store.containers.verify(data(1), Depth::Full).unwrap();
    assert_eq!(found.generation, None);
    assert!(matches!(found.damages[0].error, ContainerError::Missing { .. }));
}

#[test]
fn the_newest_generation_is_checked() {
    let store = Store::new();
    store.put(data(1), &regions());
    store.put_survivors(data(1), 1, &[(0, &noise(0, 40))]);
    store.damage(&name(data(1), 1), |bytes| bytes[100] ^= 1);
    let found = store.containers.verify(data(1), Depth::Full).unwrap();
    assert_eq!((found.generation, found.damages.len()), (Some(generation(1)), 1));
    assert_eq!(found.damages[0].slots, [SlotRange::one(slot(0))]);
}

#[test]
fn a_name_that_is_no_containers_is_refused() {
    let store = Store::new();
    let name = ObjectName::new("config/0.0").unwrap();
    assert!(matches!(
        verify_digests(&store.storage, &name),
        Err(ContainerError::NotAContainer { .. })
    ));
}

#[test]
fn an_unreadable_sector_is_a_finding_and_its_neighbours_are_checked() {
    let store = Store::new();
    let sealed = store.put(data(1), &regions());
    let rows = sealed.catalog().rows().to_vec();
    let sector = |offset| ByteRange { offset, len: 1 };
    store.damage(&name(data(1), 0), |bytes| {
        bytes[usize::try_from(rows[3].offset).unwrap()] ^= 1;
    });
    let unreadable =
        |damage: &container::Damage| matches!(damage.error, ContainerError::Storage(StorageError::Io { .. }));
    for depth in [Depth::Full, Depth::Digests] {
        store
            .storage
            .make_unreadable(&name(data(1), 0), sector(rows[1].offset));
        let found = store.containers.verify(data(1), depth).unwrap();
        let parts: Vec<Part> = found.damages.iter().map(|damage| damage.part).collect();
        assert_eq!((parts, found.regions), (vec![part(1), part(3)], 4));
        assert!(unreadable(&found.damages[0]) && !unreadable(&found.damages[1]));
        assert_eq!(found.damages[0].entries, 3..6);
        if depth == Depth::Full {
            assert_eq!(found.damages[0].slots, [SlotRange::new(slot(3), 3).unwrap()]);
        }
        for (at, of) in [
            (0, Part::Header),
            (sealed.bytes().len() as u64 - 1, Part::Trailer),
        ] {
            store.storage.make_unreadable(&name(data(1), 0), sector(at));
            let found = store.containers.verify(data(1), depth).unwrap();
            assert!(
                found.damages[0].part == of && unreadable(&found.damages[0]),
                "{found:?}"
            );
        }
    }
    store.storage.stop();
    assert!(
        store.containers.verify(data(1), Depth::Full).is_err(),
        "nobody is there to answer"
    );
}

/// A folder may have a hundred thousand containers, so its listing is worth more than a container.
#[test]
fn a_check_of_a_known_generation_lists_only_if_that_is_missing_or_unsound() {
    let recipe = |n| id(ContainerKind::Recipe, 3, n);
    let mut store = Store::new();
    for n in 0..5 {
        store.put(data(n), &regions());
        store.put(recipe(n + 5), &regions());
    }
    store.reopen();
    let check = |id| {
        let before = store.storage.counters();
        let found = store.containers.verify_known(id, Depth::Full).unwrap();
        (
            found.generation,
            found.is_sound(),
            store.storage.counters().since(&before).lists,
        )
    };
    for n in 0..5 {
        assert_eq!(check(data(n)), (Some(generation(0)), true, 0));
        assert_eq!(check(recipe(n + 5)), (Some(generation(0)), true, 0));
    }
    // Another process rewrites two containers, and deletes the older generations.
    let other = store.beside();
    for id in [data(0), data(1), recipe(5)] {
        other.put_survivors(id, 1, &[(0, &noise(0, 40))]);
        store.storage.delete(&name(id, 0)).unwrap();
    }
    store
        .storage
        .delete(&names::mirror(recipe(5), generation(0)).unwrap())
        .unwrap();
    assert_eq!(check(data(0)), (Some(generation(1)), true, 1));
    assert_eq!(
        check(data(1)),
        (Some(generation(1)), true, 0),
        "one listing for both"
    );
    assert_eq!(check(recipe(5)), (Some(generation(1)), true, 2));
    // The newer generation healed an older one that still exists.
    other.put_survivors(data(2), 1, &[(0, &noise(0, 40))]);
    store.damage(&name(data(2), 0), |bytes| bytes[100] ^= 1);
    assert_eq!(check(data(2)), (Some(generation(1)), true, 1));
    // Neither copy may be missing.
    store.storage.delete(&name(recipe(6), 0)).unwrap();
    assert_eq!(check(recipe(6)), (Some(generation(0)), false, 2));
    store
        .storage
        .delete(&names::mirror(recipe(7), generation(0)).unwrap())
        .unwrap();
    assert_eq!(check(recipe(7)), (Some(generation(0)), false, 2));
    let (generation, is_sound, _) = check(data(9));
    assert_eq!((generation, is_sound), (None, false), "no generation is listed");
}
