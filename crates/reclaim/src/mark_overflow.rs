//! New marks that do not fit in memory: they are put as soon as they are made, one group after
//! another.
//!
//! They carry the number of the epoch that may follow, and do not count before its removed list
//! names them. If no epoch follows, they are put again without a number ([`marks::put_all`]), and
//! the numbered objects are deleted. They are also deleted when the run fails. Marks of a dead
//! process never count, and are deleted like other lower revisions.

use format::names;
use format::reclaim::{GroupId, Marks};
use object::Sealer;
use session::HeldLease;
use types::{Epoch, Revision};

use crate::epochs;
use crate::error::{ReclaimError, Result};
use crate::marks::{self, Budget, StoredMarks};

/// Puts marks that exceed the memory budget.
pub(crate) struct MarkOverflow<'a> {
    sealer: &'a Sealer,
    lease: &'a HeldLease,
    epoch: Epoch,
    put: Vec<(GroupId, Revision)>,
}

impl<'a> MarkOverflow<'a> {
    pub(crate) fn new(sealer: &'a Sealer, lease: &'a HeldLease, epoch: Epoch) -> Self {
        Self {
            sealer,
            lease,
            epoch,
            put: Vec::new(),
        }
    }

    /// Keeps the marks in memory, or puts them.
    ///
    /// # Errors
    /// `Overtaken` if the lease is lost, or the number is taken; of the storage.
    pub(crate) fn hold(
        &mut self,
        budget: &Budget,
        group: GroupId,
        revision: Revision,
        marks: Marks,
    ) -> Result<StoredMarks> {
        let fits = budget.takes(&marks.live);
        let mut stored = StoredMarks::new(revision, marks);
        if fits {
            return Ok(stored);
        }
        if !self.lease.is_held()? || !marks::put(self.sealer, group, &stored, Some(self.epoch))? {
            return Err(ReclaimError::Overtaken);
        }
        self.put.push((group, revision));
        stored.let_go();
        Ok(stored)
    }

    /// Deletes the marks that were put and are not used.
    ///
    /// # Errors
    /// Of the storage. The marks then stay behind, and never count.
    pub(crate) fn take_back(&mut self) -> Result<()> {
        for (group, revision) in self.put.drain(..) {
            epochs::delete(self.sealer, &names::marks(group, revision))?;
        }
        Ok(())
    }
}
