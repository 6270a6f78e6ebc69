//! Listings of the last backups of this machine, kept here, so that the next backup of a series
//! does not read one over the network.
//!
//! | object | content |
//! |---|---|
//! | `listings/<series>/<name>/<number>` | a piece of a listing, one zstd frame with its checksum |
//! | `listings/<series>/<name>/end` | JSON: of which stream it is, and how many pieces it has |
//!
//! `<series>` is a hash of the server, the namespace and the series. A listing counts once its end
//! is there, so an interrupted backup leaves no half of one. If a listing is of another backup, or
//! cannot be read, the client reads it over the network: nothing depends on these objects.

use std::collections::VecDeque;
use std::io::{self, Read};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use env::{Access, Clock, LocalStorage, Storage, StorageError};
use format::manifest::SeriesName;
use format::wire::{Writer, digest};
use recipe::TreeRoot;
use serde::{Deserialize, Serialize};
use types::ObjectName;
use zstd::bulk::{Compressor, Decompressor};
use zstd::zstd_safe::CParameter;

use crate::error::ClientError;

/// The target of the log.
const TARGET: &str = "onefold::client";

/// Bytes of a piece before compression.
const PIECE_BYTES: usize = 1 << 20;
/// zstd's level: a listing is written once for each backup.
const LEVEL: i32 = 1;

/// A folder with listings. For any number of threads and processes.
#[derive(Clone)]
pub struct Listings {
    storage: Arc<dyn Storage>,
    /// Of the process, for the names of listings.
    clock: Arc<dyn Clock>,
}

/// The end of a kept listing.
#[derive(Debug, Serialize, Deserialize)]
struct End {
    fingerprint: String,
    len: u64,
    pieces: usize,
}

impl Listings {
    /// The listings in a folder that only this user may read. Makes the folder if needed.
    ///
    /// # Errors
    /// `Cache`, if there can be no such folder.
    pub fn of(folder: &Path, clock: &Arc<dyn Clock>) -> Result<Self, ClientError> {
        let storage = LocalStorage::create_for(folder, Access::Owner)
            .map_err(|error| ClientError::Cache(error.to_string()))?;
        Ok(Self {
            storage: Arc::new(storage),
            clock: Arc::clone(clock),
        })
    }

    /// The listings of a series of a repository. A new one can be written.
    pub(crate) fn series(&self, repository: &str, series: &SeriesName) -> SeriesListings {
        let mut key = Vec::new();
        let mut w = Writer::new(&mut key);
        w.text(repository);
        w.bytes(&series.host);
        w.list(&series.paths, |w, path| w.bytes(path));
        SeriesListings {
            storage: Arc::clone(&self.storage),
            folder: format!("listings/{:032x}", digest(&key)),
            name: format!("{:x}-{}", self.clock.wall().get(), std::process::id()),
            written: Mutex::default(),
        }
    }
}

impl std::fmt::Debug for Listings {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Listings").finish_non_exhaustive()
    }
}

/// The listings of one series: the kept one, and the one that is being written.
pub(crate) struct SeriesListings {
    storage: Arc<dyn Storage>,
    folder: String,
    name: String,
    written: Mutex<Written>,
}

#[derive(Default)]
struct Written {
    open: Vec<u8>,
    pieces: usize,
    /// The folder took no more. The backup goes on without.
    has_failed: bool,
}

fn object(name: String) -> io::Result<ObjectName> {
    ObjectName::new(name).map_err(io::Error::other)
}

impl SeriesListings {
    fn written(&self) -> MutexGuard<'_, Written> {
        self.written.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The kept listing, if it is this stream and is whole.
    pub(crate) fn find(&self, root: &TreeRoot) -> Option<KeptListing> {
        let listed = self.storage.list(&self.folder).ok()?;
        let ends = listed.iter().filter(|meta| meta.name.as_str().ends_with("/end"));
        for meta in ends {
            let end: Option<End> = self
                .storage
                .get(&meta.name)
                .ok()
                .and_then(|text| serde_json::from_slice(&text).ok());
            let Some(end) =
                end.filter(|end| end.fingerprint == root.fingerprint.to_string() && end.len == root.len)
            else {
                continue;
            };
            let stem = meta.name.as_str().strip_suffix("/end")?.to_owned();
            let kept = || KeptListing {
                storage: Arc::clone(&self.storage),
                pieces: (0..end.pieces).map(|number| format!("{stem}/{number}")).collect(),
                open: io::Cursor::default(),
            };
            // A fault in the middle would make every later file a new one.
            let len = io::copy(&mut kept(), &mut io::sink());
            if len.is_ok_and(|len| len == end.len) {
                return Some(kept());
            }
        }
        None
    }

    /// Writes the next bytes of the new listing.
    pub(crate) fn push(&self, bytes: &[u8]) {
        let mut written = self.written();
        if written.has_failed {
            return;
        }
        written.open.extend_from_slice(bytes);
        if written.open.len() >= PIECE_BYTES {
            self.close(&mut written);
        }
    }

    fn close(&self, written: &mut Written) {
        let name = format!("{}/{}/{}", self.folder, self.name, written.pieces);
        if let Err(error) = self.put(name, &written.open) {
            tracing::info!(target: TARGET, %error, "the listing is not kept here");
            written.has_failed = true;
        }
        written.open.clear();
        written.pieces += 1;
    }

    fn put(&self, name: String, plain: &[u8]) -> io::Result<()> {
        let mut compressor = Compressor::new(LEVEL)?;
        compressor.set_parameter(CParameter::ChecksumFlag(true))?;
        let packed = compressor.compress(plain)?;
        self.storage
            .put(&object(name)?, &[&packed])
            .map_err(io::Error::other)
    }

    /// Keeps the new listing, which is this stream, in place of the earlier ones.
    pub(crate) fn finish(&self, root: &TreeRoot) {
        let mut written = self.written();
        if !written.open.is_empty() {
            self.close(&mut written);
        }
        if written.has_failed {
            return;
        }
        let end = End {
            fingerprint: root.fingerprint.to_string(),
            len: root.len,
            pieces: written.pieces,
        };
        if let Err(error) = self.put_end(&end).and_then(|()| self.remove_others()) {
            tracing::info!(target: TARGET, %error, "the listing is not kept here");
        }
    }

    fn put_end(&self, end: &End) -> io::Result<()> {
        let text = serde_json::to_vec(end)?;
        let name = format!("{}/{}/end", self.folder, self.name);
        self.storage
            .put(&object(name)?, &[&text])
            .map_err(io::Error::other)
    }

    fn remove_others(&self) -> io::Result<()> {
        let own = format!("{}/{}/", self.folder, self.name);
        let mut others = self.storage.list(&self.folder).map_err(io::Error::other)?;
        others.retain(|meta| !meta.name.as_str().starts_with(&own));
        // The ends first: a listing without pieces must not count.
        others.sort_by_key(|meta| !meta.name.as_str().ends_with("/end"));
        for meta in others {
            match self.storage.delete(&meta.name) {
                Ok(()) | Err(StorageError::NotFound { .. }) => {}
                Err(error) => return Err(io::Error::other(error)),
            }
        }
        Ok(())
    }
}

impl std::fmt::Debug for SeriesListings {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SeriesListings")
            .field("folder", &self.folder)
            .finish_non_exhaustive()
    }
}

/// Reads a kept listing.
pub(crate) struct KeptListing {
    storage: Arc<dyn Storage>,
    pieces: VecDeque<String>,
    open: io::Cursor<Vec<u8>>,
}

impl KeptListing {
    fn advance(&mut self) -> io::Result<bool> {
        let Some(name) = self.pieces.pop_front() else {
            return Ok(false);
        };
        let name = object(name)?;
        let packed = self.storage.get(&name).map_err(io::Error::other)?;
        // An entry may make a piece a little longer.
        let plain = Decompressor::new()?.decompress(&packed, 64 * PIECE_BYTES)?;
        self.open = io::Cursor::new(plain);
        Ok(true)
    }
}

impl Read for KeptListing {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        loop {
            let read = self.open.read(into)?;
            if read > 0 || into.is_empty() || !self.advance()? {
                return Ok(read);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use env::{ManualClock, MemoryStorage};
    use types::{ChunkLocation, ContainerId, Fingerprint, Level};

    use super::*;

    fn root(fingerprint: u8, len: usize) -> TreeRoot {
        TreeRoot {
            location: ChunkLocation {
                container: ContainerId::from_u64(0).unwrap(),
                slot: types::Slot::new(0).unwrap(),
            },
            level: Level::new(1).unwrap(),
            fingerprint: Fingerprint::from_bytes([fingerprint; 32]),
            len: len as u64,
        }
    }

    fn bytes(seed: u32) -> Vec<u8> {
        (0..3_000_000_u32)
            .map(|at| at.wrapping_mul(seed).to_le_bytes()[1])
            .collect()
    }

    fn read(listings: &SeriesListings, root: &TreeRoot) -> Option<Vec<u8>> {
        let mut got = Vec::new();
        listings.find(root)?.read_to_end(&mut got).unwrap();
        Some(got)
    }

    fn keep(storage: &Arc<MemoryStorage>, name: &str, bytes: &[u8], root: &TreeRoot) -> SeriesListings {
        let listings = SeriesListings {
            storage: Arc::clone(storage) as Arc<dyn Storage>,
            folder: "listings/a".to_owned(),
            name: name.to_owned(),
            written: Mutex::default(),
        };
        bytes.chunks(70_000).for_each(|part| listings.push(part));
        assert!(read(&listings, root).is_none(), "it is not finished");
        listings.finish(root);
        listings
    }

    #[test]
    fn the_last_finished_listing_is_kept() {
        let storage = Arc::new(MemoryStorage::default());
        let (one, two) = (bytes(3), bytes(5));
        let listings = keep(&storage, "1", &one, &root(1, one.len()));
        assert_eq!(read(&listings, &root(1, one.len())), Some(one.clone()));
        assert_eq!(read(&listings, &root(2, one.len())), None, "another stream");
        assert_eq!(read(&listings, &root(1, 7)), None, "another length");
        let listings = keep(&storage, "2", &two, &root(2, two.len()));
        assert_eq!(read(&listings, &root(2, two.len())), Some(two.clone()));
        assert_eq!(read(&listings, &root(1, one.len())), None);
        assert_eq!(
            storage.list("listings").unwrap().len(),
            4,
            "three pieces, and the end"
        );
    }

    #[test]
    fn each_series_has_listings_of_its_own() {
        let folder = tempfile::tempdir().unwrap();
        let clock: Arc<dyn Clock> = Arc::new(ManualClock::new(types::UnixNanos::new(9)));
        let listings = Listings::of(folder.path(), &clock).unwrap();
        let name = |host: &str, path: &str| SeriesName {
            host: host.into(),
            paths: vec![path.into()],
        };
        let one = listings.series("onefold://a/b", &name("h", "/x"));
        one.push(b"listing");
        one.finish(&root(1, 7));
        let again = |repository, name| read(&listings.series(repository, &name), &root(1, 7));
        assert_eq!(again("onefold://a/b", name("h", "/x")), Some(b"listing".to_vec()));
        assert_eq!(again("onefold://a/c", name("h", "/x")), None);
        assert_eq!(again("onefold://a/b", name("i", "/x")), None);
        assert_eq!(again("onefold://a/b", name("h", "/y")), None);
    }

    #[test]
    fn a_damaged_listing_is_none() {
        let storage = Arc::new(MemoryStorage::default());
        let one = bytes(3);
        let listings = keep(&storage, "1", &one, &root(1, one.len()));
        let piece = ObjectName::new("listings/a/1/1").unwrap();
        let mut packed = storage.get(&piece).unwrap();
        let middle = packed.len() / 2;
        packed[middle] ^= 1;
        storage.delete(&piece).unwrap();
        assert_eq!(read(&listings, &root(1, one.len())), None);
        storage.put(&piece, &[&packed]).unwrap();
        assert_eq!(read(&listings, &root(1, one.len())), None);
    }
}
