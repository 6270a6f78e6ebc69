//! The entries directly in one folder.

use recipe::{StoreReader, StreamBytes};
use tree::{Listed, ListingReader, TreeError, order};

use super::BackupListing;

/// The entries directly in a folder, in listing order. They end after a fault.
///
/// The entries below a folder follow it in the listing. This iterator asks the fences once for each
/// folder where the next name begins, and reads on if that is near.
#[derive(Debug)]
pub struct Children<'a> {
    listing: &'a BackupListing<'a>,
    folder: Vec<u8>,
    /// The last child. Entries up to it, and below it, are passed over.
    last: Option<Vec<u8>>,
    reader: ListingReader<StreamBytes<'a, dyn StoreReader + 'a>>,
    /// An entry that was read and not yet returned.
    peeked: Option<Listed>,
    /// Whether the fences were already asked for the end of `last`.
    is_sought: bool,
}

impl<'a> Children<'a> {
    pub(super) fn new(
        listing: &'a BackupListing<'a>,
        folder: &[u8],
        after: Option<&[u8]>,
    ) -> Result<Self, TreeError> {
        let mut children = Self {
            listing,
            folder: folder.to_vec(),
            last: after.map(<[u8]>::to_vec),
            reader: listing.read_all()?,
            peeked: None,
            is_sought: false,
        };
        // The root is the first entry, so it needs no jump.
        match after {
            Some(after) => children.seek(&behind(after))?,
            None if folder == b"/" => {}
            None => children.seek(folder)?,
        }
        children.is_sought = after.is_some();
        Ok(children)
    }

    /// The next entry; `None` at the end of the folder.
    ///
    /// # Errors
    /// As [`ListingReader::next_entry`].
    pub fn next_entry(&mut self) -> Result<Option<Listed>, TreeError> {
        loop {
            let listed = match self.peeked.take() {
                Some(listed) => Some(listed),
                None => self.reader.next_entry()?,
            };
            let Some(listed) = listed else { return Ok(None) };
            let path = &listed.entry.path;
            if order::compare(path, &self.folder).is_le() {
                continue;
            }
            if !order::is_within(path, &self.folder) {
                // The folder has ended: further calls find the same.
                self.peeked = Some(listed);
                return Ok(None);
            }
            if let Some(last) = &self.last {
                if order::compare(path, last).is_le() {
                    continue;
                }
                if order::is_within(path, last) {
                    if !self.is_sought {
                        self.is_sought = true;
                        let behind = behind(last);
                        self.seek(&behind)?;
                    }
                    continue;
                }
            }
            if !is_directly_in(path, &self.folder) {
                // Its folder is not listed.
                continue;
            }
            self.last = Some(path.clone());
            self.is_sought = false;
            return Ok(Some(listed));
        }
    }

    /// Jumps to the part in which the path would be, if that is ahead.
    fn seek(&mut self, path: &[u8]) -> Result<(), TreeError> {
        self.listing.seek(path, &mut self.reader, &mut self.peeked)
    }
}

/// A path behind all that is below this one, and not behind the next name.
fn behind(path: &[u8]) -> Vec<u8> {
    // No name has a zero byte, and each other byte but the slash comes behind the slash.
    [path, &[1]].concat()
}

fn is_directly_in(path: &[u8], folder: &[u8]) -> bool {
    let folder = folder.strip_suffix(b"/").unwrap_or(folder);
    let name = path.strip_prefix(folder).and_then(|rest| rest.strip_prefix(b"/"));
    name.is_some_and(|name| !name.contains(&b'/'))
}
