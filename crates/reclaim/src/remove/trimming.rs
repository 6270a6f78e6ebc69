//! Trimming: a generation whose regions stay in place, except those that are given back.
//!
//! The new generation is put and made durable. Then the older object becomes its body: it gets that
//! name, and loses the bytes of the removed regions. Both are one call to the storage. Every later
//! run repeats this call, because nobody can see whether it was completed.
//!
//! Invariant: the given-back bytes held only slots of this list and of earlier ones, which
//! nothing brings back. The generation that no longer names them is durable before. A body is
//! deleted only with the generation that refers to it.

use container::{CatalogView, ContainerError, SealedContainer};
use env::{Storage, StorageError};
use format::names;
use types::{ByteRange, ContainerId, Generation, ObjectName, SlotRange};

use super::Removal;
use crate::compact;
use crate::error::Result;
use crate::objects::{self, Objects, can_trim};

/// The change of an older object, which follows once the trimmed generation is durable.
pub(super) struct Trim {
    from: ObjectName,
    to: ObjectName,
    given_back: Vec<ByteRange>,
    /// Bytes that it frees and that were not free before.
    bytes: u64,
}

impl Trim {
    /// The trim for a generation that was made from `before`.
    pub(super) fn of(view: &CatalogView, before: &CatalogView) -> Option<Self> {
        let body = view.body()?;
        let sum = |ranges: &[ByteRange]| ranges.iter().map(|range| range.len).sum::<u64>();
        let given_back = view.given_back();
        let bytes = sum(&given_back).saturating_sub(sum(&before.given_back()));
        Some(Self {
            from: names::container(view.id(), body),
            to: names::body(view.id(), body),
            given_back,
            bytes,
        })
    }

    /// The trim for a generation that another process or an earlier attempt made.
    pub(super) fn again(view: &CatalogView) -> Option<Self> {
        Self::of(view, view)
    }

    /// How many bytes it frees, if the storage gives them back.
    pub(super) const fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Trims the object, and returns how many bytes it freed.
    pub(super) fn carry_out(&self, storage: &dyn Storage) -> Result<u64> {
        match storage.trim(&self.from, &self.to, &self.given_back) {
            Ok(is_given_back) => Ok(if is_given_back { self.bytes } else { 0 }),
            // A later generation that needs no body exists by now.
            Err(StorageError::NotFound { .. }) => Ok(0),
            Err(error) => Err(error.into()),
        }
    }
}

impl Removal<'_> {
    /// A generation without the listed slots that copies nothing, if the dead slots and the storage
    /// allow one.
    pub(super) fn trimmed(
        &self,
        view: &CatalogView,
        dead: &[SlotRange],
        generation: Generation,
    ) -> Result<Option<SealedContainer>> {
        let sealed = compact::trim(self.containers, view, dead, generation)?;
        match sealed {
            Some(sealed) if can_trim(self.storage, view)? => Ok(Some(sealed)),
            _ => Ok(None),
        }
    }

    /// The error if a generation's body is neither listed nor found by its names.
    pub(super) fn lost_body(&self, view: &CatalogView, found: &Objects) -> Result<Option<ContainerError>> {
        let Some(body) = view.body() else {
            return Ok(None);
        };
        if found.bodies.contains_key(&body) || found.generations.contains_key(&body) {
            return Ok(None);
        }
        let id = view.id();
        // Another process may just be renaming the body, or have replaced the generation since.
        let names = [
            names::body(id, body),
            names::container(id, body),
            names::body(id, body),
        ];
        for name in names {
            match self.storage.head(&name) {
                Err(StorageError::NotFound { .. }) => {}
                Ok(_) => return Ok(None),
                Err(error) => return Err(error.into()),
            }
        }
        match self.storage.head(&names::container(id, view.generation())) {
            Err(StorageError::NotFound { .. }) => Ok(None),
            Ok(_) => Ok(Some(ContainerError::Missing { container: id })),
            Err(error) => Err(error.into()),
        }
    }

    /// Deletes a body without a generation. It is left from a removed container, whose generation
    /// was deleted first. A listing may miss an object that is put meanwhile, so it lists a second
    /// time before it deletes.
    pub(super) fn drop_bodies(&mut self, id: ContainerId, found: &Objects) -> Result<()> {
        if found.bodies.is_empty() {
            return Ok(());
        }
        let again = objects::list(self.storage, id.session, id.kind, &[id])?;
        let again = again.get(&id).filter(|again| again.highest().is_none());
        let doomed = again.map(|again| again.but(id, None));
        self.batch.doomed.extend(doomed.into_iter().flatten());
        Ok(())
    }
}
