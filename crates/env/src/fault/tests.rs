//! The fault storage does what its module says, compared with a log of all operations.

use std::collections::BTreeMap;

use proptest::prelude::*;
use types::ObjectName;

use super::*;
use crate::{LockState, ManualClock, Storage, StorageError};

const POLICIES: [CrashPolicy; 4] = [
    CrashPolicy::KeepAll,
    CrashPolicy::DropAll,
    CrashPolicy::TearAll,
    CrashPolicy::Seeded(5),
];

fn name(name: &str) -> ObjectName {
    ObjectName::new(name).unwrap()
}

fn put(storage: &FaultStorage, object: &str, bytes: &[u8]) {
    storage.put(&name(object), &[bytes]).unwrap();
}

fn bytes(storage: &FaultStorage, object: &str) -> Option<Vec<u8>> {
    match storage.get(&name(object)) {
        Ok(bytes) => Some(bytes),
        Err(StorageError::NotFound { .. }) => None,
        Err(error) => panic!("{error}"),
    }
}

fn is_gone<T>(outcome: Result<T, StorageError>) -> bool {
    matches!(outcome, Err(StorageError::Gone { .. }))
}

#[test]
fn objects_under_a_barrier_survive_and_the_policy_decides_on_the_rest() {
    let storage = FaultStorage::new();
    put(&storage, "durable", b"12345678");
    storage.barrier().unwrap();
    put(&storage, "loose", b"12345678");
    assert!(storage.is_durable(&name("durable")) && !storage.is_durable(&name("loose")));
    for policy in POLICIES {
        assert_eq!(bytes(&storage.crash(policy), "durable").unwrap(), b"12345678");
    }
    assert_eq!(
        bytes(&storage.crash(CrashPolicy::KeepAll), "loose").unwrap(),
        b"12345678"
    );
    assert_eq!(bytes(&storage.crash(CrashPolicy::DropAll), "loose"), None);
    assert_eq!(
        bytes(&storage.crash(CrashPolicy::TearAll), "loose").unwrap(),
        b"1234"
    );
    assert_eq!(
        bytes(&storage, "loose").unwrap(),
        b"12345678",
        "the machine itself has not crashed"
    );
}

#[test]
fn tearing_cuts_and_zeroes_in_turn() {
    let storage = FaultStorage::new();
    put(&storage, "a", b"1234");
    put(&storage, "b", b"1234");
    let after = storage.crash(CrashPolicy::TearAll);
    assert_eq!(bytes(&after, "a").unwrap(), b"12");
    assert_eq!(bytes(&after, "b").unwrap(), b"12\0\0");
}

#[test]
fn an_unbarriered_delete_may_come_back() {
    let storage = FaultStorage::new();
    put(&storage, "a", b"1");
    storage.barrier().unwrap();
    storage.delete(&name("a")).unwrap();
    assert_eq!(bytes(&storage.crash(CrashPolicy::KeepAll), "a"), None);
    assert_eq!(bytes(&storage.crash(CrashPolicy::DropAll), "a").unwrap(), b"1");
    assert_eq!(
        bytes(&storage.crash(CrashPolicy::TearAll), "a").unwrap(),
        b"1",
        "it was whole on the disk"
    );
    storage.barrier().unwrap();
    for policy in POLICIES {
        assert_eq!(bytes(&storage.crash(policy), "a"), None);
    }
}

#[test]
fn seeds_decide_each_object_on_its_own_and_repeat_themselves() {
    let storage = FaultStorage::new();
    for object in 0..40 {
        put(&storage, &format!("{object}"), b"0123456789");
    }
    let outcome = |seed| {
        let after = storage.crash(CrashPolicy::Seeded(seed));
        (0..40)
            .map(|object| bytes(&after, &format!("{object}")))
            .collect::<Vec<_>>()
    };
    assert_eq!(outcome(1), outcome(1));
    assert_ne!(outcome(1), outcome(2));
    let found = outcome(3);
    let whole = found
        .iter()
        .flatten()
        .filter(|bytes| *bytes == b"0123456789")
        .count();
    let gone = found.iter().filter(|bytes| bytes.is_none()).count();
    let zeroed = found
        .iter()
        .flatten()
        .filter(|bytes| bytes.ends_with(b"\0"))
        .count();
    let cut = found.iter().flatten().filter(|bytes| bytes.len() < 10).count();
    assert!(
        whole > 0 && gone > 0 && zeroed > 0 && cut > 0,
        "{whole} {gone} {zeroed} {cut}"
    );
}

#[test]
fn a_barrier_covers_only_objects_that_its_process_put_read_or_listed() {
    let ours = FaultStorage::new();
    let theirs = ours.handle();
    for object in [
        "f/read",
        "f/ranged",
        "f/headed",
        "g/listed",
        "h/lost-to",
        "unseen",
    ] {
        put(&theirs, object, b"1");
    }
    ours.barrier().unwrap();
    assert_eq!(
        ours.crash(CrashPolicy::DropAll).list("").unwrap(),
        [],
        "we have seen nothing"
    );
    ours.get(&name("f/read")).unwrap();
    ours.get_tail(&name("f/ranged"), 1).unwrap();
    ours.head(&name("f/headed")).unwrap();
    ours.list("g").unwrap();
    ours.list_folders("").unwrap();
    assert!(ours.put(&name("h/lost-to"), &[]).is_err());
    assert_eq!(
        ours.crash(CrashPolicy::DropAll).list("").unwrap(),
        [],
        "there was no barrier"
    );
    ours.barrier().unwrap();
    let left: Vec<_> = ours
        .crash(CrashPolicy::DropAll)
        .list("")
        .unwrap()
        .into_iter()
        .map(|meta| meta.name)
        .collect();
    assert_eq!(
        left,
        ["f/headed", "f/ranged", "f/read", "g/listed", "h/lost-to"].map(name)
    );
}

#[test]
fn a_barrier_covers_an_observed_absence() {
    let ours = FaultStorage::new();
    let theirs = ours.handle();
    for object in ["a", "f/b", "c"] {
        put(&theirs, object, b"1");
    }
    theirs.barrier().unwrap();
    for object in ["a", "f/b", "c"] {
        theirs.delete(&name(object)).unwrap();
    }
    assert_eq!(bytes(&ours, "a"), None);
    assert_eq!(ours.list("f").unwrap(), []);
    ours.barrier().unwrap();
    let after = ours.crash(CrashPolicy::DropAll);
    assert_eq!((bytes(&after, "a"), bytes(&after, "f/b")), (None, None));
    assert_eq!(bytes(&after, "c").unwrap(), b"1", "nobody looked");
}

#[test]
fn a_barrier_does_not_cover_later_changes() {
    let ours = FaultStorage::new();
    let theirs = ours.handle();
    put(&ours, "a", b"1");
    theirs.delete(&name("a")).unwrap();
    put(&theirs, "a", b"2");
    ours.barrier().unwrap();
    assert_eq!(bytes(&ours.crash(CrashPolicy::DropAll), "a").unwrap(), b"1");
    assert_eq!(bytes(&ours.crash(CrashPolicy::KeepAll), "a").unwrap(), b"2");
    theirs.barrier().unwrap();
    assert_eq!(bytes(&ours.crash(CrashPolicy::DropAll), "a").unwrap(), b"2");
}

#[test]
fn the_machine_stops_before_or_after_the_nth_operation_and_for_all() {
    for carried_out in [false, true] {
        let storage = FaultStorage::new();
        let other = storage.handle();
        storage.inject(if carried_out {
            Fault::stop_after(3)
        } else {
            Fault::stop(3)
        });
        put(&storage, "a", b"1");
        put(&other, "b", b"1");
        assert!(is_gone(storage.barrier()));
        assert!(storage.is_gone() && other.is_gone());
        assert!(is_gone(other.get(&name("a"))));
        assert_eq!(storage.counters().mutating(), 3);
        let after = storage.crash(CrashPolicy::DropAll);
        assert_eq!(
            bytes(&after, "a").is_some(),
            carried_out,
            "a barrier covers what its process has put"
        );
        assert_eq!(bytes(&after, "b"), None);
    }
}

#[test]
fn a_stopped_put_is_there_only_if_it_was_carried_out() {
    for (fault, there) in [(Fault::stop(1), false), (Fault::stop_after(1), true)] {
        let storage = FaultStorage::new();
        storage.inject(fault);
        assert!(is_gone(storage.put(&name("a"), &[b"1"])));
        assert_eq!(bytes(&storage.crash(CrashPolicy::KeepAll), "a").is_some(), there);
    }
}

#[test]
fn counting_all_stops_at_reads_too() {
    let storage = FaultStorage::new();
    put(&storage, "a", b"1");
    storage.inject(Fault::stop(2).counting(Counted::All));
    storage.get(&name("a")).unwrap();
    assert!(is_gone(storage.list("")));
}

#[test]
fn a_killed_process_leaves_its_work_and_frees_its_locks() {
    let ours = FaultStorage::new();
    let theirs = ours.handle();
    let lock = theirs.lock(&name("lock")).unwrap().unwrap();
    assert_eq!(ours.lock_state(&name("lock")).unwrap(), LockState::Held);
    put(&theirs, "a", b"1");
    theirs.kill();
    assert!(is_gone(theirs.barrier()) && theirs.is_gone() && !ours.is_gone());
    assert_eq!(bytes(&ours, "a").unwrap(), b"1");
    assert_eq!(ours.lock_state(&name("lock")).unwrap(), LockState::Free);
    let again = ours.lock(&name("lock")).unwrap();
    drop(lock);
    assert_eq!(
        ours.lock_state(&name("lock")).unwrap(),
        LockState::Held,
        "the dead one's guard frees nothing"
    );
    drop(again);
}

#[test]
fn a_fault_kills_its_caller_alone() {
    for carried_out in [false, true] {
        let ours = FaultStorage::new();
        let theirs = ours.handle();
        theirs.inject_here(if carried_out {
            Fault::kill_after(1)
        } else {
            Fault::kill(1)
        });
        put(&ours, "mine", b"1");
        assert!(is_gone(theirs.put(&name("a"), &[b"1"])));
        assert!(theirs.is_gone() && !ours.is_gone());
        assert_eq!(bytes(&ours, "a").is_some(), carried_out);
    }
}

#[test]
fn a_lock_that_its_taker_never_hears_of_is_free() {
    for fault in [Fault::kill_after(1), Fault::stop_after(1)] {
        let ours = FaultStorage::new();
        let theirs = ours.handle();
        theirs.inject_here(fault.counting(Counted::Only(OpKind::Lock)));
        assert!(is_gone(theirs.lock(&name("lock"))));
        if !ours.is_gone() {
            assert_eq!(ours.lock_state(&name("lock")).unwrap(), LockState::Free);
        }
    }
}

#[test]
fn a_process_ends_with_its_last_handle() {
    let ours = FaultStorage::new();
    let theirs = ours.handle();
    let thread = theirs.clone();
    let lock = thread.lock(&name("lock")).unwrap();
    std::mem::drop(theirs);
    assert_eq!(ours.lock_state(&name("lock")).unwrap(), LockState::Held);
    drop(thread);
    assert_eq!(ours.lock_state(&name("lock")).unwrap(), LockState::Free);
    drop(lock);
}

#[test]
fn locks_of_another_host_are_unknown_and_cannot_be_taken() {
    let here = FaultStorage::new();
    let there = here.handle_elsewhere();
    let lock = there.lock(&name("lock")).unwrap();
    assert_eq!(here.lock_state(&name("lock")).unwrap(), LockState::Unknown);
    assert_eq!(there.handle().lock_state(&name("lock")).unwrap(), LockState::Held);
    drop(lock);
    assert_eq!(here.lock_state(&name("lock")).unwrap(), LockState::Unknown);
    assert!(matches!(
        here.lock(&name("lock")),
        Err(StorageError::Locked { .. })
    ));
    here.drop_lock(&name("lock")).unwrap();
    assert!(here.lock(&name("lock")).is_ok());
}

#[test]
fn nobody_holds_a_lock_after_a_crash() {
    let storage = FaultStorage::new();
    let _lock = storage.lock(&name("lock")).unwrap();
    let after = storage.crash(CrashPolicy::KeepAll);
    assert_eq!(after.lock_state(&name("lock")).unwrap(), LockState::Free);
    assert!(after.handle().lock(&name("lock")).is_ok());
    assert_eq!(
        storage
            .crash(CrashPolicy::DropAll)
            .lock_state(&name("lock"))
            .unwrap(),
        LockState::Missing
    );
}

#[test]
fn operations_fail_once_or_from_then_on_and_without_effect() {
    let storage = FaultStorage::new();
    storage.inject(Fault::fail(2, FailWith::Io));
    put(&storage, "a", b"1");
    assert!(matches!(
        storage.put(&name("b"), &[b"1"]),
        Err(StorageError::Io { .. })
    ));
    assert_eq!(bytes(&storage, "b"), None);
    put(&storage, "b", b"1");
    storage.inject(Fault::fail_from(1, FailWith::NoSpace).counting(Counted::Only(OpKind::Put)));
    for _ in 0..3 {
        assert!(matches!(
            storage.put(&name("c"), &[]),
            Err(StorageError::NoSpace { .. })
        ));
    }
    storage.clear_faults();
    put(&storage, "c", b"");
}

#[test]
fn a_failed_barrier_makes_nothing_durable_and_the_next_one_does() {
    let storage = FaultStorage::new();
    put(&storage, "a", b"1");
    storage.inject(Fault::fail(1, FailWith::Io).counting(Counted::Only(OpKind::Barrier)));
    assert!(storage.barrier().is_err());
    assert_eq!(bytes(&storage.crash(CrashPolicy::DropAll), "a"), None);
    storage.barrier().unwrap();
    assert_eq!(bytes(&storage.crash(CrashPolicy::DropAll), "a").unwrap(), b"1");
}

#[test]
fn a_full_storage_takes_nothing_until_something_is_deleted() {
    let storage = FaultStorage::new();
    storage.set_capacity_bytes(Some(10));
    put(&storage, "a", &[0; 6]);
    assert!(matches!(
        storage.put(&name("b"), &[&[0; 5]]),
        Err(StorageError::NoSpace { .. })
    ));
    put(&storage, "c", &[0; 4]);
    put(&storage, "empty", &[]);
    storage.delete(&name("a")).unwrap();
    put(&storage, "b", &[0; 5]);
    let after = storage.crash(CrashPolicy::KeepAll);
    assert!(matches!(
        after.put(&name("d"), &[&[0; 2]]),
        Err(StorageError::NoSpace { .. })
    ));
    put(&after, "d", &[0; 1]);
}

#[test]
fn a_torn_put_stays_torn_under_every_policy() {
    let storage = FaultStorage::new();
    storage.inject(Fault::tear(2));
    put(&storage, "a", b"1234");
    assert!(is_gone(storage.put(&name("b"), &[b"1234"])));
    for policy in POLICIES {
        assert_eq!(bytes(&storage.crash(policy), "b").unwrap(), b"12");
    }
}

#[test]
fn counters_count_requests_of_all_handles_and_of_each() {
    let ours = FaultStorage::new();
    let theirs = ours.handle();
    put(&ours, "f/a", b"12345");
    put(&theirs, "f/b", b"123");
    let before = ours.counters();
    ours.get(&name("f/a")).unwrap();
    ours.get_range(&name("f/a"), types::ByteRange { offset: 1, len: 2 })
        .unwrap();
    ours.get(&name("f/none")).unwrap_err();
    ours.list("f").unwrap();
    ours.head(&name("f/b")).unwrap();
    ours.barrier().unwrap();
    let counted = ours.counters().since(&before);
    assert_eq!(
        (counted.gets, counted.get_bytes, counted.lists, counted.listed),
        (3, 7, 1, 2)
    );
    assert_eq!((counted.heads, counted.barriers, counted.puts), (1, 1, 0));
    assert_eq!((counted.mutating(), counted.all()), (1, 6));
    assert_eq!(
        (theirs.counters_here().puts, theirs.counters_here().put_bytes),
        (1, 3)
    );
    assert_eq!((ours.counters().puts, ours.counters().put_bytes), (2, 8));
}

#[test]
fn a_trace_has_the_order_of_operations() {
    let storage = FaultStorage::new();
    put(&storage, "before", b"");
    storage.start_trace();
    put(&storage, "data/1", b"12");
    storage.barrier().unwrap();
    storage.get(&name("data/1")).unwrap();
    let trace = storage.take_trace();
    assert_eq!(trace.len(), 3);
    assert!(trace[0].is(OpKind::Put, "data") && trace[0].bytes == 2);
    assert_eq!(trace[1].kind, OpKind::Barrier);
    assert!(trace[2].is(OpKind::Get, "data") && !trace[2].is(OpKind::Get, "dat"));
}

#[test]
fn damage_and_loss_are_durable() {
    let storage = FaultStorage::new();
    put(&storage, "a", b"123");
    put(&storage, "b", b"123");
    assert!(storage.damage(&name("a"), |bytes| bytes[1] ^= 1));
    assert!(storage.lose(&name("b")));
    assert!(!storage.damage(&name("b"), Vec::clear) && !storage.lose(&name("b")));
    for policy in POLICIES {
        let after = storage.crash(policy);
        assert_eq!(
            (bytes(&after, "a").unwrap(), bytes(&after, "b")),
            (b"133".to_vec(), None)
        );
    }
}

#[test]
fn reads_that_touch_an_unreadable_sector_fail_and_others_do_not() {
    let storage = FaultStorage::new();
    put(&storage, "a", b"0123456789");
    let range = |offset, len| ByteRange { offset, len };
    storage.make_unreadable(&name("a"), range(4, 2));
    let get = |offset, len| storage.get_range(&name("a"), range(offset, len));
    assert_eq!(
        (get(0, 4).unwrap(), get(6, 4).unwrap()),
        (b"0123".to_vec(), b"6789".to_vec())
    );
    assert!(matches!(get(3, 2), Err(StorageError::Io { .. })));
    assert!(matches!(get(5, 2), Err(StorageError::Io { .. })));
    assert_eq!(storage.get_tail(&name("a"), 4).unwrap().0, b"6789");
    assert!(matches!(
        storage.get_tail(&name("a"), 5),
        Err(StorageError::Io { .. })
    ));
    assert!(matches!(storage.get(&name("a")), Err(StorageError::Io { .. })));
    assert_eq!(storage.list("").unwrap().len(), 1, "its name is there");
}

#[test]
fn times_are_the_clocks_or_grow_by_themselves() {
    let storage = FaultStorage::new();
    put(&storage, "a", b"");
    put(&storage, "b", b"");
    assert!(storage.head(&name("a")).unwrap().put_at < storage.head(&name("b")).unwrap().put_at);
    let clock = ManualClock::default();
    let storage = FaultStorage::with_clock(Arc::new(clock.clone()));
    clock.advance(std::time::Duration::from_secs(9));
    put(&storage, "a", b"");
    assert_eq!(
        storage.head(&name("a")).unwrap().put_at,
        crate::Clock::wall(&clock)
    );
}

/// The oracle: the changes of objects in order, and which of them each process knows.
#[derive(Default)]
struct Log {
    events: Vec<(ObjectName, Option<Vec<u8>>)>,
    knows: [BTreeMap<ObjectName, usize>; 3],
    durable: BTreeMap<ObjectName, usize>,
}

impl Log {
    fn last(&self, name: &ObjectName) -> Option<usize> {
        self.events.iter().rposition(|(object, _)| object == name)
    }

    fn learn(&mut self, process: usize, name: &ObjectName) {
        if let Some(event) = self.last(name) {
            self.knows[process].insert(name.clone(), event);
        }
    }

    fn barrier(&mut self, process: usize) {
        for (name, event) in std::mem::take(&mut self.knows[process]) {
            let durable = self.durable.entry(name).or_insert(event);
            *durable = event.max(*durable);
        }
    }

    /// Whether a crash may leave this version under the name.
    fn allows(&self, name: &ObjectName, found: Option<&Vec<u8>>) -> bool {
        let durable = self.durable.get(name).copied();
        if durable.is_none() && found.is_none() {
            return true;
        }
        let own = self
            .events
            .iter()
            .enumerate()
            .filter(|(_, (object, _))| object == name);
        own.filter(|(event, _)| durable.is_none_or(|durable| *event >= durable))
            .any(|(event, (_, content))| match (content, found) {
                (None, None) => true,
                (Some(content), Some(found)) if Some(event) == durable => content == found,
                (Some(content), Some(found)) => {
                    let agree = content.iter().zip(found).take_while(|(a, b)| a == b).count();
                    let rest = &found[agree..];
                    rest.is_empty() || (found.len() == content.len() && rest.iter().all(|byte| *byte == 0))
                }
                _ => false,
            })
    }
}

proptest! {
    /// Random `(what, which process, which object)`: the log allows whatever survives a crash.
    #[test]
    fn crashes_leave_a_state_that_the_log_allows(
        steps in prop::collection::vec((0..6_u8, 0..3_usize, 0..4_u8), 0..60),
        seed: u64,
    ) {
        let first = FaultStorage::new();
        let processes = [first.clone(), first.handle(), first.handle_elsewhere()];
        let names: Vec<ObjectName> = ["a", "f/b", "f/c", "g/d"].map(name).into();
        let mut log = Log::default();
        for (step, (what, process, object)) in steps.into_iter().enumerate() {
            let (storage, name) = (&processes[process], &names[usize::from(object)]);
            match what {
                0 | 1 => {
                    let content = vec![u8::try_from(step + 1).unwrap(); 8];
                    if storage.put(name, &[&content]).is_ok() {
                        log.events.push((name.clone(), Some(content)));
                    }
                    log.learn(process, name);
                }
                2 => {
                    if storage.delete(name).is_ok() {
                        log.events.push((name.clone(), None));
                    }
                    log.learn(process, name);
                }
                3 => {
                    storage.get(name).ok();
                    log.learn(process, name);
                }
                4 => {
                    storage.list("f").unwrap();
                    log.learn(process, &names[1]);
                    log.learn(process, &names[2]);
                }
                _ => {
                    storage.barrier().unwrap();
                    log.barrier(process);
                }
            }
        }
        for policy in [CrashPolicy::KeepAll, CrashPolicy::DropAll, CrashPolicy::TearAll, CrashPolicy::Seeded(seed)] {
            let after = first.crash(policy);
            for name in &names {
                let found = after.get(name).ok();
                prop_assert!(log.allows(name, found.as_ref()), "{policy:?} left {found:?} under {name}");
                if policy == CrashPolicy::KeepAll {
                    let live = log.last(name).and_then(|event| log.events[event].1.clone());
                    prop_assert_eq!(found, live);
                }
            }
        }
    }
}

#[test]
fn a_trimmed_object_has_one_of_its_names_after_any_crash() {
    let (from, to) = (name("data/1"), name("data/1.body"));
    let storage = FaultStorage::new();
    storage.put(&from, &[b"0123456789"]).unwrap();
    storage.barrier().unwrap();
    let range = ByteRange { offset: 2, len: 3 };
    storage.trim(&from, &to, &[range]).unwrap();
    let trimmed = b"01\x00\x00\x0056789".to_vec();
    assert_eq!(storage.get(&to).unwrap(), trimmed);

    let mut seen = std::collections::BTreeSet::new();
    let policies = (0..20).map(CrashPolicy::Seeded);
    for policy in policies.chain([CrashPolicy::KeepAll, CrashPolicy::DropAll, CrashPolicy::TearAll]) {
        let after = storage.crash(policy);
        let names: Vec<_> = after
            .list("data")
            .unwrap()
            .into_iter()
            .map(|meta| meta.name)
            .collect();
        let [only] = names.as_slice() else {
            panic!("{policy:?}: {names:?}")
        };
        let bytes = after.get(only).unwrap();
        let is_trimmed = bytes == trimmed;
        assert!(
            is_trimmed || (*only == from && bytes == b"0123456789"),
            "{policy:?}"
        );
        seen.insert((only.clone(), is_trimmed));
    }
    assert_eq!(seen.len(), 3, "under the first name with and without the range");

    storage.barrier().unwrap();
    let after = storage.crash(CrashPolicy::DropAll);
    assert_eq!(after.get(&to).unwrap(), trimmed, "durable");
}

#[test]
fn trimmed_bytes_are_free_space_on_a_full_disk() {
    let storage = FaultStorage::new();
    storage.put(&name("a"), &[&[1; 1000]]).unwrap();
    storage.set_capacity_bytes(Some(1000));
    assert!(matches!(
        storage.put(&name("b"), &[&[1; 100]]),
        Err(StorageError::NoSpace { .. })
    ));
    let range = ByteRange { offset: 0, len: 100 };
    storage.trim(&name("a"), &name("a.body"), &[range]).unwrap();
    storage.put(&name("b"), &[&[1; 100]]).unwrap();
    storage.delete(&name("a.body")).unwrap();
    storage.put(&name("c"), &[&[1; 900]]).unwrap();
}
