//! What is in the folders of backups.
//!
//! A path and a folder cost a few parts of the listing each, by the fences: not the tree. A folder
//! is read in batches, and the batches that were read last stay in memory.

use std::collections::HashMap;
use std::sync::Arc;

use format::listing::EntryKind;
use format::manifest::StreamRole;
use onefold::Error;
use restore::{BackupListing, Wanted};
use tree::{Listed, order};
use types::{FileTime, SessionId};

use crate::cache::Cache;
use crate::cached_reader::CachedReader;
use crate::identity::hash_of;
use crate::item::{Body, Item, PART, file_time};
use crate::pins::Pin;
use crate::regions::Regions;

/// Entries of a batch.
pub(crate) const BATCH_MAX: usize = 1024;
/// Memory for batches.
const BATCHES_BYTES: u64 = 32 << 20;
/// Memory for the ends of batches: of about a hundred thousand batches.
const ENDS_BYTES: u64 = 16 << 20;
/// Memory for counts of links.
const LINKS_BYTES: u64 = 32 << 20;

/// Some entries of a folder, in listing order.
#[derive(Debug)]
pub(crate) struct Batch {
    pub(crate) items: Vec<Arc<Item>>,
    /// Whether the folder ends with it.
    pub(crate) is_last: bool,
}

/// Where a batch ends. It is small, so it stays in memory longer than the batch: the next batch is
/// read from there.
#[derive(Debug)]
struct End {
    /// The listing's path of the last entry.
    last: Vec<u8>,
    is_last: bool,
}

/// Backup, hash of the folder's path, and number of the batch.
type BatchKey = (SessionId, u64, usize);

/// How many names each file with hard links has, by the hash of its first name.
pub(crate) type LinkCounts = HashMap<u64, u32>;

/// The batches and counts that stay in memory.
#[derive(Debug)]
pub(crate) struct Folders {
    batches: Cache<BatchKey, Batch>,
    ends: Cache<BatchKey, End>,
    links: Cache<SessionId, LinkCounts>,
}

impl Folders {
    pub(crate) fn new() -> Self {
        Self::with(BATCHES_BYTES, ENDS_BYTES)
    }

    fn with(batches_bytes: u64, ends_bytes: u64) -> Self {
        Self {
            batches: Cache::new(batches_bytes),
            ends: Cache::new(ends_bytes),
            links: Cache::new(LINKS_BYTES),
        }
    }

    /// The entry at a path; `None` if the backup has none.
    ///
    /// # Errors
    /// If the listing cannot be read.
    pub(crate) fn item(&self, pin: &Pin, regions: &Regions, path: &[u8]) -> Result<Option<Arc<Item>>, Error> {
        if let Some(stream) = StreamFile::of(pin) {
            return Ok(stream.item(path).map(Arc::new));
        }
        let reader = CachedReader {
            reader: pin.reader()?,
            regions,
        };
        let listing = listing(pin, &reader)?;
        // A part has another name than in the listing.
        for listed in [Some(path), path.strip_suffix(PART)].into_iter().flatten() {
            let found = items(&listing, just(&listing, [listed.to_vec()])?)?.pop();
            if let Some(item) = found.filter(|item| item.path == path) {
                return Ok(Some(Arc::new(item)));
            }
        }
        Ok(None)
    }

    /// A batch of a folder, by its number. `None` behind the last one.
    ///
    /// # Errors
    /// If the listing cannot be read.
    pub(crate) fn batch(
        &self,
        pin: &Pin,
        regions: &Regions,
        folder: &[u8],
        number: usize,
    ) -> Result<Option<Arc<Batch>>, Error> {
        let key = (pin.snapshot().id, hash_of(folder), number);
        self.batch_of(key, |after| read_batch(pin, regions, folder, after))
    }

    /// The batch with this key. `read` reads the batch behind a path, or the first one.
    fn batch_of(
        &self,
        (id, folder, number): BatchKey,
        read: impl Fn(Option<&[u8]>) -> Result<(Batch, End), Error>,
    ) -> Result<Option<Arc<Batch>>, Error> {
        // The last batch before this one whose end is known. Mostly it is the next one before.
        let known = (0..number).rev().find_map(|each| {
            let end = self.ends.get((id, folder, each))?;
            Some((each, end))
        });
        let (first, mut before) = known.map_or((0, None), |(each, end)| (each + 1, Some(end)));
        for each in first..=number {
            if before.as_ref().is_some_and(|end| end.is_last) {
                return Ok(None);
            }
            let key = (id, folder, each);
            let turn = match self.batches.get_or_turn(key) {
                Ok(batch) if each == number => return Ok(Some(batch)),
                Ok(_) => None,
                Err(turn) => Some(turn),
            };
            // The end of a batch that is here may be gone.
            if turn.is_none()
                && let Some(end) = self.ends.get(key)
            {
                before = Some(end);
                continue;
            }
            let (batch, end) = read(before.as_ref().map(|end| &end.last[..]))?;
            let end_bytes = end.last.len() + size_of::<End>() + 200;
            let end = Arc::new(end);
            self.ends.put(key, Arc::clone(&end), end_bytes as u64);
            let batch = match turn {
                Some(turn) => {
                    let bytes = batch.items.iter().map(|item| item.bytes() + 16).sum::<u64>();
                    turn.keep(batch, bytes + 200)
                }
                None => Arc::new(batch),
            };
            if each == number {
                return Ok(Some(batch));
            }
            before = Some(end);
        }
        Ok(None)
    }

    /// The counts of [`Self::links`], if they are there.
    pub(crate) fn known_links(&self, id: SessionId) -> Option<Arc<LinkCounts>> {
        self.links.get(id)
    }

    /// How many names the files of a backup have, where they have several. Reads the whole listing,
    /// once, unless the backup has no links.
    ///
    /// # Errors
    /// If the listing cannot be read.
    pub(crate) fn links(&self, pin: &Pin, regions: &Regions) -> Result<Arc<LinkCounts>, Error> {
        match self.links.get_or_turn(pin.snapshot().id) {
            Ok(links) => Ok(links),
            Err(turn) => {
                let links = count_links(pin, regions)?;
                let bytes = links.capacity() * size_of::<(u64, u32)>() * 2 + 64;
                Ok(turn.keep(links, bytes as u64))
            }
        }
    }
}

/// The listing of a tree.
fn listing<'a>(pin: &Pin, reader: &'a CachedReader<'_>) -> Result<BackupListing<'a>, Error> {
    let root = pin.root(StreamRole::Listing).ok_or_else(|| {
        let id = pin.snapshot().id;
        Error::NotFound(format!("backup {id} has no listing"))
    })?;
    Ok(BackupListing::new(reader, root, pin.root(StreamRole::Fences)))
}

fn just(listing: &BackupListing<'_>, paths: impl IntoIterator<Item = Vec<u8>>) -> Result<Vec<Listed>, Error> {
    let mut entries = listing.entries(Wanted::just(paths))?;
    let mut found = Vec::new();
    while let Some(listed) = entries.next_entry()? {
        found.push(listed);
    }
    Ok(found)
}

/// Entries as the file system shows them. Those that hard links refer to are looked up together. A
/// link to nothing is left out, as a restore leaves it out.
fn items(listing: &BackupListing<'_>, listed: Vec<Listed>) -> Result<Vec<Item>, Error> {
    let targets = listed.iter().filter_map(|listed| match &listed.entry.kind {
        EntryKind::HardLink { target } => Some(target.clone()),
        _ => None,
    });
    let targets: Vec<_> = targets.collect();
    let firsts = if targets.is_empty() {
        Vec::new()
    } else {
        just(listing, targets)?
    };
    let firsts = firsts.into_iter().filter_map(|first| {
        let path = first.entry.path.clone();
        Some((path, Item::of(first)?))
    });
    let firsts: HashMap<Vec<u8>, Item> = firsts.collect();
    let item = |listed: Listed| match &listed.entry.kind {
        EntryKind::HardLink { target } => {
            let first = firsts.get(target).filter(|first| first.body != Body::Folder);
            first.map(|first| first.linked(&listed.entry, target))
        }
        _ => Item::of(listed),
    };
    Ok(listed.into_iter().filter_map(item).collect())
}

/// The entries of a folder behind a path, or the first ones.
fn read_batch(
    pin: &Pin,
    regions: &Regions,
    folder: &[u8],
    after: Option<&[u8]>,
) -> Result<(Batch, End), Error> {
    if let Some(stream) = StreamFile::of(pin) {
        return Ok(stream.batch(folder));
    }
    let reader = CachedReader {
        reader: pin.reader()?,
        regions,
    };
    let listing = listing(pin, &reader)?;
    let mut children = listing.children(folder, after)?;
    let mut listed = Vec::new();
    let mut is_last = false;
    while listed.len() < BATCH_MAX {
        match children.next_entry()? {
            Some(child) => listed.push(child),
            None => {
                is_last = true;
                break;
            }
        }
    }
    let last = listed.last().map(|last| last.entry.path.clone());
    drop(children);
    let items = items(&listing, listed)?.into_iter().map(Arc::new).collect();
    let last = last.unwrap_or_default();
    Ok((Batch { items, is_last }, End { last, is_last }))
}

fn count_links(pin: &Pin, regions: &Regions) -> Result<LinkCounts, Error> {
    let mut links = LinkCounts::new();
    // `others` counts links too.
    if pin.snapshot().backup.totals.others == 0 || pin.root(StreamRole::Listing).is_none() {
        return Ok(links);
    }
    let reader = CachedReader {
        reader: pin.reader()?,
        regions,
    };
    let listing = listing(pin, &reader)?;
    let mut entries = listing.entries(Wanted::all())?;
    while let Some(listed) = entries.next_entry()? {
        if let EntryKind::HardLink { target } = &listed.entry.kind {
            *links.entry(hash_of(target)).or_insert(1) += 1;
        }
    }
    Ok(links)
}

/// The only file of a backup of a stream or an image. Its name may have folders before it.
struct StreamFile {
    /// From the root of the backup.
    path: Vec<u8>,
    len: u64,
    time: FileTime,
}

impl StreamFile {
    fn of(pin: &Pin) -> Option<Self> {
        let snapshot = pin.snapshot();
        let (name, len) = snapshot.single_stream()?;
        let usable = |name: &&[u8]| *name != b"." && *name != b"..";
        let names: Vec<&[u8]> = order::components(name).filter(usable).collect();
        let names = if names.is_empty() {
            vec![&b"stream"[..]]
        } else {
            names
        };
        Some(Self {
            path: [&b"/"[..], &names.join(&b'/')].concat(),
            len,
            time: file_time(snapshot.backup.source_time),
        })
    }

    fn item(&self, path: &[u8]) -> Option<Item> {
        let body = if path == self.path {
            Body::File {
                offset: 0,
                len: self.len,
                holes: None,
            }
        } else if order::is_within(&self.path, path) {
            Body::Folder
        } else {
            return None;
        };
        Some(Item::made(path.to_vec(), body, self.time))
    }

    /// The next name on the way to the file.
    fn batch(&self, folder: &[u8]) -> (Batch, End) {
        let depth = order::components(folder).count();
        let names: Vec<&[u8]> = order::components(&self.path).take(depth + 1).collect();
        let path = [&b"/"[..], &names.join(&b'/')].concat();
        let below = path.len() > folder.len() && order::is_within(&path, folder);
        let item = below.then(|| self.item(&path)).flatten();
        let items = item.into_iter().map(Arc::new).collect();
        let is_last = true;
        (Batch { items, is_last }, End { last: path, is_last })
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    /// A folder of 300 batches, each of one entry named by its number, with a cache for ten.
    #[test]
    fn a_long_folder_is_read_once_and_read_again_from_the_nearest_known_end() {
        const COUNT: usize = 300;
        let reads = Cell::new(0);
        let read = |after: Option<&[u8]>| {
            reads.set(reads.get() + 1);
            let number = after.map_or(0, |after| {
                String::from_utf8(after.to_vec())
                    .unwrap()
                    .parse::<usize>()
                    .unwrap()
                    + 1
            });
            let (last, is_last) = (number.to_string().into_bytes(), number + 1 == COUNT);
            let item = Item::made(last.clone(), Body::Folder, FileTime::default());
            let items = vec![Arc::new(item)];
            Ok((Batch { items, is_last }, End { last, is_last }))
        };
        let bytes = Item::made(Vec::new(), Body::Folder, FileTime::default()).bytes();
        let folders = Folders::with(10 * (bytes + 230), ENDS_BYTES);
        let id = SessionId::new(1).unwrap();
        let of = |folders: &Folders, number: usize| {
            let batch = folders.batch_of((id, 7, number), read).unwrap();
            batch.map(|batch| batch.items[0].path.clone())
        };
        let name = |number: usize| Some(number.to_string().into_bytes());
        // The kernel asks for each batch several times.
        for number in (0..COUNT).flat_map(|number| [number; 3]) {
            assert_eq!(of(&folders, number), name(number));
        }
        assert_eq!(of(&folders, COUNT), None);
        assert_eq!(of(&folders, COUNT + 5), None);
        assert_eq!(reads.get(), COUNT);
        // From the middle, and backwards.
        assert_eq!((of(&folders, 150), reads.get()), (name(150), COUNT + 1));
        for number in (50..100).rev() {
            assert_eq!(of(&folders, number), name(number));
        }
        assert_eq!(reads.get(), COUNT + 51);
        // Where no ends are left it is read from the beginning.
        let folders = Folders::with(10 * (bytes + 230), 1);
        assert_eq!(of(&folders, 20), name(20));
        assert_eq!(of(&folders, 15), name(15));
        assert_eq!(of(&folders, 20), name(20));
    }
}
