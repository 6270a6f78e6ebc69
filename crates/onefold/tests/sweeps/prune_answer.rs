//! An epoch asks a backup, and the backup dies at any operation of its answer or later; or it is
//! suspended there, and wakes when everything continued without it. Another backup and a reader are
//! in the middle of their work meanwhile.
//!
//! Invariant: the reclaimer that asked, or a successor, completes. The next backup of the series is
//! right, whether it takes over the other's data or not. A backup that wakes gets an error, and
//! leaves no manifest that could name removed data. All kept backups restore, and every stored
//! object is explained.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::common::beside::{Kept, assert_settles, back_up_parts, chosen, dump, soon_given_up};
use crate::common::pruning::{Stage, assert_stages, everything, forget, prune_after_crash, try_prune};
use crate::common::reclaimer::Reclaimer;
use crate::common::{
    Asked, HandClock, How, Parts, Process, Watched, back_up_bytes, back_up_watched, is_long, noise,
    wait_for_look_ups, wait_until,
};
use env::fault::{Counted, CrashPolicy, Fault, FaultStorage};
use env::{Clock, SystemClock};
use onefold::{BackupReport, Error, Monitor, PruneOptions, PruneReport, SessionId};
use types::Epoch;

const PART: usize = 48 << 10;
/// The contents of the asked backup, the other one and the kept one. Parts 0 to 4 were backed up
/// before, and forgotten.
const ASKED: [usize; 5] = [5, 0, 2, 6, 3];
const OTHER: [usize; 4] = [3, 4, 0, 1];
const KEPT: [usize; 2] = [1, 5];

/// What happens to the asked backup.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    /// It is killed.
    Dies,
    /// It is suspended, counts as dead, and wakes.
    Sleeps,
}

/// Which process continues.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Next {
    /// The reclaimer that asked, and that waits for the answer.
    Reclaimer,
    /// A reclaimer that finds the epoch open, because the one that asked has died; then the next
    /// backup of the series.
    Successor,
    /// The next backup of the series, with a successor in its middle.
    Adopter,
}

/// A store, and its content.
struct Base {
    machine: Process,
    parts: Vec<Vec<u8>>,
    read_bytes: Vec<u8>,
    doomed: Vec<SessionId>,
    read: SessionId,
    kept: SessionId,
}

impl Base {
    fn new(seed: u64) -> Self {
        let machine = Process::new(seed);
        machine.init();
        let parts: Vec<_> = (0..7).map(|n| noise(seed * 10 + n, PART)).collect();
        let read_bytes = noise(seed + 5000, 300 << 10);
        let old = back_up_parts(&machine, "/old", &chosen(&parts, &[0, 1, 2]));
        let more = back_up_parts(&machine, "/more", &chosen(&parts, &[2, 3, 4]));
        let kept = back_up_parts(&machine, "/kept", &chosen(&parts, &KEPT));
        let read = back_up_bytes(&machine.open(), "/read", &read_bytes, &How::plain());
        let read = read.unwrap().id;
        Self {
            machine,
            parts,
            read_bytes,
            doomed: vec![old, more, read],
            read,
            kept,
        }
    }

    fn bytes(&self, which: &[usize]) -> Vec<u8> {
        Parts::whole(&chosen(&self.parts, which))
    }
}

/// The results of the asked backup, and of those after it.
#[derive(Debug, Default)]
struct Outcome {
    asked: Option<SessionId>,
    /// It was killed, or has fallen asleep, and the others continue from here.
    is_gone: bool,
    /// It had answered by then.
    has_answered: bool,
    has_committed: bool,
    was_expired: bool,
    next: Option<SessionId>,
}

/// One run.
#[derive(Clone)]
struct Run {
    base: Arc<Base>,
    machine: Process,
    seed: u64,
    fate: Fate,
    next: Next,
    when: String,
    outcome: Arc<Mutex<Outcome>>,
}

/// Everything dead is removed. Live sessions get all the time that they need to answer.
fn patient() -> PruneOptions {
    soon_given_up(everything()).answer_within(Duration::from_secs(24 * 3600))
}

fn how(n: u64) -> How {
    let mut how = if n % 4 == 3 { How::small() } else { How::plain() };
    how.ingest.checkpoint_bytes = 16 << 10;
    how
}

/// Backs up parts. After so many of them, when they were looked up, it does something.
fn back_up_with_pause(
    process: &Process,
    name: &str,
    parts: &[&[u8]],
    how: &How,
    at: usize,
    mut pause: impl FnMut() + Send,
) -> Result<BackupReport, Error> {
    let monitor = Monitor::default();
    let store = process.open();
    let mut source = Parts::new(parts, |done| {
        if done == at {
            wait_for_look_ups(&monitor);
            pause();
        }
    });
    back_up_watched(&store, name, &mut source, how, &monitor)
}

impl Run {
    fn reclaimer(&self) -> Reclaimer {
        Reclaimer::new(self.machine.beside(self.seed + 1))
    }

    fn pruner(&self, salt: u64) -> Process {
        self.machine.beside(self.seed + salt).striding()
    }

    fn prune(&self, salt: u64) -> PruneReport {
        prune_after_crash(&self.pruner(salt).open(), &patient(), &self.when)
    }

    fn with<T>(&self, what: impl FnOnce(&mut Outcome) -> T) -> T {
        what(&mut self.outcome.lock().unwrap())
    }

    /// The asked session is the newest running one.
    fn note_asked(&self) -> SessionId {
        let newest = self.reclaimer().table().running.last().unwrap().id;
        self.with(|outcome| outcome.asked = Some(newest));
        newest
    }

    fn has_answered(&self, asked: SessionId) -> bool {
        let table = self.reclaimer().table();
        let epoch = Epoch::new(1).unwrap();
        table.get(asked).is_some_and(|info| info.has_answered(epoch))
    }

    /// A reclaimer dies as soon as its condemned list is durable.
    fn ask_and_die(&self) {
        let dying = self.pruner(2);
        let store = dying.open();
        let (storage, mut is_put) = (dying.storage.clone(), false);
        dying.watched.set_before(move |asked, name| {
            if is_put && asked == Asked::Barrier {
                storage.inject_here(Fault::kill_after(1));
                is_put = false;
            }
            is_put |= asked == Asked::Put && name.starts_with("condemned");
        });
        try_prune(&store, &everything()).unwrap_err();
        dying.watched.clear_before();
        assert!(dying.storage.is_gone(), "{}", self.when);
    }

    /// A reclaimer asks, calls back, waits and finishes.
    fn ask_and_wait(&self, mut is_asked: impl FnMut() + Send + 'static) {
        let pruner = self.pruner(2);
        let mut is_put = false;
        pruner.watched.set_before(move |asked, name| {
            if is_put && asked == Asked::Barrier {
                is_put = false;
                is_asked();
            }
            is_put |= asked == Asked::Put && name.starts_with("condemned");
        });
        let report = prune_after_crash(&pruner.open(), &patient(), &self.when);
        pruner.watched.clear_before();
        self.note_finished(&report);
    }

    /// Records the report of the process that finished the epoch.
    fn note_finished(&self, report: &PruneReport) {
        assert_stages(report, &[Stage::Removes, Stage::Compacts], &self.when);
        self.note_expired(report);
    }

    fn note_expired(&self, report: &PruneReport) {
        self.with(|outcome| {
            let asked = outcome.asked.unwrap();
            outcome.was_expired |= report.sessions_expired.contains(&asked);
        });
    }

    /// The asked backup has stopped, for now or for ever. The epoch is finished, and its series is
    /// backed up again.
    fn go_on(&self) {
        let asked = self.with(|outcome| outcome.asked).unwrap();
        let had_checkpoint = {
            let folder = format::names::session_folder(asked);
            let left = self.machine.names("sessions");
            left.iter()
                .any(|name| name.starts_with(&folder) && name.contains("checkpoint"))
        };
        let has_answered = self.has_answered(asked);
        let store = self.machine.beside(self.seed + 3).open();
        let has_committed = {
            let list = store.snapshots().unwrap();
            list.snapshots.iter().any(|snapshot| snapshot.id == asked)
        };
        self.with(|outcome| {
            outcome.has_answered = has_answered;
            outcome.has_committed = has_committed;
        });
        let process = self.machine.beside(self.seed + 4);
        let parts = chosen(&self.base.parts, &ASKED);
        let again = match self.next {
            Next::Adopter => back_up_with_pause(&process, "/asked", &parts, &how(0), 2, || {
                let report = self.prune(5);
                self.note_finished(&report);
            }),
            Next::Reclaimer | Next::Successor => {
                let report = self.prune(5);
                if self.next == Next::Successor {
                    self.note_finished(&report);
                } else {
                    self.note_expired(&report);
                }
                back_up_bytes(&process.open(), "/asked", &Parts::whole(&parts), &how(1))
            }
        };
        let again = again.unwrap_or_else(|error| panic!("{}: {error}", self.when));
        let was_expired = self.with(|outcome| {
            outcome.next = Some(again.id);
            outcome.was_expired
        });
        let is_adopted = had_checkpoint && !was_expired && !has_committed;
        let expected = if is_adopted { vec![asked] } else { Vec::new() };
        assert_eq!(again.adopted, expected, "{}: {again:?}", self.when);
        self.prune(6);
    }

    /// The asked backup, which ends at its n-th operation after it was asked.
    fn dying(&self, n: u64, fault: Fault) -> Result<BackupReport, Error> {
        let asked = Process::on(self.machine.storage.handle(), HandClock::new(), self.seed + 7);
        let parts = chosen(&self.base.parts, &ASKED);
        let made = back_up_with_pause(&asked, "/asked", &parts, &how(n), 2, || {
            let id = self.note_asked();
            let (storage, clock) = (asked.storage.clone(), asked.clock.clone());
            let is_asked = move || {
                storage.inject_here(fault);
                clock.advance(Duration::from_secs(11));
            };
            if self.next == Next::Reclaimer {
                self.ask_and_wait(is_asked);
            } else {
                self.ask_and_die();
                is_asked();
                wait_until("an answer, or the end", || {
                    asked.storage.is_gone() || self.has_answered(id)
                });
            }
        });
        self.with(|outcome| outcome.is_gone = asked.storage.is_gone());
        made
    }

    /// The asked backup, which falls asleep before its n-th change after it was asked.
    fn sleeping(&self, n: u64) -> Result<BackupReport, Error> {
        let locks = self.machine.storage.handle();
        let asked = sleeper(&self.machine, &locks, self.seed + 7);
        let (is_counted, has_slept) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
        {
            let (run, clock, mut count) = (self.clone(), asked.clock.clone(), 0);
            let (is_counted, has_slept) = (Arc::clone(&is_counted), Arc::clone(&has_slept));
            asked.watched.set_before(move |_, _| {
                count += u64::from(is_counted.load(Ordering::SeqCst));
                if count != n || has_slept.load(Ordering::SeqCst) {
                    return;
                }
                run.with(|outcome| outcome.is_gone = true);
                locks.kill();
                run.go_on();
                if n.is_multiple_of(2) {
                    // Its heartbeat thread looks next.
                    clock.advance(Duration::from_secs(11));
                }
                has_slept.store(true, Ordering::SeqCst);
            });
        }
        let parts = chosen(&self.base.parts, &ASKED);
        let made = back_up_with_pause(&asked, "/asked", &parts, &how(n), 2, || {
            let id = self.note_asked();
            self.ask_and_die();
            is_counted.store(true, Ordering::SeqCst);
            asked.clock.advance(Duration::from_secs(11));
            wait_until("an answer, or that it slept", || {
                has_slept.load(Ordering::SeqCst)
                    || (self.has_answered(id) && !self.with(|outcome| outcome.is_gone))
            });
            // It may have fallen asleep right after its answer.
            SystemClock.sleep(Duration::from_millis(50));
            wait_until("that it slept", || {
                has_slept.load(Ordering::SeqCst) || !self.with(|outcome| outcome.is_gone)
            });
        });
        asked.watched.clear_before();
        made
    }

    fn play(&self, n: u64, fault: Fault) {
        let (base, when) = (&self.base, &self.when);
        let other = self.machine.beside(self.seed + 8);
        let parts = chosen(&base.parts, &OTHER);
        let reader = self.machine.beside(self.seed + 9).open();
        let mut kept: Vec<Kept> = vec![(base.kept, "/kept", base.bytes(&KEPT))];
        let read = dump(&reader, base.read, || {
            let of_other = back_up_with_pause(&other, "/other", &parts, &how(n), 1, || {
                let store = self.machine.open();
                base.doomed.iter().for_each(|id| forget(&store, *id));
                let made = match self.fate {
                    Fate::Dies => self.dying(n, fault),
                    Fate::Sleeps => self.sleeping(n),
                };
                let is_gone = self.with(|outcome| outcome.is_gone);
                if self.fate == Fate::Dies || !is_gone {
                    self.go_on();
                }
                self.assert_told(&made);
            });
            let of_other = of_other.unwrap_or_else(|error| panic!("{when}: {error}"));
            kept.push((of_other.id, "/other", base.bytes(&OTHER)));
        });
        assert!(read == base.read_bytes, "{when}: the reader read other bytes");
        let bytes = base.bytes(&ASKED);
        self.with(|outcome| {
            kept.push((outcome.next.unwrap(), "/asked", bytes.clone()));
            if outcome.has_committed {
                kept.push((outcome.asked.unwrap(), "/asked", bytes));
            }
        });
        assert_settles(&self.machine, &kept, when);
    }

    /// A session that was ended has made no backup, and knows why. One that had committed has made
    /// one.
    fn assert_told(&self, made: &Result<BackupReport, Error>) {
        let (when, outcome) = (&self.when, self.outcome.lock().unwrap());
        let error = match made {
            Ok(made) => {
                assert!(
                    outcome.has_committed && outcome.asked == Some(made.id),
                    "{when}: {outcome:?}"
                );
                return;
            }
            Err(error) => error.to_string(),
        };
        assert!(outcome.is_gone, "{when}: {error}");
        if self.fate == Fate::Sleeps {
            assert!(!outcome.has_committed, "{when}: {error}");
            assert!(
                error.contains("was ended") && error.contains("run the backup again"),
                "{when}: {error}"
            );
        }
    }
}

/// A process with a clock of its own. Another one holds its locks, and can be killed instead.
fn sleeper(machine: &Process, locks: &FaultStorage, seed: u64) -> Process {
    let storage = machine.storage.handle();
    let watched = Arc::new(Watched::with_locks_of(storage.clone(), locks.clone()));
    Process::watched(storage, watched, HandClock::new(), seed)
}

/// Continues from every operation, or a sample of them, until the asked backup ends before that
/// operation.
fn at_every_operation(fate: Fate, next: Next, seed: u64) {
    let base = Arc::new(Base::new(seed));
    let (mut reached, mut silent, mut answered, mut n) = (0, 0, 0, 1 + seed % 3);
    loop {
        let faults = if fate == Fate::Dies && is_long() {
            vec![Fault::kill(n), Fault::kill_after(n)]
        } else if reached % 2 == 0 {
            vec![Fault::kill(n)]
        } else {
            vec![Fault::kill_after(n)]
        };
        let mut is_gone = true;
        for fault in faults {
            let counted = if is_long() {
                Counted::All
            } else {
                Counted::Mutating
            };
            let fault = fault.counting(counted);
            let seed = seed + n * 20;
            let storage = base.machine.storage.crash(CrashPolicy::KeepAll);
            let run = Run {
                base: Arc::clone(&base),
                machine: Process::on(storage, base.machine.clock.clone(), seed),
                seed,
                fate,
                next,
                when: format!("{fate:?}, {next:?} goes on, {n}: {fault:?}"),
                outcome: Arc::default(),
            };
            run.play(n, fault);
            let outcome = run.outcome.lock().unwrap();
            is_gone &= outcome.is_gone;
            if outcome.is_gone {
                answered += u64::from(outcome.has_answered);
                silent += u64::from(!outcome.has_answered);
            }
        }
        if !is_gone {
            break;
        }
        reached += 1;
        n += if is_long() {
            1
        } else if n < 12 {
            4
        } else {
            13
        };
    }
    assert!(
        silent > 0 && answered > 0 && n > 20,
        "{silent} silent, {answered} answered, {n}"
    );
}

#[test]
fn a_session_dies_while_its_reclaimer_waits() {
    at_every_operation(Fate::Dies, Next::Reclaimer, 7000);
}

#[test]
fn a_session_dies_and_a_successor_finds_it() {
    at_every_operation(Fate::Dies, Next::Successor, 17_000);
}

#[test]
fn a_session_dies_and_is_adopted_before_the_epoch_is_decided() {
    at_every_operation(Fate::Dies, Next::Adopter, 27_000);
}

#[test]
fn a_session_sleeps_while_a_successor_decides_and_removes() {
    at_every_operation(Fate::Sleeps, Next::Successor, 37_000);
}

#[test]
fn a_session_sleeps_while_it_is_adopted_and_the_epoch_is_decided() {
    at_every_operation(Fate::Sleeps, Next::Adopter, 47_000);
}
