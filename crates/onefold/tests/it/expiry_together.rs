//! Many archival backups that expire together: their tombstones, and the marks of their groups, are
//! put several at once, and in no order. Whatever happens meanwhile, the same backups are forgotten
//! as if the objects had been put one after another.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, ThreadId};
use std::time::Duration;

use crate::common::archival::{NAME, optimize};
use crate::common::pruning::{assert_nothing_unexplained, everything, impatient, prune_after_crash};
use crate::common::{
    Asked, How, Process, assert_restores_bytes, assert_sound, back_up_bytes, noise, snapshot, tiny,
};
use env::Storage;
use env::fault::CrashPolicy;
use onefold::{ForgetReport, ForgetRequest, ForgetWhat, Monitor, SessionId, Store};
use reclaim::reserve::FIRST_BYTES;

/// Enough for several threads.
const EXPIRE: usize = 20;

/// A series with only archival backups, except the newest.
struct Base {
    machine: Process,
    contents: BTreeMap<SessionId, Vec<u8>>,
}

impl Base {
    fn new(seed: u64) -> Self {
        let machine = Process::new(seed);
        let options = tiny().reserve_bytes(FIRST_BYTES);
        machine.try_init(&options).unwrap();
        let part = |n: u64| noise(seed * 100 + n, 24 << 10);
        let mut contents = BTreeMap::new();
        for n in 0..=EXPIRE as u64 + 1 {
            let bytes = [n, n + 1, n + 2].map(part).concat();
            let store = machine.open();
            let made = back_up_bytes(&store, NAME, &bytes, &How::plain()).unwrap();
            contents.insert(made.id, bytes);
            optimize(&store, 1);
        }
        prune_after_crash(&machine.open(), &everything(), "the fixture");
        Self { machine, contents }
    }

    fn oldest(&self, count: usize) -> Vec<SessionId> {
        self.contents.keys().copied().take(count).collect()
    }

    /// A process on a copy of the machine.
    fn copy(&self, seed: u64) -> Process {
        let storage = self.machine.storage.crash(CrashPolicy::KeepAll);
        Process::on(storage, self.machine.clock.clone(), seed).striding()
    }

    /// Listed backups are whole, and the work on the expired ones is completed.
    fn assert_settles(&self, machine: &Process, expired: &[SessionId], when: &str) {
        let last = machine.beside(0xfe).striding();
        let store = last.open();
        let options = impatient(everything());
        prune_after_crash(&store, &options, when);
        let left = store.snapshots().unwrap().snapshots;
        for one in left.iter().step_by(4).chain(left.last()) {
            assert_restores_bytes(
                &store,
                &snapshot(&store, one.id),
                NAME,
                &self.contents[&one.id],
                when,
            );
        }
        let rest: Vec<_> = left.iter().map(|one| one.id).collect();
        let rest: Vec<_> = rest.into_iter().filter(|id| expired.contains(id)).collect();
        if !rest.is_empty() {
            assert_eq!(try_forget(&store, &rest).unwrap().forgotten, rest, "{when}");
            let report = prune_after_crash(&store, &options, when);
            assert_eq!(report.bytes_copied, 0, "{when}: {report:?}");
        }
        let left: Vec<_> = store
            .snapshots()
            .unwrap()
            .snapshots
            .iter()
            .map(|one| one.id)
            .collect();
        let kept = self.contents.keys().filter(|id| !expired.contains(id));
        assert!(left.iter().eq(kept), "{when}: {left:?}");
        for id in left {
            assert_restores_bytes(&store, &snapshot(&store, id), NAME, &self.contents[&id], when);
        }
        assert_nothing_unexplained(&last, when);
        assert_sound(&store, when);
    }
}

fn try_forget(store: &Store, ids: &[SessionId]) -> Result<ForgetReport, onefold::Error> {
    let request = ForgetRequest::new(ForgetWhat::Named(ids.iter().map(ToString::to_string).collect()))
        .is_dry_run(false)
        .force_unreadable(false);
    store.forget(&request, &Monitor::default())
}

fn is_put_in(folder: &str, asked: Asked, name: &str) -> bool {
    let is_in = |rest: &str| rest.starts_with('/');
    asked == Asked::Put && name.strip_prefix(folder).is_some_and(is_in)
}

/// The threads that put objects in a folder during `act`, and how many each put.
fn who_puts_in(process: &Process, folder: &'static str, act: impl FnOnce()) -> HashMap<ThreadId, usize> {
    let seen = Arc::new(Mutex::new(HashMap::new()));
    let all = Arc::clone(&seen);
    process.watched.set_before(move |asked, name| {
        if is_put_in(folder, asked, name) {
            *all.lock().unwrap().entry(thread::current().id()).or_default() += 1;
            // Prevents one thread from putting all before the others have begun.
            thread::park_timeout(Duration::from_millis(1));
        }
    });
    act();
    process.watched.clear_before();
    std::mem::take(&mut seen.lock().unwrap())
}

#[test]
fn tombstones_and_marks_of_many_are_put_by_several_threads_and_of_few_by_one() {
    let base = Base::new(90);
    for (count, by_several) in [(3, false), (EXPIRE, true)] {
        let process = base.copy(90);
        let store = process.open();
        let ids = base.oldest(count);
        let tombstones = who_puts_in(&process, "backups", || {
            assert_eq!(try_forget(&store, &ids).unwrap().forgotten, ids);
        });
        let marks = who_puts_in(&process, "groups", || {
            let report = prune_after_crash(&store, &everything(), "with all forgotten");
            assert_eq!((report.epochs, report.bytes_copied), (1, 0), "{report:?}");
        });
        // Besides those of archival backups, the group with tombstones.
        for (puts, expected) in [(tombstones, count), (marks, count + 1)] {
            assert_eq!(puts.values().sum::<usize>(), expected);
            assert_eq!(puts.len() > 1, by_several, "{puts:?}");
        }
    }
}

/// Tombstones put before the disk was full do not count as another process's when the rest is put.
#[test]
fn a_forget_on_a_disk_that_becomes_full_forgets_all() {
    let base = Base::new(91);
    let ids = base.oldest(EXPIRE);
    for n in [1, 7, EXPIRE as u64] {
        let when = format!("full from tombstone {n} on");
        let process = base.copy(91);
        let store = process.open();
        let (storage, count) = (process.storage.handle(), AtomicU64::new(0));
        process.watched.set_before(move |asked, name| {
            if is_put_in("backups", asked, name) && count.fetch_add(1, Ordering::Relaxed) + 1 == n {
                let used = storage.list("").unwrap().iter().map(|object| object.space).sum();
                storage.set_capacity_bytes(Some(used));
            }
        });
        let report = try_forget(&store, &ids).unwrap();
        process.watched.clear_before();
        assert_eq!(
            (&report.forgotten, report.already_forgotten.len()),
            (&ids, 0),
            "{when}"
        );
        process.storage.set_capacity_bytes(None);
        base.assert_settles(&process, &ids, &when);
    }
}

#[test]
fn killed_in_the_midst_they_are_forgotten_or_not() {
    let base = Base::new(92);
    let ids = base.oldest(EXPIRE);
    // Every tombstone, and every group's marks.
    let puts = 2 * EXPIRE as u64 + 1;
    for n in (1..=puts).step_by(8).chain([puts]) {
        let when = format!("killed before put {n} of {puts}");
        let machine = base.copy(92);
        let dying = machine.beside(93).striding();
        let store = dying.open();
        let (storage, count) = (dying.storage.clone(), AtomicU64::new(0));
        dying.watched.set_before(move |asked, name| {
            let is_one = ["backups", "groups"]
                .iter()
                .any(|folder| is_put_in(folder, asked, name));
            if is_one && count.fetch_add(1, Ordering::Relaxed) + 1 == n {
                storage.kill();
            }
        });
        let done = try_forget(&store, &ids).and_then(|_| store.prune(&everything(), &Monitor::default()));
        assert!(done.is_err() && dying.storage.is_gone(), "{when}");
        drop(store);
        base.assert_settles(&machine, &ids, &when);
    }
}
