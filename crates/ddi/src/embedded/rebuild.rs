//! A rebuild: new rows in a keyspace of their own, which then replaces the old one.
//!
//! The head names the generation in use. `finish` writes all new rows to tables, then the new
//! generation to the head, then it deletes the old rows. If the process ends in between, `open`
//! deletes the keyspace that the head does not name.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{PoisonError, RwLock};

use fjall::{Keyspace, OwnedWriteBatch};

use crate::client::ClientRow;
use crate::encoding;
use crate::rules::{self, Counted, LoadOrder};
use crate::{Bucket, BucketStatistics, ClientPosition, DdiError, Rebuild, Row};

use super::store::{Current, GENERATION_KEY, Store, rows_name, rows_options};

/// Rows of a record of the journal.
const RECORD_ROWS: usize = 4096;

pub(super) struct FjallRebuild<'a> {
    store: &'a Store,
    current: &'a RwLock<Current>,
    rows: Keyspace,
    generation: u64,
    order: LoadOrder,
    sums: BTreeMap<Bucket, BucketStatistics>,
    /// Whether the head may name the new rows.
    is_switching: bool,
}

impl fmt::Debug for FjallRebuild<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FjallRebuild")
            .field("generation", &self.generation)
            .field("sums", &self.sums)
            .finish_non_exhaustive()
    }
}

impl<'a> FjallRebuild<'a> {
    pub(super) fn new(
        store: &'a Store,
        current: &'a RwLock<Current>,
        generation: u64,
    ) -> Result<Self, DdiError> {
        let rows = store
            .db
            .keyspace(&rows_name(generation), rows_options)
            .map_err(|error| store.failed("beginning a rebuild", error))?;
        Ok(Self {
            store,
            current,
            rows,
            generation,
            order: LoadOrder::default(),
            sums: BTreeMap::new(),
            is_switching: false,
        })
    }

    /// A batch that need not be durable at once: the rows are in tables before they are used.
    fn batch(&self) -> OwnedWriteBatch {
        OwnedWriteBatch::with_capacity(self.store.db.clone(), RECORD_ROWS)
    }

    /// Deletes rows that are not in use. If that fails, the next `open` does it.
    fn delete(&self, rows: Keyspace) {
        if let Err(error) = self.store.db.delete_keyspace(rows) {
            tracing::warn!(%error, folder = %self.store.folder.display(), "rows out of use were not deleted");
        }
    }

    fn count(&mut self, bucket: Bucket, row: &Row) -> Result<(), DdiError> {
        let sums = self.sums.entry(bucket).or_insert(BucketStatistics {
            bucket,
            rows: 0,
            references: 0,
        });
        sums.rows += 1;
        let sum = sums.references.checked_add(row.references);
        sums.references = sum.ok_or(DdiError::TooManyReferences { key: row.key })?;
        Ok(())
    }
}

impl Rebuild for FjallRebuild<'_> {
    fn load(&mut self, bucket: Bucket, rows: &[Row]) -> Result<(), DdiError> {
        for part in rows.chunks(RECORD_ROWS) {
            let mut batch = self.batch();
            for row in part {
                self.order.check(bucket, row)?;
                self.count(bucket, row)?;
                let counted = Counted {
                    block: row.block,
                    references: row.references,
                };
                let key = encoding::row_key(bucket, &row.key);
                batch.insert(&self.rows, key, encoding::encode_row(&counted));
            }
            self.store.commit(batch)?;
        }
        Ok(())
    }

    fn finish(mut self: Box<Self>, clients: &[ClientPosition]) -> Result<(), DdiError> {
        let mut batch = self.batch();
        for position in rules::sorted_positions(clients)? {
            let row = ClientRow {
                last: position.last,
                batch: None,
            };
            let key = encoding::client_key(position.bucket, position.client);
            batch.insert(&self.rows, key, encoding::encode_client(&row));
        }
        for (bucket, sums) in &self.sums {
            batch.insert(
                &self.rows,
                encoding::sums_key(*bucket),
                encoding::encode_sums(sums),
            );
        }
        self.store.commit(batch)?;
        self.store.flush(&self.rows)?;
        let mut current = self.current.write().unwrap_or_else(PoisonError::into_inner);
        self.is_switching = true;
        let mut batch = self.store.batch(1);
        batch.insert(&self.store.head, GENERATION_KEY, self.generation.to_le_bytes());
        self.store.commit(batch)?;
        // In a table, the head survives a damaged journal.
        self.store.flush(&self.store.head)?;
        let old = std::mem::replace(&mut current.rows, self.rows.clone());
        current.generation = self.generation;
        drop(current);
        self.delete(old);
        Ok(())
    }
}

impl Drop for FjallRebuild<'_> {
    fn drop(&mut self) {
        let mut current = self.current.write().unwrap_or_else(PoisonError::into_inner);
        current.is_rebuilding = false;
        if !self.is_switching {
            self.delete(self.rows.clone());
        }
    }
}
