//! Layout repair among backups with the same bytes that are stored twice: whoever publishes a rewrite knows by their bytes whom it is for, so
//! the one who made it goes by them as well, whether it has rewritten a backup's own trees or not.
//!
//! What must hold: who completes a rewrite, and sleeps while all that it was for is published, forgotten and pruned, puts no root in
//! any place.
#![allow(missing_docs, clippy::unwrap_used, reason = "tests")]

mod common;

use std::io::{self, Cursor, Read};

use common::pruning::{assert_nothing_unexplained, everything, forget, prune, prune_after_crash};
use common::reclaimer::Reclaimer;
use common::scattered::{Scattered, hold, only, scattered};
use common::sleeper::Sleeper;
use common::{Asked, How, Process, assert_restores_bytes, assert_sound, back_up_stream, snapshot};
use format::manifest::StreamRoot;
use format::session::ARCHIVAL_SERIES;
use onefold::{Monitor, OptimizeReport, OptimizeRequest, ReaderSource, SessionId};

const NAME: &str = "/image";
const TWIN: &str = "/twin";

/// A series whose newest backup lies scattered, and a backup of another with the same bytes, which were all stored again for it.
struct Twins {
    machine: Process,
    series: Scattered,
    twin: SessionId,
}

/// Bytes that are there once something has happened.
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
        // It has begun when the series is made, and finds nothing of that.
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

    /// The newest of the series is due, and no other.
    fn repair(&self, by: &Process) -> OptimizeReport {
        let request = OptimizeRequest {
            series: Some(snapshot(&self.machine.open(), self.newest()).series),
            repair: Some(1000),
            workers: 1,
            ..OptimizeRequest::default()
        };
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

/// Nothing that the twin has is copied; it refers to the copies all the same, and what it had goes. What is committed for all has each
/// content once.
#[test]
fn a_twin_refers_to_the_copies() {
    let mut twins = Twins::new(31);
    let older = twins.newest();
    twins.series.back_up(&twins.machine);
    let before = twins.streams(twins.twin);
    let (newest, done) = only(&twins.repair(&twins.machine));
    assert!(newest == twins.newest() && done.is_done, "{done:?}");
    // All others of the series, and the twin.
    assert_eq!(done.backups, 7, "{done:?}");
    let now = [newest, older, twins.twin].map(|id| twins.streams(id));
    assert!(
        now[0] != before && now.iter().all(|one| *one == now[0]),
        "{now:?}"
    );
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

/// Who completes it has listed the rewrite, and sleeps until all is forgotten and gone.
#[test]
fn a_twin_gets_no_root_when_the_rewrite_is_gone() {
    let twins = Twins::new(32);
    let machine = &twins.machine;
    let (maker, of_twin) = (machine.beside(33), snapshot(&machine.open(), twins.twin).series);
    let sleeper = Sleeper::beside(&maker, machine.beside(34), of_twin, of_twin);
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

/// Nothing was made of its streams, and it would get the newest's all the same.
#[test]
fn nothing_is_rewritten_where_a_twin_is_held_meanwhile() {
    let twins = Twins::new(36);
    let (worker, other) = (twins.machine.beside(37), twins.machine.beside(38));
    let (held, mut is_held) = (twins.twin, false);
    worker.watched.set_before(move |asked, name| {
        if asked == Asked::Put && name.starts_with("recipe/") && !is_held {
            is_held = true;
            hold(&other, held);
        }
    });
    let before = [twins.newest(), twins.twin].map(|id| twins.streams(id));
    let (_, done) = only(&twins.repair(&worker));
    assert!(!done.is_done, "{done:?}");
    assert_eq!([twins.newest(), twins.twin].map(|id| twins.streams(id)), before);
    // Held before it begins it is none of its business.
    assert!(only(&twins.repair(&twins.machine)).1.is_done);
    assert_eq!(twins.streams(twins.twin), before[1]);
    twins.assert_all(&[], "repaired");
}
