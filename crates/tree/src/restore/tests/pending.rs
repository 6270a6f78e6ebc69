//! Files that are made in one go, by what their folder gives them.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::Path;

use format::listing::{EntryKind, ListingEntry};
use rustix::fs::XattrFlags;

use super::{Overwrite, RestoreOptions, entry, file, folder, restorer};
use crate::testing::{Captured, capture, comparable, restore, restore_whole};
use crate::{Begun, Placed, SkipReason, TreeError};

/// Files of many modes, owners and attributes, several in a folder.
fn many() -> Vec<Captured> {
    let root = rustix::process::geteuid().is_root();
    let mut all = Vec::new();
    for place in ["/a", "/b"] {
        all.push(folder(place));
        for (n, mode) in [0o644, 0o600, 0o777, 0o666, 0o4755, 0o2711, 0o1640, 0o400, 0o604]
            .into_iter()
            .enumerate()
        {
            for (m, (uid, gid)) in [(0, 0), (0, 7), (7, 0), (7, 7)].into_iter().enumerate() {
                let (mut entry, content) = file(&format!("{place}/{n}{m}"), &vec![1; n * 1000]);
                entry.mode = mode;
                if root {
                    (entry.uid, entry.gid) = (uid, gid);
                }
                if m == 1 {
                    entry.xattrs = vec![(b"user.x".to_vec(), b"value".to_vec())];
                }
                all.push((entry, content));
            }
        }
    }
    all
}

/// The folder gives its group and a default ACL to everything in it.
fn give_much(target: &Path) {
    if rustix::process::geteuid().is_root() {
        std::os::unix::fs::chown(target, None, Some(9)).unwrap();
    }
    fs::set_permissions(target, fs::Permissions::from_mode(0o2775)).unwrap();
    let mut acl = 2u32.to_le_bytes().to_vec();
    for (tag, bits, id) in [
        (1u16, 7u16, u32::MAX),
        (2, 6, 1234),
        (4, 5, u32::MAX),
        (16, 7, u32::MAX),
        (32, 5, u32::MAX),
    ] {
        acl.extend([tag.to_le_bytes(), bits.to_le_bytes()].concat());
        acl.extend(id.to_le_bytes());
    }
    rustix::fs::setxattr(target, "system.posix_acl_default", &acl, XattrFlags::empty()).unwrap();
}

#[test]
fn files_made_whole_are_as_those_made_step_by_step() {
    for inherits in [false, true] {
        let made = [true, false].map(|whole| {
            let target = tempfile::tempdir().unwrap();
            if inherits {
                give_much(target.path());
                for name in ["a", "b"] {
                    fs::create_dir(target.path().join(name)).unwrap();
                }
            }
            let restorer = restorer(target.path(), RestoreOptions::default());
            let faults = if whole {
                restore_whole(restorer, &many())
            } else {
                restore(restorer, &many())
            };
            assert!(faults.is_empty(), "{faults:?}");
            let mut made = comparable(&capture(target.path()));
            for (entry, _) in &mut made {
                (entry.user, entry.group) = (Vec::new(), Vec::new());
            }
            made
        });
        assert_eq!(made[0].len(), many().len());
        for ((whole, by_step), wanted) in made[0].iter().zip(&made[1]).zip(comparable(&many())) {
            assert_eq!(whole.0, wanted.0, "inherits: {inherits}");
            assert!(whole == by_step && *whole == wanted, "{:?}", wanted.0);
        }
    }
}

#[test]
fn an_existing_entry_is_judged_when_the_file_is_created() {
    for choice in [
        Overwrite::Always,
        Overwrite::Never,
        Overwrite::IfChanged,
        Overwrite::IfNewer,
    ] {
        let target = tempfile::tempdir().unwrap();
        for name in ["0", "there"] {
            fs::write(target.path().join(name), "others").unwrap();
        }
        let options = RestoreOptions {
            overwrite: choice,
            ..RestoreOptions::default()
        };
        let mut restorer = restorer(target.path(), options);
        let mut made = |name: &str| {
            let (entry, bytes) = file(name, b"ours!!");
            match restorer.begin(&entry).unwrap() {
                Begun::File(pending) => pending.write(&bytes).unwrap(),
                Begun::Placed(placed) => panic!("{placed:?}"),
            }
        };
        // The first one shows what the folder gives. The others are made in one go.
        assert_eq!(made("/new"), None);
        assert_eq!(made("/newer"), None);
        let kept = match choice {
            Overwrite::Always | Overwrite::IfChanged => None,
            Overwrite::Never => Some(SkipReason::Exists),
            Overwrite::IfNewer => Some(SkipReason::NotNewer),
        };
        assert_eq!(made("/there"), kept, "{choice:?}");
        let want: &[u8] = if kept.is_some() { b"others" } else { b"ours!!" };
        assert_eq!(fs::read(target.path().join("there")).unwrap(), want);
        assert_eq!(fs::read_dir(target.path()).unwrap().count(), 4, "{choice:?}");
        assert!(restorer.finish().is_empty());
    }
}

#[test]
fn no_file_exists_before_its_bytes_or_stays_with_too_few() {
    let target = tempfile::tempdir().unwrap();
    let mut restorer = restorer(target.path(), RestoreOptions::default());
    for name in ["/1", "/2", "/3"] {
        let (entry, bytes) = file(name, b"whole");
        let Begun::File(pending) = restorer.begin(&entry).unwrap() else {
            panic!()
        };
        assert_eq!(pending.entry(), &entry);
        assert!(!target.path().join(&name[1..]).exists());
        let written = pending.write(if name == "/2" { &bytes[..3] } else { &bytes });
        assert_eq!(written.is_err(), name == "/2");
        if let Err(fault) = written {
            assert!(
                matches!(
                    fault,
                    TreeError::Incomplete {
                        written: 3,
                        expected: 5,
                        ..
                    }
                ),
                "{fault}"
            );
        }
    }
    assert!(restorer.finish().is_empty());
    let mut left: Vec<_> = fs::read_dir(target.path())
        .unwrap()
        .map(|e| e.unwrap().file_name())
        .collect();
    left.sort();
    assert_eq!(left, ["1", "3"]);
}

/// While a file does not have its final owner, no other user may see more of it than later.
#[test]
fn a_mode_that_is_not_for_this_owner_is_not_given_at_birth() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let target = tempfile::tempdir().unwrap();
    let mut restorer = restorer(target.path(), RestoreOptions::default());
    let mut pending = |name: &str, gid: u32, mode: u32| {
        let entry = ListingEntry {
            gid,
            mode,
            ..file(name, b"x").0
        };
        match restorer.begin(&entry).unwrap() {
            Begun::File(pending) => pending,
            Begun::Placed(placed) => panic!("{placed:?}"),
        }
    };
    pending("/first", 0, 0o644).write(b"x").unwrap();
    let umask = super::super::newborn::umask().unwrap();
    for (gid, mode, want) in [
        (0, 0o640, (0o640 & !umask, 0o640 & umask == 0)),
        (7, 0o640, (0o600, false)),
        (0, 0o4755, (0o600, false)),
        (0, 0o666, (0o666 & !umask, 0o666 & umask == 0)),
    ] {
        let pending = pending("/file", gid, mode);
        let newborn = *pending.parent.newborn.get().unwrap();
        assert_eq!(pending.mode_at_birth(newborn), want, "{gid} {mode:o}");
    }
    assert_eq!(
        fs::metadata(target.path().join("first")).unwrap().mode() & 0o7777,
        0o644
    );
}

/// A hard link to a file that failed must not get the content of the entry under that name.
#[test]
fn no_link_leads_to_a_foreign_entry_in_place_of_a_failed_file() {
    for by_step in [true, false] {
        let target = tempfile::tempdir().unwrap();
        let options = RestoreOptions {
            overwrite: Overwrite::Never,
            ..RestoreOptions::default()
        };
        let mut restorer = restorer(target.path(), options);
        let mut begin = |entry: &ListingEntry| restorer.begin(entry).unwrap();
        let (first, bytes) = file("/a", b"first");
        let Begun::File(pending) = begin(&first) else {
            panic!()
        };
        assert_eq!(pending.write(&bytes).unwrap(), None);
        // Now the name of the second file leads to the first, as on a file system where two names
        // are one.
        fs::rename(target.path().join("a"), target.path().join("b")).unwrap();
        let Begun::File(pending) = begin(&file("/b", b"second").0) else {
            panic!()
        };
        let failed = if by_step {
            pending.open().map(drop)
        } else {
            pending.write(b"second").map(drop)
        };
        assert!(matches!(failed, Err(TreeError::SameName { .. })), "{failed:?}");
        let link = EntryKind::HardLink {
            target: b"/b".to_vec(),
        };
        let placed = begin(&entry("/c", link));
        assert!(
            matches!(placed, Begun::Placed(Placed::MissingLinkTarget { .. })),
            "{placed:?}"
        );
        assert!(!target.path().join("c").exists());
    }
}
