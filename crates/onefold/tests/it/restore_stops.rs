//! A user stops a restore that deletes, or that only looks.

use std::fs;
use std::path::Path;
use std::sync::atomic::Ordering;

use onefold::{AssembleOptions, Error, ErrorKind, Monitor, RestoreFate, RestoreRequest, Snapshot, Store};

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
