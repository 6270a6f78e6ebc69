//! Executes a removed list: deletes containers, or removes slots from them (docs/protocol.md, "The
//! reclaimer's half").
//!
//! Invariants:
//! - Every listed node is removed, durably, before any slot of a data container.
//! - A generation is deleted only after a newer one with all survivors is durable in every copy
//!   that its kind has.
//! - Nothing is removed that the list does not name.
//! - Executing the list again gives the same result: after a crash, beside another process that
//!   executes it, or after it was finished. A generation that an interrupted attempt left is used
//!   only after all of it was read.
//!
//! A container whose listed slots fill whole regions is trimmed if the storage can do that
//! (`trimming.rs`): nothing of it is copied.
//!
//! Whole containers are deleted first, because a full disk needs their space. The space of copies
//! beside old generations is bounded. A container with damage in a slot that must stay is left as
//! it is, and is reported.

use std::collections::BTreeMap;

use container::{CatalogView, ContainerError, Containers, Depth, SealedContainer};
use env::{Storage, StorageError};
use format::names;
use format::reclaim::{ContainerSlots, Removed};
use types::{ContainerId, Generation, SlotRange};

use crate::compact::{Packing, is_rid_of, rewrite};
use crate::error::{ReclaimError, Result};
use crate::objects::{self, Doomed, Objects, StandingObjects};
use crate::progress::Progress;
use crate::slots::{Short, SlotSet};
use scarce::is_full;
use short::lacking;
use trimming::Trim;

pub(crate) use forecast::forecast;

/// Objects to delete that are gathered over folders.
const DOOMED_MAX: usize = 1024;
/// Folders that are listed before their objects are deleted.
const FOLDERS_MAX: usize = 64;

/// How a list is executed.
#[derive(Clone, Copy)]
pub(crate) struct Execution<'a> {
    /// How survivors are packed.
    pub packing: Packing,
    /// New generations, in bytes, that may exist beside the old ones.
    pub copies_bytes_max: u64,
    /// The disk is full: data that finds no room to be rewritten stays as it is (`scarce.rs`).
    pub gives_up: bool,
    /// The list was executed before, in part or whole. So even a container of nodes with one
    /// generation may have a torn second copy.
    pub is_again: bool,
    /// Returns the slots of a container that lists of damage name. It is asked if several
    /// generations exist.
    pub damaged: &'a (dyn Fn(ContainerId) -> Result<SlotSet> + Sync),
    /// Watches and stops the run.
    pub progress: &'a dyn Progress,
}

/// The result of executing a list.
#[derive(Debug, Default)]
pub(crate) struct Executed {
    /// Bytes of all deleted objects, old generations included.
    pub freed_bytes: u64,
    /// Bytes of new generations, mirrors included.
    pub copied_bytes: u64,
    /// Containers that existed and were deleted.
    pub removed: u64,
    /// Containers that were rewritten.
    pub compacted: u64,
    /// Containers that lost whole regions, and were not rewritten.
    pub trimmed: u64,
    /// Containers with some slots on the list, which this process or another has rewritten: their
    /// hooks must be published again ([`index::Index::rewritten`]).
    pub kept: Vec<ContainerId>,
    /// Containers that stay as they are because a slot that must stay is damaged, and the damage.
    /// Their listed slots still exist, so the next list must name them before this list is deleted.
    /// Otherwise look-ups would find dead nodes whose chunks are removed.
    pub damaged: Vec<(ContainerId, ContainerError)>,
    /// Containers that stay as they are because each generation lacks slots of another one. As with
    /// damaged ones, their listed slots still exist.
    pub short: Vec<Short>,
    /// Data containers that stay as they are because there was no room to rewrite them, with the
    /// listed slots of each.
    pub given_up: Vec<ContainerSlots>,
    /// Missing second copies that were made.
    pub mirrors_made: u64,
}

/// Bytes of new generations that may exist beside the old ones. On a disk it is the most that a
/// full one needs, besides lists. Few buckets have a quota.
pub(crate) fn copies_bytes_max(storage: &dyn Storage) -> u64 {
    if storage.is_far() { 256 << 20 } else { 48 << 20 }
}

/// Executes a removed list. All changes are durable on return.
///
/// # Errors
/// Those of the storage; `Interrupted`; `Denied`, after the pass has deleted all that it may. After
/// each, the store is as readable as before, and executing again continues.
pub(crate) fn execute(containers: &Containers, removed: &Removed, how: &Execution<'_>) -> Result<Executed> {
    how.progress.set_total(removed.slots.len() as u64);
    let mut run = Removal::new(containers, *how);
    for list in passes(removed) {
        run.remove_whole(&list)?;
        run.compact(&list)?;
        run.storage.barrier()?;
        // What the nodes refer to is deleted after all nodes.
        if let Some(error) = run.refused.take() {
            return Err(error.into());
        }
    }
    run.try_again()?;
    Ok(run.out)
}

/// The two passes over a list: containers that hold nodes, and the others.
fn passes(removed: &Removed) -> [Vec<&ContainerSlots>; 2] {
    let (nodes, others) = removed
        .slots
        .iter()
        .partition(|entry| entry.container.kind.is_mirrored());
    [nodes, others]
}

/// Cuts a list where the session or the kind changes, so that each part is of one folder.
fn folders<'a, 'b>(list: &'a [&'b ContainerSlots]) -> impl Iterator<Item = &'a [&'b ContainerSlots]> {
    list.chunk_by(|a, b| (a.container.session, a.container.kind) == (b.container.session, b.container.kind))
}

/// The stored objects of the containers of one folder.
fn list_folder(storage: &dyn Storage, folder: &[&ContainerSlots]) -> Result<BTreeMap<ContainerId, Objects>> {
    let wanted: Vec<ContainerId> = folder.iter().map(|entry| entry.container).collect();
    let Some(first) = wanted.first() else {
        return Ok(BTreeMap::new());
    };
    objects::list(storage, first.session, first.kind, &wanted)
}

struct Removal<'a> {
    containers: &'a Containers,
    storage: &'a dyn Storage,
    how: Execution<'a>,
    out: Executed,
    batch: Batch,
    /// The list entries that found no room so far.
    no_room: Vec<ContainerSlots>,
    /// The storage does not delete an object.
    refused: Option<StorageError>,
}

/// New generations that are not durable yet, and the objects to delete once they are.
#[derive(Default)]
struct Batch {
    bytes: u64,
    doomed: Vec<Doomed>,
    trims: Vec<Trim>,
}

/// The state of a container after a look at it.
enum Settled {
    /// It has one generation, without listed slots.
    Fine,
    /// This generation has the survivors. The other objects are deleted with the batch.
    Replaced(StandingObjects),
    /// All of it was removed, or it stays as it is.
    Over,
    /// A rival has changed it, so it is looked at again.
    Again,
    /// There is no room to rewrite it now.
    NoRoom,
}

impl<'a> Removal<'a> {
    fn new(containers: &'a Containers, how: Execution<'a>) -> Self {
        Self {
            containers,
            storage: &*containers.env().storage,
            how,
            out: Executed::default(),
            batch: Batch::default(),
            no_room: Vec::new(),
            refused: None,
        }
    }
}

impl Removal<'_> {
    fn check_cancelled(&self) -> Result<()> {
        if self.how.progress.is_cancelled() {
            return Err(ReclaimError::Interrupted);
        }
        Ok(())
    }

    fn remove_whole(&mut self, list: &[&ContainerSlots]) -> Result<()> {
        let whole: Vec<&ContainerSlots> = list.iter().filter(|e| e.slots.is_none()).copied().collect();
        let (mut doomed, mut gone) = (Vec::new(), Vec::new());
        let each: Vec<_> = folders(&whole).collect();
        for some in each.chunks(FOLDERS_MAX) {
            self.check_cancelled()?;
            let listed = object::several(self.storage.is_far(), some.len(), |at| {
                list_folder(self.storage, some[at])
            })?;
            for (id, found) in listed.into_iter().flatten() {
                doomed.extend(found.but(id, None));
                self.out.removed += 1;
            }
            gone.extend(some.iter().copied().flatten().map(|entry| entry.container));
            if doomed.len() >= DOOMED_MAX {
                self.delete(&mut doomed, &mut gone)?;
            }
        }
        self.delete(&mut doomed, &mut gone)
    }

    fn delete(&mut self, doomed: &mut Vec<Doomed>, gone: &mut Vec<ContainerId>) -> Result<()> {
        for some in doomed.chunks(DOOMED_MAX) {
            self.check_cancelled()?;
            match objects::delete(self.storage, some) {
                Ok(freed) => self.out.freed_bytes += freed,
                Err(error @ StorageError::Denied { .. }) => {
                    self.refused.get_or_insert(error);
                }
                Err(error) => return Err(error.into()),
            }
        }
        self.how.progress.add_done(gone.len() as u64);
        gone.drain(..).for_each(|id| self.containers.forget(id));
        doomed.clear();
        Ok(())
    }

    /// Brings one container closer to its final state. `ours`: the generation that this process has
    /// put durably, in all its copies.
    fn settle(
        &mut self,
        id: ContainerId,
        dead: &[SlotRange],
        found: &Objects,
        ours: Option<StandingObjects>,
    ) -> Result<Settled> {
        let Some(highest) = found.highest() else {
            self.drop_bodies(id, found)?;
            return Ok(Settled::Over);
        };
        let is_ours = ours.is_some_and(|ours| ours.generation == highest);
        if ours.is_some_and(|ours| is_ours && found.is_only(id.kind, ours)) {
            return Ok(Settled::Fine);
        }
        let view = self.readable(id, highest)?;
        let due = self.due(id, dead, found)?;
        if let Some(view) = &view {
            if let Some(error) = self.lost_body(view, found)? {
                self.out.damaged.push((id, error));
                return Ok(Settled::Over);
            }
            let kept = StandingObjects::of(view);
            let is_only = found.is_only(id.kind, kept) && !(self.how.is_again && id.kind.is_mirrored());
            if is_only && kept.body.is_none() && is_rid_of(view, dead) {
                return Ok(Settled::Fine);
            }
            // An earlier attempt may have left it, or another process that has not run a barrier
            // yet. But a body that has its own name got it after a barrier.
            if is_rid_of(view, dead)
                && lacking(view, &due).is_empty()
                && (is_only || is_ours || self.is_sound(id, highest)? || self.make_mirror(kept, id, found)?)
            {
                self.batch.doomed.extend(found.but(id, Some(kept)));
                self.batch.trims.extend(Trim::again(view));
                self.containers.forget(id);
                return Ok(Settled::Replaced(kept));
            }
        }
        self.replace(id, (dead, &due), found, (highest, view))
    }

    /// Whether every chunk is readable in every copy of the highest generation. Digests alone do
    /// not tell: healing writes other bytes for a chunk that it does not find.
    fn is_sound(&self, id: ContainerId, highest: Generation) -> Result<bool> {
        let verified = self.containers.verify(id, Depth::Full)?;
        Ok(verified.generation == Some(highest) && verified.is_sound())
    }

    /// Puts a new generation above all existing ones. It is made from the highest generation that
    /// has all due slots and can be read whole. `highest` comes with its catalog, if that can be
    /// read.
    fn replace(
        &mut self,
        id: ContainerId,
        (dead, due): (&[SlotRange], &SlotSet),
        found: &Objects,
        (highest, mut view): (Generation, Option<CatalogView>),
    ) -> Result<Settled> {
        // Trim only the sole generation. Of several, one may be whole and another not, so every
        // survivor must be read.
        if let Some(view) = view.as_ref().filter(|_| found.alone(id.kind).is_some())
            && let Some(sealed) = self.trimmed(view, dead, highest.next())?
        {
            return self.put(&sealed, found, Some(view));
        }
        let (mut damage, mut short) = (None, SlotSet::default());
        for generation in found.generations.keys().rev() {
            let read = match view.take() {
                Some(view) => Ok(view),
                None => self.containers.generation(id, *generation),
            };
            let lacks = read
                .as_ref()
                .map_or_else(|_| SlotSet::default(), |view| lacking(view, due));
            if !lacks.is_empty() {
                short.add(&lacks);
                // An older generation has nodes that were removed since (INV-9). Healing knows
                // which ones backups need.
                if id.kind.is_mirrored() {
                    break;
                }
                continue;
            }
            let rewritten =
                read.and_then(|view| rewrite(self.containers, &view, dead, highest.next(), self.how.packing));
            match rewritten {
                Ok(Some(sealed)) => return self.put(&sealed, found, None),
                Ok(None) => {
                    self.batch.doomed.extend(found.but(id, None));
                    self.containers.forget(id);
                    self.out.removed += 1;
                    return Ok(Settled::Over);
                }
                Err(ContainerError::Vanished { .. }) => {}
                Err(error) if is_elsewhere(&error) => damage = damage.or(Some(error)),
                Err(error) => return Err(error.into()),
            }
        }
        if !short.is_empty() {
            self.out.short.push(Short {
                container: id,
                slots: short,
            });
            return Ok(Settled::Over);
        }
        let Some(error) = damage else {
            return Ok(Settled::Again);
        };
        // Another process may have put the next generation, and then deleted the body after the
        // generation that referred to it.
        if matches!(error, ContainerError::BodyMissing { .. })
            && let Err(StorageError::NotFound { .. }) = self.storage.head(&names::container(id, highest))
        {
            return Ok(Settled::Again);
        }
        self.out.damaged.push((id, error));
        Ok(Settled::Over)
    }

    /// The catalog of a generation, if it can be read.
    fn readable(&self, id: ContainerId, generation: Generation) -> Result<Option<CatalogView>> {
        match self.containers.generation(id, generation) {
            Ok(view) => Ok(Some(view)),
            Err(error) if is_elsewhere(&error) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Puts a generation. `trimmed`: the catalog that a trimmed generation was made from.
    fn put(
        &mut self,
        sealed: &SealedContainer,
        found: &Objects,
        trimmed: Option<&CatalogView>,
    ) -> Result<Settled> {
        let (id, generation) = (sealed.id(), sealed.generation());
        let mut put = self.containers.put(sealed);
        if put.as_ref().is_err_and(is_full) {
            // Finishing the batch frees space. Half of a generation must not block the next
            // attempt.
            self.take_back(id, generation)?;
            self.finish_batch()?;
            put = self.containers.put(sealed);
        }
        if put.as_ref().is_err_and(is_full) {
            self.take_back(id, generation)?;
            if self.how.gives_up {
                if !id.kind.is_mirrored() {
                    return Ok(Settled::NoRoom);
                }
                if let Some(settled) = self.put_in_place(sealed, found)? {
                    return Ok(settled);
                }
            }
        }
        match put {
            Ok(()) => {}
            Err(ContainerError::AlreadyExists { .. }) => return Ok(Settled::Again),
            Err(error) => return Err(error.into()),
        }
        let bytes = sealed.stored_bytes_total();
        self.out.copied_bytes += bytes;
        match trimmed {
            None => self.out.compacted += 1,
            Some(before) => {
                self.out.trimmed += 1;
                self.batch.trims.extend(Trim::of(&sealed.catalog(), before));
            }
        }
        self.batch.bytes += bytes;
        let kept = StandingObjects::of(&sealed.catalog());
        self.batch.doomed.extend(found.but(id, Some(kept)));
        Ok(Settled::Replaced(kept))
    }

    /// Deletes a main copy if there was no space for its mirror. If the mirror exists after all,
    /// both copies stay, because another process may have found both sound and rely on them.
    fn take_back(&self, id: ContainerId, generation: Generation) -> Result<()> {
        let Some(mirror) = names::mirror(id, generation) else {
            return Ok(());
        };
        match self.storage.head(&mirror) {
            Ok(_) => Ok(()),
            Err(StorageError::NotFound { .. }) => {
                objects::delete(self.storage, &[(names::container(id, generation), 0)])?;
                self.containers.forget(id);
                Ok(())
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Makes the new generations durable, and then deletes the old ones.
    fn finish_batch(&mut self) -> Result<()> {
        let Batch { doomed, trims, .. } = std::mem::take(&mut self.batch);
        if doomed.is_empty() && trims.is_empty() {
            return Ok(());
        }
        self.storage.barrier()?;
        self.out.freed_bytes += objects::delete(self.storage, &doomed)?;
        for trim in &trims {
            self.out.freed_bytes += trim.carry_out(self.storage)?;
        }
        Ok(())
    }
}

mod forecast;
mod rounds;
mod scarce;
mod short;
mod trimming;

/// Whether another generation or copy may have what this one lacks.
fn is_elsewhere(error: &ContainerError) -> bool {
    error.is_damage() || matches!(error, ContainerError::Vanished { .. })
}

#[cfg(test)]
mod tests;
