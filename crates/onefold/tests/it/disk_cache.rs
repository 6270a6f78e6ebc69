//! A cache on disk: what it saves, and that nothing that was removed behind it is referred to.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use crate::common::pruning::{everything_at_once, forget, prune};
use crate::common::storage::Asked;
use crate::common::{
    How, Process, Request, Tree, assert_restores, assert_restores_bytes, assert_sound, back_up,
    back_up_bytes, noise, picture_of, snapshot, tiny,
};
use env::{Entropy, SeededEntropy};
use onefold::{CacheOptions, Credential, OpenOptions, SessionId, Snapshot, Store};
use types::ObjectName;

fn open_with(process: &Process, folder: &Path) -> Store {
    let options = OpenOptions::default().cache(Some(CacheOptions::new(folder)));
    Store::open(&process.env, &Credential::None, &options).unwrap()
}

/// Reads of objects, but for configs, content of files, and traces of sessions: these are read in
/// any case.
fn reads(requests: &[Request]) -> Vec<Request> {
    let is_read = |request: &Request| match request.asked {
        Asked::Whole | Asked::Tail => !request.is_in("config") && !request.is_in("sessions"),
        Asked::Range(_) => !request.is_in("data"),
        _ => false,
    };
    requests
        .iter()
        .filter(|request| is_read(request))
        .cloned()
        .collect()
}

fn files_below(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else {
                files.push(path);
            }
        }
    }
    files
}

/// As [`crate::caches`] has it for caches in memory, and for a process that begins anew.
#[test]
fn nothing_is_referred_to_that_only_a_kept_catalog_has() {
    let folder = tempfile::tempdir().unwrap();
    let machine = Process::new(191);
    machine.init();
    let bytes = noise(191, 200_000);
    let (front, _) = bytes.split_at(bytes.len() / 2);
    let store = open_with(&machine, folder.path());
    let first = back_up_bytes(&store, "/whole", &bytes, &How::plain()).unwrap().id;
    let kept = back_up_bytes(&store, "/front", front, &How::plain()).unwrap().id;
    assert_restores_bytes(&store, &snapshot(&store, first), "/whole", &bytes, "before");
    drop(store);
    assert!(!files_below(folder.path()).is_empty());

    let other = machine.beside(192).open();
    forget(&other, first);
    prune(&other, &everything_at_once(), "half of it goes");
    for n in 0..4 {
        let more = back_up_bytes(&other, "/more", &noise(193 + n, 60_000), &How::plain()).unwrap();
        forget(&other, more.id);
        prune(&other, &everything_at_once(), "more goes");
    }
    assert_eq!(machine.names("removed").len(), 1, "the list that said it is gone");

    // A reader first: it takes what is kept into memory, if it may.
    let store = open_with(&machine.beside(198), folder.path());
    assert_restores_bytes(&store, &snapshot(&store, kept), "/front", front, "by the cache");
    let again = back_up_bytes(&store, "/whole", &bytes, &How::plain()).unwrap().id;
    let fresh = machine.open();
    for store in [&fresh, &store] {
        assert_restores_bytes(store, &snapshot(store, again), "/whole", &bytes, "again");
        assert_restores_bytes(store, &snapshot(store, kept), "/front", front, "kept");
    }
    assert_sound(&fresh, "after both");
}

/// One of the two hosts, a step of it, and its draws.
struct Beside<'a> {
    machine: &'a Process,
    store: &'a Store,
    parts: &'a [Vec<u8>],
    roll: &'a dyn Fn(u64) -> usize,
}

impl Beside<'_> {
    /// Forgets a backup, prunes without a cache, or makes a backup of some parts. Returns whether
    /// it pruned.
    fn step(&self, step: u64, live: &mut BTreeMap<SessionId, (String, Vec<u8>)>) -> bool {
        let roll = self.roll;
        match roll(5) {
            0 if live.len() > 2 => {
                let doomed = *live.keys().nth(roll(live.len() as u64)).unwrap();
                forget(self.store, doomed);
                live.remove(&doomed);
            }
            1 | 2 => {
                let pruner = self.machine.beside(400 + step).open();
                prune(&pruner, &everything_at_once(), "behind the caches");
                return true;
            }
            _ => {
                let name = format!("/stream{}", roll(3));
                let chosen = (0..=roll(5)).map(|_| self.parts[roll(12)].as_slice());
                let bytes = chosen.collect::<Vec<_>>().concat();
                let made = back_up_bytes(self.store, &name, &bytes, &How::plain()).unwrap();
                live.insert(made.id, (name, bytes));
            }
        }
        false
    }
}

/// Two hosts back up with caches, each beside what the other and a prune without a cache have done.
#[test]
fn hosts_with_caches_and_a_prune_lose_nothing() {
    for seed in 0..6 {
        let dice = SeededEntropy::new(seed);
        let roll = |below: u64| {
            let mut number = [0; 8];
            dice.fill(&mut number);
            usize::try_from(u64::from_le_bytes(number) % below.max(1)).unwrap()
        };
        let folders = [(); 2].map(|()| tempfile::tempdir().unwrap());
        let machine = Process::new(210);
        machine.init();
        let parts: Vec<Vec<u8>> = (0..12).map(|n| noise(300 + n, 30_000)).collect();
        let (mut live, mut pruned) = (BTreeMap::new(), 0);
        // Stores that stay open among those that are opened anew.
        let lasting = [&folders[0], &folders[1]];
        let lasting = lasting.map(|folder| open_with(&machine.beside(220), folder.path()));
        for step in 0..40 {
            let host = roll(2);
            let anew = || open_with(&machine.beside(230 + step), folders[host].path());
            let anew = (roll(2) == 0).then(anew);
            let beside = Beside {
                machine: &machine,
                store: anew.as_ref().unwrap_or(&lasting[host]),
                parts: &parts,
                roll: &roll,
            };
            pruned += u32::from(beside.step(step, &mut live));
            if let Some((id, (name, bytes))) = live.iter().nth(roll(live.len() as u64)) {
                let when = format!("seed {seed}, step {step}");
                assert_restores_bytes(beside.store, &snapshot(beside.store, *id), name, bytes, &when);
            }
        }
        assert!(pruned > 5 && live.len() > 2);
        let fresh = machine.beside(500).open();
        for (id, (name, bytes)) in &live {
            assert_restores_bytes(&fresh, &snapshot(&fresh, *id), name, bytes, "at the end");
        }
        assert_sound(&fresh, "at the end");
    }
}

/// Reads without a cache, and with one that an earlier process of the same machine has filled.
#[test]
fn what_is_kept_is_not_read_again() {
    let folder = tempfile::tempdir().unwrap();
    let machine = Process::new(241);
    let init = tiny().container_bytes(256 << 10).region_bytes(32 << 10);
    machine.try_init(&init).unwrap();
    let tree = Tree::plant(241, 3 << 20);
    let picture = picture_of(&tree.root());
    for seed in [242, 243, 244] {
        let store = open_with(&machine.beside(seed), folder.path());
        back_up(&store, &tree, &How::plain()).unwrap();
    }
    type Work<'a> = &'a dyn Fn(&Store);
    let newest = |store: &Store| -> Snapshot { store.snapshots().unwrap().snapshots.pop().unwrap() };
    let works: [(&str, Work<'_>, usize); 3] = [
        (
            "snapshots",
            &|store| assert_eq!(newest(store).backup.streams.len(), 3),
            3,
        ),
        (
            "restore",
            &|store| assert_restores(store, &newest(store), &tree.root(), &picture, "restored"),
            12,
        ),
        (
            "backup",
            &|store| drop(back_up(store, &tree, &How::plain()).unwrap()),
            10,
        ),
    ];
    for (n, (what, work, least_without)) in (0..).zip(works) {
        let counted = |process: &Process, store: &Store| {
            process.watched.take_requests();
            work(store);
            reads(&process.watched.take_requests())
        };
        let process = machine.beside(250 + n);
        let without = counted(&process, &process.open());
        // What was put without a cache is read once.
        work(&open_with(&machine.beside(270 + n), folder.path()));
        let process = machine.beside(260 + n);
        let with = counted(&process, &open_with(&process, folder.path()));
        assert!(without.len() >= least_without, "{what}: {}", without.len());
        assert!(
            with.is_empty(),
            "{what}: {with:?} where without {}",
            without.len()
        );
    }
}

/// What the store has lost is found although the cache has it.
#[test]
fn a_check_passes_the_cache() {
    let folder = tempfile::tempdir().unwrap();
    let machine = Process::new(271);
    machine.init();
    let store = open_with(&machine, folder.path());
    let bytes = noise(271, 200_000);
    let id = back_up_bytes(&store, "/stream", &bytes, &How::plain())
        .unwrap()
        .id;
    assert_sound(&store, "before");
    assert_restores_bytes(&store, &snapshot(&store, id), "/stream", &bytes, "before");
    for name in [machine.names("recipe"), machine.names("mirror")].concat() {
        let name = types::ObjectName::new(name).unwrap();
        assert!(machine.storage.damage(&name, |bytes| bytes[200] ^= 1));
    }
    for store in [store, open_with(&machine.beside(272), folder.path())] {
        let report = store
            .check(onefold::ReadData::Share(0.0), &onefold::Monitor::default())
            .unwrap();
        assert!(!report.is_sound());
    }
}

/// Entries that do not open at a place where they were good before: another object had the name.
#[test]
fn entries_of_another_object_are_dropped_and_read_again() {
    let folder = tempfile::tempdir().unwrap();
    let machine = Process::new(281);
    machine.init();
    let bytes = noise(281, 200_000);
    let id = back_up_bytes(
        &open_with(&machine, folder.path()),
        "/stream",
        &bytes,
        &How::plain(),
    )
    .unwrap()
    .id;
    let restore = |seed| {
        let process = machine.beside(seed);
        let store = open_with(&process, folder.path());
        assert_restores_bytes(&store, &snapshot(&store, id), "/stream", &bytes, "restored");
    };
    restore(282);
    // Entries with good digests, of bytes that somebody changed.
    let other = tempfile::tempdir().unwrap();
    let twin = Process::new(285);
    twin.init();
    back_up_bytes(
        &open_with(&twin, other.path()),
        "/stream",
        &noise(5, 200_000),
        &How::plain(),
    )
    .unwrap();
    let theirs = files_below(other.path());
    let mut swapped = 0;
    for ours in files_below(folder.path()) {
        if let Some(same) = theirs.iter().find(|it| it.file_name() == ours.file_name()) {
            fs::copy(same, &ours).unwrap();
            swapped += 1;
        }
    }
    assert!(swapped > 3, "{swapped}");
    restore(283);
    assert_sound(&open_with(&machine.beside(284), folder.path()), "the store");
}

/// A run that cannot be read is bad wherever it comes from: it is got from the storage once more, a
/// warning names it, and backups go on.
#[test]
fn a_bad_run_of_the_index_ends_no_backup() {
    let folder = tempfile::tempdir().unwrap();
    let machine = Process::new(251);
    machine.init();
    let bytes = noise(251, 100_000);
    back_up_bytes(&open_with(&machine, folder.path()), "/one", &bytes, &How::plain()).unwrap();
    let runs = machine.names("index");
    let run = ObjectName::new(runs[0].clone()).unwrap();
    // Of a later version, as another program may write it.
    assert!(machine.storage.damage(&run, |bytes| bytes[8] ^= 4));
    fs::remove_dir_all(folder.path()).unwrap();
    let other = machine.beside(252);
    let store = open_with(&other, folder.path());
    other.watched.take_requests();
    let made = back_up_bytes(&store, "/two", &bytes, &How::plain()).unwrap();
    let warned: Vec<_> = made.warnings.iter().map(onefold::Warning::kind).collect();
    assert!(warned.contains(&"index_run_damaged"), "{warned:?}");
    let whole = |request: &&Request| request.asked == Asked::Whole && request.name == run.as_str();
    let read = other.watched.take_requests().iter().filter(whole).count();
    assert!((1..=4).contains(&read), "read {read} times");
    assert_restores_bytes(&store, &snapshot(&store, made.id), "/two", &bytes, "beside it");
}
