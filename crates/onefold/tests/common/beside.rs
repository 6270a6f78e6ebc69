//! Shared code of tests that prune beside others: backups and readers that pause, and what must
//! hold when all have ended.

use std::io;

use onefold::{
    AssembleOptions, BackupReport, Error, Monitor, PruneOptions, SessionId, Snapshot, Store, StreamOutput,
};

use super::pruning::{assert_nothing_unexplained, everything, impatient, prune_after_crash};
use super::{
    How, Parts, Process, assert_restores_bytes, assert_sound, back_up_bytes, back_up_watched, snapshot,
    wait_for_look_ups,
};

/// A backup that is kept: its name and bytes.
pub type Kept = (SessionId, &'static str, Vec<u8>);

pub fn chosen<'a>(parts: &'a [Vec<u8>], which: &[usize]) -> Vec<&'a [u8]> {
    which.iter().map(|n| &parts[*n][..]).collect()
}

/// Backs up parts. Between the n-th part and the next one, when all bytes so far were looked up, it
/// does something.
pub fn back_up_pausing(
    process: &Process,
    name: &str,
    parts: &[&[u8]],
    how: &How,
    mut pause: impl FnMut(usize) + Send,
) -> Result<BackupReport, Error> {
    let monitor = Monitor::default();
    let store = process.open();
    let mut source = Parts::new(parts, |done| {
        wait_for_look_ups(&monitor);
        pause(done);
    });
    back_up_watched(&store, name, &mut source, how, &monitor)
}

/// Backs up without a pause.
pub fn back_up_parts(process: &Process, name: &str, parts: &[&[u8]]) -> SessionId {
    let made = back_up_bytes(&process.open(), name, &Parts::whole(parts), &How::plain());
    made.unwrap().id
}

pub fn assert_kept(process: &Process, kept: &[(SessionId, &str, Vec<u8>)], when: &str) {
    let store = process.open();
    let list = store.snapshots().unwrap();
    let mut ids: Vec<_> = kept.iter().map(|(id, ..)| *id).collect();
    ids.sort_unstable();
    let found: Vec<_> = list.snapshots.iter().map(|snapshot| snapshot.id).collect();
    assert_eq!(found, ids, "{when}");
    for (id, name, bytes) in kept {
        assert_restores_bytes(&store, &snapshot(&store, *id), name, bytes, when);
    }
    assert_sound(&store, when);
}

/// What must hold when all have ended: all backups restore, and prunes remove exactly the rest.
pub fn assert_settles(machine: &Process, kept: &[(SessionId, &str, Vec<u8>)], when: &str) {
    assert_kept(&machine.beside(800), kept, when);
    let pruner = machine.beside(801).striding();
    for _ in 0..3 {
        prune_after_crash(&pruner.open(), &everything(), when);
    }
    assert_nothing_unexplained(&pruner, when);
    assert_kept(&machine.beside(802), kept, &format!("{when}, pruned"));
    // The remaining hooks of the index lead to no removed container.
    let again: Vec<_> = kept
        .iter()
        .map(|(_, name, bytes)| {
            let store = machine.beside(803).open();
            let made = back_up_bytes(&store, name, bytes, &How::plain()).unwrap();
            (made.id, *name, bytes.clone())
        })
        .collect();
    let all: Vec<_> = kept.iter().cloned().chain(again).collect();
    assert_kept(&machine.beside(804), &all, &format!("{when}, backed up again"));
}

/// Dead sessions of other hosts are given up soon, which saves the test a long wait. Live ones get
/// their usual time to answer.
pub fn soon_given_up(options: PruneOptions) -> PruneOptions {
    let answer_within = options.answer_within;
    impatient(options).answer_within(answer_within)
}

/// Calls back once, at the first bytes.
struct Sleeper<F> {
    bytes: Vec<u8>,
    asleep: Option<F>,
}

impl<F: FnOnce() + Send> StreamOutput for Sleeper<F> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        if let Some(asleep) = self.asleep.take() {
            asleep();
        }
        self.bytes.extend_from_slice(bytes);
        Ok(())
    }
    fn skip_zeros(&mut self, len: u64) -> io::Result<()> {
        let len = self.bytes.len() + usize::try_from(len).unwrap();
        self.bytes.resize(len, 0);
        Ok(())
    }
}

pub fn dump(store: &Store, id: SessionId, asleep: impl FnOnce() + Send) -> Vec<u8> {
    dump_within(store, id, 128 << 10, asleep)
}

/// Reads a backup with so much memory, and calls back at the first bytes.
pub fn dump_within(store: &Store, id: SessionId, budget_bytes: u64, asleep: impl FnOnce() + Send) -> Vec<u8> {
    try_dump(store, &snapshot(store, id), budget_bytes, asleep).unwrap()
}

/// The same, but returns the error.
pub fn try_dump(
    store: &Store,
    found: &Snapshot,
    budget_bytes: u64,
    asleep: impl FnOnce() + Send,
) -> Result<Vec<u8>, Error> {
    let mut output = Sleeper {
        bytes: Vec::new(),
        asleep: Some(asleep),
    };
    let mut assembling = AssembleOptions::for_cores(1);
    assembling.budget_bytes = budget_bytes;
    store.dump(found, None, &mut output, assembling, &Monitor::default())?;
    Ok(output.bytes)
}
