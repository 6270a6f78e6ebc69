//! Shared code of the tests of the whole engine: processes on a simulated machine with a clock that
//! tests move, small trees of real files, and checks that every store must pass.
#![allow(
    dead_code,
    unused_imports,
    unreachable_pub,
    missing_docs,
    reason = "each test file uses its part"
)]
#![expect(
    clippy::unwrap_used,
    reason = "a helper of tests that fails is a test that fails"
)]

pub mod archival;
pub mod beside;
pub mod clock;
pub mod explained;
pub mod killed;
pub mod parts;
pub mod play;
pub mod positions;
pub mod pruning;
pub mod reclaimer;
pub mod scattered;
pub mod sleeper;
pub mod storage;
pub mod tree;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use env::fault::FaultStorage;
use env::{Clock, SeededEntropy, SystemClock};
use onefold::{
    AssembleOptions, BackupOptions, BackupReport, Capping, Compression, Credential, Env, Error, Excludes,
    IngestOptions, InitOptions, Monitor, OpenOptions, ReadData, ReaderSource, RestoreRequest, Snapshot,
    Store, StreamSource, TreeOptions,
};
use types::{ByteRange, ObjectName};

pub use clock::{HandClock, StorageClock};
pub use parts::Parts;
pub use storage::{Asked, Request, Watched};
pub use tree::{Picture, Tree, assert_same, noise, picture_of};

/// Whether the long modes were requested (docs/testing.md).
pub fn is_long() -> bool {
    std::env::var_os("ONEFOLD_TEST_LONG").is_some_and(|value| value == "1")
}

/// Waits, in real time, until other threads have brought something about.
pub fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    for _ in 0..6000 {
        if is_so() {
            return;
        }
        SystemClock.sleep(Duration::from_millis(5));
    }
    panic!("waited half a minute in vain for {what}");
}

/// Like [`wait_until`], for effects of heartbeats: it moves the clock on from time to time. A
/// heartbeat thread counts from when it has begun, which may be late.
pub fn wait_for_heartbeat(clock: &HandClock, what: &str, mut is_so: impl FnMut() -> bool) {
    let mut polls = 0;
    wait_until(what, || {
        if polls % 40 == 0 {
            clock.advance(Duration::from_secs(11));
        }
        polls += 1;
        is_so()
    });
}

/// One process: its handle of the storage, and its clock.
#[derive(Debug, Clone)]
pub struct Process {
    pub storage: FaultStorage,
    pub watched: Arc<Watched>,
    pub clock: HandClock,
    pub env: Env,
}

/// The permanent settings of a test's store: everything small, so that it has some of everything.
pub fn tiny() -> InitOptions {
    InitOptions::default()
        .chunk_avg_bytes(1 << 10)
        .region_bytes(8 << 10)
        .container_bytes(32 << 10)
        .node_avg_children(16)
        .label("test".into())
}

impl Process {
    /// The first process of a new machine.
    pub fn new(seed: u64) -> Self {
        Self::on(FaultStorage::new(), HandClock::new(), seed)
    }

    pub fn on(storage: FaultStorage, clock: HandClock, seed: u64) -> Self {
        let watched = Arc::new(Watched::new(storage.clone()));
        // Half of the processes in each test have a storage that gives parts of objects back.
        watched.set_trims(seed.is_multiple_of(2));
        Self::watched(storage, watched, clock, seed)
    }

    pub fn watched(storage: FaultStorage, watched: Arc<Watched>, clock: HandClock, seed: u64) -> Self {
        let env = Env {
            storage: watched.clone(),
            clock: Arc::new(clock.clone()),
            entropy: Arc::new(SeededEntropy::new(seed)),
        };
        Self {
            storage,
            watched,
            clock,
            env,
        }
    }

    /// Another process on the same host.
    pub fn beside(&self, seed: u64) -> Self {
        Self::on(self.storage.handle(), self.clock.clone(), seed)
    }

    /// A process on another host, with a clock of its own.
    pub fn elsewhere(&self, seed: u64) -> Self {
        Self::on(self.storage.handle_elsewhere(), HandClock::new(), seed)
    }

    /// The same process, but its waiting for others moves the time on ([`HandClock::striding`]).
    pub fn striding(&self) -> Self {
        let clock = self.clock.striding();
        let env = Env {
            clock: Arc::new(clock.clone()),
            ..self.env.clone()
        };
        Self {
            clock,
            env,
            ..self.clone()
        }
    }

    pub fn try_init(&self, options: &InitOptions) -> Result<Store, Error> {
        Store::init(&self.env, &Credential::None, options, None)
    }

    pub fn init(&self) -> Store {
        self.try_init(&tiny()).unwrap()
    }

    pub fn try_open(&self) -> Result<Store, Error> {
        Store::open(&self.env, &Credential::None, &OpenOptions::default())
    }

    pub fn open(&self) -> Store {
        self.try_open().unwrap()
    }

    /// From now on the disk does not give the object.
    pub fn take_away(&self, name: &ObjectName) {
        let whole = ByteRange {
            offset: 0,
            len: 1 << 30,
        };
        self.storage.make_unreadable(name, whole);
    }

    /// From now on the disk gives the object again.
    pub fn give_back(&self, name: &ObjectName) {
        let nowhere = ByteRange {
            offset: 1 << 40,
            len: 1,
        };
        self.storage.make_unreadable(name, nowhere);
    }

    /// The names of all objects in a folder.
    pub fn names(&self, folder: &str) -> Vec<String> {
        let listed = env::Storage::list(&self.storage, folder).unwrap();
        listed
            .into_iter()
            .map(|object| object.name.as_str().to_owned())
            .collect()
    }
}

/// How a test backs up.
#[derive(Debug, Clone)]
pub struct How {
    pub ingest: IngestOptions,
    pub force: bool,
    pub host: &'static str,
}

impl How {
    /// One thread for each stage, containers of all kinds, a checkpoint after every other
    /// container. Nothing is stored twice, so the references follow from the bytes alone.
    pub fn plain() -> Self {
        Self {
            ingest: IngestOptions::for_cores(1)
                .capping(Some(Capping::NONE))
                .compression(Compression::Auto { level: 1 })
                .workers(1)
                .writers(1)
                .checkpoint_bytes(64 << 10)
                .checkpoint_interval(Duration::from_secs(30))
                .small_bytes_max(0),
            force: false,
            host: "host",
        }
    }

    /// The same with the usual cap.
    pub fn capped() -> Self {
        let mut how = Self::plain();
        how.ingest.capping = None;
        how
    }

    /// Like [`Self::plain`], and a backup that fits becomes one small container.
    pub fn small() -> Self {
        let mut how = Self::plain();
        how.ingest.small_bytes_max = 1 << 20;
        how
    }

    /// All files are read.
    pub fn forced(mut self) -> Self {
        self.force = true;
        self
    }

    pub fn options(&self) -> BackupOptions {
        BackupOptions::default()
            .host(self.host)
            .user(b"user".to_vec())
            .tags(Vec::new())
            .ingest(self.ingest.clone())
    }
}

/// Backs up a tree of which every entry can be read.
pub fn back_up(store: &Store, tree: &Tree, how: &How) -> Result<BackupReport, Error> {
    let (report, faults) = back_up_with_faults(store, tree, how);
    if report.is_ok() {
        assert!(faults.is_empty(), "{faults:?}");
    }
    report
}

/// Backs up a tree beside damage: the listing of the backup before may be unreadable.
pub fn back_up_with_faults(
    store: &Store,
    tree: &Tree,
    how: &How,
) -> (Result<BackupReport, Error>, Vec<String>) {
    let options = TreeOptions::default()
        .paths(vec![tree.root()])
        .current_folder(PathBuf::from("/"))
        .excludes(Excludes::default())
        .exclude_caches(false)
        .one_file_system(false)
        .leave_out(None)
        .force(how.force)
        .ignore_ctime(false)
        .ignore_inode(false);
    let mut faults = Vec::new();
    let report = store.backup_tree(&how.options(), &options, &Monitor::default(), &mut |fault| {
        faults.push(fault.to_string());
    });
    (report, faults)
}

/// Backs up a stream.
pub fn back_up_stream(
    store: &Store,
    name: &str,
    source: &mut dyn StreamSource,
    how: &How,
) -> Result<BackupReport, Error> {
    back_up_watched(store, name, source, how, &Monitor::default())
}

/// Backs up a stream. The monitor shows its progress.
pub fn back_up_watched(
    store: &Store,
    name: &str,
    source: &mut dyn StreamSource,
    how: &How,
    monitor: &Monitor,
) -> Result<BackupReport, Error> {
    store.backup_stream(
        &how.options(),
        Path::new(name),
        &onefold::StreamOptions::default(),
        source,
        monitor,
    )
}

/// Waits until a running backup has looked up all bytes that its source has given: chunks were
/// counted, and for a while no more.
pub fn wait_for_look_ups(monitor: &Monitor) {
    wait_for_quiet(monitor, 30);
}

/// The same for tests that wait often, and are right even if some bytes are not looked up yet.
pub fn wait_for_most_look_ups(monitor: &Monitor) {
    wait_for_quiet(monitor, 5);
}

fn wait_for_quiet(monitor: &Monitor, polls: u32) {
    let (mut seen, mut still) = (0, 0);
    wait_until("look-ups", || {
        let now = monitor.counters.chunks.get();
        still = if now == seen && now > 0 { still + 1 } else { 0 };
        seen = now;
        still == polls
    });
}

/// Backs up these bytes.
pub fn back_up_bytes(store: &Store, name: &str, bytes: &[u8], how: &How) -> Result<BackupReport, Error> {
    back_up_stream(store, name, &mut ReaderSource(bytes), how)
}

/// Restores a backup below a folder, with little memory.
pub fn restore_to(store: &Store, snapshot: &Snapshot, target: &Path, when: &str) {
    restore_within(store, snapshot, target, 256 << 10, when);
}

/// Restores a backup below a folder, with that much memory for assembling.
pub fn restore_within(store: &Store, snapshot: &Snapshot, target: &Path, budget_bytes: u64, when: &str) {
    try_restore_within(store, snapshot, target, budget_bytes)
        .unwrap_or_else(|error| panic!("{when}: {error}"));
}

/// The same, but returns the error.
pub fn try_restore_within(
    store: &Store,
    snapshot: &Snapshot,
    target: &Path,
    budget_bytes: u64,
) -> Result<(), String> {
    let mut assembling = AssembleOptions::for_cores(1);
    assembling.budget_bytes = budget_bytes;
    let request = RestoreRequest::new(assembling);
    let mut faults = Vec::new();
    let report = store.restore(snapshot, target, &request, &Monitor::default(), &mut |fault| {
        faults.push(format!("{fault:?}"));
    });
    let report = report.map_err(|error| error.to_string())?;
    if faults.is_empty() && report.faults == 0 {
        Ok(())
    } else {
        Err(format!("{faults:?}"))
    }
}

/// Restores a tree's backup and compares.
pub fn assert_restores(store: &Store, snapshot: &Snapshot, root: &Path, expected: &Picture, when: &str) {
    let target = tree::scratch();
    restore_to(store, snapshot, target.path(), when);
    let restored = target.path().join(root.strip_prefix("/").unwrap());
    assert_same(&picture_of(&restored), expected, when);
}

/// Restores a stream's backup and compares.
pub fn assert_restores_bytes(store: &Store, snapshot: &Snapshot, name: &str, expected: &[u8], when: &str) {
    try_restores_bytes(store, snapshot, name, expected).unwrap_or_else(|error| panic!("{when}: {error}"));
}

/// The same, but returns the error. Wrong bytes cause a panic.
pub fn try_restores_bytes(
    store: &Store,
    snapshot: &Snapshot,
    name: &str,
    expected: &[u8],
) -> Result<(), String> {
    let target = tree::scratch();
    try_restore_within(store, snapshot, target.path(), 256 << 10)?;
    let restored = std::fs::read(target.path().join(name.trim_start_matches('/'))).unwrap();
    assert!(restored == expected, "other bytes came back of {}", snapshot.id);
    Ok(())
}

/// The backup of that id.
pub fn snapshot(store: &Store, id: onefold::SessionId) -> Snapshot {
    try_snapshot(store, id).unwrap()
}

/// The same, but returns the error.
pub fn try_snapshot(store: &Store, id: onefold::SessionId) -> Result<Snapshot, String> {
    let list = store.snapshots().map_err(|error| error.to_string())?;
    let found = list.snapshots.into_iter().find(|snapshot| snapshot.id == id);
    found.ok_or_else(|| format!("backup {id} is lost: {:?}", list.damaged))
}

/// Fails unless the structure and every byte are sound.
pub fn assert_sound(store: &Store, when: &str) {
    let report = store
        .check(ReadData::Share(1.0), &Monitor::default())
        .unwrap_or_else(|error| panic!("{when}: check: {error}"));
    assert!(report.is_sound(), "{when}: {:#?}", report.findings);
}
