//! Several names of links, sockets, pipes and devices.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use format::listing::{EntryKind, ListingEntry};
use rustix::fs::{CWD, FileType, Mode, mknodat};
use types::FileTime;

use super::{Captured, file, place_all, restorer};
use crate::TreeError;
use crate::restore::{Overwrite, Placed, RestoreOptions};
use crate::testing::{capture, comparable, entry};

fn link_to(path: &str, target: &str) -> ListingEntry {
    let target = target.as_bytes().to_vec();
    entry(path, EntryKind::HardLink { target })
}

fn symlink_of(path: &str, len: usize) -> ListingEntry {
    let target = vec![b'x'; len];
    entry(path, EntryKind::Symlink { target })
}

/// Too long for the target of a link.
const TOO_LONG: usize = 5000;

#[test]
fn no_link_leads_to_a_foreign_entry_in_place_of_a_failed_node() {
    let target = tempfile::tempdir().unwrap();
    fs::write(target.path().join("a"), "mine").unwrap();
    let mut restorer = restorer(target.path(), RestoreOptions::default());
    let failed = restorer.place(&symlink_of("/a", TOO_LONG));
    assert!(matches!(failed, Err(TreeError::System { .. })), "{failed:?}");
    let Placed::MissingLinkTarget { target: first, link } = restorer.place(&link_to("/b", "/a")).unwrap()
    else {
        panic!("linked to what is mine")
    };
    assert_eq!(first, b"/a");
    // The other names are still one entry.
    let Placed::MissingLinkTarget { link: other, .. } = restorer.place(&link_to("/c", "/a")).unwrap() else {
        panic!()
    };
    let failed = link.make(&symlink_of("/a", TOO_LONG));
    assert!(
        matches!(failed, Err(TreeError::System { ref path, .. }) if path == b"/b"),
        "{failed:?}"
    );
    assert!(matches!(link.make(&symlink_of("/a", 7)), Ok(Placed::Done)));
    assert!(matches!(other.link(&link), Ok(Placed::Done)));
    drop(link);
    assert!(restorer.finish().is_empty());
    let at = |name: &str| target.path().join(name).symlink_metadata().unwrap();
    assert!(at("b").is_symlink() && at("b").ino() == at("c").ino());
    assert_eq!(at("b").mtime(), 1_000_000_000);
    assert_eq!(fs::read(target.path().join("a")).unwrap(), b"mine");
}

fn pipe_at(path: &Path, mtime: FileTime) {
    mknodat(CWD, path, FileType::Fifo, Mode::RWXU, 0).unwrap();
    let times = crate::restore::metadata::times(mtime);
    rustix::fs::utimensat(CWD, path, &times, rustix::fs::AtFlags::SYMLINK_NOFOLLOW).unwrap();
}

/// A pipe is the same by its kind alone, which does not tell which one is newer.
#[test]
fn a_newer_pipe_replaces_an_older_one() {
    let wanted = entry("/a", EntryKind::Fifo);
    for (time, is_kept) in [(-100, false), (0, true), (100, true)] {
        let target = tempfile::tempdir().unwrap();
        let path = target.path().join("a");
        let time = FileTime::new(wanted.mtime.seconds() + time, wanted.mtime.nanos());
        pipe_at(&path, time);
        rustix::fs::chmod(&path, Mode::from_raw_mode(0o666)).unwrap();
        let options = RestoreOptions {
            overwrite: Overwrite::IfNewer,
            ..RestoreOptions::default()
        };
        place_all(target.path(), options, &[(wanted.clone(), Vec::new())]);
        let is = path.symlink_metadata().unwrap();
        let mode = if is_kept { 0o666 } else { wanted.mode };
        assert_eq!(is.mode() & 0o7777, mode, "{time:?}");
        assert_eq!(is.mtime(), time.seconds().max(wanted.mtime.seconds()));
    }
}

/// An entry that stays under the first name is a link's target only if it is the backup's entry.
#[test]
fn a_kept_entry_is_a_link_target_only_if_it_is_the_same() {
    let then = entry("/a", EntryKind::Fifo).mtime;
    let later = FileTime::new(then.seconds() + 100, 0);
    let content = b"of the backup";
    let firsts: [Captured; 2] = [(entry("/a", EntryKind::Fifo), Vec::new()), file("/a", content)];
    for overwrite in [Overwrite::IfNewer, Overwrite::Never] {
        for (first, bytes) in &firsts {
            for time in [then, later] {
                for is_pipe in [true, false] {
                    let target = tempfile::tempdir().unwrap();
                    let mine = target.path().join("a");
                    if is_pipe {
                        pipe_at(&mine, time);
                    } else {
                        fs::write(&mine, content).unwrap();
                        let times = crate::restore::metadata::times(time);
                        rustix::fs::utimensat(CWD, &mine, &times, rustix::fs::AtFlags::empty()).unwrap();
                    }
                    let options = RestoreOptions {
                        overwrite,
                        ..RestoreOptions::default()
                    };
                    let mut restorer = restorer(target.path(), options);
                    assert!(matches!(restorer.place(first), Ok(Placed::Skipped(_))));
                    let placed = restorer.place(&link_to("/b", "/a")).unwrap();
                    let is_same = time == then && is_pipe == bytes.is_empty();
                    let what = format!("{first:?} {time:?} {is_pipe} {overwrite:?}");
                    match placed {
                        Placed::Done => assert!(is_same, "{what}"),
                        Placed::MissingLinkTarget { .. } => assert!(!is_same, "{what}"),
                        other => panic!("{what}: {other:?}"),
                    }
                }
            }
        }
    }
}

#[test]
fn hard_links_are_restored_as_one_over_existing_entries() {
    let all: Vec<Captured> = [
        symlink_of("/a", 3),
        entry("/b", EntryKind::Fifo),
        entry("/c", EntryKind::Socket),
        link_to("/x", "/a"),
        link_to("/y", "/b"),
        link_to("/z", "/c"),
    ]
    .map(|entry| (entry, Vec::new()))
    .to_vec();
    let target = tempfile::tempdir().unwrap();
    let options = |overwrite| RestoreOptions {
        overwrite,
        ..RestoreOptions::default()
    };
    for name in ["a", "y", "z"] {
        fs::write(target.path().join(name), "to be replaced").unwrap();
    }
    place_all(target.path(), options(Overwrite::Always), &all);
    let first = comparable(&capture(target.path()));
    assert_eq!(
        first
            .iter()
            .filter(|(entry, _)| matches!(entry.kind, EntryKind::HardLink { .. }))
            .count(),
        3
    );
    for overwrite in [
        Overwrite::IfChanged,
        Overwrite::IfNewer,
        Overwrite::Never,
        Overwrite::Always,
    ] {
        fs::remove_file(target.path().join("y")).unwrap();
        place_all(target.path(), options(overwrite), &all);
        assert_eq!(comparable(&capture(target.path())), first, "{overwrite:?}");
    }
}
