//! Writes entries as bytes.

use format::listing::ListingEntry;

use super::fence_writer::FenceWriter;
use crate::{TreeError, order};

/// Writes a listing and its fences. It appends bytes to buffers, which the caller may empty at any
/// time.
#[derive(Debug, Default)]
pub struct ListingWriter {
    previous: Option<Vec<u8>>,
    listing_offset: u64,
    content_offset: u64,
    fences: FenceWriter,
}

impl ListingWriter {
    /// An empty listing.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Bytes of listing written.
    #[must_use]
    pub fn listing_len(&self) -> u64 {
        self.listing_offset
    }

    /// Bytes that the files of the listing have in the content stream.
    #[must_use]
    pub fn content_len(&self) -> u64 {
        self.content_offset
    }

    /// Appends an entry's record to `listing`, and the complete pages to `fences`. Returns where
    /// its content begins in the content stream; its lead comes first.
    ///
    /// # Errors
    /// [`TreeError::Order`]; [`TreeError::Unlistable`] for an entry that the format cannot hold,
    /// such as one with a path longer than its limit. Then nothing is written.
    pub fn push(
        &mut self,
        entry: &ListingEntry,
        listing: &mut Vec<u8>,
        fences: &mut Vec<u8>,
    ) -> Result<u64, TreeError> {
        if let Some(previous) = &self.previous
            && order::compare(previous, &entry.path).is_ge()
        {
            return Err(TreeError::Order {
                path: entry.path.clone(),
                previous: previous.clone(),
            });
        }
        let unlistable = |why: String| TreeError::Unlistable {
            path: entry.path.clone(),
            why,
        };
        let content_offset = self.content_offset;
        let content_end = content_offset
            .checked_add(entry.lead())
            .and_then(|begin| begin.checked_add(entry.file_len()))
            .ok_or_else(|| unlistable("the files are longer than any stream".into()))?;
        let begin = listing.len();
        entry.try_encode(listing).map_err(|e| unlistable(e.to_string()))?;

        let record_len = (listing.len() - begin) as u64;
        let content_len = content_end - content_offset;
        self.fences.push(&entry.path, record_len, content_len, fences);
        self.listing_offset += record_len;
        self.content_offset = content_end;
        match &mut self.previous {
            Some(previous) => previous.clone_from(&entry.path),
            None => self.previous = Some(entry.path.clone()),
        }
        Ok(content_offset)
    }

    /// Appends the rest of the fences. Without it the fences are useless.
    pub fn finish(mut self, fences: &mut Vec<u8>) {
        self.fences.finish(fences);
    }
}
