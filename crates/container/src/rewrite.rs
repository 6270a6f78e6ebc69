//! Support for rewriting: read one exact generation; drop a removed container from the caches.
//!
//! A rewriter deletes the generation that it has read. So it must not get a cached or guessed one.
//! Any number of threads.

use types::{ContainerId, Generation};

use crate::containers::Containers;
use crate::error::ContainerError;
use crate::generations::is_absent;
use crate::identity::Identity;
use crate::view::CatalogView;

impl Containers {
    /// The catalog of exactly this generation, read now, from its mirror copy where the main one
    /// cannot be read. Nothing is cached.
    ///
    /// # Errors
    /// `Vanished` when no copy of it exists; else what is wrong with its main copy.
    pub fn generation(
        &self,
        container: ContainerId,
        generation: Generation,
    ) -> Result<CatalogView, ContainerError> {
        let error = match self.load_copy(Identity::main(container, generation)) {
            Ok(contents) => return Ok(CatalogView::of(contents)),
            Err(error) => error,
        };
        if (is_absent(&error) || error.is_damage())
            && let Some(mirror) = Identity::mirror(container, generation)
            && let Ok(contents) = self.load_copy(mirror)
        {
            return Ok(CatalogView::of(contents));
        }
        Err(if is_absent(&error) {
            ContainerError::Vanished {
                container,
                generation,
            }
        } else {
            error
        })
    }

    /// Drops what is cached and remembered of a container whose objects were deleted, or made
    /// again. A catalog that is pinned stays.
    pub fn forget(&self, container: ContainerId) {
        self.cache().forget_id(container);
        self.known_generations().forget(container);
    }
}
