use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

use format::listing::{EntryKind, ListingEntry};
use rustix::fs::{CWD, FileType, Mode, mknodat};

use types::FileTime;

use super::{FirstNames, LostLinks};
use crate::testing::{bytes_of, entry, options, walk};
use crate::{Walk, WalkEntry};

fn found<'f>(entries: &'f mut [WalkEntry], path: &Path) -> &'f mut WalkEntry {
    let is_it = |found: &&mut WalkEntry| found.entry.path == bytes_of(path);
    entries.iter_mut().find(is_it).unwrap()
}

fn a_file() -> EntryKind {
    EntryKind::File {
        len: 0,
        holes: Vec::new(),
    }
}

/// A restore recognises the first name by its time, and a file that changes meanwhile has two
/// times.
#[test]
fn the_first_name_says_the_time() {
    let mut names = FirstNames::default();
    let seen = |path: &str, seconds| ListingEntry {
        mtime: FileTime::new(seconds, 0),
        ctime: FileTime::new(seconds, 0),
        ..entry(path, a_file())
    };
    let is_there = |path: &[u8]| path == b"/a";
    assert!(names.see(&seen("/a", 10), 3, is_there).is_none());
    for _ in 0..2 {
        let first = names.see(&seen("/b", 20), 3, is_there).unwrap();
        assert_eq!((&first.path[..], first.mtime), (&b"/a"[..], FileTime::new(10, 0)));
    }
    assert!(names.found.is_empty());
}

/// A file system gives the number of a removed file to a new one.
#[test]
fn a_new_file_with_the_number_of_a_removed_one_is_no_link_to_it() {
    let mut names = FirstNames::default();
    let seen = |path: &str, kind, seconds| ListingEntry {
        ctime: FileTime::new(seconds, 0),
        ..entry(path, kind)
    };
    let gone = |_: &[u8]| false;
    assert!(names.see(&seen("/a", a_file(), 10), 2, gone).is_none());
    assert!(names.see(&seen("/new", a_file(), 20), 3, gone).is_none());
    let first = names.see(&seen("/new-2", a_file(), 20), 3, gone).unwrap();
    assert_eq!(first.path, b"/new");
    // Of another kind it is another one, whatever is at that path.
    assert!(
        names
            .see(&seen("/pipe", EntryKind::Fifo, 20), 2, |_| true)
            .is_none()
    );
    let first = names.see(&seen("/pipe-2", EntryKind::Fifo, 20), 2, gone).unwrap();
    assert_eq!(first.path, b"/pipe");
}

/// Its time of change says nothing: somebody changed its mode meanwhile.
#[test]
fn a_file_that_changes_during_the_walk_stays_one() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    for folder in ["a", "m", "z"] {
        fs::create_dir(at(folder)).unwrap();
    }
    fs::write(at("a/one"), "old").unwrap();
    fs::hard_link(at("a/one"), at("z/two")).unwrap();
    for n in 0..3000 {
        fs::write(at(&format!("m/{n}")), "").unwrap();
    }
    let mut times = Vec::new();
    for step in Walk::new(options(dir.path())) {
        let found = step.unwrap();
        if found.entry.path.ends_with(b"/a/one") {
            times.push(found.entry.ctime);
            fs::set_permissions(at("z/two"), fs::Permissions::from_mode(0o400)).unwrap();
        }
        if found.entry.path.ends_with(b"/z/two") {
            times.push(found.entry.ctime);
            let target = bytes_of(&at("a/one")).to_vec();
            assert_eq!(found.entry.kind, EntryKind::HardLink { target });
        }
    }
    assert!(times[0] < times[1], "it was not changed meanwhile: {times:?}");
}

/// Entries that are no files have several names too. A name replaces a lost first name as an entry
/// of the same kind.
#[test]
fn links_pipes_and_sockets_have_several_names() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    symlink("nowhere", at("link-1")).unwrap();
    mknodat(CWD, at("pipe-1"), FileType::Fifo, Mode::RWXU, 0).unwrap();
    drop(std::os::unix::net::UnixListener::bind(at("socket-1")).unwrap());
    // A folder has many links of its own.
    fs::create_dir_all(at("folder/in")).unwrap();
    let kinds = [
        (
            "link",
            EntryKind::Symlink {
                target: b"nowhere".to_vec(),
            },
        ),
        ("pipe", EntryKind::Fifo),
        ("socket", EntryKind::Socket),
    ];
    for (name, _) in &kinds {
        for number in 2..=4 {
            fs::hard_link(at(&format!("{name}-1")), at(&format!("{name}-{number}"))).unwrap();
        }
    }
    let mut entries = walk(options(dir.path()));
    let mut lost = LostLinks::default();
    for (name, kind) in kinds {
        let to = |number: u32| EntryKind::HardLink {
            target: bytes_of(&at(&format!("{name}-{number}"))).to_vec(),
        };
        let [first, second, third, fourth] = [1, 2, 3, 4].map(|number| at(&format!("{name}-{number}")));
        let one = found(&mut entries, &first);
        assert_eq!((&one.entry.kind, one.kind()), (&kind, &kind));
        lost.lost(one);
        for other in [&second, &third, &fourth] {
            let other = found(&mut entries, other);
            assert_eq!((&other.entry.kind, other.kind()), (&to(1), &kind));
        }
        let one = found(&mut entries, &second);
        lost.mend(one);
        assert_eq!(one.entry.kind, kind);
        lost.lost(one);
        for (path, expected) in [(&third, kind), (&fourth, to(3))] {
            let other = found(&mut entries, path);
            lost.mend(other);
            assert_eq!(other.entry.kind, expected);
        }
    }
    let folder = found(&mut entries, &at("folder"));
    assert_eq!(folder.entry.kind, EntryKind::Folder);
}
