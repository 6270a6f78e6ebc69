//! The hooks of all runs in memory, for a server, or for a process with enough memory.
//!
//! Runs stay the durable form, which other processes see. This table is filled from runs, and from
//! hooks that this process's sessions publish. With an image of it (`index/image.<number>`), the
//! next process need not read those runs.
//!
//! Invariant: hooks come only from runs, so no node is here before a look-up may return it (INV-9).
//! If every part of a run is noted as filled, all hooks of the run are here, as far as the rates
//! allow. Many threads may use it. If two fill from the same run, both do the work.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use env::{Storage, StorageError};
use format::names::{self, IndexRunName};
use types::{ObjectName, StoreId};

use crate::error::IndexError;
use crate::part::Part;
use crate::run::Run;
use crate::scan::{Fault, Source};
use crate::table::MemoryIndex;
use crate::writer::RunId;

/// Hooks added at a time. Look-ups wait for no more than these.
const BATCH_HOOKS: usize = 4096;

/// An image is written if one in so many entries is in no image yet.
pub(crate) const IMAGE_SHARE: u64 = 8;

/// A bad image, and the problem.
type Bad = (ObjectName, String);

#[derive(Debug)]
pub(crate) struct ResidentHooks {
    memory: MemoryIndex,
    /// Parts of runs whose hooks are here.
    filled: Mutex<BTreeSet<IndexRunName>>,
    /// Entries when the last image was written or read.
    pub(crate) in_image: Mutex<u64>,
}

impl ResidentHooks {
    /// Restores the newest good image, if there is one. Also returns the bad images.
    pub(crate) fn open(
        storage: &dyn Storage,
        store: StoreId,
        budget_bytes: usize,
    ) -> Result<(Self, Vec<Bad>), IndexError> {
        let mut bad = Vec::new();
        for name in images(storage)?.into_iter().rev() {
            let bytes = match storage.map(&name) {
                Ok(bytes) => bytes,
                Err(StorageError::NotFound { .. }) => continue,
                Err(error) => return Err(error.into()),
            };
            match MemoryIndex::restore(&bytes, store, budget_bytes) {
                Ok(Some((memory, filled))) => {
                    let entries = entries(&memory);
                    return Ok((Self::of(memory, filled, entries), bad));
                }
                // The next checkpoint replaces this image.
                Ok(None) => {}
                Err(why) => bad.push((name, why)),
            }
        }
        Ok((Self::of(MemoryIndex::new(budget_bytes), Vec::new(), 0), bad))
    }

    fn of(memory: MemoryIndex, filled: Vec<IndexRunName>, in_image: u64) -> Self {
        Self {
            memory,
            filled: Mutex::new(filled.into_iter().collect()),
            in_image: Mutex::new(in_image),
        }
    }

    pub(crate) fn memory(&self) -> &MemoryIndex {
        &self.memory
    }

    pub(crate) fn filled(&self) -> MutexGuard<'_, BTreeSet<IndexRunName>> {
        self.filled.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a run's hooks, if they are not here. Returns a damaged part, if there is one.
    pub(crate) fn fill<'r>(&self, run: &'r Run) -> Result<Option<&'r Part>, IndexError> {
        let is_filled = |part: IndexRunName| self.filled().contains(&part);
        if run.parts.iter().all(|part| is_filled(part.meta().name)) {
            return Ok(None);
        }
        let mut source = Source::run(run);
        let mut batch = Vec::with_capacity(BATCH_HOOKS);
        let mut fault = None;
        while fault.is_none() {
            batch.extend(
                std::iter::from_fn(|| {
                    source.next().unwrap_or_else(|why| {
                        fault = Some(why);
                        None
                    })
                })
                .take(BATCH_HOOKS),
            );
            if batch.is_empty() {
                break;
            }
            self.memory.add(batch.drain(..));
        }
        match fault {
            None => self.note_filled(run),
            Some(Fault::Damaged(part)) => {
                part.set_damaged();
                return Ok(Some(part));
            }
            Some(Fault::Storage(error)) => return Err(error.into()),
        }
        Ok(None)
    }

    /// Notes that a run has only hooks of these other runs. If those are here, so is this one.
    pub(crate) fn take_over(&self, old: &[Arc<Run>], new: &Run) {
        let names = old.iter().flat_map(|run| &run.parts).map(|part| part.meta().name);
        let names: Vec<IndexRunName> = names.collect();
        if names.iter().all(|name| self.filled().contains(name)) {
            self.note_filled(new);
        }
        self.filled().retain(|name| !names.contains(name));
    }

    fn note_filled(&self, run: &Run) {
        self.filled()
            .extend(run.parts.iter().map(|part| part.meta().name));
    }

    /// Removes the notes on these runs. They are no longer in use, and no run will have their names
    /// again. Their hooks stay.
    pub(crate) fn forget_runs(&self, old: &[RunId]) {
        self.filled().retain(|name| !old.contains(&RunId::of(*name).0));
    }

    /// Removes all hooks.
    pub(crate) fn clear(&self) {
        self.filled().clear();
        self.memory.clear();
    }
}

pub(crate) fn entries(memory: &MemoryIndex) -> u64 {
    memory.stats().entries.iter().sum()
}

/// The existing images, oldest first.
pub(crate) fn images(storage: &dyn Storage) -> Result<Vec<ObjectName>, IndexError> {
    let listed = storage.list(names::INDEX_FOLDER)?.into_iter();
    let mut images: Vec<_> = listed
        .filter_map(|object| Some((names::parse_index_image(&object.name)?, object.name)))
        .collect();
    images.sort_unstable();
    Ok(images.into_iter().map(|(_, name)| name).collect())
}

#[cfg(test)]
mod tests {
    use env::fault::FaultStorage;
    use types::{ContainerId, ContainerKind, SequenceNumber, SessionId};

    use super::*;
    use crate::conformance;
    use crate::index::{Index, IndexOptions};
    use crate::kind::HookKind;

    /// The content for look-ups must not depend on the moment when a session runs out of memory.
    #[test]
    fn memory_receives_hooks_when_they_are_published() {
        let options = IndexOptions {
            pending_bytes_max: 4000,
            memory_bytes_max: Some(4 << 20),
            ..IndexOptions::default()
        };
        let storage = Arc::new(FaultStorage::new());
        let index = Index::open(storage, StoreId::from_bytes([7; 16]), options).expect("opens");
        let held = index.held().expect("it is held in memory");
        for number in 1..4_u64 {
            let session = SessionId::new(number).expect("a session");
            let container = ContainerId {
                session,
                kind: ContainerKind::Data,
                sequence: SequenceNumber::new(0).expect("a number"),
            };
            let before = entries(held.memory());
            let mut writer = index.session(session);
            for n in 0..2000 {
                let bits = (number * 2000 + n).wrapping_mul(0x9e37_79b9_7f4a_7c15);
                let hook = conformance::hook(HookKind::Data, bits, container);
                writer.add_hook(hook).expect("the storage is sound");
                assert_eq!(entries(held.memory()), before, "hook {n}");
            }
            assert!(
                index.runs().len() as u64 > number,
                "some went to the storage early"
            );
            // Another thread's merge does the same.
            index.reload().expect("the storage is sound");
            writer.publish(&[session]).expect("the storage is sound");
            assert_eq!(entries(held.memory()), before + 2000);
            let in_use = index.runs().iter().map(|run| run.parts.len()).sum::<usize>();
            assert_eq!(held.filled().len(), in_use, "no run is noted that is gone");
        }
    }
}
