//! Notes containers whose first copy is damaged and whose mirror copy served a read.
//!
//! An operation that reports damage needs them: such a read succeeds, so it returns no error. Any
//! number of operations may watch at the same time. Each has its own notes, and these may include
//! reads of others. So an operation checks the noted containers before it reports them.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use types::ContainerId;

type Notes = Mutex<BTreeSet<ContainerId>>;

/// The noted containers. Dropping it ends the notes.
#[derive(Debug)]
pub struct MirrorWatch {
    notes: Arc<Notes>,
}

impl MirrorWatch {
    /// The containers noted since the last call.
    #[must_use]
    pub fn take(&self) -> BTreeSet<ContainerId> {
        std::mem::take(&mut *self.notes.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Those who watch.
#[derive(Debug, Default)]
pub(crate) struct MirrorWatches {
    all: Mutex<Vec<Weak<Notes>>>,
}

impl MirrorWatches {
    pub(crate) fn add(&self) -> MirrorWatch {
        let notes = Arc::new(Notes::default());
        let mut all = self.all.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|other| other.strong_count() > 0);
        all.push(Arc::downgrade(&notes));
        MirrorWatch { notes }
    }

    pub(crate) fn note(&self, id: ContainerId) {
        let all = self.all.lock().unwrap_or_else(PoisonError::into_inner);
        for notes in all.iter().filter_map(Weak::upgrade) {
            notes.lock().unwrap_or_else(PoisonError::into_inner).insert(id);
        }
    }
}
