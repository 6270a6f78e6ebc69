//! Images of an index in memory.

use std::sync::PoisonError;

use env::StorageError;
use format::names::{self, IndexRunName};

use crate::error::IndexError;
use crate::index::Index;
use crate::resident::{IMAGE_SHARE, entries, images};

impl Index {
    /// Writes an image of what is held in memory, when an eighth of it is in none, and deletes
    /// older ones. Says whether it did. The next process that holds the index in memory, with the
    /// same budget, then reads the image, and runs only as far as they are younger.
    ///
    /// # Errors
    /// Of the storage. Images are rebuilt from runs (INV-4).
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
        // Noted before the entries are read: entries that come in between are added once more,
        // which changes nothing.
        let filled: Vec<IndexRunName> = held.filled().iter().copied().collect();
        match held
            .memory()
            .checkpoint(self.storage(), self.store(), &name, &filled)
        {
            Ok(()) => {}
            // Another process was quicker, with an image as good.
            Err(StorageError::AlreadyExists { .. }) => return Ok(false),
            Err(error) => return Err(error.into()),
        }
        *in_image = entries;
        self.delete(&old)?;
        Ok(true)
    }
}
