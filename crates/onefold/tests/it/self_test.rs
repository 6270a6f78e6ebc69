//! The self-test: it passes over sound storages, and names each broken promise of a place.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use env::{
    LocalStorage, LockState, MemoryStorage, ObjectMeta, ProcessLock, Storage, StorageError, SystemClock,
    SystemEntropy,
};
use onefold::self_test::{
    Checked, Scratch, SelfTest, SelfTestReport, SelfTestStep, TestedPlace, Verdict, self_test,
};
use onefold::{Error, ErrorKind, Monitor};
use types::{ByteRange, ObjectName};

/// A promise that a storage breaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Breaks {
    Nothing,
    /// A put of a taken name succeeds, and changes nothing.
    ConditionQuietly,
    /// It replaces the object.
    Condition,
    /// The last object that was put is not listed.
    NewInLists,
    /// The last object that was deleted is listed.
    OldInLists,
    /// The last object that was put is not read by others.
    FreshReads,
    /// A range ends early.
    RangeEnds,
    /// A range past the end gives what there is.
    PastEnd,
    /// A bit of large objects is flipped on the way in.
    Bits,
    /// The same, of containers alone.
    ContainerBits,
    /// Nothing is deleted, although it is said.
    Deletes,
    /// Deletes are refused.
    DeleteRights,
    /// A lock is given to everybody.
    Locks,
    /// A barrier fails.
    Barrier,
}

/// What the handles of a place share.
#[derive(Debug)]
struct Shared {
    inner: MemoryStorage,
    breaks: Breaks,
    last_put: Mutex<Option<(u64, ObjectName)>>,
    last_deleted: Mutex<Option<ObjectMeta>>,
    handles: AtomicU64,
}

/// A handle.
#[derive(Debug)]
struct Twin {
    shared: Arc<Shared>,
    number: u64,
}

#[derive(Debug)]
struct NoLock;

impl ProcessLock for NoLock {}

impl Shared {
    fn breaks(&self, what: Breaks) -> bool {
        self.breaks == what
    }
}

impl Twin {
    fn new(shared: &Arc<Shared>) -> Self {
        Self {
            number: shared.handles.fetch_add(1, Ordering::Relaxed),
            shared: Arc::clone(shared),
        }
    }

    /// Whether this handle does not see the object yet.
    fn is_stale(&self, name: &ObjectName) -> bool {
        let last = self.shared.last_put.lock().unwrap();
        self.shared.breaks(Breaks::FreshReads)
            && last
                .as_ref()
                .is_some_and(|(by, last)| *by != self.number && last == name)
    }
}

fn missing(name: &ObjectName) -> StorageError {
    StorageError::NotFound { name: name.clone() }
}

impl Storage for Twin {
    fn put(&self, name: &ObjectName, parts: &[&[u8]]) -> Result<(), StorageError> {
        let shared = &self.shared;
        let mut bytes = parts.concat();
        let is_flipped = shared.breaks(Breaks::Bits) && bytes.len() >= 100_000
            || shared.breaks(Breaks::ContainerBits) && name.as_str().starts_with("data/");
        if is_flipped {
            let middle = bytes.len() / 2;
            bytes[middle] ^= 1;
        }
        if shared.breaks(Breaks::Condition) {
            drop(shared.inner.delete(name));
        }
        let put = shared.inner.put(name, &[&bytes]);
        *shared.last_put.lock().unwrap() = Some((self.number, name.clone()));
        match put {
            Err(StorageError::AlreadyExists { .. }) if shared.breaks(Breaks::ConditionQuietly) => Ok(()),
            put => put,
        }
    }

    fn barrier(&self) -> Result<(), StorageError> {
        if self.shared.breaks(Breaks::Barrier) {
            return Err(StorageError::Io {
                action: "sync",
                name: "the disk".to_owned(),
                source: std::io::Error::other("it is on fire"),
            });
        }
        Ok(())
    }

    fn get(&self, name: &ObjectName) -> Result<Vec<u8>, StorageError> {
        if self.is_stale(name) {
            return Err(missing(name));
        }
        self.shared.inner.get(name)
    }

    fn get_range(&self, name: &ObjectName, range: ByteRange) -> Result<Vec<u8>, StorageError> {
        let mut bytes = match self.shared.inner.get_range(name, range) {
            Err(StorageError::PastEnd { len, .. }) if self.shared.breaks(Breaks::PastEnd) => {
                let len = len.saturating_sub(range.offset);
                self.shared.inner.get_range(name, ByteRange { len, ..range })?
            }
            read => read?,
        };
        if self.shared.breaks(Breaks::RangeEnds) && bytes.len() > 5000 {
            bytes.truncate(5000);
        }
        Ok(bytes)
    }

    fn get_tail(&self, name: &ObjectName, len: u64) -> Result<(Vec<u8>, u64), StorageError> {
        self.shared.inner.get_tail(name, len)
    }

    fn head(&self, name: &ObjectName) -> Result<ObjectMeta, StorageError> {
        self.shared.inner.head(name)
    }

    fn list(&self, folder: &str) -> Result<Vec<ObjectMeta>, StorageError> {
        let mut listed = self.shared.inner.list(folder)?;
        if self.shared.breaks(Breaks::NewInLists)
            && let Some((_, last)) = &*self.shared.last_put.lock().unwrap()
        {
            listed.retain(|meta| meta.name != *last);
        }
        let deleted = self.shared.last_deleted.lock().unwrap();
        if self.shared.breaks(Breaks::OldInLists)
            && let Some(meta) = &*deleted
            && meta.name.as_str().starts_with(&format!("{folder}/"))
        {
            listed.push(meta.clone());
            listed.sort_unstable_by(|a, b| a.name.cmp(&b.name));
        }
        Ok(listed)
    }

    fn list_folders(&self, folder: &str) -> Result<Vec<String>, StorageError> {
        self.shared.inner.list_folders(folder)
    }

    fn delete(&self, name: &ObjectName) -> Result<(), StorageError> {
        match self.shared.breaks {
            Breaks::Deletes => return Ok(()),
            Breaks::DeleteRights => {
                return Err(StorageError::Denied {
                    name: name.to_string(),
                });
            }
            _ => {}
        }
        *self.shared.last_deleted.lock().unwrap() = self.shared.inner.head(name).ok();
        self.shared.inner.delete(name)
    }

    fn lock(&self, name: &ObjectName) -> Result<Option<Box<dyn ProcessLock>>, StorageError> {
        if self.shared.breaks(Breaks::Locks) {
            return Ok(Some(Box::new(NoLock)));
        }
        self.shared.inner.lock(name)
    }

    fn lock_state(&self, name: &ObjectName) -> Result<LockState, StorageError> {
        self.shared.inner.lock_state(name)
    }

    fn drop_lock(&self, name: &ObjectName) -> Result<(), StorageError> {
        self.shared.inner.drop_lock(name)
    }
}

/// The parts of a place in memory.
#[derive(Default)]
struct Parts(Mutex<BTreeMap<String, Arc<Shared>>>);

impl Parts {
    fn open(&self, part: &str, breaks: Breaks) -> Arc<dyn Storage> {
        let mut parts = self.0.lock().unwrap();
        let shared = parts.entry(part.to_owned()).or_insert_with(|| {
            Arc::new(Shared {
                inner: MemoryStorage::new(),
                breaks,
                last_put: Mutex::default(),
                last_deleted: Mutex::default(),
                handles: AtomicU64::new(0),
            })
        });
        Arc::new(Twin::new(shared))
    }

    fn objects(&self) -> usize {
        let parts = self.0.lock().unwrap();
        parts
            .values()
            .map(|part| part.inner.list("").unwrap().len())
            .sum()
    }
}

fn test_at<'a>(folder: &'a Path, place: Option<TestedPlace<'a>>) -> SelfTest<'a> {
    SelfTest {
        folder,
        place,
        memory_bytes: 2 << 20,
        clock: Arc::new(SystemClock),
        entropy: Arc::new(SystemEntropy),
    }
}

/// Tests a place in memory. Returns what is left there, too.
fn tested(breaks: Breaks) -> (SelfTestReport, usize) {
    let (folder, parts) = (tempfile::tempdir().unwrap(), Parts::default());
    let open = |part: &str| Ok(parts.open(part, breaks));
    let place = TestedPlace {
        shown: "the place".to_owned(),
        open: &open,
        probe: None,
    };
    let test = test_at(folder.path(), Some(place));
    let report = self_test(&test, &Monitor::default(), &mut |_| {}).unwrap();
    (report, parts.objects())
}

fn failures(report: &SelfTestReport) -> Vec<(&'static str, String)> {
    let failed = |checked: &Checked| match &checked.verdict {
        Verdict::Failed { what, advice } => {
            assert!(!advice.is_empty());
            Some((checked.name, what.clone()))
        }
        _ => None,
    };
    report.checks.iter().filter_map(failed).collect()
}

#[test]
fn a_sound_machine_and_place_pass_and_nothing_is_left() {
    let folder = tempfile::tempdir().unwrap();
    let mut told = Vec::new();
    let report = self_test(&test_at(folder.path(), None), &Monitor::default(), &mut |step| {
        if let SelfTestStep::Begins(name) = step {
            told.push(name);
        }
    });
    let report = report.unwrap();
    assert_eq!(failures(&report), []);
    let names: Vec<_> = report.checks.iter().map(|checked| checked.name).collect();
    assert_eq!(told, names);
    assert_eq!((names.len(), report.skipped()), (16, 0));
    let (report, left) = tested(Breaks::Nothing);
    assert_eq!(failures(&report), []);
    assert_eq!((report.checks.len(), report.skipped(), left), (25, 0, 0));
    assert!(report.deleted > 50, "{} deleted", report.deleted);
}

#[test]
fn a_folder_passes_with_its_locks() {
    let (folder, place) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let root = Scratch::new(place.path(), &SystemEntropy).unwrap();
    let open = |part: &str| -> Result<Arc<dyn Storage>, StorageError> {
        Ok(Arc::new(LocalStorage::create(root.path().join(part))?))
    };
    let tested = TestedPlace {
        shown: root.path().display().to_string(),
        open: &open,
        probe: None,
    };
    let mut speeds = BTreeMap::new();
    let test = test_at(folder.path(), Some(tested));
    let report = self_test(&test, &Monitor::default(), &mut |step| {
        if let SelfTestStep::Measured(speed) = step {
            speeds.insert(speed.operation, speed.count);
        }
    });
    let report = report.unwrap();
    assert_eq!(failures(&report), []);
    let locks = report
        .checks
        .iter()
        .find(|checked| checked.name == "locks")
        .unwrap();
    assert!(
        matches!(&locks.verdict, Verdict::Passed { what } if what.contains("refused")),
        "{locks:?}"
    );
    assert_eq!((speeds["create"], speeds["read_large"], speeds.len()), (9, 1, 8));
    root.remove().unwrap();
    assert_eq!(fs::read_dir(place.path()).unwrap().count(), 0);
}

/// Each broken promise has a line of its own, which says what is broken.
#[test]
fn each_broken_promise_is_named() {
    for (breaks, name, words) in [
        (Breaks::Condition, "creates_once", "destroy"),
        (Breaks::ConditionQuietly, "creates_once", "destroy"),
        (
            Breaks::NewInLists,
            "lists_what_exists",
            "a listing lacks list/0/00",
        ),
        (Breaks::OldInLists, "lists_what_exists", "was deleted before"),
        (Breaks::FreshReads, "reads_what_was_written", "right after"),
        (Breaks::RangeEnds, "reads_ranges", "bytes 4096 to 12288"),
        (Breaks::PastEnd, "reads_ranges", "without an error"),
        (
            Breaks::Bits,
            "reads_what_was_written",
            "100001 bytes reads as others",
        ),
        (Breaks::ContainerBits, "second_backup", "is damaged"),
        (Breaks::Deletes, "deletes", "still read"),
        (Breaks::DeleteRights, "deletes", "permission denied"),
        (Breaks::Locks, "locks", "second client got a lock"),
        (Breaks::Barrier, "syncs", "on fire"),
    ] {
        let (report, left) = tested(breaks);
        let found = failures(&report);
        let line = found.iter().find(|(check, _)| *check == name);
        assert!(
            line.is_some_and(|(_, what)| what.contains(words)),
            "{breaks:?}: {found:#?}"
        );
        assert!(!report.is_passed());
        if breaks == Breaks::DeleteRights {
            // Without that right backups work, so the main job is tried.
            assert!(
                !found.iter().any(|(check, _)| *check == "lists_what_exists"),
                "{found:#?}"
            );
        }
        let init = report
            .checks
            .iter()
            .find(|checked| checked.name == "init")
            .unwrap();
        let is_tried = !matches!(init.verdict, Verdict::Skipped { .. });
        assert_eq!(
            is_tried,
            report.checks[8..12]
                .iter()
                .all(|it| matches!(it.verdict, Verdict::Passed { .. }))
        );
        // What a place does not list is not found to be deleted.
        let is_left = matches!(
            breaks,
            Breaks::Deletes | Breaks::DeleteRights | Breaks::NewInLists
        );
        assert_eq!(left > 0, is_left, "{breaks:?}");
    }
}

/// What cannot be deleted is named.
#[test]
fn what_is_left_is_named() {
    let (report, left) = tested(Breaks::DeleteRights);
    assert_eq!((report.left.len(), report.deleted), (left, 0));
    let (name, what) = failures(&report).pop().unwrap();
    assert_eq!(name, "clean_up");
    assert!(
        what.contains(&report.left[0]) && what.contains("the place"),
        "{what}"
    );
}

/// After a failure, what depends on it is left out, and the rest is made.
#[test]
fn a_failure_does_not_end_the_test() {
    let (report, _) = tested(Breaks::Barrier);
    let verdict = |name: &str| {
        let found = report.checks.iter().find(|checked| checked.name == name);
        found.unwrap().verdict.clone()
    };
    assert!(matches!(verdict("locks"), Verdict::Passed { .. }));
    assert!(matches!(verdict("init"), Verdict::Failed { .. }));
    let Verdict::Skipped { why } = verdict("restore") else {
        panic!("{report:#?}")
    };
    assert!(why.contains("`init`"), "{why}");
    assert_eq!(report.checks.len(), 25);
}

/// Whenever somebody asks to stop, what was written at the place is deleted.
#[test]
fn an_interruption_leaves_nothing_at_the_place() {
    for stop_at in [
        "fingerprints",
        "memory",
        "reads_ranges",
        "second_backup",
        "forget_and_prune",
    ] {
        let (folder, parts) = (tempfile::tempdir().unwrap(), Parts::default());
        let open = |part: &str| Ok(parts.open(part, Breaks::Nothing));
        let place = TestedPlace {
            shown: "the place".to_owned(),
            open: &open,
            probe: None,
        };
        let monitor = Monitor::default();
        let cancel = monitor.cancel_handle();
        let mut last = "";
        let test = test_at(folder.path(), Some(place));
        let ended = self_test(&test, &monitor, &mut |step| match step {
            SelfTestStep::Begins(name) if name == stop_at => cancel.store(true, Ordering::Relaxed),
            SelfTestStep::Checked(checked) => last = checked.name,
            _ => {}
        });
        assert_eq!(ended.unwrap_err().kind(), ErrorKind::Interrupted, "{stop_at}");
        assert_eq!((last, parts.objects()), ("clean_up", 0), "{stop_at}");
    }
}

#[test]
fn a_place_that_is_not_there_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let open = |_: &str| -> Result<Arc<dyn Storage>, StorageError> {
        Err(StorageError::NoFolder {
            folder: "/nowhere".to_owned(),
        })
    };
    let place = TestedPlace {
        shown: "/nowhere".to_owned(),
        open: &open,
        probe: None,
    };
    let test = test_at(folder.path(), Some(place));
    let error: Error = self_test(&test, &Monitor::default(), &mut |_| {}).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NoStore);
}

/// The folder is removed also if nobody says so, and a fresh name is never taken twice.
#[test]
fn a_scratch_folder_goes_with_its_value() {
    let below = tempfile::tempdir().unwrap();
    let one = Scratch::new(below.path(), &SystemEntropy).unwrap();
    let other = Scratch::new(below.path(), &SystemEntropy).unwrap();
    assert_ne!(one.path(), other.path());
    fs::DirBuilder::new()
        .mode(0o700)
        .create(one.path().join("inner"))
        .unwrap();
    let path = one.path().to_owned();
    drop(one);
    assert!(!path.exists() && other.path().exists());
}
