//! Rewrites on a full disk, when the reserve is deleted already.
//!
//! A data container whose survivors find no room stays as it is. Look-ups do not return its listed
//! slots, because the list exists while they do. The run tries again at the end, when all else is
//! deleted. Containers that still find no room are left to the next epoch ([`crate::scarce`]).
//!
//! A container of nodes cannot wait: every dead node is removed before any data slot (INV-9). So
//! the run deletes its second copy to make room, with a barrier after each step. The run finds the
//! former main copy whole. It deletes the former mirror, puts the new main copy, deletes the former
//! main copy, and puts the new mirror. One whole copy exists at every moment, and two at the end. A
//! process that dies in between, or whose room another takes, leaves one copy and an open epoch.
//! The next run first makes the second copy.

use container::{ContainerError, SealedContainer, verify_digests};
use env::StorageError;
use format::names;
use format::reclaim::ContainerSlots;
use types::{ContainerId, Generation, ObjectName};

use super::{Removal, Settled, is_elsewhere};
use crate::error::Result;
use crate::objects::{self, Doomed, Objects, StandingObjects};

impl Removal<'_> {
    /// Retries the rewrites that found no room, until none of them finds room. Gives up the rest.
    pub(super) fn try_again(&mut self) -> Result<()> {
        while !self.no_room.is_empty() {
            let waiting = std::mem::take(&mut self.no_room);
            let all: Vec<&ContainerSlots> = waiting.iter().collect();
            self.compact(&all)?;
            self.storage.barrier()?;
            if self.no_room.len() == waiting.len() {
                break;
            }
        }
        self.out.given_up = std::mem::take(&mut self.no_room);
        Ok(())
    }

    /// Replaces a container of nodes when there is no room for both generations. `None`: there was
    /// no room for this either.
    pub(super) fn put_in_place(
        &mut self,
        sealed: &SealedContainer,
        found: &Objects,
    ) -> Result<Option<Settled>> {
        let (id, generation) = (sealed.id(), sealed.generation());
        let Some(mirror) = names::mirror(id, generation) else {
            return Ok(None);
        };
        let Some(former) = self.whole_main(id, found)? else {
            return Ok(None);
        };
        let former_main = names::container(id, former);
        let (main_of_former, others) = found
            .but(id, None)
            .into_iter()
            .partition::<Vec<Doomed>, _>(|(name, _)| *name == former_main);
        // A process may have put the whole generation and died before its barrier.
        self.storage.barrier()?;
        self.drop_durably(&others)?;
        let main = names::container(id, generation);
        match self.storage.put(&main, &[sealed.bytes()]) {
            Ok(()) => {}
            Err(StorageError::AlreadyExists { .. }) => return Ok(Some(Settled::Again)),
            Err(StorageError::NoSpace { .. }) => {
                self.put_back(id, former)?;
                return Ok(None);
            }
            Err(error) => return Err(error.into()),
        }
        self.storage.barrier()?;
        self.drop_durably(&main_of_former)?;
        self.put_mirror(&mirror, sealed.bytes())?;
        self.storage.barrier()?;
        self.containers.forget(id);
        self.out.copied_bytes += sealed.stored_bytes_total();
        self.out.compacted += 1;
        Ok(Some(Settled::Replaced(StandingObjects::of(&sealed.catalog()))))
    }

    /// Makes the mirror of a generation of which only the main copy is whole, before lower
    /// generations are deleted. `false`: the generation is not in that state.
    pub(super) fn make_mirror(
        &mut self,
        kept: StandingObjects,
        id: ContainerId,
        found: &Objects,
    ) -> Result<bool> {
        let generation = kept.generation;
        let copies = found.generations.get(&generation);
        let has_main = copies.is_some_and(|copies| copies.main.is_some());
        let Some(mirror) = names::mirror(id, generation).filter(|_| has_main) else {
            return Ok(false);
        };
        if !self.is_whole(&names::container(id, generation))? {
            return Ok(false);
        }
        let bytes = self.storage.get(&names::container(id, generation))?;
        match self.put_mirror(&mirror, &bytes) {
            Err(error) if self.how.gives_up && error.is_no_space() => {
                // A whole copy replaces all lower generations. Their space is enough for its
                // mirror.
                self.storage.barrier()?;
                self.drop_durably(&found.but(id, Some(kept)))?;
                self.put_mirror(&mirror, &bytes)?;
            }
            put => put?,
        }
        self.containers.forget(id);
        self.out.copied_bytes += bytes.len() as u64;
        self.out.mirrors_made += 1;
        Ok(true)
    }

    /// The highest generation whose main copy is whole.
    fn whole_main(&self, id: ContainerId, found: &Objects) -> Result<Option<Generation>> {
        for (generation, copies) in found.generations.iter().rev() {
            if copies.main.is_some() && self.is_whole(&names::container(id, *generation))? {
                return Ok(Some(*generation));
            }
        }
        Ok(None)
    }

    /// Whether every byte of an object is as it was written.
    fn is_whole(&self, name: &ObjectName) -> Result<bool> {
        match verify_digests(self.storage, name) {
            Ok(verified) => Ok(verified.is_sound()),
            Err(error) if is_elsewhere(&error) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// Puts a mirror. An object under its name is left from an earlier attempt.
    fn put_mirror(&self, mirror: &ObjectName, bytes: &[u8]) -> Result<()> {
        let mut put = self.storage.put(mirror, &[bytes]);
        if matches!(put, Err(StorageError::AlreadyExists { .. })) {
            if self.storage.get(mirror).is_ok_and(|stored| stored == bytes) {
                return Ok(());
            }
            self.storage.delete(mirror)?;
            put = self.storage.put(mirror, &[bytes]);
        }
        Ok(put?)
    }

    /// Puts back the second copy that was deleted in vain. Its former space is free.
    fn put_back(&self, id: ContainerId, former: Generation) -> Result<()> {
        if let Some(mirror) = names::mirror(id, former) {
            let bytes = self.storage.get(&names::container(id, former))?;
            self.put_mirror(&mirror, &bytes)?;
        }
        Ok(())
    }

    /// Deletes, and runs a barrier: file systems free the blocks when the deletion is durable.
    fn drop_durably(&mut self, doomed: &[Doomed]) -> Result<()> {
        self.out.freed_bytes += objects::delete(self.storage, doomed)?;
        Ok(self.storage.barrier()?)
    }
}

/// Whether a put found no room.
pub(super) fn is_full(error: &ContainerError) -> bool {
    matches!(error, ContainerError::Storage(StorageError::NoSpace { .. }))
}
