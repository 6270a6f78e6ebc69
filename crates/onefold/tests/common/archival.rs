//! Shared code of tests that make backups archival: a series, some of it archival, and what must
//! always hold for it.

use std::collections::BTreeMap;
use std::sync::Arc;

use env::fault::FaultStorage;
use format::names;
use format::session::ARCHIVAL_SERIES;
use onefold::{HoldEnd, Monitor, OptimizeReport, OptimizeRequest, SessionId, Store};

use super::beside::Kept;
use super::pruning::{assert_nothing_unexplained, everything, impatient, prune_after_crash};
use super::{
    Asked, HandClock, How, Process, StorageClock, assert_restores_bytes, assert_sound, back_up_bytes, noise,
    snapshot,
};

/// The series.
pub const NAME: &str = "/image";

/// A store with one series.
pub struct Base {
    pub machine: Process,
    pub contents: BTreeMap<SessionId, Vec<u8>>,
    pub ids: Vec<SessionId>,
    /// Backups that others have made meanwhile.
    pub others: Vec<Kept>,
}

/// Optimizes every series with this live window.
pub fn optimize(store: &Store, live: u16) -> OptimizeReport {
    let request = OptimizeRequest::default().live(Some(live));
    store.optimize(&request, &Monitor::default()).unwrap()
}

/// Whether the object that is put is the commit of a rewrite.
pub fn is_rewrite(asked: Asked, name: &str) -> bool {
    let series = format!("{}/", names::backups_folder(ARCHIVAL_SERIES));
    asked == Asked::Put && name.starts_with(&series) && name.ends_with(".0")
}

/// Holds a backup for years, or ends its hold.
pub fn hold(store: &Store, id: SessionId, is_held: bool) {
    let end = is_held.then(|| HoldEnd::After("10y".parse().unwrap()));
    store.hold(&[id.to_string()], end).unwrap();
}

impl Base {
    /// Four backups of a series. Each has some bytes of its own, and some of the next one. This
    /// many of them are archival.
    pub fn new(seed: u64, archival: usize) -> Self {
        Self::on(Process::new(seed), seed, archival)
    }

    /// The same on a machine whose storage uses the clock that tests move.
    pub fn timed(seed: u64, archival: usize) -> Self {
        let clock = HandClock::new();
        let storage = FaultStorage::with_clock(Arc::new(StorageClock::new(&clock)));
        Self::on(Process::on(storage, clock, seed), seed, archival)
    }

    fn on(machine: Process, seed: u64, archival: usize) -> Self {
        let mut base = Self::empty(machine.striding());
        for n in 0..4u8 {
            base.back_up(seed, n.into());
            if n > 0 && usize::from(n) <= archival {
                optimize(&base.machine.open(), 1);
            }
        }
        base.prune(seed + 1);
        base
    }

    /// A new store.
    pub fn empty(machine: Process) -> Self {
        machine.init();
        Self {
            machine,
            contents: BTreeMap::new(),
            ids: Vec::new(),
            others: Vec::new(),
        }
    }

    /// The content of the n-th backup, of at most five.
    pub fn bytes(seed: u64, n: u64) -> Vec<u8> {
        let part = |n| noise(seed * 10 + n, 24 << 10);
        [n, 7, n + 1, 8, n + 2].map(part).concat()
    }

    /// The n-th backup.
    pub fn back_up(&mut self, seed: u64, n: u64) {
        let bytes = Self::bytes(seed, n);
        let made = back_up_bytes(&self.machine.open(), NAME, &bytes, &How::plain()).unwrap();
        self.contents.insert(made.id, bytes);
        self.ids.push(made.id);
    }

    /// Prunes by a process without caches. Nothing may stay dead.
    pub fn prune(&self, seed: u64) {
        let pruner = self.machine.beside(seed).striding();
        prune_after_crash(&pruner.open(), &everything(), "a prune before");
    }

    pub fn assert_all(&self, gone: &[SessionId], when: &str) {
        let own = self.contents.iter().filter(|(id, _)| !gone.contains(id));
        let own = own.map(|(id, bytes)| (id, NAME, bytes));
        let others = self.others.iter().map(|(id, name, bytes)| (id, *name, bytes));
        for (id, name, bytes) in own.chain(others) {
            let store = self.machine.beside(0xfe).open();
            assert_restores_bytes(
                &store,
                &snapshot(&store, *id),
                name,
                bytes,
                &format!("{when}: {id}"),
            );
        }
    }

    /// Afterwards all backups restore, and again after everything is pruned, made archival and
    /// pruned.
    pub fn assert_settles(&self, gone: &[SessionId], when: &str) {
        self.assert_all(gone, when);
        let last = self.machine.beside(0xff).striding();
        prune_after_crash(&last.open(), &impatient(everything()), when);
        self.assert_all(gone, &format!("{when}, and a prune"));
        optimize(&last.open(), 1);
        prune_after_crash(&last.open(), &impatient(everything()), when);
        self.assert_all(gone, &format!("{when}, all archival"));
        prune_after_crash(&last.open(), &impatient(everything()), when);
        assert_nothing_unexplained(&last, when);
        assert_sound(&last.open(), when);
    }
}
