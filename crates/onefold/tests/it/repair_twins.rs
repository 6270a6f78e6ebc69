//! Layout repair among backups with the same bytes that are stored twice. A rewrite identifies its
//! targets by their bytes, so its maker leaves out any backup that has the bytes of another in
//! other places.
//!
//! Invariant: whole data of one is not removed in favour of possibly damaged data of the other. A
//! process that completes a rewrite, and sleeps while all its targets are published, forgotten and
//! pruned, puts no root anywhere.

use std::io::{self, Cursor, Read};

use crate::common::pruning::{assert_nothing_unexplained, everything, forget, prune, prune_after_crash};
use crate::common::reclaimer::Reclaimer;
use crate::common::scattered::{Scattered, hold, only, scattered};
use crate::common::sleeper::Sleeper;
use crate::common::{Asked, How, Process, assert_restores_bytes, assert_sound, back_up_stream, snapshot};
use env::Storage as _;
use format::manifest::StreamRoot;
use format::session::ARCHIVAL_SERIES;
use onefold::{Monitor, OptimizeReport, OptimizeRequest, ReadData, ReaderSource, SessionId, Store};

const NAME: &str = "/image";
const TWIN: &str = "/twin";

/// A series whose newest backup is scattered, and a backup of another series with the same bytes,
/// all of which were stored again for it.
struct Twins {
    machine: Process,
    series: Scattered,
    twin: SessionId,
}

/// Bytes that become available once something has happened.
struct Late<'a> {
    happens: Option<Box<dyn FnOnce() -> Vec<u8> + Send + 'a>>,
    bytes: Cursor<Vec<u8>>,
}

impl Read for Late<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if let Some(happens) = self.happens.take() {
            self.bytes = Cursor::new(happens());
        }
        self.bytes.read(buffer)
    }
}

impl Twins {
    fn new(seed: u64) -> Self {
        let machine = Process::new(seed);
        machine.init();
        let mut series = None;
        // It has begun when the series is made, and finds none of its data.
        let happens = || {
            let made = scattered(&machine, NAME, 6);
            let bytes = made.bytes();
            series = Some(made);
            bytes
        };
        let late = Late {
            happens: Some(Box::new(happens)),
            bytes: Cursor::default(),
        };
        let store = machine.beside(seed + 100).open();
        let made = back_up_stream(&store, TWIN, &mut ReaderSource(late), &How::plain()).unwrap();
        let series = series.unwrap();
        assert_eq!(made.totals.bytes_new, series.bytes().len() as u64);
        Self {
            machine,
            series,
            twin: made.id,
        }
    }

    fn newest(&self) -> SessionId {
        self.series.made.last().unwrap().0
    }

    fn streams(&self, id: SessionId) -> Vec<StreamRoot> {
        snapshot(&self.machine.open(), id).backup.streams
    }

    /// Only the newest of the series is due.
    fn repair(&self, by: &Process) -> OptimizeReport {
        let request = OptimizeRequest::default()
            .series(Some(snapshot(&self.machine.open(), self.newest()).series))
            .repair(Some(1000))
            .workers(1);
        by.open().optimize(&request, &Monitor::default()).unwrap()
    }

    fn assert_all(&self, gone: &[SessionId], when: &str) {
        self.series.assert_all(&self.machine, gone, when);
        let store = self.machine.open();
        let twin = snapshot(&store, self.twin);
        assert_restores_bytes(&store, &twin, TWIN, &self.series.bytes(), when);
        assert_sound(&store, when);
    }
}

/// A backup with the same roots gets references to the copies without being read, and the commit
/// for all has each content once. The twin stays as it is.
#[test]
fn a_twin_keeps_its_own_streams() {
    let mut twins = Twins::new(31);
    let older = twins.newest();
    twins.series.back_up(&twins.machine);
    let before = [twins.newest(), older, twins.twin].map(|id| twins.streams(id));
    assert!(before[0] == before[1] && before[0] != before[2], "{before:?}");
    let (newest, done) = only(&twins.repair(&twins.machine));
    assert!(newest == twins.newest() && done.is_done, "{done:?}");
    // All others of the series.
    assert_eq!(done.backups, 6, "{done:?}");
    let now = [newest, older, twins.twin].map(|id| twins.streams(id));
    assert!(now[0] != before[0] && now[0] == now[1], "{now:?}");
    assert_eq!(now[2], before[2]);
    let reclaimer = Reclaimer::new(twins.machine.beside(39));
    let list = reclaimer.manifests.list().unwrap();
    let mut rewrites = list
        .entries
        .iter()
        .filter(|entry| entry.series() == ARCHIVAL_SERIES);
    let rewrite = reclaimer.backup(rewrites.next().unwrap().session());
    assert_eq!(rewrite.streams.len(), 6);
    twins.assert_all(&[], "repaired");
    prune(&twins.machine.open(), &everything(), "what it had goes");
    twins.assert_all(&[], "pruned");
    assert_nothing_unexplained(&twins.machine, "pruned");
}

/// The series' data in the places that repair leaves is damaged or missing. The twin has the last
/// whole copy.
#[test]
fn a_twin_that_is_whole_stays_whole() {
    for (seed, is_gone) in [(41, false), (43, true)] {
        let twins = Twins::new(seed);
        let machine = &twins.machine;
        let when = format!("is gone: {is_gone}");
        let of_first = format!("data/{:013}/", twins.series.made[0].0.get());
        let objects = machine.storage.list("data").unwrap();
        let first = objects
            .iter()
            .find(|object| object.name.as_str().starts_with(&of_first));
        let name = &first.unwrap().name;
        if is_gone {
            machine.storage.delete(name).unwrap();
        } else {
            assert!(
                machine
                    .storage
                    .damage(name, |bytes: &mut Vec<u8>| bytes[100] ^= 1)
            );
        }
        let check = |store: &Store| store.check(ReadData::Share(1.0), &Monitor::default()).unwrap();
        let found = check(&machine.open()).damaged_backups;
        assert!(
            found.contains(&twins.newest()) && !found.contains(&twins.twin),
            "{when}: {found:?}"
        );
        let before = twins.streams(twins.twin);
        let report = twins.repair(machine);
        assert_eq!(twins.streams(twins.twin), before, "{when}: {report:?}");
        machine.open().prune(&everything(), &Monitor::default()).unwrap();
        let store = machine.open();
        let twin = snapshot(&store, twins.twin);
        assert_restores_bytes(&store, &twin, TWIN, &twins.series.bytes(), &when);
    }
}

/// A process that completes the rewrite has listed it, and sleeps until everything is forgotten and
/// removed.
#[test]
fn a_twin_gets_no_root_when_the_rewrite_is_gone() {
    let twins = Twins::new(32);
    let machine = &twins.machine;
    let maker = machine.beside(33);
    let [of_newest, of_twin] = [twins.newest(), twins.twin].map(|id| snapshot(&machine.open(), id).series);
    let sleeper = Sleeper::beside(&maker, machine.beside(34), of_newest, of_twin);
    let (newest, done) = only(&twins.repair(&maker));
    assert!(done.is_done, "{done:?}");
    forget(&machine.open(), newest);
    prune_after_crash(&machine.beside(35).striding().open(), &everything(), "asleep");
    sleeper.wake();
    twins.assert_all(&[newest], "completed");
    prune_after_crash(&machine.open(), &everything(), "at the end");
    twins.assert_all(&[newest], "at the end");
    assert_nothing_unexplained(machine, "at the end");
}

/// Nothing was made of its streams, but it would get the newest's new roots, because it has the
/// same old ones.
#[test]
fn nothing_is_rewritten_where_one_with_the_same_roots_is_held_meanwhile() {
    let mut twins = Twins::new(36);
    let older = twins.newest();
    twins.series.back_up(&twins.machine);
    let (worker, other) = (twins.machine.beside(37), twins.machine.beside(38));
    let mut is_held = false;
    worker.watched.set_before(move |asked, name| {
        if asked == Asked::Put && name.starts_with("recipe/") && !is_held {
            is_held = true;
            hold(&other, older);
        }
    });
    let before = [twins.newest(), older].map(|id| twins.streams(id));
    let (_, done) = only(&twins.repair(&worker));
    assert!(!done.is_done, "{done:?}");
    assert_eq!([twins.newest(), older].map(|id| twins.streams(id)), before);
    // A backup that was held before is no target.
    assert!(only(&twins.repair(&twins.machine)).1.is_done);
    assert_eq!(twins.streams(older), before[1]);
    twins.assert_all(&[], "repaired");
}
