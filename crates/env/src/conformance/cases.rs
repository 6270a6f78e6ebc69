//! The cases, one promise of the contract each.

use std::collections::BTreeSet;
use std::sync::Barrier;
use std::thread;

use types::{ByteRange, OBJECT_NAME_BYTES_MAX, ObjectName};

use super::name;
use crate::{LockState, Storage, StorageError};

const CREATORS: u8 = 32;

/// Bytes that no two places of the object share by accident.
fn bytes(len: u32) -> Vec<u8> {
    let words = (0..len.div_ceil(4)).flat_map(|word| word.wrapping_mul(2_654_435_761).to_le_bytes());
    words.take(len as usize).collect()
}

fn put(storage: &dyn Storage, name: &ObjectName, bytes: &[u8]) {
    storage.put(name, &[bytes]).expect("a new object can be put");
}

fn get(storage: &dyn Storage, name: &ObjectName) -> Vec<u8> {
    storage.get(name).expect("an object that was put can be read")
}

#[track_caller]
fn assert_not_found<T: std::fmt::Debug>(outcome: Result<T, StorageError>, wanted: &ObjectName) {
    match outcome {
        Err(StorageError::NotFound { name }) => assert_eq!(&name, wanted),
        other => panic!("{wanted} is not there, but: {other:?}"),
    }
}

#[track_caller]
fn assert_exists(outcome: Result<(), StorageError>, wanted: &ObjectName) {
    match outcome {
        Err(StorageError::AlreadyExists { name }) => assert_eq!(&name, wanted),
        other => panic!("{wanted} is there already, but: {other:?}"),
    }
}

pub(super) fn one_of_many_creators_wins(storage: &dyn Storage, folder: &str) {
    for round in 0..8 {
        let name = name(folder, &format!("deep/er/{round}"));
        let start = Barrier::new(usize::from(CREATORS));
        let winners: Vec<u8> = thread::scope(|scope| {
            let creator = |creator: u8| {
                let (name, start) = (&name, &start);
                scope.spawn(move || {
                    let own = vec![creator; 1000 + usize::from(creator)];
                    start.wait();
                    match storage.put(name, &[&own[..500], &own[500..]]) {
                        Ok(()) => {
                            assert_eq!(get(storage, name), own, "the winner reads its own bytes at once");
                            Some(creator)
                        }
                        outcome => {
                            assert_exists(outcome, name);
                            None
                        }
                    }
                })
            };
            let threads: Vec<_> = (0..CREATORS).map(creator).collect();
            threads
                .into_iter()
                .filter_map(|thread| thread.join().expect("no creator panics"))
                .collect()
        });
        let [winner] = winners[..] else {
            panic!("{} of {CREATORS} creators won {name}", winners.len())
        };
        assert_eq!(get(storage, &name), vec![winner; 1000 + usize::from(winner)]);
    }
}

pub(super) fn what_was_put_is_read(storage: &dyn Storage, folder: &str) {
    let name = name(folder, "some/object.0");
    let content = bytes(100_000);
    storage
        .put(
            &name,
            &[&content[..1], &[], &content[1..60_000], &content[60_000..]],
        )
        .expect("put");
    assert_eq!(get(storage, &name), content);
    assert_eq!(&storage.map(&name).expect("map")[..], content);
    let map = storage.map(&name).expect("map");
    assert_eq!(map.clone().len(), content.len(), "maps are shared");
    assert_eq!(storage.head(&name).expect("head").len, 100_000);
}

pub(super) fn an_object_may_be_empty(storage: &dyn Storage, folder: &str) {
    for (rest, parts) in [("none", &[][..]), ("empty", &[&[][..], &[][..]][..])] {
        let name = name(folder, rest);
        storage.put(&name, parts).expect("put");
        assert_eq!(get(storage, &name), b"");
        assert_eq!(storage.map(&name).expect("map").len(), 0);
        assert_eq!(
            storage
                .get_range(&name, ByteRange { offset: 0, len: 0 })
                .expect("range"),
            b""
        );
        assert_eq!(storage.get_tail(&name, 10).expect("tail"), (Vec::new(), 0));
        assert_eq!(storage.head(&name).expect("head").len, 0);
        assert_exists(storage.put(&name, &[b"x"]), &name);
    }
}

pub(super) fn an_object_may_be_large(storage: &dyn Storage, folder: &str) {
    let name = name(folder, "large");
    let content = bytes((8 << 20) + 1);
    put(storage, &name, &content);
    assert!(get(storage, &name) == content);
    assert!(storage.map(&name).expect("map")[..] == content);
    let range = ByteRange {
        offset: (4 << 20) - 3,
        len: 70_000,
    };
    let expected = &content[(4 << 20) - 3..][..70_000];
    assert!(storage.get_range(&name, range).expect("range") == expected);
}

pub(super) fn an_object_may_have_many_parts(storage: &dyn Storage, folder: &str) {
    let name = name(folder, "parts");
    let content = bytes(30_000);
    // More than a system takes in one call, and empty ones between them.
    let parts: Vec<&[u8]> = content.chunks(7).flat_map(|part| [part, &[]]).collect();
    assert!(parts.len() > 4096);
    storage.put(&name, &parts).expect("put");
    assert_eq!(get(storage, &name), content);
}

pub(super) fn an_object_is_never_overwritten(storage: &dyn Storage, folder: &str) {
    let name = name(folder, "once");
    put(storage, &name, b"first");
    let before = storage.head(&name).expect("head");
    for other in [&b"second"[..], b"", b"first"] {
        assert_exists(storage.put(&name, &[other]), &name);
    }
    assert_eq!(get(storage, &name), b"first");
    assert_eq!(storage.head(&name).expect("head"), before);
    assert_eq!(storage.list(folder).expect("list"), [before]);
}

pub(super) fn ranges_are_exact(storage: &dyn Storage, folder: &str) {
    let name = name(folder, "ranged");
    let content = bytes(1000);
    put(storage, &name, &content);
    for (offset, len) in [
        (0, 1000),
        (0, 1),
        (999, 1),
        (1, 998),
        (0, 0),
        (500, 0),
        (1000, 0),
        (437, 211),
    ] {
        let found = storage.get_range(&name, ByteRange { offset, len });
        let found = found.unwrap_or_else(|error| panic!("{len} bytes from {offset} of 1000: {error}"));
        let from = usize::try_from(offset).expect("small");
        assert_eq!(found, content[from..from + usize::try_from(len).expect("small")]);
    }
    for (offset, len) in [
        (0, 1001),
        (999, 2),
        (1000, 1),
        (1001, 0),
        (2000, 10),
        (0, u64::MAX),
        (u64::MAX, 1),
    ] {
        let range = ByteRange { offset, len };
        match storage.get_range(&name, range) {
            Err(StorageError::PastEnd {
                name: found,
                len: 1000,
                end,
            }) => {
                assert_eq!((found, end), (name.clone(), range.end()));
            }
            other => panic!("{len} bytes from {offset} of 1000: {other:?}"),
        }
    }
}

pub(super) fn tails_are_exact(storage: &dyn Storage, folder: &str) {
    let name = name(folder, "tailed");
    let content = bytes(1000);
    put(storage, &name, &content);
    for (len, from) in [
        (0, 1000),
        (1, 999),
        (300, 700),
        (1000, 0),
        (1001, 0),
        (u64::MAX, 0),
    ] {
        assert_eq!(
            storage.get_tail(&name, len).expect("tail"),
            (content[from..].to_vec(), 1000)
        );
    }
}

pub(super) fn head_and_list_agree(storage: &dyn Storage, folder: &str) {
    for (rest, len) in [("a", 3), ("b/c", 0), ("b/d", 70_000)] {
        let name = name(folder, rest);
        put(storage, &name, &bytes(len));
        let head = storage.head(&name).expect("head");
        assert_eq!((&head.name, head.len), (&name, u64::from(len)));
        let listed = storage.list(folder).expect("list");
        assert_eq!(listed.into_iter().find(|meta| meta.name == name), Some(head));
    }
}

pub(super) fn lists_are_sorted_and_by_folder(storage: &dyn Storage, folder: &str) {
    // In the order of their bytes: '-' before '.' before '/' before digits before letters.
    let sorted = [
        "a-b/1", "a.b/1", "a/1", "a/1.0", "a/10", "a/b-c", "a/b/1", "a/b/2", "a/c", "a0", "ab/1",
    ];
    for (index, rest) in sorted
        .iter()
        .enumerate()
        .map(|(i, _)| (i, sorted[(i * 7) % sorted.len()]))
    {
        put(storage, &name(folder, rest), &vec![0; index]);
        let names = names_of(storage, folder);
        assert!(
            names.contains(&name(folder, rest)),
            "what was put is listed at once"
        );
    }
    let all: Vec<ObjectName> = sorted.iter().map(|rest| name(folder, rest)).collect();
    assert_eq!(names_of(storage, folder), all);
    for inner in ["a", "a/b", "a-b", "ab"] {
        let inside = |rest: &&&str| rest.strip_prefix(inner).is_some_and(|rest| rest.starts_with('/'));
        let expected: Vec<ObjectName> = sorted
            .iter()
            .filter(inside)
            .map(|rest| name(folder, rest))
            .collect();
        assert_eq!(
            names_of(storage, &format!("{folder}/{inner}")),
            expected,
            "in {inner}"
        );
    }
    let whole = names_of(storage, "");
    assert!(whole.is_sorted(), "the whole storage is listed in order");
    assert_eq!(whole.iter().filter(|name| all.contains(name)).count(), all.len());
}

fn names_of(storage: &dyn Storage, folder: &str) -> Vec<ObjectName> {
    storage
        .list(folder)
        .expect("list")
        .into_iter()
        .map(|meta| meta.name)
        .collect()
}

pub(super) fn folders_are_listed_without_their_objects(storage: &dyn Storage, folder: &str) {
    for rest in ["x/1", "x/2", "y/deep/er/1", "z", "a-b/1", "a/1"] {
        put(storage, &name(folder, rest), b"");
    }
    assert_eq!(
        storage.list_folders(folder).expect("list"),
        ["a", "a-b", "x", "y"]
    );
    assert_eq!(
        storage.list_folders(&format!("{folder}/y")).expect("list"),
        ["deep"]
    );
    assert_eq!(
        storage.list_folders(&format!("{folder}/x")).expect("list"),
        Vec::<String>::new()
    );
    assert!(
        storage
            .list_folders("")
            .expect("list")
            .contains(&folder.to_owned())
    );
}

pub(super) fn a_missing_folder_is_empty_and_an_impossible_one_an_error(storage: &dyn Storage, folder: &str) {
    put(storage, &name(folder, "file"), b"");
    for missing in [
        format!("{folder}/nothing"),
        format!("{folder}/file"),
        "no-such-folder".to_owned(),
    ] {
        assert_eq!(storage.list(&missing).expect("a missing folder is empty"), []);
        assert_eq!(
            storage.list_folders(&missing).expect("a missing folder is empty"),
            Vec::<String>::new()
        );
    }
    // A mistake of the caller's must not pass for "nothing there".
    for wrong in [
        format!("{folder}/"),
        "/".to_owned(),
        "..".to_owned(),
        ".tmp".to_owned(),
        "A".to_owned(),
    ] {
        assert!(storage.list(&wrong).is_err(), "{wrong:?} is no folder");
        assert!(storage.list_folders(&wrong).is_err(), "{wrong:?} is no folder");
    }
}

pub(super) fn every_name_is_taken(storage: &dyn Storage, folder: &str) {
    let deepest = "d/".repeat((OBJECT_NAME_BYTES_MAX - folder.len() - 2) / 2);
    let names = [
        "abcdefghijklmnopqrstuvwxyz".to_owned(),
        "0123456789".to_owned(),
        "_".to_owned(),
        "-".to_owned(),
        "--".to_owned(),
        "-.".to_owned(),
        "a..b".to_owned(),
        "a.".to_owned(),
        "a-_.b/c-_.d".to_owned(),
        "l".repeat(OBJECT_NAME_BYTES_MAX - folder.len() - 1),
        format!("{deepest}e"),
    ];
    for (index, rest) in names.iter().enumerate() {
        put(storage, &name(folder, rest), &[u8::try_from(index).expect("few")]);
    }
    for (index, rest) in names.iter().enumerate() {
        assert_eq!(
            get(storage, &name(folder, rest)),
            [u8::try_from(index).expect("few")]
        );
    }
    let expected: BTreeSet<ObjectName> = names.iter().map(|rest| name(folder, rest)).collect();
    assert_eq!(
        names_of(storage, folder),
        expected.into_iter().collect::<Vec<_>>()
    );
}

pub(super) fn what_is_deleted_is_gone(storage: &dyn Storage, folder: &str) {
    let (gone, stays) = (name(folder, "f/gone"), name(folder, "f/stays"));
    put(storage, &gone, b"1");
    put(storage, &stays, b"2");
    let mapped = storage.map(&gone).expect("map");
    storage.delete(&gone).expect("delete");
    assert_not_found(storage.get(&gone), &gone);
    assert_not_found(storage.delete(&gone), &gone);
    assert_eq!(names_of(storage, folder), std::slice::from_ref(&stays));
    assert_eq!(&mapped[..], b"1", "who has mapped it keeps it");
    storage.put(&gone, &[b"again"]).expect("the name is free");
    assert_eq!(get(storage, &gone), b"again");
    assert_eq!(get(storage, &stays), b"2");
    storage.barrier().expect("barrier");
}

pub(super) fn what_is_missing_is_not_found(storage: &dyn Storage, folder: &str) {
    put(storage, &name(folder, "there"), b"");
    for rest in ["missing", "no/such/folder", "there/below", "ther"] {
        let name = name(folder, rest);
        assert_not_found(storage.get(&name), &name);
        assert_not_found(storage.get_range(&name, ByteRange { offset: 0, len: 1 }), &name);
        assert_not_found(storage.get_range(&name, ByteRange { offset: 0, len: 0 }), &name);
        assert_not_found(storage.get_tail(&name, 1), &name);
        assert_not_found(storage.get_tail(&name, 0), &name);
        assert_not_found(storage.map(&name), &name);
        assert_not_found(storage.head(&name), &name);
        assert_not_found(storage.delete(&name), &name);
    }
}

pub(super) fn barriers_and_puts_at_once(storage: &dyn Storage, folder: &str) {
    storage.barrier().expect("a barrier over nothing");
    thread::scope(|scope| {
        for writer in 0..4 {
            scope.spawn(move || {
                for object in 0..16 {
                    put(
                        storage,
                        &name(folder, &format!("{writer}/{object}")),
                        &bytes(object),
                    );
                    if object % 5 == writer {
                        storage.barrier().expect("barrier");
                    }
                }
            });
        }
    });
    storage.barrier().expect("barrier");
    assert_eq!(storage.list(folder).expect("list").len(), 64);
}

pub(super) fn a_lock_has_one_holder(storage: &dyn Storage, folder: &str) {
    let (lock, other) = (name(folder, "1/lock"), name(folder, "2/lock"));
    assert_eq!(
        storage.lock_state(&lock).expect("state"),
        LockState::Unknown,
        "there is no such lock"
    );
    storage
        .drop_lock(&lock)
        .expect("dropping what is not there does nothing");
    let Some(held) = storage.lock(&lock).expect("lock") else {
        assert_eq!(
            storage.lock_state(&lock).expect("state"),
            LockState::Unknown,
            "there are no locks"
        );
        return;
    };
    assert_eq!(storage.lock_state(&lock).expect("state"), LockState::Held);
    assert!(matches!(storage.lock(&lock), Err(StorageError::Locked { name }) if name == lock));
    let second = storage
        .lock(&other)
        .expect("locks do not meddle with one another");
    drop(held);
    assert_eq!(storage.lock_state(&lock).expect("state"), LockState::Free);
    assert_eq!(storage.lock_state(&other).expect("state"), LockState::Held);
    let held = storage.lock(&lock).expect("what was freed can be taken");
    assert_eq!(storage.lock_state(&lock).expect("state"), LockState::Held);
    drop((held, second));
    storage.drop_lock(&lock).expect("drop");
    assert_eq!(storage.lock_state(&lock).expect("state"), LockState::Unknown);
    assert_eq!(storage.list(folder).expect("list"), [], "locks are no objects");

    let start = Barrier::new(usize::from(CREATORS));
    let winners = thread::scope(|scope| {
        let (start, lock) = (&start, &lock);
        let take = || {
            start.wait();
            let taken = storage.lock(lock);
            start.wait();
            taken.is_ok()
        };
        let threads: Vec<_> = (0..CREATORS).map(|_| scope.spawn(take)).collect();
        threads
            .into_iter()
            .map(|t| t.join().expect("no taker panics"))
            .filter(|won| *won)
            .count()
    });
    assert_eq!(winners, 1, "of {CREATORS} takers of a lock");
    assert_eq!(storage.lock_state(&lock).expect("state"), LockState::Free);
}
