//! Restores of trees from containers in memory: chosen files have their own bytes, whatever is left
//! out; names of files that are left out; counts.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use env::{Entropy, SeededEntropy};
use format::listing::{EntryKind, EntryState, ListingEntry};
use recipe::NodeCache;
use tree::{ExcludeBuilder, Excludes, Include, Overwrite, RestoreOptions};
use types::FileTime;

use crate::batch::BATCH_BYTES;
use crate::test_store::{containers, store};
use crate::{
    AssembleOptions, BackupListing, Fault, RestoreCounters, RestoreError, TreeSource, TreeStats, restore_tree,
};

/// The time that a test gives to folders, so that it differs from now.
const THEN_SECONDS: i64 = 1_000_000;

/// An entry, and a file's bytes.
type Entry = (ListingEntry, Vec<u8>);

pub(crate) fn entry(path: &str, kind: EntryKind) -> ListingEntry {
    ListingEntry {
        path: path.into(),
        kind,
        mode: 0o750,
        uid: fs::metadata("/proc/self").unwrap().uid(),
        gid: fs::metadata("/proc/self").unwrap().gid(),
        user: Vec::new(),
        group: Vec::new(),
        mtime: FileTime::new(THEN_SECONDS, 0),
        ctime: FileTime::default(),
        device: 0,
        inode: 0,
        xattrs: Vec::new(),
        flags: 0,
        state: EntryState::WHOLE,
    }
}

fn folder(path: &str) -> Entry {
    (entry(path, EntryKind::Folder), Vec::new())
}

/// A file with bytes that no other file has.
fn file(path: &str, len: usize) -> Entry {
    let seed = path
        .bytes()
        .fold(7, |seed: u64, byte| seed.wrapping_mul(31) + u64::from(byte));
    let mut bytes = vec![0; len];
    SeededEntropy::new(seed).fill(&mut bytes);
    let kind = EntryKind::File {
        len: len as u64,
        holes: Vec::new(),
    };
    (entry(path, kind), bytes)
}

fn link(path: &str, target: &str) -> Entry {
    let target = target.into();
    (entry(path, EntryKind::HardLink { target }), Vec::new())
}

struct Outcome {
    stats: TreeStats,
    /// Files in the counters.
    counted: u64,
    faults: Vec<Fault>,
}

fn restore(entries: &[Entry], target: &Path, options: RestoreOptions) -> Outcome {
    restore_and(entries, target, options, &|| {})
}

/// The same restore. At each fault, `at_fault` is called.
fn restore_and(
    entries: &[Entry],
    target: &Path,
    options: RestoreOptions,
    at_fault: &(dyn Fn() + Sync),
) -> Outcome {
    let containers = containers();
    let (mut listing, mut content) = (Vec::new(), Vec::new());
    for (entry, bytes) in entries {
        entry.encode(&mut listing);
        content.extend_from_slice(bytes);
    }
    let (listing, content) = (store(&containers, 1, &listing), store(&containers, 200, &content));
    let nodes = NodeCache::new(containers, 1 << 20);
    let source = TreeSource {
        reader: &nodes,
        content: &content,
        listing: &BackupListing::new(&nodes, listing, None),
    };
    let (counters, mut faults) = (RestoreCounters::default(), Vec::new());
    let stats = restore_tree(
        source,
        target,
        options,
        AssembleOptions::for_cores(1),
        &counters,
        &AtomicBool::new(false),
        &mut |fault| {
            at_fault();
            faults.push(fault);
        },
    )
    .unwrap();
    Outcome {
        stats,
        counted: counters.files.load(Ordering::Relaxed),
        faults,
    }
}

/// Files below a folder, by path in the restored tree.
fn files(target: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut open = vec![target.to_path_buf()];
    while let Some(folder) = open.pop() {
        for child in fs::read_dir(folder).unwrap().map(Result::unwrap) {
            if child.file_type().unwrap().is_dir() {
                open.push(child.path());
            } else {
                let path = child
                    .path()
                    .strip_prefix(target)
                    .unwrap()
                    .to_str()
                    .unwrap()
                    .to_owned();
                found.insert(path, fs::read(child.path()).unwrap());
            }
        }
    }
    found
}

fn patterns(list: &[&str]) -> Excludes {
    let mut builder = ExcludeBuilder::new();
    for pattern in list {
        builder.add(pattern, false).unwrap();
    }
    builder.build().unwrap()
}

fn paths(list: &[&str]) -> Vec<Vec<u8>> {
    list.iter().map(|path| path.as_bytes().to_vec()).collect()
}

/// Included paths and patterns, excluded patterns, the base, and the expected paths.
type Choice = (
    &'static [&'static str],
    &'static [&'static str],
    &'static [&'static str],
    &'static str,
    &'static [&'static str],
);

#[test]
fn chosen_files_have_their_own_bytes_whichever_others_are_left_out() {
    let entries = [
        folder("/a"),
        file("/a/1", 2_500),
        folder("/a/b"),
        file("/a/b/2", 700),
        file("/a/b/large", BATCH_BYTES + 1),
        folder("/c"),
        file("/c/3", 1),
        file("/c/large", BATCH_BYTES + 99),
        file("/d", 4_321),
    ];
    let choices: [Choice; 8] = [
        (
            &[],
            &[],
            &[],
            "",
            &["a/1", "a/b/2", "a/b/large", "c/3", "c/large", "d"],
        ),
        (&["/a/b", "/d"], &[], &[], "", &["a/b/2", "a/b/large", "d"]),
        (&[], &[], &["1", "large"], "", &["a/b/2", "c/3", "d"]),
        (&[], &["large", "d"], &[], "", &["a/b/large", "c/large", "d"]),
        (&["/c"], &["2"], &[], "", &["a/b/2", "c/3", "c/large"]),
        (&["/a", "/d"], &[], &["b"], "", &["a/1", "d"]),
        (&[], &[], &[], "/a", &["1", "b/2", "b/large"]),
        (&["/a", "/c"], &["d"], &["1"], "/c", &["3", "large"]),
    ];
    for (include, take, leave, base, expected) in choices {
        let what = format!("{include:?} {take:?} without {leave:?} below {base:?}");
        let target = tempfile::tempdir().unwrap();
        let options = RestoreOptions {
            include: Include {
                paths: paths(include),
                patterns: patterns(take),
                ..Include::default()
            },
            excludes: patterns(leave),
            base: base.into(),
            ..RestoreOptions::default()
        };
        let outcome = restore(&entries, target.path(), options);
        assert!(outcome.faults.is_empty(), "{what}: {:?}", outcome.faults);
        let found = files(target.path());
        assert_eq!(found.keys().collect::<Vec<_>>(), expected, "{what}");
        for (entry, bytes) in &entries {
            let path = std::str::from_utf8(&entry.path).unwrap();
            let path = path.strip_prefix(base).unwrap_or("").trim_start_matches('/');
            assert!(
                found.get(path).is_none_or(|found| found == bytes),
                "{what}: {path}"
            );
        }
        let count = expected.len() as u64;
        assert_eq!((outcome.stats.files, outcome.counted), (count, count), "{what}");
    }
}

#[test]
fn names_of_a_file_that_is_left_out_are_one_file_in_folders_complete() {
    let mut read_only = folder("/b");
    read_only.0.mode = 0o555;
    let entries = [
        folder("/a"),
        file("/a/first", 3_210),
        read_only,
        link("/b/second", "/a/first"),
        folder("/c"),
        link("/c/other", "/nowhere"),
        link("/c/third", "/a/first"),
        file("/z", 5),
    ];
    let target = tempfile::tempdir().unwrap();
    let options = RestoreOptions {
        include: Include {
            paths: paths(&["/b", "/c", "/z"]),
            ..Include::default()
        },
        ..RestoreOptions::default()
    };
    let outcome = restore(&entries, target.path(), options.clone());
    let at = |path: &str| target.path().join(path);
    for name in ["b/second", "c/third"] {
        assert!(fs::read(at(name)).unwrap() == entries[1].1, "{name}");
        assert_eq!(fs::metadata(at(name)).unwrap().nlink(), 2, "{name}");
    }
    for (name, mode) in [("b", 0o555), ("c", 0o750)] {
        let of = fs::metadata(at(name)).unwrap();
        assert_eq!((of.mode() & 0o7777, of.mtime()), (mode, THEN_SECONDS), "{name}");
    }
    assert!(
        matches!(&outcome.faults[..], [Fault::Lost { path, error }]
            if path == b"/c/other" && matches!(**error, RestoreError::NoLinkTarget { .. })),
        "{:?}",
        outcome.faults
    );
    // The first created name is a file, and the other one is a link to it. Restored files count
    // like that, too.
    assert_eq!(
        (outcome.stats.files, outcome.counted, outcome.stats.others),
        (2, 2, 3)
    );

    // A second run finds them unchanged.
    let again = RestoreOptions {
        overwrite: Overwrite::IfChanged,
        ..options
    };
    let outcome = restore(&entries, target.path(), again);
    assert_eq!(
        (outcome.stats.files, outcome.counted, outcome.stats.kept),
        (0, 0, 2)
    );
    assert_eq!(fs::metadata(at("c/third")).unwrap().nlink(), 2);
    fs::set_permissions(at("b"), fs::Permissions::from_mode(0o700)).unwrap();
}

#[test]
fn files_that_are_kept_or_fail_are_not_counted_as_restored() {
    let mut faulty = folder("/a");
    faulty.0.xattrs = vec![(b"no such namespace".to_vec(), b"value".to_vec())];
    let entries = [
        faulty,
        file("/failing", BATCH_BYTES + 1),
        file("/kept", 10),
        file("/new", 10),
        file("/small-failing", 10),
    ];
    let target = tempfile::tempdir().unwrap();
    let at = |path: &str| target.path().join(path);
    fs::write(at("failing"), "to be replaced").unwrap();
    // A folder that is not empty is not replaced.
    fs::create_dir_all(at("small-failing/in the way")).unwrap();
    // The first fault is that of `/a`, reported when the large file begins. `block` then puts a
    // folder in the way of the large file.
    let block = || {
        if fs::remove_file(at("failing")).is_ok() {
            fs::create_dir_all(at("failing/in the way")).unwrap();
        }
    };
    fs::write(at("kept"), "0123456789").unwrap();
    let kept = fs::File::options().write(true).open(at("kept")).unwrap();
    let then = std::time::Duration::from_secs(THEN_SECONDS.unsigned_abs());
    kept.set_modified(std::time::UNIX_EPOCH + then).unwrap();
    let options = RestoreOptions {
        overwrite: Overwrite::IfChanged,
        ..RestoreOptions::default()
    };
    let outcome = restore_and(&entries, target.path(), options, &block);
    assert_eq!(outcome.faults.len(), 3, "{:?}", outcome.faults);
    assert_eq!(
        (outcome.stats.files, outcome.stats.kept, outcome.counted),
        (1, 1, 1)
    );
}
