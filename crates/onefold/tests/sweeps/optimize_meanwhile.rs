//! Other operations that run completely within one optimize, one prune or one restore, between two
//! of its operations: forgets, prunes, backups, other optimizes. The places are a sample; with
//! `ONEFOLD_TEST_LONG=1` they are all.
//!
//! Invariant: every backup that is not forgotten restores, even if backups to which it refers
//! forward were forgotten or rewritten meanwhile. A restore that has begun ends with the bytes with
//! which it began.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use crate::common::archival::{Base, NAME, is_rewrite, optimize};
use crate::common::beside::Kept;
use crate::common::pruning::{everything, forget, impatient};
use crate::common::{Asked, How, Process, back_up_bytes, is_long, snapshot, try_restores_bytes};
use onefold::{Monitor, OptimizeRequest, SessionId, Store};

/// Another series, which shares chunks.
const SHARING: &str = "/sharing";

/// An action between two operations.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Act {
    /// Forgets these backups, by their place in the series.
    Forget(&'static [usize]),
    /// And removes their data.
    ForgetAndPrune(&'static [usize]),
    Optimize,
    OptimizeAndPrune,
    /// Makes a backup of this series, with bytes of the newest of [`NAME`] and new ones.
    BackUp(&'static str),
    /// And removes forgotten data. It refers to data of the oldest.
    BackUpAndPrune(&'static str),
}

impl Act {
    fn gone(self) -> &'static [usize] {
        match self {
            Self::Forget(gone) | Self::ForgetAndPrune(gone) => gone,
            _ => &[],
        }
    }

    /// Runs the action. Returns the backup, if it made one.
    fn happens(self, by: &Process, seed: u64, ids: &[SessionId]) -> Option<Kept> {
        let mut made = None;
        if let Self::BackUp(name) | Self::BackUpAndPrune(name) = self {
            let bytes = [Base::bytes(seed, 4), Base::bytes(seed, 0)].concat();
            let done = back_up_bytes(&by.open(), name, &bytes, &How::plain()).unwrap();
            made = Some((done.id, name, bytes));
        }
        if matches!(self, Self::Optimize | Self::OptimizeAndPrune) {
            optimize(&by.open(), 1);
        }
        for place in self.gone() {
            forget(&by.open(), ids[*place]);
        }
        if matches!(
            self,
            Self::ForgetAndPrune(_) | Self::OptimizeAndPrune | Self::BackUpAndPrune(_)
        ) {
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

type Work<'a> = &'a dyn Fn(&Store) -> Result<(), onefold::Error>;

/// Runs the action before the `at`-th operation of `work` that changes something. Returns whether
/// `work` came so far.
fn meanwhile(base: &mut Base, (seed, act): (u64, Act), at: usize, work: Work<'_>) -> bool {
    let worker = base.machine.beside(3).striding();
    let (other, ids) = (base.machine.beside(4), base.ids.clone());
    let count = Arc::new(AtomicUsize::new(0));
    let made = Arc::new(Mutex::new(None));
    let (counted, told) = (Arc::clone(&count), Arc::clone(&made));
    worker.watched.set_before(move |asked, _| {
        let changes = matches!(asked, Asked::Put | Asked::Barrier | Asked::Delete | Asked::Trim);
        if changes && counted.fetch_add(1, Ordering::Relaxed) == at {
            *told.lock().unwrap() = act.happens(&other, seed, &ids);
        }
    });
    let done = work(&worker.open());
    worker.watched.clear_before();
    if let Err(error) = done {
        let text = error.to_string();
        let is_over = ["was ended", "has ended already", "another prune", "is forgotten"];
        assert!(
            is_over.iter().any(|why| text.contains(why)),
            "{act:?} before {at}: {text}"
        );
    }
    base.others.extend(made.lock().unwrap().take());
    count.load(Ordering::Relaxed) > at
}

fn at_each(act: Act, archival: usize, every: usize, work: Work<'_>) {
    let every = if is_long() { 1 } else { every };
    for at in (0..).step_by(every) {
        let when = format!("{act:?} before operation {at}");
        let seed = 20 + at as u64;
        let mut base = Base::new(seed, archival);
        let is_reached = meanwhile(&mut base, (seed, act), at, work);
        let gone: Vec<_> = act.gone().iter().map(|place| base.ids[*place]).collect();
        if !is_reached {
            assert!(at > 20, "{when}: there are so few");
            return;
        }
        base.assert_settles(&gone, &when);
    }
}

fn one_optimize(store: &Store) -> Result<(), onefold::Error> {
    let request = OptimizeRequest::default().live(Some(1));
    store.optimize(&request, &Monitor::default()).map(drop)
}

fn one_prune(store: &Store) -> Result<(), onefold::Error> {
    store
        .prune(&impatient(everything()), &Monitor::default())
        .map(drop)
}

#[test]
fn backups_are_forgotten_while_they_are_made_archival() {
    for gone in [&[1][..], &[0], &[1, 2]] {
        at_each(Act::Forget(gone), 0, 13, &one_optimize);
        at_each(Act::ForgetAndPrune(gone), 1, 11, &one_optimize);
    }
}

#[test]
fn others_make_them_archival_at_the_same_time() {
    at_each(Act::Optimize, 0, 9, &one_optimize);
    at_each(Act::OptimizeAndPrune, 1, 11, &one_optimize);
}

/// It is then the newest of the series; or it is of a series with common chunks, and unused data of
/// the rewritten backup may be all that it refers to.
#[test]
fn a_backup_is_made_while_others_are_made_archival() {
    for (name, every) in [(NAME, 7), (SHARING, 6)] {
        at_each(Act::BackUp(name), 0, every, &one_optimize);
        at_each(Act::BackUpAndPrune(name), 2, every, &one_optimize);
    }
}

#[test]
fn backups_are_made_archival_while_another_prunes() {
    let forgotten_before = |base: &Base| forget(&base.machine.open(), base.ids[1]);
    let every = if is_long() { 1 } else { 3 };
    for at in (0..).step_by(every) {
        let when = format!("optimize before operation {at} of a prune");
        let seed = 40 + at as u64;
        let mut base = Base::new(seed, 2);
        forgotten_before(&base);
        let is_reached = meanwhile(&mut base, (seed, Act::Optimize), at, &one_prune);
        if !is_reached {
            assert!(at > 10, "{when}: there are so few");
            return;
        }
        base.assert_settles(&base.ids[1..2], &when);
    }
}

/// Each restore reads a backup that refers forward through others, which become archival and are
/// pruned before one of its reads.
#[test]
fn a_restore_continues_across_revisions() {
    let every = if is_long() { 1 } else { 4 };
    for at in (1..).step_by(every) {
        let when = format!("before read {at} of a restore");
        let base = Base::new(60 + at, 1);
        let reader = base.machine.beside(3);
        let (other, ids) = (base.machine.beside(4), base.ids.clone());
        let reached = Arc::new(AtomicUsize::new(0));
        let seen = Arc::clone(&reached);
        let store = reader.open();
        let first = snapshot(&store, base.ids[0]);
        reader.watched.set_once(at, move || {
            seen.store(1, Ordering::Relaxed);
            Act::Optimize.happens(&other, 60 + at, &ids);
            Act::ForgetAndPrune(&[0, 1]).happens(&other, 60 + at, &ids);
        });
        let restored = try_restores_bytes(&store, &first, NAME, &base.contents[&base.ids[0]]);
        if reached.load(Ordering::Relaxed) == 0 {
            assert!(at > 8, "{when}: there are so few");
            restored.unwrap();
            return;
        }
        // Or it was forgotten before it was pinned.
        if let Err(error) = restored {
            assert!(error.contains("forgotten"), "{when}: {error}");
        }
        base.assert_settles(&base.ids[..2], &when);
    }
}

/// An epoch announces data that only the next backup had, which was forgotten, while the rewrite
/// that will refer forward to it is about to commit. The rewrite ends without an answer, and so do
/// its pins.
#[test]
fn the_next_backup_of_a_rewrite_that_commits_during_an_epoch_is_kept() {
    for archival in [0, 2] {
        let base = Base::new(80 + archival as u64, archival);
        let (older, next) = (base.ids[archival], base.ids[archival + 1]);
        let worker = base.machine.beside(3).striding();
        let (other, pruner) = (base.machine.beside(4), base.machine.beside(5).striding());
        let pruned = Arc::new(Mutex::new(None));
        let pruning = Arc::clone(&pruned);
        worker.watched.set_before(move |asked, name| {
            if !is_rewrite(asked, name) || pruning.lock().unwrap().is_some() {
                return;
            }
            forget(&other.open(), next);
            let by = pruner.clone();
            *pruning.lock().unwrap() = Some(std::thread::spawn(move || {
                by.open().prune(&everything(), &Monitor::default()).unwrap();
            }));
            crate::common::wait_until("an epoch", || !other.names("condemned").is_empty());
        });
        one_optimize(&worker.open()).unwrap();
        worker.watched.clear_before();
        pruned.lock().unwrap().take().unwrap().join().unwrap();
        let list = worker.open().snapshots().unwrap().snapshots;
        let rewritten = list.iter().find(|snapshot| snapshot.id == older).unwrap();
        assert_eq!(
            rewritten.backup.next,
            Some(next),
            "it refers forward to what was forgotten"
        );
        base.assert_settles(&[next], "at the end");
    }
}
