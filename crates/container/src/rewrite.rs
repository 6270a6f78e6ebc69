//! Support for rewriting: read one exact generation; drop a removed container from the caches.
//!
//! A rewriter deletes the generation that it has read. So it must not get a cached or guessed one.
//! Any number of threads may use this.

use types::{ContainerId, Generation};

use crate::containers::Containers;
use crate::error::ContainerError;
use crate::generations::is_absent;
use crate::identity::Identity;
use crate::view::CatalogView;

impl Containers {
    /// Reads the catalog of exactly this generation now, from the mirror copy if the main copy
    /// cannot be read. Caches nothing.
    ///
    /// # Errors
    /// `Vanished` if no copy of the generation exists; else the error of its main copy, or of the
    /// mirror copy if that one is left.
    pub fn generation(
        &self,
        container: ContainerId,
        generation: Generation,
    ) -> Result<CatalogView, ContainerError> {
        let mut error = match self.load_copy(Identity::main(container, generation)) {
            Ok(contents) => return Ok(CatalogView::of(contents)),
            Err(error) => error,
        };
        if (is_absent(&error) || error.is_damage())
            && let Some(mirror) = Identity::mirror(container, generation)
        {
            match self.load_copy(mirror) {
                Ok(contents) => return Ok(CatalogView::of(contents)),
                Err(of_mirror) if is_absent(&error) || of_mirror.is_silence() => error = of_mirror,
                Err(_) => {}
            }
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

    /// Drops the cached and remembered data of a container whose objects were deleted or made
    /// again. A pinned catalog stays.
    pub fn forget(&self, container: ContainerId) {
        self.cache().forget_id(container);
        self.known_generations().forget(container);
    }
}
