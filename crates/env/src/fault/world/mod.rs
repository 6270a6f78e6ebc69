//! The machine: live and durable objects, its processes, and the armed faults.

mod control;
mod locks;
mod objects;

use std::collections::BTreeMap;
use std::sync::Arc;

use types::{ByteRange, ObjectName};

use super::crash::Judge;
use super::history::{History, Version};
use super::plan::Fault;
use super::{Counters, CrashPolicy, OpKind, Operation};
use crate::Clock;

#[derive(Debug)]
pub(super) struct World {
    objects: BTreeMap<ObjectName, History>,
    /// Trims that no barrier covers.
    trims: Vec<Trim>,
    /// The number of changes of objects: the time of histories.
    changes: u64,
    live_bytes: u64,
    capacity: Option<u64>,
    clock: Option<Arc<dyn Clock>>,
    locks: BTreeMap<ObjectName, LockFile>,
    lock_tokens: u64,
    processes: BTreeMap<u64, Process>,
    next_process: u64,
    faults: Vec<Armed>,
    /// The unreadable bytes of each object.
    unreadable: BTreeMap<ObjectName, ByteRange>,
    counters: Counters,
    trace: Option<Vec<Operation>>,
    stopped: bool,
}

#[derive(Debug)]
struct Process {
    host: u64,
    dead: bool,
    /// The objects that it has put, deleted, read or listed since its last barrier, each with the
    /// change that it knows of.
    seen: BTreeMap<ObjectName, u64>,
    counters: Counters,
}

/// A renamed object, and its version before the trim.
#[derive(Debug, Clone)]
struct Trim {
    from: ObjectName,
    to: ObjectName,
    before: Version,
    since: u64,
}

#[derive(Debug, Clone)]
struct LockFile {
    host: u64,
    /// The holding process, and the number of its lock.
    holder: Option<(u64, u64)>,
}

#[derive(Debug)]
struct Armed {
    fault: Fault,
    process: Option<u64>,
    counted: u64,
}

/// The course of an admitted operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    Done,
    /// The operation is carried out, but its caller gets no answer.
    Unheard,
    Torn,
}

impl World {
    pub(super) fn new(clock: Option<Arc<dyn Clock>>) -> Self {
        Self {
            objects: BTreeMap::new(),
            trims: Vec::new(),
            changes: 0,
            live_bytes: 0,
            capacity: None,
            clock,
            locks: BTreeMap::new(),
            lock_tokens: 0,
            processes: BTreeMap::new(),
            next_process: 0,
            faults: Vec::new(),
            unreadable: BTreeMap::new(),
            counters: Counters::default(),
            trace: None,
            stopped: false,
        }
    }

    /// The world after a power loss, without processes, faults or counts.
    pub(super) fn after_crash(&self, policy: CrashPolicy) -> Self {
        let mut judge = Judge::new(policy);
        let mut after = Self::new(self.clock.clone());
        after.changes = self.changes;
        after.capacity = self.capacity;
        after.next_process = self.next_process;
        for (name, history) in &self.objects {
            if let Some(version) = judge.survivor(history) {
                after.live_bytes += version.space();
                after.objects.insert(name.clone(), History::durable(version));
            }
        }
        for trim in self.trims.iter().rev() {
            let stands = after.objects.get(&trim.to).and_then(History::live).cloned();
            // A process that put the first name again did so later, and journals keep the order of
            // names.
            if let Some(trimmed) = stands
                && !after.objects.contains_key(&trim.from)
                && judge.undoes_trim()
            {
                let kept = if judge.keeps_holes() {
                    trimmed.clone()
                } else {
                    trim.before.clone()
                };
                after.live_bytes = after.live_bytes - trimmed.space() + kept.space();
                after.objects.remove(&trim.to);
                after.objects.insert(trim.from.clone(), History::durable(kept));
            }
        }
        for (name, lock) in &self.locks {
            if judge.keeps_lock() {
                after.locks.insert(
                    name.clone(),
                    LockFile {
                        host: lock.host,
                        holder: None,
                    },
                );
            }
        }
        after
    }

    pub(super) fn start(&mut self, host: Option<u64>) -> u64 {
        let id = self.next_process;
        self.next_process += 1;
        let (seen, counters) = (BTreeMap::new(), Counters::default());
        // The first process on another host gives that host its number.
        self.processes.insert(
            id,
            Process {
                host: host.unwrap_or(id),
                dead: false,
                seen,
                counters,
            },
        );
        id
    }

    pub(super) fn host(&self, process: u64) -> u64 {
        self.processes.get(&process).map_or(process, |p| p.host)
    }

    /// Ends the process, voluntarily or by force.
    pub(super) fn end(&mut self, process: u64) {
        if let Some(p) = self.processes.get_mut(&process) {
            p.dead = true;
            p.seen.clear();
        }
        for lock in self.locks.values_mut() {
            if lock.holder.is_some_and(|(holder, _)| holder == process) {
                lock.holder = None;
            }
        }
    }

    pub(super) fn stop(&mut self) {
        self.stopped = true;
    }

    pub(super) fn is_gone(&self, process: u64) -> bool {
        self.stopped || self.processes.get(&process).is_none_or(|p| p.dead)
    }
}
