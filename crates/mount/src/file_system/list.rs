//! The entries of folders.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use format::manifest::StreamRole;
use rustix::io::Errno;
use tree::order;

use super::{Answer, Entry, FileSystem, below, folder_path};
use crate::attributes::Kind;
use crate::folders::BATCH_MAX;
use crate::item::Item;
use crate::layout::{IDS, Top};
use crate::nodes::{Place, Root};

/// A listing of at most so many bytes is read for the counts of links when a first folder of it is
/// listed...
const SMALL_LISTING_BYTES: u64 = 64 << 20;
/// ... and a longer one when so many folders were listed.
const FOLDERS_BEFORE_COUNT: u32 = 16;

/// An entry of a folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listed {
    /// The number of the inode.
    pub number: u64,
    /// Its kind.
    pub kind: Kind,
    /// Its name.
    pub name: Vec<u8>,
    /// Where the next entry begins.
    pub next: u64,
    /// With all else, if that was asked for; the kernel must then be told of it, or
    /// [`FileSystem::forget`] called.
    pub entry: Option<Entry>,
}

impl FileSystem {
    /// Gives the entries of a folder from an offset on, until `each` returns whether there is no
    /// room for one. Offset 0 is the beginning; [`Listed::next`] has the others. With `is_told` the
    /// kernel is told of each entry that was taken.
    ///
    /// # Errors
    /// `NOTDIR`, `STALE`, `IO`.
    pub fn list(
        &self,
        folder: u64,
        offset: u64,
        is_told: bool,
        each: &mut dyn FnMut(&Listed) -> bool,
    ) -> Answer<()> {
        match self.place(folder)? {
            Place::Top(path) => {
                // What was listed after the beginning goes on in the same backups, if it can.
                if offset == 0 {
                    self.list_again();
                }
                self.list_top(&path, offset, is_told, each)
            }
            Place::In(root, item) => self.list_below(&root, &item, offset, is_told, each),
        }
    }

    fn list_top(
        &self,
        path: &[u8],
        offset: u64,
        is_told: bool,
        each: &mut dyn FnMut(&Listed) -> bool,
    ) -> Answer<()> {
        let (layout, _) = self.layout();
        let Some(Top::Folder(entries)) = layout.find(path) else {
            return Err(Errno::STALE);
        };
        let first = usize::try_from(offset).unwrap_or(usize::MAX);
        let mut entries: Vec<_> = entries.iter().collect();
        if path == IDS {
            // By number: new backups come behind those that were listed.
            entries.sort_by_key(|(name, _)| (name.len(), *name));
        }
        for (at, (name, top)) in entries.into_iter().enumerate().skip(first) {
            // Nothing of a backup is read, so one that cannot be read is listed all the same.
            let place = if is_told {
                self.place_of_top(&layout, &below(path, name), top, false)?
            } else {
                Place::Top(below(path, name))
            };
            let kind = match top {
                Top::Link(_) => Kind::Link,
                Top::Folder(_) | Top::Backup(_) => Kind::Folder,
            };
            if self.give(place, kind, name.clone(), at as u64 + 1, is_told, each) {
                break;
            }
        }
        Ok(())
    }

    fn list_below(
        &self,
        root: &Arc<Root>,
        folder: &Item,
        offset: u64,
        is_told: bool,
        each: &mut dyn FnMut(&Listed) -> bool,
    ) -> Answer<()> {
        let path = folder_path(folder)?;
        if offset == 0 {
            self.count_links(root);
        }
        let mut at = usize::try_from(offset).unwrap_or(usize::MAX);
        loop {
            let batch = self.read(root, &path, |pin| {
                self.folders
                    .batch(pin, &self.contents.regions, &path, at / BATCH_MAX)
            })?;
            let Some(batch) = batch else { return Ok(()) };
            let items = batch.items.get(at % BATCH_MAX..).unwrap_or_default();
            for (nth, item) in items.iter().enumerate() {
                let place = Place::In(Arc::clone(root), Arc::clone(item));
                let (kind, name) = (Kind::of(&item.body), order::name(&item.path).to_vec());
                let next = (at + nth + 1) as u64;
                if self.give(place, kind, name, next, is_told, each) {
                    return Ok(());
                }
            }
            if batch.is_last {
                return Ok(());
            }
            at = (at / BATCH_MAX + 1) * BATCH_MAX;
        }
    }

    /// Gives one entry, and returns whether there was no room for it.
    fn give(
        &self,
        place: Place,
        kind: Kind,
        name: Vec<u8>,
        next: u64,
        is_told: bool,
        each: &mut dyn FnMut(&Listed) -> bool,
    ) -> bool {
        let (number, entry) = if is_told {
            let entry = self.tell(place);
            (entry.attributes.number, Some(entry))
        } else {
            (self.nodes.number(&place), None)
        };
        let is_full = each(&Listed {
            number,
            kind,
            name,
            next,
            entry,
        });
        if is_full && is_told {
            self.nodes.forget(number, 1);
        }
        is_full
    }

    /// Counts hard links, if it is time.
    fn count_links(&self, root: &Root) {
        if self.folders.known_links(root.snapshot.id).is_some() {
            return;
        }
        // What is wrong with the listing is told by those who need more of it.
        drop(self.pins.with(&root.snapshot, |pin| {
            let listing = pin.root(StreamRole::Listing).map_or(0, |root| root.len);
            let listed = pin.listed.fetch_add(1, Ordering::Relaxed);
            if listing <= SMALL_LISTING_BYTES || listed >= FOLDERS_BEFORE_COUNT {
                self.folders.links(pin, &self.contents.regions).map(drop)?;
            }
            Ok(())
        }));
    }
}
