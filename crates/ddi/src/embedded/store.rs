//! The database of an index: its keyspaces, reads and commits, and the database's errors.
//!
//! Many threads may use it. A failed commit leaves the database without further writes.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use env::{Clock, SystemClock};
use fjall::config::BlockSizePolicy;
use fjall::{Database, Keyspace, KeyspaceCreateOptions, LsmError, OwnedWriteBatch, PersistMode, Slice};
use format::FormatError;

use crate::encoding;
use crate::rules::Counted;
use crate::{Bucket, DdiError, RowKey};

/// The keyspace that says which keyspace has the rows.
pub(super) const HEAD: &str = "head";
/// In the head: the format of the folder, a u32.
pub(super) const FORMAT_KEY: &str = "format";
/// In the head: the generation of the rows, a u64.
pub(super) const GENERATION_KEY: &str = "generation";
/// In the head: the id of the pool, 16 bytes.
pub(super) const POOL_KEY: &str = "pool";
/// The format that this program writes, and the newest that it reads.
pub(super) const FORMAT: u32 = 1;

/// Changes in memory before they are written to tables, in bytes.
const MEMTABLE_BYTES: u64 = 32 << 20;
/// Bytes of a block of a table. A look-up reads one.
const TABLE_BLOCK_BYTES: u32 = 4096;
/// How often to look whether tables are written.
const FLUSH_POLL: Duration = Duration::from_millis(2);

/// Settings of an index on a local disk.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FjallOptions {
    /// Memory for blocks of tables and for their filters, in bytes. Changes that are not in tables
    /// yet need up to 160 MiB beside it.
    pub cache_bytes: u64,
    /// Threads that read the rows of a large batch, the calling one included; at least 1.
    pub threads_max: usize,
}

impl Default for FjallOptions {
    /// A cache of 64 MiB, and two threads.
    fn default() -> Self {
        Self {
            cache_bytes: 64 << 20,
            threads_max: 2,
        }
    }
}

/// The rows that are in use.
pub(super) struct Current {
    pub(super) rows: Keyspace,
    pub(super) generation: u64,
    pub(super) is_rebuilding: bool,
}

impl fmt::Debug for Current {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Current")
            .field("generation", &self.generation)
            .field("is_rebuilding", &self.is_rebuilding)
            .finish_non_exhaustive()
    }
}

/// An open database.
pub(super) struct Store {
    pub(super) db: Database,
    pub(super) head: Keyspace,
    pub(super) folder: PathBuf,
    pub(super) threads_max: usize,
}

impl fmt::Debug for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Store")
            .field("folder", &self.folder)
            .finish_non_exhaustive()
    }
}

/// The name of the keyspace of a generation.
pub(super) fn rows_name(generation: u64) -> String {
    format!("rows-{generation}")
}

pub(super) fn rows_options() -> KeyspaceCreateOptions {
    KeyspaceCreateOptions::default()
        .max_memtable_size(MEMTABLE_BYTES)
        .data_block_size_policy(BlockSizePolicy::all(TABLE_BLOCK_BYTES))
}

impl Store {
    pub(super) fn failed(&self, action: &'static str, error: fjall::Error) -> DdiError {
        failure(&self.folder, action, error)
    }

    /// An error if stored bytes are not what was written.
    pub(super) fn decoded<T>(&self, result: Result<T, FormatError>) -> Result<T, DdiError> {
        result.map_err(|error| self.damaged(error.to_string()))
    }

    pub(super) fn damaged(&self, what: String) -> DdiError {
        DdiError::Damaged {
            folder: self.folder.clone(),
            what,
        }
    }

    pub(super) fn get(&self, keyspace: &Keyspace, key: &[u8]) -> Result<Option<Slice>, DdiError> {
        keyspace.get(key).map_err(|error| self.failed("reading", error))
    }

    pub(super) fn row(
        &self,
        rows: &Keyspace,
        bucket: Bucket,
        key: &RowKey,
    ) -> Result<Option<Counted>, DdiError> {
        match self.get(rows, &encoding::row_key(bucket, key))? {
            Some(bytes) => self.decoded(encoding::decode_row(&bytes)).map(Some),
            None => Ok(None),
        }
    }

    /// A batch that is durable once it is committed.
    pub(super) fn batch(&self, capacity: usize) -> OwnedWriteBatch {
        OwnedWriteBatch::with_capacity(self.db.clone(), capacity).durability(Some(PersistMode::SyncData))
    }

    pub(super) fn commit(&self, batch: OwnedWriteBatch) -> Result<(), DdiError> {
        batch.commit().map_err(|error| self.failed("writing", error))
    }

    /// Writes a keyspace's changes to tables, and waits for it.
    pub(super) fn flush(&self, keyspace: &Keyspace) -> Result<(), DdiError> {
        let failed = |error| self.failed("writing tables", error);
        keyspace.rotate_memtable().map_err(failed)?;
        while keyspace.sealed_memtable_count() > 0 {
            // It fails if the writer of tables has failed.
            self.db.persist(PersistMode::Buffer).map_err(failed)?;
            SystemClock.sleep(FLUSH_POLL);
        }
        Ok(())
    }

    /// Bytes of journals and tables.
    pub(super) fn disk_bytes(&self) -> Result<u64, DdiError> {
        self.db
            .disk_space()
            .map_err(|error| self.failed("measuring", error))
    }
}

/// Sorts the database's errors.
pub(super) fn failure(folder: &std::path::Path, action: &'static str, error: fjall::Error) -> DdiError {
    let folder = folder.to_owned();
    let failed = |why: String| DdiError::Failed {
        action,
        folder: folder.clone(),
        why,
    };
    match error {
        fjall::Error::Locked => DdiError::InUse { folder },
        fjall::Error::Io(error) | fjall::Error::Storage(LsmError::Io(error)) => failed(error.to_string()),
        fjall::Error::Poisoned => failed(
            "an earlier write failed, so the index must be opened again; start the server anew".to_owned(),
        ),
        fjall::Error::Storage(error) => DdiError::Damaged {
            folder,
            what: error.to_string(),
        },
        fjall::Error::JournalRecovery(_)
        | fjall::Error::InvalidVersion(_)
        | fjall::Error::Decompress(_)
        | fjall::Error::InvalidTrailer
        | fjall::Error::InvalidTag(_)
        | fjall::Error::Unrecoverable => DdiError::Damaged {
            folder,
            what: error.to_string(),
        },
        other => failed(other.to_string()),
    }
}
