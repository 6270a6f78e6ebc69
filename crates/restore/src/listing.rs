//! A backup's listing, of which only the requested parts are read.
//!
//! [`Wanted`] says which entries are requested; [`Entries`] returns them in listing order. For each
//! requested path, the fences say where in the listing it begins. The reader jumps there, unless
//! reading on reaches the place soon.
//!
//! Fences are a shortcut. They may be missing or unreadable, or may lead to another entry than they
//! say. Then the listing is read on from the current place, as far as needed, and
//! [`BackupListing::fault`] says why. This costs only time.

mod children;
mod differences;
mod entries;
mod wanted;

use std::io::{self, Read};
use std::ops::Range;
use std::sync::{Mutex, PoisonError};

use recipe::{RecipeError, StoreReader, StreamBytes, TreeRoot};
use tree::{Fences, Listed, ListingPlace, ListingReader, ReadRange, TreeError};

pub use children::Children;
pub use differences::for_each_difference;
pub use entries::Entries;
pub use wanted::Wanted;

/// A backup's listing and its fences. Several passes over the listing share it, possibly on several
/// threads.
#[derive(Debug)]
pub struct BackupListing<'a> {
    reader: &'a dyn StoreReader,
    listing: TreeRoot,
    shortcut: Mutex<Shortcut>,
}

/// Why the fences cannot be used. All of the backup's data can still be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FenceFault {
    /// The backup has no fences.
    #[error("the backup has no fences")]
    Missing,
    /// The first entry of a part has another path than its fence.
    #[error("a fence leads to another entry than it says")]
    Astray,
    /// They cannot be read, or contradict each other.
    #[error(transparent)]
    Unreadable(TreeError),
}

/// The way to a path without reading everything before it.
#[derive(Debug)]
enum Shortcut {
    /// The fences, in the stream below this root.
    Fences(Fences, TreeRoot),
    /// There are none. `fault` says why, and `is_met` says whether they were needed.
    None { fault: FenceFault, is_met: bool },
}

impl<'a> BackupListing<'a> {
    /// The listing below its root, with the fences below theirs. Reads nothing yet.
    #[must_use]
    pub fn new(reader: &'a dyn StoreReader, listing: TreeRoot, fences: Option<TreeRoot>) -> Self {
        let shortcut = match fences {
            Some(root) => Shortcut::Fences(Fences::new(root.len, listing.len), root),
            None => Shortcut::None {
                fault: FenceFault::Missing,
                is_met: false,
            },
        };
        Self {
            reader,
            listing,
            shortcut: Mutex::new(shortcut),
        }
    }

    /// The requested entries, in listing order.
    ///
    /// # Errors
    /// [`TreeError::Stream`].
    pub fn entries(&self, wanted: Wanted) -> Result<Entries<'_>, TreeError> {
        Entries::new(self, wanted)
    }

    /// The entries directly in a folder, in listing order: all of them, or those behind the one at
    /// the path `after`. What is below them is passed over by the fences.
    ///
    /// # Errors
    /// [`TreeError::Stream`].
    pub fn children(&self, folder: &[u8], after: Option<&[u8]>) -> Result<Children<'_>, TreeError> {
        Children::new(self, folder, after)
    }

    /// Why the fences could not be used, if they were needed.
    #[must_use]
    pub fn fault(self) -> Option<FenceFault> {
        match self.shortcut.into_inner().unwrap_or_else(PoisonError::into_inner) {
            Shortcut::None { fault, is_met: true } => Some(fault),
            _ => None,
        }
    }

    /// Where the part with a path begins; `None` if the fences cannot be used.
    fn place(&self, path: &[u8]) -> Option<ListingPlace> {
        self.found(|fences, read| fences.find(path, read))
    }

    /// Asks the fences; `None` if they cannot be used.
    fn found(
        &self,
        ask: impl FnOnce(&mut Fences, &mut ReadRange<'_>) -> Result<Option<ListingPlace>, TreeError>,
    ) -> Option<ListingPlace> {
        // A panic while fences are read does not change them.
        let mut shortcut = self.shortcut.lock().unwrap_or_else(PoisonError::into_inner);
        match &mut *shortcut {
            Shortcut::Fences(fences, root) => {
                match ask(fences, &mut |range| read(self.reader, root, range)) {
                    Ok(place) => place,
                    Err(fault) => {
                        *shortcut = Shortcut::None {
                            fault: FenceFault::Unreadable(fault),
                            is_met: true,
                        };
                        None
                    }
                }
            }
            Shortcut::None { is_met, .. } => {
                *is_met = true;
                None
            }
        }
    }

    /// Records that the fences lead to another entry than they say.
    fn give_up(&self) {
        *self.shortcut.lock().unwrap_or_else(PoisonError::into_inner) = Shortcut::None {
            fault: FenceFault::Astray,
            is_met: true,
        };
    }

    /// Moves a reader to the part in which the path would be, if that is ahead. The first entry of
    /// that part is then in `peeked`.
    fn seek(
        &self,
        path: &[u8],
        reader: &mut ListingReader<StreamBytes<'a, dyn StoreReader + 'a>>,
        peeked: &mut Option<Listed>,
    ) -> Result<(), TreeError> {
        let place = self.place(path);
        let Some(place) = place.filter(|place| place.listing_offset > reader.offset()) else {
            return Ok(());
        };
        let mut ahead = self.read_from(&place)?;
        match ahead.next_entry() {
            Ok(Some(first)) if first.entry.path == place.path => {
                *reader = ahead;
                *peeked = Some(first);
                Ok(())
            }
            Ok(_) | Err(TreeError::Damaged { .. }) => {
                self.give_up();
                Ok(())
            }
            Err(fault) => Err(fault),
        }
    }

    /// The whole listing.
    fn read_all(&self) -> Result<ListingReader<StreamBytes<'a, dyn StoreReader + 'a>>, TreeError> {
        let bytes = StreamBytes::new(self.reader, &self.listing, 0, self.listing.len);
        Ok(ListingReader::new(bytes.map_err(|error| unread(0, error))?))
    }

    /// The listing from this place on.
    fn read_from(
        &self,
        place: &ListingPlace,
    ) -> Result<ListingReader<StreamBytes<'a, dyn StoreReader + 'a>>, TreeError> {
        let offset = place.listing_offset;
        let len = self.listing.len.saturating_sub(offset);
        let bytes = StreamBytes::new(self.reader, &self.listing, offset, len);
        Ok(ListingReader::from_place(
            bytes.map_err(|error| unread(offset, error))?,
            place,
        ))
    }
}

fn read(reader: &dyn StoreReader, root: &TreeRoot, range: Range<u64>) -> io::Result<Vec<u8>> {
    let stream = StreamBytes::new(reader, root, range.start, range.end - range.start);
    let mut bytes = Vec::new();
    stream.map_err(io::Error::other)?.read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn unread(offset: u64, error: RecipeError) -> TreeError {
    TreeError::Stream {
        stream: "listing",
        offset,
        source: io::Error::other(error),
    }
}

#[cfg(test)]
mod tests;
