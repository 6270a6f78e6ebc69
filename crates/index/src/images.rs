//! Images of an index in memory.

use std::sync::PoisonError;

use env::StorageError;
use format::names::{self, IndexRunName};

use crate::error::IndexError;
use crate::index::Index;
use crate::resident::{IMAGE_SHARE, entries, images};

impl Index {
    /// Writes an image of the index in memory if an eighth of it is in no image, and deletes older
    /// images. Returns whether it wrote one. The next process that holds the index in memory with
    /// the same budget reads the image, and only younger runs.
    ///
    /// # Errors
    /// Errors of the storage. Images are rebuilt from runs (INV-4).
    pub fn checkpoint(&self) -> Result<bool, IndexError> {
        let Some(held) = self.held() else {
            return Ok(false);
        };
        let entries = entries(held.memory());
        let mut in_image = held.in_image.lock().unwrap_or_else(PoisonError::into_inner);
        if entries.abs_diff(*in_image) * IMAGE_SHARE <= entries {
            return Ok(false);
        }
        let old = images(self.storage())?;
        let number = old
            .last()
            .and_then(names::parse_index_image)
            .map_or(0, |last| last.wrapping_add(1));
        let name = names::index_image(number);
        // Noted before the entries are read. Entries that arrive in between are added twice, which
        // changes nothing.
        let filled: Vec<IndexRunName> = held.filled().iter().copied().collect();
        match held
            .memory()
            .checkpoint(self.storage(), self.store(), &name, &filled)
        {
            Ok(()) => {}
            // Another process was quicker. Its image is as good.
            Err(StorageError::AlreadyExists { .. }) => return Ok(false),
            Err(error) => return Err(error.into()),
        }
        *in_image = entries;
        self.delete(&old)?;
        Ok(true)
    }
}
