use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use format::listing::EntryKind;
use rustix::fs::{CWD, FileType, Mode, mknodat};

use types::FileTime;

use super::{FirstNames, LostLinks};
use crate::WalkEntry;
use crate::testing::{bytes_of, options, walk};

fn found<'f>(entries: &'f mut [WalkEntry], path: &Path) -> &'f mut WalkEntry {
    let is_it = |found: &&mut WalkEntry| found.entry.path == bytes_of(path);
    entries.iter_mut().find(is_it).unwrap()
}

/// A restore recognises the first name by its time, and a file that changes meanwhile has two
/// times.
#[test]
fn the_first_name_says_the_time() {
    let mut names = FirstNames::default();
    let time = |seconds| FileTime::new(seconds, 0);
    assert!(names.see((1, 1), 3, b"/a", time(10)).is_none());
    for _ in 0..2 {
        let first = names.see((1, 1), 3, b"/b", time(20)).unwrap();
        assert_eq!((&first.path[..], first.mtime), (&b"/a"[..], time(10)));
    }
    assert!(names.found.is_empty());
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
