//! A link in the place of a folder: it is refused, and nothing follows it.

use std::os::unix::fs::symlink;

use super::*;

/// A store whose folder `d`, with the objects `d/1` and `d/e/2`, was replaced by a link to a folder
/// elsewhere that has the same files. `by_steps`: as on a system without `openat2`.
struct Replaced {
    folder: TempDir,
    elsewhere: TempDir,
    storage: LocalStorage,
}

fn filled() -> (TempDir, LocalStorage) {
    let (folder, storage) = store();
    storage.put(&name("d/1"), &[&[7; 100_000]]).unwrap();
    storage.put(&name("d/e/2"), &[b"2"]).unwrap();
    (folder, storage)
}

fn replaced(by_steps: bool, put: impl FnOnce(&Path, &Path)) -> Replaced {
    let ((folder, _), (elsewhere, _)) = (filled(), filled());
    let place = folder.path().join("d");
    fs::rename(&place, folder.path().join("moved")).unwrap();
    put(&elsewhere.path().join("d"), &place);
    let storage = LocalStorage::open(folder.path()).unwrap();
    if by_steps {
        storage.folders.go_by_steps();
    }
    Replaced {
        folder,
        elsewhere,
        storage,
    }
}

fn refused<T: fmt::Debug>(outcome: Result<T, StorageError>, place: &Path) {
    match outcome {
        Err(StorageError::Misplaced { place: named, .. }) => assert_eq!(Path::new(&named), place),
        other => panic!("{place:?}: {other:?}"),
    }
}

/// Calls everything that names something in `d`.
fn use_all(storage: &LocalStorage, place: &Path) {
    let range = ByteRange { offset: 0, len: 1 };
    for object in [name("d/1"), name("d/e/2")] {
        refused(storage.get(&object), place);
        refused(storage.get_range(&object, range), place);
        refused(storage.get_tail(&object, 1), place);
        refused(storage.map(&object).map(|bytes| bytes.len()), place);
        refused(storage.head(&object), place);
        refused(storage.put(&object, &[b"x"]), place);
        refused(storage.delete(&object), place);
        refused(storage.can_trim(&object), place);
        refused(storage.trim(&object, &name("x"), &[range]), place);
        refused(storage.trim(&name("none"), &object, &[range]), place);
    }
    refused(storage.put(&name("d/new/3"), &[b"x"]), place);
    refused(storage.list("d"), place);
    refused(storage.list("d/e"), place);
    refused(storage.list_in("d", &BTreeSet::from(["e".to_owned()])), place);
    refused(storage.list_folders("d"), place);
    refused(storage.drop_folder("d/e"), place);
}

#[test]
fn a_link_in_the_place_of_a_folder_is_refused_and_leads_nowhere() {
    for by_steps in [false, true] {
        let Replaced {
            folder,
            elsewhere,
            storage,
        } = replaced(by_steps, |elsewhere, place| symlink(elsewhere, place).unwrap());
        let (before, place) = (contents(elsewhere.path()), folder.path().join("d"));
        use_all(&storage, &place);
        // A listing of the folder above does not pass over it.
        refused(storage.list(""), &place);
        refused(storage.list_folders(""), &place);
        storage.drop_folder("d").unwrap();
        assert!(place.is_symlink());
        assert_eq!(contents(elsewhere.path()), before);
    }
}

#[test]
fn a_link_that_leads_nowhere_is_no_empty_folder() {
    for by_steps in [false, true] {
        let dangling = replaced(by_steps, |_, place| symlink("nowhere", place).unwrap());
        use_all(&dangling.storage, &dangling.folder.path().join("d"));
        assert!(!dangling.folder.path().join("nowhere").exists());
    }
}

/// As of a handle that has used the folder before.
#[test]
fn a_folder_that_a_link_replaces_during_use_is_refused() {
    let ((folder, storage), (elsewhere, _)) = (filled(), filled());
    let (before, place) = (contents(elsewhere.path()), folder.path().join("d"));
    use_known(&storage);
    fs::rename(&place, folder.path().join("moved")).unwrap();
    symlink(elsewhere.path().join("d"), &place).unwrap();
    use_all(&storage, &place);
    assert_eq!(contents(elsewhere.path()), before);
}

/// Another handle would not find what was put in a folder that has left the store.
#[test]
fn a_folder_that_another_one_replaces_during_use_is_used_no_more() {
    let (folder, storage) = filled();
    let place = folder.path().join("d");
    use_known(&storage);
    fs::rename(&place, folder.path().join("moved")).unwrap();
    fs::create_dir(&place).unwrap();
    storage.put(&name("d/3"), &[b"3"]).unwrap();
    storage.barrier().unwrap();
    assert!(place.join("3").exists() && !folder.path().join("moved/3").exists());
    assert!(matches!(
        storage.delete(&name("d/1")),
        Err(StorageError::NotFound { .. })
    ));
    assert!(folder.path().join("moved/1").exists());
}

fn use_known(storage: &LocalStorage) {
    storage.head(&name("d/1")).unwrap();
    storage.put(&name("d/known"), &[b"x"]).unwrap();
    storage.delete(&name("d/known")).unwrap();
}

#[test]
fn a_folder_that_was_removed_and_made_again_is_found() {
    let (folder, storage) = filled();
    let other = LocalStorage::open(folder.path()).unwrap();
    for object in ["d/e/3", "d/e/4"] {
        for meta in storage.list("d/e").unwrap() {
            storage.delete(&meta.name).unwrap();
        }
        other.drop_folder("d/e").unwrap();
        other.put(&name(object), &[b"x"]).unwrap();
        storage.head(&name(object)).unwrap();
        storage.put(&name("d/e/5"), &[b"5"]).unwrap();
        assert!(folder.path().join("d/e/5").exists());
    }
}

#[test]
fn a_link_to_the_store_is_followed_and_so_is_one_that_appears_above_it() {
    let above = tempfile::tempdir().unwrap();
    let (real, link) = (above.path().join("real"), above.path().join("link"));
    fs::create_dir(&real).unwrap();
    symlink(&real, &link).unwrap();
    let storage = LocalStorage::open(&link).unwrap();
    storage.put(&name("d/1"), &[b"1"]).unwrap();
    assert_eq!(storage.get(&name("d/1")).unwrap(), b"1");
    let moved = above.path().join("moved");
    fs::rename(&real, &moved).unwrap();
    symlink(&moved, &real).unwrap();
    assert_eq!(storage.get(&name("d/1")).unwrap(), b"1");
    assert_eq!(storage.list("d").unwrap().len(), 1);
    storage.put(&name("f/2"), &[b"2"]).unwrap();
    assert!(moved.join("f/2").exists());
}

#[test]
fn temporary_files_and_locks_are_made_behind_no_link() {
    for by_steps in [false, true] {
        let (folder, elsewhere) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        for hidden in [".tmp", ".locks"] {
            symlink(elsewhere.path(), folder.path().join(hidden)).unwrap();
        }
        let host = Host::here().to_file_name();
        let dead = elsewhere.path().join(format!("{host}-0123456789abcdef"));
        fs::create_dir(&dead).unwrap();
        fs::write(dead.join("0"), b"").unwrap();
        fs::write(dead.join("alive"), b"").unwrap();
        fs::write(elsewhere.path().join("held"), Host::here().to_text()).unwrap();
        let before = contents(elsewhere.path());
        let storage = LocalStorage::open(folder.path()).unwrap();
        if by_steps {
            storage.folders.go_by_steps();
        }
        refused(storage.put(&name("1"), &[b"1"]), &folder.path().join(".tmp"));
        refused(storage.lock(&name("held")), &folder.path().join(".locks"));
        refused(storage.drop_lock(&name("held")), &folder.path().join(".locks"));
        assert_eq!(storage.lock_state(&name("held")).unwrap(), LockState::Unknown);
        drop(storage);
        assert_eq!(contents(elsewhere.path()), before);
    }
}
