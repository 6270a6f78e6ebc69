//! Entries that appear under a name of the backup while a restore makes its entry.

use std::fs;
use std::os::unix::fs::MetadataExt as _;

use format::listing::{EntryKind, ListingEntry};
use rustix::fs::{AtFlags, CWD, FileType, Mode, linkat, mknodat};

use super::{below, file, place_all, restorer};
use crate::restore::arrive::{self, Arrival};
use crate::restore::there::finish_node;
use crate::restore::{Overwrite, Placed, RestoreOptions, Restorer, SkipReason};
use crate::testing::entry;
use crate::{Action, TreeError};

fn link_to(path: &str, target: &str) -> ListingEntry {
    let target = target.as_bytes().to_vec();
    entry(path, EntryKind::HardLink { target })
}

fn with(overwrite: Overwrite) -> RestoreOptions {
    RestoreOptions {
        overwrite,
        ..RestoreOptions::default()
    }
}

#[test]
fn an_entry_that_appears_meanwhile_is_judged_by_the_option() {
    use Overwrite::{Always, IfChanged, IfNewer, Never};
    for overwrite in [Never, IfNewer, IfChanged, Always] {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("other"), b"").unwrap();
        let options = with(overwrite);
        let mut restorer = restorer(dir.path(), options);
        let Placed::File(writer) = restorer.place(&file("/f", b"new").0).unwrap() else {
            panic!()
        };
        writer.write_at(0, b"new").unwrap();
        fs::write(dir.path().join("f"), b"theirs").unwrap();
        let done = writer.finish();
        let now = fs::read(dir.path().join("f")).unwrap();
        // The other entry is newer.
        if matches!(overwrite, Never | IfNewer) {
            assert!(
                matches!(done, Err(TreeError::ChangedMeanwhile { .. })),
                "{done:?}"
            );
            assert_eq!(now, b"theirs");
        } else {
            done.unwrap();
            assert_eq!(now, b"new");
        }
        assert_eq!(below(dir.path()), ["/f", "/other"], "{overwrite:?}");
    }
}

/// Two restores of one backup to one target may run without knowing of each other.
#[test]
fn the_same_that_another_restore_put_there_meanwhile_is_left() {
    use Overwrite::{Always, IfChanged, IfNewer, Never};
    let (large, small) = (file("/large", &[7; 3 << 20]), file("/small", b"small"));
    let node = entry("/pipe", EntryKind::Fifo);
    for overwrite in [Never, IfNewer, IfChanged, Always] {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("other"), b"").unwrap();
        let options = with(overwrite);
        let mut ours = restorer(dir.path(), options.clone());
        let Placed::File(writer) = ours.place(&large.0).unwrap() else {
            panic!()
        };
        writer.write_at(0, &large.1).unwrap();
        let all = [large.clone(), small.clone(), (node.clone(), Vec::new())];
        place_all(dir.path(), options, &all);
        let inode = |name: &str| fs::symlink_metadata(dir.path().join(name)).unwrap().ino();
        let theirs = inode("large");
        let reason = writer.finish().unwrap();
        let expected = match overwrite {
            Never => Some(SkipReason::Exists),
            IfNewer => Some(SkipReason::NotNewer),
            IfChanged => Some(SkipReason::Unchanged),
            Always => None,
        };
        assert_eq!(reason, expected, "{overwrite:?}");
        assert_eq!(inode("large") == theirs, expected.is_some(), "{overwrite:?}");
        let link = link_to("/link", "/large");
        assert!(matches!(ours.place(&link), Ok(Placed::Done)), "{overwrite:?}");
        assert_eq!(inode("link"), inode("large"));
        assert!(ours.finish().is_empty());
        assert_eq!(
            below(dir.path()),
            ["/large", "/link", "/other", "/pipe", "/small"]
        );
        assert_eq!(fs::read(dir.path().join("large")).unwrap(), large.1);
    }
}

/// Gives an entry its name after another entry has appeared there.
fn settle_late(
    restorer: &mut Restorer,
    entry: &ListingEntry,
    make: impl Fn(&[u8]) -> Result<(), rustix::io::Errno>,
    meanwhile: impl FnOnce(),
) -> Option<SkipReason> {
    let context = restorer.context.clone();
    let parent = restorer.stack.innermost(&entry.path).unwrap();
    let at = parent.folder.descriptor().unwrap();
    let made = arrive::make(&context, &entry.path, Action::Create, make).unwrap();
    if let (Arrival::Aside { name, .. }, EntryKind::Fifo) = (&made, &entry.kind) {
        finish_node(&context, &at, name, entry).unwrap();
    }
    meanwhile();
    arrive::settle(&context, &parent, &at, &made, &entry.path[1..], entry).unwrap()
}

#[test]
fn links_and_nodes_that_another_restore_made_meanwhile_are_left() {
    use Overwrite::{Always, IfChanged, IfNewer, Never};
    for overwrite in [Never, IfNewer, IfChanged, Always] {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        fs::write(path("other"), b"").unwrap();
        let first = file("/first", b"text");
        place_all(
            dir.path(),
            RestoreOptions::default(),
            std::slice::from_ref(&first),
        );
        let mut restorer = restorer(dir.path(), with(overwrite));
        let from = path("first");
        let aside = dir.path().to_owned();
        let link = |name: &[u8]| {
            let name = aside.join(std::str::from_utf8(name).unwrap());
            linkat(CWD, &from, CWD, name, AtFlags::empty())
        };
        let reason = settle_late(&mut restorer, &link_to("/link", "/first"), link, || {
            fs::hard_link(path("first"), path("link")).unwrap();
        });
        // With `never` any existing entry stays, and is the link.
        assert!(matches!(reason, None | Some(SkipReason::Exists)), "{reason:?}");
        assert_eq!(below(dir.path()), ["/first", "/link", "/other"], "{overwrite:?}");
        let pipe = entry("/pipe", EntryKind::Fifo);
        let make = |name: &[u8]| {
            let name = aside.join(std::str::from_utf8(name).unwrap());
            mknodat(CWD, name, FileType::Fifo, Mode::RWXU, 0)
        };
        let reason = settle_late(&mut restorer, &pipe, make, || {
            place_all(
                dir.path(),
                RestoreOptions::default(),
                &[(pipe.clone(), Vec::new())],
            );
        });
        assert_eq!(reason.is_some(), overwrite != Always, "{overwrite:?}");
        assert_eq!(
            below(dir.path()),
            ["/first", "/link", "/other", "/pipe"],
            "{overwrite:?}"
        );
        assert_eq!(fs::metadata(path("first")).unwrap().nlink(), 2);
    }
}
