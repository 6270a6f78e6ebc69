//! A duplicates index in memory: the plain model of the rules.
//!
//! It applies operations one after another, without merging. It keeps every promise of
//! [`DuplicatesIndex`] except durability, which memory does not have. Many threads may call it; one
//! lock orders them.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::{Mutex, MutexGuard, PoisonError};

use format::pool::frame::PoolId;
use types::{BatchSequence, Fingerprint, VolumeId};

use crate::client::{AppliedBatch, ClientRow, operations_digest};
use crate::rules::{self, Counted, LoadOrder, Turn};
use crate::{
    Bucket, BucketStatistics, ClientPosition, DdiError, DuplicatesIndex, Operation, Outcome, Rebuild, Row,
    RowKey, Statistics,
};

/// A duplicates index in memory. Wrap it in an `Arc` to share it.
#[derive(Debug)]
pub struct MemoryIndex {
    pool: PoolId,
    shared: Mutex<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    contents: Contents,
    is_rebuilding: bool,
}

/// All that a durable index would have on disk.
#[derive(Debug, Default, Clone)]
pub(crate) struct Contents {
    buckets: BTreeMap<Bucket, BTreeMap<RowKey, Counted>>,
    clients: BTreeMap<(VolumeId, Bucket), ClientRow>,
}

impl MemoryIndex {
    /// An empty index of a pool.
    #[must_use]
    pub fn new(pool: PoolId) -> Self {
        Self {
            pool,
            shared: Mutex::default(),
        }
    }

    fn shared(&self) -> MutexGuard<'_, Shared> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A copy of everything, for a test that loses what comes after.
    #[cfg(any(test, feature = "testing"))]
    pub(crate) fn contents(&self) -> Contents {
        self.shared().contents.clone()
    }

    /// Replaces everything.
    #[cfg(any(test, feature = "testing"))]
    pub(crate) fn set_contents(&self, contents: Contents) {
        self.shared().contents = contents;
    }
}

impl Contents {
    /// Applies operations in order. After an error, the rows are as before.
    fn apply(&mut self, bucket: Bucket, operations: &[Operation]) -> Result<Vec<Outcome>, DdiError> {
        let rows = self.buckets.entry(bucket).or_default();
        let mut before = Vec::new();
        let mut outcomes = Vec::with_capacity(operations.len());
        for operation in operations {
            let key = RowKey::from(operation.fingerprint());
            let mut row = rows.get(&key).copied();
            before.push((key, row));
            match rules::step(&mut row, operation) {
                Ok(outcome) => outcomes.push(outcome),
                Err(error) => {
                    for (key, row) in before.into_iter().rev() {
                        set(rows, key, row);
                    }
                    return Err(error);
                }
            }
            set(rows, key, row);
        }
        Ok(outcomes)
    }
}

fn set(rows: &mut BTreeMap<RowKey, Counted>, key: RowKey, row: Option<Counted>) {
    match row {
        Some(row) => rows.insert(key, row),
        None => rows.remove(&key),
    };
}

impl DuplicatesIndex for MemoryIndex {
    fn apply(
        &self,
        bucket: Bucket,
        client: VolumeId,
        sequence: BatchSequence,
        operations: &[Operation],
    ) -> Result<Vec<Outcome>, DdiError> {
        rules::check_operations(operations)?;
        let digest = operations_digest(operations);
        let mut shared = self.shared();
        if shared.is_rebuilding {
            return Err(DdiError::Rebuilding);
        }
        let contents = &mut shared.contents;
        let row = contents.clients.get(&(client, bucket)).cloned();
        match rules::turn(bucket, client, row, sequence, digest)? {
            Turn::Repeat(outcomes) => Ok(outcomes),
            Turn::Apply => {
                let outcomes = contents.apply(bucket, operations)?;
                let batch = Some(AppliedBatch {
                    digest,
                    outcomes: outcomes.clone(),
                });
                let row = ClientRow {
                    last: sequence,
                    batch,
                };
                contents.clients.insert((client, bucket), row);
                Ok(outcomes)
            }
        }
    }

    fn check_pool(&self, pool: PoolId) -> Result<(), DdiError> {
        rules::check_pool(self.pool, pool, || "memory".to_owned())
    }

    fn client(&self, bucket: Bucket, client: VolumeId) -> Result<Option<BatchSequence>, DdiError> {
        let shared = self.shared();
        let row = shared.contents.clients.get(&(client, bucket));
        Ok(row.map(|row| row.last))
    }

    fn clients(&self, bucket: Bucket) -> Result<Vec<VolumeId>, DdiError> {
        let shared = self.shared();
        let all = shared.contents.clients.keys();
        Ok(all
            .filter(|(_, of)| *of == bucket)
            .map(|(client, _)| *client)
            .collect())
    }

    fn forget_client(&self, client: VolumeId) -> Result<(), DdiError> {
        let mut shared = self.shared();
        if shared.is_rebuilding {
            return Err(DdiError::Rebuilding);
        }
        shared.contents.clients.retain(|(known, _), _| *known != client);
        Ok(())
    }

    fn look_up(&self, bucket: Bucket, fingerprints: &[Fingerprint]) -> Result<Vec<Option<Row>>, DdiError> {
        let shared = self.shared();
        let rows = shared.contents.buckets.get(&bucket);
        let row_of = |fingerprint| {
            let key = RowKey::from(fingerprint);
            rows.and_then(|rows| rows.get(&key))
                .map(|counted| counted.row(key))
        };
        Ok(fingerprints.iter().map(row_of).collect())
    }

    fn scan(&self, bucket: Bucket, visit: &mut dyn FnMut(Row) -> ControlFlow<()>) -> Result<(), DdiError> {
        let rows = self
            .shared()
            .contents
            .buckets
            .get(&bucket)
            .cloned()
            .unwrap_or_default();
        for (key, counted) in rows {
            if visit(counted.row(key)).is_break() {
                break;
            }
        }
        Ok(())
    }

    fn statistics(&self) -> Result<Statistics, DdiError> {
        let shared = self.shared();
        let buckets = shared
            .contents
            .buckets
            .iter()
            .map(|(bucket, rows)| BucketStatistics {
                bucket: *bucket,
                rows: rows.len() as u64,
                references: rows.values().map(|row| row.references).sum(),
            })
            .collect();
        Ok(Statistics {
            buckets,
            disk_bytes: 0,
        })
    }

    fn rebuild(&self) -> Result<Box<dyn Rebuild + '_>, DdiError> {
        let mut shared = self.shared();
        if shared.is_rebuilding {
            return Err(DdiError::Rebuilding);
        }
        shared.is_rebuilding = true;
        Ok(Box::new(MemoryRebuild {
            index: self,
            order: LoadOrder::default(),
            contents: Contents::default(),
        }))
    }
}

#[derive(Debug)]
struct MemoryRebuild<'a> {
    index: &'a MemoryIndex,
    order: LoadOrder,
    contents: Contents,
}

impl Rebuild for MemoryRebuild<'_> {
    fn load(&mut self, bucket: Bucket, rows: &[Row]) -> Result<(), DdiError> {
        for row in rows {
            self.order.check(bucket, row)?;
            let counted = Counted {
                block: row.block,
                references: row.references,
            };
            let rows = self.contents.buckets.entry(bucket).or_default();
            rows.insert(row.key, counted);
        }
        Ok(())
    }

    fn finish(mut self: Box<Self>, clients: &[ClientPosition]) -> Result<(), DdiError> {
        for position in rules::sorted_positions(clients)? {
            let row = ClientRow {
                last: position.last,
                batch: None,
            };
            let key = (position.client, position.bucket);
            self.contents.clients.insert(key, row);
        }
        self.index.shared().contents = std::mem::take(&mut self.contents);
        Ok(())
    }
}

impl Drop for MemoryRebuild<'_> {
    fn drop(&mut self) {
        self.index.shared().is_rebuilding = false;
    }
}
