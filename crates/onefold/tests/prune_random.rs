//! Long runs drawn from a seed: backups, forgets, prunes, restores, kills, power cuts, jumps of the clock, by several
//! processes on several hosts, one in the midst of another, against a plain model: which backup holds what.
//!
//! What is done follows from the seed alone; a thread may be quicker in one run than in another, so that a kill may strike at a
//! neighbouring operation. `ONEFOLD_RANDOM_SECONDS` says for how long to go on, `ONEFOLD_RANDOM_SEED` with which seed to
//! begin; the seed of a failure is printed.
#![allow(missing_docs, clippy::unwrap_used, reason = "tests")]

mod common;

use std::collections::BTreeMap;
use std::panic::AssertUnwindSafe;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use common::pruning::{
    assert_nothing_unexplained, everything, impatient, leaving, prune_after_crash, try_forget, try_prune,
};
use common::{How, Parts, Process, assert_restores_bytes, assert_sound, noise, snapshot, wait_for_look_ups};
use env::fault::{Counted, CrashPolicy, Fault, FaultStorage};
use env::{Clock, Entropy, SeededEntropy, SystemClock};
use onefold::{Error, Monitor, PruneOptions, PruneUnused, ReadData, SessionId, Store};

/// Operations of one run.
const STEPS: u64 = 60;
/// One within another, at most.
const DEPTH_MAX: u64 = 3;
const PROCESSES: u64 = 4;
/// Of the numbers that are drawn for what is done, two.
const FORGETS: u64 = 4;
const PRUNES: u64 = 6;

/// Draws that depend on nothing but the place in the run.
struct Dice(SeededEntropy);

impl Dice {
    fn new(seed: u64) -> Self {
        Self(SeededEntropy::new(seed))
    }

    fn roll(&self, below: u64) -> u64 {
        let mut bytes = [0; 8];
        self.0.fill(&mut bytes);
        u64::from_le_bytes(bytes) % below
    }

    fn one_in(&self, n: u64) -> bool {
        self.roll(n) == 0
    }
}

/// A process that lives on from operation to operation, with all that it remembers.
struct Running {
    process: Process,
    store: Arc<Store>,
}

/// An attempt at a backup, by its tag.
#[derive(Clone)]
struct Attempt {
    name: String,
    bytes: Arc<Vec<u8>>,
}

/// What ought to be there.
#[derive(Default)]
struct Model {
    kept: BTreeMap<SessionId, Attempt>,
    /// Whoever forgot it was killed: there or not.
    in_doubt: BTreeMap<SessionId, Attempt>,
    attempts: BTreeMap<String, Attempt>,
    log: Vec<String>,
}

struct Run {
    seed: u64,
    parts: Vec<Vec<u8>>,
    machine: Mutex<FaultStorage>,
    clock: common::HandClock,
    running: Mutex<BTreeMap<u64, Running>>,
    model: Mutex<Model>,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Run {
    fn new(seed: u64) -> Self {
        let first = Process::new(seed);
        first.init();
        Self {
            seed,
            parts: (0..12).map(|n| noise(seed * 100 + n, 8000 << (n % 4))).collect(),
            machine: Mutex::new(first.storage.clone()),
            clock: first.clock.clone(),
            running: Mutex::default(),
            model: Mutex::default(),
        }
    }

    fn log(&self, depth: u64, what: String) {
        let indent = "  ".repeat(usize::try_from(depth).unwrap());
        locked(&self.model).log.push(format!("{indent}{what}"));
    }

    /// The process of that number, begun where it is not alive. Odd ones are on hosts of their own.
    fn process(&self, number: u64, salt: u64) -> (Process, Arc<Store>) {
        let mut running = locked(&self.running);
        if running
            .get(&number)
            .is_some_and(|one| one.process.storage.is_gone())
        {
            running.remove(&number);
        }
        let one = running.entry(number).or_insert_with(|| {
            let machine = locked(&self.machine);
            let storage = if number % 2 == 1 {
                machine.handle_elsewhere()
            } else {
                machine.handle()
            };
            let process = Process::on(storage, self.clock.clone(), self.seed ^ salt).striding();
            let store = Arc::new(process.open());
            Running { process, store }
        });
        (one.process.clone(), Arc::clone(&one.store))
    }

    fn fresh(&self, salt: u64) -> Process {
        let storage = locked(&self.machine).handle();
        Process::on(storage, self.clock.clone(), self.seed ^ salt).striding()
    }

    /// One operation, and all that happens in the midst of it.
    fn step(&self, place: u64, depth: u64, what: Option<u64>) {
        let dice = Dice::new(self.seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ place);
        let number = dice.roll(PROCESSES);
        let (process, store) = self.process(number, place);
        let is_killed = dice.one_in(5);
        let n = 1 + dice.roll(60);
        if is_killed {
            let counted = if dice.one_in(2) {
                Counted::All
            } else {
                Counted::Mutating
            };
            process.storage.inject_here(Fault::kill(n).counting(counted));
        }
        let who = format!(
            "process {number}{}",
            if is_killed {
                format!(", to be killed at {n}")
            } else {
                String::new()
            }
        );
        let drawn = dice.roll(12);
        match what.unwrap_or(drawn) {
            0..=3 => self.back_up(&dice, place, depth, &who, &process, &store),
            FORGETS | 5 => self.forget(&dice, depth, &who, &process, &store),
            PRUNES..=8 => self.prune(&dice, depth, &who, &process, &store),
            9 => self.restore(&dice, depth, &who, &process, &store),
            10 => {
                let time = Duration::from_secs(1 + dice.roll(1200));
                self.log(depth, format!("the clock moves by {time:?}"));
                self.clock.advance(time);
            }
            _ if depth == 0 && dice.one_in(2) => self.cut_power(&dice),
            _ => {
                self.log(depth, format!("{who} ends"));
                locked(&self.running).remove(&number);
            }
        }
    }

    fn back_up(&self, dice: &Dice, place: u64, depth: u64, who: &str, process: &Process, store: &Store) {
        let name = format!("/series-{}", dice.roll(3));
        let begin = dice.roll(12);
        let which: Vec<u64> = (0..1 + dice.roll(5))
            .map(|n| {
                if dice.one_in(3) {
                    dice.roll(12)
                } else {
                    (begin + n) % 12
                }
            })
            .collect();
        let parts: Vec<&[u8]> = which
            .iter()
            .map(|n| &self.parts[usize::try_from(*n).unwrap()][..])
            .collect();
        let attempt = Attempt {
            name: name.clone(),
            bytes: Arc::new(Parts::whole(&parts)),
        };
        let tag = format!("at-{place:x}");
        locked(&self.model).attempts.insert(tag.clone(), attempt.clone());
        let mut how = if dice.one_in(3) {
            How::small()
        } else {
            How::plain()
        };
        how.ingest.checkpoint_bytes = 16 << dice.roll(4) << 10;
        let mut options = how.options();
        options.tags = vec![tag.clone()];
        let pause = usize::try_from(1 + dice.roll(4)).unwrap();
        let is_squeezed = dice.one_in(2);
        let inner = if depth + 1 < DEPTH_MAX { dice.roll(5) } else { 0 };
        let monitor = Monitor::default();
        self.log(depth, format!("{who} backs up {name}, parts {which:?}, {tag}"));
        let mut source = Parts::new(&parts, |done| {
            if done == pause {
                if inner > 0 {
                    wait_for_look_ups(&monitor);
                }
                for n in 0..inner {
                    // What was looked up just now is what others shall get rid of.
                    let what = match (is_squeezed, n) {
                        (true, 0) => Some(FORGETS),
                        (true, 1) => Some(PRUNES),
                        _ => None,
                    };
                    self.step(place * 8 + n + 1, depth + 1, what);
                }
            }
        });
        let made = store.backup_stream(&options, Path::new(&name), None, &mut source, &monitor);
        let said = match &made {
            Ok(made) => format!("{tag} is backup {}, adopted {:?}", made.id, made.adopted),
            Err(error) => format!("{tag}: {error}"),
        };
        self.log(depth, said);
        match made {
            Ok(made) => {
                let model = &mut *locked(&self.model);
                model.kept.insert(made.id, attempt);
            }
            Err(error) => assert!(process.storage.is_gone() || is_ended(&error), "{tag}: {error}"),
        }
    }

    fn forget(&self, dice: &Dice, depth: u64, who: &str, process: &Process, store: &Store) {
        let ids: Vec<SessionId> = locked(&self.model).kept.keys().copied().collect();
        if ids.len() < 2 {
            return;
        }
        let id = ids[usize::try_from(dice.roll(ids.len() as u64)).unwrap()];
        self.log(depth, format!("{who} forgets {id}"));
        let attempt = locked(&self.model).kept.remove(&id).unwrap();
        match try_forget(store, id) {
            Ok(()) => {}
            Err(error) => {
                assert!(process.storage.is_gone(), "forget {id}: {error}");
                locked(&self.model).in_doubt.insert(id, attempt);
            }
        }
    }

    fn prune(&self, dice: &Dice, depth: u64, who: &str, process: &Process, store: &Store) {
        let unused = match dice.roll(4) {
            0 => PruneUnused::Unlimited,
            1 => PruneUnused::Share(0.2),
            _ => PruneUnused::Bytes(0),
        };
        let days = if dice.one_in(2) { 0 } else { 30 };
        let options = PruneOptions {
            all: dice.one_in(8),
            keep_endings_for: Duration::from_secs(days * 24 * 60 * 60),
            ..leaving(unused)
        };
        // Where a session is in the midst of its work, it gets the time that it has outside of tests.
        let options = if depth == 0 { impatient(options) } else { options };
        self.log(
            depth,
            format!("{who} prunes to {unused:?}, endings after {days} days"),
        );
        let done = try_prune(store, &options);
        let said = match &done {
            Ok(report) => format!(
                "{} epochs, {} bytes deleted, {} copied, ended {:?}",
                report.epochs, report.bytes_deleted, report.bytes_copied, report.sessions_expired
            ),
            Err(error) => error.to_string(),
        };
        self.log(depth, said);
        match done {
            Ok(report) => assert!(report.damaged.is_empty(), "{report:?}"),
            Err(error) => {
                let text = error.to_string();
                let is_beside = text.contains("another prune") || is_ended(&error);
                assert!(process.storage.is_gone() || is_beside, "prune: {text}");
            }
        }
    }

    fn restore(&self, dice: &Dice, depth: u64, who: &str, process: &Process, store: &Store) {
        let kept: Vec<_> = locked(&self.model)
            .kept
            .iter()
            .map(|(id, one)| (*id, one.clone()))
            .collect();
        if kept.is_empty() {
            return;
        }
        let (id, attempt) = &kept[usize::try_from(dice.roll(kept.len() as u64)).unwrap()];
        self.log(depth, format!("{who} restores {id}"));
        let restored = std::panic::catch_unwind(AssertUnwindSafe(|| {
            assert_restores_bytes(
                store,
                &snapshot(store, *id),
                &attempt.name,
                &attempt.bytes,
                "in the midst",
            );
        }));
        if let Err(panic) = restored
            && !process.storage.is_gone()
        {
            std::panic::resume_unwind(panic);
        }
    }

    /// Nobody is in the midst of anything. What a cut tears is `prune_crash.rs`'.
    fn cut_power(&self, dice: &Dice) {
        self.log(0, "the power fails".into());
        locked(&self.running).clear();
        let machine = &mut *locked(&self.machine);
        machine.clear_faults();
        let policy = if dice.one_in(2) {
            CrashPolicy::KeepAll
        } else {
            CrashPolicy::DropAll
        };
        *machine = machine.crash(policy);
    }

    /// What is there is what ought to be, by a process that remembers nothing.
    fn verify(&self, when: &str) {
        let store = self.fresh(0xfeed).open();
        let list = store.snapshots().unwrap();
        let model = &mut *locked(&self.model);
        for id in model.kept.keys() {
            let is_there = list.snapshots.iter().any(|snapshot| snapshot.id == *id);
            assert!(is_there, "{when}: backup {id} is lost: {:?}", list.damaged);
        }
        for found in &list.snapshots {
            let tag = &found.backup.tags[0];
            let attempt = model.attempts[tag].clone();
            if let Some(kept) = model
                .kept
                .get(&found.id)
                .or_else(|| model.in_doubt.get(&found.id))
            {
                assert!(
                    Arc::ptr_eq(&kept.bytes, &attempt.bytes),
                    "{when}: {} is {tag}",
                    found.id
                );
            }
            let when = format!("{when}: backup {}, {tag}", found.id);
            assert_restores_bytes(&store, found, &attempt.name, &attempt.bytes, &when);
            // Committed by whoever did not live to tell, or never forgotten after all.
            model.in_doubt.remove(&found.id);
            model.kept.insert(found.id, attempt);
        }
        model.in_doubt.clear();
        // A prune that was killed may have left a copy without its other one, and that is told.
        let report = store.check(ReadData::Share(1.0), &Monitor::default()).unwrap();
        let findings = report.findings.iter().filter(|finding| !finding.is_covered);
        assert!(findings.count() == 0, "{when}: {:#?}", report.findings);
    }

    fn play(&self) {
        for n in 1..=STEPS {
            self.step(n << 16, 0, None);
            if n.is_multiple_of(10) {
                self.verify(&format!("after step {n}"));
            }
        }
        locked(&self.running).clear();
        locked(&self.machine).clear_faults();
        self.clock.advance(Duration::from_secs(3600));
        let last = self.fresh(0xffff);
        for n in 0..3 {
            prune_after_crash(&last.open(), &impatient(everything()), "at the end");
            self.verify(&format!("at the end, after prune {n}"));
        }
        assert_sound(&last.open(), "at the end");
        assert_nothing_unexplained(&last, "at the end");
    }
}

/// Somebody took the session for dead.
fn is_ended(error: &Error) -> bool {
    let text = error.to_string();
    text.contains("was ended") || text.contains("has ended already")
}

fn number_of(variable: &str) -> Option<u64> {
    std::env::var(variable).ok()?.parse().ok()
}

#[test]
fn random_runs() {
    let time = Duration::from_secs(number_of("ONEFOLD_RANDOM_SECONDS").unwrap_or(120));
    let begin = number_of("ONEFOLD_RANDOM_SEED").unwrap_or(1);
    let next = AtomicU64::new(begin);
    let began = SystemClock.monotonic();
    let has_failed = AtomicBool::new(false);
    let work = || {
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            let run = Run::new(seed);
            let played = std::panic::catch_unwind(AssertUnwindSafe(|| run.play()));
            if let Err(panic) = played {
                has_failed.store(true, Ordering::Relaxed);
                let log = locked(&run.model).log.join("\n");
                eprintln!("{log}\nONEFOLD_RANDOM_SEED={seed} plays this run again");
                std::panic::resume_unwind(panic);
            }
            let is_over = SystemClock.monotonic().saturating_sub(began) >= time;
            if is_over || has_failed.load(Ordering::Relaxed) {
                return;
            }
        }
    };
    // Asked for one, it is played alone.
    let workers = if time.is_zero() {
        1
    } else {
        std::thread::available_parallelism().map_or(1, std::num::NonZero::get)
    };
    std::thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(work);
        }
    });
    println!("{} runs", next.into_inner() - begin);
}
