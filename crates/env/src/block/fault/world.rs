//! The machine: its disks and processes, the armed faults and the counts. Every operation begins
//! here.

use std::collections::BTreeMap;

use types::ByteRange;

use super::content::{DiscardedReads, Reader};
use super::counters::{Counters, OpKind, Operation};
use super::cut::Judge;
use super::disk::Disk;
use super::plan::{Action, Fault, Share};
use crate::block::device::{BLOCK_BYTES, DeviceError};

#[derive(Debug, Clone)]
pub(super) struct World {
    disks: BTreeMap<String, Disk>,
    reader: Reader,
    /// The number of changes of disks: the time of histories.
    changes: u64,
    processes: BTreeMap<u64, Process>,
    next_process: u64,
    faults: Vec<Armed>,
    counters: Counters,
    trace: Option<Vec<Operation>>,
}

#[derive(Debug, Clone, Default)]
struct Process {
    has_ended: bool,
    counters: Counters,
}

#[derive(Debug, Clone)]
struct Armed {
    fault: Fault,
    process: Option<u64>,
    counted: u64,
}

/// The course of an admitted operation.
#[derive(Debug)]
pub(super) struct Verdict {
    pub(super) share: Share,
    /// What the caller gets, whatever was carried out.
    pub(super) error: Option<DeviceError>,
}

impl Default for World {
    fn default() -> Self {
        Self {
            disks: BTreeMap::new(),
            reader: Reader {
                discarded: DiscardedReads::Seeded(0),
                cuts: 0,
            },
            changes: 0,
            processes: BTreeMap::new(),
            next_process: 0,
            faults: Vec::new(),
            counters: Counters::default(),
            trace: None,
        }
    }
}

impl World {
    /// The world after a power cut, without processes, faults or counts.
    pub(super) fn after(&self, judge: &mut Judge) -> Self {
        let disks = self.disks.iter();
        let cuts = self.reader.cuts + 1;
        Self {
            disks: disks
                .map(|(name, disk)| (name.clone(), disk.after(&self.reader, judge)))
                .collect(),
            reader: Reader { cuts, ..self.reader },
            changes: self.changes,
            next_process: self.next_process,
            ..Self::default()
        }
    }

    pub(super) fn choices(&self) -> Vec<usize> {
        self.disks.values().flat_map(Disk::choices).collect()
    }

    pub(super) fn create(&mut self, name: &str, len: u64) -> u64 {
        let len = len - len % BLOCK_BYTES;
        let is_new = !self.disks.contains_key(name);
        assert!(is_new, "the machine has a disk {name}");
        self.disks.insert(name.to_owned(), Disk::new(len));
        len
    }

    pub(super) fn open(&self, process: u64, name: &str) -> Result<u64, DeviceError> {
        if self.is_gone(process) {
            return Err(DeviceError::Gone { action: "open" });
        }
        let found = self.disks.get(name).ok_or_else(|| DeviceError::NotFound {
            device: name.to_owned(),
        })?;
        Ok(found.len())
    }

    pub(super) fn start(&mut self) -> u64 {
        let id = self.next_process;
        self.next_process += 1;
        self.processes.insert(id, Process::default());
        id
    }

    pub(super) fn end(&mut self, process: u64) {
        if let Some(p) = self.processes.get_mut(&process) {
            p.has_ended = true;
        }
    }

    pub(super) fn stop(&mut self) {
        for process in self.processes.values_mut() {
            process.has_ended = true;
        }
    }

    pub(super) fn is_gone(&self, process: u64) -> bool {
        self.processes.get(&process).is_none_or(|p| p.has_ended)
    }

    pub(super) fn arm(&mut self, fault: Fault, process: Option<u64>) {
        self.faults.push(Armed {
            fault,
            process,
            counted: 0,
        });
    }

    pub(super) fn disarm(&mut self) {
        self.faults.clear();
    }

    pub(super) fn set_discarded_reads(&mut self, reads: DiscardedReads) {
        self.reader.discarded = reads;
    }

    pub(super) fn counters(&self, process: Option<u64>) -> Counters {
        match process {
            None => self.counters,
            Some(id) => self.processes.get(&id).map(|p| p.counters).unwrap_or_default(),
        }
    }

    pub(super) fn start_trace(&mut self) {
        self.trace = Some(Vec::new());
    }

    pub(super) fn take_trace(&mut self) -> Vec<Operation> {
        self.trace.take().unwrap_or_default()
    }

    pub(super) fn unflushed(&mut self, name: &str) -> usize {
        self.disk(name).0.unflushed()
    }

    pub(super) fn damage(&mut self, name: &str, offset: u64, damage: impl FnOnce(&mut [u8])) {
        let (disk, reader, _) = self.disk(name);
        disk.damage(&reader, offset, damage);
    }

    pub(super) fn make_unreadable(&mut self, name: &str, range: ByteRange) {
        self.disk(name).0.make_unreadable(range);
    }

    pub(super) fn changes(&self) -> u64 {
        self.changes
    }

    /// The number of the next change.
    pub(super) fn change(&mut self) -> u64 {
        self.changes += 1;
        self.changes
    }

    /// The disk, its reader, and the number of the last change.
    pub(super) fn disk(&mut self, name: &str) -> (&mut Disk, Reader, u64) {
        let disk = self.disks.get_mut(name);
        let disk = disk.unwrap_or_else(|| panic!("the machine has no disk {name}"));
        (disk, self.reader, self.changes)
    }

    /// Admits an operation, or returns the error of one that is not carried out.
    pub(super) fn begin(&mut self, process: u64, operation: Operation) -> Result<Verdict, DeviceError> {
        let (kind, action) = (operation.kind, operation.kind.word());
        if self.is_gone(process) {
            return Err(DeviceError::Gone { action });
        }
        self.counters.count(kind, operation.len);
        if let Some(p) = self.processes.get_mut(&process) {
            p.counters.count(kind, operation.len);
        }
        let verdict = match self.strike(process, kind) {
            None => Verdict {
                share: Share::All,
                error: None,
            },
            Some(fault) => {
                let error = match fault.action {
                    Action::Fail { with, .. } => with.device_error(kind, &operation.device),
                    Action::Stop => {
                        self.stop();
                        DeviceError::Gone { action }
                    }
                    Action::Kill => {
                        self.end(process);
                        DeviceError::Gone { action }
                    }
                };
                Verdict {
                    share: fault.share,
                    error: Some(error),
                }
            }
        };
        if verdict.share != Share::Nothing
            && let Some(trace) = &mut self.trace
        {
            trace.push(operation);
        }
        Ok(verdict)
    }

    fn strike(&mut self, process: u64, kind: OpKind) -> Option<Fault> {
        let mut struck = None;
        for armed in &mut self.faults {
            let counts = armed.fault.counted.includes(kind, kind.is_mutating())
                && armed.process.is_none_or(|p| p == process);
            if !counts {
                continue;
            }
            armed.counted += 1;
            let onward = matches!(armed.fault.action, Action::Fail { onward: true, .. });
            if armed.counted == armed.fault.at || (onward && armed.counted > armed.fault.at) {
                struck = struck.or(Some(armed.fault));
            }
        }
        struck
    }
}
