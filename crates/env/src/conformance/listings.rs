//! Many objects: listings, folders, names.

use std::collections::BTreeSet;

use types::{OBJECT_NAME_BYTES_MAX, ObjectName};

use super::{get, name, names_of, put};
use crate::{ListingOf, Storage};

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

pub(super) fn a_listing_of_some_folders_has_nothing_of_the_others(storage: &dyn Storage, folder: &str) {
    for rest in ["x/1", "x/deep/2", "y/1", "y/x/1", "xy/1", "z", "a-b/1", "x-1/1"] {
        put(storage, &name(folder, rest), b"");
    }
    let within = |folder: &str, wanted: &[&str]| -> Vec<ObjectName> {
        let wanted = wanted.iter().map(|part| (*part).to_owned()).collect();
        let listed = storage.list_in(folder, &wanted).expect("list");
        listed.into_iter().map(|meta| meta.name).collect()
    };
    let expected = |rests: &[&str]| rests.iter().map(|rest| name(folder, rest)).collect::<Vec<_>>();
    // Few folders, with a request for each, and many, with one request for all.
    let many: Vec<String> = (0..20).map(|n| format!("nothing-{n}")).collect();
    let with_many = |few: &[&'static str]| -> Vec<&str> {
        let each = many.iter().map(String::as_str);
        each.chain(few.iter().copied()).collect()
    };
    for (wanted, rests) in [
        (&["x", "nothing", "z"][..], &["x/1", "x/deep/2"][..]),
        (&["y", "x-1", "x"], &["x-1/1", "x/1", "x/deep/2", "y/1", "y/x/1"]),
        (&[], &[]),
    ] {
        assert_eq!(within(folder, wanted), expected(rests));
        assert_eq!(within(folder, &with_many(wanted)), expected(rests));
    }
    assert_eq!(within(&format!("{folder}/y"), &["x"]), expected(&["y/x/1"]));
    assert_eq!(within(&format!("{folder}/nothing"), &["x"]), []);
    let whole = expected(&["a-b/1", "x-1/1", "x/1", "x/deep/2", "xy/1", "y/1", "y/x/1", "z"]);
    assert_eq!(within("", &[folder]), whole);
    for wrong in ["x/deep", "", ".", "X"] {
        let wanted = [wrong.to_owned()].into();
        assert!(
            storage.list_in(folder, &wanted).is_err(),
            "{wrong:?} is no sub-folder"
        );
        assert!(
            storage.list_in("", &wanted).is_err(),
            "{wrong:?} is no sub-folder"
        );
    }
}

pub(super) fn many_folders_are_listed_whole(storage: &dyn Storage, folder: &str) {
    let mut expected = Vec::new();
    for outer in 0..90 {
        for inner in 0..outer % 4 {
            expected.push(format!("{outer}/{inner}"));
            expected.push(format!("{outer}/x{inner}/deep/1"));
        }
    }
    let mut expected: Vec<ObjectName> = expected.iter().map(|rest| name(folder, rest)).collect();
    expected.sort_unstable();
    for object in &expected {
        put(storage, object, b"");
    }
    assert_eq!(names_of(storage, folder), expected);
    let is_even = |outer: &str| outer.ends_with(['0', '2', '4', '6', '8']);
    let even = (0..90)
        .map(|outer: u32| outer.to_string())
        .filter(|outer| is_even(outer));
    let listed = storage.list_in(folder, &even.collect()).expect("list");
    let listed: Vec<ObjectName> = listed.into_iter().map(|meta| meta.name).collect();
    expected.retain(|object| {
        let rest = object.as_str().strip_prefix(folder).unwrap_or_default();
        is_even(rest.split('/').nth(1).unwrap_or_default())
    });
    assert_eq!(listed, expected);
}

pub(super) fn a_folder_is_dropped_only_when_it_is_empty(storage: &dyn Storage, folder: &str) {
    let (first, deep) = (name(folder, "x/1"), name(folder, "x/deep/2"));
    let x = format!("{folder}/x");
    put(storage, &first, b"1");
    put(storage, &deep, b"2");
    for dropped in [&x, &format!("{x}/1"), &format!("{folder}/nothing")] {
        storage.drop_folder(dropped).expect("nothing is done");
    }
    assert_eq!(names_of(storage, &x), [first.clone(), deep.clone()]);
    storage.delete(&first).expect("delete");
    storage.delete(&deep).expect("delete");
    storage.drop_folder(&format!("{x}/deep")).expect("drop");
    storage.drop_folder(&x).expect("drop");
    assert_eq!(names_of(storage, &x), []);
    storage.barrier().expect("a barrier over what is gone");
    // No caller should do this, but it loses nothing.
    put(storage, &first, b"again");
    storage.barrier().expect("barrier");
    assert_eq!(get(storage, &first), b"again");
    assert!(storage.drop_folder("..").is_err(), "no folder of objects");
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
    // A mistake of the caller must not give an empty listing.
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

pub(super) fn a_listing_since_a_moment_has_what_was_put_before(storage: &dyn Storage, folder: &str) {
    let list_since = |since| {
        let listed = storage.list_since(folder, since).expect("list");
        let folders = storage.list_folders_since(folder, since).expect("list");
        let names: Vec<ObjectName> = listed.into_iter().map(|meta| meta.name).collect();
        (names, folders)
    };
    let all = [ListingOf::Objects(folder), ListingOf::Folders(folder)];
    let mut put_so_far = Vec::new();
    for rest in ["a/1", "b/2", "c/3"] {
        storage.look_ahead(&all);
        let name = name(folder, rest);
        put(storage, &name, b"1");
        put_so_far.push(name);
        // Listings from before the put do not serve.
        let since = storage.moment();
        assert_eq!(list_since(since).0, put_so_far);
        storage.look_ahead(&all);
        let (names, folders) = list_since(since);
        assert_eq!((&names, folders.len()), (&put_so_far, put_so_far.len()));
    }
    let since = storage.moment();
    storage.delete(&put_so_far[0]).expect("delete");
    assert!(list_since(storage.moment()).0 == put_so_far[1..]);
    // The other handle's state may be older, but not older than the moment.
    assert!(list_since(since).0.ends_with(&put_so_far[1..]));
    // A folder that could not exist is an error, not an empty one.
    storage.look_ahead(&[ListingOf::Objects("no//folder")]);
    assert!(storage.list_since("no//folder", since).is_err());
}
