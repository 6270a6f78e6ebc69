//! Only the owner can read stored objects, or also the group of the folder.

use std::os::unix::fs::PermissionsExt;

use super::*;

/// The modes of the folder and of everything in it, by name.
fn modes(folder: &Path) -> BTreeMap<String, u32> {
    let mode = |path: &Path| fs::symlink_metadata(path).unwrap().permissions().mode() & 0o7777;
    let mut found = BTreeMap::from([(String::new(), mode(folder))]);
    for name in contents(folder).into_keys() {
        let mode = mode(&folder.join(&name));
        found.insert(name, mode);
    }
    found
}

/// Creates every kind of file that a storage makes: small and large objects in each way, a lock, a
/// temporary file.
fn fill(root: &Path) -> LocalStorage {
    for (number, first_way) in [PublishWay::Link, PublishWay::Rename, PublishWay::Exclusive]
        .into_iter()
        .enumerate()
    {
        let options = LocalOptions {
            first_way,
            ..LocalOptions::default()
        };
        let storage = LocalStorage::open_with(root, options).unwrap();
        storage.put(&name(&format!("a/b/{number}")), &[b"1"]).unwrap();
        storage
            .put(&name(&format!("large/{number}")), &[&[7; 1 << 20]])
            .unwrap();
    }
    let storage = LocalStorage::open(root).unwrap();
    drop(storage.lock(&name("a/lock")).unwrap());
    storage
}

#[test]
fn new_files_are_private_to_their_owner() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("above/store");
    drop(LocalStorage::create(&root).unwrap());
    let storage = fill(&root);
    let temporary = storage.temporaries.create(&storage.folders).unwrap();
    for (name, mode) in modes(&root) {
        assert_eq!(mode & 0o077, 0, "{name}: {mode:o}");
    }
    drop(temporary);
}

#[test]
fn a_shared_store_is_its_groups_too_and_nobody_elses() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("store");
    drop(LocalStorage::create_for(&root, Access::Group).unwrap());
    assert_eq!(Access::of(&root).unwrap(), Access::Group);
    let storage = fill(&root);
    let temporary = storage.temporaries.create(&storage.folders).unwrap();
    for (name, mode) in modes(&root) {
        let expected = if root.join(&name).is_dir() { 0o2770 } else { 0o660 };
        assert_eq!(mode, expected, "{name}: {mode:o}");
    }
    drop((temporary, storage));
    // The group access is removed: new files are for their owner alone.
    fs::set_permissions(&root, fs::Permissions::from_mode(0o700)).unwrap();
    LocalStorage::open(&root)
        .unwrap()
        .put(&name("c"), &[b"1"])
        .unwrap();
    assert_eq!(modes(&root)["c"], 0o600);
}

#[test]
fn a_folder_that_is_there_keeps_its_mode_unless_it_is_to_be_shared() {
    let folder = tempfile::tempdir().unwrap();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
    drop(LocalStorage::create(folder.path()).unwrap());
    assert_eq!(modes(folder.path())[""], 0o755);
    drop(LocalStorage::create_for(folder.path(), Access::Group).unwrap());
    assert_eq!(modes(folder.path())[""], 0o2770);
}
