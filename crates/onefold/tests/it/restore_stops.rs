//! A user stops a restore that deletes, or that only looks. An outage ends a restore and a check.

use std::fs;
use std::path::Path;
use std::sync::atomic::Ordering;

use env::fault::{Counted, FailWith, Fault, OpKind};
use onefold::{
    AssembleOptions, Error, ErrorKind, Monitor, ReadData, RestoreFate, RestoreRequest, Snapshot, Store,
};
use types::ObjectName;

use crate::common::{How, Process, Tree, back_up, snapshot};

/// A store with a backup of a tree, and a folder to which it was restored.
fn restored() -> (Store, Snapshot, tempfile::TempDir, Tree) {
    let process = Process::new(1);
    drop(process.init());
    let store = process.open();
    let tree = Tree::plant(3, 90 << 10);
    let made = back_up(&store, &tree, &How::plain()).unwrap();
    let found = snapshot(&store, made.id);
    let target = tempfile::tempdir().unwrap();
    crate::common::restore_to(&store, &found, target.path(), "at first");
    (store, found, target, tree)
}

/// Restores, and stops when it is told of the first entry of this fate.
fn stopped(store: &Store, found: &Snapshot, target: &Path, fate: RestoreFate, dry: bool) -> Error {
    let monitor = Monitor::default();
    let cancel = monitor.cancel_handle();
    monitor.observe_restore(move |met, _| {
        if met == fate {
            cancel.store(true, Ordering::Relaxed);
        }
    });
    let request = RestoreRequest::new(AssembleOptions::for_cores(1)).delete(true);
    let mut faults = |fault: &onefold::Fault| panic!("{fault}");
    if dry {
        let seen = store.preview_restore(found, target, &request, &monitor, &mut faults);
        seen.unwrap_err()
    } else {
        let restored = store.restore(found, target, &request, &monitor, &mut faults);
        restored.unwrap_err()
    }
}

#[test]
fn a_restore_that_deletes_stops_before_the_next_entry() {
    let (store, found, target, tree) = restored();
    let folder = target.path().join(tree.root().strip_prefix("/").unwrap());
    let surplus: Vec<_> = (0..20).map(|n| folder.join(format!("surplus {n}"))).collect();
    for one in &surplus {
        fs::write(one, "x").unwrap();
    }
    let error = stopped(&store, &found, target.path(), RestoreFate::Delete, false);
    assert_eq!(error.kind(), ErrorKind::Interrupted);
    let left = surplus.iter().filter(|one| one.exists()).count();
    assert_eq!(left, surplus.len() - 1);
}

#[test]
fn a_look_at_a_restore_stops() {
    let (store, found, target, _tree) = restored();
    let error = stopped(&store, &found, target.path(), RestoreFate::Replace, true);
    assert_eq!(error.kind(), ErrorKind::Interrupted);
}

/// A storage that does not answer says nothing of any object. Neither command takes what it cannot
/// read for damaged or lost.
#[test]
fn an_outage_is_no_damage() {
    let process = Process::new(2);
    drop(process.init());
    let tree = Tree::plant(4, 300 << 10);
    let made = back_up(&process.open(), &tree, &How::plain()).unwrap();
    let (mut checks, mut restores) = (0, 0);
    for n in (1..60).step_by(2) {
        let of_gets = |with| Fault::fail_from(n, with).counting(Counted::Only(OpKind::Get));
        let store = process.open();
        process.storage.inject_here(of_gets(FailWith::Outage));
        let checked = store.check(ReadData::Share(1.0), &Monitor::default());
        process.storage.clear_faults();
        match checked {
            Ok(report) => assert!(report.is_sound(), "{n}: {:?}", report.findings),
            Err(error) => {
                checks += 1;
                assert!(error.to_string().contains("injected outage"), "{n}: {error}");
            }
        }
        assert_eq!(process.names("damaged"), [""; 0], "{n}");

        let store = process.open();
        let found = snapshot(&store, made.id);
        let target = tempfile::tempdir().unwrap();
        let request = RestoreRequest::new(AssembleOptions::for_cores(1));
        let mut faults = |fault: &onefold::Fault| panic!("{n}: {fault}");
        process.storage.inject_here(of_gets(FailWith::Outage));
        let restored = store.restore(&found, target.path(), &request, &Monitor::default(), &mut faults);
        process.storage.clear_faults();
        if let Err(error) = restored {
            restores += 1;
            assert!(error.to_string().contains("injected outage"), "{n}: {error}");
        }
    }
    assert!(checks > 3 && restores > 3, "{checks} checks, {restores} restores");

    // Nor beside what is damaged.
    let data = process.names("data").swap_remove(0);
    let damaged = process.storage.damage(&ObjectName::new(&data).unwrap(), |bytes| {
        let at = bytes.len() / 2;
        bytes[at] ^= 1;
    });
    assert!(damaged);
    let check = |store: &Store| store.check(ReadData::Share(1.0), &Monitor::default());
    let known = check(&process.open()).unwrap();
    assert!(!known.damaged_files.is_empty());
    let mut ended = 0;
    for n in (1..).step_by(7) {
        let (get, store) = (Counted::Only(OpKind::Get), process.open());
        process
            .storage
            .inject_here(Fault::fail_from(n, FailWith::Outage).counting(get));
        let found = check(&store);
        process.storage.clear_faults();
        let Ok(found) = found else {
            ended += 1;
            continue;
        };
        assert_eq!(found.damaged_files, known.damaged_files, "{n}");
        break;
    }
    assert!(ended > 10, "{ended} checks ended");
}
