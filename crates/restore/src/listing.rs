//! A backup's listing, of which only the parts are read that are asked for.
//!
//! [`Wanted`] says which entries those are; [`Entries`] hands them out in listing order. For each
//! path that is asked for, the fences say where in the listing it begins, unless it is near enough
//! to be read up to.
//!
//! Fences are a shortcut. Where there are none, or they cannot be read, or lead to another entry
//! than they say, the listing is read from where it was read last, as far as is needed;
//! [`BackupListing::fault`] says so. Nothing is lost by it but time.

mod entries;
mod wanted;

use std::io::{self, Read};
use std::ops::Range;
use std::sync::{Mutex, PoisonError};

use recipe::{NodeCache, RecipeError, StreamBytes, TreeRoot};
use tree::{Fences, ListingPlace, ListingReader, TreeError};

pub use entries::Entries;
pub use wanted::Wanted;

/// A backup's listing and its fences. Shared by several passes over the listing, which may be on
/// several threads.
#[derive(Debug)]
pub struct BackupListing<'a> {
    nodes: &'a NodeCache,
    listing: TreeRoot,
    shortcut: Mutex<Shortcut>,
}

/// Why fences are of no use. Nothing of the backup is missing for it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FenceFault {
    /// There are none.
    #[error("the backup has no fences")]
    Missing,
    /// The first entry of a part has another path.
    #[error("a fence leads to another entry than it says")]
    Astray,
    /// They cannot be read, or do not fit together.
    #[error(transparent)]
    Unreadable(TreeError),
}

/// The way to a path without reading all before it.
#[derive(Debug)]
enum Shortcut {
    /// The fences, in the stream below this root.
    Fences(Fences, TreeRoot),
    /// There is none, and why; whether it has been asked for.
    None { fault: FenceFault, is_met: bool },
}

impl<'a> BackupListing<'a> {
    /// The listing below a root, with the fences below theirs. Reads nothing yet.
    #[must_use]
    pub fn new(nodes: &'a NodeCache, listing: TreeRoot, fences: Option<TreeRoot>) -> Self {
        let shortcut = match fences {
            Some(root) => Shortcut::Fences(Fences::new(root.len, listing.len), root),
            None => Shortcut::None {
                fault: FenceFault::Missing,
                is_met: false,
            },
        };
        Self {
            nodes,
            listing,
            shortcut: Mutex::new(shortcut),
        }
    }

    /// The entries that are asked for, in listing order.
    ///
    /// # Errors
    /// [`TreeError::Stream`].
    pub fn entries(&self, wanted: Wanted) -> Result<Entries<'_>, TreeError> {
        Entries::new(self, wanted)
    }

    /// Why the fences were of no use, where they were asked for and were not.
    #[must_use]
    pub fn fault(self) -> Option<FenceFault> {
        match self.shortcut.into_inner().unwrap_or_else(PoisonError::into_inner) {
            Shortcut::None { fault, is_met: true } => Some(fault),
            _ => None,
        }
    }

    /// Where the part of a path begins; none where the fences are of no use.
    fn place(&self, path: &[u8]) -> Option<ListingPlace> {
        // A panic while fences are read leaves them as they were.
        let mut shortcut = self.shortcut.lock().unwrap_or_else(PoisonError::into_inner);
        match &mut *shortcut {
            Shortcut::Fences(fences, root) => {
                match fences.find(path, &mut |range| read(self.nodes, root, range)) {
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

    /// The fences lead to another entry than they say.
    fn give_up(&self) {
        *self.shortcut.lock().unwrap_or_else(PoisonError::into_inner) = Shortcut::None {
            fault: FenceFault::Astray,
            is_met: true,
        };
    }

    /// The whole listing.
    fn read_all(&self) -> Result<ListingReader<StreamBytes<'a>>, TreeError> {
        let bytes = StreamBytes::new(self.nodes, &self.listing, 0, self.listing.len);
        Ok(ListingReader::new(bytes.map_err(|error| unread(0, error))?))
    }

    /// The listing from a place on.
    fn read_from(&self, place: &ListingPlace) -> Result<ListingReader<StreamBytes<'a>>, TreeError> {
        let offset = place.listing_offset;
        let len = self.listing.len.saturating_sub(offset);
        let bytes = StreamBytes::new(self.nodes, &self.listing, offset, len);
        Ok(ListingReader::from_place(
            bytes.map_err(|error| unread(offset, error))?,
            place,
        ))
    }
}

fn read(nodes: &NodeCache, root: &TreeRoot, range: Range<u64>) -> io::Result<Vec<u8>> {
    let stream = StreamBytes::new(nodes, root, range.start, range.end - range.start);
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
