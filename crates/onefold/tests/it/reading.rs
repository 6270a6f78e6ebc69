//! Reading beside reclamation. Declared data stays until the reader ends. If nothing can be
//! declared, a backup that is pruned during the read is distinguished from damage. A dead reader
//! blocks nobody.

use std::io::{self, Read};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::thread;

use crate::common::beside::Kept;
use crate::common::pruning::{Stage, assert_stages, forget, leaving, prune};
use crate::common::reclaimer::{Reclaimer, Slots};
use crate::common::{
    Asked, How, Process, Tree, assert_restores, assert_restores_bytes, assert_sound, back_up, back_up_bytes,
    is_long, noise, restore_to, snapshot, wait_for_heartbeat,
};
use env::fault::{CrashPolicy, FailWith, Fault};
use format::names;
use onefold::{
    AssembleOptions, Credential, Error, Monitor, OpenOptions, PruneUnused, ReadData, SessionId, Store,
    StreamOutput,
};
use session::{DeathWatch, Life, Session, SessionPolicy};
use types::{Generation, ObjectName};

/// Calls back once, at the first bytes.
struct Sleeper<'a> {
    bytes: Vec<u8>,
    asleep: Option<Box<dyn FnOnce() + Send + 'a>>,
}

impl<'a> Sleeper<'a> {
    fn new(asleep: impl FnOnce() + Send + 'a) -> Self {
        Self {
            bytes: Vec::new(),
            asleep: Some(Box::new(asleep)),
        }
    }
}

impl StreamOutput for Sleeper<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        if let Some(asleep) = self.asleep.take() {
            asleep();
        }
        self.bytes.extend_from_slice(bytes);
        Ok(())
    }
    fn skip_zeros(&mut self, len: u64) -> io::Result<()> {
        self.bytes
            .resize(self.bytes.len() + usize::try_from(len).unwrap(), 0);
        Ok(())
    }
}

/// A store with a forgotten backup that fills half of it. Returns the names and bytes of the other
/// backups.
fn half_forgotten(seed: u64) -> (Process, Vec<Kept>) {
    let machine = Process::new(seed);
    machine.init();
    let store = machine.open();
    let parts: Vec<Vec<u8>> = (0..8).map(|n| noise(seed * 10 + n, 40 << 10)).collect();
    let back_up = |name: &'static str, which: &[usize], how: &How| {
        let bytes: Vec<u8> = which.iter().flat_map(|n| parts[*n].clone()).collect();
        let made = back_up_bytes(&store, name, &bytes, how).unwrap();
        (made.id, name, bytes)
    };
    let (gone, ..) = back_up("/gone", &[0, 1, 2, 3, 4, 5], &How::plain());
    let kept = vec![
        back_up("/kept", &[0, 2, 4], &How::plain()),
        back_up("/small", &[6], &How::small()),
        back_up("/small", &[7], &How::small()),
    ];
    forget(&store, gone);
    env::Storage::barrier(&machine.storage).unwrap();
    (machine, kept)
}

/// For every n, a prune rewrites or trims the read data before the n-th read or listing of a
/// reader.
fn beside_a_prune_at_every_read(seed: u64, read: impl Fn(&Process, &Store, &[Kept], &str)) {
    for (seed, unused_max, stages) in [
        (seed, 0, &[Stage::Compacts][..]),
        (seed + 2, 32 << 10, &[Stage::Trims]),
    ] {
        let (machine, kept) = half_forgotten(seed);
        for n in (1..).step_by(if is_long() { 1 } else { 5 }) {
            let when = format!("up to {unused_max} bytes unused, before read {n}");
            let storage = machine.storage.crash(CrashPolicy::KeepAll);
            let process = Process::on(storage, machine.clock.clone(), seed + 1);
            let pruner = process.beside(seed + 2).striding();
            let pruned = Arc::new(Mutex::new(None));
            let store = process.open();
            {
                let (pruned, when) = (Arc::clone(&pruned), when.clone());
                process.watched.set_once(n, move || {
                    let options = leaving(PruneUnused::Bytes(unused_max));
                    *pruned.lock().unwrap() = Some(prune(&pruner.open(), &options, &when));
                });
            }
            read(&process, &store, &kept, &when);
            let Some(report) = pruned.lock().unwrap().take() else {
                assert!(n > 20, "{n}");
                break;
            };
            assert_stages(&report, stages, &when);
            assert!(process.names("damaged").is_empty(), "{when}");
            assert_sound(&process.beside(seed + 3).open(), &format!("{when}, afterwards"));
        }
    }
}

#[test]
fn a_check_finds_nothing_beside_a_prune() {
    beside_a_prune_at_every_read(390, |_, store, _, when| assert_sound(store, when));
}

#[test]
fn a_restore_is_whole_beside_a_prune() {
    beside_a_prune_at_every_read(394, |_, store, kept, when| {
        for (id, name, bytes) in kept {
            assert_restores_bytes(store, &snapshot(store, *id), name, bytes, when);
        }
    });
}

/// Objects that it reports as unreadable were removed during the rebuild. The next backup still
/// finds all kept data.
#[test]
fn an_index_rebuilt_beside_a_prune_finds_all_kept_data() {
    beside_a_prune_at_every_read(398, |process, store, kept, when| {
        let made = store.rebuild_index(&Monitor::default());
        made.unwrap_or_else(|error| panic!("{when}: {error}"));
        let store = &process.beside(399).open();
        for (id, name, bytes) in kept {
            let again = back_up_bytes(store, name, bytes, &How::plain()).unwrap();
            assert_restores_bytes(store, &snapshot(store, *id), name, bytes, when);
            assert_restores_bytes(store, &snapshot(store, again.id), name, bytes, when);
        }
    });
}

/// A new generation's main copy exists, and its mirror copy appears before the n-th read of a
/// check, for every n until the check has looked for it twice.
#[test]
fn a_check_finds_nothing_between_the_copies_of_a_generation_that_is_being_put() {
    let (machine, _) = half_forgotten(402);
    let mut looked = [false; 3];
    for n in 1.. {
        let when = format!("before read {n}");
        let storage = machine.storage.crash(CrashPolicy::KeepAll);
        let process = Process::on(storage, machine.clock.clone(), 403);
        let pruner = process.beside(404).striding();
        let (between, is_between) = mpsc::sync_channel(1);
        let (go, goes_on) = mpsc::channel::<()>();
        pruner.watched.set_before(move |asked, name| {
            let parsed = ObjectName::new(name)
                .ok()
                .and_then(|name| names::parse_mirror(&name));
            let is_new = parsed.is_some_and(|mirror| mirror.generation > Generation::FIRST);
            // Once: no process waits for another.
            if asked == Asked::Put && is_new && between.try_send(name.to_owned()).is_ok() {
                _ = goes_on.recv();
            }
        });
        let (ended, has_ended) = mpsc::channel();
        let looks = thread::scope(|scope| {
            let (store, watched) = (process.open(), Arc::clone(&process.watched));
            scope.spawn(|| {
                prune(&pruner.open(), &leaving(PruneUnused::Bytes(0)), &when);
                ended.send(()).unwrap();
            });
            let mirror = is_between.recv().expect("a prune puts a mirror copy anew");
            let looks = Arc::new(AtomicUsize::new(0));
            let counted = Arc::clone(&looks);
            watched.take_requests();
            process.watched.set_once(n, move || {
                let asked = watched.take_requests();
                let of_it = asked
                    .iter()
                    .filter(|request| request.asked == Asked::Tail && request.name == mirror);
                counted.store(of_it.count(), Ordering::Relaxed);
                drop(go);
                has_ended.recv().unwrap();
            });
            let report = store.check(ReadData::Share(1.0), &Monitor::default()).unwrap();
            let looks = looks.load(Ordering::Relaxed);
            assert!(looks > 1 || report.is_sound(), "{when}: {:?}", report.findings);
            looks
        });
        looked[looks] = true;
        if looks > 1 {
            break;
        }
    }
    assert_eq!(looked, [true; 3]);
}

/// With little memory, only the data read ahead was read before it was written.
fn assembling() -> AssembleOptions {
    let mut assembling = AssembleOptions::for_cores(1);
    assembling.budget_bytes = 128 << 10;
    assembling
}

fn dump(store: &Store, id: SessionId, output: &mut dyn StreamOutput, monitor: &Monitor) -> Result<(), Error> {
    let found = snapshot(store, id);
    store.dump(&found, None, output, assembling(), monitor).map(drop)
}

/// An epoch from begin to end, as far as `waits` lets it continue. Returns the removed slots.
fn run_epoch(reclaimer: &Reclaimer, machine: &Process, condemned: &Slots) -> Slots {
    reclaimer.condemn(1, condemned);
    let mut answers = None;
    wait_for_heartbeat(&machine.clock, "the readers' answers", || {
        answers = reclaimer.answers(1);
        answers.is_some()
    });
    let live = reclaimer.live(&answers.unwrap());
    let removed: Slots = condemned.difference(&live).copied().collect();
    reclaimer.remove(1, &removed);
    removed
}

#[test]
fn a_backup_that_a_reader_declared_stays_after_forget_and_prune() {
    let machine = Process::new(300);
    machine.init();
    let bytes = noise(300, 1 << 20);
    let read = back_up_bytes(&machine.open(), "/read", &bytes, &How::plain()).unwrap();
    let other = back_up_bytes(&machine.open(), "/other", &noise(301, 100 << 10), &How::plain()).unwrap();
    let reclaimer = Reclaimer::new(machine.beside(301));
    let (of_read, of_other) = (reclaimer.slots_of(read.id), reclaimer.slots_of(other.id));
    let reader = machine.beside(302);
    let store = reader.open();
    let monitor = Monitor::default();
    let mut output = Sleeper::new(|| {
        reclaimer.forget(read.id);
        reclaimer.forget(other.id);
        let condemned = of_read.union(&of_other).copied().collect();
        let removed = run_epoch(&reclaimer, &machine, &condemned);
        assert_eq!(removed, of_other, "what is read stays, the other goes");
    });
    dump(&store, read.id, &mut output, &monitor).unwrap();
    assert!(output.bytes == bytes, "other bytes came out");
    assert_eq!(monitor.notes(), Vec::<onefold::Warning>::new());
    assert!(reclaimer.table().running.is_empty(), "the reader has ended");
    let error = store.dump(
        &fake(&store, read.id),
        None,
        &mut io_sink(),
        assembling(),
        &monitor,
    );
    let error = error.unwrap_err().to_string();
    assert!(error.contains("has been forgotten. `onefold"), "{error}");
}

#[test]
fn an_open_file_is_kept_until_it_is_closed() {
    let machine = Process::new(320);
    machine.init();
    let bytes = noise(320, 1 << 20);
    let read = back_up_bytes(&machine.open(), "/read", &bytes, &How::plain()).unwrap();
    let reclaimer = Reclaimer::new(machine.beside(321));
    let slots = reclaimer.slots_of(read.id);
    let store = machine.beside(322).open();
    let monitor = Monitor::default();
    let of = snapshot(&store, read.id);
    let mut file = store.open_file(&of, None, &monitor).unwrap();
    let mut back = vec![0; 1000];
    file.read_exact(&mut back).unwrap();
    reclaimer.forget(read.id);
    assert_eq!(run_epoch(&reclaimer, &machine, &slots), Slots::new());
    file.read_to_end(&mut back).unwrap();
    assert!(back == bytes, "other bytes came out");
    file.close(&monitor);
    assert_eq!(monitor.notes(), Vec::<onefold::Warning>::new());
    assert!(reclaimer.table().running.is_empty(), "the reader has ended");
    assert!(matches!(
        store.open_file(&of, None, &monitor),
        Err(Error::Forgotten { .. })
    ));
}

/// The backup as it was before it was forgotten.
fn fake(store: &Store, id: SessionId) -> onefold::Snapshot {
    let bytes = noise(309, 1 << 10);
    let made = back_up_bytes(store, "/fake", &bytes, &How::plain()).unwrap();
    let mut found = snapshot(store, made.id);
    found.id = id;
    found
}

fn io_sink() -> Sleeper<'static> {
    Sleeper::new(|| {})
}

#[test]
fn a_read_only_reader_continues_and_distinguishes_pruning_from_damage() {
    let machine = Process::new(310);
    machine.init();
    let bytes = noise(310, 1 << 20);
    let read = back_up_bytes(&machine.open(), "/read", &bytes, &How::plain()).unwrap();
    let reclaimer = Reclaimer::new(machine.beside(311));
    let slots = reclaimer.slots_of(read.id);
    for with in [FailWith::Denied, FailWith::NoSpace, FailWith::Io] {
        let reader = machine.beside(312);
        let store = reader.open();
        reader
            .storage
            .inject_here(Fault::fail_from(1, with).counting(env::fault::Counted::Mutating));
        let monitor = Monitor::default();
        let mut output = io_sink();
        dump(&store, read.id, &mut output, &monitor).unwrap();
        assert!(output.bytes == bytes, "{with:?}: other bytes came out");
        let notes = monitor.notes();
        assert!(
            notes.len() == 1 && notes[0].to_string().contains("is not kept"),
            "{notes:?}"
        );
        assert!(reclaimer.table().running.is_empty(), "{with:?}");
        let report = store.check(ReadData::Share(1.0), &monitor).unwrap();
        assert!(report.is_sound(), "{with:?}: {:?}", report.findings);
    }

    let reader = machine.beside(313);
    let store = reader.open();
    reader
        .storage
        .inject_here(Fault::fail_from(1, FailWith::Denied).counting(env::fault::Counted::Mutating));
    let mut output = Sleeper::new(|| {
        reclaimer.forget(read.id);
        assert_eq!(run_epoch(&reclaimer, &machine, &slots), slots, "nobody keeps it");
    });
    let error = dump(&store, read.id, &mut output, &Monitor::default()).unwrap_err();
    assert!(
        matches!(&error, Error::Forgotten { id, why: Some(_) } if *id == read.id),
        "{error}"
    );
    let text = error.to_string();
    for words in [
        "forgotten, and pruned while it was read without a pin",
        "`onefold snapshots` lists",
    ] {
        assert!(text.contains(words), "{text}");
    }
    assert!(bytes.starts_with(&output.bytes), "what came out before is right");
}

#[test]
fn damage_stays_damage_for_a_reader_without_a_pin() {
    let machine = Process::new(315);
    machine.init();
    let read = back_up_bytes(&machine.open(), "/read", &noise(315, 300 << 10), &How::plain()).unwrap();
    for name in machine.names("data") {
        let name = types::ObjectName::new(name).unwrap();
        env::Storage::delete(&machine.storage, &name).unwrap();
    }
    let error = dump(&unpinned(&machine), read.id, &mut io_sink(), &Monitor::default()).unwrap_err();
    assert!(matches!(error, Error::Restore(_)), "{error}");
}

fn unpinned(process: &Process) -> Store {
    let options = OpenOptions::default().pin_reads(false);
    Store::open(&process.env, &Credential::None, &options).unwrap()
}

/// Every kind of reader: a restore, a listing, a check that reads all, a measurement, a dump.
fn read_all(store: &Store, id: SessionId, monitor: &Monitor) {
    let found = snapshot(store, id);
    let target = tempfile::tempdir().unwrap();
    restore_to(store, &found, target.path(), "reading");
    let mut listed = 0;
    let count = |_: &_| -> Result<(), Error> {
        listed += 1;
        Ok(())
    };
    store
        .list_entries(&found, &[], &Monitor::default(), count)
        .unwrap();
    assert!(listed > 0);
    assert!(store.check(ReadData::Share(1.0), monitor).unwrap().is_sound());
    assert_eq!(
        store
            .layouts(std::slice::from_ref(&found), monitor)
            .unwrap()
            .len(),
        1
    );
}

#[test]
fn a_read_only_reader_and_a_listing_of_backups_write_nothing() {
    let machine = Process::new(320);
    machine.init();
    let tree = Tree::plant(3, 90 << 10);
    let made = back_up(&machine.open(), &tree, &How::plain()).unwrap();
    let reader = machine.beside(321);
    let monitor = Monitor::default();
    reader.watched.take_requests();
    read_all(&unpinned(&reader), made.id, &monitor);
    reader.open().snapshots().unwrap();
    reader.open().find("latest", &onefold::Filter::default()).unwrap();
    let writes = |request: &crate::common::Request| {
        matches!(request.asked, Asked::Put | Asked::Barrier | Asked::Delete)
    };
    let written: Vec<_> = reader
        .watched
        .take_requests()
        .into_iter()
        .filter(writes)
        .collect();
    assert!(written.is_empty(), "{written:?}");
    assert_eq!(monitor.notes(), Vec::<onefold::Warning>::new());

    // A pin: the claim, a heartbeat, the declared backup, and the end. Three waits for the disk
    // before, none after.
    let found = snapshot(&reader.open(), made.id);
    reader.watched.take_requests();
    reader
        .open()
        .list_entries(&found, &[], &Monitor::default(), |_| Ok::<_, Error>(()))
        .unwrap();
    let asked: Vec<Asked> = reader
        .watched
        .take_requests()
        .iter()
        .filter(|request| writes(request))
        .map(|request| request.asked)
        .collect();
    let (put, barrier) = (Asked::Put, Asked::Barrier);
    assert_eq!(asked, [put, barrier, put, barrier, put, barrier, put]);
}

#[test]
fn readers_leave_little_behind_and_a_backup_leaves_nothing_of_them() {
    let machine = Process::new(330);
    machine.init();
    let tree = Tree::plant(3, 60 << 10);
    let made = back_up(&machine.open(), &tree, &How::plain()).unwrap();
    let found = snapshot(&machine.open(), made.id);
    let mut most = 0;
    for _ in 0..60 {
        machine
            .open()
            .list_entries(&found, &[], &Monitor::default(), |_| Ok::<_, Error>(()))
            .unwrap();
        most = most.max(machine.names(names::SESSIONS_FOLDER).len());
    }
    assert!(most < 80, "{most} objects of readers");
    let reclaimer = Reclaimer::new(machine.beside(331));
    assert!(reclaimer.table().running.is_empty());
    let second = back_up(&machine.open(), &tree, &How::plain()).unwrap();
    let left = [made.id, second.id].map(|id| [names::claim(id), names::committed(id)]);
    let left: Vec<_> = left.iter().flatten().map(ToString::to_string).collect();
    assert_eq!(machine.names(names::SESSIONS_FOLDER), left);
    back_up(&machine.open(), &tree, &How::plain()).unwrap();
    assert_eq!(
        machine.names(names::BACKUPS_FOLDER).len(),
        3,
        "endings go when no claim is left"
    );
}

#[test]
fn a_reader_killed_at_every_operation_blocks_nobody() {
    let base = Process::new(340);
    base.init();
    let tree = Tree::plant(3, 60 << 10);
    let made = back_up(&base.open(), &tree, &How::plain()).unwrap();
    let picture = tree.picture();
    let mut n = 0;
    loop {
        n += 1;
        let when = format!("killed at operation {n}");
        let machine = Process::on(
            base.storage.crash(env::fault::CrashPolicy::KeepAll),
            base.clock.clone(),
            340 + n,
        );
        let reader = machine.beside(341 + n);
        let store = reader.open();
        let found = snapshot(&store, made.id);
        reader
            .storage
            .inject_here(Fault::kill(n).counting(env::fault::Counted::All));
        let target = tempfile::tempdir().unwrap();
        let request = onefold::RestoreRequest::new(assembling());
        drop(store.restore(&found, target.path(), &request, &Monitor::default(), &mut |_| {}));
        let is_killed = reader.storage.is_gone();
        drop(store);

        let other = machine.beside(342 + n);
        let reclaimer = Reclaimer::new(other.clone());
        let sealer = reclaimer.sealer();
        let watch = DeathWatch::new(other.env.clone(), SessionPolicy::default());
        let mine = Session::begin_read(sealer, 1, SessionPolicy::default()).unwrap();
        let others = |reclaimer: &Reclaimer| -> Vec<_> {
            let running = reclaimer.table().running;
            running.into_iter().filter(|info| info.id != mine.id()).collect()
        };
        for info in others(&reclaimer) {
            assert!(matches!(watch.observe(&info), Life::Dead(_)), "{when}");
            mine.expire(&info).unwrap();
        }
        mine.gc_sessions().unwrap();
        assert!(others(&reclaimer).is_empty(), "{when}");
        mine.end().unwrap();
        let store = other.open();
        assert_restores(&store, &snapshot(&store, made.id), &tree.root(), &picture, &when);
        assert_sound(&store, &when);
        if !is_killed {
            break;
        }
    }
    assert!(n > 10, "{n} operations");
}

#[test]
fn an_open_epoch_and_removed_containers_are_no_damage() {
    let machine = Process::new(350);
    machine.init();
    let bytes = noise(350, 200 << 10);
    let kept = back_up_bytes(&machine.open(), "/kept", &bytes, &How::plain()).unwrap();
    let check = || {
        machine
            .open()
            .check(ReadData::Share(1.0), &Monitor::default())
            .unwrap()
    };
    let reclaimer = Reclaimer::new(machine.beside(351));
    // A whole container that the manifest names and nothing reaches.
    let reached = reclaimer.reached_by(&reclaimer.backup(kept.id));
    let unreached: Slots = reclaimer
        .slots_of(kept.id)
        .difference(&reached)
        .copied()
        .collect();
    assert!(unreached.is_empty(), "{unreached:?}");
    let catalogs = machine.names("catalog");
    assert_eq!(catalogs.len(), 1);
    reclaimer.condemn(1, &Slots::new());
    let report = check();
    assert!(report.is_sound(), "{:?}", report.findings);
    let [leftover] = report.leftovers.as_slice() else {
        panic!("{:?}", report.leftovers)
    };
    assert_eq!(
        leftover.object,
        names::condemned(types::Epoch::new(1).unwrap()).to_string()
    );
    assert!(
        leftover.what.to_string().contains("run `onefold prune` again"),
        "{}",
        leftover.what
    );

    let catalog = types::ObjectName::new(catalogs[0].clone()).unwrap();
    let (container, _) = names::parse_container(&catalog).unwrap();
    env::Storage::delete(&machine.storage, &catalog).unwrap();
    assert!(!check().is_sound(), "it is missing");
    reclaimer.put_removed(1, container);
    env::Storage::delete(&machine.storage, &names::condemned(types::Epoch::new(1).unwrap())).unwrap();
    let report = check();
    assert!(report.is_sound() && report.leftovers.is_empty(), "{report:#?}");

    // A reached container must exist, whatever a list has.
    let of_data = machine.names("data").remove(0);
    let data = types::ObjectName::new(of_data).unwrap();
    reclaimer.put_removed(2, names::parse_container(&data).unwrap().0);
    assert!(check().is_sound());
    env::Storage::delete(&machine.storage, &data).unwrap();
    assert!(!check().is_sound());
}
