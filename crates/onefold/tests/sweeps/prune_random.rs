//! Long runs drawn from a seed: backups, forgets, prunes, optimizes, restores, holds, tags, kills,
//! power cuts, by several processes on several hosts, one in the middle of another. A plain model
//! has the content of each backup, and which ones are held and tagged.
//!
//! No two clocks agree. Each process has clocks of its own, which run at a rate of their own, and
//! the storage has another. Time passes by seconds and by months. Processes sleep, or stand still
//! and do not notice. The storage's clock is set back or ahead by weeks. A wrong clock may cost
//! time, or end a backup, which then reports it.
//!
//! The operations follow from the seed alone. A thread may be faster in one run than in another, so
//! a kill may strike at a neighbouring operation. `ONEFOLD_RANDOM_SECONDS` sets how long to run,
//! and `ONEFOLD_RANDOM_SEED` the first seed. The seed of a failure is printed.

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU16;
use std::panic::AssertUnwindSafe;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::common::beside::try_dump;
use crate::common::pruning::{
    Stage, assert_nothing_unexplained_but_holes, everything, impatient, leaving, prune_after_crash,
    try_forget, try_prune,
};
use crate::common::{
    HandClock, How, Parts, Process, StorageClock, assert_restores_bytes, assert_sound, is_long, noise,
    try_restores_bytes, try_snapshot, wait_for_look_ups,
};
use env::fault::{Counted, CrashPolicy, Fault, FaultStorage, OpKind};
use env::{Clock, Entropy, SeededEntropy, SystemClock};
use onefold::{
    ArchivalWindow, Cap, Capping, Error, HoldEnd, Layout, Monitor, OptimizeRequest, PruneUnused, ReadData,
    SeriesName, SessionId, SettingsChange, Store, TagChange, UnixNanos, Which,
};

/// Operations of one run.
const STEPS: u64 = 60;
/// The deepest nesting of operations.
const DEPTH_MAX: u64 = 3;
const PROCESSES: u64 = 4;
const SERIES: u64 = 3;
/// Each of [`Stage::ALL`] occurs in one of so many runs. Whole regions seldom die in containers
/// that stay.
const RUNS_OF_EACH: [u64; Stage::ALL.len()] = [15, 15, 300];
/// Backups leave the windows of their series in one of so many runs. Some are forgotten before
/// that.
const EXPIRING_RUNS: u64 = 60;
/// Some of the numbers that are drawn for operations.
const FORGETS: u64 = 4;
const PRUNES: u64 = 6;
const CLOCKS: u64 = 10;
const OPTIMIZES: u64 = 12;
/// For series with a window: archival backups that stay behind the live one.
const ARCHIVAL: u16 = 1;
const HOLDS: u64 = 14;
const TAGS: u64 = 15;
/// How many numbers there are.
const ALL: u64 = 16;
const DAY_SECONDS: u64 = 24 * 60 * 60;
/// Shorter than the silence after which a session gives up, even if its clock runs fast.
const BETWEEN_BEATS: Duration = Duration::from_secs(10 * 60 * 60);

/// Random choices that depend only on the place in the run.
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

    /// By how much a clock is set: weeks, back or ahead.
    fn weeks(&self) -> i64 {
        let seconds = i64::try_from(self.roll(40 * DAY_SECONDS)).unwrap();
        if self.one_in(2) { -seconds } else { seconds }
    }
}

/// A process that lives from operation to operation, with its caches.
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

/// The expected state.
#[derive(Default)]
struct Model {
    kept: BTreeMap<SessionId, Attempt>,
    /// The process that forgot it was killed: it may exist or not.
    in_doubt: BTreeMap<SessionId, Attempt>,
    attempts: BTreeMap<String, Attempt>,
    /// Whether a backup is held, and its tag, if they were set. `None`: the process that set them
    /// was killed.
    held: BTreeMap<SessionId, Option<bool>>,
    tagged: BTreeMap<SessionId, Option<String>>,
    log: Vec<String>,
}

struct Run {
    seed: u64,
    parts: Vec<Vec<u8>>,
    machine: Mutex<FaultStorage>,
    /// The true time. Each process has a clock of its own.
    time: HandClock,
    storage_time: StorageClock,
    running: Mutex<BTreeMap<u64, Running>>,
    /// Processes that stand still. Others work meanwhile.
    standing: Mutex<BTreeSet<u64>>,
    /// Whether processes sleep or stand still for so long that they count as dead. A prune that
    /// looks at everything finds objects that they put after that, and after even their endings
    /// were deleted.
    sleeps: bool,
    model: Mutex<Model>,
    /// How often each of [`Stage::ALL`] occurred.
    staged: Mutex<[u64; Stage::ALL.len()]>,
    /// How many backups were made archival.
    optimized: Mutex<u64>,
    repaired: Mutex<u64>,
    /// How many were forgotten because they had left the window of their series.
    expired: Mutex<u64>,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// In most runs some series have layout hybrid, and in most some do not.
fn is_hybrid(seed: u64, series: u64) -> bool {
    seed >> series & 1 == 1
}

/// In a third of the runs these series have a retention window.
fn is_windowed(seed: u64, series: u64) -> bool {
    is_hybrid(seed, series) && seed.is_multiple_of(3)
}

impl Run {
    fn new(seed: u64) -> Self {
        let time = HandClock::new();
        let storage_time = StorageClock::new(&time);
        let machine = FaultStorage::with_clock(Arc::new(storage_time.clone()));
        let store = Process::on(machine.clone(), time.clone(), seed).init();
        for series in (0..SERIES).filter(|series| is_hybrid(seed, *series)) {
            let name = SeriesName {
                host: b"host".to_vec(),
                paths: vec![format!("/series-{series}").into_bytes()],
            };
            let hybrid = SettingsChange::default()
                .layout(Some(Layout::Hybrid))
                .segment_bytes(Some(64 << 10))
                .archival_window(
                    NonZeroU16::new(ARCHIVAL)
                        .filter(|_| is_windowed(seed, series))
                        .map(ArchivalWindow::Newest),
                );
            store.set_series_settings(&name, &hybrid).unwrap();
        }
        Self {
            seed,
            parts: (0..12).map(|n| noise(seed * 100 + n, 8000 << (n % 4))).collect(),
            machine: Mutex::new(machine),
            time,
            storage_time,
            running: Mutex::default(),
            standing: Mutex::default(),
            sleeps: seed.is_multiple_of(2),
            model: Mutex::default(),
            staged: Mutex::default(),
            optimized: Mutex::default(),
            repaired: Mutex::default(),
            expired: Mutex::default(),
        }
    }

    /// A clock that differs from all others.
    fn clock(&self, salt: u64) -> HandClock {
        let dice = Dice::new(self.seed.wrapping_mul(31) ^ salt);
        let permille = u32::try_from(500 + dice.roll(1500)).unwrap();
        self.time.seen_by(dice.weeks(), permille)
    }

    fn log(&self, depth: u64, what: String) {
        let indent = "  ".repeat(usize::try_from(depth).unwrap());
        locked(&self.model).log.push(format!("{indent}{what}"));
    }

    /// The process of this number. It is begun if it does not live. Odd ones are on hosts of their
    /// own.
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
            let process = Process::on(storage, self.clock(salt), self.seed ^ salt).striding();
            let store = Arc::new(process.open());
            Running { process, store }
        });
        (one.process.clone(), Arc::clone(&one.store))
    }

    fn fresh(&self, salt: u64) -> Process {
        let storage = locked(&self.machine).handle();
        Process::on(storage, self.clock(salt), self.seed ^ salt).striding()
    }

    /// A process that does not stand still.
    fn who(&self, drawn: u64) -> u64 {
        let standing = locked(&self.standing);
        let mut each = (0..PROCESSES).map(|n| (drawn + n) % PROCESSES);
        each.find(|number| !standing.contains(number)).unwrap()
    }

    /// One operation, with everything that happens in its middle.
    fn step(&self, place: u64, depth: u64, what: Option<u64>) {
        let dice = Dice::new(self.seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ place);
        let number = self.who(dice.roll(PROCESSES));
        let (process, store) = self.process(number, place);
        let is_killed = dice.one_in(5);
        let mut n = 1 + dice.roll(60);
        let counted = if dice.one_in(2) {
            Counted::All
        } else {
            Counted::Mutating
        };
        let what = what.unwrap_or_else(|| dice.roll(ALL));
        let request = self.request(&dice);
        if is_killed && is_optimize(what) {
            // The work of an optimize begins long after 60 operations, so a rehearsal counts them.
            n = 1 + dice.roll(self.rehearse(&request, counted, place));
        }
        if is_killed {
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
        match what {
            0..=3 => self.back_up(&dice, (place, depth, number), &who, &process, &store),
            FORGETS | 5 => self.forget(&dice, depth, &who, &process, &store),
            PRUNES..=8 => self.prune(&dice, depth, &who, &process, &store),
            9 => self.restore(&dice, (place, depth), &who, &process, &store),
            CLOCKS => self.move_clocks(&dice, depth, &who, &process),
            _ if is_optimize(what) => self.optimize(&request, depth, &who, &process, &store),
            HOLDS => self.hold(&dice, depth, &who, &process, &store),
            TAGS => self.tag(&dice, (place, depth), &who, &process, &store),
            _ if depth == 0 && dice.one_in(2) => self.cut_power(&dice),
            _ => {
                self.log(depth, format!("{who} ends"));
                locked(&self.running).remove(&number);
            }
        }
    }

    fn move_clocks(&self, dice: &Dice, depth: u64, who: &str, process: &Process) {
        let minutes = Duration::from_secs(1 + dice.roll(1200));
        let days = Duration::from_secs(DAY_SECONDS * (1 + dice.roll(40)));
        match dice.roll(8) {
            0 if self.sleeps => {
                self.log(depth, format!("{days:?} pass in which everybody sleeps"));
                self.time.advance(days);
            }
            1 if self.sleeps => {
                self.log(depth, format!("{days:?} pass in which everybody lives"));
                // A process that gets no processor time for one of these steps reports its silence.
                let mut left = days;
                while !left.is_zero() {
                    let now = left.min(BETWEEN_BEATS);
                    self.time.advance(now);
                    left -= now;
                    SystemClock.sleep(Duration::from_millis(12));
                }
            }
            2 if self.sleeps => {
                let hours = Duration::from_secs(3600 * (1 + dice.roll(47)));
                self.log(depth, format!("{who} sleeps for {hours:?}"));
                process.clock.suspend(hours);
            }
            3 | 4 => {
                let by = dice.weeks();
                self.log(depth, format!("the storage's clock is set by {by} s"));
                self.storage_time.set(by);
            }
            5 => {
                let by = dice.weeks();
                self.log(depth, format!("{who}: its wall clock is set by {by} s"));
                process.clock.move_wall(by);
            }
            _ => {
                self.log(depth, format!("{minutes:?} pass"));
                self.time.advance(minutes);
            }
        }
    }

    fn back_up(
        &self,
        dice: &Dice,
        (place, depth, number): (u64, u64, u64),
        who: &str,
        process: &Process,
        store: &Store,
    ) {
        let series = dice.roll(SERIES);
        let name = format!("/series-{series}");
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
        if dice.one_in(2) {
            how.ingest.capping = Some(Capping {
                window_bytes: 64 << 10,
                ..Capping::of(Cap::Least(8 << 10))
            });
        }
        if is_hybrid(self.seed, series) {
            how.ingest.capping = None;
        }
        let mut options = how.options();
        options.tags = vec![tag.clone()];
        let pause = usize::try_from(1 + dice.roll(4)).unwrap();
        // An action in its middle: others remove the data that was just looked up; or time passes
        // that the process does not notice, and others take it for dead.
        let first: &[u64] = match dice.roll(8) {
            0..=2 => &[FORGETS, PRUNES],
            3 => &[CLOCKS, FORGETS, PRUNES],
            5 => &[OPTIMIZES, FORGETS, PRUNES],
            4 => &[PRUNES, CLOCKS, PRUNES],
            _ => &[],
        };
        let inner = if depth + 1 < DEPTH_MAX { dice.roll(5) } else { 0 };
        let stands_still = dice.one_in(2) && self.sleeps && inner > 0;
        let monitor = Monitor::default();
        self.log(depth, format!("{who} backs up {name}, parts {which:?}, {tag}"));
        let mut source = Parts::new(&parts, |done| {
            if done == pause {
                if inner > 0 {
                    wait_for_look_ups(&monitor);
                }
                let stands_still = stands_still && locked(&self.standing).insert(number);
                if stands_still {
                    self.log(depth + 1, format!("{who} stands still"));
                    process.clock.stand_still(true);
                }
                for n in 0..inner {
                    let what = first.get(usize::try_from(n).unwrap()).copied();
                    self.step(place * 8 + n + 1, depth + 1, what);
                }
                if stands_still {
                    self.log(depth + 1, format!("{who} goes on"));
                    process.clock.stand_still(false);
                    locked(&self.standing).remove(&number);
                }
            }
        });
        let made = store.backup_stream(
            &options,
            Path::new(&name),
            &onefold::StreamOptions::default(),
            &mut source,
            &monitor,
        );
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
            Err(error) => assert!(process.storage.is_gone() || is_over(&error), "{tag}: {error}"),
        }
    }

    fn forget(&self, dice: &Dice, depth: u64, who: &str, process: &Process, store: &Store) {
        let ids: Vec<SessionId> = locked(&self.model).kept.keys().copied().collect();
        if ids.len() < 2 {
            return;
        }
        let id = ids[usize::try_from(dice.roll(ids.len() as u64)).unwrap()];
        self.log(depth, format!("{who} forgets {id}"));
        let held = locked(&self.model).held.get(&id).copied().unwrap_or(Some(false));
        let attempt = locked(&self.model).kept.remove(&id).unwrap();
        match try_forget(store, id) {
            Ok(()) => assert_ne!(held, Some(true), "forgotten, and held: {id}"),
            Err(Error::Held(_)) if held != Some(false) => {
                let model = &mut *locked(&self.model);
                model.kept.insert(id, attempt);
            }
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
        let options = leaving(unused)
            .all(dice.one_in(8))
            .keep_endings_for(Duration::from_secs(days * 24 * 60 * 60));
        // If a session is in the middle of its work, it gets the same time as outside of tests.
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
            Ok(report) => {
                assert!(report.damaged.is_empty(), "{report:?}");
                for (count, stage) in locked(&self.staged).iter_mut().zip(Stage::ALL) {
                    *count += stage.count(&report);
                }
            }
            Err(error) => {
                let text = error.to_string();
                let is_beside = text.contains("another prune") || is_over(&error);
                assert!(process.storage.is_gone() || is_beside, "prune: {text}");
            }
        }
    }

    /// One of the kept backups.
    fn one_kept(&self, dice: &Dice) -> Option<(SessionId, Attempt)> {
        let model = locked(&self.model);
        let at = usize::try_from(dice.roll(model.kept.len().max(1) as u64)).unwrap();
        model.kept.iter().nth(at).map(|(id, one)| (*id, one.clone()))
    }

    /// Holds a backup for good, or ends a hold. It ends more often than it begins.
    fn hold(&self, dice: &Dice, depth: u64, who: &str, process: &Process, store: &Store) {
        let Some((id, _)) = self.one_kept(dice) else {
            return;
        };
        let ends = dice.one_in(2);
        let held = locked(&self.model).held.clone().into_iter();
        let held = held
            .filter(|(_, held)| *held != Some(false))
            .map(|(id, _)| id)
            .collect();
        let (ids, end) = if ends {
            (held, None)
        } else {
            (vec![id], Some(HoldEnd::At(UnixNanos::new(i64::MAX))))
        };
        let kept: BTreeSet<SessionId> = locked(&self.model).kept.keys().copied().collect();
        for id in ids.iter().filter(|id| kept.contains(*id)) {
            self.log(depth, format!("{who} holds {id}: {}", !ends));
            locked(&self.model).held.insert(*id, None);
            match store.hold(&[id.to_string()], end) {
                Ok(_) => drop(locked(&self.model).held.insert(*id, Some(!ends))),
                Err(error) => return assert!(process.storage.is_gone(), "hold {id}: {error}"),
            }
        }
    }

    /// Besides the tag that identifies it.
    fn tag(&self, dice: &Dice, (place, depth): (u64, u64), who: &str, process: &Process, store: &Store) {
        let Some((id, _)) = self.one_kept(dice) else {
            return;
        };
        let tag = format!("tag-{place:x}");
        self.log(depth, format!("{who} tags {id}: {tag}"));
        locked(&self.model).tagged.insert(id, None);
        let change = TagChange::Alter {
            add: vec![tag.clone()],
            remove: Vec::new(),
        };
        match store.tag(&Which::Named(vec![id.to_string()]), &change) {
            Ok(_) => drop(locked(&self.model).tagged.insert(id, Some(tag))),
            Err(error) => assert!(process.storage.is_gone(), "tag {id}: {error}"),
        }
    }

    /// Backups that have left the live windows of hybrid series. Sometimes older backups of any
    /// series, or layout repair of the newest.
    fn request(&self, dice: &Dice) -> OptimizeRequest {
        OptimizeRequest::default()
            .live(dice.one_in(3).then_some(1))
            .repair(dice.one_in(2).then_some(400))
            .workers(1 + usize::try_from(dice.roll(2)).unwrap())
    }

    /// How many operations it takes on a copy of the machine.
    fn rehearse(&self, request: &OptimizeRequest, counted: Counted<OpKind>, salt: u64) -> u64 {
        let copy = locked(&self.machine).crash(CrashPolicy::KeepAll);
        let process = Process::on(copy.handle(), self.clock(salt), self.seed ^ salt).striding();
        let store = process.open();
        let before = process.storage.counters_here();
        store.optimize(request, &Monitor::default()).unwrap();
        let asked = process.storage.counters_here().since(&before);
        if counted == Counted::All {
            asked.all()
        } else {
            asked.mutating()
        }
    }

    fn optimize(&self, request: &OptimizeRequest, depth: u64, who: &str, process: &Process, store: &Store) {
        self.log(
            depth,
            format!(
                "{who} optimizes, live {:?}, repair {:?}, workers {}",
                request.live, request.repair, request.workers
            ),
        );
        let done = store.optimize(request, &Monitor::default());
        let said = match &done {
            Ok(report) => {
                let done = report.backups.iter().filter(|(_, done)| done.is_done).count() as u64;
                *locked(&self.optimized) += done;
                let repaired = report.repaired.iter().filter(|(_, done)| done.is_done).count() as u64;
                *locked(&self.repaired) += repaired;
                let ids: Vec<_> = report.backups.iter().map(|(id, _)| *id).collect();
                format!(
                    "{ids:?}, {done} done, {repaired} repaired, {} completed",
                    report.completed
                )
            }
            Err(error) => error.to_string(),
        };
        self.log(depth, said);
        if let Err(error) = done {
            assert!(process.storage.is_gone() || is_over(&error), "optimize: {error}");
        }
        self.expire();
    }

    /// An optimize has ended, with or without success: exactly the backups that have left the
    /// window of their series are forgotten.
    fn expire(&self) {
        let list = self.fresh(0xfade).open().snapshots().unwrap();
        let is_there = |id: SessionId| list.snapshots.iter().any(|found| found.id == id);
        let model = &mut *locked(&self.model);
        for (id, attempt) in model.kept.extract_if(.., |id, _| !is_there(*id)) {
            let series = (0..SERIES).find(|series| attempt.name == format!("/series-{series}"));
            let paths = [attempt.name.as_bytes().to_vec()];
            let newer = list.snapshots.iter().filter(|found| found.id > id);
            let newer = newer.filter(|found| found.backup.series.paths == paths).count();
            assert!(
                series.is_some_and(|series| is_windowed(self.seed, series)) && newer > ARCHIVAL.into(),
                "backup {id} of {} is forgotten, and has {newer} newer ones",
                attempt.name
            );
            let held = model.held.get(&id).copied().unwrap_or(Some(false));
            assert_ne!(held, Some(true), "backup {id} has expired, and is held");
            *locked(&self.expired) += 1;
        }
    }

    /// The backup may be forgotten, made archival, repaired and pruned in the middle of the
    /// restore.
    fn restore(&self, dice: &Dice, (place, depth): (u64, u64), who: &str, process: &Process, store: &Store) {
        let Some((id, attempt)) = self.one_kept(dice) else {
            return;
        };
        let inner = if depth + 1 < DEPTH_MAX { dice.roll(4) } else { 0 };
        let first: &[u64] = if dice.one_in(2) {
            &[OPTIMIZES, FORGETS, PRUNES]
        } else {
            &[FORGETS, PRUNES, OPTIMIZES]
        };
        self.log(depth, format!("{who} restores {id}"));
        let found = try_snapshot(store, id);
        let restored = if inner == 0 {
            found.and_then(|found| try_restores_bytes(store, &found, &attempt.name, &attempt.bytes))
        } else {
            found.and_then(|found| {
                let dumped = try_dump(store, &found, 64 << 10, || {
                    for n in 0..inner {
                        let what = first.get(usize::try_from(n).unwrap()).copied();
                        self.step(place * 8 + n + 1, depth + 1, what);
                    }
                });
                match dumped {
                    Ok(bytes) => {
                        assert!(bytes == *attempt.bytes, "other bytes came back of {id}");
                        Ok(())
                    }
                    Err(error) if is_over(&error) => Ok(()),
                    Err(error) => Err(error.to_string()),
                }
            })
        };
        self.log(depth, format!("{id} is restored: {restored:?}"));
        if let Err(error) = restored {
            assert!(process.storage.is_gone(), "{id}, in the midst: {error}");
        }
    }

    /// Cuts the power while no operation runs. Cuts that tear objects are in `prune_crash.rs`.
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

    /// Compares the store with the model, by a process without caches.
    fn verify(&self, when: &str) {
        let store = self.fresh(0xfeed).open();
        let list = store.snapshots().unwrap();
        let model = &mut *locked(&self.model);
        for id in model.kept.keys() {
            let is_there = list.snapshots.iter().any(|snapshot| snapshot.id == *id);
            assert!(is_there, "{when}: backup {id} is lost: {:?}", list.damaged);
        }
        for found in &list.snapshots {
            let mut tags = found.backup.tags.iter();
            let tag = tags.find(|tag| tag.starts_with("at-")).unwrap();
            let attempt = model.attempts[tag].clone();
            if let Some(Some(other)) = model.tagged.get(&found.id) {
                assert!(
                    found.backup.tags.contains(other),
                    "{when}: {} is not {other}",
                    found.id
                );
            }
            let is_held = found.backup.hold_until.is_some();
            let held = model.held.insert(found.id, Some(is_held)).unwrap_or(Some(false));
            assert_eq!(held.unwrap_or(is_held), is_held, "{when}: {} is held", found.id);
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
            // A killed process had committed it, or it was never forgotten.
            model.in_doubt.remove(&found.id);
            model.kept.insert(found.id, attempt);
        }
        model.in_doubt.clear();
        // A killed prune may have left one copy of two, which is reported.
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
        self.time.advance(Duration::from_secs(3600));
        let last = self.fresh(0xffff);
        for n in 0..3 {
            // The storage's clock may be behind earlier times of its own.
            self.storage_time.set(i64::try_from(40 * DAY_SECONDS).unwrap());
            let options = impatient(everything()).all(n == 2 && self.sleeps);
            prune_after_crash(&last.open(), &options, "at the end");
            self.verify(&format!("at the end, after prune {n}"));
        }
        assert_sound(&last.open(), "at the end");
        assert_nothing_unexplained_but_holes(&last, "at the end");
    }
}

fn is_optimize(what: u64) -> bool {
    [OPTIMIZES, OPTIMIZES + 1].contains(&what)
}

/// Another session has ended this one, or it found that it was silent for too long.
fn is_over(error: &Error) -> bool {
    let text = error.to_string();
    let why = ["was ended", "has ended already", "has given up"];
    why.iter().any(|why| text.contains(why))
}

fn number_of(variable: &str) -> Option<u64> {
    std::env::var(variable).ok()?.parse().ok()
}

#[test]
fn random_runs() {
    let seconds = if is_long() { 600 } else { 10 };
    let time = Duration::from_secs(number_of("ONEFOLD_RANDOM_SECONDS").unwrap_or(seconds));
    let begin = number_of("ONEFOLD_RANDOM_SEED").unwrap_or(1);
    let next = AtomicU64::new(begin);
    let began = SystemClock.monotonic();
    let has_failed = AtomicBool::new(false);
    let staged = Mutex::new([0; Stage::ALL.len()]);
    let (optimized, repaired, expired) = (Mutex::new(0), Mutex::new(0), Mutex::new(0));
    let work = || {
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            let run = Run::new(seed);
            let played = std::panic::catch_unwind(AssertUnwindSafe(|| run.play()));
            let log = || locked(&run.model).log.join("\n");
            if time.is_zero() {
                println!("{}", log());
            }
            if let Err(panic) = played {
                has_failed.store(true, Ordering::Relaxed);
                eprintln!("{}\nONEFOLD_RANDOM_SEED={seed} plays this run again", log());
                std::panic::resume_unwind(panic);
            }
            *locked(&optimized) += *locked(&run.optimized);
            *locked(&repaired) += *locked(&run.repaired);
            *locked(&expired) += *locked(&run.expired);
            for (sum, count) in locked(&staged).iter_mut().zip(*locked(&run.staged)) {
                *sum += count;
            }
            let is_over = SystemClock.monotonic().saturating_sub(began) >= time;
            if is_over || has_failed.load(Ordering::Relaxed) {
                return;
            }
        }
    };
    // A single seed is played alone, with its report. Most of a run is waiting: for heartbeats, and
    // for dead sessions.
    let workers = if time.is_zero() {
        1
    } else {
        2 * std::thread::available_parallelism().map_or(1, std::num::NonZero::get)
    };
    std::thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(work);
        }
    });
    let (runs, staged) = (next.into_inner() - begin, locked(&staged));
    let (optimized, repaired, expired) = (*locked(&optimized), *locked(&repaired), *locked(&expired));
    println!(
        "{runs} runs; containers by {:?}: {staged:?}; {optimized} backups made archival, {repaired} repaired, {expired} expired",
        Stage::ALL
    );
    assert!(
        optimized > 0 || runs < 15,
        "{runs} runs, and no backup became archival"
    );
    assert!(
        repaired > 0 || runs < 15,
        "{runs} runs, and no backup was repaired"
    );
    assert!(
        expired > 0 || runs < EXPIRING_RUNS,
        "{runs} runs, and no backup expired"
    );
    for ((stage, count), of_each) in Stage::ALL.iter().zip(&*staged).zip(RUNS_OF_EACH) {
        assert!(*count > 0 || runs < of_each, "{runs} runs, and none of {stage:?}");
    }
}
