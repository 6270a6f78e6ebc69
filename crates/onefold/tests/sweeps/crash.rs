//! A crash at every storage operation of a store's life, with bytes under no barrier kept, dropped
//! or torn. Every committed backup restores identically, `check` finds no damage, and the next
//! backup completes.
//!
//! One run of a scenario gives all crashes: before each operation that changes something, and at
//! the end, the simulated machine computes what a power loss at that moment would leave. The
//! acknowledgements up to then are recorded with it. Kills are played one by one, because there the
//! rest of the process must end, and not hang. And some stores live through one crash after the
//! other.

use std::collections::BTreeSet;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use crate::common::positions::has_position;
use crate::common::{
    Asked, How, Picture, Process, Tree, assert_restores, assert_restores_bytes, assert_sound, back_up,
    back_up_bytes, back_up_stream, is_long, noise, tiny, wait_until,
};
use env::fault::{Counted, CrashPolicy, Fault, FaultStorage};
use env::{Entropy, SeededEntropy, Storage};
use onefold::{Monitor, ReaderSource, SessionId, Snapshot, Store, StreamOptions, StreamPiece, StreamSource};
use types::ObjectName;

/// Where streams of the tests are named.
const STREAM: &str = "/stream";

/// The acknowledgements up to some moment, and the operation in progress.
#[derive(Debug, Clone, Default)]
struct Told {
    store_made: bool,
    /// Backups that were acknowledged.
    backups: BTreeSet<SessionId>,
    /// The contents of acknowledged backups, and of the one in progress.
    contents: Vec<Content>,
}

/// The content of a backup.
#[derive(Debug, Clone)]
enum Content {
    Tree(Arc<Picture>),
    Stream(Arc<Vec<u8>>),
}

/// A machine after a crash.
struct Image {
    machine: FaultStorage,
    told: Told,
    when: String,
}

/// The machine on which a scenario is played.
struct Play {
    process: Process,
    store: Option<Store>,
    tree: Tree,
    told: Arc<Mutex<Told>>,
    images: Arc<Mutex<Vec<Image>>>,
}

impl Play {
    fn new(seed: u64, tree_bytes: usize) -> Self {
        Self {
            process: Process::new(seed),
            store: None,
            tree: Tree::plant(seed, tree_bytes),
            told: Arc::default(),
            images: Arc::default(),
        }
    }

    fn init(&mut self) {
        self.store = Some(self.process.init());
        locked(&self.told).store_made = true;
    }

    fn store(&self) -> &Store {
        self.store.as_ref().expect("the store is made first")
    }

    /// From now on every moment is recorded.
    fn record(&self, policies: Vec<CrashPolicy>) {
        let (machine, told) = (self.process.storage.clone(), Arc::clone(&self.told));
        let images = Arc::clone(&self.images);
        let (mut count, mut seen, mut last_put) = (0, BTreeSet::new(), None);
        self.process.watched.set_before(move |asked, name| {
            count += 1;
            let told = locked(&told).clone();
            let by_policy = policies.iter().map(|policy| {
                let after = machine.crash(policy_at(*policy, count));
                (format!("{policy:?}"), after)
            });
            let reordered = last_put.as_ref().map(|name| only_the_last(&machine, name));
            let reordered = reordered.map(|after| ("only the last put kept".to_owned(), after));
            if asked == Asked::Put {
                last_put = ObjectName::new(name).ok();
            }
            for (what, after) in by_policy.chain(reordered) {
                if seen.insert(digest(&after, &told)) {
                    let when = format!("{what}, before operation {count}, {asked:?} {name}");
                    locked(&images).push(Image {
                        machine: after,
                        told: told.clone(),
                        when,
                    });
                }
            }
        });
    }

    /// Records the last moment too, and returns all.
    fn stop_recording(&self) -> Vec<Image> {
        // An operation without effect.
        self.process.env.storage.barrier().unwrap();
        self.process.watched.clear_before();
        std::mem::take(&mut *locked(&self.images))
    }

    fn back_up(&self, how: &How) -> SessionId {
        let picture = Arc::new(self.tree.picture());
        locked(&self.told).contents.push(Content::Tree(picture));
        let report = back_up(self.store(), &self.tree, how).unwrap();
        assert!(report.warnings.is_empty(), "{:?}", report.warnings);
        locked(&self.told).backups.insert(report.id);
        report.id
    }

    /// After any crash, nothing acknowledged is lost, and the store still works.
    fn verify(&self, image: &Image) {
        let when = &image.when;
        let process = Process::on(image.machine.clone(), self.process.clock.clone(), 0xc0de);
        let store = match process.try_open() {
            Ok(store) => store,
            Err(error) if image.told.store_made => panic!("{when}: {error}"),
            Err(_) => process
                .try_init(&tiny())
                .unwrap_or_else(|error| panic!("{when}: {error}")),
        };
        self.assert_backups(&store, &image.told, when);
        let how = How::plain();
        let next = back_up(&store, &self.tree, &how).unwrap_or_else(|error| panic!("{when}: {error}"));
        // Torn parts of the index are reported, and made again.
        let warnings: Vec<_> = next
            .warnings
            .iter()
            .filter(|note| {
                !matches!(
                    note,
                    onefold::Warning::Index(onefold::IndexWarning::BadRun { .. })
                )
            })
            .collect();
        assert!(warnings.is_empty(), "{when}: {warnings:?}");
        let made = crate::common::snapshot(&store, next.id);
        assert_restores(&store, &made, &self.tree.root(), &self.tree.picture(), when);
        // Another process no longer finds what this one's backup has mended.
        let again = Process::on(image.machine.handle(), self.process.clock.clone(), 0xc0df).open();
        assert_sound(&again, &format!("{when}, and the next backup"));
    }

    fn assert_backups(&self, store: &Store, told: &Told, when: &str) {
        let list = store.snapshots().unwrap();
        for id in &told.backups {
            assert!(
                list.snapshots.iter().any(|snapshot| snapshot.id == *id),
                "{when}: backup {id} is lost: {:?}",
                list.damaged
            );
        }
        for snapshot in &list.snapshots {
            self.assert_content(store, snapshot, told, when);
        }
        // If the making of a store was interrupted, the second copy of its config may be missing
        // until the first backup.
        if told.store_made {
            assert_sound(store, when);
        }
    }

    /// The n-th backup has the n-th content, because scenarios make them one after the other.
    fn assert_content(&self, store: &Store, snapshot: &Snapshot, told: &Told, when: &str) {
        let earlier = told.backups.iter().filter(|id| **id < snapshot.id).count();
        let when = format!("{when}: backup {}", snapshot.id);
        match &told.contents[earlier] {
            Content::Tree(picture) => assert_restores(store, snapshot, &self.tree.root(), picture, &when),
            Content::Stream(bytes) => assert_restores_bytes(store, snapshot, STREAM, bytes, &when),
        }
    }

    fn verify_all(&self) {
        let images = self.stop_recording();
        assert!(images.len() >= 5, "{} images", images.len());
        for image in &images {
            self.verify(image);
        }
    }
}

fn locked<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn policies() -> Vec<CrashPolicy> {
    let seeds = if is_long() { 12 } else { 2 };
    let fixed = [CrashPolicy::KeepAll, CrashPolicy::DropAll, CrashPolicy::TearAll];
    fixed
        .into_iter()
        .chain((0..seeds).map(CrashPolicy::Seeded))
        .collect()
}

/// The state in which the disk has written the last object before all earlier ones. A missing
/// barrier would show here most.
fn only_the_last(machine: &FaultStorage, last: &ObjectName) -> FaultStorage {
    let after = machine.crash(CrashPolicy::KeepAll);
    for object in machine.list("").unwrap() {
        if object.name != *last && !machine.is_durable(&object.name) {
            after.lose(&object.name);
        }
    }
    after
}

/// Another draw at every moment.
fn policy_at(policy: CrashPolicy, moment: u64) -> CrashPolicy {
    match policy {
        CrashPolicy::Seeded(seed) => CrashPolicy::Seeded(seed * 100_000 + moment),
        other => other,
    }
}

/// Only one of several images with the same digest needs a check.
fn digest(machine: &FaultStorage, told: &Told) -> u64 {
    let mut hasher = DefaultHasher::new();
    (told.store_made, &told.backups, told.contents.len()).hash(&mut hasher);
    for object in machine.list("").unwrap() {
        object.name.as_str().hash(&mut hasher);
        machine.get(&object.name).unwrap().hash(&mut hasher);
    }
    for session in machine.list_folders("sessions").unwrap() {
        if let Some(id) = format::names::parse_session(&session) {
            let lock = format::names::session_lock(id);
            (machine.lock_state(&lock).unwrap() == env::LockState::Free).hash(&mut hasher);
        }
    }
    hasher.finish()
}

#[test]
fn a_crash_while_a_store_is_made() {
    let mut play = Play::new(11, 20 << 10);
    play.record(policies());
    play.init();
    play.verify_all();
}

#[test]
fn a_crash_in_the_first_backup() {
    let mut play = Play::new(12, 120 << 10);
    play.init();
    play.record(policies());
    play.back_up(&How::plain());
    play.verify_all();
}

#[test]
fn a_crash_in_the_second_backup() {
    let mut play = Play::new(13, 80 << 10);
    play.init();
    play.back_up(&How::plain());
    play.tree.change(1);
    play.record(policies());
    play.back_up(&How::plain());
    play.verify_all();
}

#[test]
fn a_crash_in_small_backups() {
    let mut play = Play::new(14, 20 << 10);
    play.init();
    play.record(policies());
    play.back_up(&How::small());
    play.tree.change(1);
    play.back_up(&How::small());
    play.verify_all();
}

/// Zeros that a source gives one by one: so many steps make the pipeline process what it has.
const ZEROS: usize = 4200;

/// Gives its bytes and the zeros, waits until there is a checkpoint, then fails like a broken pipe.
struct Breaking<'a> {
    bytes: &'a [u8],
    zeros: usize,
    process: &'a Process,
    /// The position for which it waits in a checkpoint; 0: any checkpoint.
    far: u64,
}

impl StreamSource for Breaking<'_> {
    fn next(&mut self, buffer: &mut [u8]) -> io::Result<StreamPiece> {
        if !self.bytes.is_empty() {
            let len = self.bytes.len().min(buffer.len());
            let (now, rest) = self.bytes.split_at(len);
            buffer[..len].copy_from_slice(now);
            self.bytes = rest;
            return Ok(StreamPiece::Data(len));
        }
        if self.zeros > 0 {
            self.zeros -= 1;
            return Ok(StreamPiece::Zeros(1));
        }
        wait_until("a checkpoint", || {
            let objects = self.process.names("sessions");
            objects.iter().any(|name| name.contains("checkpoint"))
                && (self.far == 0 || has_position(self.process, self.far))
        });
        Err(io::ErrorKind::BrokenPipe.into())
    }
}

/// A backup dies after a checkpoint. The next one adopts it, and stores again only the later bytes.
#[test]
fn a_crash_between_checkpoint_and_adoption() {
    let mut play = Play::new(15, 30 << 10);
    play.init();
    let (begin, end) = (noise(15, 250 << 10), noise(16, 60 << 10));
    let bytes = Arc::new([begin.clone(), vec![0; ZEROS], end].concat());
    let how = How::plain();
    play.record(policies());
    locked(&play.told)
        .contents
        .push(Content::Stream(Arc::clone(&bytes)));
    let mut source = Breaking {
        bytes: &begin,
        zeros: ZEROS,
        process: &play.process,
        far: 0,
    };
    let error = back_up_stream(play.store(), STREAM, &mut source, &how).unwrap_err();
    assert!(error.to_string().contains("reading /stream failed"), "{error}");
    let report = back_up_bytes(play.store(), STREAM, &bytes, &how).unwrap();
    assert_eq!(report.adopted.len(), 1);
    assert!(
        report.totals.bytes_new < bytes.len() as u64 - how.ingest.checkpoint_bytes,
        "{:?}",
        report.totals
    );
    locked(&play.told).backups.insert(report.id);
    play.verify_all();
}

/// A backup dies after a checkpoint that has its position. The next one continues there (B6).
#[test]
fn a_crash_while_a_stream_is_resumed() {
    let mut play = Play::new(18, 30 << 10);
    play.init();
    let (begin, end) = (noise(18, 250 << 10), noise(19, 60 << 10));
    let bytes = Arc::new([begin.clone(), vec![0; ZEROS], end].concat());
    let mut how = How::plain();
    how.ingest.is_resumable = true;
    how.ingest.checkpoint_bytes = 16 << 10;
    play.record(policies());
    locked(&play.told)
        .contents
        .push(Content::Stream(Arc::clone(&bytes)));
    let mut source = Breaking {
        bytes: &begin,
        zeros: ZEROS,
        process: &play.process,
        far: 60 << 10,
    };
    back_up_stream(play.store(), STREAM, &mut source, &how).unwrap_err();
    let stream = StreamOptions::default().resumes(true);
    let mut source = ReaderSource(&bytes[..]);
    let report = play
        .store()
        .backup_stream(
            &how.options(),
            Path::new(STREAM),
            &stream,
            &mut source,
            &Monitor::default(),
        )
        .unwrap();
    assert!(
        report.resumed_at.is_some_and(|at| at >= 60 << 10),
        "{:?}",
        report.resumed_at
    );
    locked(&play.told).backups.insert(report.id);
    play.verify_all();
}

#[test]
fn a_crash_while_the_index_is_rebuilt() {
    let mut play = Play::new(16, 40 << 10);
    play.init();
    for step in 1..4 {
        play.back_up(&How::plain());
        play.tree.change(step);
    }
    play.record(policies());
    play.store().rebuild_index(&Monitor::default()).unwrap();
    play.verify_all();
}

/// With more runs than are wanted, a backup merges them first.
#[test]
fn a_crash_while_the_index_is_merged() {
    let mut play = Play::new(17, 10 << 10);
    play.init();
    for step in 0..9 {
        std::fs::write(play.tree.root().join("a/counter"), noise(step, 2000)).unwrap();
        play.back_up(&How::small());
    }
    std::fs::write(play.tree.root().join("a/counter"), noise(99, 2000)).unwrap();
    play.record(policies());
    play.back_up(&How::small());
    assert!(play.process.names("index").len() < 9, "the index was merged");
    play.verify_all();
}

/// The process is killed before or after each operation. Its threads end, and another process
/// continues.
#[test]
fn a_kill_at_every_operation() {
    for how in [How::plain(), How::small()] {
        let mut play = Play::new(18, 60 << 10);
        play.init();
        play.back_up(&how);
        play.tree.change(1);
        let picture = Arc::new(play.tree.picture());
        locked(&play.told).contents.push(Content::Tree(picture));
        let before = locked(&play.told).clone();
        let counted = if is_long() {
            Counted::All
        } else {
            Counted::Mutating
        };
        let mut moments = 0;
        for n in 1.. {
            let mut reached = false;
            for fault in [Fault::kill(n), Fault::kill_after(n)] {
                let machine = play.process.storage.crash(CrashPolicy::KeepAll);
                let dying = Process::on(machine.handle(), play.process.clock.clone(), 1000 + n);
                let store = dying.open();
                dying.storage.inject_here(fault.counting(counted));
                let made = back_up(&store, &play.tree, &how);
                if !dying.storage.is_gone() {
                    assert!(made.is_ok());
                    continue;
                }
                reached = true;
                let mut told = before.clone();
                told.backups.extend(made.iter().map(|report| report.id));
                let when = format!("{fault:?}");
                play.verify(&Image { machine, told, when });
            }
            if !reached {
                break;
            }
            moments += 1;
        }
        assert!(moments >= 12, "{moments}");
    }
}

/// A store that lives through many crashes, each with other random choices, on a larger tree, with
/// all threads of a backup.
#[test]
fn a_store_that_crashes_again_and_again() {
    let (seeds, rounds, tree_bytes) = if is_long() {
        (100, 24, 2 << 20)
    } else {
        (3, 10, 600 << 10)
    };
    for seed in 0..seeds {
        live_through_crashes(seed, rounds, tree_bytes);
    }
}

fn live_through_crashes(seed: u64, rounds: u64, tree_bytes: usize) {
    let dice = SeededEntropy::new(seed);
    let roll = |below: u64| {
        let mut bytes = [0; 8];
        dice.fill(&mut bytes);
        u64::from_le_bytes(bytes) % below
    };
    let mut play = Play::new(100 + seed, tree_bytes);
    play.init();
    let mut machine = play.process.storage.clone();
    for round in 0..rounds {
        let new = format!("b/of-round-{round}");
        std::fs::write(play.tree.root().join(new), noise(seed ^ (round << 8), 40_000)).unwrap();
        let when = format!("seed {seed}, round {round}");
        let process = Process::on(
            machine.handle(),
            play.process.clock.clone(),
            seed * 1000 + round + 5,
        );
        let store = process.open();
        let n = 1 + roll(70);
        let fault = match roll(4) {
            0 => Fault::tear(n),
            1 => Fault::stop_after(n),
            2 => Fault::kill(n),
            _ => Fault::stop(n),
        };
        process.storage.inject_here(fault);
        let mut how = if roll(3) == 0 { How::small() } else { How::plain() };
        how.force = roll(4) == 0;
        (how.ingest.workers, how.ingest.writers) = (2, 2);
        let picture = Arc::new(play.tree.picture());
        let made = back_up(&store, &play.tree, &how);
        if roll(5) == 0 {
            drop(store.rebuild_index(&Monitor::default()));
        }
        machine.clear_faults();
        if process.storage.is_gone() {
            machine = process.storage.crash(CrashPolicy::Seeded(seed * 1000 + round));
        }
        let now = Process::on(
            machine.handle(),
            play.process.clock.clone(),
            seed * 1000 + round + 500,
        );
        let store = now.open();
        // Not acknowledged, and stored anyway: it is whole too.
        let list = store.snapshots().unwrap();
        let told = locked(&play.told).clone();
        let newest = list.snapshots.last().map(|snapshot| snapshot.id);
        let fresh = newest.filter(|id| told.backups.iter().all(|known| known < id));
        assert!(
            made.is_err() || fresh == made.as_ref().ok().map(|report| report.id),
            "{when}"
        );
        if let Some(id) = fresh {
            let mut told = locked(&play.told);
            told.contents.push(Content::Tree(picture));
            told.backups.insert(id);
        }
        let told = locked(&play.told).clone();
        assert_eq!(
            list.snapshots.len(),
            told.backups.len(),
            "{when}: {:?}",
            list.damaged
        );
        play.assert_backups(&store, &told, &when);
    }
    let image = Image {
        machine,
        told: locked(&play.told).clone(),
        when: format!("seed {seed}, at the end"),
    };
    play.verify(&image);
}
