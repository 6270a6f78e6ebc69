//! The machine: what is live and durable, who runs on it, what is yet to go wrong.

use std::collections::BTreeMap;
use std::sync::Arc;

use types::{ObjectName, UnixNanos};

use super::crash::{Judge, tear};
use super::history::{History, Version};
use super::plan::{Action, Fault};
use super::{Counters, CrashPolicy, OpKind, Operation};
use crate::{Clock, LockState, StorageError};

/// The wall time of a machine without a clock of its own: 2024-01-01 00:00 UTC, a second later with each
/// put.
const FIRST_PUT_NANOS: i64 = 1_704_067_200_000_000_000;

#[derive(Debug)]
pub(super) struct World {
    objects: BTreeMap<ObjectName, History>,
    /// Counts changes of objects: the time of histories.
    changes: u64,
    live_bytes: u64,
    capacity: Option<u64>,
    clock: Option<Arc<dyn Clock>>,
    locks: BTreeMap<ObjectName, LockFile>,
    lock_tokens: u64,
    processes: BTreeMap<u64, Process>,
    next_process: u64,
    faults: Vec<Armed>,
    counters: Counters,
    trace: Option<Vec<Operation>>,
    stopped: bool,
}

#[derive(Debug)]
struct Process {
    host: u64,
    dead: bool,
    /// What it has put, deleted, read or listed since its last barrier: the change it knows of.
    seen: BTreeMap<ObjectName, u64>,
    counters: Counters,
}

#[derive(Debug, Clone)]
struct LockFile {
    host: u64,
    /// The holding process and the lock it got.
    holder: Option<(u64, u64)>,
}

#[derive(Debug)]
struct Armed {
    fault: Fault,
    process: Option<u64>,
    counted: u64,
}

/// What becomes of an operation that was let in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    Done,
    /// Carried out, but its caller hears no more of it.
    Unheard,
    Torn,
}

impl World {
    pub(super) fn new(clock: Option<Arc<dyn Clock>>) -> Self {
        Self {
            objects: BTreeMap::new(),
            changes: 0,
            live_bytes: 0,
            capacity: None,
            clock,
            locks: BTreeMap::new(),
            lock_tokens: 0,
            processes: BTreeMap::new(),
            next_process: 0,
            faults: Vec::new(),
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
                after.live_bytes += version.bytes.len() as u64;
                after.objects.insert(name.clone(), History::durable(version));
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

    // Processes.

    pub(super) fn start(&mut self, host: Option<u64>) -> u64 {
        let id = self.next_process;
        self.next_process += 1;
        let (seen, counters) = (BTreeMap::new(), Counters::default());
        // A host of its own is named by the first process that runs there.
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

    /// The process ends, by itself or by force.
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

    // Faults and counts.

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

    pub(super) fn set_capacity(&mut self, bytes: Option<u64>) {
        self.capacity = bytes;
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

    /// Lets an operation in, or says why not.
    pub(super) fn begin(&mut self, process: u64, operation: Operation) -> Result<Verdict, StorageError> {
        let kind = operation.kind;
        let gone = || StorageError::Gone { action: kind.word() };
        if self.is_gone(process) {
            return Err(gone());
        }
        self.count(process, |counters| counters.count(kind));
        let verdict = match self.strike(process, kind) {
            None => Verdict::Done,
            Some(Action::Fail { with, .. }) => return Err(with.error(kind, &operation.name)),
            Some(Action::Stop { carried_out }) => {
                self.stop();
                if !carried_out {
                    return Err(gone());
                }
                Verdict::Unheard
            }
            Some(Action::Kill { carried_out }) => {
                if !carried_out {
                    self.end(process);
                    return Err(gone());
                }
                // Ended when the operation is: a barrier still needs to know what the process has seen.
                Verdict::Unheard
            }
            Some(Action::Tear) => {
                self.stop();
                Verdict::Torn
            }
        };
        if let Some(trace) = &mut self.trace {
            trace.push(operation);
        }
        Ok(verdict)
    }

    /// Ends an operation that was let in; with an error, its caller hears that and not the outcome.
    pub(super) fn finish(&mut self, process: u64, kind: OpKind, verdict: Verdict) -> Option<StorageError> {
        if verdict == Verdict::Done {
            return None;
        }
        if !self.stopped {
            self.end(process);
        }
        Some(StorageError::Gone { action: kind.word() })
    }

    fn strike(&mut self, process: u64, kind: OpKind) -> Option<Action> {
        let mut action = None;
        for armed in &mut self.faults {
            let counts = armed.fault.counted.includes(kind) && armed.process.is_none_or(|p| p == process);
            if !counts {
                continue;
            }
            armed.counted += 1;
            let onward = matches!(armed.fault.action, Action::Fail { onward: true, .. });
            if armed.counted == armed.fault.at || (onward && armed.counted > armed.fault.at) {
                action = action.or(Some(armed.fault.action));
            }
        }
        action
    }

    fn count(&mut self, process: u64, count: impl Fn(&mut Counters)) {
        count(&mut self.counters);
        if let Some(p) = self.processes.get_mut(&process) {
            count(&mut p.counters);
        }
    }

    fn add_bytes(&mut self, process: u64, bytes: u64, add: impl Fn(&mut Counters, u64)) {
        self.count(process, |counters| add(counters, bytes));
        if let Some(operation) = self.trace.as_mut().and_then(|trace| trace.last_mut()) {
            operation.bytes = bytes;
        }
    }

    // Objects.

    pub(super) fn put(
        &mut self,
        process: u64,
        name: &ObjectName,
        bytes: Vec<u8>,
        torn: bool,
    ) -> Result<(), StorageError> {
        if self
            .objects
            .get(name)
            .is_some_and(|history| history.live().is_some())
        {
            self.see(process, name);
            return Err(StorageError::AlreadyExists { name: name.clone() });
        }
        let len = bytes.len() as u64;
        if self
            .capacity
            .is_some_and(|capacity| self.live_bytes.saturating_add(len) > capacity)
        {
            return Err(StorageError::NoSpace {
                name: name.to_string(),
            });
        }
        let version = Version {
            bytes: Arc::new(bytes),
            put_at: self.put_time(),
        };
        self.changes += 1;
        let history = self.objects.entry(name.clone()).or_insert_with(History::absent);
        if torn {
            let part = tear(&version, version.bytes.len() / 2, false);
            self.live_bytes += part.bytes.len() as u64;
            history.replace(part);
            return Ok(());
        }
        self.live_bytes += len;
        history.push(self.changes, Some(version));
        self.see(process, name);
        self.add_bytes(process, len, |counters, bytes| counters.put_bytes += bytes);
        Ok(())
    }

    pub(super) fn delete(&mut self, process: u64, name: &ObjectName) -> Result<(), StorageError> {
        let Some(version) = self.live(process, name) else {
            return Err(StorageError::NotFound { name: name.clone() });
        };
        self.live_bytes -= version.bytes.len() as u64;
        self.changes += 1;
        if let Some(history) = self.objects.get_mut(name) {
            history.push(self.changes, None);
        }
        self.see(process, name);
        Ok(())
    }

    /// Makes durable what the process has seen, and nothing else.
    pub(super) fn barrier(&mut self, process: u64) {
        let Some(p) = self.processes.get_mut(&process) else {
            return;
        };
        for (name, change) in std::mem::take(&mut p.seen) {
            if let Some(history) = self.objects.get_mut(&name) {
                history.settle(change);
                if history.is_gone() {
                    self.objects.remove(&name);
                }
            }
        }
    }

    pub(super) fn read(&mut self, process: u64, name: &ObjectName) -> Result<Version, StorageError> {
        self.live(process, name)
            .ok_or_else(|| StorageError::NotFound { name: name.clone() })
    }

    pub(super) fn returned(&mut self, process: u64, bytes: u64) {
        self.add_bytes(process, bytes, |counters, bytes| counters.get_bytes += bytes);
    }

    /// What is live under the prefix; that the rest is not counts as seen, too.
    pub(super) fn list(&mut self, process: u64, prefix: &str) -> Vec<(ObjectName, Version)> {
        let names: Vec<ObjectName> = self
            .objects
            .keys()
            .filter(|name| name.as_str().starts_with(prefix))
            .cloned()
            .collect();
        let live: Vec<_> = names
            .into_iter()
            .filter_map(|name| Some((name.clone(), self.live(process, &name)?)))
            .collect();
        let rows = live.len() as u64;
        self.count(process, |counters| counters.listed += rows);
        live
    }

    /// Names of all live objects; nothing counts as seen, as a folder's name says nothing of its objects.
    pub(super) fn live_names(&self) -> impl Iterator<Item = &ObjectName> {
        self.objects
            .iter()
            .filter(|(_, history)| history.live().is_some())
            .map(|(name, _)| name)
    }

    pub(super) fn count_listed(&mut self, process: u64, rows: u64) {
        self.count(process, |counters| counters.listed += rows);
    }

    pub(super) fn damage(&mut self, name: &ObjectName, damage: impl FnOnce(&mut Vec<u8>)) -> bool {
        let Some(history) = self.objects.get_mut(name) else {
            return false;
        };
        let Some(version) = history.live().cloned() else {
            return false;
        };
        let mut bytes = version.bytes.to_vec();
        damage(&mut bytes);
        self.live_bytes = self.live_bytes - version.bytes.len() as u64 + bytes.len() as u64;
        history.replace(Version {
            bytes: Arc::new(bytes),
            put_at: version.put_at,
        });
        true
    }

    pub(super) fn lose(&mut self, name: &ObjectName) -> bool {
        let live = self
            .objects
            .remove(name)
            .and_then(|history| history.live().cloned());
        self.live_bytes -= live.as_ref().map_or(0, |version| version.bytes.len() as u64);
        live.is_some()
    }

    pub(super) fn is_durable(&self, name: &ObjectName) -> bool {
        self.objects
            .get(name)
            .is_some_and(|h| h.states().len() == 1 && h.live().is_some())
    }

    fn live(&mut self, process: u64, name: &ObjectName) -> Option<Version> {
        self.see(process, name);
        self.objects.get(name)?.live().cloned()
    }

    fn see(&mut self, process: u64, name: &ObjectName) {
        let Some(history) = self.objects.get(name) else {
            return;
        };
        if let Some(p) = self.processes.get_mut(&process) {
            p.seen.insert(name.clone(), history.live_since());
        }
    }

    fn put_time(&self) -> UnixNanos {
        match &self.clock {
            Some(clock) => clock.wall(),
            None => {
                let puts = i64::try_from(self.changes).unwrap_or(i64::MAX);
                UnixNanos::new(FIRST_PUT_NANOS.saturating_add(puts.saturating_mul(1_000_000_000)))
            }
        }
    }

    // Locks.

    pub(super) fn lock(&mut self, process: u64, name: &ObjectName) -> Result<u64, StorageError> {
        let host = self.host(process);
        // Of another host's lock it cannot be told whether it is held, so it must not be taken.
        if self
            .locks
            .get(name)
            .is_some_and(|lock| lock.holder.is_some() || lock.host != host)
        {
            return Err(StorageError::Locked { name: name.clone() });
        }
        self.lock_tokens += 1;
        let holder = Some((process, self.lock_tokens));
        self.locks.insert(name.clone(), LockFile { host, holder });
        Ok(self.lock_tokens)
    }

    pub(super) fn unlock(&mut self, name: &ObjectName, token: u64) {
        if let Some(lock) = self.locks.get_mut(name)
            && lock.holder.is_some_and(|(_, held)| held == token)
        {
            lock.holder = None;
        }
    }

    pub(super) fn lock_state(&self, process: u64, name: &ObjectName) -> LockState {
        match self.locks.get(name) {
            Some(lock) if lock.host == self.host(process) => match lock.holder {
                Some(_) => LockState::Held,
                None => LockState::Free,
            },
            Some(_) | None => LockState::Unknown,
        }
    }

    pub(super) fn drop_lock(&mut self, name: &ObjectName) {
        self.locks.remove(name);
    }
}
