//! Injected faults and counts. Every operation begins and ends here.

use super::{Armed, Counters, Fault, OpKind, Operation, Verdict, World};
use crate::StorageError;
use crate::fault::plan::Action;

impl World {
    pub(in crate::fault) fn arm(&mut self, fault: Fault, process: Option<u64>) {
        self.faults.push(Armed {
            fault,
            process,
            counted: 0,
        });
    }

    pub(in crate::fault) fn disarm(&mut self) {
        self.faults.clear();
    }

    pub(in crate::fault) fn set_capacity(&mut self, bytes: Option<u64>) {
        self.capacity = bytes;
    }

    pub(in crate::fault) fn counters(&self, process: Option<u64>) -> Counters {
        match process {
            None => self.counters,
            Some(id) => self.processes.get(&id).map(|p| p.counters).unwrap_or_default(),
        }
    }

    pub(in crate::fault) fn start_trace(&mut self) {
        self.trace = Some(Vec::new());
    }

    pub(in crate::fault) fn take_trace(&mut self) -> Vec<Operation> {
        self.trace.take().unwrap_or_default()
    }

    /// Admits an operation, or returns the error.
    pub(in crate::fault) fn begin(
        &mut self,
        process: u64,
        operation: Operation,
    ) -> Result<Verdict, StorageError> {
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
                // The process ends together with the operation, because a barrier still needs the
                // objects that the process has seen.
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

    /// Ends an admitted operation. If this returns an error, the caller gets that instead of the
    /// outcome.
    pub(in crate::fault) fn finish(
        &mut self,
        process: u64,
        kind: OpKind,
        verdict: Verdict,
    ) -> Option<StorageError> {
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
            let counts = armed.fault.counted.includes(kind, kind.is_mutating())
                && armed.process.is_none_or(|p| p == process);
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

    pub(super) fn count(&mut self, process: u64, count: impl Fn(&mut Counters)) {
        count(&mut self.counters);
        if let Some(p) = self.processes.get_mut(&process) {
            count(&mut p.counters);
        }
    }

    pub(super) fn add_bytes(&mut self, process: u64, bytes: u64, add: impl Fn(&mut Counters, u64)) {
        self.count(process, |counters| add(counters, bytes));
        if let Some(operation) = self.trace.as_mut().and_then(|trace| trace.last_mut()) {
            operation.bytes = bytes;
        }
    }
}
