mod hostile;
mod large;
mod meanwhile;
mod nodes;
mod pending;
mod roundtrip;

use std::fs;
use std::os::unix::fs::{FileExt as _, MetadataExt as _, PermissionsExt as _, symlink};
use std::path::Path;

use format::listing::{EntryKind, ListingEntry};
use types::FileTime;

use super::{Include, Overwrite, Placed, RestoreOptions, Restorer, SkipReason, Sparse};
use crate::testing::{Captured, capture, comparable, entry, file, restore};
use crate::{ExcludeBuilder, TreeError};

fn restorer(target: &Path, options: RestoreOptions) -> Restorer {
    Restorer::new(target, options).unwrap()
}

fn place_all(target: &Path, options: RestoreOptions, entries: &[Captured]) {
    let faults = restore(restorer(target, options), entries);
    assert!(faults.is_empty(), "{faults:?}");
}

fn below(target: &Path) -> Vec<String> {
    capture(target)
        .into_iter()
        .map(|(e, _)| String::from_utf8(e.path).unwrap())
        .collect()
}

fn folder(path: &str) -> Captured {
    (entry(path, EntryKind::Folder), Vec::new())
}

fn patterns(list: &[&str]) -> crate::Excludes {
    let mut builder = ExcludeBuilder::new();
    for pattern in list {
        builder.add(pattern, false).unwrap();
    }
    builder.build().unwrap()
}

fn a_few() -> Vec<Captured> {
    vec![
        folder("/"),
        folder("/a"),
        file("/a/1", b"one"),
        folder("/a/b"),
        file("/a/b/2", b"two"),
        folder("/c"),
        file("/c/3", b"three"),
        file("/d", b"four"),
    ]
}

#[test]
fn only_requested_entries_are_restored() {
    let restored = |include: Include, excludes: &[&str], base: &str| {
        let dir = tempfile::tempdir().unwrap();
        let options = RestoreOptions {
            include,
            excludes: patterns(excludes),
            base: base.into(),
            ..RestoreOptions::default()
        };
        place_all(dir.path(), options, &a_few());
        let mode = |name: &str| {
            fs::metadata(dir.path().join(name))
                .map(|m| m.mode() & 0o7777)
                .ok()
        };
        assert!(
            mode("a").is_none_or(|m| m == 0o750),
            "folders on the way have their metadata"
        );
        below(dir.path())
    };
    let paths = |list: &[&str]| Include {
        paths: list.iter().map(|p| p.as_bytes().to_vec()).collect(),
        ..Include::default()
    };
    assert_eq!(restored(paths(&["/a/b/2"]), &[], ""), ["/a", "/a/b", "/a/b/2"]);
    assert_eq!(
        restored(paths(&["/a", "/d"]), &[], "/"),
        ["/a", "/a/1", "/a/b", "/a/b/2", "/d"]
    );
    assert_eq!(restored(paths(&["/missing", "/a/missing"]), &[], ""), [""; 0]);
    assert_eq!(
        restored(Include::default(), &["b", "3"], ""),
        ["/a", "/a/1", "/c", "/d"]
    );
    assert_eq!(restored(Include::default(), &[], "/a"), ["/1", "/b", "/b/2"]);
    let include = Include {
        patterns: patterns(&["[23]", "b"]),
        ..Include::default()
    };
    assert_eq!(restored(include, &[], ""), ["/a", "/a/b", "/a/b/2", "/c", "/c/3"]);
}

#[test]
fn a_link_to_an_entry_that_was_not_restored_requests_it() {
    let dir = tempfile::tempdir().unwrap();
    let include = Include {
        paths: vec![b"/b".to_vec()],
        ..Include::default()
    };
    let mut restorer = restorer(
        dir.path(),
        RestoreOptions {
            include,
            ..RestoreOptions::default()
        },
    );
    fs::write(dir.path().join("a"), "not the one in the backup").unwrap();
    let link = entry(
        "/b",
        EntryKind::HardLink {
            target: b"/a".to_vec(),
        },
    );
    let Placed::MissingLinkTarget { target, link } = restorer.place(&link).unwrap() else {
        panic!()
    };
    assert_eq!(target, b"/a");
    let (first, content) = file("/a", b"content of a");
    let Placed::File(writer) = link.file(&first).open().unwrap() else {
        panic!()
    };
    writer.write_at(0, &content).unwrap();
    writer.finish().unwrap();
    assert_eq!(fs::read(dir.path().join("b")).unwrap(), content);
}

#[test]
fn folders_wait_for_links_whose_first_name_is_not_restored() {
    let dir = tempfile::tempdir().unwrap();
    let include = Include {
        paths: vec![b"/b".to_vec(), b"/c".to_vec()],
        ..Include::default()
    };
    let options = RestoreOptions {
        include,
        ..RestoreOptions::default()
    };
    let mut restorer = restorer(dir.path(), options);
    let read_only = |path: &str| ListingEntry {
        mode: 0o555,
        mtime: FileTime::new(7, 0),
        ..entry(path, EntryKind::Folder)
    };
    let kind = EntryKind::HardLink {
        target: b"/a/first".to_vec(),
    };
    let mut links = Vec::new();
    for folder in ["/b", "/c"] {
        restorer.place(&read_only(folder)).unwrap();
        let link = entry(&format!("{folder}/link"), kind.clone());
        match restorer.place(&link).unwrap() {
            Placed::MissingLinkTarget { link, .. } => links.push(link),
            other => panic!("{other:?}"),
        }
    }
    restorer.place(&entry("/d", EntryKind::Folder)).unwrap();
    let mode = |name: &str| fs::metadata(dir.path().join(name)).unwrap().mode() & 0o7777;
    assert_eq!(
        (mode("b"), mode("c")),
        (0o1700, 0o1700),
        "something is yet to be made in them"
    );
    let second = links.pop().unwrap();
    let (first, content) = file("/a/first", b"content");
    assert!(links[0].file(&first).write(&content).unwrap().is_none());
    assert!(matches!(second.link(&links[0]), Ok(Placed::Done)));
    drop(links);
    let faults = restorer.finish();
    assert!(faults.is_empty(), "{faults:?}");
    for folder in ["b", "c"] {
        let of = fs::metadata(dir.path().join(folder)).unwrap();
        assert_eq!((of.mode() & 0o7777, of.mtime()), (0o555, 7), "{folder}");
        let link = dir.path().join(folder).join("link");
        assert_eq!(
            (fs::read(&link).unwrap(), fs::metadata(&link).unwrap().nlink()),
            (content.clone(), 2)
        );
    }
}

#[test]
fn overwriting_follows_the_choice() {
    let new = FileTime::new(5, 0);
    let older = |path: &str| {
        let file = fs::File::options().write(true).open(path).unwrap();
        file.set_modified(std::time::UNIX_EPOCH + std::time::Duration::from_secs(4))
            .unwrap();
    };
    let place = |choice: Overwrite, prepare: &dyn Fn(&Path)| {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("f");
        prepare(&path);
        let (wanted, content) = (
            ListingEntry {
                mtime: new,
                ..file("/f", b"").0
            },
            b"new!",
        );
        let wanted = ListingEntry {
            kind: EntryKind::File {
                len: 4,
                holes: Vec::new(),
            },
            ..wanted
        };
        let mut restorer = restorer(
            dir.path(),
            RestoreOptions {
                overwrite: choice,
                ..RestoreOptions::default()
            },
        );
        let reason = match restorer.place(&wanted) {
            Ok(Placed::File(file)) => {
                file.write_at(0, content).unwrap();
                file.finish().unwrap();
                None
            }
            Ok(Placed::Skipped(reason)) => Some(reason),
            other => panic!("{other:?}"),
        };
        assert!(restorer.finish().is_empty());
        assert_eq!(
            fs::read_dir(dir.path()).unwrap().count(),
            1,
            "nothing temporary stays"
        );
        (
            reason,
            fs::read(&path).unwrap(),
            fs::symlink_metadata(&path).unwrap().mode() & 0o7777,
        )
    };
    let with = |content: &'static str, times: fn(&str)| {
        move |path: &Path| {
            fs::write(path, content).unwrap();
            times(path.to_str().unwrap());
        }
    };
    let same_time = |path: &str| {
        let file = fs::File::options().write(true).open(path).unwrap();
        file.set_modified(std::time::UNIX_EPOCH + std::time::Duration::from_secs(5))
            .unwrap();
    };
    let replaced = (None, b"new!".to_vec(), 0o750);
    for choice in [
        Overwrite::Always,
        Overwrite::IfChanged,
        Overwrite::IfNewer,
        Overwrite::Never,
    ] {
        assert_eq!(place(choice, &|_| ()), replaced);
    }
    assert_eq!(place(Overwrite::Always, &with("old!", same_time)), replaced);
    assert_eq!(
        place(Overwrite::Never, &with("old", older)).0,
        Some(SkipReason::Exists)
    );
    assert_eq!(
        place(Overwrite::IfNewer, &with("old", same_time)).0,
        Some(SkipReason::NotNewer)
    );
    assert_eq!(place(Overwrite::IfNewer, &with("old", older)), replaced);
    assert_eq!(place(Overwrite::IfChanged, &with("old", same_time)), replaced);
    assert_eq!(place(Overwrite::IfChanged, &with("old!", older)), replaced);
    let kept = (Some(SkipReason::Unchanged), b"old!".to_vec(), 0o750);
    assert_eq!(
        place(Overwrite::IfChanged, &with("old!", same_time)),
        kept,
        "the mode is set all the same"
    );
    assert_eq!(
        place(Overwrite::Always, &|path| symlink("/etc/passwd", path).unwrap()),
        replaced
    );
    assert_eq!(
        place(Overwrite::Always, &|path| fs::create_dir(path).unwrap()),
        replaced
    );
}

#[test]
fn replaced_entries_leave_their_other_names_untouched() {
    let dir = tempfile::tempdir().unwrap();
    let outside = tempfile::tempdir().unwrap();
    fs::write(outside.path().join("precious"), "precious").unwrap();
    fs::hard_link(outside.path().join("precious"), dir.path().join("f")).unwrap();
    symlink(outside.path(), dir.path().join("d")).unwrap();
    symlink("x", dir.path().join("l")).unwrap();
    fs::create_dir_all(dir.path().join("full/x")).unwrap();
    let link = (
        entry(
            "/l",
            EntryKind::Symlink {
                target: b"y".to_vec(),
            },
        ),
        Vec::new(),
    );
    let all = [
        folder("/d"),
        file("/d/x", b"x"),
        file("/f", b"new"),
        file("/full", b""),
        link,
    ];
    let faults = restore(restorer(dir.path(), RestoreOptions::default()), &all);
    assert_eq!(faults.len(), 1, "{faults:?}");
    assert_eq!(
        faults[0].path(),
        Some(&b"/full"[..]),
        "a folder with content stays"
    );
    assert_eq!(below(dir.path()), ["/d", "/d/x", "/f", "/full", "/full/x", "/l"]);
    assert_eq!(fs::read_link(dir.path().join("l")).unwrap(), Path::new("y"));
    assert_eq!(fs::read(outside.path().join("precious")).unwrap(), b"precious");
    assert_eq!(fs::read_dir(outside.path()).unwrap().count(), 1);
}

#[test]
fn zeros_are_stored_as_chosen() {
    const BLOCK: u64 = 65536;
    const BLOCK_LEN: usize = 65536;
    let mut content = vec![0; 8 * BLOCK_LEN];
    content[BLOCK_LEN - 1] = 1;
    content[3 * BLOCK_LEN..4 * BLOCK_LEN].fill(2);
    let holes = vec![(BLOCK, 2 * BLOCK), (6 * BLOCK, 2 * BLOCK)];
    let kind = EntryKind::File {
        len: content.len() as u64,
        holes,
    };
    let wanted = entry("/f", kind);
    for (choice, most) in [(Sparse::Never, 8), (Sparse::AsSource, 4), (Sparse::Zeros, 2)] {
        let dir = tempfile::tempdir().unwrap();
        let mut restorer = restorer(
            dir.path(),
            RestoreOptions {
                sparse: choice,
                ..RestoreOptions::default()
            },
        );
        let Placed::File(file) = restorer.place(&wanted).unwrap() else {
            panic!()
        };
        // Unaligned cuts, from two threads; zeros as holes and as bytes.
        let (head, tail) = content.split_at(200_001);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let told = 4 * BLOCK + 5;
                let before = usize::try_from(told).unwrap() - head.len();
                file.write_at(head.len() as u64, &tail[..before]).unwrap();
                file.skip_zeros(told, 3 * BLOCK).unwrap();
                file.write_at(told + 3 * BLOCK, &tail[before + 3 * BLOCK_LEN..])
                    .unwrap();
            });
            scope.spawn(|| {
                for (n, part) in head.chunks(30_000).enumerate() {
                    file.write_at(n as u64 * 30_000, part).unwrap();
                }
            });
        });
        file.finish().unwrap();
        assert!(fs::read(dir.path().join("f")).unwrap() == content, "{choice:?}");
        let blocks = fs::metadata(dir.path().join("f")).unwrap().blocks() * 512 / BLOCK;
        assert!(
            blocks <= most && (choice == Sparse::Zeros || blocks == most),
            "{choice:?}: {blocks}"
        );
    }
}

#[test]
fn bytes_where_the_listing_claims_a_hole_are_written() {
    let dir = tempfile::tempdir().unwrap();
    let wanted = entry(
        "/f",
        EntryKind::File {
            len: 9000,
            holes: vec![(10, 8000)],
        },
    );
    let mut restorer = restorer(dir.path(), RestoreOptions::default());
    let Placed::File(file) = restorer.place(&wanted).unwrap() else {
        panic!()
    };
    file.write_at(0, &[3; 9000]).unwrap();
    file.finish().unwrap();
    assert_eq!(fs::read(dir.path().join("f")).unwrap(), [3; 9000]);
}

#[test]
fn an_existing_file_stays_until_the_new_one_is_finished() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("f"), b"good").unwrap();
    let mut restorer = restorer(dir.path(), RestoreOptions::default());
    let mut begin = || {
        let Placed::File(writer) = restorer.place(&file("/f", &[1; 100]).0).unwrap() else {
            panic!()
        };
        writer.write_at(0, &[1; 60]).unwrap();
        writer
    };
    let good = || fs::read(dir.path().join("f")).unwrap() == b"good";
    drop(begin());
    assert!(
        good() && below(dir.path()) == ["/f"],
        "dropped: interrupted, or bytes are lost"
    );
    assert!(begin().finish().is_err());
    assert!(good() && below(dir.path()) == ["/f"], "incomplete");
    let writer = begin();
    assert!(good(), "not before it is finished");
    writer.write_at(60, &[1; 40]).unwrap();
    writer.finish().unwrap();
    assert_eq!(fs::read(dir.path().join("f")).unwrap(), [1; 100]);
    assert_eq!(below(dir.path()), ["/f"]);
}

#[test]
fn an_unfinished_file_is_no_target_of_links() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("b"), b"old").unwrap();
    let mut restorer = restorer(dir.path(), RestoreOptions::default());
    let Placed::File(writer) = restorer.place(&file("/b", b"new").0).unwrap() else {
        panic!()
    };
    let link = entry(
        "/c",
        EntryKind::HardLink {
            target: b"/b".to_vec(),
        },
    );
    let too_early = restorer.place(&link).unwrap();
    assert!(
        matches!(too_early, Placed::MissingLinkTarget { .. }),
        "not to what is replaced"
    );
    drop(too_early);
    writer.write_at(0, b"new").unwrap();
    writer.finish().unwrap();
    assert!(matches!(restorer.place(&link), Ok(Placed::Done)));
    assert!(restorer.finish().is_empty());
    assert_eq!(fs::read(dir.path().join("b")).unwrap(), b"new");
    assert_eq!(fs::read(dir.path().join("c")).unwrap(), b"new");
}

#[test]
fn incomplete_files_do_not_stay() {
    let dir = tempfile::tempdir().unwrap();
    let mut restorer = restorer(dir.path(), RestoreOptions::default());
    let begin = |restorer: &mut Restorer, path| {
        let Placed::File(file) = restorer.place(&file(path, &[1; 100]).0).unwrap() else {
            panic!()
        };
        file.write_at(0, &[1; 60]).unwrap();
        file
    };
    let short = begin(&mut restorer, "/a");
    assert!(matches!(
        short.write_at(60, &[1; 41]),
        Err(TreeError::System { .. })
    ));
    assert!(short.skip_zeros(u64::MAX, 1).is_err());
    assert!(matches!(
        short.finish(),
        Err(TreeError::Incomplete {
            written: 60,
            expected: 100,
            ..
        })
    ));
    let given_up = begin(&mut restorer, "/b");
    let link = entry(
        "/c",
        EntryKind::HardLink {
            target: b"/b".to_vec(),
        },
    );
    drop(given_up);
    let placed = restorer.place(&link).unwrap();
    assert!(matches!(placed, Placed::MissingLinkTarget { .. }));
    drop(placed);
    assert!(restorer.finish().is_empty());
    assert_eq!(below(dir.path()), [""; 0]);
}

#[test]
fn a_folders_metadata_waits_for_the_last_file_in_it() {
    let dir = tempfile::tempdir().unwrap();
    let mut restorer = restorer(dir.path(), RestoreOptions::default());
    let read_only = ListingEntry {
        mode: 0o555,
        ..entry("/a", EntryKind::Folder)
    };
    restorer.place(&read_only).unwrap();
    let Placed::File(late) = restorer.place(&file("/a/f", b"").0).unwrap() else {
        panic!()
    };
    restorer.place(&entry("/b", EntryKind::Folder)).unwrap();
    let mode = || fs::metadata(dir.path().join("a")).unwrap().permissions().mode() & 0o7777;
    assert_eq!(mode(), 0o1700);
    late.finish().unwrap();
    assert_eq!(mode(), 0o555);
    let mtime = fs::metadata(dir.path().join("a")).unwrap().mtime_nsec();
    assert_eq!(mtime, 123_456_789);
    assert!(restorer.finish().is_empty());
}

#[test]
fn a_restore_that_is_broken_off_leaves_its_incomplete_folders_to_the_next() {
    broken_off_and_again(0o755, 0o1700);
}

/// The system gives new folders the bit, too.
#[cfg(target_os = "linux")]
#[test]
fn incomplete_folders_are_recognised_in_a_set_group_id_folder() {
    broken_off_and_again(0o2755, 0o3700);
}

fn broken_off_and_again(target: u32, unfinished: u32) {
    let dir = tempfile::tempdir().unwrap();
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(target)).unwrap();
    let listed = |path: &str| ListingEntry {
        mode: 0o555,
        ..entry(path, EntryKind::Folder)
    };
    let mode = |name: &str| fs::metadata(dir.path().join(name)).unwrap().mode() & 0o7777;
    let mut broken_off = restorer(dir.path(), RestoreOptions::default());
    broken_off.place(&listed("/a")).unwrap();
    broken_off.place(&listed("/b")).unwrap();
    let Placed::File(late) = broken_off.place(&file("/b/f", b"").0).unwrap() else {
        panic!()
    };
    broken_off.place(&listed("/c")).unwrap();
    drop(broken_off);
    drop(late);
    assert_eq!([mode("a"), mode("b"), mode("c")], [0o555, unfinished, unfinished]);
    let overwrite = Overwrite::Never;
    let again = [
        (listed("/a"), Vec::new()),
        (listed("/b"), Vec::new()),
        file("/b/f", b"whole"),
        (listed("/c"), Vec::new()),
    ];
    place_all(
        dir.path(),
        RestoreOptions {
            overwrite,
            ..RestoreOptions::default()
        },
        &again,
    );
    for name in ["a", "b", "c"] {
        let now = fs::metadata(dir.path().join(name)).unwrap();
        assert_eq!((mode(name), now.mtime_nsec()), (0o555, 123_456_789), "{name}");
    }
}

#[test]
fn restoring_again_changes_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let link = (
        entry(
            "/e",
            EntryKind::HardLink {
                target: b"/d".to_vec(),
            },
        ),
        Vec::new(),
    );
    let all: Vec<_> = a_few().into_iter().chain([link]).collect();
    place_all(dir.path(), RestoreOptions::default(), &all);
    let first = capture(dir.path());
    for overwrite in [
        Overwrite::IfChanged,
        Overwrite::IfNewer,
        Overwrite::Never,
        Overwrite::Always,
    ] {
        place_all(
            dir.path(),
            RestoreOptions {
                overwrite,
                ..RestoreOptions::default()
            },
            &all,
        );
        assert_eq!(
            comparable(&capture(dir.path())),
            comparable(&first),
            "{overwrite:?}"
        );
    }
}

/// Works in a thread of another user, in a folder of theirs. Returns `None` without root.
fn without_privileges<T: Send + 'static>(work: impl FnOnce(&Path) -> T + Send + 'static) -> Option<T> {
    use rustix::thread::{set_thread_res_gid, set_thread_res_uid};
    if !rustix::process::geteuid().is_root() {
        return None;
    }
    let dir = tempfile::tempdir().unwrap();
    let target = dir.path().join("t");
    fs::create_dir(&target).unwrap();
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
    std::os::unix::fs::chown(&target, Some(12345), Some(12345)).unwrap();
    let other = std::thread::spawn(move || {
        let (user, group) = (rustix::fs::Uid::from_raw(12345), rustix::fs::Gid::from_raw(12345));
        rustix::thread::set_thread_groups(&[]).unwrap();
        set_thread_res_gid(group, group, group).unwrap();
        set_thread_res_uid(user, user, user).unwrap();
        work(&target)
    });
    Some(other.join().unwrap())
}

#[test]
fn a_folder_opened_for_writing_gets_its_mode_back_after_every_end() {
    let modes = without_privileges(|target| {
        let there = target.join("d");
        fs::create_dir(&there).unwrap();
        let listed = ListingEntry {
            mode: 0o700,
            ..entry("/d", EntryKind::Folder)
        };
        let mode = || fs::metadata(&there).unwrap().mode() & 0o7777;
        let mut modes = Vec::new();
        for is_broken_off in [true, false] {
            fs::set_permissions(&there, fs::Permissions::from_mode(0o500)).unwrap();
            let mut restorer = Restorer::new(target, RestoreOptions::default()).unwrap();
            restorer.place(&listed).unwrap();
            modes.push(mode());
            if is_broken_off {
                drop(restorer);
            } else {
                assert_eq!(restorer.finish().len(), 0);
            }
            modes.push(mode());
        }
        modes
    });
    assert!(modes.is_none_or(|modes| modes == [0o700, 0o500, 0o700, 0o700]));
}

/// A refusal of metadata that only the superuser may set is no fault.
#[test]
fn without_privileges_owners_stay_and_set_id_bits_are_dropped() {
    let restored = without_privileges(|target| {
        let foreign = |e: ListingEntry| ListingEntry { uid: 1, gid: 1, ..e };
        let (plain, content) = file("/plain", b"p");
        let (setuid, _) = file("/setuid", b"s");
        let read_only = ListingEntry {
            xattrs: vec![(b"user.x".to_vec(), b"1".to_vec())],
            mode: 0o400,
            ..plain
        };
        let all = [
            (
                entry("/device", EntryKind::CharDevice { device: 259 }),
                Vec::new(),
            ),
            (
                foreign(ListingEntry {
                    mode: 0o500,
                    ..entry("/d", EntryKind::Folder)
                }),
                Vec::new(),
            ),
            file("/d/x", b"x"),
            (foreign(read_only), content),
            (
                foreign(ListingEntry {
                    mode: 0o6755,
                    ..setuid
                }),
                b"s".to_vec(),
            ),
        ];
        let faults = restore(Restorer::new(target, RestoreOptions::default()).unwrap(), &all);
        (faults, capture(target))
    });
    let Some((faults, captured)) = restored else {
        return;
    };
    let told: Vec<_> = faults
        .iter()
        .map(|f| (f.path().unwrap(), matches!(f, TreeError::SetIdDropped { .. })))
        .collect();
    assert_eq!(
        told,
        [(&b"/device"[..], false), (&b"/setuid"[..], true)],
        "{faults:?}"
    );
    let modes: Vec<_> = captured
        .into_iter()
        .map(|(e, _)| (e.uid, e.mode, e.xattrs.len()))
        .collect();
    assert_eq!(
        modes,
        [
            (12345, 0o500, 0),
            (12345, 0o750, 0),
            (12345, 0o400, 1),
            (12345, 0o755, 0)
        ]
    );
}

#[test]
fn default_acls_of_the_target_are_not_inherited() {
    let dir = tempfile::tempdir().unwrap();
    // Version 2: user::rwx, user:1:rwx, group::rwx, mask::rwx, other::---
    let mut acl = vec![2, 0, 0, 0];
    for (tag, perm, id) in [
        (1u16, 7u16, u32::MAX),
        (2, 7, 1),
        (4, 7, u32::MAX),
        (16, 7, u32::MAX),
        (32, 0, u32::MAX),
    ] {
        acl.extend(tag.to_le_bytes());
        acl.extend(perm.to_le_bytes());
        acl.extend(id.to_le_bytes());
    }
    let flags = rustix::fs::XattrFlags::empty();
    if rustix::fs::setxattr(dir.path(), "system.posix_acl_default", &acl, flags).is_err() {
        return;
    }
    let with_acl = ListingEntry {
        mode: 0o770,
        xattrs: vec![(b"system.posix_acl_access".to_vec(), acl.clone())],
        ..file("/g", b"g").0
    };
    let all = [
        folder("/d"),
        file("/d/x", b"x"),
        file("/f", b"f"),
        (with_acl, b"g".to_vec()),
    ];
    place_all(dir.path(), RestoreOptions::default(), &all);
    assert_eq!(comparable(&capture(dir.path())), comparable_names(&all));
}

/// A change of the owner clears both, so they must be set after it.
#[test]
fn set_id_bits_and_capabilities_survive_the_owner() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    // Version 2, effective, CAP_NET_RAW.
    let capability = [
        &0x0200_0001_u32.to_le_bytes()[..],
        &0x2000_u32.to_le_bytes(),
        &[0; 12],
    ]
    .concat();
    let program = ListingEntry {
        mode: 0o6755,
        uid: 1,
        gid: 1,
        xattrs: vec![(b"security.capability".to_vec(), capability)],
        ..file("/ping", b"x").0
    };
    let all = [(program, b"x".to_vec())];
    place_all(dir.path(), RestoreOptions::default(), &all);
    assert_eq!(comparable(&capture(dir.path())), comparable_names(&all));
}

/// Like the captured entries, with the account's names.
fn comparable_names(all: &[Captured]) -> Vec<Captured> {
    let accounts = crate::Accounts::of_system();
    let mut same = comparable(all);
    for (entry, _) in &mut same {
        (entry.user, entry.group) = (
            accounts.user(entry.uid).to_vec(),
            accounts.group(entry.gid).to_vec(),
        );
    }
    same
}

#[test]
fn a_sparse_file_of_a_terabyte_takes_no_space() {
    let dir = tempfile::tempdir().unwrap();
    let len = 1 << 40;
    let wanted = entry(
        "/f",
        EntryKind::File {
            len,
            holes: vec![(0, len - 1)],
        },
    );
    let mut restorer = restorer(dir.path(), RestoreOptions::default());
    let Placed::File(file) = restorer.place(&wanted).unwrap() else {
        panic!()
    };
    file.skip_zeros(0, len - 1).unwrap();
    file.write_at(len - 1, b"!").unwrap();
    file.finish().unwrap();
    let restored = fs::File::open(dir.path().join("f")).unwrap();
    assert!(restored.metadata().unwrap().len() == len && restored.metadata().unwrap().blocks() < 100);
    let mut last = [0];
    restored.read_exact_at(&mut last, len - 1).unwrap();
    assert_eq!(&last, b"!");
}
