//! Properties of a local folder beyond those of every storage; barriers are in `durability`.

mod access;
mod creating;
mod direct;
mod durability;
mod links;
mod locking;
mod sharing;
mod trimming;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use tempfile::TempDir;

use super::*;

fn name(name: &str) -> ObjectName {
    ObjectName::new(name).unwrap()
}

fn store() -> (TempDir, LocalStorage) {
    let folder = tempfile::tempdir().unwrap();
    let storage = LocalStorage::open(folder.path()).unwrap();
    (folder, storage)
}

/// A new handle with these calls to the system.
fn open_with(folder: &Path, calls: impl Calls + 'static, options: &LocalOptions) -> LocalStorage {
    LocalStorage::open_on(folder, options, Box::new(calls), Host::here()).unwrap()
}

/// Everything in a folder, hidden things too, with the bytes of files.
fn contents(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut todo = vec![folder.to_owned()];
    while let Some(inner) = todo.pop() {
        for entry in fs::read_dir(inner).unwrap() {
            let path = entry.unwrap().path();
            let key = path.strip_prefix(folder).unwrap().display().to_string();
            let bytes = if path.is_dir() {
                Vec::new()
            } else {
                fs::read(&path).unwrap()
            };
            found.insert(key, bytes);
            if path.is_dir() {
                todo.push(path);
            }
        }
    }
    found
}

#[test]
fn an_object_is_a_file_of_its_name_and_nothing_temporary_is_left() {
    let (folder, storage) = store();
    storage.put(&name("data/1/2.0"), &[b"ab", b"c"]).unwrap();
    drop(storage);
    let found = contents(folder.path());
    let names: Vec<&str> = found.keys().map(String::as_str).collect();
    assert_eq!(names, [".tmp", "data", "data/1", "data/1/2.0"]);
    assert_eq!(found["data/1/2.0"], b"abc");
}

#[test]
fn only_objects_are_listed_and_read() {
    let (folder, storage) = store();
    storage.put(&name("d/object"), &[b"1"]).unwrap();
    let at = |rest: &str| folder.path().join(rest);
    for other in ["d/.hidden", "d/UPPER", "d/sp ace", "d/tilde~", ".hidden"] {
        fs::write(at(other), b"x").unwrap();
    }
    fs::create_dir_all(at("Upper/x")).unwrap();
    fs::write(at("Upper/x/y"), b"x").unwrap();
    std::os::unix::fs::symlink(at("d/object"), at("d/.link")).unwrap();
    std::os::unix::fs::symlink(at("d"), at("LINKED")).unwrap();
    rustix::fs::mkfifoat(rustix::fs::CWD, at("d/pipe"), rustix::fs::Mode::RUSR).unwrap();
    fs::create_dir(at("d/folder")).unwrap();
    let listed: Vec<_> = storage
        .list("")
        .unwrap()
        .into_iter()
        .map(|meta| meta.name)
        .collect();
    assert_eq!(listed, [name("d/object")]);
    assert_eq!(storage.list_folders("").unwrap(), ["d"]);
    assert_eq!(storage.list_folders("d").unwrap(), ["folder"]);
    std::os::unix::fs::symlink(at("d/object"), at("d/link")).unwrap();
    for other in ["d/link", "d/pipe", "d/folder"] {
        // None of the operations may wait for a writer that never comes.
        assert!(
            matches!(storage.get(&name(other)), Err(StorageError::NotFound { .. })),
            "{other}"
        );
        assert!(
            matches!(storage.head(&name(other)), Err(StorageError::NotFound { .. })),
            "{other}"
        );
        assert!(
            matches!(
                storage.put(&name(other), &[]),
                Err(StorageError::AlreadyExists { .. })
            ),
            "{other}"
        );
    }
    assert!(matches!(
        storage.delete(&name("d/folder")),
        Err(StorageError::NotFound { .. })
    ));
}

#[test]
fn a_dropped_folder_is_listed_no_more_and_is_durable_again_when_it_comes_back() {
    let (folder, storage) = store();
    storage.put(&name("d/folder/1"), &[b"1"]).unwrap();
    storage.barrier().unwrap();
    storage.delete(&name("d/folder/1")).unwrap();
    assert_eq!(storage.list_folders("d").unwrap(), ["folder"]);
    storage.drop_folder("d/folder").unwrap();
    assert!(storage.list_folders("d").unwrap().is_empty());
    assert!(!folder.path().join("d/folder").exists());
    storage.barrier().unwrap();
    assert!(!storage.tracker.is_anchored("d/folder") && storage.tracker.is_anchored("d"));
    storage.put(&name("d/folder/2"), &[b"2"]).unwrap();
    storage.barrier().unwrap();
    assert!(storage.tracker.is_anchored("d/folder"));
}

#[test]
fn a_name_that_is_a_folder_of_others_is_refused() {
    let (_folder, storage) = store();
    storage.put(&name("a/b"), &[b"1"]).unwrap();
    assert!(matches!(
        storage.put(&name("a"), &[b"1"]),
        Err(StorageError::AlreadyExists { .. })
    ));
    assert!(matches!(
        storage.put(&name("a/b/c"), &[b"1"]),
        Err(StorageError::Io { .. })
    ));
    assert!(matches!(
        storage.get(&name("a/b/c")),
        Err(StorageError::NotFound { .. })
    ));
}

#[test]
fn opening_and_reading_create_nothing() {
    let (folder, storage) = store();
    storage.put(&name("a/b"), &[b"1"]).unwrap();
    let _held = storage.lock(&name("lock")).unwrap();
    let before = contents(folder.path());
    read_everything(&LocalStorage::open(folder.path()).unwrap());
    assert_eq!(contents(folder.path()), before);

    let empty = tempfile::tempdir().unwrap();
    read_everything(&LocalStorage::open(empty.path()).unwrap());
    assert!(contents(empty.path()).is_empty());
}

fn read_everything(storage: &LocalStorage) {
    for meta in storage.list("").unwrap() {
        storage.get(&meta.name).unwrap();
        storage.map(&meta.name).unwrap();
        storage.head(&meta.name).unwrap();
        storage.get_tail(&meta.name, 1).unwrap();
    }
    storage.list_folders("").unwrap();
    storage.get(&name("no/such")).unwrap_err();
    storage.lock_state(&name("lock")).unwrap();
    storage.lock_state(&name("other")).unwrap();
    storage.barrier().unwrap();
}

#[test]
fn a_store_without_write_permission_can_be_read() {
    let (folder, storage) = store();
    storage.put(&name("a/b"), &[b"1"]).unwrap();
    let _held = storage.lock(&name("lock")).unwrap();
    for path in contents(folder.path()).into_keys() {
        let path = folder.path().join(path);
        if path.is_file() {
            let mode = std::os::unix::fs::PermissionsExt::from_mode(0o444);
            fs::set_permissions(path, mode).unwrap();
        }
    }
    for path in ["", "a", ".tmp", ".locks"] {
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o555);
        fs::set_permissions(folder.path().join(path), mode).unwrap();
    }
    let path = folder.path();
    // Permissions do not restrict root, so the test uses another user, in a thread of its own.
    std::thread::scope(|scope| {
        scope.spawn(move || {
            if rustix::process::geteuid().is_root() {
                let nobody = rustix::process::Uid::from_raw(65_534);
                rustix::thread::set_thread_res_uid(nobody, nobody, nobody).unwrap();
            }
            let storage = LocalStorage::open(path).unwrap();
            read_everything(&storage);
            assert_eq!(storage.get(&name("a/b")).unwrap(), b"1");
            assert_eq!(storage.lock_state(&name("lock")).unwrap(), LockState::Held);
            assert!(matches!(
                storage.put(&name("a/c"), &[]),
                Err(StorageError::Denied { .. })
            ));
            assert!(matches!(
                storage.delete(&name("a/b")),
                Err(StorageError::Denied { .. })
            ));
            assert!(matches!(
                storage.lock(&name("other")),
                Err(StorageError::Denied { .. })
            ));
        });
    });
    for path in ["", "a", ".tmp", ".locks"] {
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        fs::set_permissions(folder.path().join(path), mode).unwrap();
    }
}

#[test]
fn a_store_that_is_not_there_is_an_error_and_not_an_empty_one() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("a/b");
    assert!(matches!(
        LocalStorage::open(&root),
        Err(StorageError::NoFolder { .. })
    ));
    let storage = LocalStorage::create(&root).unwrap();
    assert_eq!(storage.root(), root.canonicalize().unwrap());
    drop(LocalStorage::create(&root).unwrap());
    fs::remove_dir_all(&root).unwrap();
    assert!(storage.list("").is_err(), "its disk was unmounted");
    fs::write(&root, b"").unwrap();
    assert!(LocalStorage::open(&root).is_err() && LocalStorage::create(&root).is_err());
}

#[test]
fn an_objects_time_is_the_storages() {
    let (_folder, storage) = store();
    let before = crate::Clock::wall(&crate::SystemClock).get();
    storage.put(&name("a"), &[b"1"]).unwrap();
    let put_at = storage.head(&name("a")).unwrap().put_at.get();
    // Times of file systems are coarser than clocks.
    assert!((put_at - before).abs() < 5_000_000_000, "{put_at} {before}");
}

#[test]
fn errors_of_the_system_have_their_kinds() {
    let error = |number| io_error("put", "a", io::Error::from_raw_os_error(number));
    assert!(matches!(error(libc::ENOSPC), StorageError::NoSpace { .. }));
    assert!(matches!(error(libc::EDQUOT), StorageError::NoSpace { .. }));
    assert!(matches!(error(libc::EACCES), StorageError::Denied { .. }));
    assert!(matches!(error(libc::EPERM), StorageError::Denied { .. }));
    assert!(matches!(error(libc::EROFS), StorageError::ReadOnly { .. }));
    assert!(matches!(error(libc::EIO), StorageError::Io { .. }));
}

#[test]
fn a_file_that_promises_more_than_there_is_memory_is_an_error() {
    let (folder, storage) = store();
    let file = File::create(folder.path().join("huge")).unwrap();
    // A sparse file takes no space. If a file system refuses such a length, there is no danger.
    if file.set_len(1 << 43).is_ok() {
        assert!(matches!(storage.get(&name("huge")), Err(StorageError::Io { .. })));
    }
}
