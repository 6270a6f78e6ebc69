//! Barriers: which files they sync, what they cost, and what happens after a failure.

use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::fs::MetadataExt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use proptest::prelude::*;

use super::*;

/// A call that was carried out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Synced {
    File(u64),
    Folder(u64),
    All,
}

/// Counts the calls of all handles, and makes them fail.
#[derive(Debug, Clone, Default)]
struct Recorder {
    /// Numbers all events.
    now: Arc<AtomicU64>,
    calls: Arc<Mutex<Vec<(u64, Synced)>>>,
    fail: Arc<Mutex<Option<Fail>>>,
    /// Simulates a system that cannot sync a whole file system.
    one_by_one: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fail {
    File,
    Folder,
    All,
}

impl Recorder {
    fn tick(&self) -> u64 {
        self.now.fetch_add(1, Ordering::SeqCst)
    }

    fn call(&self, kind: Fail, synced: Synced) -> io::Result<()> {
        if *self.fail.lock().unwrap() == Some(kind) {
            return Err(io::Error::from_raw_os_error(libc::EIO));
        }
        self.calls.lock().unwrap().push((self.tick(), synced));
        Ok(())
    }

    /// Files, folders and whole file systems synced since the last call.
    fn take(&self) -> (usize, usize, usize) {
        let calls = std::mem::take(&mut *self.calls.lock().unwrap());
        let count = |kind: fn(&Synced) -> bool| calls.iter().filter(|(_, synced)| kind(synced)).count();
        (
            count(|synced| matches!(synced, Synced::File(_))),
            count(|synced| matches!(synced, Synced::Folder(_))),
            count(|synced| matches!(synced, Synced::All)),
        )
    }

    fn handle(&self, folder: &TempDir) -> LocalStorage {
        open_with(folder.path(), self.clone(), &LocalOptions::default())
    }

    /// Whether a sync of this has begun after that moment.
    fn covers(&self, since: u64, wanted: Synced) -> bool {
        let calls = self.calls.lock().unwrap();
        calls
            .iter()
            .any(|(at, synced)| *at > since && (*synced == wanted || *synced == Synced::All))
    }
}

impl Calls for Recorder {
    fn sync_file(&self, file: &File) -> io::Result<()> {
        self.call(Fail::File, Synced::File(file.metadata()?.ino()))
    }

    fn sync_folder(&self, folder: &File) -> io::Result<()> {
        self.call(Fail::Folder, Synced::Folder(folder.metadata()?.ino()))
    }

    fn can_sync_all(&self) -> bool {
        !self.one_by_one
    }

    fn sync_all(&self, _: &File) -> io::Result<()> {
        if self.one_by_one {
            return Err(io::ErrorKind::Unsupported.into());
        }
        self.call(Fail::All, Synced::All)
    }
}

fn put_many(storage: &LocalStorage, folder: &str, count: usize) {
    for number in 0..count {
        storage
            .put(&name(&format!("{folder}/{number}")), &[b"1"])
            .unwrap();
    }
}

#[test]
fn the_cost_of_a_barrier_depends_on_new_objects_only() {
    let (folder, calls) = (tempfile::tempdir().unwrap(), Recorder::default());
    let storage = calls.handle(&folder);
    storage.barrier().unwrap();
    assert_eq!(calls.take(), (0, 0, 0), "nothing to do");
    storage.put(&name("a/b/1"), &[b"1"]).unwrap();
    storage.barrier().unwrap();
    assert_eq!(
        calls.take(),
        (1, 3, 0),
        "the file, and a/b, a and the root for the new folders"
    );
    storage.barrier().unwrap();
    assert_eq!(calls.take(), (0, 0, 0), "all is known to be durable");
    put_many(&storage, "a/b/c", 3);
    storage.put(&name("a/b/2"), &[b"1"]).unwrap();
    storage.barrier().unwrap();
    assert_eq!(
        calls.take(),
        (4, 2, 0),
        "the folders above were made durable before"
    );
    storage.delete(&name("a/b/2")).unwrap();
    storage.barrier().unwrap();
    assert_eq!(calls.take(), (0, 1, 0), "a delete is its folder's");
    storage.put(&name("a/b/3"), &[b"1"]).unwrap();
    storage.delete(&name("a/b/3")).unwrap();
    storage.barrier().unwrap();
    assert_eq!(calls.take(), (0, 1, 0), "what is gone again needs no sync");
}

#[test]
fn many_files_are_synced_with_the_whole_file_system() {
    let (folder, calls) = (tempfile::tempdir().unwrap(), Recorder::default());
    let storage = calls.handle(&folder);
    put_many(&storage, "a", 100);
    assert!(storage.tracker.open_files() <= 32, "descriptors are few");
    storage.barrier().unwrap();
    assert_eq!(calls.take(), (0, 0, 1));
    for number in 0..100 {
        storage.get(&name(&format!("a/{number}"))).unwrap();
    }
    storage.barrier().unwrap();
    assert_eq!(
        calls.take(),
        (0, 0, 0),
        "all of them are known to be durable, and so is their folder"
    );
    storage.put(&name("a/new"), &[b"1"]).unwrap();
    storage.barrier().unwrap();
    assert_eq!(calls.take(), (1, 1, 0));
}

#[test]
fn an_object_whose_file_was_closed_is_synced_with_the_whole_file_system() {
    for is_put_first in [true, false] {
        let (folder, calls) = (tempfile::tempdir().unwrap(), Recorder::default());
        let (ours, theirs) = (calls.handle(&folder), calls.handle(&folder));
        put_many(&theirs, "a", 100);
        let put = |object| ours.put(&name(object), &[b"1"]).unwrap();
        if is_put_first {
            put("p/1");
        }
        ours.list("a").unwrap();
        if !is_put_first {
            put("p/1");
        }
        assert_eq!(ours.tracker.open_files(), 0);
        for number in 0..100 {
            ours.delete(&name(&format!("a/{number}"))).unwrap();
        }
        ours.barrier().unwrap();
        assert_eq!(
            calls.take(),
            (0, 0, 1),
            "a file that is opened again may not tell that it could not be written"
        );
        put("p/2");
        ours.barrier().unwrap();
        assert_eq!(calls.take(), (1, 1, 0));
    }
}

#[test]
fn a_barrier_syncs_objects_of_others_after_they_were_read_or_listed() {
    let (folder, calls) = (tempfile::tempdir().unwrap(), Recorder::default());
    let (ours, theirs) = (calls.handle(&folder), calls.handle(&folder));
    for object in ["r/1", "h/1", "t/1", "l/1", "m/1", "lost/1"] {
        theirs.put(&name(object), &[b"1"]).unwrap();
    }
    ours.barrier().unwrap();
    assert_eq!(calls.take(), (0, 0, 0), "we have seen nothing");
    type Look = fn(&LocalStorage);
    let looks: [Look; 6] = [
        |s| drop(s.get(&name("r/1")).unwrap()),
        |s| drop(s.head(&name("h/1")).unwrap()),
        |s| drop(s.get_tail(&name("t/1"), 1).unwrap()),
        |s| drop(s.list("l").unwrap()),
        |s| drop(s.map(&name("m/1")).unwrap()),
        |s| assert!(s.put(&name("lost/1"), &[b"2"]).is_err()),
    ];
    for (index, look) in looks.into_iter().enumerate() {
        look(&ours);
        assert_eq!(calls.take(), (0, 0, 0), "looking costs nothing");
        ours.barrier().unwrap();
        assert_eq!(
            calls.take(),
            (1, 2, 0),
            "look {index}: the file, its folder and the root"
        );
        if index != 3 && index != 5 {
            look(&ours);
            ours.barrier().unwrap();
            assert_eq!(calls.take(), (0, 0, 0), "look {index} again: known to be durable");
        }
    }
}

#[test]
fn a_barrier_syncs_listed_objects_of_others_in_named_folders() {
    let (folder, calls) = (tempfile::tempdir().unwrap(), Recorder::default());
    let (ours, theirs) = (calls.handle(&folder), calls.handle(&folder));
    for object in ["a/n/1", "a/other/1"] {
        theirs.put(&name(object), &[b"1"]).unwrap();
    }
    calls.take();
    let named = ["n", "missing"].map(str::to_owned).into();
    assert_eq!(ours.list_in("a", &named).unwrap().len(), 1);
    ours.barrier().unwrap();
    assert_eq!(
        calls.take(),
        (1, 3, 0),
        "the file, its folder, the one above, which lacks the missing one, and the root"
    );
}

#[test]
fn a_barrier_makes_an_observed_absence_durable() {
    let (folder, calls) = (tempfile::tempdir().unwrap(), Recorder::default());
    let (ours, theirs) = (calls.handle(&folder), calls.handle(&folder));
    theirs.put(&name("a/1"), &[b"1"]).unwrap();
    theirs.put(&name("b/1"), &[b"1"]).unwrap();
    theirs.barrier().unwrap();
    theirs.delete(&name("a/1")).unwrap();
    theirs.delete(&name("b/1")).unwrap();
    calls.take();
    ours.get(&name("a/1")).unwrap_err();
    assert!(ours.list("b").unwrap().is_empty());
    ours.head(&name("no/such/folder/1")).unwrap_err();
    ours.barrier().unwrap();
    assert_eq!(calls.take(), (0, 3, 0), "a, b and the root");
}

#[test]
fn a_name_that_somebody_put_anew_is_synced_anew() {
    let (folder, calls) = (tempfile::tempdir().unwrap(), Recorder::default());
    let (ours, theirs) = (calls.handle(&folder), calls.handle(&folder));
    ours.put(&name("a"), &[b"1"]).unwrap();
    ours.barrier().unwrap();
    theirs.delete(&name("a")).unwrap();
    theirs.put(&name("a"), &[b"2"]).unwrap();
    calls.take();
    assert_eq!(ours.get(&name("a")).unwrap(), b"2");
    ours.barrier().unwrap();
    assert_eq!(calls.take(), (1, 1, 0));
}

#[test]
fn objects_deleted_by_others_do_not_fail_a_barrier() {
    let (folder, calls) = (tempfile::tempdir().unwrap(), Recorder::default());
    let (ours, theirs) = (calls.handle(&folder), calls.handle(&folder));
    theirs.put(&name("a/1"), &[b"1"]).unwrap();
    ours.get(&name("a/1")).unwrap();
    theirs.delete(&name("a/1")).unwrap();
    ours.barrier().unwrap();
    assert_eq!(calls.take(), (0, 2, 0));
}

#[test]
fn the_number_of_tracked_names_is_bounded() {
    let (folder, calls) = (tempfile::tempdir().unwrap(), Recorder::default());
    let options = LocalOptions {
        tracked_names_max: 40,
        sync_calls_max: 4,
        ..LocalOptions::default()
    };
    let storage = open_with(folder.path(), calls.clone(), &options);
    put_many(&storage, "a", 40);
    assert_eq!(storage.tracker.pending_names(), (40, false));
    put_many(&storage, "b", 10);
    assert_eq!(storage.tracker.pending_names(), (0, true));
    storage.delete(&name("b/1")).unwrap();
    storage.barrier().unwrap();
    assert_eq!(calls.take(), (0, 0, 1), "without names, everything");
    storage.barrier().unwrap();
    assert_eq!(calls.take(), (0, 0, 0));
    assert_eq!(storage.list("").unwrap().len(), 49);
    storage.barrier().unwrap();
    assert_eq!(
        calls.take(),
        (0, 0, 1),
        "what was not remembered is synced once more"
    );
    put_many(&storage, "c", 2);
    storage.barrier().unwrap();
    assert_eq!(calls.take(), (2, 2, 0));
}

#[test]
fn names_are_kept_where_a_file_system_cannot_be_synced() {
    let folder = tempfile::tempdir().unwrap();
    let calls = Recorder {
        one_by_one: true,
        ..Recorder::default()
    };
    let options = LocalOptions {
        tracked_names_max: 40,
        sync_calls_max: 4,
        ..LocalOptions::default()
    };
    let storage = open_with(folder.path(), calls.clone(), &options);
    for round in ["a", "b"] {
        put_many(&storage, round, 100);
        assert_eq!(storage.tracker.pending_names(), (100, false));
        storage.barrier().unwrap();
        assert_eq!(calls.take(), (100, 2, 0));
    }
    storage.barrier().unwrap();
    assert_eq!(calls.take(), (0, 0, 0));
}

#[test]
fn a_failed_sync_is_reported_and_never_taken_back() {
    for (fail, objects) in [(Fail::File, 1), (Fail::Folder, 1), (Fail::All, 100)] {
        let (folder, calls) = (tempfile::tempdir().unwrap(), Recorder::default());
        let storage = calls.handle(&folder);
        put_many(&storage, "a", objects);
        *calls.fail.lock().unwrap() = Some(fail);
        assert!(
            matches!(storage.barrier(), Err(StorageError::Io { .. })),
            "{fail:?}"
        );
        *calls.fail.lock().unwrap() = None;
        // The system may have dropped the bytes and count them as written, so its next answer is
        // worthless.
        let again = storage.barrier().unwrap_err();
        assert!(again.to_string().contains("earlier"), "{again}");
        assert_eq!(
            storage.tracker.pending_names().0,
            objects,
            "nothing is taken for durable"
        );
        let other = calls.handle(&folder);
        other.list("").unwrap();
        other.barrier().unwrap();
    }
}

/// Syncs of files signal that they have begun, and wait for a signal.
#[derive(Debug)]
struct Gate {
    begun: mpsc::Sender<()>,
    go: Mutex<mpsc::Receiver<io::Result<()>>>,
}

impl Calls for Gate {
    fn sync_file(&self, _: &File) -> io::Result<()> {
        self.begun.send(()).unwrap();
        let word = self.go.lock().unwrap().recv_timeout(Duration::from_secs(10));
        word.unwrap_or_else(|_| Err(io::Error::other("nobody has expected this sync")))
    }
}

fn gated(folder: &TempDir) -> (LocalStorage, mpsc::Receiver<()>, mpsc::Sender<io::Result<()>>) {
    let ((begun, has_begun), (go, gone)) = (mpsc::channel(), mpsc::channel());
    let storage = open_with(
        folder.path(),
        Gate {
            begun,
            go: Mutex::new(gone),
        },
        &LocalOptions::default(),
    );
    (storage, has_begun, go)
}

#[test]
fn a_barrier_waits_for_one_that_has_taken_up_its_work() {
    for failed in [false, true] {
        let folder = tempfile::tempdir().unwrap();
        let (storage, has_begun, go) = gated(&folder);
        storage.put(&name("a"), &[b"1"]).unwrap();
        let (ended, has_ended) = mpsc::channel();
        std::thread::scope(|scope| {
            let first = scope.spawn(|| storage.barrier().is_err());
            has_begun.recv().unwrap();
            let second = scope.spawn(|| {
                let outcome = storage.barrier().is_err();
                ended.send(()).unwrap();
                outcome
            });
            assert!(
                has_ended.recv_timeout(Duration::from_millis(100)).is_err(),
                "the second must wait"
            );
            go.send(if failed {
                Err(io::Error::from_raw_os_error(libc::EIO))
            } else {
                Ok(())
            })
            .unwrap();
            assert_eq!((first.join().unwrap(), second.join().unwrap()), (failed, failed));
        });
    }
}

#[test]
fn puts_during_a_barrier_are_left_to_the_next_one() {
    let folder = tempfile::tempdir().unwrap();
    let (storage, has_begun, go) = gated(&folder);
    storage.put(&name("a"), &[b"1"]).unwrap();
    std::thread::scope(|scope| {
        let first = scope.spawn(|| storage.barrier());
        has_begun.recv().unwrap();
        storage.put(&name("b"), &[b"1"]).unwrap();
        go.send(Ok(())).unwrap();
        first.join().unwrap().unwrap();
        assert_eq!(storage.tracker.pending_names().0, 1);
        go.send(Ok(())).unwrap();
        storage.barrier().unwrap();
        has_begun.recv().unwrap();
    });
}

/// The oracle: when each object and folder was made or removed, and what each handle has seen of
/// it.
struct World {
    _folder: TempDir,
    calls: Recorder,
    handles: [LocalStorage; 2],
    /// For each name, the last change of its entry: the time, and the file's inode if there is one.
    entries: BTreeMap<ObjectName, (u64, Option<u64>)>,
    /// The time when each folder was made.
    folders: BTreeMap<String, u64>,
    seen: [BTreeMap<ObjectName, (u64, Option<u64>)>; 2],
}

impl World {
    fn new(names_max: usize, calls_max: usize) -> Self {
        let (folder, calls) = (tempfile::tempdir().unwrap(), Recorder::default());
        calls.tick();
        let options = LocalOptions {
            tracked_names_max: names_max,
            sync_calls_max: calls_max,
            ..LocalOptions::default()
        };
        let handles = [(); 2].map(|()| open_with(folder.path(), calls.clone(), &options));
        let (entries, folders, seen) = Default::default();
        Self {
            _folder: folder,
            calls,
            handles,
            entries,
            folders,
            seen,
        }
    }

    fn inode(&self, path: &str) -> u64 {
        fs::metadata(self.handles[0].root().join(path)).unwrap().ino()
    }

    fn learn(&mut self, handle: usize, name: &ObjectName) {
        if let Some(entry) = self.entries.get(name) {
            self.seen[handle].insert(name.clone(), *entry);
        }
    }

    fn step(&mut self, what: u8, handle: usize, name: &ObjectName) {
        let storage = &self.handles[handle];
        match what {
            0 | 1 => {
                if storage.put(name, &[b"1"]).is_ok() {
                    let now = self.calls.tick();
                    let mut folder = tracker::parent(name.as_str());
                    while !folder.is_empty() {
                        self.folders.entry(folder.to_owned()).or_insert(now);
                        folder = tracker::parent(folder);
                    }
                    self.entries
                        .insert(name.clone(), (now, Some(self.inode(name.as_str()))));
                }
                self.learn(handle, name);
            }
            2 => {
                if storage.delete(name).is_ok() {
                    self.entries.insert(name.clone(), (self.calls.tick(), None));
                }
                self.learn(handle, name);
            }
            3 => {
                storage.get(name).ok();
                self.learn(handle, name);
            }
            4 => {
                storage.list("f").unwrap();
                let inside: Vec<ObjectName> = self
                    .entries
                    .keys()
                    .filter(|name| name.as_str().starts_with("f/"))
                    .cloned()
                    .collect();
                inside.iter().for_each(|name| self.learn(handle, name));
            }
            _ => {
                storage.barrier().unwrap();
                for (name, (since, inode)) in &self.seen[handle] {
                    if let Err(why) = self.check(name, *since, *inode) {
                        panic!("{name} was seen, and after a barrier {why} is not durable");
                    }
                }
            }
        }
    }

    /// A seen state is durable if the bytes are, the entry (or its absence) is, and the folders'
    /// entries are.
    fn check(&self, name: &ObjectName, since: u64, inode: Option<u64>) -> Result<(), String> {
        let now = self.entries[name];
        if let Some(inode) = inode
            && now == (since, Some(inode))
            && !self.calls.covers(since, Synced::File(inode))
        {
            return Err("its file".to_owned());
        }
        let mut folder = tracker::parent(name.as_str());
        let mut since = since;
        loop {
            if !self.calls.covers(since, Synced::Folder(self.inode(folder))) {
                return Err(format!("what is in folder {folder:?}"));
            }
            if folder.is_empty() {
                return Ok(());
            }
            since = self.folders[folder];
            folder = tracker::parent(folder);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: ProptestConfig::default().cases.div_ceil(4), ..ProptestConfig::default() })]

    #[test]
    fn barriers_cover_all_that_was_put_seen_or_missed(
        steps in prop::collection::vec((0..7_u8, 0..2_usize, 0..6_usize), 0..50),
        bounds in prop_oneof![Just((1 << 16, 32)), Just((1 << 16, 3)), Just((3, 2)), Just((3, 100))],
    ) {
        let names: Vec<ObjectName> = ["a", "f/b", "f/c", "f/g/d", "f/g/h/e", "i/j"].map(name).into();
        let mut world = World::new(bounds.0, bounds.1);
        for (what, handle, object) in steps {
            world.step(what, handle, &names[object]);
        }
    }
}

#[test]
fn the_oracle_notices_missing_syncs() {
    let mut world = World::new(1 << 16, 32);
    world.step(0, 0, &name("f/a"));
    let entry = world.entries[&name("f/a")];
    assert!(world.check(&name("f/a"), entry.0, entry.1).is_err());
    world.step(5, 1, &name("f/a"));
    assert!(
        world.check(&name("f/a"), entry.0, entry.1).is_err(),
        "another's barrier"
    );
    world.step(5, 0, &name("f/a"));
    assert!(world.check(&name("f/a"), entry.0, entry.1).is_ok());
    let synced: BTreeSet<String> = world
        .calls
        .calls
        .lock()
        .unwrap()
        .iter()
        .map(|call| format!("{call:?}"))
        .collect();
    assert!(!synced.is_empty());
}
