//! Beginning a session: numbers, the order of operations, the lock.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::thread;

use env::fault::{Counted, FailWith, Fault, FaultStorage, OpKind};
use env::{LockState, Storage};
use format::names::{self, SessionObject};
use format::session::Claim;
use types::{ObjectName, Revision, SessionId};

use super::silence::Wrapped;
use super::{Host, LONG, backup_of, begin, checkpoint, draft, id, plain_backup, sealer, series};
use crate::objects::{Objects, Put};
use crate::{
    DeadBecause, DeathWatch, Life, Listing, Manifests, Session, SessionError, SessionPolicy, SessionTable,
};

#[test]
fn sixteen_threads_get_sixteen_numbers() {
    let storage = FaultStorage::new();
    let threads: Vec<_> = (0..16u8)
        .map(|n| {
            let handle = if n % 2 == 0 {
                storage.handle()
            } else {
                storage.handle_elsewhere()
            };
            thread::spawn(move || {
                let host = Host::of(handle, env::ManualClock::default());
                let mut claimed = Vec::new();
                for _ in 0..3 {
                    claimed.push(host.begin(n % 3 + 1));
                }
                claimed.iter().map(Session::id).collect::<Vec<_>>()
            })
        })
        .collect();
    let mut all: Vec<_> = threads
        .into_iter()
        .flat_map(|thread| thread.join().unwrap())
        .collect();
    all.sort_unstable();
    all.dedup();
    assert_eq!(all.len(), 48, "numbers are distinct");
    let claims = all.iter().map(|id| names::claim(*id).to_string());
    let listed = Host::of(storage, env::ManualClock::default()).names("sessions");
    let listed = listed.into_iter().filter(|name| name.ends_with("claim"));
    assert!(listed.eq(claims), "no claim stays that was given up");
}

/// Begins a session that sleeps right before each lock or claim. Meanwhile `meanwhile` runs with
/// the number.
fn begin_sleeping(
    host: &Host,
    before: SessionObject,
    meanwhile: impl Fn(SessionId) + Send + Sync + 'static,
) -> Result<Session, SessionError> {
    let sleep = move |name: &ObjectName| {
        if let Some((id, object)) = names::parse_session_object(name)
            && object == before
        {
            meanwhile(id);
        }
    };
    let storage = super::silence::Wrapped::new(host.storage.clone(), Box::new(sleep));
    Session::begin(&sealer(Arc::new(storage), &host.clock), super::begin(1))
}

#[test]
fn a_number_that_another_had_while_its_claimer_slept_is_given_up() {
    let host = Host::new();
    let (beside, tidier) = (host.elsewhere(), host.elsewhere());
    // After that, on a storage with locks, no other session can have the number.
    let session = begin_sleeping(&host, SessionObject::Lock, move |number| {
        if number == id(1) {
            let read = beside.begin_read();
            assert_eq!(read.id(), number);
            read.end().unwrap();
            tidier.begin(2).gc_sessions().unwrap();
            assert!(
                !beside
                    .names("sessions")
                    .contains(&names::claim(number).to_string())
            );
        }
    })
    .unwrap();
    assert_eq!(session.id(), id(3));
    let running = || SessionTable::list(&host.sealer).unwrap().running;
    assert_eq!(
        running().last().map(|info| info.id),
        Some(session.id()),
        "epochs wait for it"
    );
    checkpoint(&session, draft(1));
    host.begin_read().gc_sessions().unwrap();
    assert_eq!(running()[1].checkpoints.len(), 1, "what it shows of itself stays");
    session.commit(backup_of(&session, 1)).unwrap();
}

#[test]
fn of_two_sessions_that_begin_at_once_the_lower_gives_way() {
    let host = Host::new();
    let other = host.elsewhere();
    let claim = |objects: &Objects, number| {
        let claim = Claim {
            series: series(2),
            name: super::series_name(2),
            process: 1,
            has_lock: true,
        };
        assert_eq!(objects.put(&names::claim(number), &claim).unwrap(), Put::Created);
    };
    let objects = other.objects();
    let session = begin_sleeping(&host, SessionObject::Claim, move |number| {
        if number == id(1) {
            claim(&objects, id(2));
        }
    });
    assert_eq!(session.unwrap().id(), id(3));
    assert!(host.names(&names::session_folder(id(1))).is_empty(), "given up");
    assert!(
        host.names(&names::session_folder(id(2)))
            .contains(&names::claim(id(2)).to_string())
    );

    let host = Host::new();
    let objects = host.elsewhere().objects();
    let refused = begin_sleeping(&host, SessionObject::Claim, move |number| {
        claim(&objects, number.next())
    });
    assert!(
        matches!(refused, Err(SessionError::Contended { .. })),
        "not for ever"
    );
}

#[test]
fn numbers_are_above_manifests_whose_claims_are_lost() {
    let host = Host::new();
    let manifest = format::manifest::Manifest::Commit(plain_backup(1));
    let name = names::manifest(series(1), id(41), Revision::FIRST);
    assert_eq!(
        Objects::new(&host.sealer).put_durably(&name, &manifest).unwrap(),
        Put::Created
    );
    assert_eq!(host.begin(1).id(), id(42));
    assert_eq!(host.begin_read().id(), id(43));
}

#[test]
fn the_order_is_lock_claim_barrier_epochs_heartbeat() {
    let host = Host::new();
    host.condemn(3, Vec::new());
    host.storage.start_trace();
    let session = host.begin(1);
    let trace = host.storage.take_trace();
    let at = |kind: OpKind, name: &str| {
        trace
            .iter()
            .position(|operation| operation.kind == kind && operation.name == name)
            .unwrap_or_else(|| panic!("{kind:?} of {name} in {trace:?}"))
    };
    let folder = names::session_folder(session.id());
    let order = [
        at(OpKind::List, "sessions"),
        at(OpKind::Lock, &format!("{folder}/lock")),
        at(OpKind::Put, &format!("{folder}/claim")),
        at(OpKind::Barrier, ""),
        at(OpKind::List, "condemned"),
        at(OpKind::List, "removed"),
        at(OpKind::Put, &format!("{folder}/heartbeat.0")),
    ];
    assert!(order.is_sorted(), "{order:?} of {trace:?}");
    let is_listing = |at: &usize| trace[*at].kind == OpKind::List && trace[*at].name == "sessions";
    let again = (0..trace.len()).rfind(is_listing).unwrap();
    assert!(
        (order[2]..order[3]).contains(&again),
        "is it still the highest? {trace:?}"
    );
    let table = SessionTable::list(&host.sealer).unwrap();
    assert!(
        table.running[0].has_answered(super::epoch(3)),
        "the first heartbeat answers what it saw"
    );
    assert!(!table.running[0].has_answered(super::epoch(4)));
}

/// How a session fails while it begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ends {
    Killed,
    Fails(FailWith),
    /// From then on no object can be put. All other operations work.
    NoSpace,
    /// From then on no operation works.
    Away,
}

impl Ends {
    const ALL: [Self; 5] = [
        Self::Killed,
        Self::Fails(FailWith::Io),
        Self::Fails(FailWith::NoSpace),
        Self::NoSpace,
        Self::Away,
    ];

    fn at(self, n: u64) -> Fault {
        match self {
            Self::Killed => Fault::kill(n).counting(Counted::All),
            Self::Fails(with) => Fault::fail(n, with).counting(Counted::All),
            Self::NoSpace => Fault::fail_from(n, FailWith::NoSpace).counting(Counted::Only(OpKind::Put)),
            Self::Away => Fault::fail_from(n, FailWith::Io).counting(Counted::All),
        }
    }
}

#[test]
fn a_session_that_fails_while_it_begins_is_dead_at_the_first_look() {
    for ends in Ends::ALL {
        for is_read in [false, true] {
            let mut n = 0;
            loop {
                n += 1;
                let when = format!("{ends:?} at {n}, of one that reads: {is_read}");
                let host = Host::new();
                host.condemn(3, Vec::new());
                let before = host.begin(2);
                let dying = host.beside();
                dying.storage.inject_here(ends.at(n));
                let begun = if is_read {
                    Session::begin_read(&dying.sealer, 1, SessionPolicy::default())
                } else {
                    dying.try_begin(1)
                };
                if begun.is_ok() {
                    assert!(n > 2, "{when}");
                    break;
                }
                let watch = DeathWatch::new(host.sealer.env().clone(), SessionPolicy::default());
                let table = SessionTable::list(&host.sealer).unwrap();
                assert!(table.damaged.is_empty(), "{when}");
                let left: Vec<_> = table
                    .running
                    .iter()
                    .filter(|info| info.id != before.id())
                    .collect();
                if matches!(ends, Ends::Fails(_)) {
                    assert!(left.is_empty(), "an orderly failure ends what it began: {when}");
                }
                for info in left {
                    assert_eq!(watch.observe(info), Life::Dead(DeadBecause::LockFree), "{when}");
                    before.expire(info).unwrap();
                }
                let next = host.begin(1);
                assert!(next.id() > before.id(), "{when}");
                assert_eq!(
                    host.storage.lock_state(&names::session_lock(next.id())).unwrap(),
                    LockState::Held,
                    "{when}"
                );
            }
        }
    }
}

#[test]
fn a_number_whose_lock_another_has_is_passed_over() {
    let host = Host::new();
    let (beside, elsewhere) = (host.beside(), host.elsewhere());
    let lock = |of: &Host, n| of.storage.lock(&names::session_lock(id(n))).unwrap().unwrap();
    // A process of another host may be about to put its claim, or be dead: this host cannot know.
    let (_held, freed) = (lock(&beside, 1), lock(&elsewhere, 2));
    drop(freed);
    let session = host.begin(1);
    assert_eq!(session.id(), id(3));
    // This host can know about its own processes.
    drop(lock(&beside, 4));
    assert_eq!(host.begin(1).id(), id(4));
}

#[test]
fn a_session_that_loses_a_number_leaves_no_lock_of_it() {
    let host = Host::new();
    let objects = host.elsewhere().objects();
    let session = begin_sleeping(&host, SessionObject::Claim, move |number| {
        if number == id(1) {
            let claim = Claim {
                series: series(2),
                name: super::series_name(2),
                process: 1,
                has_lock: false,
            };
            objects.put(&names::claim(number), &claim).unwrap();
        }
    });
    assert_eq!(session.unwrap().id(), id(2));
    let lock = host.storage.lock_state(&names::session_lock(id(1))).unwrap();
    assert_eq!(
        lock,
        LockState::Missing,
        "a free one would say that the other is dead"
    );
}

#[test]
fn a_lock_held_is_life_and_a_lock_let_go_is_death() {
    let host = Host::new();
    let other = host.beside();
    let far = host.elsewhere();
    let session = other.begin(1);
    let (near_watch, far_watch) = [&host, &far]
        .map(|h| DeathWatch::new(h.sealer.env().clone(), SessionPolicy::default()))
        .into();
    let info = |from: &Host| {
        SessionTable::list(&from.sealer)
            .unwrap()
            .get(session.id())
            .unwrap()
            .clone()
    };
    host.clock.advance(LONG * 10);
    assert_eq!(
        near_watch.observe(&info(&host)),
        Life::Alive,
        "silent, but its lock is held"
    );
    assert!(matches!(far_watch.observe(&info(&far)), Life::Unsure { .. }));
    far.clock.advance(LONG / 2);
    session.tick().unwrap();
    assert!(
        matches!(far_watch.observe(&info(&far)), Life::Unsure { .. }),
        "it moved"
    );
    far.clock.advance(LONG / 2);
    assert!(
        matches!(far_watch.observe(&info(&far)), Life::Unsure { .. }),
        "it moved half of T ago"
    );
    far.clock.suspend(LONG * 100);
    assert!(
        matches!(far_watch.observe(&info(&far)), Life::Unsure { .. }),
        "the watcher's own sleep is no time"
    );
    far.clock.advance(LONG / 2);
    assert!(matches!(
        far_watch.observe(&info(&far)),
        Life::Dead(DeadBecause::Unmoved(_))
    ));
    other.storage.kill();
    assert_eq!(
        near_watch.observe(&info(&host)),
        Life::Dead(DeadBecause::LockFree)
    );
}

#[test]
fn a_claim_that_comes_back_without_its_lock_keeps_nobody_waiting() {
    let host = Host::new();
    let session = host.begin_read();
    let back = session.id();
    let claim = host.storage.get(&names::claim(back)).unwrap();
    session.end().unwrap();
    let next = host.begin(1);
    for _its_claim_then_its_ending in 0..2 {
        next.gc_sessions().unwrap();
    }
    host.storage.put(&names::claim(back), &[&claim]).unwrap();
    for from in [&host, &host.elsewhere()] {
        let watch = DeathWatch::new(from.sealer.env().clone(), SessionPolicy::default());
        let table = SessionTable::list(&from.sealer).unwrap();
        let info = table.get(back).expect("it looks as if it ran");
        assert_eq!(watch.observe(info), Life::Dead(DeadBecause::LockFree));
    }
}

#[test]
fn a_begin_that_fails_leaves_no_running_session() {
    let host = Host::new();
    host.storage
        .inject(Fault::fail(1, FailWith::NoSpace).counting(Counted::Only(OpKind::Lock)));
    host.try_begin(1).unwrap_err();
    assert!(host.names("").is_empty());
    host.storage
        .inject(Fault::fail(1, FailWith::Io).counting(Counted::Only(OpKind::Barrier)));
    host.try_begin(1).unwrap_err();
    assert!(SessionTable::list(&host.sealer).unwrap().running.is_empty());
    assert_eq!(host.begin(1).id(), id(2), "its number stays taken");
}

#[test]
fn a_torn_claim_hides_nobody_and_its_number_stays_taken() {
    let host = Host::new();
    host.storage.inject(Fault::tear(1));
    host.try_begin(1).unwrap_err();
    let after = host.storage.crash(env::fault::CrashPolicy::KeepAll);
    let host = Host::of(after, host.clock.clone());
    let session = host.begin(1);
    assert_eq!(session.id(), id(2));
    let table = SessionTable::list(&host.sealer).unwrap();
    assert_eq!(table.running.len(), 1);
    assert_eq!(table.damaged.len(), 1);
    assert_eq!(table.damaged[0].name, names::claim(id(1)));
}

#[test]
fn a_storage_without_locks_serves() {
    let clock = env::ManualClock::default();
    let storage: Arc<dyn Storage> = Arc::new(super::silence::Wrapped::without_locks(FaultStorage::new()));
    let sealer = sealer(storage, &clock);
    let session = Session::begin(&sealer, super::begin(1)).unwrap();
    session.tick().unwrap();
    session.commit(super::backup_of(&session, 0)).unwrap();
}

/// A process sleeps when its claim is only an empty folder. Another session finds its number by
/// this folder, and no session table shows it before it wakes.
#[test]
fn a_session_that_is_claiming_is_not_overlooked() {
    let host = Host::of(FaultStorage::new(), env::ManualClock::default());
    let (claims, folder_made) = mpsc::channel();
    let (go, goes_on) = mpsc::channel::<()>();
    let goes_on = Mutex::new(goes_on);
    let first = AtomicBool::new(true);
    let storage = super::silence::Wrapped::new(
        host.storage.handle(),
        Box::new(move |name| {
            let parsed = names::parse_session_object(name);
            if let Some((id, SessionObject::Claim)) = parsed
                && first.swap(false, Ordering::Relaxed)
            {
                claims.send(id).unwrap();
                goes_on.lock().unwrap().recv().unwrap();
            }
        }),
    );
    let other_sealer = sealer(Arc::new(storage), &host.clock);
    let other = thread::spawn(move || Session::begin(&other_sealer, super::begin(1)).unwrap());
    let claiming = folder_made.recv().unwrap();
    // A folder without a claim yet.
    host.storage.put(&names::heartbeat(claiming, 9), &[b"-"]).unwrap();
    let other = Mutex::new(Some(other));
    let done = Arc::new(Mutex::new(None));
    let out = Arc::clone(&done);
    let storage = super::silence::Wrapped::new(
        host.storage.handle(),
        Box::new(move |name| {
            let parsed = names::parse_session_object(name);
            if matches!(parsed, Some((_, SessionObject::Claim)))
                && let Some(other) = other.lock().unwrap().take()
            {
                go.send(()).unwrap();
                *out.lock().unwrap() = Some(other.join().unwrap());
            }
        }),
    );
    let own_sealer = sealer(Arc::new(storage), &host.clock);
    let manifests = Manifests::new(&own_sealer);
    let (own, listing) = Session::begin_read_listed(&manifests, 1, SessionPolicy::default()).unwrap();
    let other = done.lock().unwrap().take().unwrap();
    assert_eq!((other.id(), own.id()), (claiming, claiming.next()));
    other.ensure_running().unwrap();
    let listing = manifests
        .list_sessions_of(&own, &listing, &BTreeMap::new())
        .unwrap();
    assert_eq!(listing, None, "another runs");
}

#[test]
fn a_listing_is_as_good_as_new_while_nobody_else_is_there() {
    let host = Host::of(FaultStorage::new(), env::ManualClock::default());
    let begin = || {
        let manifests = Manifests::new(&host.sealer);
        let (session, listing) = Session::begin_read_listed(&manifests, 1, SessionPolicy::default()).unwrap();
        (manifests, session, listing)
    };
    let is_good = |(manifests, session, listing): &(Manifests, Session, Listing)| {
        let listing = manifests.list_sessions_of(session, listing, &BTreeMap::new());
        listing.unwrap().is_some()
    };
    let ended = host.begin(1);
    ended.commit(plain_backup(1)).unwrap();
    let alone = begin();
    assert!(is_good(&alone));
    let later = host.begin(2);
    assert!(!is_good(&alone), "another has begun since");
    later.end().unwrap();
    assert!(!is_good(&alone), "and ended");
    assert!(!is_good(&begin()), "a read session runs");
}

/// A process that slept before putting its claim may have a lower number. It puts no other object
/// until it has given way.
#[test]
fn a_later_claim_of_a_lower_number_changes_nothing() {
    let host = Host::of(FaultStorage::new(), env::ManualClock::default());
    let number = |n| SessionId::new(n).unwrap();
    // The lower numbers are free, and the next number is above this folder.
    host.storage
        .put(&names::heartbeat(number(2), 9), &[b"-"])
        .unwrap();
    let manifests = Manifests::new(&host.sealer);
    let (own, listing) = Session::begin_read_listed(&manifests, 1, SessionPolicy::default()).unwrap();
    assert_eq!(own.id(), number(3));
    let claim = Claim {
        series: series(1),
        name: super::begin(1).name,
        process: 1,
        has_lock: true,
    };
    let objects = Objects::new(&host.sealer);
    for (id, is_good) in [(number(1), true), (number(4), false)] {
        objects.put(&names::claim(id), &claim).unwrap();
        let listing = manifests
            .list_sessions_of(&own, &listing, &BTreeMap::new())
            .unwrap();
        assert_eq!(listing.is_some(), is_good, "{id} has claimed");
    }
}

/// Locks beside an object store are of one machine. If a session took its lock before its claim, a
/// process that was killed in between would leave a free lock for the number, which another machine
/// may claim.
#[test]
fn beside_an_object_store_the_lock_follows_the_claim() {
    for is_far in [true, false] {
        let seen = Arc::new(Mutex::new(Vec::new()));
        let note = {
            let seen = Arc::clone(&seen);
            Box::new(move |name: &ObjectName| seen.lock().unwrap().push(name.clone()))
        };
        let host = Host::new();
        let storage = if is_far {
            Wrapped::far_with_locks(host.storage.clone(), note)
        } else {
            Wrapped::new(host.storage.clone(), note)
        };
        let session = Session::begin(&sealer(Arc::new(storage), &host.clock), begin(1)).unwrap();
        let seen = seen.lock().unwrap();
        let at = |name: ObjectName| seen.iter().position(|other| *other == name).unwrap();
        let (lock, claim) = (
            at(names::session_lock(session.id())),
            at(names::claim(session.id())),
        );
        assert_eq!(claim < lock, is_far, "{seen:?}");
    }
}
