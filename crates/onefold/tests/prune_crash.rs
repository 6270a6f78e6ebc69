//! A crash at every storage operation of forgetting and pruning, with what was not under a barrier kept, dropped or
//! torn; a kill at every operation, reads too. After each: another process prunes, and again, which comes to
//! nothing; every backup that is kept restores identically; `check` of every byte finds nothing wrong; nothing is stored
//! that no backup reaches; and the next backup deduplicates against what is left.
//!
//! As in `crash.rs`, one recorded run gives all cuts.
#![allow(missing_docs, clippy::unwrap_used, reason = "tests")]

mod common;

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use common::pruning::{
    self, Stage, assert_nothing_unexplained, assert_stages, forget, impatient, leaving, prune, try_forget,
    try_prune,
};
use common::reclaimer::Reclaimer;
use common::{
    Asked, How, Parts, Process, Request, assert_restores_bytes, back_up_bytes, back_up_stream, is_long,
    noise, snapshot, wait_until,
};
use env::fault::{Counted, CrashPolicy, Fault, FaultStorage};
use env::{LockState, Storage};
use format::names;
use onefold::{Finding, Monitor, PruneOptions, PruneReport, PruneUnused, ReadData, SessionId, Store};
use types::ObjectName;

/// A backup's name and bytes.
type Content = (&'static str, Arc<Vec<u8>>);

/// What was promised by some moment.
#[derive(Debug, Clone, Default)]
struct Told {
    kept: BTreeMap<SessionId, Content>,
    /// Asked to be forgotten, not acknowledged: there or not.
    in_doubt: BTreeMap<SessionId, Content>,
}

/// A machine after a crash.
struct Image {
    machine: FaultStorage,
    told: Told,
    when: String,
}

/// A store in which there is something to do.
struct Play {
    process: Process,
    told: Arc<Mutex<Told>>,
    images: Arc<Mutex<Vec<Image>>>,
    parts: Vec<Vec<u8>>,
}

const PART: usize = 24 << 10;

impl Play {
    fn new(seed: u64) -> Self {
        let process = Process::new(seed).striding();
        process.init();
        Self {
            process,
            told: Arc::default(),
            images: Arc::default(),
            parts: (0..10).map(|n| noise(seed * 100 + n, PART)).collect(),
        }
    }

    fn told(&self) -> MutexGuard<'_, Told> {
        self.told.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn bytes(&self, parts: &[usize]) -> Vec<u8> {
        parts.iter().flat_map(|n| self.parts[*n].clone()).collect()
    }

    fn back_up(&self, name: &'static str, parts: &[usize], how: &How) -> SessionId {
        let bytes = self.bytes(parts);
        let made = back_up_bytes(&self.process.open(), name, &bytes, how).unwrap();
        self.told().kept.insert(made.id, (name, Arc::new(bytes)));
        made.id
    }

    /// A backup that breaks off after a checkpoint, and whose process is gone.
    fn break_off(&self, name: &'static str, parts: &[usize]) {
        let whole = self.bytes(parts);
        let dying = self.process.beside(900);
        let store = dying.open();
        let watched = dying.clone();
        let mut source = Parts::new(&[&whole, &[]], move |_| {
            wait_until("a checkpoint", || {
                let objects = watched.names("sessions");
                objects.iter().any(|name| name.contains("checkpoint"))
            });
            watched.storage.kill();
        });
        let mut how = How::plain();
        how.ingest.checkpoint_bytes = 32 << 10;
        back_up_stream(&store, name, &mut source, &how).unwrap_err();
    }

    /// Two series that share content, a session that died, backups large and small.
    fn fill(&self) -> Vec<SessionId> {
        let (plain, small) = (How::plain(), How::small());
        self.break_off("/dead", &[8, 0, 9]);
        let ids = vec![
            self.back_up("/a", &[0, 1, 2], &plain),
            self.back_up("/b", &[2, 3], &small),
            self.back_up("/a", &[1, 2, 4], &plain),
            self.back_up("/b", &[3, 4, 5], &plain),
            self.back_up("/a", &[4, 6], &small),
            self.back_up("/b", &[5, 6, 1], &plain),
        ];
        assert_eq!(self.told().kept.len(), 6);
        ids
    }

    fn forget_from(&self, store: &Store, id: SessionId) {
        let content = self.told().kept.remove(&id).unwrap();
        self.told().in_doubt.insert(id, content);
        forget(store, id);
        self.told().in_doubt.remove(&id);
    }

    fn forget(&self, ids: &[SessionId]) {
        let store = self.process.open();
        ids.iter().for_each(|id| self.forget_from(&store, *id));
    }

    fn prune(&self, options: &PruneOptions) -> PruneReport {
        prune(&self.process.open(), options, "in the scenario")
    }

    /// A prune in which these stages take place.
    fn prune_by(&self, stages: &[Stage], options: &PruneOptions) {
        assert_stages(&self.prune(options), stages, "in the scenario");
    }

    /// A prune that leaves what is dead in part where it is.
    fn prune_leaving(&self) {
        let report = self.prune(&leaving(PruneUnused::Unlimited));
        assert!(
            report.bytes_left_dead > 0,
            "nothing was left in place: {report:?}"
        );
    }

    /// From now on every moment is kept; of a long run every so many-th.
    fn record(&self, policies: Vec<CrashPolicy>, every: u64) {
        let (machine, told) = (self.process.storage.clone(), Arc::clone(&self.told));
        let images = Arc::clone(&self.images);
        let (mut count, mut seen, mut last_put) = (0u64, BTreeSet::new(), None);
        self.process.watched.set_before(move |asked, name| {
            count += 1;
            let last = last_put.clone();
            if asked == Asked::Put {
                last_put = ObjectName::new(name).ok();
            }
            // With every policy, but each at other moments.
            let told = told.lock().unwrap_or_else(PoisonError::into_inner).clone();
            let chosen = (0..).zip(&policies).filter(|(n, _)| (count + n) % every == 0);
            let by_policy = chosen.map(|(_, policy)| {
                let drawn = match policy {
                    CrashPolicy::Seeded(seed) => CrashPolicy::Seeded(seed * 100_000 + count),
                    other => *other,
                };
                (format!("{drawn:?}"), machine.crash(drawn))
            });
            let last = last.as_ref().filter(|_| count.is_multiple_of(every));
            let reordered =
                last.map(|name| ("only the last put kept".to_owned(), only_the_last(&machine, name)));
            for (what, after) in by_policy.chain(reordered) {
                if seen.insert(digest(&after, &told)) {
                    let when = format!("{what}, before operation {count}, {asked:?} {name}");
                    images.lock().unwrap_or_else(PoisonError::into_inner).push(Image {
                        machine: after,
                        told: told.clone(),
                        when,
                    });
                }
            }
        });
    }

    /// Moments before an object gave bytes back are among what was recorded.
    fn assert_trims(&self) {
        let images = self.images.lock().unwrap();
        assert!(
            images.iter().any(|image| image.when.contains("Trim")),
            "nothing was trimmed"
        );
    }

    fn verify_all(&self) {
        // An operation that changes nothing: the last moment.
        self.process.env.storage.barrier().unwrap();
        self.process.watched.clear_before();
        let images = std::mem::take(&mut *self.images.lock().unwrap());
        assert!(images.len() >= 20, "{} images", images.len());
        for image in &images {
            self.verify(image);
        }
    }

    fn verify(&self, image: &Image) {
        let when = &image.when;
        let process = Process::on(image.machine.handle(), self.process.clock.clone(), 0xc0de).striding();
        let store = process
            .try_open()
            .unwrap_or_else(|error| panic!("{when}: {error}"));
        self.assert_restores(&store, &image.told, when);
        Reclaimer::new(process.clone()).assert_no_node_dangles(when);
        // What a cut has torn may be told of; and who was found dead has left something for the next one.
        self.prune_as_told(&store, &image.told, when);
        self.assert_kept(&store, &image.told, &format!("{when}, and a prune"));
        prune(&store, &everything(), when);
        assert_nothing_unexplained(&process, when);
        // Another process knows nothing of what this one remembers.
        let process = Process::on(image.machine.handle(), self.process.clock.clone(), 0xc0df).striding();
        let store = process.open();
        let again = prune(&store, &everything(), when);
        assert!(
            again.bytes_deleted == 0 && again.epochs == 0 && again.groups_marked == 0,
            "{when}: a third prune: {again:?}"
        );
        self.assert_kept(&store, &image.told, &format!("{when}, and three prunes"));
        // What was pruned is stored anew, what was kept is found; the index may know either.
        let bytes = self.bytes(&[0, 1, 2, 3, 4, 5, 6]);
        let next = back_up_bytes(&store, "/next", &bytes, &How::plain())
            .unwrap_or_else(|error| panic!("{when}: the next backup: {error}"));
        assert_restores_bytes(&store, &snapshot(&store, next.id), "/next", &bytes, when);
        assert_sound_but_for_torn(
            &process.beside(0xc0e0).open(),
            &image.told,
            &format!("{when}, and the next backup"),
        );
        forget(&store, next.id);
        for _ in 0..2 {
            prune(&store, &everything_at_once(), when);
        }
        assert_nothing_unexplained(&process, &format!("{when}, at the end"));
        self.assert_kept(
            &process.beside(0xc0e1).open(),
            &image.told,
            &format!("{when}, at the end"),
        );
    }

    fn assert_kept(&self, store: &Store, told: &Told, when: &str) {
        self.assert_restores(store, told, when);
        assert_sound_but_for_torn(store, told, when);
    }

    /// A manifest that the cut has torn may be a backup's: prune asks to forget it, and then goes on.
    fn prune_as_told(&self, store: &Store, told: &Told, when: &str) {
        for _ in 0..3 {
            let text = match try_prune(store, &everything()) {
                Ok(_) => return,
                Err(error) => error.to_string(),
            };
            let torn = text.split(':').next().and_then(|name| ObjectName::new(name).ok());
            let torn = torn.and_then(|name| names::parse_manifest(&name));
            let (_, id, _) = torn.unwrap_or_else(|| panic!("{when}: prune: {text}"));
            assert!(
                !told.kept.contains_key(&id) && text.contains("forget that backup"),
                "{when}: {text}"
            );
            forget(store, id);
        }
        panic!("{when}: prune is never content");
    }

    fn assert_restores(&self, store: &Store, told: &Told, when: &str) {
        let list = store.snapshots().unwrap();
        for id in told.kept.keys() {
            assert!(
                list.snapshots.iter().any(|snapshot| snapshot.id == *id),
                "{when}: backup {id} is lost: {:?}",
                list.damaged
            );
        }
        for snapshot in &list.snapshots {
            let content = told
                .kept
                .get(&snapshot.id)
                .or_else(|| told.in_doubt.get(&snapshot.id));
            let (name, bytes) = content.unwrap_or_else(|| panic!("{when}: {} is back", snapshot.id));
            assert_restores_bytes(
                store,
                snapshot,
                name,
                bytes,
                &format!("{when}: backup {}", snapshot.id),
            );
        }
    }
}

/// Sound, but for manifests that a cut has torn, of endings and tombstones that nobody was told of.
fn assert_sound_but_for_torn(store: &Store, told: &Told, when: &str) {
    let report = store.check(ReadData::Share(1.0), &Monitor::default());
    let report = report.unwrap_or_else(|error| panic!("{when}: check: {error}"));
    let is_torn = |finding: &Finding| {
        let name = ObjectName::new(&finding.object).ok();
        let parsed = name.as_ref().and_then(names::parse_manifest);
        parsed.is_some_and(|(_, id, _)| !told.kept.contains_key(&id))
    };
    let others: Vec<_> = report
        .findings
        .iter()
        .filter(|finding| !is_torn(finding))
        .collect();
    assert!(others.is_empty(), "{when}: {others:#?}");
}

fn everything() -> PruneOptions {
    impatient(pruning::everything())
}

fn everything_at_once() -> PruneOptions {
    impatient(pruning::everything_at_once())
}

fn policies() -> Vec<CrashPolicy> {
    let seeds = if is_long() { 8 } else { 2 };
    let fixed = [CrashPolicy::KeepAll, CrashPolicy::DropAll, CrashPolicy::TearAll];
    fixed
        .into_iter()
        .chain((0..seeds).map(CrashPolicy::Seeded))
        .collect()
}

/// Of the moments of a run so many are left out.
fn every(short: u64) -> u64 {
    if is_long() { 1 } else { short }
}

/// The disk has written what was put last before all that was put earlier.
fn only_the_last(machine: &FaultStorage, last: &ObjectName) -> FaultStorage {
    let after = machine.crash(CrashPolicy::KeepAll);
    for object in machine.list("").unwrap() {
        if object.name != *last && !machine.is_durable(&object.name) {
            after.lose(&object.name);
        }
    }
    after
}

/// Two images with the same digest need not both be looked at.
fn digest(machine: &FaultStorage, told: &Told) -> u64 {
    let mut hasher = DefaultHasher::new();
    (told.kept.keys().collect::<Vec<_>>(), told.in_doubt.len()).hash(&mut hasher);
    for object in machine.list("").unwrap() {
        object.name.as_str().hash(&mut hasher);
        machine.get(&object.name).unwrap().hash(&mut hasher);
    }
    for session in machine.list_folders("sessions").unwrap() {
        if let Some(id) = names::parse_session(&session) {
            let lock = names::session_lock(id);
            (machine.lock_state(&lock).unwrap() == LockState::Free).hash(&mut hasher);
        }
    }
    hasher.finish()
}

#[test]
fn a_crash_in_the_first_prune() {
    let play = Play::new(1);
    let ids = play.fill();
    play.record(policies(), every(7));
    play.forget(&ids[..2]);
    play.prune_by(&[Stage::Removes, Stage::Compacts, Stage::Merges], &everything());
    play.verify_all();
}

/// Marks are extended and dropped, lists of an earlier epoch stand, and tombstones go.
#[test]
fn a_crash_in_a_later_prune() {
    let play = Play::new(2);
    let ids = play.fill();
    play.forget(&ids[..1]);
    play.prune(&everything());
    play.back_up("/a", &[0, 3, 7], &How::plain());
    play.record(policies(), every(9));
    let tombstones = play.process.names("backups");
    play.forget(&ids[2..4]);
    play.prune_by(&[Stage::Compacts], &everything_at_once());
    let left = play.process.names("backups");
    assert!(tombstones.iter().any(|name| !left.contains(name)), "{left:?}");
    play.verify_all();
}

/// What an epoch left in place is taken by a backup, and the next epoch removes the rest.
#[test]
fn a_crash_in_a_prune_of_what_was_left_in_place() {
    let play = Play::new(3);
    let ids = play.fill();
    play.forget(&ids[..3]);
    play.prune_leaving();
    play.back_up("/a", &[0, 7], &How::plain());
    play.back_up("/b", &[1, 7], &How::small());
    play.record(policies(), every(7));
    play.prune_by(&[Stage::Removes, Stage::Compacts], &everything());
    play.verify_all();
}

/// Small containers of many backups become one, while some of what is in them goes; then they are known by both names.
#[test]
fn a_crash_in_a_prune_that_merges() {
    let play = Play::new(7);
    let (plain, small) = (How::plain(), How::small());
    let mut ids = Vec::new();
    for n in 0..4 {
        ids.push(play.back_up("/a", &[n, n + 1], &plain));
        ids.push(play.back_up("/b", &[n + 2], &small));
    }
    play.forget(&ids[..1]);
    play.record(policies(), every(7));
    play.prune_by(&[Stage::Merges], &everything());
    play.forget(&ids[2..4]);
    play.prune_by(&[Stage::Removes, Stage::Compacts], &everything());
    assert!(!pruning::stubs(&play.process).is_empty());
    play.verify_all();
}

/// Regions are given back; then more of them, of the same containers.
#[test]
fn a_crash_in_a_prune_that_trims() {
    let play = Play::new(60);
    let plain = How::plain();
    let ids = [
        play.back_up("/a", &[0, 1, 2, 3, 4, 5, 6], &plain),
        play.back_up("/b", &[0, 1, 2, 4, 5], &plain),
        play.back_up("/b", &[0, 2, 5, 7], &plain),
    ];
    play.record(policies(), every(6));
    for id in &ids[..2] {
        play.forget(&[*id]);
        let report = prune(
            &play.process.open(),
            &impatient(leaving(PruneUnused::Bytes(20 << 10))),
            "in the scenario",
        );
        assert_stages(&report, &[Stage::Trims], "in the scenario");
    }
    play.assert_trims();
    play.verify_all();
}

/// Everything goes, the groups too.
#[test]
fn a_crash_in_a_prune_of_everything() {
    let play = Play::new(4);
    let ids = play.fill();
    play.forget(&ids[..3]);
    play.prune(&everything());
    play.record(policies(), every(9));
    play.forget(&ids[3..]);
    play.prune_by(&[Stage::Removes], &everything_at_once());
    play.verify_all();
}

/// What is asked of the storage in each stage of forgetting and pruning, by kind and folder.
const STAGES: [&str; 7] = [
    // Forget, mark, condemn, decide.
    "Put backups",
    "Put groups",
    "Put condemned",
    "Put removed",
    // Remove, finish, and what is kept for a while.
    "Delete data",
    "Delete condemned",
    "Delete backups",
];

/// Kind and folder of what was asked.
fn stage(request: &Request) -> String {
    let folder = request.name.split('/').next().unwrap_or_default();
    format!("{:?} {folder}", request.asked)
}

/// The process that forgets and prunes is killed before or after each operation, or every so manieth; it ends, and another
/// one carries on. Who lives to the end goes through all these stages; each operation of it is one that others died at.
fn kill_at_every_operation(
    play: &Play,
    doomed: &[SessionId],
    options: &PruneOptions,
    (every_short, is_trimming): (usize, bool),
    stages: &[&str],
) {
    let before = play.told().clone();
    let (counted, every) = if is_long() {
        (Counted::All, 1)
    } else {
        (Counted::Mutating, every_short)
    };
    let mut moments = 0;
    for n in (1..).step_by(every) {
        let mut reached = false;
        for fault in [Fault::kill(n), Fault::kill_after(n)] {
            let machine = play.process.storage.crash(CrashPolicy::KeepAll);
            let seed = 1000 + if is_trimming { 2 * n } else { n };
            let dying = Process::on(machine.handle(), play.process.clock.clone(), seed).striding();
            let store = dying.open();
            drop(dying.watched.take_requests());
            dying.storage.inject_here(fault.counting(counted));
            let mut told = before.clone();
            let mut in_time = io::Result::Ok(());
            for id in doomed {
                let content = told.kept.remove(id).unwrap();
                match try_forget(&store, *id) {
                    Ok(()) => {}
                    Err(error) => {
                        told.in_doubt.insert(*id, content);
                        in_time = Err(io::Error::other(error.to_string()));
                    }
                }
                if in_time.is_err() {
                    break;
                }
            }
            let pruned = try_prune(&store, options);
            drop(store);
            if !dying.storage.is_gone() {
                assert!(in_time.is_ok() && pruned.is_ok(), "{in_time:?} {pruned:?}");
                let asked: BTreeSet<String> = dying.watched.take_requests().iter().map(stage).collect();
                let missing: Vec<_> = stages.iter().filter(|stage| !asked.contains(**stage)).collect();
                assert!(missing.is_empty(), "{missing:?} of {asked:?}");
                continue;
            }
            reached = true;
            let when = format!("{fault:?}");
            play.verify(&Image { machine, told, when });
        }
        if !reached {
            break;
        }
        moments += 1;
    }
    assert!(moments >= 6, "{moments}");
}

#[test]
fn a_kill_at_every_operation() {
    let play = Play::new(5);
    let ids = play.fill();
    play.forget(&ids[..1]);
    play.prune_leaving();
    play.back_up("/a", &[0, 7], &How::plain());
    let compacts = [&STAGES[..], &["Put data", "Put recipe"]].concat();
    kill_at_every_operation(&play, &ids[1..4], &everything_at_once(), (3, false), &compacts);
}

#[test]
fn a_kill_at_every_operation_of_a_merge() {
    let play = Play::new(8);
    let ids: Vec<_> = (0..4)
        .flat_map(|n| {
            [
                play.back_up("/a", &[n, n + 1], &How::plain()),
                play.back_up("/b", &[n + 2], &How::small()),
            ]
        })
        .collect();
    let merges = [&STAGES[..], &["Put small", "Delete small"]].concat();
    kill_at_every_operation(&play, &ids[..3], &everything_at_once(), (11, false), &merges);
}

#[test]
fn a_kill_at_every_operation_of_a_trim() {
    let play = Play::new(62);
    let ids = [
        play.back_up("/a", &[0, 1, 2, 3, 4, 5, 6], &How::plain()),
        play.back_up("/b", &[0, 2, 5, 7], &How::plain()),
    ];
    let options = impatient(leaving(PruneUnused::Bytes(20 << 10)));
    let trims = [&STAGES[..6], &["Trim data"]].concat();
    kill_at_every_operation(&play, &ids[..1], &options, (7, true), &trims);
}

/// The first process is killed before or after it has put a list, the second does what it read there, and the power
/// fails: what the second acted on is durable before what it did.
#[test]
fn a_crash_in_what_a_successor_finishes() {
    for (nth, folder) in [(1, "condemned"), (1, "removed"), (1, "recipe"), (1, "data")] {
        let play = Play::new(50);
        let ids = play.fill();
        play.forget(&ids[..3]);
        let dying = play.process.beside(51).striding();
        let store = dying.open();
        let (storage, mut puts) = (dying.storage.clone(), 0);
        dying.watched.set_before(move |asked, name| {
            if asked == Asked::Put && name.starts_with(folder) {
                puts += 1;
                if puts == nth {
                    storage.inject_here(Fault::kill_after(1));
                }
            }
        });
        try_prune(&store, &everything()).unwrap_err();
        assert!(dying.storage.is_gone(), "{folder}");
        dying.watched.clear_before();
        drop(store);
        play.record(policies(), every(5));
        play.prune(&everything());
        play.verify_all();
    }
}

/// Power cut after power cut, each in the prune that shall mend what the one before left.
#[test]
fn prunes_that_crash_again_and_again() {
    for seed in 0..if is_long() { 60 } else { 3 } {
        let play = Play::new(6 + seed);
        let ids = play.fill();
        let mut machine = play.process.storage.clone();
        for (round, id) in (0u64..).zip(&ids[..4]) {
            for cut in 0..4 {
                let when = format!("seed {seed}, backup {id}, cut {cut}");
                let process =
                    Process::on(machine.handle(), play.process.clock.clone(), seed * 100 + round).striding();
                let store = process.open();
                if cut == 0 {
                    forget(&store, *id);
                    play.told().kept.remove(id);
                }
                let n = 1 + (seed * 31 + round * 17 + cut * 23) % 60;
                let fault = if cut % 2 == 0 {
                    Fault::stop(n)
                } else {
                    Fault::tear(1 + n / 3)
                };
                process.storage.inject(fault);
                let done = try_prune(&store, &everything());
                machine.clear_faults();
                if process.storage.is_gone() {
                    machine = process
                        .storage
                        .crash(CrashPolicy::Seeded(seed * 1000 + round * 10 + cut));
                } else if done.is_err() {
                    let told = play.told().clone();
                    play.prune_as_told(&process.open(), &told, &when);
                }
                let process = Process::on(machine.handle(), play.process.clock.clone(), 7).striding();
                let told = play.told().clone();
                play.assert_restores(&process.open(), &told, &when);
            }
        }
        let told = play.told().clone();
        let when = format!("seed {seed}, at the end");
        play.verify(&Image { machine, told, when });
    }
}
