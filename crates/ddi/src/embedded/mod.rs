//! The duplicates index on a local disk, in a `fjall` database (D3).
//!
//! A process has the folder to itself, by the database's lock. Many threads may call the index.
//! Batches of one bucket exclude each other while they read and write; batches of others run beside
//! them, except for the journal, which has one writer.
//!
//! # What the index relies on
//!
//! - *Atomic:* a batch is one record of the journal, with a digest. Recovery applies it as a whole
//!   or not at all.
//! - *Durable:* the batch is committed with [`fjall::PersistMode::SyncData`]: the database calls
//!   `fdatasync` on the journal before it shows the batch to anybody, and before `apply` returns. A
//!   new journal's entry in its folder is synchronised when the journal is made.
//! - *In order:* rows, client rows and sums are in one keyspace. So whatever end of the journal is
//!   lost, a client's row never says less than the rows, and never more.
//! - *Failures:* after a failed write the database refuses further ones until it is opened again.
//!   Whether the failed batch took effect is then seen by its client's row.
//!
//! # What the database does not do, and what this module does
//!
//! Recovery takes a damaged record for the torn end of a journal, and drops the rest of that
//! journal without an error (fjall 3.1, fjall-rs/fjall#311). In the last journal, the lost batches
//! are the newest. Then a client's row is behind the client's own log, and its next batch is
//! refused with [`DdiError::SequenceAhead`]. In an older journal, newer batches would survive and
//! hide the loss. So `open` notes how far each older journal has content, and refuses the index if
//! recovery cut one shorter. `sums` is the second net: a check compares them with a scan.
//!
//! Bytes that a failed `fdatasync` left in the page cache look durable to the next process. So
//! `open` writes recovered batches to tables before it answers.
//!
//! A test kills processes between and in batches. Nothing here can cut the power under `fjall`, so
//! durability against power cuts is by reading its source, not by a test.

mod batch;
mod folder;
mod journals;
mod rebuild;
mod store;
#[cfg(test)]
mod tests;

use std::ops::ControlFlow;
use std::path::Path;
use std::sync::{Mutex, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use fjall::Readable;
use format::pool::frame::PoolId;
use types::{BatchSequence, Fingerprint, VolumeId};

use crate::client::operations_digest;
use crate::encoding;
use crate::rules;
use crate::{Bucket, DdiError, DuplicatesIndex, Operation, Outcome, Rebuild, Row, RowKey, Statistics};

use rebuild::FjallRebuild;
use store::{Current, Store};

pub use store::FjallOptions;

/// Locks of buckets. More buckets than these share them.
const BUCKET_LOCKS: usize = 64;

/// A duplicates index in a folder of a local disk.
///
/// Buckets may be any; one is enough.
#[derive(Debug)]
pub struct FjallIndex {
    store: Store,
    /// The pool that the index was made for.
    pool: PoolId,
    current: RwLock<Current>,
    buckets: [Mutex<()>; BUCKET_LOCKS],
}

impl FjallIndex {
    /// Makes an empty index of a pool in a new folder. Its parent must exist.
    ///
    /// The folder appears when it is complete, so an interrupted call leaves none. What such a call
    /// left beside it, in a folder with the suffix `.creating`, is removed.
    ///
    /// # Errors
    /// [`DdiError::Exists`] if there is a folder; [`DdiError::Failed`] if the system refuses.
    pub fn create(folder: &Path, pool: PoolId, options: FjallOptions) -> Result<Self, DdiError> {
        folder::create(folder, pool)?;
        Self::open(folder, options)
    }

    /// Opens an index.
    ///
    /// # Errors
    /// [`DdiError::Missing`], [`DdiError::NotAnIndex`], [`DdiError::NewerFormat`],
    /// [`DdiError::InUse`] and [`DdiError::Damaged`] as they say; [`DdiError::Failed`] if the
    /// system refuses.
    pub fn open(folder: &Path, options: FjallOptions) -> Result<Self, DdiError> {
        let (store, pool, current) = folder::open(folder, options)?;
        Ok(Self {
            store,
            pool,
            current: RwLock::new(current),
            buckets: std::array::from_fn(|_| Mutex::default()),
        })
    }

    fn current(&self) -> RwLockReadGuard<'_, Current> {
        self.current.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn exclusive(&self) -> RwLockWriteGuard<'_, Current> {
        self.current.write().unwrap_or_else(PoisonError::into_inner)
    }
}

impl DuplicatesIndex for FjallIndex {
    fn apply(
        &self,
        bucket: Bucket,
        client: VolumeId,
        sequence: BatchSequence,
        operations: &[Operation],
    ) -> Result<Vec<Outcome>, DdiError> {
        rules::check_operations(operations)?;
        let digest = operations_digest(operations);
        let current = self.current();
        if current.is_rebuilding {
            return Err(DdiError::Rebuilding);
        }
        let lock = &self.buckets[usize::from(bucket.get()) % BUCKET_LOCKS];
        let _exclusive = lock.lock().unwrap_or_else(PoisonError::into_inner);
        let to = batch::Target {
            store: &self.store,
            rows: &current.rows,
            bucket,
            client,
        };
        to.apply(sequence, operations, digest)
    }

    fn check_pool(&self, pool: PoolId) -> Result<(), DdiError> {
        rules::check_pool(self.pool, pool, || self.store.folder.display().to_string())
    }

    fn client(&self, bucket: Bucket, client: VolumeId) -> Result<Option<BatchSequence>, DdiError> {
        let current = self.current();
        let key = encoding::client_key(bucket, client);
        let bytes = self.store.get(&current.rows, &key)?;
        bytes
            .map(|bytes| self.store.decoded(encoding::decode_last_sequence(&bytes)))
            .transpose()
    }

    fn clients(&self, bucket: Bucket) -> Result<Vec<VolumeId>, DdiError> {
        let current = self.current();
        let mut clients = Vec::new();
        for entry in current.rows.prefix(encoding::clients_prefix()) {
            let key = entry.key().map_err(|error| self.store.failed("reading", error))?;
            let (client, of) = self.store.decoded(encoding::read_client_key(&key))?;
            if of == bucket {
                clients.push(client);
            }
        }
        Ok(clients)
    }

    fn forget_client(&self, client: VolumeId) -> Result<(), DdiError> {
        let current = self.exclusive();
        if current.is_rebuilding {
            return Err(DdiError::Rebuilding);
        }
        let mut batch = self.store.batch(0);
        for entry in current.rows.prefix(encoding::client_prefix(client)) {
            let key = entry.key().map_err(|error| self.store.failed("reading", error))?;
            batch.remove(&current.rows, key);
        }
        self.store.commit(batch)
    }

    fn look_up(&self, bucket: Bucket, fingerprints: &[Fingerprint]) -> Result<Vec<Option<Row>>, DdiError> {
        let current = self.current();
        let row_of = |fingerprint| {
            let key = RowKey::from(fingerprint);
            let counted = self.store.row(&current.rows, bucket, &key)?;
            Ok(counted.map(|counted| counted.row(key)))
        };
        fingerprints.iter().map(row_of).collect()
    }

    fn scan(&self, bucket: Bucket, visit: &mut dyn FnMut(Row) -> ControlFlow<()>) -> Result<(), DdiError> {
        // The keyspace's own iterators would show batches that are applied meanwhile.
        let (rows, snapshot) = {
            let current = self.current();
            (current.rows.clone(), self.store.db.snapshot())
        };
        for entry in snapshot.prefix(&rows, encoding::bucket_prefix(bucket)) {
            let (key, value) = entry
                .into_inner()
                .map_err(|error| self.store.failed("reading", error))?;
            let key = self.store.decoded(encoding::read_row_key(&key))?;
            let counted = self.store.decoded(encoding::decode_row(&value))?;
            if visit(counted.row(key)).is_break() {
                break;
            }
        }
        Ok(())
    }

    fn statistics(&self) -> Result<Statistics, DdiError> {
        let current = self.current();
        let snapshot = self.store.db.snapshot();
        let mut buckets = Vec::new();
        for entry in snapshot.prefix(&current.rows, encoding::sums_prefix()) {
            let (key, value) = entry
                .into_inner()
                .map_err(|error| self.store.failed("reading", error))?;
            let bucket = self.store.decoded(encoding::read_sums_key(&key))?;
            buckets.push(self.store.decoded(encoding::decode_sums(bucket, &value))?);
        }
        let disk_bytes = self.store.disk_bytes()?;
        Ok(Statistics { buckets, disk_bytes })
    }

    fn rebuild(&self) -> Result<Box<dyn Rebuild + '_>, DdiError> {
        let mut current = self.exclusive();
        if current.is_rebuilding {
            return Err(DdiError::Rebuilding);
        }
        let rebuild = FjallRebuild::new(&self.store, &self.current, current.generation + 1)?;
        current.is_rebuilding = true;
        Ok(Box::new(rebuild))
    }
}
