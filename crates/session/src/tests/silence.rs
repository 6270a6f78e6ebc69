//! Heartbeats, sleep, and giving up.

use std::sync::Arc;
use std::time::Duration;

use env::fault::{Counted, FailWith, Fault, FaultStorage, OpKind};
use env::{LockState, ManualClock, ObjectMeta, ProcessLock, Storage, StorageError};
use format::manifest::Manifest;
use format::names;
use object::Sealer;
use types::{ByteRange, ObjectName, Revision};

use super::{Host, backup_of, begin, id, sealer};
use crate::{EndedBy, HeartbeatThread, Manifests, Session, SessionError, SessionTable};

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// Called before each put and each lock, or before each get.
type Before = Box<dyn Fn(&ObjectName) + Send + Sync>;

/// A storage that calls a function before each put and each lock, or before each get, or has no
/// locks.
pub(super) struct Wrapped {
    storage: FaultStorage,
    before_put: Before,
    before_get: Before,
    has_locks: bool,
    is_far: bool,
}

impl Wrapped {
    pub(super) fn new(storage: FaultStorage, before_put: Before) -> Self {
        Self {
            storage,
            before_put,
            before_get: Box::new(|_| ()),
            has_locks: true,
            is_far: false,
        }
    }

    pub(super) fn without_locks(storage: FaultStorage) -> Self {
        Self {
            storage,
            before_put: Box::new(|_| ()),
            before_get: Box::new(|_| ()),
            has_locks: false,
            is_far: false,
        }
    }

    /// An object store with locks of this machine beside it.
    pub(super) fn far_with_locks(storage: FaultStorage, before_put: Before) -> Self {
        Self {
            is_far: true,
            ..Self::new(storage, before_put)
        }
    }

    /// An object store whose gets are watched.
    pub(super) fn far_read(storage: FaultStorage, before_get: Before) -> Self {
        Self {
            before_get,
            ..Self::far(storage)
        }
    }

    /// An object store: it has no locks, and one clock.
    pub(super) fn far(storage: FaultStorage) -> Self {
        Self {
            is_far: true,
            ..Self::without_locks(storage)
        }
    }
}

impl std::fmt::Debug for Wrapped {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.storage.fmt(f)
    }
}

impl Storage for Wrapped {
    fn is_far(&self) -> bool {
        self.is_far
    }
    fn put(&self, name: &ObjectName, parts: &[&[u8]]) -> Result<(), StorageError> {
        (self.before_put)(name);
        self.storage.put(name, parts)
    }
    fn barrier(&self) -> Result<(), StorageError> {
        self.storage.barrier()
    }
    fn get(&self, name: &ObjectName) -> Result<Vec<u8>, StorageError> {
        (self.before_get)(name);
        self.storage.get(name)
    }
    fn get_range(&self, name: &ObjectName, range: ByteRange) -> Result<Vec<u8>, StorageError> {
        self.storage.get_range(name, range)
    }
    fn get_tail(&self, name: &ObjectName, len: u64) -> Result<(Vec<u8>, u64), StorageError> {
        self.storage.get_tail(name, len)
    }
    fn head(&self, name: &ObjectName) -> Result<ObjectMeta, StorageError> {
        self.storage.head(name)
    }
    fn list(&self, folder: &str) -> Result<Vec<ObjectMeta>, StorageError> {
        self.storage.list(folder)
    }
    fn list_folders(&self, folder: &str) -> Result<Vec<String>, StorageError> {
        self.storage.list_folders(folder)
    }
    fn delete(&self, name: &ObjectName) -> Result<(), StorageError> {
        self.storage.delete(name)
    }
    fn lock(&self, name: &ObjectName) -> Result<Option<Box<dyn ProcessLock>>, StorageError> {
        if self.has_locks {
            (self.before_put)(name);
            self.storage.lock(name)
        } else {
            Ok(None)
        }
    }
    fn lock_state(&self, name: &ObjectName) -> Result<LockState, StorageError> {
        if self.has_locks {
            self.storage.lock_state(name)
        } else {
            Ok(LockState::Unknown)
        }
    }
    fn drop_lock(&self, name: &ObjectName) -> Result<(), StorageError> {
        if self.has_locks {
            self.storage.drop_lock(name)
        } else {
            Ok(())
        }
    }
}

#[test]
fn heartbeats_count_up_and_the_newest_two_are_kept() {
    let host = Host::new();
    let session = host.begin(1);
    for n in 1..6u64 {
        session.tick().unwrap();
        let folder = names::session_folder(session.id());
        let expected = [
            names::heartbeat(session.id(), n - 1),
            names::heartbeat(session.id(), n),
        ];
        let listed = host.names(&folder);
        let beats: Vec<_> = listed.iter().filter(|name| name.contains("heartbeat")).collect();
        assert_eq!(beats, [expected[0].as_str(), expected[1].as_str()]);
        assert_eq!(
            SessionTable::list(&host.sealer).unwrap().running[0].counter,
            Some(n)
        );
    }
}

#[test]
fn a_tick_costs_two_listings_a_head_and_a_put() {
    let host = Host::new();
    let session = host.begin(1);
    session.tick().unwrap();
    let before = host.storage.counters();
    session.tick().unwrap();
    let cost = host.storage.counters().since(&before);
    assert_eq!((cost.lists, cost.heads, cost.puts, cost.deletes), (2, 1, 1, 1));
    assert_eq!((cost.gets, cost.barriers, cost.locks), (0, 0, 0));
}

#[test]
fn after_a_day_without_a_heartbeat_the_session_gives_up() {
    let host = Host::new();
    let session = host.begin(1);
    host.storage
        .inject(Fault::fail_from(1, FailWith::Io).counting(Counted::Only(OpKind::Put)));
    host.clock.advance(DAY);
    assert!(
        matches!(session.tick(), Err(SessionError::Object(_))),
        "the storage fails; the session runs"
    );
    session.ensure_running().unwrap();
    host.storage.clear_faults();
    host.clock.advance(Duration::from_secs(1));
    assert!(matches!(session.tick(), Err(SessionError::GaveUp { .. })));
    assert!(matches!(
        session.commit(backup_of(&session, 0)),
        Err(SessionError::GaveUp { .. })
    ));
    assert!(matches!(
        session.begin_checkpoint(),
        Err(SessionError::GaveUp { .. })
    ));
    assert!(matches!(
        session.choose_parents(|_| vec![]),
        Err(SessionError::GaveUp { .. })
    ));
    assert!(host.names("backups").is_empty());
}

#[test]
fn an_occasional_heartbeat_keeps_a_session_alive() {
    let host = Host::new();
    let session = host.begin(1);
    for _ in 0..5 {
        host.clock.suspend(DAY - Duration::from_secs(1));
        session.tick().unwrap();
    }
    session.commit(backup_of(&session, 0)).unwrap();
}

#[test]
fn suspended_time_counts_and_waking_up_hides_nothing() {
    let host = Host::new();
    let session = host.begin(1);
    host.clock.suspend(DAY + Duration::from_secs(1));
    let error = session.tick().unwrap_err();
    assert!(matches!(error, SessionError::GaveUp { .. }), "{error}");
    assert!(error.to_string().contains("1440 minutes"), "{error}");
}

#[test]
fn a_sleep_in_the_midst_of_a_heartbeat_is_noticed() {
    let (storage, clock) = (FaultStorage::new(), ManualClock::default());
    let sleeper = clock.clone();
    let sleep = move |name: &ObjectName| {
        if name.as_str().ends_with("heartbeat.1") {
            sleeper.suspend(DAY * 2);
        }
    };
    let sealer = sealer(Arc::new(Wrapped::new(storage, Box::new(sleep))), &clock);
    let session = Session::begin(&sealer, begin(1)).unwrap();
    assert!(matches!(session.tick(), Err(SessionError::GaveUp { .. })));
    assert!(matches!(
        session.commit(backup_of(&session, 0)),
        Err(SessionError::GaveUp { .. })
    ));
}

#[test]
fn a_sleep_in_the_midst_of_a_commit_takes_it_back() {
    let (storage, clock) = (FaultStorage::new(), ManualClock::default());
    let sleeper = clock.clone();
    let sleep = move |name: &ObjectName| {
        if name.as_str().starts_with("backups/") {
            sleeper.suspend(DAY * 40);
        }
    };
    let sealer = sealer(Arc::new(Wrapped::new(storage, Box::new(sleep))), &clock);
    let session = Session::begin(&sealer, begin(1)).unwrap();
    assert!(matches!(
        session.commit(backup_of(&session, 0)),
        Err(SessionError::GaveUp { .. })
    ));
    let list = Manifests::new(&sealer).list().unwrap();
    assert_eq!(
        list.backups().count(),
        0,
        "what it reached may have been swept 40 days ago"
    );
    assert!(list.get(session.id()).unwrap().is_forgotten());
}

fn drop_claim(storage: &FaultStorage, session: types::SessionId) {
    for meta in storage.list(&names::session_folder(session)).unwrap() {
        storage.delete(&meta.name).unwrap();
    }
    storage.barrier().unwrap();
}

/// What reclamation does in the end: deletes the claim durably, and only then the ending.
fn drop_ending(storage: &FaultStorage, session: types::SessionId) {
    drop_claim(storage, session);
    for meta in storage.list(names::BACKUPS_FOLDER).unwrap() {
        storage.delete(&meta.name).unwrap();
    }
    storage.barrier().unwrap();
}

/// By this session's clock no time has passed: it stood still, or the storage's clock was set
/// ahead.
#[test]
fn a_session_whose_ending_was_dropped_commits_nothing() {
    let host = Host::new();
    let session = host.begin(1);
    let maintainer = host.elsewhere().begin_read();
    let info = SessionTable::list(&host.sealer).unwrap();
    maintainer.expire(info.get(session.id()).unwrap()).unwrap();
    drop_ending(&host.storage.handle(), session.id());
    for _ in 0..2 {
        let error = session.commit(backup_of(&session, 0)).unwrap_err();
        let long_ago = SessionError::EndedElsewhere {
            session: session.id(),
            how: EndedBy::LongAgo,
        };
        assert_eq!(error.to_string(), long_ago.to_string());
    }
    let list = Manifests::new(&host.sealer).list().unwrap();
    assert_eq!(list.backups().count(), 0);
    // Because of this ending, a sweep removes the containers that it has put since.
    let expired = EndedBy::Expired { by: session.id() };
    assert_eq!(list.get(session.id()).unwrap().ended_by(), Some(expired));
}

/// A storage that drops the first session's objects when that session puts its manifest.
fn where_it_goes_just_before_the_manifest(
    drop_it: fn(&FaultStorage, types::SessionId),
) -> (FaultStorage, Sealer) {
    let storage = FaultStorage::new();
    let (other, handle) = (storage.handle(), storage.handle());
    let watch = move |name: &ObjectName| {
        if name.as_str().starts_with("backups/") && name.as_str().ends_with(".0") {
            drop_it(&other, id(1));
        }
    };
    let wrapped = Wrapped::new(storage, Box::new(watch));
    (handle, sealer(Arc::new(wrapped), &ManualClock::default()))
}

#[test]
fn a_session_whose_ending_is_dropped_during_its_commit_takes_it_back() {
    let (_, sealer) = where_it_goes_just_before_the_manifest(drop_ending);
    let session = Session::begin(&sealer, begin(1)).unwrap();
    let error = session.commit(backup_of(&session, 0)).unwrap_err();
    assert!(error.to_string().contains("its claim is gone"), "{error}");
    let list = Manifests::new(&sealer).list().unwrap();
    assert_eq!(list.backups().count(), 0);
    assert!(list.get(session.id()).unwrap().is_forgotten());
}

/// Nor does it stay if the storage fails just then: the caller calls again.
#[test]
fn a_commit_that_could_not_be_taken_back_is_taken_back_the_next_time() {
    let (faults, sealer) = where_it_goes_just_before_the_manifest(drop_claim);
    let session = Session::begin(&sealer, begin(1)).unwrap();
    // The manifest is put, and the tombstone fails.
    faults.inject(Fault::fail(2, FailWith::Io).counting(Counted::Only(OpKind::Put)));
    let error = session.commit(backup_of(&session, 0)).unwrap_err();
    assert!(matches!(error, SessionError::NotTakenBack { .. }), "{error}");
    assert!(error.to_string().contains("`onefold forget 1`"), "{error}");
    assert_eq!(Manifests::new(&sealer).list().unwrap().backups().count(), 1);
    let error = session.commit(backup_of(&session, 0)).unwrap_err();
    assert!(error.to_string().contains("its claim is gone"), "{error}");
    let list = Manifests::new(&sealer).list().unwrap();
    assert_eq!(list.backups().count(), 0);
    assert!(list.get(session.id()).unwrap().is_forgotten());
}

#[test]
fn finding_its_ending_the_session_gives_up_at_once() {
    let host = Host::new();
    let session = host.begin(1);
    let maintainer = host.elsewhere().begin_read();
    let info = SessionTable::list(&host.sealer)
        .unwrap()
        .get(session.id())
        .unwrap()
        .clone();
    let expired = EndedBy::Expired { by: maintainer.id() };
    assert_eq!(maintainer.expire(&info).unwrap(), expired);
    let before = host.storage.counters_here();
    for result in [
        session.tick().map(drop),
        session.tick().map(drop),
        session.ensure_running(),
    ] {
        match result {
            Err(SessionError::EndedElsewhere { session: ended, how }) => {
                assert_eq!((ended, how), (session.id(), expired.clone()));
            }
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(
        host.storage.counters_here().since(&before).puts,
        0,
        "it writes no more"
    );
}

#[test]
fn heartbeats_go_on_where_nothing_can_be_read() {
    let host = Host::new();
    let session = host.begin(1);
    host.storage
        .inject(Fault::fail_from(1, FailWith::Io).counting(Counted::Only(OpKind::Head)));
    host.storage
        .inject(Fault::fail_from(1, FailWith::Io).counting(Counted::Only(OpKind::List)));
    session.tick().unwrap_err();
    host.storage.clear_faults();
    assert_eq!(
        SessionTable::list(&host.sealer).unwrap().running[0].counter,
        Some(1)
    );
}

#[test]
fn a_heartbeat_that_only_seemed_to_fail_does_no_harm() {
    let host = Host::new();
    let session = host.begin(1);
    for _ in 0..3 {
        host.storage
            .inject(Fault::fail(1, FailWith::NoSpace).counting(Counted::Only(OpKind::Put)));
        session.tick().unwrap_err();
        host.storage.clear_faults();
    }
    session.tick().unwrap();
    assert_eq!(
        SessionTable::list(&host.sealer).unwrap().running[0].counter,
        Some(4)
    );
}

#[test]
fn a_pulse_ticks_by_itself_and_stops_when_dropped() {
    let storage = FaultStorage::new();
    let env = env::Env::system(Arc::new(storage.clone()));
    let key = crypto::EncryptionKey::from_bytes([2; 32]);
    let sealer = object::Sealer::new(env.clone(), types::StoreId::from_bytes([1; 16]), key);
    let mut quick = begin(1);
    quick.policy.heartbeat_every = Duration::from_millis(5);
    let session = Session::begin(&sealer, quick).unwrap();
    let thread = session.start_heartbeats().unwrap();
    let counter = || SessionTable::list(&sealer).unwrap().running[0].counter;
    let mut naps = 0;
    while counter() < Some(3) {
        env.clock.sleep(Duration::from_millis(5));
        naps += 1;
        assert!(naps < 2000, "no heartbeat in ten seconds");
    }
    drop(thread);
    // A tick under way may finish; then the session is silent.
    env.clock.sleep(Duration::from_millis(100));
    let last = counter();
    env.clock.sleep(Duration::from_millis(100));
    assert_eq!(counter(), last);
    session.commit(backup_of(&session, 0)).unwrap();
    assert_eq!(
        sealer.env().storage.list("sessions").unwrap().len(),
        2,
        "the claim, and the record of the commit"
    );
}

#[test]
fn sessions_of_a_pulse_share_its_listings_and_leave_one_by_one() {
    let storage = FaultStorage::new();
    let env = env::Env::system(Arc::new(storage.clone()));
    let key = crypto::EncryptionKey::from_bytes([2; 32]);
    let sealer = object::Sealer::new(env.clone(), types::StoreId::from_bytes([1; 16]), key);
    let sessions = (1..=8).map(|series| {
        let mut quick = begin(series);
        quick.policy.heartbeat_every = Duration::from_millis(5);
        Session::begin(&sealer, quick).unwrap()
    });
    let sessions: Vec<_> = sessions.collect();
    let thread = HeartbeatThread::default();
    storage.start_trace();
    let tasks = sessions.iter().map(|session| thread.add(session).unwrap());
    let mut tasks: Vec<_> = tasks.collect();
    let counters = || {
        let running = SessionTable::list(&sealer).unwrap().running;
        running.iter().map(|session| session.counter).collect::<Vec<_>>()
    };
    let wait_for = |reached: &dyn Fn(&[Option<u64>]) -> bool| {
        let mut naps = 0;
        while !reached(&counters()) {
            env.clock.sleep(Duration::from_millis(5));
            naps += 1;
            assert!(naps < 2000, "no heartbeats in ten seconds: {:?}", counters());
        }
    };
    wait_for(&|counters| counters.iter().all(|counter| *counter >= Some(4)));
    let trace = storage.take_trace();
    let of = |kind, name: &str| {
        trace
            .iter()
            .filter(|one| one.kind == kind && one.name.contains(name))
            .count()
    };
    let (listed, beats) = (
        of(OpKind::List, names::CONDEMNED_FOLDER),
        of(OpKind::Put, "sessions/"),
    );
    assert!(beats >= 8 * 4, "{beats} heartbeats");
    assert!(listed * 4 <= beats, "{listed} listings for {beats} heartbeats");

    drop(tasks.remove(0));
    // A tick under way may finish; then that session is silent, and the others are not.
    env.clock.sleep(Duration::from_millis(100));
    let before = counters();
    wait_for(&|now| now.iter().zip(&before).skip(1).all(|(now, before)| now > before));
    assert_eq!(counters()[0], before[0]);
    drop(tasks);
    env.clock.sleep(Duration::from_millis(300));
    assert!(!thread.has_thread(), "nobody is left to tick");
    let task = thread.add(&sessions[0]).unwrap();
    wait_for(&|now| now[0] > before[0]);
    drop(task);
}

#[test]
fn an_ending_of_another_kind_has_an_error_text_of_its_own() {
    let host = Host::new();
    let session = host.begin(1);
    let name = names::manifest(session.series(), session.id(), Revision::FIRST);
    let adopted = Manifest::Adopted {
        by: id(9),
        checkpoint: Some(4),
    };
    host.objects().put_durably(&name, &adopted).unwrap();
    let error = session.tick().unwrap_err().to_string();
    assert!(
        error.contains("session 9") && error.contains("checkpoint 4"),
        "{error}"
    );
    assert!(error.contains("run the backup again"), "{error}");
}
