//! Several processes use one store: none waits, none is harmed, and one that counted as dead is
//! told.

use std::collections::BTreeMap;
use std::sync::{Arc, Barrier, mpsc};
use std::time::Duration;

use crate::common::{
    How, Parts, Process, Tree, Watched, assert_restores, assert_restores_bytes, assert_sound, back_up,
    back_up_bytes, back_up_stream, noise, restore_to, snapshot, wait_for_heartbeat, wait_until,
};
use env::fault::FaultStorage;
use onefold::{BackupReport, Error};

/// Two streams with much in common, of two series or one, fed in turns, so that both run at the
/// same time.
fn two_at_once(names: [&str; 2], elsewhere: bool) {
    let machine = Process::new(31);
    machine.init();
    let common = noise(1, 150 << 10);
    let own = [noise(2, 80 << 10), noise(3, 80 << 10)];
    let meet = Barrier::new(2);
    let others = [
        machine.beside(32),
        if elsewhere {
            machine.elsewhere(33)
        } else {
            machine.beside(33)
        },
    ];
    let back_up_one = |n: usize| -> (BackupReport, Vec<u8>) {
        let store = others[n].open();
        let parts = [&common[..], &own[n][..], &common[..100 << 10]];
        let mut source = Parts::new(&parts, |_| {
            meet.wait();
        });
        let how = How::plain();
        let report = back_up_stream(&store, names[n], &mut source, &how).unwrap();
        (report, Parts::whole(&parts))
    };
    let made = std::thread::scope(|scope| {
        let other = scope.spawn(|| back_up_one(1));
        [back_up_one(0), other.join().unwrap()]
    });
    let store = machine.open();
    assert_eq!(store.snapshots().unwrap().snapshots.len(), 2);
    for ((report, bytes), name) in made.iter().zip(names) {
        assert!(
            report.adopted.is_empty() && report.warnings.is_empty(),
            "{report:?}"
        );
        let backup = snapshot(&store, report.id);
        assert_restores_bytes(&store, &backup, name, bytes, name);
    }
    assert_sound(&store, "two at once");
    // A third backup finds everything that either stored.
    let again = back_up_bytes(&machine.open(), names[0], &made[1].1, &How::plain()).unwrap();
    assert!(again.totals.bytes_new < 40 << 10, "{:?}", again.totals);
}

#[test]
fn two_series_at_once() {
    two_at_once(["/one", "/two"], false);
}

#[test]
fn one_series_twice_at_once() {
    two_at_once(["/one", "/one"], false);
}

#[test]
fn one_series_twice_at_once_from_two_hosts() {
    two_at_once(["/one", "/one"], true);
}

/// Many processes, each with its own tree, without any order.
#[test]
fn many_trees_at_once() {
    let machine = Process::new(34);
    machine.init();
    let trees: Vec<Tree> = (0..4).map(|n| Tree::plant(40 + n / 2, 60 << 10)).collect();
    std::thread::scope(|scope| {
        for (n, tree) in trees.iter().enumerate() {
            let process = machine.beside(50 + n as u64);
            scope.spawn(move || {
                for round in 0..3 {
                    let store = process.open();
                    let how = if n % 2 == 0 { How::plain() } else { How::small() };
                    let made = back_up(&store, tree, &how).unwrap();
                    let when = format!("tree {n}, round {round}");
                    assert!(made.warnings.is_empty(), "{when}: {:?}", made.warnings);
                    let backup = snapshot(&store, made.id);
                    assert_restores(&store, &backup, &tree.root(), &tree.picture(), &when);
                    tree.change(round);
                }
            });
        }
    });
    let store = machine.open();
    assert_eq!(store.snapshots().unwrap().snapshots.len(), 12);
    assert_sound(&store, "many at once");
}

/// A process whose locks another one holds, which can be killed instead.
fn with_locks_of(machine: &Process, locks: &FaultStorage, seed: u64) -> Process {
    let storage = machine.storage.handle();
    let watched = Arc::new(Watched::with_locks_of(storage.clone(), locks.clone()));
    Process::watched(storage, watched, machine.clock.clone(), seed)
}

/// The first process falls asleep in the middle of a backup, the second takes it for dead, and the
/// first wakes.
fn a_sleeper_wakes(ticks_after_waking: bool) {
    let machine = Process::new(35);
    machine.init();
    let locks = machine.storage.handle();
    let sleeper = with_locks_of(&machine, &locks, 36);
    let parts = [noise(1, 200 << 10), noise(2, 100 << 10)];
    let parts = [&parts[0][..], &parts[1][..]];
    let bytes = Parts::whole(&parts);
    let (asleep, is_asleep) = mpsc::channel();
    let (wake, is_woken) = mpsc::channel::<()>();
    std::thread::scope(|scope| {
        let suspended = scope.spawn(|| {
            let store = sleeper.open();
            let mut source = Parts::new(&parts, move |_| {
                asleep.send(()).unwrap();
                is_woken.recv().unwrap();
            });
            back_up_stream(&store, "/stream", &mut source, &How::plain())
        });
        is_asleep.recv().unwrap();
        wait_until("a checkpoint of the sleeper", || {
            machine
                .names("sessions")
                .iter()
                .any(|name| name.contains("checkpoint"))
        });
        locks.kill();
        let second = machine.beside(37).open();
        let adopter = back_up_bytes(&second, "/stream", &bytes, &How::plain()).unwrap();
        assert_eq!(adopter.adopted.len(), 1);
        assert!(
            adopter.totals.bytes_new < (bytes.len() - (64 << 10)) as u64,
            "{:?}",
            adopter.totals
        );
        if ticks_after_waking {
            // Its heartbeat thread wakes first, and finds that the session was ended.
            drop(sleeper.watched.take_requests());
            wait_for_heartbeat(&sleeper.clock, "the sleeper's heartbeat", || {
                let asked = sleeper.watched.take_requests();
                asked.iter().any(|request| request.is_in("backups"))
            });
        }
        wake.send(()).unwrap();
        let error = suspended.join().unwrap().unwrap_err();
        let text = error.to_string();
        let by = format!(
            "session {} took it for dead and carries on from its checkpoint",
            adopter.id
        );
        assert!(
            text.contains(&by) && text.contains("run the backup again"),
            "{text}"
        );

        let store = machine.beside(38).open();
        let list = store.snapshots().unwrap();
        let ids: Vec<_> = list.snapshots.iter().map(|snapshot| snapshot.id).collect();
        assert_eq!(ids, [adopter.id], "one backup came of both");
        assert_restores_bytes(&store, &list.snapshots[0], "/stream", &bytes, "adopted");
        assert_sound(&store, "adopted");
        // The user follows the message.
        let again = back_up_bytes(&machine.beside(39).open(), "/stream", &bytes, &How::plain()).unwrap();
        assert_eq!(again.totals.chunks_new, 0, "{:?}", again.totals);
    });
}

#[test]
fn an_adopted_sleeper_commits_nothing_and_learns_its_end() {
    a_sleeper_wakes(false);
}

#[test]
fn a_sleeper_whose_pulse_wakes_first_also_learns_its_end() {
    a_sleeper_wakes(true);
}

/// The machine sleeps for two days in the middle of a backup. The process cannot know what happened
/// to its session meanwhile, and gives up.
#[test]
fn a_backup_that_slept_for_days_gives_up() {
    let machine = Process::new(39);
    machine.init();
    let parts = [noise(1, 60 << 10), noise(2, 60 << 10)];
    let parts = [&parts[0][..], &parts[1][..]];
    let clock = machine.clock.clone();
    let store = machine.open();
    let mut source = Parts::new(&parts, |_| clock.advance(Duration::from_secs(48 * 3600)));
    let error: Error = back_up_stream(&store, "/stream", &mut source, &How::plain()).unwrap_err();
    let text = error.to_string();
    assert!(text.contains("could not write a heartbeat for 28"), "{text}");
    assert!(store.snapshots().unwrap().snapshots.is_empty());
    // As for a process that ended: its stored data is not stored again.
    let bytes = Parts::whole(&parts);
    let again = back_up_bytes(&store, "/stream", &bytes, &How::plain()).unwrap();
    assert_restores_bytes(&store, &snapshot(&store, again.id), "/stream", &bytes, "again");
}

/// Restores run while backups of the same store are made.
#[test]
fn a_restore_beside_backups() {
    let machine = Process::new(41);
    machine.init();
    let tree = Tree::plant(41, 200 << 10);
    let first = back_up(&machine.open(), &tree, &How::plain()).unwrap();
    let picture = tree.picture();
    tree.change(1);
    std::thread::scope(|scope| {
        let process = machine.beside(42);
        let (tree, how) = (&tree, How::plain());
        let backups = scope.spawn(move || {
            let store = process.open();
            (0..4).for_each(|_| drop(back_up(&store, tree, &how).unwrap()));
        });
        let store = machine.beside(43).open();
        while !backups.is_finished() {
            let backup = snapshot(&store, first.id);
            assert_restores(&store, &backup, &tree.root(), &picture, "beside");
        }
    });
    let by_id: BTreeMap<_, _> = machine
        .open()
        .snapshots()
        .unwrap()
        .snapshots
        .into_iter()
        .map(|snapshot| (snapshot.id, snapshot))
        .collect();
    assert_eq!(by_id.len(), 5);
    let target = tempfile::tempdir().unwrap();
    restore_to(&machine.open(), &by_id[&first.id], target.path(), "at the end");
}

#[test]
fn several_backups_at_once_through_one_handle() {
    let machine = Process::new(41);
    machine.init();
    let store = machine.open();
    let common = noise(50, 60 << 10);
    let streams: Vec<Vec<u8>> = (0..4)
        .map(|n| [noise(51 + n, 200 << 10), common.clone()].concat())
        .collect();
    let name = |n: usize| format!("/stream-{n}");
    let made: Vec<BackupReport> = std::thread::scope(|scope| {
        let mut running = Vec::new();
        for (n, bytes) in streams.iter().enumerate() {
            let store = &store;
            running.push(scope.spawn(move || back_up_bytes(store, &name(n), bytes, &How::plain()).unwrap()));
        }
        running.into_iter().map(|one| one.join().unwrap()).collect()
    });
    assert_eq!(machine.open().snapshots().unwrap().snapshots.len(), 4);
    for (n, (report, bytes)) in made.iter().zip(&streams).enumerate() {
        assert!(report.warnings.is_empty(), "{report:?}");
        assert!(report.totals.bytes_new >= 200 << 10, "{report:?}");
        assert_restores_bytes(&store, &snapshot(&store, report.id), &name(n), bytes, &name(n));
    }
    assert_sound(&machine.open(), "four at once");
}
