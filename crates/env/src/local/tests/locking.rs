//! Locks of this host, of other hosts, and of dead processes.

use super::super::host::Reach;
use super::*;

fn open_as(folder: &Path, host: Host) -> LocalStorage {
    LocalStorage::open_on(folder, &LocalOptions::default(), Box::new(Kernel), host).unwrap()
}

#[test]
fn a_lock_is_held_against_other_handles() {
    let (folder, storage) = store();
    let other = LocalStorage::open(folder.path()).unwrap();
    let held = storage.lock(&name("s/1/lock")).unwrap().unwrap();
    assert_eq!(other.lock_state(&name("s/1/lock")).unwrap(), LockState::Held);
    assert!(matches!(
        other.lock(&name("s/1/lock")),
        Err(StorageError::Locked { .. })
    ));
    drop(held);
    assert_eq!(other.lock_state(&name("s/1/lock")).unwrap(), LockState::Free);
    drop(storage);
    assert_eq!(other.lock_state(&name("s/1/lock")).unwrap(), LockState::Free);
    assert!(other.lock(&name("s/1/lock")).unwrap().is_some());
}

#[test]
fn another_hosts_lock_is_unknown_and_not_taken() {
    let folder = tempfile::tempdir().unwrap();
    let (here, there) = (
        open_as(folder.path(), Host::here()),
        open_as(folder.path(), Host::another(7)),
    );
    let lock = name("lock");
    let held = there.lock(&lock).unwrap().unwrap();
    assert_eq!(there.lock_state(&lock).unwrap(), LockState::Held);
    assert_eq!(here.lock_state(&lock).unwrap(), LockState::Unknown);
    drop(held);
    // The lock looks unlocked here in both cases, so both must give the same state.
    assert_eq!(here.lock_state(&lock).unwrap(), LockState::Unknown);
    assert!(matches!(here.lock(&lock), Err(StorageError::Locked { .. })));
    here.drop_lock(&lock).unwrap();
    let held = here.lock(&lock).unwrap();
    assert_eq!(here.lock_state(&lock).unwrap(), LockState::Held);
    drop(held);
}

#[test]
fn a_lock_of_an_earlier_boot_is_free_where_no_other_machine_reaches() {
    let here = Host::here();
    let earlier = here.before_boot();
    let here = if here == earlier { Host::another(1) } else { here };
    let folder = tempfile::tempdir().unwrap();
    drop(open_as(folder.path(), earlier).lock(&name("lock")).unwrap());
    let storage = open_as(folder.path(), here);
    if here.reach(
        &earlier,
        host::is_of_one_machine(File::open(folder.path()).unwrap()),
    ) == Reach::BeforeBoot
    {
        assert_eq!(storage.lock_state(&name("lock")).unwrap(), LockState::Free);
        let held = storage.lock(&name("lock")).unwrap().unwrap();
        assert_eq!(storage.lock_state(&name("lock")).unwrap(), LockState::Held);
        let text = fs::read_to_string(folder.path().join(".locks/lock")).unwrap();
        assert_eq!(Host::from_text(&text), Some(here), "it is of this boot now");
        drop(held);
    } else {
        assert_eq!(storage.lock_state(&name("lock")).unwrap(), LockState::Unknown);
    }
}

#[test]
fn hosts_are_distinguished_by_boot_then_by_machine() {
    let here = Host::another(1);
    assert_eq!(here.reach(&here, false), Reach::Here);
    assert_eq!(here.reach(&Host::another(2), true), Reach::OutOfSight);
    let earlier = here.before_boot();
    assert_eq!(here.reach(&earlier, true), Reach::BeforeBoot);
    assert_eq!(
        here.reach(&earlier, false),
        Reach::OutOfSight,
        "a clone of this machine may share the folder"
    );
    let nobody = Host::from_text("onefold process 1\nmachine unknown\nboot unknown\n").unwrap();
    assert_eq!(
        nobody.reach(&nobody, true),
        Reach::OutOfSight,
        "two unknowns need not be the same"
    );
}

#[test]
fn hosts_are_written_and_read() {
    for host in [Host::here(), Host::another(200)] {
        assert_eq!(Host::from_text(&host.to_text()), Some(host));
        assert_eq!(Host::from_file_name(&host.to_file_name()), Some(host));
    }
    let text = Host::another(1).to_text();
    for end in 0..text.len() {
        assert_eq!(Host::from_text(&text[..end]), None, "cut at {end}");
    }
    for wrong in [
        "",
        "\n\n\n",
        "onefold process 2\nmachine unknown\nboot unknown\n",
        "é\u{0}",
    ] {
        assert_eq!(Host::from_text(wrong), None);
    }
    assert_eq!(Host::from_file_name("unknown"), None);
    assert_eq!(Host::from_file_name("+1-unknown"), None);
}

#[test]
fn a_torn_lock_file_identifies_no_host() {
    let (folder, storage) = store();
    fs::create_dir(folder.path().join(".locks")).unwrap();
    for text in [&b""[..], b"onefold", &[0xff; 1000]] {
        fs::write(folder.path().join(".locks/lock"), text).unwrap();
        assert_eq!(storage.lock_state(&name("lock")).unwrap(), LockState::Unknown);
        assert!(matches!(
            storage.lock(&name("lock")),
            Err(StorageError::Locked { .. })
        ));
    }
    storage.drop_lock(&name("lock")).unwrap();
    assert!(storage.lock(&name("lock")).unwrap().is_some());
}

#[test]
fn asking_does_not_keep_others_from_taking() {
    let (_folder, storage) = store();
    drop(storage.lock(&name("lock")).unwrap());
    let done = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while !done.load(std::sync::atomic::Ordering::Acquire) {
                    storage.lock_state(&name("lock")).unwrap();
                }
            });
        }
        for _ in 0..50 {
            drop(storage.lock(&name("lock")).expect("nobody else takes it"));
        }
        done.store(true, std::sync::atomic::Ordering::Release);
    });
}

#[test]
fn a_lock_taker_waits_for_a_short_query() {
    let (folder, storage) = store();
    let lock = name("lock");
    drop(storage.lock(&lock).unwrap());
    // A query of the state locks the file in shared mode for a moment. On a busy machine the moment
    // can be long, so one success in several attempts is enough.
    let waits = || {
        let asker = File::open(folder.path().join(".locks/lock")).unwrap();
        rustix::fs::flock(&asker, rustix::fs::FlockOperation::LockShared).unwrap();
        std::thread::scope(|scope| {
            let taker = scope.spawn(|| storage.lock(&lock).is_ok());
            crate::Clock::sleep(&crate::SystemClock, std::time::Duration::from_millis(20));
            drop(asker);
            taker.join().unwrap()
        })
    };
    assert!((0..5).any(|_| waits()));
}
