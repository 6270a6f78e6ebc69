//! The entries of a walk.

use std::sync::Arc;

use format::listing::{EntryKind, ListingEntry};

use crate::folder::Folder;
use crate::metadata::AttributeReader;
use crate::{Action, TreeError};

/// One entry, and the way to open it.
#[derive(Debug)]
pub struct WalkEntry {
    /// The entry for the listing. A file's length is the one that the walk saw, and its holes are
    /// not known yet: reading finds them ([`crate::FileReader::finish`]). Its extended attributes
    /// and flags are also read when it is open. For a file that is not read,
    /// [`Self::read_attributes`] reads the attributes.
    pub entry: ListingEntry,
    /// Its number of names.
    pub links: u64,
    /// Bytes of a regular file, also of one that is a hard link here; else 0.
    pub len: u64,
    /// The kind of the linked entry, if it is a hard link.
    pub(crate) linked: Option<EntryKind>,
    pub(crate) folder: Arc<Folder>,
    pub(crate) name: Vec<u8>,
    /// The most bytes to read of it if its length is not known.
    pub(crate) unknown_len_max: u64,
}

impl WalkEntry {
    /// Its kind. For a hard link: the kind of the linked entry.
    #[must_use]
    pub fn kind(&self) -> &EntryKind {
        self.linked.as_ref().unwrap_or(&self.entry.kind)
    }

    /// Reads the extended attributes of a file that is not opened. With a fault, those that could
    /// be read are set.
    pub fn read_attributes(&mut self) -> Option<TreeError> {
        let path = &self.entry.path;
        let fault = match self.folder.descriptor() {
            Err(errno) => Some(TreeError::reading(&path[..], Action::ReadAttributes, errno)),
            Ok(folder) => {
                let (found, fault) = AttributeReader::new().read(&folder, &self.name, path, false);
                self.entry.xattrs = found;
                fault
            }
        };
        self.entry.state.lacks_attributes |= fault.is_some();
        fault
    }
}
