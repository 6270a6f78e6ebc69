//! One object: its bytes, ranges of them, its end, and its deletion.

use types::ByteRange;

use super::{assert_exists, assert_not_found, bytes, get, name, names_of, put};
use crate::{Storage, StorageError};

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
    // More parts than a system takes in one call, with empty ones between them.
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

pub(super) fn many_are_deleted_and_missing_ones_passed_over(storage: &dyn Storage, folder: &str) {
    let names: Vec<_> = (0..20)
        .map(|n| name(folder, &format!("f{}/{n}", n % 3)))
        .collect();
    for name in names.iter().filter(|name| !name.as_str().ends_with('7')) {
        put(storage, name, b"1");
    }
    storage
        .delete_many(&names[..15])
        .expect("missing ones are no error");
    let mut left: Vec<_> = names[15..].to_vec();
    left.retain(|name| !name.as_str().ends_with('7'));
    left.sort();
    assert_eq!(names_of(storage, folder), left);
    storage.delete_many(&[]).expect("nothing to do");
    storage.delete_many(&names).expect("all others");
    assert_eq!(names_of(storage, folder), []);
}

pub(super) fn what_is_missing_is_not_found(storage: &dyn Storage, folder: &str) {
    put(storage, &name(folder, "there"), b"");
    for rest in ["missing", "no/such/folder", "there/below", "th"] {
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

pub(super) fn what_is_trimmed_has_another_name(storage: &dyn Storage, folder: &str) {
    let (from, to) = (name(folder, "trimmed/1.0"), name(folder, "trimmed/1.0.body"));
    let ranges = [
        ByteRange {
            offset: 5,
            len: 70_000,
        },
        ByteRange {
            offset: 80_000,
            len: 20_000,
        },
    ];
    let is_in = |at: usize| {
        ranges
            .iter()
            .any(|range| range.offset <= at as u64 && (at as u64) < range.end())
    };
    assert_not_found(storage.can_trim(&from), &from);
    assert_not_found(storage.trim(&from, &to, &ranges), &from);
    let content = bytes(100_000);
    put(storage, &from, &content);
    let can_trim = storage
        .can_trim(&from)
        .expect("an object that was put can be asked for");
    // Repeated, as after a crash in between.
    for ranges in [&ranges[..1], &ranges, &[]] {
        let given_back = storage.trim(&from, &to, ranges).expect("trim");
        assert!(can_trim || !given_back, "it was said not to be possible");
        assert_not_found(storage.get(&from), &from);
    }
    let found = get(storage, &to);
    assert_eq!(found.len(), content.len());
    for (at, (found, was)) in found.iter().zip(&content).enumerate() {
        assert!(found == was || (*found == 0 && is_in(at)), "byte {at}");
    }
    let meta = storage.head(&to).expect("head");
    assert_eq!(meta.len, 100_000);
    assert!(meta.space <= if can_trim { 40_000 } else { 100_000 }, "{meta:?}");
    // The new object under the first name is another one, and is left alone.
    put(storage, &from, b"another");
    storage.trim(&from, &to, &ranges).expect("trim");
    assert_eq!(get(storage, &from), b"another");
    assert_eq!(get(storage, &to), found);
    storage.barrier().expect("barrier");
    storage.delete(&from).expect("delete");
    storage.delete(&to).expect("delete");
}
