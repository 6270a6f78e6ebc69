//! A file or stream of a backup, read like a file.
//!
//! While the file is open, no prune removes its bytes, even if another process forgets the backup.
//! Reads fetch blocks, and compare each chunk with its fingerprint. Reading in order makes the
//! blocks larger.

use std::fmt;
use std::io::{self, Read, Seek, SeekFrom};

use recipe::{NodeCache, RecipeError, StreamBytes, TreeRoot};
use types::ByteRange;

use crate::dump::find_stream;
use crate::error::{Error, Result};
use crate::monitor::Monitor;
use crate::reading::Reading;
use crate::snapshots::Snapshot;
use crate::store::Store;

/// The first block after a seek.
const BLOCK_BYTES_MIN: u64 = 64 << 10;
/// The largest block.
const BLOCK_BYTES_MAX: u64 = 1 << 20;

/// One file of a backup, or its stream: [`Store::open_file`]. Holds one block in memory, 1 MiB at
/// most.
///
/// ```
/// use std::io::{Read, Seek, SeekFrom};
/// use std::sync::Arc;
/// # use onefold::*;
/// # let env = Env::system(Arc::new(MemoryStorage::default()));
/// # Store::init(&env, &Credential::None, &InitOptions::default(), None)?;
/// # let store = Store::open(&env, &Credential::None, &OpenOptions::default())?;
/// # let (options, monitor) = (BackupOptions::default(), Monitor::default());
/// # let (mut source, how) = (ReaderSource(&b"Dear reader"[..]), StreamOptions::default());
/// # store.backup_stream(&options, "letter".as_ref(), &how, &mut source, &monitor)?;
/// let snapshot = store.find("latest", &Filter::default())?;
/// let mut letter = store.open_file(&snapshot, None, &monitor)?;
/// letter.seek(SeekFrom::Start(5))?;
/// let mut word = String::new();
/// letter.read_to_string(&mut word)?;
/// assert_eq!(word, "reader");
/// letter.close(&monitor);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// An error of `read` is an [`Error`] within an [`io::Error`]. The position stays, and the next
/// call tries again.
pub struct BackupFile<'a> {
    reading: Reading<'a>,
    nodes: NodeCache,
    root: TreeRoot,
    /// Where its content is in the stream.
    range: ByteRange,
    path: Vec<u8>,
    position: u64,
    block: Vec<u8>,
    block_at: u64,
    /// Length of the block that was read last.
    block_bytes: u64,
}

impl Store {
    /// Opens one file of a backup of a tree, or the stream of a backup of a stream or image. A
    /// backup of a stream needs no path. No prune removes the backup's data until the value is
    /// closed or dropped.
    ///
    /// # Errors
    /// `NotFound` if there is no such file, or if no path was given and the backup is of a tree;
    /// `Forgotten`; of the storage.
    pub fn open_file(
        &self,
        snapshot: &Snapshot,
        path: Option<&[u8]>,
        monitor: &Monitor,
    ) -> Result<BackupFile<'_>> {
        let (reading, snapshot) = Reading::of(self, snapshot)?;
        let found = reading.nodes().and_then(|nodes| {
            let stream = find_stream(&nodes, &snapshot, path, monitor)?;
            Ok((nodes, stream))
        });
        let (nodes, (root, range, path)) = found.map_err(|error| reading.explain(error))?;
        Ok(BackupFile {
            reading,
            nodes,
            root,
            range,
            path,
            position: 0,
            block: Vec::new(),
            block_at: 0,
            block_bytes: 0,
        })
    }
}

impl BackupFile<'_> {
    /// Its length in bytes.
    #[must_use]
    pub const fn len(&self) -> u64 {
        self.range.len
    }

    /// Whether it has no bytes.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.range.len == 0
    }

    /// Its path in the backup. For a hard link: the path of its first name. For a stream: its name.
    #[must_use]
    pub fn path(&self) -> &[u8] {
        &self.path
    }

    /// Closes it, and passes warnings to the monitor. Dropping it closes it without warnings.
    pub fn close(self, monitor: &Monitor) {
        self.reading.end(monitor);
    }

    /// The bytes of the block from the position on.
    fn rest(&self) -> &[u8] {
        let skip = self.position.checked_sub(self.block_at);
        let skip = skip.and_then(|skip| usize::try_from(skip).ok());
        skip.and_then(|skip| self.block.get(skip..)).unwrap_or_default()
    }

    /// Reads the block at the position, which is within the file.
    fn load(&mut self) -> std::result::Result<(), RecipeError> {
        let is_next = self.position == self.block_at + self.block.len() as u64;
        self.block_bytes = if is_next { self.block_bytes * 2 } else { 0 };
        self.block_bytes = self.block_bytes.clamp(BLOCK_BYTES_MIN, BLOCK_BYTES_MAX);
        self.block.clear();
        self.block_at = self.position;
        let len = self.block_bytes.min(self.range.len - self.position);
        let offset = self.range.offset + self.position;
        let mut stream = StreamBytes::new(&self.nodes, &self.root, offset, len)?;
        loop {
            let bytes = stream.next_bytes()?;
            if bytes.is_empty() {
                return Ok(());
            }
            self.block.extend_from_slice(bytes);
        }
    }
}

impl Read for BackupFile<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if buffer.is_empty() || self.position >= self.range.len {
            return Ok(0);
        }
        if self.rest().is_empty()
            && let Err(error) = self.load()
        {
            // An incomplete block is discarded.
            self.block.clear();
            return Err(io::Error::other(self.reading.explain(Error::from(error))));
        }
        let rest = self.rest();
        let len = rest.len().min(buffer.len());
        buffer[..len].copy_from_slice(&rest[..len]);
        self.position += len as u64;
        Ok(len)
    }
}

impl Seek for BackupFile<'_> {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let position = match to {
            SeekFrom::Start(position) => Some(position),
            SeekFrom::End(by) => self.range.len.checked_add_signed(by),
            SeekFrom::Current(by) => self.position.checked_add_signed(by),
        };
        let invalid = || io::Error::new(io::ErrorKind::InvalidInput, "a seek to before the first byte");
        self.position = position.ok_or_else(invalid)?;
        Ok(self.position)
    }
}

impl fmt::Debug for BackupFile<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BackupFile")
            .field("path", &String::from_utf8_lossy(&self.path))
            .field("len", &self.range.len)
            .field("position", &self.position)
            .finish_non_exhaustive()
    }
}
