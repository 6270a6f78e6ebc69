//! Chooses the generation of a container to check.
//!
//! If a rewriter replaces the generation during the check, this is no damage: the newer one is
//! checked instead. So an unsound generation is reported only if a listing after its check shows no
//! newer one.
//!
//! A listing costs as much as the session's folder is long, and a folder may have a hundred
//! thousand containers. So a caller that checks many containers either does not need the newest
//! generation ([`Containers::verify_known`]), or lists each folder once for all of them
//! ([`Containers::newest_generations`], [`Containers::verify_generation`]).

use types::{ContainerId, Generation};

use super::{Depth, Scan, Verified};
use crate::containers::Containers;
use crate::error::ContainerError;
use crate::identity::Identity;

/// The most generations that a check tries, if rewriters replace them again and again.
const GENERATIONS_MAX: u32 = 4;

impl Containers {
    /// Checks all copies of a container's newest generation. If a rewriter replaces it during the
    /// check, this is no damage: the newer generation is checked instead. This costs a listing.
    ///
    /// # Errors
    /// Errors of the storage alone. Damage of the container is in [`Verified::damages`].
    pub fn verify(&self, id: ContainerId, depth: Depth) -> Result<Verified, ContainerError> {
        let newest = self.newest(id)?;
        self.verify_from(id, newest, depth)
    }

    /// Like [`Self::verify`], but checks first the generation that a reader would read first: the
    /// remembered one, or else 0. Only if that is missing or unsound, it lists generations.
    ///
    /// If an older generation is sound, a newer one is not looked for: each slot that it lacks was
    /// removed, and each other slot has the same content in the older one (INV-2).
    ///
    /// # Errors
    /// As [`Self::verify`].
    pub fn verify_known(&self, id: ContainerId, depth: Depth) -> Result<Verified, ContainerError> {
        self.verify_from(id, Some(self.known_generations().guess(id)), depth)
    }

    fn verify_from(
        &self,
        id: ContainerId,
        first: Option<Generation>,
        depth: Depth,
    ) -> Result<Verified, ContainerError> {
        let mut checked = first;
        for _ in 1..GENERATIONS_MAX {
            let verified = self.verify_generation(id, checked, depth)?;
            if verified.is_sound() {
                return Ok(verified);
            }
            let newest = self.newest(id)?;
            if newest == checked {
                return Ok(verified);
            }
            checked = newest;
        }
        self.verify_generation(id, checked, depth)
    }

    fn newest(&self, id: ContainerId) -> Result<Option<Generation>, ContainerError> {
        Ok(self.newest_generations(&[id])?.pop().flatten())
    }

    /// Checks all copies of one generation, without a listing; `None`, for a container that the
    /// storage does not list, finds it missing. If the result is unsound, a rewriter may have
    /// replaced the generation.
    ///
    /// # Errors
    /// As [`Self::verify`].
    pub fn verify_generation(
        &self,
        id: ContainerId,
        generation: Option<Generation>,
        depth: Depth,
    ) -> Result<Verified, ContainerError> {
        let mut out = Verified {
            generation,
            ..Verified::default()
        };
        let generation = out.generation.unwrap_or(Generation::FIRST);
        let copies = [
            Some(Identity::main(id, generation)),
            Identity::mirror(id, generation),
        ];
        for at in copies.into_iter().flatten() {
            let mut scan = Scan {
                storage: &*self.env().storage,
                at,
                place: at,
                out: &mut out,
            };
            match depth {
                Depth::Digests => scan.digests(Some(self.store()))?,
                Depth::Full => scan.full(self)?,
            }
        }
        Ok(out)
    }
}
