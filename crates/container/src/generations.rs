//! Chooses the generation of a container to read.
//!
//! A read must not cost a listing. So the reader first tries the remembered generation, or else 0:
//! nearly every container was never rewritten. Only if that object is missing, it lists the
//! session's folder, once, and remembers the generations of *all* containers in it.
//!
//! An older generation that still exists is good enough. A generation never changes, its surviving
//! slots are those of every other one (INV-2), and it is deleted only after the newer one is
//! durable. A slot that the newer one lacks is on a final list of reclamation. The epoch rules
//! (INV-9), not this module, keep such slots from look-ups.
//!
//! The newer generation matters in two cases, and the reader asks for it in both
//! ([`crate::Containers::newer`]): the older one is damaged (the newer one may be healed), or it
//! vanishes during the read.

use std::collections::HashMap;

use env::{Storage, StorageError};
use format::names;
use types::{ContainerId, ContainerKind, Generation, SequenceNumber, SessionId};

use crate::containers::Containers;
use crate::error::{ContainerError, Part};
use crate::identity::{CopyOf, Identity};
use crate::load::{TAIL_GUESS_BYTES, TailBytes};
use crate::stats::add;
use crate::view::Contents;

/// The most times that a container is rewritten while a reader lists it again and again.
const TRIES_MAX: u32 = 8;

impl Containers {
    /// Lists the generations of one container's copies, in ascending order. Remembers everything
    /// else in the listing.
    pub(crate) fn list_generations(
        &self,
        id: ContainerId,
        copy: CopyOf,
    ) -> Result<Vec<Generation>, ContainerError> {
        let mut own = Vec::new();
        self.list_folder(id.kind, id.session, copy, |sequence, generation| {
            if sequence == id.sequence {
                own.push(generation);
            }
        })?;
        own.sort_unstable();
        Ok(own)
    }

    /// The highest generation of each of these containers, of any copy, in the order of the ids.
    /// `None`: the storage lists no copy. Consecutive ids of one kind and session share one listing
    /// of their folder, and one of the mirror copies' folder, so the caller sorts the ids.
    ///
    /// # Errors
    /// Errors of the storage.
    pub fn newest_generations(&self, ids: &[ContainerId]) -> Result<Vec<Option<Generation>>, ContainerError> {
        let mut out = Vec::with_capacity(ids.len());
        for some in ids.chunk_by(|one, next| (one.kind, one.session) == (next.kind, next.session)) {
            let Some(first) = some.first() else { continue };
            let mut newest: HashMap<SequenceNumber, Option<Generation>> =
                some.iter().map(|id| (id.sequence, None)).collect();
            let copies = [CopyOf::Main, CopyOf::Mirror].into_iter();
            for copy in copies.take(if first.kind.is_mirrored() { 2 } else { 1 }) {
                self.list_folder(first.kind, first.session, copy, |sequence, generation| {
                    if let Some(known) = newest.get_mut(&sequence) {
                        *known = Some(generation).max(*known);
                    }
                })?;
            }
            out.extend(some.iter().map(|id| newest[&id.sequence]));
        }
        Ok(out)
    }

    /// Lists the copies of all containers of a kind of a session. Remembers the main ones.
    fn list_folder(
        &self,
        kind: ContainerKind,
        session: SessionId,
        copy: CopyOf,
        mut found: impl FnMut(SequenceNumber, Generation),
    ) -> Result<(), ContainerError> {
        add(&self.counters().lists, 1);
        let folder = match copy {
            CopyOf::Main | CopyOf::Body => names::container_folder(kind, session),
            CopyOf::Mirror => names::mirror_folder(session),
        };
        for object in self.env().storage.list(&folder)? {
            match copy {
                CopyOf::Main => {
                    if let Some((container, generation)) = names::parse_container(&object.name) {
                        self.known_generations().remember(container, generation);
                        found(container.sequence, generation);
                    }
                }
                CopyOf::Body => {
                    if let Some((container, generation)) = names::parse_body(&object.name) {
                        found(container.sequence, generation);
                    }
                }
                // A session's containers of all kinds share its sequence numbers.
                CopyOf::Mirror => {
                    if let Some(name) = names::parse_mirror(&object.name) {
                        found(name.sequence, name.generation);
                    }
                }
            }
        }
        Ok(())
    }

    /// Loads a readable generation: first the guess, else the highest readable one. A mirror copy
    /// counts if the main copy is bad.
    pub(crate) fn load_contents(&self, id: ContainerId) -> Result<Contents, ContainerError> {
        let guess = Identity::main(id, self.known_generations().guess(id));
        let error = match self.load_copy(guess) {
            Ok(contents) => return Ok(contents),
            Err(error) => error,
        };
        let mut first_damage = None;
        if error.is_damage() {
            first_damage = Some(error);
        } else if !is_absent(&error) {
            return Err(error);
        }
        for _ in 0..TRIES_MAX {
            let mut vanished = false;
            let listed = match self.list_generations(id, CopyOf::Main) {
                Ok(listed) => listed,
                // The mirror copies are in another folder, and the damage is known already.
                Err(error) if first_damage.is_some() && !error.is_silence() => break,
                Err(error) => return Err(error),
            };
            for generation in listed.into_iter().rev() {
                match self.load_either(Identity::main(id, generation), &mut first_damage)? {
                    Some(contents) => return Ok(contents),
                    None => vanished |= first_damage.is_none(),
                }
            }
            if !vanished {
                break;
            }
        }
        self.load_mirror(id, first_damage)
    }

    /// Loads the main copy, else the mirror copy of the same generation. `None` if neither can be
    /// read. Records the first damage of a main copy.
    fn load_either(
        &self,
        main: Identity,
        first_damage: &mut Option<ContainerError>,
    ) -> Result<Option<Contents>, ContainerError> {
        let error = match self.load_copy(main) {
            Ok(contents) => {
                self.known_generations().remember(main.id, main.generation);
                return Ok(Some(contents));
            }
            Err(error) => error,
        };
        if is_absent(&error) {
            return Ok(None);
        }
        if !error.is_damage() {
            return Err(error);
        }
        let mirror = Identity::mirror(main.id, main.generation).map(|mirror| self.load_copy(mirror));
        let contents = match mirror {
            Some(Err(silence)) if silence.is_silence() => return Err(silence),
            mirror => mirror.and_then(Result::ok),
        };
        if contents.is_some() {
            self.report_mirror(main, Part::Catalog, &error);
        }
        first_damage.get_or_insert(error);
        Ok(contents)
    }

    /// Loads the highest readable mirror copy, if all main copies of the container are gone or bad.
    fn load_mirror(
        &self,
        id: ContainerId,
        damage: Option<ContainerError>,
    ) -> Result<Contents, ContainerError> {
        let is_damaged = damage.is_some();
        let mut error = damage.unwrap_or(ContainerError::Missing { container: id });
        if !id.kind.is_mirrored() {
            return Err(error);
        }
        let listed = match self.list_generations(id, CopyOf::Mirror) {
            Ok(listed) => listed,
            Err(listing) if is_damaged && !listing.is_silence() => return Err(error),
            Err(listing) => return Err(listing),
        };
        for generation in listed.into_iter().rev() {
            let Some(mirror) = Identity::mirror(id, generation) else {
                break;
            };
            match self.load_copy(mirror) {
                Ok(contents) => {
                    self.report_mirror(mirror, Part::Catalog, &error);
                    return Ok(contents);
                }
                Err(silence) if silence.is_silence() => return Err(silence),
                // The container may not be missing: this may be its copy, on a bad sector.
                Err(of_mirror @ ContainerError::Storage(_)) if !is_damaged && !is_absent(&of_mirror) => {
                    error = of_mirror;
                }
                Err(_) => {}
            }
        }
        Err(error)
    }

    /// Loads one copy of one generation. If a cache keeps wrong bytes of it, it is read again.
    pub(crate) fn load_copy(&self, at: Identity) -> Result<Contents, ContainerError> {
        let loaded = self.load_copy_once(at);
        match &loaded {
            Err(error) if error.is_damage() && self.env().storage.drop_cached(&at.name()) => {
                self.load_copy_once(at)
            }
            _ => loaded,
        }
    }

    fn load_copy_once(&self, at: Identity) -> Result<Contents, ContainerError> {
        let storage = &*self.env().storage;
        let guess = self.tail_guess().of(storage);
        let tail = TailBytes::read(storage, at, guess, &mut |bytes| self.counters().read(bytes))?;
        if tail.len() > guess {
            self.tail_guess().learn(tail.len());
        }
        add(&self.counters().catalog_loads, 1);
        tail.check(at, Some(self.store()))?
            .open(at, self.store(), self.encryption())
    }
}

/// The container of an object under `mirror/`. `None` if the object has rotted or was torn, so that
/// its kind is unknown.
///
/// # Errors
/// Errors of the storage: the object is gone, or cannot be read now.
pub fn container_of_mirror(
    storage: &dyn Storage,
    mirror: names::MirrorName,
) -> Result<Option<ContainerId>, ContainerError> {
    let kinds = ContainerKind::ALL.into_iter();
    for kind in kinds.filter(|kind| kind.is_mirrored()) {
        let id = ContainerId {
            session: mirror.session,
            kind,
            sequence: mirror.sequence,
        };
        let Some(at) = Identity::mirror(id, mirror.generation) else {
            continue;
        };
        match TailBytes::read(storage, at, TAIL_GUESS_BYTES, &mut |_| {})
            .and_then(|tail| tail.check(at, None))
        {
            Ok(_) => return Ok(Some(id)),
            Err(error @ ContainerError::Storage(_)) => return Err(error),
            Err(_) => {}
        }
    }
    Ok(None)
}

pub(crate) fn is_absent(error: &ContainerError) -> bool {
    matches!(error, ContainerError::Storage(StorageError::NotFound { .. }))
}
