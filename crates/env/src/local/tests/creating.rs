//! How objects get their names, also on a failing file system.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use super::place::Place;
use super::*;

/// Ways of publishing that fail with an error of the system.
#[derive(Debug, Clone, Default)]
struct Refusing {
    link: Option<i32>,
    rename: Option<i32>,
    asked: Arc<Mutex<Vec<&'static str>>>,
}

impl Calls for Refusing {
    fn link(&self, from: Place<'_>, to: Place<'_>) -> io::Result<()> {
        self.asked.lock().unwrap().push("link");
        self.link.map_or_else(
            || Kernel.link(from, to),
            |errno| Err(io::Error::from_raw_os_error(errno)),
        )
    }

    fn rename_new(&self, from: Place<'_>, to: Place<'_>) -> io::Result<()> {
        self.asked.lock().unwrap().push("rename");
        self.rename.map_or_else(
            || Kernel.rename_new(from, to),
            |errno| Err(io::Error::from_raw_os_error(errno)),
        )
    }
}

const NO_LINKS: [i32; 5] = [
    libc::EPERM,
    libc::ENOTSUP,
    libc::EMLINK,
    libc::ENOSYS,
    libc::EXDEV,
];

#[test]
fn where_links_do_not_work_the_next_way_is_taken_and_kept() {
    for link in NO_LINKS {
        let folder = tempfile::tempdir().unwrap();
        let calls = Refusing {
            link: Some(link),
            ..Refusing::default()
        };
        let asked = Arc::clone(&calls.asked);
        let storage = open_with(folder.path(), calls, &LocalOptions::default());
        storage.put(&name("a"), &[b"1"]).unwrap();
        storage.put(&name("b"), &[b"2"]).unwrap();
        assert_eq!(
            asked.lock().unwrap()[..],
            ["link", "rename", "rename"],
            "errno {link}"
        );
        assert!(matches!(
            storage.put(&name("a"), &[b"3"]),
            Err(StorageError::AlreadyExists { .. })
        ));
        assert_eq!(storage.get(&name("a")).unwrap(), b"1");
    }
}

#[test]
fn where_neither_works_the_last_way_passes_the_suite() {
    let refuse = |rename| {
        let folder = tempfile::tempdir().unwrap();
        let calls = Refusing {
            link: Some(libc::EPERM),
            rename: Some(rename),
            ..Refusing::default()
        };
        let storage = open_with(folder.path(), calls, &LocalOptions::default());
        storage.put(&name("a"), &[b"1"]).unwrap();
        (folder, storage)
    };
    for rename in [libc::EINVAL, libc::ENOSYS, libc::ENOTSUP] {
        assert_eq!(refuse(rename).1.get(&name("a")).unwrap(), b"1", "errno {rename}");
    }
    let (_folder, storage) = refuse(libc::EINVAL);
    crate::conformance::check(&storage);
}

#[test]
fn an_error_that_is_not_about_the_way_is_reported_and_leaves_nothing() {
    for (errno, no_space) in [(libc::EIO, false), (libc::ENOSPC, true), (libc::EDQUOT, true)] {
        let folder = tempfile::tempdir().unwrap();
        let calls = Refusing {
            link: Some(errno),
            ..Refusing::default()
        };
        let storage = open_with(folder.path(), calls, &LocalOptions::default());
        let outcome = storage.put(&name("a"), &[b"1"]);
        assert!(if no_space {
            matches!(outcome, Err(StorageError::NoSpace { .. }))
        } else {
            matches!(outcome, Err(StorageError::Io { .. }))
        });
        drop(storage);
        assert_eq!(contents(folder.path()).into_keys().collect::<Vec<_>>(), [".tmp"]);
    }
}

/// A network file system that carries out a link, loses the answer, and repeats the call.
#[derive(Debug)]
struct AskedTwice;

impl Calls for AskedTwice {
    fn link(&self, from: Place<'_>, to: Place<'_>) -> io::Result<()> {
        Kernel.link(from, to)?;
        Kernel.link(from, to)
    }
}

#[test]
fn a_link_that_was_carried_out_before_is_ours() {
    let folder = tempfile::tempdir().unwrap();
    let storage = open_with(folder.path(), AskedTwice, &LocalOptions::default());
    storage.put(&name("a"), &[b"1"]).unwrap();
    assert!(matches!(
        storage.put(&name("a"), &[b"2"]),
        Err(StorageError::AlreadyExists { .. })
    ));
    crate::conformance::check(&storage);
}

#[test]
fn readers_see_a_whole_object_or_none() {
    for way in [PublishWay::Link, PublishWay::Rename] {
        let folder = tempfile::tempdir().unwrap();
        let options = LocalOptions {
            first_way: way,
            ..LocalOptions::default()
        };
        let storage = LocalStorage::open_with(folder.path(), options).unwrap();
        let object = vec![7_u8; 300_000];
        let parts: Vec<&[u8]> = object.chunks(1000).collect();
        let done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !done.load(Ordering::Acquire) {
                    for meta in storage.list("").unwrap() {
                        assert_eq!(meta.len, 300_000);
                    }
                    match storage.get(&name("a/0")) {
                        Ok(found) => assert!(found == object),
                        Err(error) => assert!(matches!(error, StorageError::NotFound { .. })),
                    }
                }
            });
            for number in 0..20 {
                storage.put(&name(&format!("a/{number}")), &parts).unwrap();
            }
            done.store(true, Ordering::Release);
        });
    }
}

#[test]
fn puts_continue_after_the_folder_of_temporary_files_was_deleted() {
    let (folder, storage) = store();
    storage.put(&name("a"), &[b"1"]).unwrap();
    fs::remove_dir_all(folder.path().join(".tmp")).unwrap();
    storage.put(&name("b"), &[b"2"]).unwrap();
    assert_eq!(storage.get(&name("b")).unwrap(), b"2");
}
