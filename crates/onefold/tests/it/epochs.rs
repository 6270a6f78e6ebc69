//! A session and an epoch: the test plays the reclaimer's half at every moment of a backup.
//!
//! Invariant: the session answers or commits. Slots that it found before they were condemned stay.
//! Chunks that were condemned when it looked are stored again. No backup refers to a removed slot
//! (INV-3, INV-9).

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use crate::common::reclaimer::{Reclaimer, Slots};
use crate::common::{
    Asked, HandClock, How, Parts, Process, Tree, Watched, assert_restores, assert_restores_bytes,
    assert_sound, back_up, back_up_bytes, back_up_stream, back_up_watched, is_long, noise, snapshot,
    wait_for_heartbeat, wait_for_look_ups, wait_until,
};
use env::Storage;
use env::fault::{Counted, FailWith, Fault, OpKind};
use format::names;
use onefold::{BackupReport, Monitor, SessionId};
use types::Epoch;

/// No slot that the backup reaches is on the list.
fn assert_reaches_nothing_of(reclaimer: &Reclaimer, id: SessionId, removed: &Slots, when: &str) {
    let reached = reclaimer.reached_by(&reclaimer.backup(id));
    let lost: Vec<_> = reached.intersection(removed).collect();
    assert!(lost.is_empty(), "{when}: backup {id} refers to removed {lost:?}");
}

/// A forgotten backup is condemned during a backup of a stream with the same content. After the
/// answer, slots to which that backup does not refer are removed. Then it continues.
fn condemned_in_the_midst(how: &How, pause: usize, seed: u64) {
    let when = format!("pause {pause}, small {}", how.ingest.small_bytes_max);
    let machine = Process::new(seed);
    machine.init();
    let parts: Vec<Vec<u8>> = (0..4).map(|n| noise(seed * 10 + n, 70 << 10)).collect();
    let parts: Vec<&[u8]> = parts.iter().map(Vec::as_slice).collect();
    let bytes = Parts::whole(&parts);
    let mut all = Parts::new(&parts, |_| {});
    let first = back_up_stream(&machine.open(), "/first", &mut all, &How::plain()).unwrap();
    let reclaimer = Reclaimer::new(machine.beside(seed + 1));
    reclaimer.forget(first.id);
    let condemned = reclaimer.slots_of(first.id);

    let mut removed = Slots::new();
    let second = machine.beside(seed + 2);
    let store = second.open();
    let made = {
        let (removed, when) = (&mut removed, &when);
        let monitor = Monitor::default();
        let mut source = Parts::new(&parts, |done| {
            if done != pause {
                return;
            }
            wait_for_look_ups(&monitor);
            reclaimer.condemn(1, &condemned);
            // The next heartbeat sees it.
            let mut answers = None;
            wait_for_heartbeat(&machine.clock, "the session's answer", || {
                answers = reclaimer.answers(1);
                answers.is_some()
            });
            let answers = answers.unwrap();
            assert!(!answers.is_empty(), "{when}: one session runs");
            let live = reclaimer.live(&answers);
            *removed = condemned.difference(&live).copied().collect();
            reclaimer.remove(1, removed);
        });
        back_up_watched(&store, "/second", &mut source, how, &monitor).unwrap()
    };
    // Chunks before the pause were found. Chunks after it were stored again.
    let (known, again) = (pause * (70 << 10), (4 - pause) * (70 << 10));
    let slack = 24 << 10;
    let new = usize::try_from(made.totals.bytes_new).unwrap();
    assert!(
        new + slack > again && new < again + slack,
        "{when}: {:?}",
        made.totals
    );
    assert!(!removed.is_empty() && condemned.len() > removed.len(), "{when}");
    let kept = condemned.len() - removed.len();
    assert!(
        kept * (1 << 10) * 2 > known,
        "{when}: {kept} slots stay for {known} bytes"
    );
    let fresh = Reclaimer::new(machine.beside(seed + 3));
    assert_reaches_nothing_of(&fresh, made.id, &removed, &when);
    works_on(&machine, &made, "/second", &bytes, &removed, &when);
}

/// The backup restores, and so does another process's backup of the same bytes. It refers to no
/// removed slot.
fn works_on(machine: &Process, made: &BackupReport, name: &str, bytes: &[u8], removed: &Slots, when: &str) {
    let other = machine.beside(77);
    let store = other.open();
    assert_restores_bytes(&store, &snapshot(&store, made.id), name, bytes, when);
    assert_sound(&store, when);
    let next = back_up_bytes(&store, "/third", bytes, &How::plain()).unwrap();
    assert_restores_bytes(&store, &snapshot(&store, next.id), "/third", bytes, when);
    assert_reaches_nothing_of(&Reclaimer::new(other), next.id, removed, when);
    assert_sound(&machine.beside(78).open(), when);
}

#[test]
fn an_epoch_in_the_midst_of_a_backup() {
    for pause in 1..4 {
        condemned_in_the_midst(&How::plain(), pause, 60 + pause as u64 * 5);
    }
}

#[test]
fn an_epoch_in_the_midst_of_a_small_backup() {
    for pause in 1..4 {
        condemned_in_the_midst(&How::small(), pause, 80 + pause as u64 * 5);
    }
}

/// The epoch appears before every operation of a backup whose parent is forgotten at that moment.
/// When the session has ended, slots that no backup reaches are removed.
fn an_epoch_before_operation(n: usize, how: &How) -> bool {
    let when = format!("before operation {n}");
    let seed = 200 + n as u64;
    let machine = Process::new(seed);
    machine.init();
    let tree = Tree::plant(7, 90 << 10);
    let first = back_up(&machine.open(), &tree, &How::plain()).unwrap();
    tree.change(1);
    let reclaimer = Arc::new(Reclaimer::new(machine.beside(seed + 1)));
    let condemned = reclaimer.slots_of(first.id);
    let second = machine.beside(seed + 2);
    let store = second.open();
    let struck = Arc::new(Mutex::new(false));
    {
        let (reclaimer, condemned) = (Arc::clone(&reclaimer), condemned.clone());
        let (struck, clock) = (Arc::clone(&struck), machine.clock.clone());
        let mut count = 0;
        second.watched.set_before(move |_, _| {
            count += 1;
            if count == n {
                reclaimer.forget(first.id);
                reclaimer.condemn(1, &condemned);
                clock.advance(Duration::from_secs(11));
                *struck.lock().unwrap() = true;
            }
        });
    }
    let made = back_up(&store, &tree, how).unwrap_or_else(|error| panic!("{when}: {error}"));
    second.watched.clear_before();
    if !*struck.lock().unwrap() {
        return false;
    }
    assert!(
        reclaimer.table().running.is_empty(),
        "{when}: nobody is left to answer"
    );
    let fresh = Reclaimer::new(machine.beside(seed + 3));
    let live = fresh.live(&[]);
    let removed: Slots = condemned.difference(&live).copied().collect();
    fresh.remove(1, &removed);
    assert_reaches_nothing_of(&fresh, made.id, &removed, &when);
    let other = machine.beside(seed + 4);
    let store = other.open();
    let picture = tree.picture();
    assert_restores(&store, &snapshot(&store, made.id), &tree.root(), &picture, &when);
    assert_sound(&store, &when);
    let next = back_up(&store, &tree, &How::plain().forced()).unwrap();
    assert_restores(&store, &snapshot(&store, next.id), &tree.root(), &picture, &when);
    assert_reaches_nothing_of(&Reclaimer::new(other), next.id, &removed, &when);
    true
}

#[test]
fn an_epoch_before_every_operation() {
    let hows = if is_long() {
        vec![
            How::plain(),
            How::small(),
            How::plain().forced(),
            How::small().forced(),
        ]
    } else {
        vec![How::plain(), How::small().forced()]
    };
    for how in hows {
        let reached = (1..).take_while(|n| an_epoch_before_operation(*n, &how)).count();
        assert!(reached >= 10, "{reached}");
    }
}

/// A process that begins after the removal finds no removed slot, whatever its index has.
#[test]
fn an_index_that_knows_only_removed_containers() {
    let machine = Process::new(90);
    machine.init();
    let bytes = noise(90, 200 << 10);
    let first = back_up_bytes(&machine.open(), "/first", &bytes, &How::plain()).unwrap();
    let reclaimer = Reclaimer::new(machine.beside(91));
    reclaimer.forget(first.id);
    let condemned = reclaimer.slots_of(first.id);
    reclaimer.condemn(1, &condemned);
    reclaimer.remove(1, &condemned);
    let store = machine.beside(92).open();
    let second = back_up_bytes(&store, "/second", &bytes, &How::plain()).unwrap();
    assert_eq!(second.totals.bytes_new, bytes.len() as u64);
    works_on(&machine, &second, "/second", &bytes, &condemned, "after");
}

/// Moves the clock on until the process has looked for epochs once more.
fn wait_for_a_look(watched: &Watched, clock: &HandClock) {
    watched.take_requests();
    wait_for_heartbeat(clock, "a look at the epochs", || {
        let requests = watched.take_requests();
        requests
            .iter()
            .any(|request| request.asked == Asked::List && request.name == names::CONDEMNED_FOLDER)
    });
}

/// The epoch ends while its answer is collected, and then the disk fails. The backup must end,
/// although it still has the right to write a checkpoint that is no longer wanted.
#[test]
fn an_epoch_disappears_and_the_disk_fails() {
    let machine = Process::new(95);
    machine.init();
    let parts: Vec<&'static [u8]> = (0..2).map(|n| &*noise(95 + n, 70 << 10).leak()).collect();
    let first = back_up_bytes(&machine.open(), "/first", &noise(94, 70 << 10), &How::plain()).unwrap();
    let reclaimer = Reclaimer::new(machine.beside(96));
    reclaimer.forget(first.id);
    let condemned = reclaimer.slots_of(first.id);

    let second = machine.beside(97);
    let store = second.open();
    let (armed, failed) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
    {
        let (armed, failed) = (Arc::clone(&armed), Arc::clone(&failed));
        let (ours, watched) = (second.storage.clone(), Arc::clone(&second.watched));
        let (theirs, clock) = (machine.storage.clone(), machine.clock.clone());
        second.watched.set_before(move |asked, name| {
            // Containers put now are sealed for the answer.
            let is_answers = asked == Asked::Put && name.starts_with("data/");
            if is_answers && armed.swap(false, Ordering::SeqCst) {
                theirs.delete(&names::condemned(Epoch::new(1).unwrap())).unwrap();
                wait_for_a_look(&watched, &clock);
                env::Clock::sleep(&env::SystemClock, Duration::from_millis(200));
                ours.inject(Fault::fail_from(1, FailWith::Io).counting(Counted::Only(OpKind::Put)));
                failed.store(true, Ordering::SeqCst);
            }
        });
    }
    let (ended_tx, ended) = mpsc::channel();
    let (watched, clock) = (Arc::clone(&second.watched), machine.clock.clone());
    let is_failed = Arc::clone(&failed);
    std::thread::spawn(move || {
        let mut how = How::plain();
        how.ingest.checkpoint_bytes = 1 << 30;
        how.ingest.checkpoint_interval = Duration::from_secs(1 << 20);
        let monitor = Monitor::default();
        let mut source = Parts::new(&parts, |_| {
            wait_for_look_ups(&monitor);
            armed.store(true, Ordering::SeqCst);
            reclaimer.condemn(1, &condemned);
            wait_for_a_look(&watched, &clock);
            wait_until("the failure", || is_failed.load(Ordering::SeqCst));
        });
        let made = back_up_watched(&store, "/second", &mut source, &how, &monitor);
        ended_tx.send(made.map(|made| made.id)).unwrap();
    });
    let made = ended
        .recv_timeout(Duration::from_secs(30))
        .expect("the backup ends");
    let error = made.unwrap_err().to_string();
    assert!(error.contains("injected fault"), "{error}");
    assert!(failed.load(Ordering::SeqCst));
    second.watched.clear_before();
    machine.storage.clear_faults();
    assert_sound(&machine.beside(98).open(), "after the failure");
}
