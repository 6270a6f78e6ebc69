//! The engine's side: a store in memory. Backups are made in it and deleted from it.

use std::path::Path;
use std::sync::Arc;

use container::Containers;
use env::fault::FaultStorage;
use env::{Env, SeededEntropy, SystemClock};
use format::names;
use onefold::{
    AssembleOptions, BackupOptions, BackupReport, Compression, Credential, ForgetRequest, ForgetWhat,
    IngestOptions, InitOptions, Monitor, OpenOptions, PruneLimits, PruneOptions, PruneUnused, ReaderSource,
    SessionId, Store,
};
use simulate::{Policy, Schedule};
use types::ContainerKind;

use crate::{CHUNK_BYTES, CONTAINER_BYTES, Case, MEMORIES, REGION_BYTES, ROOMY, SEGMENT_CHUNKS};

/// The engine's counts.
pub(crate) struct Counted {
    pub(crate) report: BackupReport,
    /// The containers read by each way to restore it.
    pub(crate) reads: Vec<u64>,
    /// Plain bytes of all stored chunks, and the number of containers with any.
    pub(crate) stored: (u64, u64),
}

/// An empty store.
pub(crate) fn init() -> Env {
    let env = Env {
        storage: Arc::new(FaultStorage::new()),
        clock: Arc::new(SystemClock),
        entropy: Arc::new(SeededEntropy::new(1)),
    };
    let shape = InitOptions::default()
        .chunk_avg_bytes(CHUNK_BYTES)
        .region_bytes(REGION_BYTES)
        .container_bytes(CONTAINER_BYTES)
        .node_avg_children(SEGMENT_CHUNKS)
        .reserve_bytes(0);
    drop(Store::init(&env, &Credential::None, &shape, None).unwrap());
    env
}

fn open(env: &Env, policy: Policy) -> Store {
    // With a limit, the index is held in memory and looks up many hooks together, as the simulator
    // does. Without, it is read on the storage, hook by hook.
    let options = OpenOptions::default()
        .index_memory_bytes_max((policy.index_bytes < ROOMY).then_some(policy.index_bytes));
    Store::open(env, &Credential::None, &options).unwrap()
}

/// Backs up all generations, in one process or each in its own. Before each backup, it forgets and
/// prunes the backups that the schedule deletes.
pub(crate) fn count(env: &Env, case: Case, generations: Vec<Vec<u8>>) -> Vec<Counted> {
    let policy = case.policy;
    let options = BackupOptions::default()
        .host(b"host".to_vec())
        .user(b"user".to_vec())
        .tags(Vec::new())
        .ingest(
            IngestOptions::for_cores(1)
                .compression(Compression::Off)
                .small_bytes_max(0)
                .capping(Some(policy.capping))
                .lookup(policy.memory),
        );
    let mut store = open(env, policy);
    let mut ids: Vec<SessionId> = Vec::new();
    let back_up = |bytes: Vec<u8>| {
        if !case.in_one_process {
            store = open(env, policy);
        }
        if let Schedule::Cycle(backups) = case.schedule
            && ids.len() >= backups
        {
            leave(&store, ids[ids.len() - backups]);
        }
        let mut source = ReaderSource(bytes.as_slice());
        let monitor = Monitor::default();
        let report = store.backup_stream(
            &options,
            Path::new("file"),
            &onefold::StreamOptions::default(),
            &mut source,
            &monitor,
        );
        let report = report.unwrap();
        ids.push(report.id);
        Counted {
            reads: reads(&store, report.id),
            stored: stored(env),
            report,
        }
    };
    generations.into_iter().map(back_up).collect()
}

/// Forgets a backup and reclaims what only this backup had. Prune rewrites each container that
/// keeps some chunks, and merges none.
fn leave(store: &Store, id: SessionId) {
    let request = ForgetRequest::new(ForgetWhat::Named(vec![id.to_string()]))
        .is_dry_run(false)
        .force_unreadable(false);
    let forgotten = store.forget(&request, &Monitor::default()).unwrap();
    assert_eq!(forgotten.forgotten, [id]);
    let options = PruneOptions::default().limits(PruneLimits::default().unused_max(PruneUnused::Bytes(0)));
    let (_, warnings) = store.prune(&options, &Monitor::default()).unwrap();
    assert!(warnings.is_empty(), "{warnings:?}");
}

fn reads(store: &Store, id: SessionId) -> Vec<u64> {
    let snapshots = store.snapshots().unwrap().snapshots;
    let snapshot = snapshots.iter().find(|snapshot| snapshot.id == id).unwrap();
    let read = MEMORIES.map(|bytes| {
        let assembling = AssembleOptions::default()
            // The planner has half of it.
            .budget_bytes(2 * bytes)
            .workers(1)
            .prefetch_threads(0)
            .finishers(2);
        let monitor = Monitor::default();
        let stats = store.dump(snapshot, None, &mut std::io::sink(), assembling, &monitor);
        stats.unwrap().containers_read
    });
    read.to_vec()
}

/// The content of data containers, by their catalogs.
fn stored(env: &Env) -> (u64, u64) {
    let config = object::config::open(env, crypto::Credential::NoPassword).unwrap();
    let containers = Containers::new(env.clone(), config.store(), &config.keys, 1 << 20);
    let objects = env.storage.list(ContainerKind::Data.folder()).unwrap();
    let ids = objects
        .iter()
        .filter_map(|object| names::parse_container(&object.name));
    let mut ids: Vec<_> = ids.map(|(id, _)| id).collect();
    ids.dedup();
    let bytes = ids.iter().flat_map(|id| {
        let view = containers.catalog(*id).unwrap();
        let lens: Vec<u64> = view.entries().iter().map(|entry| u64::from(entry.len)).collect();
        lens
    });
    (bytes.sum(), ids.len() as u64)
}
