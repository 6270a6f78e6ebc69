//! Other operations that run completely within one prune, at each of its operations. A prune that
//! was alone uses its listings until another session begins.
//!
//! Invariant: a backup that takes content of a forgotten one keeps it, or stores it again, wherever
//! in the prune it begins and ends. A backup that is forgotten meanwhile stays forgotten. And prune
//! waits for no process on this host that is dead or has failed.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use crate::common::archival;
use crate::common::beside::{assert_settles, back_up_parts, chosen, try_dump};
use crate::common::pruning::{everything, forget, leaving, prune_after_crash, try_prune};
use crate::common::{Asked, How, Parts, Process, back_up_bytes, is_long, noise, try_snapshot};
use env::Clock;
use env::fault::{Counted, CrashPolicy, FailWith, Fault, OpKind};
use onefold::{Monitor, OptimizeRequest, PruneUnused, SessionId};

const PART: usize = 40 << 10;

/// An action between two operations of the prune.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Act {
    /// A backup takes all forgotten data.
    BackUp,
    /// Forgets a backup that was kept.
    Forget,
}

struct Base {
    machine: Process,
    parts: Vec<Vec<u8>>,
    kept: SessionId,
    goes: SessionId,
}

/// One backup is kept; one is forgotten, of which nothing, a part or all is in containers of the
/// kept one; and one may be forgotten.
fn base(seed: u64) -> Base {
    let machine = Process::new(seed);
    machine.init();
    let parts: Vec<Vec<u8>> = (0..6).map(|n| noise(seed * 10 + n, PART)).collect();
    let old = back_up_parts(&machine, "/old", &chosen(&parts, &[0, 1, 2]));
    let kept = back_up_parts(&machine, "/kept", &chosen(&parts, &[2, 3]));
    let goes = back_up_parts(&machine, "/goes", &chosen(&parts, &[0, 4]));
    prune_after_crash(&machine.beside(seed + 1).open(), &everything(), "base");
    forget(&machine.open(), old);
    Base {
        machine,
        parts,
        kept,
        goes,
    }
}

/// Returns whether the prune had an `at`-th operation that changes something.
fn meanwhile(act: Act, at: usize, leaves: bool, seed: u64) -> bool {
    let when = format!("{act:?} before operation {at}, leaves: {leaves}");
    let base = base(seed);
    let pruner = base.machine.beside(seed + 2).striding();
    let (other, parts, goes) = (base.machine.beside(seed + 3), base.parts.clone(), base.goes);
    let taken = [0, 1, 5];
    let made = Arc::new(Mutex::new(None));
    let done = Arc::new(AtomicUsize::new(0));
    let (count, out) = (Arc::clone(&done), Arc::clone(&made));
    pruner.watched.set_before(move |asked, _| {
        let changes = matches!(asked, Asked::Put | Asked::Barrier | Asked::Delete | Asked::Trim);
        if !changes || count.fetch_add(1, Ordering::Relaxed) != at {
            return;
        }
        match act {
            Act::BackUp => {
                *out.lock().unwrap() = Some(back_up_parts(&other, "/new", &chosen(&parts, &taken)));
            }
            Act::Forget => forget(&other.open(), goes),
        }
    });
    let options = if leaves {
        leaving(PruneUnused::Bytes(1 << 30))
    } else {
        everything()
    };
    prune_after_crash(&pruner.open(), &options, &when);
    pruner.watched.clear_before();
    let parts = &base.parts;
    let mut all = vec![(base.kept, "/kept", Parts::whole(&chosen(parts, &[2, 3])))];
    let is_reached = done.load(Ordering::Relaxed) > at;
    if act != Act::Forget || !is_reached {
        all.push((base.goes, "/goes", Parts::whole(&chosen(parts, &[0, 4]))));
    }
    let made = *made.lock().unwrap();
    assert_eq!(made.is_some(), is_reached && act != Act::Forget, "{when}");
    all.extend(made.map(|id| (id, "/new", Parts::whole(&chosen(parts, &taken)))));
    assert_settles(&base.machine, &all, &when);
    is_reached
}

fn at_each_operation(act: Act, seed: u64) {
    for leaves in [false, true] {
        let mut at = 0;
        while meanwhile(act, at, leaves, seed) {
            at += if is_long() { 1 } else { 2 };
        }
        assert!(at > 15, "{act:?}: {at} operations");
    }
}

#[test]
fn a_backup_begins_and_ends_at_each_operation() {
    at_each_operation(Act::BackUp, 40);
}

#[test]
fn a_backup_is_forgotten_at_each_operation() {
    at_each_operation(Act::Forget, 80);
}

/// A session that dies or fails.
#[derive(Debug, Clone, Copy)]
enum Who {
    /// Adopts the containers of a dead session.
    Adopts,
    Reads,
    Prunes,
    Optimizes,
}

/// A store in which each kind of session, and a prune afterwards, has something to do.
fn scene(seed: u64) -> archival::Base {
    let base = archival::Base::new(seed, 1);
    let dying = base.machine.beside(seed + 1);
    let store = dying.open();
    dying
        .storage
        .inject_here(Fault::kill(40).counting(Counted::Mutating));
    back_up_bytes(&store, archival::NAME, &noise(seed + 2, 400 << 10), &How::plain()).unwrap_err();
    forget(&base.machine.open(), base.ids[1]);
    base
}

impl Who {
    /// Runs the session. Returns whether it succeeded.
    fn act(self, process: &Process, base: &archival::Base) -> bool {
        let Ok(store) = process.try_open() else {
            return false;
        };
        let bytes = noise(1, 60 << 10);
        match self {
            Self::Adopts => back_up_bytes(&store, archival::NAME, &bytes, &How::plain()).is_ok(),
            Self::Reads => {
                let found = try_snapshot(&store, base.ids[3]);
                found.is_ok_and(|found| try_dump(&store, &found, 128 << 10, || ()).is_ok())
            }
            Self::Prunes => try_prune(&store, &everything()).is_ok(),
            Self::Optimizes => {
                let request = OptimizeRequest::default().live(Some(1));
                store.optimize(&request, &Monitor::default()).is_ok()
            }
        }
    }
}

/// The faults: a kill; one failure; a disk that is full from then on; a storage that fails from
/// then on.
fn faults(n: u64) -> [Fault; 4] {
    [
        Fault::kill(n).counting(Counted::All),
        Fault::fail(n, FailWith::Io).counting(Counted::All),
        Fault::fail_from(n, FailWith::NoSpace).counting(Counted::Only(OpKind::Put)),
        Fault::fail_from(n, FailWith::Io).counting(Counted::All),
    ]
}

/// Whichever session dies or fails, at any operation: a prune on the same host does not wait for
/// it.
#[test]
fn a_prune_waits_for_no_dead_or_failed_session_on_its_host() {
    for who in [Who::Adopts, Who::Reads, Who::Prunes, Who::Optimizes] {
        let base = scene(90);
        let copy = |seed: u64| {
            let storage = base.machine.storage.crash(CrashPolicy::KeepAll);
            Process::on(storage, base.machine.clock.clone(), seed)
        };
        let quiet = copy(91);
        quiet.storage.start_trace();
        assert!(who.act(&quiet, &base), "{who:?}");
        let total = quiet.storage.take_trace().len() as u64;
        // Each of the first operations, and some of the rest.
        let step = if is_long() { 1 } else { 1 + total / 5 };
        let each = 1..=20;
        let rest = (21..total).step_by(usize::try_from(step).unwrap());
        for n in each.chain(rest) {
            for (kind, fault) in faults(n).into_iter().enumerate() {
                let when = format!("{who:?}, operation {n}, fault {kind}");
                let machine = copy(92);
                let dying = machine.beside(93);
                dying.storage.inject_here(fault);
                who.act(&dying, &base);
                let pruner = machine.beside(94).striding();
                let before = pruner.clock.monotonic();
                prune_after_crash(&pruner.open(), &everything(), &when);
                assert_eq!(pruner.clock.monotonic(), before, "{when}: waited");
            }
        }
    }
}
