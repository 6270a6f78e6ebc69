use std::collections::HashMap;
use std::fs;
use std::os::unix::fs::{MetadataExt as _, symlink};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use format::listing::{EntryKind, ListingEntry};
use rustix::fs::{CWD, FileType, Mode, OFlags, mkdirat, mknodat, openat};

use super::{FolderId, Marker, StoreFolder, Walk};
use crate::folder::Folder;
use crate::testing::{bytes_of, names, options, path_of, read, walk};
use crate::{ExcludeBuilder, LostLinks, Roots, TreeError, WalkOptions, order};

fn tree(files: &[&str]) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    for file in files {
        let path = dir.path().join(file);
        if file.ends_with('/') {
            fs::create_dir_all(path).unwrap();
        } else {
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, file).unwrap();
        }
    }
    dir
}

/// Whether the entry is in the root. Other tests may change the folders above meanwhile.
fn is_in(root: &Path, entry: &ListingEntry) -> bool {
    entry.path.starts_with(bytes_of(root))
}

/// The call that returns mount and facts at once returns the same facts as `stat`.
#[test]
fn a_walk_that_stays_on_one_file_system_finds_the_same() {
    let dir = tree(&["a", "b/c", "b/d/e", "empty/"]);
    symlink("nowhere", dir.path().join("link")).unwrap();
    fs::hard_link(dir.path().join("a"), dir.path().join("b/twin")).unwrap();
    mknodat(CWD, dir.path().join("pipe"), FileType::Fifo, Mode::RWXU, 0).unwrap();
    fs::File::create(dir.path().join("sparse"))
        .unwrap()
        .set_len(1 << 40)
        .unwrap();
    let found = |one_file_system| {
        let walked = walk(WalkOptions {
            one_file_system,
            ..options(dir.path())
        });
        walked
            .into_iter()
            .filter(|found| is_in(dir.path(), &found.entry))
            .map(|found| (found.entry, found.links, found.len))
            .collect::<Vec<_>>()
    };
    assert_eq!(found(true), found(false));
}

#[test]
fn entries_arrive_in_listing_order_after_their_parents() {
    let dir = tree(&["a.d", "a/b", "a/c/d", "a-", "z/", "A"]);
    fs::write(dir.path().join(path_of(b"\xff\n\x01")), "x").unwrap();
    let found = walk(options(dir.path()));
    assert!(
        found
            .windows(2)
            .all(|w| order::compare(&w[0].entry.path, &w[1].entry.path).is_lt())
    );
    let want = [
        "/A",
        "/a",
        "/a/b",
        "/a/c",
        "/a/c/d",
        "/a-",
        "/a.d",
        "/z",
        "/\u{fffd}\n\u{1}",
    ];
    assert_eq!(names(dir.path(), &found), want);
    let parents: Vec<&[u8]> = dir.path().ancestors().map(bytes_of).collect();
    for (i, parent) in parents.iter().rev().enumerate() {
        assert_eq!(found[i].entry.path, *parent);
        assert_eq!(found[i].entry.kind, EntryKind::Folder);
    }
}

/// Like readers behind a walk, under the highest load.
#[test]
fn folders_are_listed_while_others_open_theirs_again() {
    let files: Vec<String> = (0..400).map(|n| format!("{n}/file")).collect();
    let files: Vec<&str> = files.iter().map(String::as_str).collect();
    let dir = tree(&files);
    let known = Mutex::new(Vec::<Arc<Folder>>::new());
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    let folders = known.lock().unwrap().clone();
                    for folder in folders.iter().rev() {
                        folder.descriptor().unwrap();
                    }
                }
            });
        }
        let result = std::panic::catch_unwind(|| {
            for _ in 0..20 {
                for found in Walk::new(options(dir.path())) {
                    known.lock().unwrap().push(found.unwrap().folder);
                }
                known.lock().unwrap().clear();
            }
        });
        done.store(true, Ordering::Relaxed);
        result.unwrap();
    });
}

#[test]
fn only_the_roots_and_the_way_to_them_are_walked() {
    let dir = tree(&["a/x", "a/y/z", "b/x", "c", "d/e/f"]);
    symlink("d", dir.path().join("way")).unwrap();
    let roots = Roots::new(dir.path(), ["a/y", "c", "way/e", "a/y/z"]);
    let found = walk(WalkOptions {
        roots,
        ..WalkOptions::default()
    });
    assert_eq!(
        names(dir.path(), &found),
        ["/a", "/a/y", "/a/y/z", "/c", "/way", "/way/e", "/way/e/f"]
    );
    let way = found.iter().find(|e| e.entry.path.ends_with(b"/way")).unwrap();
    assert_eq!(
        way.entry.kind,
        EntryKind::Folder,
        "a link on the way is what it leads to"
    );
}

#[test]
fn a_linked_root_is_a_link_and_a_missing_root_is_reported() {
    let dir = tree(&["a/x"]);
    symlink("a", dir.path().join("link")).unwrap();
    let roots = Roots::new(dir.path(), ["link", "missing"]);
    let items: Vec<_> = Walk::new(WalkOptions {
        roots,
        ..WalkOptions::default()
    })
    .collect();
    let faults: Vec<_> = items.iter().filter_map(|i| i.as_ref().err()).collect();
    assert_eq!(faults.len(), 1);
    assert!(matches!(faults[0], TreeError::System { .. }));
    let last = items.iter().filter_map(|i| i.as_ref().ok()).next_back().unwrap();
    assert_eq!(
        last.entry.kind,
        EntryKind::Symlink {
            target: b"a".to_vec()
        }
    );
}

/// As in the kernel, tar and rsync.
#[test]
fn a_root_that_is_a_link_is_followed_where_a_slash_ends_it() {
    let dir = tree(&["a/x", "a/sub/y", "file"]);
    for (name, target) in [("link", "a"), ("tofile", "file"), ("dangling", "nowhere")] {
        symlink(target, dir.path().join(name)).unwrap();
    }
    symlink("a", dir.path().join("a/sub/inner")).unwrap();
    for given in ["link/", "link/.", "./link//"] {
        let found = walk(WalkOptions {
            roots: Roots::new(dir.path(), [given]),
            ..WalkOptions::default()
        });
        let want = ["/link", "/link/sub", "/link/sub/inner", "/link/sub/y", "/link/x"];
        assert_eq!(names(dir.path(), &found), want, "{given}");
        let root = found.iter().find(|e| e.entry.path.ends_with(b"/link")).unwrap();
        assert_eq!(root.entry.kind, EntryKind::Folder, "{given}");
        let inner = found.iter().find(|e| e.entry.path.ends_with(b"inner")).unwrap();
        assert!(matches!(inner.entry.kind, EntryKind::Symlink { .. }), "{given}");
    }
    for given in ["tofile/", "dangling/", "file/"] {
        let options = WalkOptions {
            roots: Roots::new(dir.path(), [given]),
            ..WalkOptions::default()
        };
        let faults: Vec<_> = Walk::new(options).filter_map(Result::err).collect();
        assert_eq!(faults.len(), 1, "{given}");
    }
}

#[test]
fn excludes_hold_but_for_roots() {
    let dir = tree(&["a/x.o", "a/x.c", "a/deep/y.o", "skip/z", "skip/keep/w", "k.o"]);
    let mut patterns = ExcludeBuilder::new();
    for pattern in ["*.o", "skip", "!k.o"] {
        patterns.add(pattern, false).unwrap();
    }
    let roots = Roots::new(dir.path(), [".", "skip/keep"]);
    let found = walk(WalkOptions {
        roots,
        excludes: patterns.build().unwrap(),
        ..WalkOptions::default()
    });
    let want = [
        "/a",
        "/a/deep",
        "/a/x.c",
        "/k.o",
        "/skip",
        "/skip/keep",
        "/skip/keep/w",
    ];
    assert_eq!(names(dir.path(), &found), want);
}

#[test]
fn markers_sizes_and_folders_are_left_out() {
    let dir = tree(&[
        "cache/x",
        "cache/sub/y",
        "fake/CACHEDIR.TAG",
        "fake/x",
        "store/data",
        "large",
        "n/.nobackup",
        "n/x",
    ]);
    let tag = [&Marker::cache_folder().header[..], b"\n# more"].concat();
    fs::write(dir.path().join("cache/CACHEDIR.TAG"), tag).unwrap();
    fs::write(dir.path().join("large"), vec![1; 1001]).unwrap();
    let store = store(&dir.path().join("store"));
    let found = walk(WalkOptions {
        markers: vec![
            Marker::cache_folder(),
            Marker {
                name: b".nobackup".to_vec(),
                header: Vec::new(),
            },
        ],
        file_bytes_max: Some(1000),
        store: Some(store),
        ..options(dir.path())
    });
    let want = [
        "/cache",
        "/cache/CACHEDIR.TAG",
        "/fake",
        "/fake/CACHEDIR.TAG",
        "/fake/x",
        "/n",
        "/n/.nobackup",
        "/store",
    ];
    assert_eq!(names(dir.path(), &found), want);
}

/// A store with the entries `data` and `reserve`.
fn store(folder: &Path) -> StoreFolder {
    StoreFolder {
        folder: FolderId::of(folder).unwrap(),
        names: vec![b"data".to_vec(), b"reserve".to_vec()],
    }
}

#[test]
fn the_store_is_left_out_and_what_else_is_in_its_folder_is_not() {
    let dir = tree(&[
        "disk/data/x",
        "disk/reserve",
        "disk/photos/y",
        "disk/photos/data/z",
    ]);
    let walk = |roots: &[&str]| {
        let walk = Walk::new(WalkOptions {
            roots: Roots::new(dir.path(), roots),
            store: Some(store(&dir.path().join("disk"))),
            ..options(dir.path())
        });
        let (found, faults): (Vec<_>, Vec<_>) = walk.partition(Result::is_ok);
        let found: Vec<_> = found.into_iter().map(Result::unwrap).collect();
        let faults: Vec<_> = faults.into_iter().filter_map(Result::err).collect();
        (names(dir.path(), &found), faults)
    };
    let photos = [
        "/disk",
        "/disk/photos",
        "/disk/photos/data",
        "/disk/photos/data/z",
        "/disk/photos/y",
    ];
    for roots in [&["disk/photos"][..], &["disk"], &["."], &["disk", "disk/photos"]] {
        let (found, faults) = walk(roots);
        assert_eq!(found, photos, "{roots:?}");
        assert!(faults.is_empty(), "{roots:?}: {faults:?}");
    }
    // What names the store's own entries is an error, and the others are walked.
    for root in ["disk/data", "disk/data/x", "disk/reserve"] {
        let (found, faults) = walk(&[root, "disk/photos"]);
        assert_eq!(found, photos, "{root}");
        assert!(
            matches!(faults[..], [TreeError::IsStore { .. }]),
            "{root}: {faults:?}"
        );
    }
}

#[test]
fn another_file_system_is_recorded_but_not_entered() {
    let (outer, inner) = (Path::new("/dev"), Path::new("/dev/shm"));
    let device = |p| fs::metadata(p).map(|m| m.dev()).ok();
    if device(inner).is_none() || device(outer) == device(inner) {
        return;
    }
    let _probe = tempfile::NamedTempFile::new_in(inner).unwrap();
    let listed = |one_file_system| {
        let walk = Walk::new(WalkOptions {
            one_file_system,
            ..options(outer)
        });
        let paths: Vec<_> = walk.filter_map(Result::ok).map(|e| e.entry.path).collect();
        let below = paths.iter().filter(|p| p.starts_with(b"/dev/shm/")).count();
        (paths.iter().any(|p| p == b"/dev/shm"), below > 0)
    };
    assert_eq!(listed(true), (true, false));
    assert_eq!(listed(false), (true, true));
}

#[test]
fn hard_links_name_the_first_and_are_mended_when_it_is_lost() {
    let dir = tree(&["a/first", "single"]);
    for other in ["a/second", "b", "c"] {
        fs::hard_link(dir.path().join("a/first"), dir.path().join(other)).unwrap();
    }
    let mut found = walk(options(dir.path()));
    let target = |name: &str| EntryKind::HardLink {
        target: bytes_of(&dir.path().join(name)).to_vec(),
    };
    let kinds = |found: &[super::WalkEntry]| -> HashMap<String, EntryKind> {
        let below = |e: &super::WalkEntry| names(dir.path(), std::slice::from_ref(e)).pop();
        found
            .iter()
            .filter_map(|e| Some((below(e)?, e.entry.kind.clone())))
            .collect()
    };
    let file = EntryKind::File {
        len: 7,
        holes: Vec::new(),
    };
    let seen = kinds(&found);
    assert_eq!(seen["/a/first"], file);
    for other in ["/a/second", "/b", "/c"] {
        assert_eq!(seen[other], target("a/first"));
    }

    let mut lost = LostLinks::default();
    for found in &mut found {
        lost.mend(found);
        if found.entry.path.ends_with(b"first") || found.entry.path.ends_with(b"second") {
            lost.lost(found);
        }
    }
    let mended = kinds(&found);
    assert_eq!(mended["/a/second"], file);
    assert_eq!(mended["/b"], file, "the second was lost too");
    assert_eq!(mended["/c"], target("b"));
    assert_eq!(
        mended["/single"],
        EntryKind::File {
            len: 6,
            holes: Vec::new()
        }
    );
    let b = found.iter().find(|e| e.entry.path.ends_with(b"/b")).unwrap();
    assert_eq!(read(b).1, b"a/first");
}

#[test]
fn entries_stay_readable_when_their_folders_were_closed() {
    let dir = tempfile::tempdir().unwrap();
    for n in 0..300 {
        fs::create_dir(dir.path().join(format!("d{n}"))).unwrap();
        fs::write(dir.path().join(format!("d{n}/f")), format!("{n}")).unwrap();
    }
    let found = walk(options(dir.path()));
    // Of this walk alone: other tests have files open, too.
    let links = fs::read_dir("/proc/self/fd").unwrap();
    let links = links.filter_map(|link| fs::read_link(link.unwrap().path()).ok());
    let open = links.filter(|path| path.starts_with(dir.path())).count();
    assert!(open < 200, "folders are closed: {open} descriptors");
    let files: Vec<_> = found.iter().filter(|e| e.len > 0).collect();
    assert_eq!(files.len(), 300);
    for file in files.iter().rev().chain(&files) {
        let (entry, content) = read(file);
        assert!(entry.path.ends_with(&[b"/d", &content[..], b"/f"].concat()));
    }
}

#[test]
fn a_folder_put_in_place_of_another_is_not_read() {
    let dir = tree(&["a/f"]);
    for n in 0..200 {
        fs::create_dir(dir.path().join(format!("z{n}"))).unwrap();
    }
    let found = walk(options(dir.path()));
    let file = found.iter().find(|e| e.len > 0).unwrap();
    fs::rename(dir.path().join("a"), dir.path().join("b")).unwrap();
    fs::create_dir(dir.path().join("a")).unwrap();
    fs::write(dir.path().join("a/f"), "other").unwrap();
    assert!(matches!(crate::open_file(file), Err(TreeError::Vanished { .. })));
}

#[test]
fn depth_is_not_limited_by_the_length_of_paths() {
    let dir = tempfile::tempdir().unwrap();
    let name = "n".repeat(120);
    let flags = OFlags::RDONLY | OFlags::DIRECTORY;
    let mut at = openat(CWD, dir.path(), flags, Mode::empty()).unwrap();
    for _ in 0..400 {
        mkdirat(&at, &*name, Mode::RWXU).unwrap();
        at = openat(&at, &*name, flags, Mode::empty()).unwrap();
    }
    drop(openat(&at, "bottom", OFlags::CREATE | OFlags::WRONLY, Mode::RWXU).unwrap());
    let found = walk(options(dir.path()));
    let bottom = found.last().unwrap();
    assert!(bottom.entry.path.len() > 40_000 && bottom.entry.path.ends_with(b"/bottom"));
    assert_eq!(read(bottom).1, b"");
}

#[test]
fn counting_skips_attributes() {
    let dir = tree(&["f"]);
    let counted = walk(WalkOptions {
        count_only: true,
        ..options(dir.path())
    });
    assert_eq!(counted.last().unwrap().len, 1);
    assert!(counted.iter().all(|e| e.entry.user.is_empty()));
}

/// The entries of a walk in parts, with the last stretch examined first.
fn in_parts(options: WalkOptions) -> Vec<Result<super::WalkEntry, TreeError>> {
    let (lister, mut walk) = Walk::apart(options);
    let stretches: Vec<super::Stretch> = lister.collect();
    let walk_ref = &walk;
    let looked: Vec<super::Looked> = std::thread::scope(|scope| {
        let threads: Vec<_> = stretches
            .into_iter()
            .rev()
            .map(|stretch| scope.spawn(move || walk_ref.looker().look(stretch)))
            .collect();
        threads.into_iter().rev().map(|t| t.join().unwrap()).collect()
    });
    let mut found = Vec::new();
    for looked in looked {
        walk.accept(looked);
        found.extend(walk.by_ref());
    }
    found
}

#[test]
fn others_may_look_at_files_in_any_order() {
    let many: Vec<String> = (0..900).map(|n| format!("{}/{n}", n % 40)).collect();
    let mut files: Vec<&str> = many.iter().map(String::as_str).collect();
    let flat: Vec<String> = (0..700).map(|n| format!("flat/{n}")).collect();
    files.extend(flat.iter().map(String::as_str));
    files.extend(["a/x.o", "z/", "large"]);
    let dir = tree(&files);
    fs::hard_link(dir.path().join("flat/3"), dir.path().join("0/link")).unwrap();
    fs::hard_link(dir.path().join("flat/3"), dir.path().join("zz")).unwrap();
    symlink("large", dir.path().join("flat/link")).unwrap();
    let mut patterns = ExcludeBuilder::new();
    patterns.add("*.o", false).unwrap();
    let excludes = patterns.build().unwrap();
    let options = || WalkOptions {
        excludes: excludes.clone(),
        ..options(dir.path())
    };
    let inside = |entry: &ListingEntry| is_in(dir.path(), entry);
    let whole = walk(options()).into_iter().map(|found| found.entry);
    let whole: Vec<_> = whole.filter(inside).collect();
    let parts = in_parts(options()).into_iter().map(|found| found.unwrap().entry);
    let parts: Vec<_> = parts.filter(inside).collect();
    for (one, other) in whole.iter().zip(&parts) {
        assert_eq!(one, other);
    }
    assert_eq!(whole.len(), parts.len());
    assert!(
        Walk::apart(options()).0.count() > 4,
        "more than one has something to do"
    );
    let linked = |e: &&ListingEntry| matches!(e.kind, EntryKind::HardLink { .. });
    assert_eq!(whole.iter().filter(linked).count(), 2);
    assert!(!whole.iter().any(|e| e.path.ends_with(b".o")));
}

/// The folder's listing may be wrong about a name's kind, or out of date.
#[test]
fn an_entry_that_changed_its_kind_since_the_listing_has_its_new_kind() {
    let dir = tree(&["a", "b", "c", "gone", "y/z"]);
    let path = |name: &str| dir.path().join(name);
    let (mut lister, mut walk) = Walk::apart(options(dir.path()));
    let stretch = lister.next().unwrap();
    assert!(lister.next().is_none());
    for name in ["b", "c", "gone"] {
        fs::remove_file(path(name)).unwrap();
    }
    symlink("a", path("c")).unwrap();
    for folder in ["b/in", "b/in2/deep"] {
        fs::create_dir_all(path(folder)).unwrap();
        fs::write(path(folder).join("file"), folder).unwrap();
    }
    let looked = walk.looker().look(stretch);
    walk.accept(looked);
    let (mut found, mut faults) = (Vec::new(), Vec::new());
    for item in walk {
        match item {
            Ok(entry) => found.push(entry),
            Err(fault) => faults.push(fault),
        }
    }
    let want = [
        "/a",
        "/b",
        "/b/in",
        "/b/in/file",
        "/b/in2",
        "/b/in2/deep",
        "/b/in2/deep/file",
        "/c",
        "/y",
        "/y/z",
    ];
    assert_eq!(names(dir.path(), &found), want);
    let link = found.iter().find(|e| e.entry.path.ends_with(b"/c")).unwrap();
    assert!(matches!(link.entry.kind, EntryKind::Symlink { .. }));
    assert!(matches!(&faults[..], [TreeError::Vanished { path }] if path.ends_with(b"/gone")));
}
