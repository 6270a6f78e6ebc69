//! Prunes beside other users of the store: backups and a reader in the middle of their work,
//! sessions that sleep or die, reclaimers that die, sleep or meet.
//!
//! Invariant: a backup that took content of a forgotten backup keeps it, or stores it again. A
//! session that was ended gets an error, and loses only its own work. Whichever prune finishes the
//! work of another, no kept data is lost.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::common::beside::{
    assert_kept, assert_settles, back_up_parts, back_up_pausing, chosen, dump, soon_given_up,
};
use crate::common::pruning::{
    Stage, assert_nothing_unexplained, assert_stages, everything, everything_at_once, forget, leaving, prune,
    prune_after_crash, try_forget, try_prune,
};
use crate::common::reclaimer::Reclaimer;
use crate::common::{Asked, How, Parts, Process, back_up_bytes, is_long, noise, wait_until};
use env::Clock;
use env::fault::Fault;
use format::names::LeaseRole;
use onefold::{Monitor, PruneReport, PruneUnused, SessionPolicy, Store, WaitingRole};
use session::Session;

const PART: usize = 60 << 10;

fn parts_of(seed: u64) -> Vec<Vec<u8>> {
    (0..7).map(|n| noise(seed * 10 + n, PART)).collect()
}

/// A reader reads a forgotten backup, and two backups take data of it, each in the middle of its
/// work. Epochs run, one of which leaves everything in place, and data that it left is taken too.
fn beside_two_backups_and_a_reader(pauses: [usize; 2], how: &How, leaves_first: bool, seed: u64) {
    let when = format!(
        "pauses {pauses:?}, leaves first: {leaves_first}, small {}",
        how.ingest.small_bytes_max
    );
    let machine = Process::new(seed);
    machine.init();
    let parts = parts_of(seed);
    let read_bytes = noise(seed + 5000, 600 << 10);
    let (a, b) = (chosen(&parts, &[0, 1, 2, 3]), chosen(&parts, &[2, 3, 4, 0]));
    let old = [
        back_up_parts(&machine, "/old", &a),
        back_up_parts(&machine, "/other", &b),
        back_up_parts(&machine, "/old", &chosen(&parts, &[5, 4, 6])),
    ];
    let kept = back_up_parts(&machine, "/kept", &chosen(&parts, &[1, 6]));
    let read = back_up_bytes(&machine.open(), "/read", &read_bytes, &How::plain())
        .unwrap()
        .id;
    let pruner = machine.beside(seed + 1).striding();
    let (made, pruned) = (Mutex::new(Vec::new()), Mutex::new(Vec::new()));
    let reader = machine.beside(seed + 2).open();
    let dumped = dump(&reader, read, || {
        let of_a = back_up_pausing(&machine.beside(seed + 3), "/a", &a, how, |done| {
            if done != pauses[0] {
                return;
            }
            let of_b = back_up_pausing(&machine.beside(seed + 4), "/b", &b, how, |done| {
                if done != pauses[1] {
                    return;
                }
                let store = pruner.open();
                old.iter().for_each(|id| forget(&store, *id));
                forget(&store, read);
                if leaves_first {
                    let report = prune(&store, &leaving(PruneUnused::Unlimited), &when);
                    assert!(report.bytes_left_dead > 0, "{when}: {report:?}");
                    pruned.lock().unwrap().push(report);
                }
                let report = prune(&store, &everything(), &when);
                assert!(report.sessions_expired.is_empty(), "{when}: {report:?}");
                assert!(report.bytes_freed() > 0, "{when}: {report:?}");
                pruned.lock().unwrap().push(report);
            });
            let of_b = of_b.unwrap_or_else(|error| panic!("{when}: {error}"));
            made.lock().unwrap().push((of_b.id, "/b", Parts::whole(&b)));
            prune(&pruner.open(), &everything(), &when);
        });
        let of_a = of_a.unwrap_or_else(|error| panic!("{when}: {error}"));
        made.lock().unwrap().push((of_a.id, "/a", Parts::whole(&a)));
        prune(&pruner.open(), &everything(), &when);
    });
    assert!(dumped == read_bytes, "{when}: the reader read other bytes");
    let mut all = made.into_inner().unwrap();
    all.push((kept, "/kept", Parts::whole(&chosen(&parts, &[1, 6]))));
    assert_settles(&machine, &all, &when);
    let pruned = pruned.into_inner().unwrap();
    for stage in [Stage::Removes, Stage::Compacts] {
        let took_place = pruned.iter().any(|report| stage.count(report) > 0);
        assert!(took_place, "{when}: none of {stage:?}: {pruned:?}");
    }
}

#[test]
fn two_backups_and_a_reader() {
    for (n, pauses) in (0..).zip([[1, 1], [2, 1], [1, 3], [3, 2]]) {
        for (m, how) in (0..).zip([How::plain(), How::small()]) {
            let leaves_first = (n + m) % 2 == 0;
            beside_two_backups_and_a_reader(pauses, &how, leaves_first, 1000 + n * 20 + m * 10);
        }
    }
}

/// How the dying process and the next one prune: by copying, so that nothing stays dead; or by
/// trimming, so that as little as possible is copied.
#[derive(Debug, Clone, Copy)]
enum Way {
    Copies,
    Trims,
}

/// The result of the process that forgot and pruned in the middle of two backups and a reader.
struct Fate {
    /// `None`: it was killed.
    report: Option<PruneReport>,
    /// How many changes it requested.
    changes: u64,
}

/// A process forgets and prunes in the middle of two backups and a reader, and is killed before or
/// after its n-th change. The others continue, and another process finishes.
fn killed_beside_two_backups_and_a_reader(way: Way, n: u64, carried_out: bool) -> Fate {
    let when = format!("{way:?}, killed at change {n}, carried out: {carried_out}");
    let (seed, unused_max) = match way {
        Way::Copies => (6000, 0),
        Way::Trims => (6100, 24 << 10),
    };
    let machine = Process::new(seed);
    machine.init();
    let parts = parts_of(seed);
    let read_bytes = noise(seed + 5000, 300 << 10);
    let (a, b) = (chosen(&parts, &[0, 1, 2, 3]), chosen(&parts, &[2, 3, 4, 0]));
    let old = [
        back_up_parts(&machine, "/old", &a),
        back_up_parts(&machine, "/other", &b),
        back_up_parts(&machine, "/old", &chosen(&parts, &[5, 4, 6])),
    ];
    let kept = back_up_parts(&machine, "/kept", &chosen(&parts, &[1, 6]));
    let read = back_up_bytes(&machine.open(), "/read", &read_bytes, &How::plain())
        .unwrap()
        .id;
    let doomed = [old[0], old[1], old[2], read];
    let (made, fate) = (Mutex::new(Vec::new()), Mutex::new(None));
    let reader = machine.beside(seed + 2).open();
    let dumped = dump(&reader, read, || {
        let of_a = back_up_pausing(&machine.beside(seed + 3), "/a", &a, &How::plain(), |done| {
            if done != 2 {
                return;
            }
            let of_b = back_up_pausing(&machine.beside(seed + 4), "/b", &b, &How::plain(), |done| {
                if done == 1 {
                    let dying = machine.beside(seed + 5).striding();
                    dying.watched.set_trims(matches!(way, Way::Trims));
                    let store = dying.open();
                    let fault = if carried_out {
                        Fault::kill_after(n)
                    } else {
                        Fault::kill(n)
                    };
                    let before = dying.storage.counters_here();
                    dying.storage.inject_here(fault);
                    let all_forgotten = doomed.iter().all(|id| try_forget(&store, *id).is_ok());
                    let pruned =
                        all_forgotten.then(|| try_prune(&store, &leaving(PruneUnused::Bytes(unused_max))));
                    *fate.lock().unwrap() = Some(Fate {
                        report: pruned.and_then(Result::ok),
                        changes: dying.storage.counters_here().since(&before).mutating(),
                    });
                }
                if done == 3 {
                    // While both backups and the reader are still running.
                    let successor = machine.beside(seed + 7).striding();
                    successor.watched.set_trims(matches!(way, Way::Trims));
                    let store = successor.open();
                    doomed.iter().for_each(|id| forget(&store, *id));
                    prune_after_crash(&store, &soon_given_up(everything()), &when);
                }
            });
            let of_b = of_b.unwrap_or_else(|error| panic!("{when}: {error}"));
            made.lock().unwrap().push((of_b.id, "/b", Parts::whole(&b)));
        });
        let of_a = of_a.unwrap_or_else(|error| panic!("{when}: {error}"));
        made.lock().unwrap().push((of_a.id, "/a", Parts::whole(&a)));
    });
    assert!(dumped == read_bytes, "{when}: the reader read other bytes");
    let mut all = made.into_inner().unwrap();
    all.push((kept, "/kept", Parts::whole(&chosen(&parts, &[1, 6]))));
    assert_settles(&machine, &all, &when);
    fate.into_inner().unwrap().unwrap()
}

fn a_kill_at_any_change_beside(way: Way, stages: &[Stage]) {
    let unharmed = killed_beside_two_backups_and_a_reader(way, u64::MAX, false);
    let report = unharmed.report.unwrap();
    assert_stages(&report, stages, "nobody killed");
    for n in (1..=unharmed.changes).step_by(if is_long() { 1 } else { 13 }) {
        let both = if is_long() {
            vec![false, true]
        } else {
            vec![n % 2 == 0]
        };
        for carried_out in both {
            let fate = killed_beside_two_backups_and_a_reader(way, n, carried_out);
            // The number of heartbeats between depends on how soon others answer.
            let is_near_the_end = n > unharmed.changes / 3 * 2;
            assert!(fate.report.is_none() || is_near_the_end, "{way:?}: {n}");
        }
    }
}

#[test]
fn a_kill_at_any_change_beside_two_backups_and_a_reader() {
    let stages = [Stage::Removes, Stage::Compacts];
    a_kill_at_any_change_beside(Way::Copies, &stages);
}

#[test]
fn a_kill_at_any_change_of_a_trimming_prune_beside_two_backups_and_a_reader() {
    a_kill_at_any_change_beside(Way::Trims, &Stage::ALL);
}

/// A session of another host sleeps across epochs and is ended. It gives up, and none of its data
/// stays.
#[test]
fn a_session_that_sleeps_across_an_epoch_is_ended() {
    for pause in 1..4 {
        let when = format!("pause {pause}");
        let machine = Process::new(2000 + pause as u64);
        machine.init();
        let parts = parts_of(200);
        let a = chosen(&parts, &[0, 1, 2, 3]);
        let old = back_up_parts(&machine, "/old", &a);
        let kept = back_up_parts(&machine, "/kept", &chosen(&parts, &[1, 6]));
        let pruner = machine.beside(2001).striding();
        // Its clock stands still, and so do its heartbeats.
        let sleeper = machine.elsewhere(2002);
        let made = back_up_pausing(&sleeper, "/a", &a, &How::plain(), |done| {
            if done == pause {
                let store = pruner.open();
                forget(&store, old);
                let report = prune(&store, &everything(), &when);
                assert_eq!(report.sessions_expired.len(), 1, "{when}: {report:?}");
                prune(&store, &everything(), &when);
            }
        });
        let error = made.unwrap_err().to_string();
        assert!(
            error.contains("was ended") && error.contains("run the backup again"),
            "{when}: {error}"
        );
        let all = [(kept, "/kept", Parts::whole(&chosen(&parts, &[1, 6])))];
        assert_kept(&machine.beside(2003), &all, &when);
        let again = back_up_pausing(&sleeper, "/a", &a, &How::plain(), |_| {}).unwrap();
        assert!(again.adopted.is_empty(), "{when}: {again:?}");
        let all = [all.to_vec(), vec![(again.id, "/a", Parts::whole(&a))]].concat();
        assert_settles(&machine, &all, &when);
    }
}

/// While a prune waits, it tells for which session, since when, and until when.
#[test]
fn a_prune_reports_the_sessions_that_it_waits_for() {
    let machine = Process::new(3001);
    machine.init();
    let parts = parts_of(210);
    let a = chosen(&parts, &[0, 1, 2, 3]);
    let old = back_up_parts(&machine, "/old", &a);
    forget(&machine.open(), old);
    let pruner = machine.beside(3002).striding();
    let sleeper = machine.elsewhere(3003);
    let said = Arc::new(Mutex::new(Vec::new()));
    let made = back_up_pausing(&sleeper, "/a", &a, &How::plain(), |done| {
        if done != 1 {
            return;
        }
        let monitor = Arc::new(Monitor::default());
        let (told, of_prune) = (Arc::clone(&said), Arc::clone(&monitor));
        let before = move |_, _: &str| told.lock().unwrap().extend(of_prune.waiting());
        pruner.watched.set_before(before);
        let (report, _) = pruner.open().prune(&everything(), &monitor).unwrap();
        pruner.watched.clear_before();
        assert_eq!(report.sessions_expired.len(), 1, "{report:?}");
        assert!(monitor.waiting().is_empty(), "it waits no more");
        let said = said.lock().unwrap();
        let (first, last) = (said.first().unwrap(), said.last().unwrap());
        assert_eq!((first.since, first.until), (last.since, last.until));
        let minutes = (last.until.get() - last.since.get()) / 60_000_000_000;
        assert_eq!(minutes, 30, "{last:?}");
        for one in said.iter() {
            assert_eq!(one.session, report.sessions_expired[0]);
            assert_eq!((one.role, one.is_here), (WaitingRole::Backup, false));
            assert_eq!(one.host.as_deref(), Some(&b"host"[..]));
        }
    });
    made.unwrap_err();
    assert!(said.lock().unwrap().len() > 100, "told at each look");
}

/// A session answers an epoch and dies. The next backup adopts its data. When the adopter is
/// forgotten, data that others use stays, and the rest can be removed.
fn adopted_after_an_epoch(seed: u64, prune_between: bool) {
    let when = format!("pruned between: {prune_between}");
    let machine = Process::new(seed);
    machine.init();
    let parts = parts_of(seed);
    let a = chosen(&parts, &[0, 5, 1, 6]);
    let old = back_up_parts(&machine, "/old", &chosen(&parts, &[0, 1, 2]));
    let pruner = machine.beside(seed + 1).striding();
    let dying = machine.beside(seed + 2);
    let made = back_up_pausing(&dying, "/a", &a, &How::plain(), |done| {
        if done == 3 {
            let store = pruner.open();
            forget(&store, old);
            let report = prune(&store, &everything(), &when);
            assert!(report.sessions_expired.is_empty(), "{when}: {report:?}");
            assert_stages(&report, &[Stage::Removes, Stage::Compacts], &when);
            dying.storage.kill();
        }
    });
    made.unwrap_err();
    if prune_between {
        // Another epoch begins, and this time the process is dead.
        prune(&pruner.open(), &everything(), &when);
    }
    let adopter = back_up_pausing(&machine.beside(seed + 3), "/a", &a, &How::plain(), |_| {}).unwrap();
    assert_eq!(adopter.adopted.is_empty(), prune_between, "{when}: {adopter:?}");
    let mut all = vec![(adopter.id, "/a", Parts::whole(&a))];
    assert_kept(&machine.beside(seed + 4), &all, &when);
    for _ in 0..2 {
        prune(&pruner.open(), &everything_at_once(), &when);
    }
    assert_nothing_unexplained(&pruner, &when);
    // Another series shares the dead session's data. The adopter is removed, including its
    // tombstone.
    let b = chosen(&parts, &[5, 4]);
    let other = back_up_parts(&machine.beside(seed + 5), "/b", &b);
    all.push((other, "/b", Parts::whole(&b)));
    assert_kept(&machine.beside(seed + 4), &all, &when);
    all.remove(0);
    forget(&pruner.open(), adopter.id);
    for n in 0..3 {
        let when = format!("{when}, the adopter forgotten, prune {n}");
        prune(&pruner.open(), &everything_at_once(), &when);
        assert_kept(&machine.beside(seed + 4), &all, &when);
    }
    assert_nothing_unexplained(&pruner, &format!("{when}, the adopter forgotten"));
    let garbage = back_up_parts(&machine.beside(seed + 5), "/c", &chosen(&parts, &[3, 5]));
    forget(&pruner.open(), garbage);
    assert_settles(&machine, &all, &when);
}

#[test]
fn a_dead_session_is_adopted_after_an_epoch() {
    adopted_after_an_epoch(3000, false);
    adopted_after_an_epoch(3100, true);
}

/// A session answers an epoch, which leaves in place the slots that its nodes reach, and dies.
/// Another session adopts it, and has no references yet when the next epoch comes. That epoch would
/// remove all of these slots, and with `sweep_all` also the dead session's containers.
fn adopted_and_not_yet_referred_to(seed: u64, sweep_all: bool) {
    let when = format!("all are swept: {sweep_all}");
    let machine = Process::new(seed);
    machine.init();
    let parts = parts_of(seed);
    let (a, b) = (chosen(&parts, &[6, 0, 5]), chosen(&parts, &[0, 5, 4]));
    let old = back_up_parts(&machine, "/old", &chosen(&parts, &[0, 1, 2]));
    let pruner = machine.beside(seed + 1).striding();
    let dying = machine.beside(seed + 2);
    let made = back_up_pausing(&dying, "/a", &b, &How::plain(), |done| {
        if done == 2 {
            let store = pruner.open();
            forget(&store, old);
            let report = prune(&store, &everything(), &when);
            assert!(report.sessions_expired.is_empty(), "{when}: {report:?}");
            assert_stages(&report, &[Stage::Removes, Stage::Compacts], &when);
            dying.storage.kill();
        }
    });
    made.unwrap_err();
    let stored = || ["data", "recipe"].map(|folder| machine.names(folder));
    let (before, mut stays) = (stored(), false);
    let adopter = back_up_pausing(&machine.beside(seed + 3), "/a", &a, &How::plain(), |done| {
        if done == 1 {
            let options = everything().all(sweep_all);
            let report = prune(&pruner.open(), &options, &when);
            assert_eq!(report.epochs, 1, "{when}: {report:?}");
            assert!(report.sessions_expired.is_empty(), "{when}: {report:?}");
            let after = stored();
            let is_there = |(was, is): (&Vec<String>, &Vec<String>)| was.iter().all(|name| is.contains(name));
            stays = before.iter().zip(&after).all(is_there);
        }
    });
    let adopter = adopter.unwrap_or_else(|error| panic!("{when}: {error}"));
    assert_eq!(adopter.adopted.len(), 1, "{when}: {adopter:?}");
    let mut all = vec![(adopter.id, "/a", Parts::whole(&a))];
    assert_kept(&machine.beside(seed + 4), &all, &when);
    // Its manifest names the other session's containers, so the next backup may get nodes of these.
    let next = machine.beside(seed + 5);
    next.open().rebuild_index(&Monitor::default()).unwrap();
    all.push((back_up_parts(&next, "/b", &b), "/b", Parts::whole(&b)));
    assert_kept(&machine.beside(seed + 4), &all, &when);
    Reclaimer::new(machine.beside(seed + 6)).assert_no_node_dangles(&when);
    assert!(stays, "{when}: something went that the checkpoint names");
    assert_settles(&machine, &all, &when);
}

#[test]
fn chunks_of_an_adopted_session_stay_until_its_adopter_ends() {
    adopted_and_not_yet_referred_to(3300, false);
    adopted_and_not_yet_referred_to(3400, true);
}

/// An epoch leaves in place slots that a session has taken, beside slots that a kept backup uses.
/// The session dies, and no session adopts it. The slots that stayed for it are removed.
#[test]
fn slots_kept_for_a_dead_session_are_removed() {
    let machine = Process::new(3200);
    machine.init();
    let parts = parts_of(320);
    let old = back_up_parts(&machine, "/old", &chosen(&parts, &[0, 1, 2, 3]));
    let kept = back_up_parts(&machine, "/kept", &chosen(&parts, &[0, 2]));
    let pruner = machine.beside(3201).striding();
    let dying = machine.beside(3202);
    let made = back_up_pausing(&dying, "/a", &chosen(&parts, &[1, 3, 4]), &How::plain(), |done| {
        if done == 2 {
            forget(&pruner.open(), old);
            let report = prune(&pruner.open(), &everything(), "beside");
            assert_stages(&report, &[Stage::Compacts], "beside");
            dying.storage.kill();
        }
    });
    made.unwrap_err();
    for n in 0..3 {
        prune(&pruner.open(), &everything(), &format!("prune {n}"));
    }
    assert_nothing_unexplained(&pruner, "at the end");
    let last = prune(&pruner.open(), &everything(), "at the very end");
    assert_eq!(last.epochs, 0, "{last:?}");
    let all = [(kept, "/kept", Parts::whole(&chosen(&parts, &[0, 2])))];
    assert_settles(&machine, &all, "at the end");
}

/// A reclaimer dies right after it put or deleted the n-th object of a folder, beside a backup. The
/// backup continues. A successor finishes, on the same host or on another one.
#[test]
fn successors_of_reclaimers_that_died() {
    let moments = [
        (Asked::Put, "groups"),
        (Asked::Put, "condemned"),
        (Asked::Put, "removed"),
        (Asked::Delete, "recipe"),
        (Asked::Put, "data"),
        (Asked::Delete, "data"),
        (Asked::Delete, "condemned"),
    ];
    for (n, (asked, folder)) in (0u64..).zip(moments) {
        for elsewhere in [false, true] {
            let when = format!("{asked:?} in {folder}, elsewhere: {elsewhere}");
            let seed = 4000 + n * 100;
            let machine = Process::new(seed);
            machine.init();
            let parts = parts_of(seed);
            let a = chosen(&parts, &[0, 1, 2, 3]);
            let old = [
                back_up_parts(&machine, "/old", &a),
                back_up_parts(&machine, "/old", &chosen(&parts, &[4, 5, 3])),
            ];
            let kept = back_up_parts(&machine, "/kept", &chosen(&parts, &[5]));
            let made = back_up_pausing(&machine.beside(seed + 1), "/a", &a, &How::plain(), |done| {
                if done == 1 {
                    let dying = if elsewhere {
                        Process::on(
                            machine.storage.handle_elsewhere(),
                            machine.clock.clone(),
                            seed + 2,
                        )
                    } else {
                        machine.beside(seed + 2)
                    }
                    .striding();
                    let store = dying.open();
                    old.iter().for_each(|id| forget(&store, *id));
                    let storage = dying.storage.clone();
                    dying.watched.set_before(move |now, name| {
                        if now == asked && name.starts_with(folder) {
                            storage.inject_here(Fault::kill_after(1));
                        }
                    });
                    try_prune(&store, &everything()).unwrap_err();
                    assert!(dying.storage.is_gone(), "{when}");
                    dying.watched.clear_before();
                }
                if done == 2 {
                    let successor = machine.beside(seed + 3).striding();
                    prune_after_crash(&successor.open(), &soon_given_up(everything()), &when);
                }
            });
            let made = made.unwrap_or_else(|error| panic!("{when}: {error}"));
            let all = [
                (kept, "/kept", Parts::whole(&chosen(&parts, &[5]))),
                (made.id, "/a", Parts::whole(&a)),
            ];
            assert_settles(&machine, &all, &when);
        }
    }
}

/// While a prune is at its n-th change, another begins. It is told at once that a prune is running.
#[test]
fn a_second_prune_on_the_same_host_learns_of_the_first() {
    for n in (1..200).step_by(if is_long() { 1 } else { 6 }) {
        let reached = a_second_prune(n, false, &format!("before change {n}"));
        if !reached {
            return assert!(n > 30, "{n}");
        }
    }
}

/// The first one sleeps there, and another host's prune takes over and finishes. A backup takes
/// slots that stayed in place. The first one wakes.
#[test]
fn a_second_prune_on_another_host_takes_over_from_a_sleeper() {
    for n in (1..200).step_by(if is_long() { 1 } else { 7 }) {
        let reached = a_second_prune(n, true, &format!("before change {n} of the sleeper"));
        if !reached {
            return assert!(n > 30, "{n}");
        }
    }
}

/// A prune waits for a live session of another host, however long that takes. Then it does the
/// rest.
#[test]
fn a_prune_waits_for_one_that_lives_on_another_host() {
    let machine = Process::new(7000);
    machine.init();
    let parts = parts_of(70);
    let old = back_up_parts(&machine, "/old", &chosen(&parts, &[0, 1]));
    let kept = chosen(&parts, &[1, 2]);
    let all = [(
        back_up_parts(&machine, "/kept", &kept),
        "/kept",
        Parts::whole(&kept),
    )];
    forget(&machine.open(), old);
    // As at the beginning of a prune.
    let first = Process::on(machine.storage.handle_elsewhere(), machine.clock.clone(), 7001);
    let reclaimer = Reclaimer::new(first);
    let session = Session::begin_read(reclaimer.sealer(), 1, SessionPolicy::default()).unwrap();
    let heartbeats = session.start_heartbeats().unwrap();
    let lease = session.acquire_lease(LeaseRole::Reclaim).unwrap();
    let store = machine.beside(7002).striding().open();
    let second = std::thread::spawn(move || store.prune(&everything(), &Monitor::default()));
    // Longer than the silence after which a session counts as dead.
    let until = machine.clock.monotonic() + Duration::from_secs(45 * 60);
    wait_until("three quarters of an hour", || {
        machine.clock.monotonic() >= until || second.is_finished()
    });
    assert!(!second.is_finished(), "{:?}", second.join());
    assert!(lease.is_held().unwrap());
    lease.release().unwrap();
    session.end().unwrap();
    drop(heartbeats);
    let (report, warnings) = second.join().unwrap().unwrap();
    assert!(
        report.epochs == 1 && report.bytes_deleted > 0 && report.sessions_expired.is_empty(),
        "{report:?}"
    );
    let told = warnings
        .iter()
        .any(|one| one.to_string().contains("waited for the prune of session"));
    assert!(told, "{warnings:?}");
    assert_settles(&machine, &all, "waited");
}

fn a_second_prune(n: u64, sleeps: bool, when: &str) -> bool {
    let seed = 6000 + n;
    let machine = Process::new(seed);
    machine.init();
    let parts = parts_of(60);
    let old = [
        back_up_parts(&machine, "/old", &chosen(&parts, &[0, 1, 2])),
        back_up_parts(&machine, "/old", &chosen(&parts, &[4, 5, 3])),
        back_up_parts(&machine, "/old", &chosen(&parts, &[6])),
    ];
    let kept = back_up_parts(&machine, "/kept", &chosen(&parts, &[5, 0]));
    forget(&machine.open(), old[0]);
    let store = machine.beside(seed + 1).striding().open();
    let report = prune(&store, &leaving(PruneUnused::Unlimited), when);
    assert!(report.bytes_left_dead > 0, "{when}: {report:?}");
    drop(store);
    let first = if sleeps {
        machine.elsewhere(seed + 2)
    } else {
        machine.beside(seed + 2)
    };
    let first_store = first.open();
    forget(&machine.open(), old[1]);
    let (count, made) = (Arc::new(AtomicU64::new(0)), Arc::new(Mutex::new(Vec::new())));
    {
        let (machine, made, count) = (machine.clone(), Arc::clone(&made), Arc::clone(&count));
        let (last, when) = (old[2], when.to_owned());
        let parts = parts.clone();
        first.watched.set_before(move |_, _| {
            if count.fetch_add(1, Ordering::SeqCst) + 1 != n {
                return;
            }
            let second = machine.beside(seed + 3).striding();
            let store = second.open();
            forget(&store, last);
            let others = |store: &Store| {
                let limits = if n.is_multiple_of(2) {
                    leaving(PruneUnused::Unlimited)
                } else {
                    everything()
                };
                try_prune(store, &soon_given_up(limits))
            };
            if sleeps {
                others(&store).unwrap_or_else(|error| panic!("{when}: {error}"));
            } else if let Err(error) = others(&store) {
                let text = error.to_string();
                assert!(text.contains("another prune"), "{when}: {text}");
            }
            let taken = chosen(&parts, &[1, 4]);
            let id = back_up_parts(&machine.beside(seed + 4), "/taken", &taken);
            made.lock().unwrap().push((id, "/taken", Parts::whole(&taken)));
            if sleeps {
                prune_after_crash(&second.open(), &soon_given_up(everything()), &when);
            }
        });
    }
    let done = try_prune(&first_store, &everything());
    first.watched.clear_before();
    let mut all = made.lock().unwrap().clone();
    let reached = !all.is_empty();
    match done {
        Ok(report) if !reached => {
            let stages = [Stage::Removes, Stage::Compacts];
            assert_stages(&report, &stages, when);
        }
        Ok(_) => {}
        Err(error) => {
            let text = error.to_string();
            let is_told =
                text.contains("another prune") || text.contains("was ended") || text.contains("has ended");
            assert!(reached && sleeps && is_told, "{when}: {text}");
        }
    }
    all.push((kept, "/kept", Parts::whole(&chosen(&parts, &[5, 0]))));
    if !reached {
        all.push((old[2], "/old", Parts::whole(&chosen(&parts, &[6]))));
    }
    assert_settles(&machine, &all, when);
    wait_until("the end of all sessions", || {
        Reclaimer::new(machine.beside(seed + 9))
            .table()
            .running
            .is_empty()
    });
    reached
}
