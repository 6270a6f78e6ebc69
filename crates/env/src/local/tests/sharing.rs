//! Several processes: temporary files of dead ones are removed, and those of others stay.

use std::process::{Command, Stdio};
use std::time::Duration;

use super::*;
use crate::{Clock, SystemClock};

/// A folder of temporary files as a process on that host would leave it.
fn leave(root: &Path, host: &str, alive: bool) -> PathBuf {
    let folder = root.join(".tmp").join(format!("{host}-0123456789abcdef"));
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("0"), b"half an obj").unwrap();
    if alive {
        fs::write(folder.join("alive"), b"").unwrap();
    }
    folder
}

#[test]
fn only_leftovers_of_dead_processes_are_removed() {
    let (root, here) = (tempfile::tempdir().unwrap(), Host::here());
    let dead = leave(root.path(), &here.to_file_name(), true);
    let elsewhere = leave(root.path(), &Host::another(3).to_file_name(), true);
    let foreign = leave(root.path(), "something-else", true);
    drop(LocalStorage::open(root.path()).unwrap());
    assert!(!dead.exists());
    assert!(elsewhere.join("0").exists() && foreign.join("0").exists());

    let unlocked = leave(root.path(), &here.to_file_name(), false);
    drop(LocalStorage::open(root.path()).unwrap());
    assert!(
        unlocked.join("0").exists(),
        "on a file system without locks nobody is proven dead"
    );

    let before_boot = leave(root.path(), &here.before_boot().to_file_name(), true);
    drop(LocalStorage::open(root.path()).unwrap());
    let reach = here.reach(
        &here.before_boot(),
        host::is_of_one_machine(File::open(root.path()).unwrap()),
    );
    assert_eq!(before_boot.exists(), reach == host::Reach::OutOfSight);
}

#[test]
fn files_of_living_writers_stay() {
    let (root, storage) = store();
    let writing = storage.temporaries.create(&storage.folders).unwrap();
    drop(LocalStorage::open(root.path()).unwrap());
    let path = root.path().join(writing.path());
    assert!(path.exists());
    drop(storage);
    assert!(!path.exists() || path.parent().unwrap().join("alive").exists());
}

#[test]
fn sweepers_and_writers_at_once_do_not_disturb_each_other() {
    let root = tempfile::tempdir().unwrap();
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let root = root.path();
            scope.spawn(move || {
                for round in 0..40 {
                    let storage = LocalStorage::open(root).unwrap();
                    storage.put(&name(&format!("{thread}/{round}")), &[b"1"]).unwrap();
                }
            });
        }
    });
    assert_eq!(
        LocalStorage::open(root.path()).unwrap().list("").unwrap().len(),
        160
    );
    assert_eq!(fs::read_dir(root.path().join(".tmp")).unwrap().count(), 0);
}

const CHILD_STORE: &str = "ONEFOLD_TEST_CHILD_STORE";

/// The other process of the test below. Without its variable, it does nothing.
#[test]
fn child_that_holds_a_lock() {
    let Some(root) = std::env::var_os(CHILD_STORE) else {
        return;
    };
    let storage = LocalStorage::open(root).unwrap();
    let _lock = storage.lock(&name("lock")).unwrap().unwrap();
    let _writing = storage.temporaries.create(&storage.folders).unwrap();
    storage.put(&name("ready"), &[]).unwrap();
    SystemClock.sleep(Duration::from_secs(60));
}

#[test]
fn a_killed_process_frees_its_lock_and_its_files() {
    let (root, storage) = store();
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "local::tests::sharing::child_that_holds_a_lock"])
        .env(CHILD_STORE, root.path())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    while storage.head(&name("ready")).is_err() {
        assert!(child.try_wait().unwrap().is_none(), "the child ended");
        SystemClock.sleep(Duration::from_millis(5));
    }
    let temporaries = || fs::read_dir(root.path().join(".tmp")).unwrap().count();
    drop(LocalStorage::open(root.path()).unwrap());
    assert_eq!(storage.lock_state(&name("lock")).unwrap(), LockState::Held);
    assert!(matches!(
        storage.lock(&name("lock")),
        Err(StorageError::Locked { .. })
    ));
    assert_eq!(temporaries(), 1);
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(storage.lock_state(&name("lock")).unwrap(), LockState::Free);
    drop(LocalStorage::open(root.path()).unwrap());
    assert_eq!(temporaries(), 0);
    assert!(storage.lock(&name("lock")).unwrap().is_some());
}
