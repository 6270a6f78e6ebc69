//! Other operations that run completely within one layout repair, one prune, one backup or one
//! restore, between two of its operations: forgets, prunes, backups, other repairs. The places are
//! a sample; with `ONEFOLD_TEST_LONG=1` they are all.
//!
//! Invariant: every backup that is not forgotten restores. A restore that has begun ends with the
//! bytes with which it began. Every stored object is explained.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::common::pruning::{assert_nothing_unexplained, everything, forget, impatient, prune_after_crash};
use crate::common::{
    Asked, How, Process, assert_restores_bytes, assert_sound, back_up_bytes, is_long, noise, snapshot,
    try_restores_bytes,
};
use onefold::{Monitor, OptimizeRequest, SessionId, Store};

const NAME: &str = "/image";
/// The series that another process backs up meanwhile.
const OTHER: &str = "/other";

struct Base {
    machine: Process,
    contents: BTreeMap<SessionId, (&'static str, Vec<u8>)>,
    ids: Vec<SessionId>,
}

fn bytes(seed: u64, pieces: &[u64]) -> Vec<u8> {
    pieces
        .iter()
        .flat_map(|n| noise(seed * 1000 + n, 8 << 10))
        .collect()
}

/// The content of the `n`-th backup of the series: pieces of earlier ones, and some of its own.
fn pieces(n: u64) -> Vec<u64> {
    (0..12)
        .map(|at| {
            if (at + n).is_multiple_of(3) {
                100 * n + at
            } else {
                100 * (n / 2) + at
            }
        })
        .collect()
}

/// Four backups of a series, the newest of which has a little of many containers.
fn base(seed: u64) -> Base {
    let machine = Process::new(seed).striding();
    machine.init();
    let (mut contents, mut ids) = (BTreeMap::new(), Vec::new());
    for n in 0..4 {
        let bytes = bytes(seed, &pieces(n));
        let made = back_up_bytes(&machine.open(), NAME, &bytes, &How::plain()).unwrap();
        contents.insert(made.id, (NAME, bytes));
        ids.push(made.id);
    }
    prune_after_crash(&machine.beside(seed + 1).open(), &everything(), "base");
    Base {
        machine,
        contents,
        ids,
    }
}

fn try_repair(store: &Store) -> Result<u64, onefold::Error> {
    let request = OptimizeRequest::default().repair(Some(1000));
    let report = store.optimize(&request, &Monitor::default())?;
    assert!(report.failed.is_empty(), "{report:?}");
    Ok(report.repaired.iter().filter(|(_, done)| done.is_done).count() as u64)
}

impl Base {
    fn assert_all(&self, gone: &[SessionId], when: &str) {
        for (id, (name, bytes)) in self.contents.iter().filter(|(id, _)| !gone.contains(id)) {
            let store = self.machine.beside(0xfe).open();
            assert_restores_bytes(
                &store,
                &snapshot(&store, *id),
                name,
                bytes,
                &format!("{when}: {id}"),
            );
        }
    }

    /// Afterwards all backups restore, and again after everything is pruned, repaired and pruned.
    fn assert_settles(&self, gone: &[SessionId], when: &str) {
        self.assert_all(gone, when);
        let last = self.machine.beside(0xff).striding();
        prune_after_crash(&last.open(), &impatient(everything()), when);
        self.assert_all(gone, &format!("{when}, and a prune"));
        try_repair(&last.open()).unwrap();
        for _ in 0..2 {
            prune_after_crash(&last.open(), &impatient(everything()), when);
        }
        self.assert_all(gone, &format!("{when}, all repaired"));
        assert_nothing_unexplained(&last, when);
        assert_sound(&last.open(), when);
    }
}

/// An action between two operations.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Act {
    /// Forgets these backups, by their place in the series.
    Forget(&'static [usize]),
    /// And removes their data.
    ForgetAndPrune(&'static [usize]),
    /// Another process repairs, and prunes if this is true.
    Repair(bool),
    /// Another backup of the series is made, and everything is repaired and pruned.
    BackUp,
}

impl Act {
    fn gone(self) -> &'static [usize] {
        match self {
            Self::Forget(gone) | Self::ForgetAndPrune(gone) => gone,
            Self::Repair(_) | Self::BackUp => &[],
        }
    }

    /// Runs the action. Returns the backup, if it made one.
    fn happens(self, by: &Process, seed: u64, ids: &[SessionId]) -> Option<(SessionId, Vec<u8>)> {
        let mut made = None;
        if self == Self::BackUp {
            let bytes = bytes(seed, &pieces(4));
            let done = back_up_bytes(&by.open(), NAME, &bytes, &How::plain()).unwrap();
            made = Some((done.id, bytes));
        }
        if matches!(self, Self::Repair(_) | Self::BackUp) {
            try_repair(&by.open()).unwrap();
        }
        for place in self.gone() {
            forget(&by.open(), ids[*place]);
        }
        if matches!(self, Self::ForgetAndPrune(_) | Self::Repair(true) | Self::BackUp) {
            let pruner = by.striding();
            // A process in the middle of its work may count as dead, or be waited for. Both are
            // right.
            let done = pruner.open().prune(&impatient(everything()), &Monitor::default());
            if let Err(error) = done {
                let text = error.to_string();
                assert!(text.contains("another prune"), "{text}");
            }
        }
        made
    }
}

/// A backup that was made.
type Made = (SessionId, &'static str, Vec<u8>);
type Work<'a> = &'a dyn Fn(&Store) -> Result<Option<Made>, onefold::Error>;

/// Runs the action before the `at`-th operation of `work` that changes something. Returns whether
/// `work` came so far.
fn meanwhile(base: &mut Base, seed: u64, act: Act, at: usize, work: Work<'_>) -> bool {
    let worker = base.machine.beside(3).striding();
    let (other, ids) = (base.machine.beside(4), base.ids.clone());
    let count = Arc::new(AtomicUsize::new(0));
    let made = Arc::new(std::sync::Mutex::new(None));
    let (counted, told) = (Arc::clone(&count), Arc::clone(&made));
    worker.watched.set_before(move |asked, _| {
        let changes = matches!(asked, Asked::Put | Asked::Barrier | Asked::Delete | Asked::Trim);
        if changes && counted.fetch_add(1, Ordering::Relaxed) == at {
            *told.lock().unwrap() = act.happens(&other, seed, &ids);
        }
    });
    let done = work(&worker.open());
    worker.watched.clear_before();
    match done {
        Ok(Some((id, name, bytes))) => drop(base.contents.insert(id, (name, bytes))),
        Ok(None) => {}
        Err(error) => {
            let text = error.to_string();
            let is_over = ["was ended", "has ended already", "another prune", "is forgotten"];
            assert!(
                is_over.iter().any(|why| text.contains(why)),
                "{act:?} before {at}: {text}"
            );
        }
    }
    if let Some((id, bytes)) = made.lock().unwrap().take() {
        base.contents.insert(id, (NAME, bytes));
    }
    count.load(Ordering::Relaxed) > at
}

fn at_each(act: Act, every: usize, work: Work<'_>) {
    let every = if is_long() { 1 } else { every };
    for at in (0..).step_by(every) {
        let when = format!("{act:?} before operation {at}");
        let seed = 20 + at as u64;
        let mut base = base(seed);
        let is_reached = meanwhile(&mut base, seed, act, at, work);
        let gone: Vec<_> = act.gone().iter().map(|place| base.ids[*place]).collect();
        if !is_reached {
            assert!(at > 10, "{when}: there are so few");
            return;
        }
        base.assert_settles(&gone, &when);
    }
}

fn one_repair(store: &Store) -> Result<Option<Made>, onefold::Error> {
    try_repair(store).map(|_| None)
}

#[test]
fn there_is_something_to_repair() {
    let base = base(1);
    assert_eq!(try_repair(&base.machine.open()).unwrap(), 1);
    base.assert_settles(&[], "repaired");
}

#[test]
fn backups_are_forgotten_while_the_newest_is_repaired() {
    for gone in [&[0][..], &[3], &[1, 2]] {
        at_each(Act::Forget(gone), 9, &one_repair);
        at_each(Act::ForgetAndPrune(gone), 8, &one_repair);
    }
}

#[test]
fn others_repair_or_back_up_at_the_same_time() {
    at_each(Act::Repair(false), 6, &one_repair);
    at_each(Act::Repair(true), 5, &one_repair);
    at_each(Act::BackUp, 6, &one_repair);
}

#[test]
fn a_backup_is_repaired_while_another_prunes() {
    let work = |store: &Store| {
        let done = store.prune(&impatient(everything()), &Monitor::default());
        done.map(|_| None)
    };
    let forgets = |store: &Store| {
        let first = store.snapshots().unwrap().snapshots[0].id;
        forget(store, first);
        work(store)
    };
    let every = if is_long() { 1 } else { 3 };
    for at in (0..).step_by(every) {
        let when = format!("a repair before operation {at} of a prune");
        let seed = 40 + at as u64;
        let mut base = base(seed);
        let first = base.ids[0];
        if !meanwhile(&mut base, seed, Act::Repair(false), at, &forgets) {
            assert!(at > 10, "{when}: there are so few");
            return;
        }
        base.assert_settles(&[first], &when);
    }
}

/// Data that it looked up, and its parent, are repaired and pruned meanwhile. The slots to which it
/// refers stay.
#[test]
fn a_backup_continues_across_a_repair() {
    let every = if is_long() { 1 } else { 4 };
    for name in [NAME, OTHER] {
        for at in (0..).step_by(every) {
            let when = format!("a repair before operation {at} of a backup of {name}");
            let seed = 80 + at as u64;
            let mut base = base(seed);
            // The bytes of the newest backup, and some of its own.
            let mut bytes = base.contents[&base.ids[3]].1.clone();
            bytes.extend(noise(7, 12 << 10));
            let work = |store: &Store| {
                let made = back_up_bytes(store, name, &bytes, &How::plain())?;
                Ok(Some((made.id, name, bytes.clone())))
            };
            if !meanwhile(&mut base, seed, Act::Repair(true), at, &work) {
                assert!(at > 8, "{when}: there are so few");
                break;
            }
            base.assert_settles(&[], &when);
        }
    }
}

/// Each restore reads a backup that is repaired and pruned before one of its reads.
#[test]
fn a_restore_continues_across_a_repair() {
    let every = if is_long() { 1 } else { 2 };
    for (at, place) in (1..).step_by(every).flat_map(|at| [(at, 0), (at, 3)]) {
        let when = format!("before read {at} of a restore");
        let seed = 60 + at;
        let base = base(seed);
        let reader = base.machine.beside(3);
        let (other, ids) = (base.machine.beside(4), base.ids.clone());
        let reached = Arc::new(AtomicUsize::new(0));
        let seen = Arc::clone(&reached);
        let store = reader.open();
        let first = snapshot(&store, base.ids[place]);
        reader.watched.set_once(at, move || {
            seen.store(1, Ordering::Relaxed);
            Act::Repair(true).happens(&other, seed, &ids);
        });
        try_restores_bytes(&store, &first, NAME, &base.contents[&base.ids[place]].1)
            .unwrap_or_else(|error| panic!("{when}: {error}"));
        if reached.load(Ordering::Relaxed) == 0 {
            assert!(at > 6, "{when}: there are so few");
            return;
        }
        base.assert_settles(&[], &when);
    }
}
