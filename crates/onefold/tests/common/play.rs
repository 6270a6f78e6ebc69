//! A scenario that is crashed at every storage operation, and what must hold after each cut.
//!
//! One recorded run gives all cuts, with what was not under a barrier kept, dropped or torn.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use env::fault::{CrashPolicy, FaultStorage};
use env::{LockState, Storage};
use format::names;
use onefold::{Finding, Monitor, PruneOptions, PruneReport, PruneUnused, ReadData, SessionId, Store};
use types::{ObjectName, Revision};

use super::pruning::{
    self, Stage, assert_nothing_unexplained, assert_stages, forget, impatient, leaving, prune, try_prune,
};
use super::reclaimer::Reclaimer;
use super::{
    Asked, How, Parts, Process, assert_restores_bytes, back_up_bytes, back_up_stream, is_long, noise,
    snapshot, wait_until,
};

/// A backup's name and bytes.
pub type Content = (&'static str, Arc<Vec<u8>>);

/// The acknowledgements up to some moment.
#[derive(Debug, Clone, Default)]
pub struct Told {
    pub kept: BTreeMap<SessionId, Content>,
    /// Backups that were to be forgotten, without an acknowledgement: they may exist or not.
    pub in_doubt: BTreeMap<SessionId, Content>,
}

/// A machine after a crash.
pub struct Image {
    pub machine: FaultStorage,
    pub told: Told,
    pub when: String,
}

/// A store with work to do.
pub struct Play {
    pub process: Process,
    pub told: Arc<Mutex<Told>>,
    pub images: Arc<Mutex<Vec<Image>>>,
    pub parts: Vec<Vec<u8>>,
}

pub const PART: usize = 24 << 10;

impl Play {
    pub fn new(seed: u64) -> Self {
        let process = Process::new(seed).striding();
        process.init();
        Self {
            process,
            told: Arc::default(),
            images: Arc::default(),
            parts: (0..10).map(|n| noise(seed * 100 + n, PART)).collect(),
        }
    }

    pub fn told(&self) -> MutexGuard<'_, Told> {
        self.told.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn bytes(&self, parts: &[usize]) -> Vec<u8> {
        parts.iter().flat_map(|n| self.parts[*n].clone()).collect()
    }

    pub fn back_up(&self, name: &'static str, parts: &[usize], how: &How) -> SessionId {
        let bytes = self.bytes(parts);
        let made = back_up_bytes(&self.process.open(), name, &bytes, how).unwrap();
        self.told().kept.insert(made.id, (name, Arc::new(bytes)));
        made.id
    }

    /// A backup that fails after a checkpoint, and whose process has ended.
    pub fn break_off(&self, name: &'static str, parts: &[usize]) {
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

    /// Two series that share content, a dead session, large and small backups.
    pub fn fill(&self) -> Vec<SessionId> {
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

    pub fn forget_from(&self, store: &Store, id: SessionId) {
        let content = self.told().kept.remove(&id).unwrap();
        self.told().in_doubt.insert(id, content);
        forget(store, id);
        self.told().in_doubt.remove(&id);
    }

    pub fn forget(&self, ids: &[SessionId]) {
        let store = self.process.open();
        ids.iter().for_each(|id| self.forget_from(&store, *id));
    }

    pub fn prune(&self, options: &PruneOptions) -> PruneReport {
        prune(&self.process.open(), options, "in the scenario")
    }

    /// A prune in which these stages occur.
    pub fn prune_by(&self, stages: &[Stage], options: &PruneOptions) {
        assert_stages(&self.prune(options), stages, "in the scenario");
    }

    /// A prune that leaves dead slots in place.
    pub fn prune_leaving(&self) {
        let report = self.prune(&leaving(PruneUnused::Unlimited));
        assert!(
            report.bytes_left_dead > 0,
            "nothing was left in place: {report:?}"
        );
    }

    /// From now on every moment is recorded. In a long run: one in so many, and those right after a
    /// manifest was put.
    pub fn record(&self, policies: Vec<CrashPolicy>, every: u64) {
        let (machine, told) = (self.process.storage.clone(), Arc::clone(&self.told));
        let images = Arc::clone(&self.images);
        let (mut count, mut seen, mut last_put, mut is_put) = (0u64, BTreeSet::new(), None, false);
        self.process.watched.set_before(move |asked, name| {
            count += 1;
            let last = last_put.clone();
            let was_put = std::mem::replace(&mut is_put, asked == Asked::Put);
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
            // Everything that a manifest names must be durable before it, whichever moments are
            // skipped.
            let is_manifest = |name: &ObjectName| was_put && name.as_str().starts_with(names::BACKUPS_FOLDER);
            let last = last
                .as_ref()
                .filter(|name| count.is_multiple_of(every) || is_manifest(name));
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

    /// Checks that moments before a trim were recorded.
    pub fn assert_trims(&self) {
        let images = self.images.lock().unwrap();
        assert!(
            images.iter().any(|image| image.when.contains("Trim")),
            "nothing was trimmed"
        );
    }

    pub fn verify_all(&self) {
        // An operation without effect: the last moment.
        self.process.env.storage.barrier().unwrap();
        self.process.watched.clear_before();
        let images = std::mem::take(&mut *self.images.lock().unwrap());
        assert!(images.len() >= 20, "{} images", images.len());
        for image in &images {
            self.verify(image);
        }
    }

    pub fn verify(&self, image: &Image) {
        let when = &image.when;
        let process = Process::on(image.machine.handle(), self.process.clock.clone(), 0xc0de).striding();
        let store = process
            .try_open()
            .unwrap_or_else(|error| panic!("{when}: {error}"));
        self.assert_restores(&store, &image.told, when);
        Reclaimer::new(process.clone()).assert_no_node_dangles(when);
        // A report may name objects that the cut tore. A dead session may leave work for the next
        // prune.
        self.prune_as_told(&store, &image.told, when);
        self.assert_kept(&store, &image.told, &format!("{when}, and a prune"));
        prune(&store, &everything(), when);
        // Another process has ended the dead session by now.
        Reclaimer::new(process.clone()).assert_no_node_dangles(when);
        assert_nothing_unexplained(&process, when);
        // A new process has none of this one's caches.
        let process = Process::on(image.machine.handle(), self.process.clock.clone(), 0xc0df).striding();
        let store = process.open();
        let again = prune(&store, &everything(), when);
        assert!(
            again.bytes_deleted == 0 && again.epochs == 0 && again.groups_marked == 0,
            "{when}: a third prune: {again:?}"
        );
        self.assert_kept(&store, &image.told, &format!("{when}, and three prunes"));
        // Pruned chunks are stored again, and kept ones are found. The index may lead to either.
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
        // These epochs waited for dead sessions, so no dead session has objects any more.
        let running = Reclaimer::new(process.clone()).table().running;
        assert!(running.is_empty(), "{when}, at the end: {running:?} run");
        assert_nothing_unexplained(&process, &format!("{when}, at the end"));
        self.assert_kept(
            &process.beside(0xc0e1).open(),
            &image.told,
            &format!("{when}, at the end"),
        );
    }

    pub fn assert_kept(&self, store: &Store, told: &Told, when: &str) {
        self.assert_restores(store, told, when);
        assert_sound_but_for_torn(store, told, when);
    }

    /// A manifest that the cut has torn may be a backup's. Then prune asks the user to forget it,
    /// and continues afterwards.
    pub fn prune_as_told(&self, store: &Store, told: &Told, when: &str) {
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

    pub fn assert_restores(&self, store: &Store, told: &Told, when: &str) {
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

/// Sound, except for manifests that a cut has torn: unacknowledged endings and tombstones.
pub fn assert_sound_but_for_torn(store: &Store, told: &Told, when: &str) {
    let report = store.check(ReadData::Share(1.0), &Monitor::default());
    let report = report.unwrap_or_else(|error| panic!("{when}: check: {error}"));
    let is_torn = |finding: &Finding| {
        let name = ObjectName::new(&finding.object).ok();
        let parsed = name.as_ref().and_then(names::parse_manifest);
        // A revision above the first that is not durable yet hides no lower one.
        parsed.is_some_and(|(_, id, revision)| revision != Revision::FIRST || !told.kept.contains_key(&id))
    };
    let others: Vec<_> = report
        .findings
        .iter()
        .filter(|finding| !is_torn(finding))
        .collect();
    assert!(others.is_empty(), "{when}: {others:#?}");
}

pub fn everything() -> PruneOptions {
    impatient(pruning::everything())
}

pub fn everything_at_once() -> PruneOptions {
    impatient(pruning::everything_at_once())
}

pub fn policies() -> Vec<CrashPolicy> {
    let seeds = if is_long() { 8 } else { 2 };
    let fixed = [CrashPolicy::KeepAll, CrashPolicy::DropAll, CrashPolicy::TearAll];
    fixed
        .into_iter()
        .chain((0..seeds).map(CrashPolicy::Seeded))
        .collect()
}

/// One in how many moments of a run is tried.
pub fn every(short: u64) -> u64 {
    if is_long() { 1 } else { short }
}

/// The state in which the disk has written the last object before all earlier ones.
pub fn only_the_last(machine: &FaultStorage, last: &ObjectName) -> FaultStorage {
    let after = machine.crash(CrashPolicy::KeepAll);
    for object in machine.list("").unwrap() {
        if object.name != *last && !machine.is_durable(&object.name) {
            after.lose(&object.name);
        }
    }
    after
}

/// Only one of several images with the same digest needs a check.
pub fn digest(machine: &FaultStorage, told: &Told) -> u64 {
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
