//! What a walk found.

use std::sync::Arc;

use format::listing::{EntryKind, ListingEntry};

use crate::folder::Folder;
use crate::metadata::AttributeReader;
use crate::{Action, TreeError};

/// One entry found, and the way to open it.
#[derive(Debug)]
pub struct WalkEntry {
    /// As it goes into the listing. A file's length is that of the walk and its holes are not known
    /// yet: reading it tells ([`crate::FileReader::finish`]). So it is with its extended attributes
    /// and flags, which are asked for when it is open; of a file that is not read,
    /// [`Self::read_attributes`] asks for attributes.
    pub entry: ListingEntry,
    /// Its number of names.
    pub links: u64,
    /// Bytes of a regular file, also of one that is a hard link here; else 0.
    pub len: u64,
    /// What the entry is a name of, if it is a hard link.
    pub(crate) linked: Option<EntryKind>,
    pub(crate) folder: Arc<Folder>,
    pub(crate) name: Vec<u8>,
    /// How much of it is read at most if its length is not known.
    pub(crate) unknown_len_max: u64,
}

impl WalkEntry {
    /// What it is; of a hard link, what it is a name of.
    #[must_use]
    pub fn kind(&self) -> &EntryKind {
        self.linked.as_ref().unwrap_or(&self.entry.kind)
    }

    /// Reads the extended attributes of a file that is not opened. With a fault those that could be
    /// read.
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
