//! Layout repair: series whose newest backup is scattered, and the report of a repair.

use env::Storage;
use onefold::{HoldEnd, Monitor, OptimizeReport, OptimizeRequest, Repaired, SessionId, Store};
use types::UnixNanos;

use super::{How, Process, assert_restores_bytes, back_up_bytes, noise, snapshot};

/// A piece of a backup: several chunks of a tiny store.
pub const PIECE: usize = 6 << 10;

pub fn try_repair(store: &Store, percent: u16) -> Result<OptimizeReport, onefold::Error> {
    let request = OptimizeRequest::default().repair(Some(percent)).workers(2);
    store.optimize(&request, &Monitor::default())
}

pub fn repair(store: &Store, percent: u16) -> OptimizeReport {
    try_repair(store, percent).unwrap()
}

/// The result for the one backup that was due.
pub fn only(report: &OptimizeReport) -> (SessionId, Repaired) {
    assert!(report.failed.is_empty(), "{report:?}");
    assert_eq!(report.repaired.len(), 1, "{report:?}");
    report.repaired[0]
}

pub fn hold(machine: &Process, id: SessionId) {
    let end = HoldEnd::At(UnixNanos::new(i64::MAX));
    machine.open().hold(&[id.to_string()], Some(end)).unwrap();
}

pub fn stored(machine: &Process) -> u64 {
    ["data", "archive", "recipe", "small", "catalog"]
        .iter()
        .flat_map(|folder| machine.storage.list(folder).unwrap())
        .map(|object| object.len)
        .sum()
}

/// Backups that each replace some pieces, in several places, of the one before.
pub struct Scattered {
    pub name: &'static str,
    seed: u64,
    pub pieces: Vec<u64>,
    next: u64,
    pub made: Vec<(SessionId, Vec<u8>)>,
}

impl Scattered {
    pub fn new(name: &'static str, seed: u64, pieces: u64) -> Self {
        Self {
            name,
            seed,
            pieces: (0..pieces).collect(),
            next: pieces,
            made: Vec::new(),
        }
    }

    pub fn bytes(&self) -> Vec<u8> {
        let piece = |n: &u64| noise(self.seed + n, PIECE);
        self.pieces.iter().flat_map(piece).collect()
    }

    pub fn back_up(&mut self, machine: &Process) -> SessionId {
        let bytes = self.bytes();
        let made = back_up_bytes(&machine.open(), self.name, &bytes, &How::plain()).unwrap();
        self.made.push((made.id, bytes));
        made.id
    }

    /// Replaces one in so many pieces.
    pub fn change(&mut self, every: usize, from: usize) {
        for n in (from..self.pieces.len()).step_by(every) {
            self.pieces[n] = self.next;
            self.next += 1;
        }
    }

    pub fn assert_all(&self, machine: &Process, gone: &[SessionId], when: &str) {
        for (id, bytes) in self.made.iter().filter(|(id, _)| !gone.contains(id)) {
            let store = machine.open();
            assert_restores_bytes(&store, &snapshot(&store, *id), self.name, bytes, when);
        }
    }
}

pub fn scattered(machine: &Process, name: &'static str, count: usize) -> Scattered {
    let mut series = Scattered::new(name, 1000, 60);
    for n in 0..count {
        if n > 0 {
            series.change(11, n * 3 % 11);
        }
        series.back_up(machine);
    }
    series
}
