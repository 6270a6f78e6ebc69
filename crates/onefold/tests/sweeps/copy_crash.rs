//! A copy is killed, or its machine stops, at operations of the destination or of the source. The
//! destination is clean, has whole copies alone, and the next copy completes. The source keeps all
//! that it had.

use std::collections::BTreeMap;

use crate::common::{
    How, Picture, Process, Tree, assert_restores, assert_restores_bytes, assert_sound, back_up,
    back_up_bytes, is_long, noise, tiny,
};
use env::Storage;
use env::fault::{Counted, CrashPolicy, FailWith, Fault, FaultStorage};
use format::names;
use format::session::READ_SERIES;
use onefold::operations::copy;
use onefold::{CopyReport, CopyRequest, Credential, Error, Monitor, Snapshot, Store};

/// Kills happen at so many operations of a scenario, spread over it.
const MOMENTS: u64 = 24;

fn copy_all(from: &Store, to: &Store) -> Result<CopyReport, Error> {
    let request = CopyRequest::default().ingest(How::plain().ingest);
    copy(from, to, &request, &Monitor::default(), &mut |_| {})
}

/// A source with two backups of a tree and one of a stream, and a destination that has the first.
struct Scene {
    source: Process,
    destination: Process,
    tree: Tree,
    /// Of the tree at the first and at the second backup.
    pictures: [Picture; 2],
    bytes: Vec<u8>,
}

impl Scene {
    fn new(seed: u64, is_one_domain: bool) -> Self {
        let source = Process::new(seed);
        let from = source.init();
        let destination = Process::new(seed + 1);
        let domain_of = is_one_domain.then_some(&from);
        let to = Store::init(&destination.env, &Credential::None, &tiny(), domain_of).unwrap();
        let tree = Tree::plant(seed + 2, 120 << 10);
        let how = How::plain();
        back_up(&from, &tree, &how).unwrap();
        let before = tree.picture();
        copy_all(&from, &to).unwrap();
        tree.change(1);
        back_up(&from, &tree, &how).unwrap();
        let after = tree.picture();
        let bytes = noise(seed + 3, 100 << 10);
        back_up_bytes(&from, "/stream", &bytes, &how).unwrap();
        Self {
            source,
            destination,
            tree,
            pictures: [before, after],
            bytes,
        }
    }

    /// Each copy is whole.
    fn assert_copies(&self, store: &Store, when: &str) -> usize {
        let copies = store.snapshots().unwrap().snapshots;
        for copy in &copies {
            self.assert_copy(store, copy, when);
        }
        assert_sound(store, when);
        copies.len()
    }

    fn assert_copy(&self, store: &Store, copy: &Snapshot, when: &str) {
        let root = self.tree.root();
        let origin = copy.backup.origin.expect("it is a copy").backup.get();
        let when = format!("{when}: the copy of {origin}");
        match (copy.single_stream(), origin) {
            (Some(_), _) => assert_restores_bytes(store, copy, "/stream", &self.bytes, &when),
            (None, 1) => assert_restores(store, copy, &root, &self.pictures[0], &when),
            (None, _) => assert_restores(store, copy, &root, &self.pictures[1], &when),
        }
    }

    /// The next copy completes, and stores little again.
    fn assert_completes(&self, source: &Process, destination: &Process, when: &str) {
        let to = destination.open();
        let before = self.assert_copies(&to, when);
        let report = copy_all(&source.open(), &to).unwrap_or_else(|error| panic!("{when}: {error}"));
        assert!(report.failed.is_empty(), "{when}: {report:?}");
        assert_eq!(before + report.copied.len(), 3, "{when}");
        assert_eq!(self.assert_copies(&to, &format!("{when}, and the next copy")), 3);
    }
}

/// All objects but those by which readers show that they read, by name.
fn stored(storage: &FaultStorage) -> BTreeMap<String, Vec<u8>> {
    let of_readers = names::backups_folder(READ_SERIES);
    let is_kept = |name: &str| !name.starts_with("sessions/") && !name.starts_with(&of_readers);
    let objects = storage.list("").unwrap().into_iter();
    let objects = objects.filter(|object| is_kept(object.name.as_str()));
    objects
        .map(|object| (object.name.to_string(), storage.get(&object.name).unwrap()))
        .collect()
}

/// Moments spread over so many operations.
fn moments(operations: u64) -> impl Iterator<Item = u64> {
    let step = if is_long() {
        1
    } else {
        (operations / MOMENTS).max(1)
    };
    (1..=operations).step_by(usize::try_from(step).unwrap())
}

fn sweep(seed: u64, is_one_domain: bool) {
    let scene = Scene::new(seed, is_one_domain);
    let source_before = stored(&scene.source.storage);
    let machine = |n: u64| {
        let storage = scene.destination.storage.crash(CrashPolicy::KeepAll);
        Process::on(storage, scene.destination.clock.clone(), seed * 1000 + n)
    };
    // How many operations an undisturbed copy has.
    let whole = machine(0);
    let to = whole.open();
    let before = whole.storage.counters_here().mutating();
    let report = copy_all(&scene.source.open(), &to).unwrap();
    assert_eq!(report.copied.len(), 2);
    let operations = whole.storage.counters_here().mutating() - before;
    assert!(operations > 20, "{operations}");
    let mut struck = 0;
    for n in moments(operations) {
        let policies = [CrashPolicy::DropAll, CrashPolicy::TearAll, CrashPolicy::Seeded(n)];
        let policy = policies[usize::try_from(n).unwrap() % policies.len()];
        let faults = [
            (Fault::kill(n), None),
            (Fault::kill_after(n), None),
            (Fault::stop(n), Some(policy)),
        ];
        for (fault, crash) in faults {
            let when = format!("one domain: {is_one_domain}, {fault:?}, {crash:?}");
            let base = machine(n);
            let dying = base.beside(seed * 2000 + n);
            let to = dying.open();
            dying.storage.inject_here(fault);
            let ended = copy_all(&scene.source.open(), &to);
            if !dying.storage.is_gone() {
                assert!(ended.is_ok(), "{when}: {ended:?}");
                continue;
            }
            struck += 1;
            drop(to);
            let storage = match crash {
                Some(policy) => base.storage.crash(policy),
                None => base.storage.handle(),
            };
            let next = Process::on(storage, base.clock.clone(), seed * 3000 + n);
            scene.assert_completes(&scene.source, &next, &when);
        }
    }
    assert!(struck >= 30, "{struck}");
    assert!(
        stored(&scene.source.storage) == source_before,
        "the source is as it was"
    );
}

#[test]
fn a_copy_within_a_domain_is_killed() {
    sweep(5100, true);
}

#[test]
fn a_copy_across_domains_is_killed() {
    sweep(5200, false);
}

/// The source fails at an operation, once or from then on: an error, or a backup that was not
/// copied.
#[test]
fn the_source_fails() {
    for is_one_domain in [true, false] {
        let scene = Scene::new(5300 + u64::from(is_one_domain) * 10, is_one_domain);
        let whole = scene.source.storage.crash(CrashPolicy::KeepAll);
        let source = Process::on(whole, scene.source.clock.clone(), 1);
        let counted = |process: &Process| process.storage.counters_here().all();
        let fresh = || scene.destination.storage.crash(CrashPolicy::KeepAll);
        let on = |storage, seed| Process::on(storage, scene.destination.clock.clone(), seed);
        let from = source.open();
        let before = counted(&source);
        copy_all(&from, &on(fresh(), 2).open()).unwrap();
        let operations = counted(&source) - before;
        let mut struck = 0;
        for n in moments(operations) {
            for fault in [Fault::fail(n, FailWith::Io), Fault::fail_from(n, FailWith::Io)] {
                let fault = fault.counting(Counted::All);
                let when = format!("one domain: {is_one_domain}, {fault:?} in the source");
                let failing = source.beside(100 + n);
                let from = failing.open();
                let destination = on(fresh(), 3000 + n);
                failing.storage.inject_here(fault);
                let ended = copy_all(&from, &destination.open());
                let is_whole = ended.as_ref().is_ok_and(|report| report.failed.is_empty());
                struck += u32::from(!is_whole);
                failing.storage.clear_faults();
                drop(from);
                scene.assert_completes(&source, &destination, &when);
            }
        }
        assert!(struck > 10, "{struck}");
    }
}

/// What was stored before the kill is not stored again. How much that is at an operation depends
/// on how the stages take turns, so the copy dies at several.
#[test]
fn the_next_copy_takes_over_what_was_stored() {
    for is_one_domain in [true, false] {
        let source = Process::new(5400);
        let from = source.init();
        let bytes = noise(5401, 1 << 20);
        back_up_bytes(&from, "/stream", &bytes, &How::plain()).unwrap();
        let mut least_new = bytes.len() as u64;
        for operation in (30..90).step_by(10) {
            let destination = Process::new(5402);
            let domain_of = is_one_domain.then_some(&from);
            Store::init(&destination.env, &Credential::None, &tiny(), domain_of).unwrap();
            let dying = destination.beside(5403);
            let to = dying.open();
            dying.storage.inject_here(Fault::kill(operation));
            if copy_all(&from, &to).is_ok() {
                break;
            }
            drop(to);
            let to = destination.beside(5404).open();
            let report = copy_all(&from, &to).unwrap();
            let made = &report.copied[0].made;
            if !made.adopted.is_empty() {
                least_new = least_new.min(made.totals.bytes_new);
            }
            let copy = to.snapshots().unwrap().snapshots.pop().unwrap();
            assert_restores_bytes(&to, &copy, "/stream", &bytes, "taken over");
            assert_sound(&to, "taken over");
        }
        assert!(
            least_new < 700 << 10,
            "one domain: {is_one_domain}, {least_new} bytes"
        );
    }
}
