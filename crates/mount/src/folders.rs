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
use crate::item::{Body, Item, PART};
use crate::pins::Pin;
use crate::regions::Regions;

/// Entries of a batch.
pub(crate) const BATCH_MAX: usize = 1024;
/// Memory for batches.
const BATCHES_BYTES: u64 = 32 << 20;
/// Memory for counts of links.
const LINKS_BYTES: u64 = 32 << 20;
const NANOS_PER_SECOND: i64 = 1_000_000_000;

/// Some entries of a folder, in listing order.
#[derive(Debug)]
pub(crate) struct Batch {
    pub(crate) items: Vec<Arc<Item>>,
    /// The listing's path of the last entry.
    last: Vec<u8>,
    /// Whether the folder ends with it.
    pub(crate) is_last: bool,
}

/// How many names each file with hard links has, by the hash of its first name.
pub(crate) type LinkCounts = HashMap<u64, u32>;

/// The batches and counts that stay in memory.
#[derive(Debug)]
pub(crate) struct Folders {
    /// By backup, hash of the folder's path, and number of the batch.
    batches: Cache<(SessionId, u64, usize), Batch>,
    links: Cache<SessionId, LinkCounts>,
}

impl Folders {
    pub(crate) fn new() -> Self {
        Self {
            batches: Cache::new(BATCHES_BYTES),
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
        let hash = hash_of(folder);
        let mut before: Option<Arc<Batch>> = None;
        // Mostly the batches before are still there.
        for each in 0..=number {
            let key = (pin.snapshot().id, hash, each);
            let batch = match self.batches.get_or_turn(key) {
                Ok(batch) => batch,
                Err(turn) => {
                    let batch = read_batch(pin, regions, folder, before.as_deref())?;
                    let bytes = batch.items.iter().map(|item| item.bytes() + 16).sum::<u64>();
                    turn.keep(batch, bytes + 200)
                }
            };
            if each < number && batch.is_last {
                return Ok(None);
            }
            before = Some(batch);
        }
        Ok(before)
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

fn read_batch(pin: &Pin, regions: &Regions, folder: &[u8], before: Option<&Batch>) -> Result<Batch, Error> {
    if let Some(stream) = StreamFile::of(pin) {
        return Ok(stream.batch(folder));
    }
    let reader = CachedReader {
        reader: pin.reader()?,
        regions,
    };
    let listing = listing(pin, &reader)?;
    let mut children = listing.children(folder, before.map(|batch| &batch.last[..]))?;
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
    Ok(Batch {
        items: items(&listing, listed)?.into_iter().map(Arc::new).collect(),
        last: last.unwrap_or_default(),
        is_last,
    })
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
        let nanos = snapshot.backup.source_time.get();
        let seconds = nanos.div_euclid(NANOS_PER_SECOND);
        let rest = u32::try_from(nanos.rem_euclid(NANOS_PER_SECOND)).unwrap_or(0);
        Some(Self {
            path: [&b"/"[..], &names.join(&b'/')].concat(),
            len,
            time: FileTime::new(seconds, rest),
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
    fn batch(&self, folder: &[u8]) -> Batch {
        let depth = order::components(folder).count();
        let names: Vec<&[u8]> = order::components(&self.path).take(depth + 1).collect();
        let path = [&b"/"[..], &names.join(&b'/')].concat();
        let below = path.len() > folder.len() && order::is_within(&path, folder);
        let item = below.then(|| self.item(&path)).flatten();
        Batch {
            items: item.into_iter().map(Arc::new).collect(),
            last: path,
            is_last: true,
        }
    }
}
