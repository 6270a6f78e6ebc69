//! A crash at every operation of a session's life. Bytes under no barrier are kept, dropped or
//! torn.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use env::fault::{Counted, CrashPolicy, Fault, FaultStorage};
use env::{LockState, ObjectMeta, ProcessLock, Storage, StorageError};
use format::names;
use format::reclaim::Condemned;
use types::{ByteRange, ObjectName, SessionId};

use super::{Host, LONG, backup_of, checkpoint, data, draft, epoch, range, whole};
use crate::{Draft, EndedBy, Manifests, Session, SessionError, SessionPolicy, SessionTable};

pub(super) const POLICIES: [CrashPolicy; 5] = [
    CrashPolicy::KeepAll,
    CrashPolicy::DropAll,
    CrashPolicy::TearAll,
    CrashPolicy::Seeded(1),
    CrashPolicy::Seeded(2),
];

type Act = Box<dyn FnOnce() + Send>;

/// A storage in which another action runs before the n-th operation.
pub(super) struct Interrupted {
    storage: FaultStorage,
    at: usize,
    count: AtomicUsize,
    act: Mutex<Option<Act>>,
}

impl Interrupted {
    pub(super) fn new(storage: FaultStorage, at: usize, act: Act) -> Self {
        Self {
            storage,
            at,
            count: AtomicUsize::new(0),
            act: Mutex::new(Some(act)),
        }
    }

    fn storage(&self) -> &FaultStorage {
        if self.count.fetch_add(1, Ordering::Relaxed) == self.at
            && let Some(act) = self.act.lock().unwrap().take()
        {
            act();
        }
        &self.storage
    }
}

impl fmt::Debug for Interrupted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.storage.fmt(f)
    }
}

impl Storage for Interrupted {
    fn put(&self, name: &ObjectName, parts: &[&[u8]]) -> Result<(), StorageError> {
        self.storage().put(name, parts)
    }
    fn barrier(&self) -> Result<(), StorageError> {
        self.storage().barrier()
    }
    fn get(&self, name: &ObjectName) -> Result<Vec<u8>, StorageError> {
        self.storage().get(name)
    }
    fn get_range(&self, name: &ObjectName, range: ByteRange) -> Result<Vec<u8>, StorageError> {
        self.storage().get_range(name, range)
    }
    fn get_tail(&self, name: &ObjectName, len: u64) -> Result<(Vec<u8>, u64), StorageError> {
        self.storage().get_tail(name, len)
    }
    fn head(&self, name: &ObjectName) -> Result<ObjectMeta, StorageError> {
        self.storage().head(name)
    }
    fn list(&self, folder: &str) -> Result<Vec<ObjectMeta>, StorageError> {
        self.storage().list(folder)
    }
    fn list_folders(&self, folder: &str) -> Result<Vec<String>, StorageError> {
        self.storage().list_folders(folder)
    }
    fn delete(&self, name: &ObjectName) -> Result<(), StorageError> {
        self.storage().delete(name)
    }
    fn lock(&self, name: &ObjectName) -> Result<Option<Box<dyn ProcessLock>>, StorageError> {
        self.storage().lock(name)
    }
    fn lock_state(&self, name: &ObjectName) -> Result<LockState, StorageError> {
        self.storage().lock_state(name)
    }
    fn drop_lock(&self, name: &ObjectName) -> Result<(), StorageError> {
        self.storage().drop_lock(name)
    }
}

/// The acknowledgements before the crash.
#[derive(Debug, Default)]
struct Told {
    begun: Vec<SessionId>,
    endings: BTreeMap<SessionId, EndedBy>,
    checkpoints: BTreeMap<SessionId, u32>,
}

/// A backup; a session that answers an epoch and dies; one that adopts it and commits; a reader;
/// tidying.
fn life(host: &Host, told: &mut Told) -> Result<(), SessionError> {
    let first = host.try_begin(1)?;
    told.begun.push(first.id());
    told.checkpoints
        .insert(first.id(), first.begin_checkpoint()?.write(draft(1))?);
    first.tick()?;
    first.commit(backup_of(&first, 2))?;
    told.endings.insert(first.id(), EndedBy::Committed);

    let second = host.try_begin(1)?;
    told.begun.push(second.id());
    second.choose_parents(|list| list.backups().map(crate::ManifestEntry::session).collect())?;
    for n in 1..4 {
        let references = vec![(data(first.id(), 0), range(0, n))];
        let number = second.begin_checkpoint()?.write(Draft {
            references,
            ..draft(n)
        })?;
        told.checkpoints.insert(second.id(), number);
        second.tick()?;
    }
    // An epoch exists, and the session answers with a checkpoint.
    let asks = Condemned {
        epoch: epoch(1),
        marks: Vec::new(),
        slots: vec![whole(data(first.id(), 1))],
    };
    host.objects().put_durably(&names::condemned(asks.epoch), &asks)?;
    assert!(second.tick()?.checkpoint_wanted);
    let number = second.begin_checkpoint()?.write(draft(4))?;
    told.checkpoints.insert(second.id(), number);
    assert!(!second.checkpoint_wanted());
    drop(second);

    let third = host.try_begin(1)?;
    told.begun.push(third.id());
    for dead in third.find_adoptable()? {
        let checkpoint = third.adopt(&dead)?.sessions[0].1;
        told.endings.insert(
            dead.session(),
            EndedBy::Adopted {
                by: third.id(),
                checkpoint,
            },
        );
    }
    third.commit(backup_of(&third, 0))?;
    told.endings.insert(third.id(), EndedBy::Committed);

    let reader = Session::begin_read(&host.sealer, 1, SessionPolicy::default())?;
    told.begun.push(reader.id());
    reader.choose_parents(|list| list.backups().map(crate::ManifestEntry::session).collect())?;
    reader.gc_sessions()?;
    reader.end()?;
    Ok(())
}

/// What must hold after any crash, whichever bytes survived.
fn check(host: &Host, told: &Told, when: &str) {
    let manifests = Manifests::new(&host.sealer);
    let list = manifests.list().unwrap();
    for (session, ending) in &told.endings {
        let entry = list
            .get(*session)
            .unwrap_or_else(|| panic!("{when}: the ending of {session} is lost"));
        let found = entry.ended_by().unwrap_or(EndedBy::Committed);
        assert_eq!(found, *ending, "{when}: session {session} has one ending");
    }
    let table = SessionTable::list(&host.sealer).unwrap();
    for info in &table.running {
        if let Some(beat) = info.heartbeat.as_ref().filter(|beat| beat.checkpoint.is_some()) {
            let newest = super::newest(host, info).map(|newest| (newest.answered, Some(newest.number)));
            let answer = Some((beat.answered, beat.checkpoint));
            assert!(
                newest >= answer,
                "{when}: {answer:?} was said, and there is {newest:?}"
            );
        }
        let Some(acknowledged) = told.checkpoints.get(&info.id) else {
            continue;
        };
        let read = super::newest(host, info);
        let read = read.unwrap_or_else(|| panic!("{when}: checkpoint {acknowledged} of {} is lost", info.id));
        assert!(read.number >= *acknowledged, "{when}");
    }
    for entry in list.backups() {
        for (old, checkpoint) in &entry.backup().unwrap().adopted {
            let Some(number) = checkpoint else { continue };
            let read = SessionTable::adopted_checkpoint(&host.sealer, *old, *number).unwrap();
            assert!(
                read.is_some(),
                "{when}: backup {} rests on checkpoint {number} of {old}",
                entry.session()
            );
        }
    }

    // The store still works: a new number, adoption of dead sessions, a backup, tidiness.
    let session = host.begin(1);
    assert!(
        told.begun.iter().all(|earlier| *earlier < session.id()),
        "{when}: a number was given out twice"
    );
    drop(session.find_adoptable().unwrap());
    host.clock.advance(LONG);
    let dead = session.find_adoptable().unwrap();
    for dead in &dead {
        let adopted = session.adopt(dead).unwrap();
        let (old, number) = adopted.sessions[0];
        assert!(
            number >= told.checkpoints.get(&old).copied(),
            "{when}: {adopted:?}"
        );
    }
    session.commit(backup_of(&session, 0)).unwrap();
    host.begin_read().gc_sessions().unwrap();
    let after = manifests.list().unwrap();
    assert!(after.get(session.id()).unwrap().backup().is_some(), "{when}");
    for entry in list.backups() {
        assert!(
            after.get(entry.session()).unwrap().backup().is_some(),
            "{when}: a backup vanished"
        );
    }
}

#[test]
fn a_power_cut_at_every_operation_loses_nothing_that_was_acknowledged() {
    let quiet = Host::new();
    life(&quiet, &mut Told::default()).unwrap();
    let operations = quiet.storage.counters().mutating();
    assert!(operations >= 55, "{operations}");
    for n in 1..=operations {
        for fault in [Fault::stop(n), Fault::stop_after(n), Fault::tear(n)] {
            let host = Host::new();
            host.storage.inject(fault);
            let mut told = Told::default();
            drop(life(&host, &mut told));
            for policy in POLICIES {
                let after = Host::of(host.storage.crash(policy), host.clock.clone());
                check(&after, &told, &format!("{fault:?}, {policy:?}"));
            }
        }
    }
}

#[test]
fn a_kill_at_every_operation_loses_nothing_and_live_objects_stay() {
    let quiet = Host::new();
    life(&quiet, &mut Told::default()).unwrap();
    let operations = quiet.storage.counters().all();
    for n in 1..=operations {
        for fault in [Fault::kill(n), Fault::kill_after(n)] {
            let machine = Host::new();
            let dying = machine.beside();
            dying.storage.inject_here(fault.counting(Counted::All));
            let mut told = Told::default();
            drop(life(&dying, &mut told));
            check(&machine.beside(), &told, &format!("{fault:?}"));
        }
    }
}

#[test]
fn an_operation_that_fails_once_leaves_a_store_that_works() {
    use env::fault::FailWith;
    let quiet = Host::new();
    life(&quiet, &mut Told::default()).unwrap();
    for n in 1..=quiet.storage.counters().all() {
        let host = Host::new();
        host.storage
            .inject(Fault::fail(n, FailWith::Io).counting(Counted::All));
        let mut told = Told::default();
        drop(life(&host, &mut told));
        host.storage.clear_faults();
        check(&host.beside(), &told, &format!("failing operation {n}"));
    }
}

/// Two sessions adopt one dead session, and it wakes to commit. Tests every interleaving of two of
/// the three.
#[test]
fn one_ending_wins_in_every_interleaving() {
    use env::ManualClock;
    use std::sync::Arc;

    let mut interfered = 0;
    for n in 0..40 {
        for rival_adopts in [true, false] {
            let machine = FaultStorage::new();
            let clock = ManualClock::default();
            let sleeper = Host::of(machine.handle_elsewhere(), ManualClock::default());
            let old = sleeper.begin(1);
            checkpoint(&old, draft(1));
            let rival_host = Host::of(machine.handle_elsewhere(), clock.clone());
            let rival = rival_host.begin(1);
            drop(rival.find_adoptable().unwrap());

            let won = Arc::new(Mutex::new(None));
            let (note, waking) = (Arc::clone(&won), old.clone());
            let act: Act = Box::new(move || {
                let result = if rival_adopts {
                    rival
                        .find_adoptable()
                        .unwrap()
                        .first()
                        .map(|dead| rival.adopt(dead).is_ok())
                } else {
                    Some(waking.commit(backup_of(&waking, 1)).is_ok())
                };
                *note.lock().unwrap() = result;
            });
            let storage = Arc::new(Interrupted::new(machine.handle_elsewhere(), usize::MAX, act));
            let sealer = super::sealer(storage.clone(), &clock);
            let adopter = Session::begin(&sealer, super::begin(1)).unwrap();
            drop(adopter.find_adoptable().unwrap());
            clock.advance(LONG);
            let dead = adopter.find_adoptable().unwrap();
            let dead = dead
                .iter()
                .find(|dead| dead.session() == old.id())
                .expect("silent for T");
            storage.count.store(usize::MAX - n, Ordering::Relaxed);
            let mine = adopter.adopt(dead).is_ok();
            let Some(theirs) = *won.lock().unwrap() else {
                continue;
            };
            assert!(mine != theirs, "operation {n}: adopter {mine}, rival {theirs}");
            let list = Manifests::new(&sleeper.sealer).list().unwrap();
            let entry = list.get(old.id()).expect("it ended");
            assert_eq!(entry.revisions.len(), 1);
            assert_eq!(entry.backup().is_some(), theirs && !rival_adopts);
            assert!(old.tick().is_err());
            interfered += 1;
        }
    }
    assert!(interfered >= 16, "{interfered}");
}
