//! A batch as one transaction of the database.
//!
//! Operations on equal contents are merged: the batch reads and writes each row once, in the order
//! of keys, and yet each operation has the outcome that it would have alone. So a content that is a
//! sixth of all blocks costs one row a batch. The caller holds the bucket's lock.

use std::panic::resume_unwind;

use fjall::Keyspace;
use types::{BatchSequence, VolumeId};

use crate::client::{AppliedBatch, ClientRow};
use crate::encoding;
use crate::rules::{self, Counted, Turn};
use crate::{Bucket, BucketStatistics, DdiError, Operation, Outcome, RowKey};

use super::store::Store;

/// Rows that a thread reads at least: fewer are read sooner than a thread is started.
const THREAD_ROWS_MIN: usize = 2048;

/// Where a batch is applied.
pub(super) struct Target<'a> {
    pub(super) store: &'a Store,
    pub(super) rows: &'a Keyspace,
    pub(super) bucket: Bucket,
    pub(super) client: VolumeId,
}

impl Target<'_> {
    /// Applies the batch, or answers it as the first time.
    pub(super) fn apply(
        &self,
        sequence: BatchSequence,
        operations: &[Operation],
        digest: [u8; 16],
    ) -> Result<Vec<Outcome>, DdiError> {
        let key = encoding::client_key(self.bucket, self.client);
        let row = match self.store.get(self.rows, &key)? {
            Some(bytes) => Some(self.store.decoded(encoding::decode_client(&bytes))?),
            None => None,
        };
        if let Turn::Repeat(outcomes) = rules::turn(self.bucket, self.client, row, sequence, digest)? {
            return Ok(outcomes);
        }
        self.commit(key, sequence, operations, digest)
    }

    fn commit(
        &self,
        client_key: Vec<u8>,
        sequence: BatchSequence,
        operations: &[Operation],
        digest: [u8; 16],
    ) -> Result<Vec<Outcome>, DdiError> {
        let mut sums = self.sums()?;
        let mut batch = self.store.batch(operations.len() + 2);
        let mut outcomes = vec![Outcome::Unknown; operations.len()];
        let sorted = by_content(operations);
        let contents: Vec<_> = sorted.chunk_by(|a, b| a.0 == b.0).collect();
        let rows = self.read(&contents)?;
        for (same, before) in contents.into_iter().zip(rows) {
            let key = &same[0].0;
            let mut row = before;
            for (_, position) in same {
                outcomes[*position] = rules::step(&mut row, &operations[*position])?;
            }
            if row == before {
                continue;
            }
            sums = self.add(sums, before, row)?;
            let key = encoding::row_key(self.bucket, key);
            match row {
                Some(row) => batch.insert(self.rows, key, encoding::encode_row(&row)),
                None => batch.remove(self.rows, key),
            }
        }
        let row = ClientRow {
            last: sequence,
            batch: Some(AppliedBatch { digest, outcomes }),
        };
        batch.insert(self.rows, client_key, encoding::encode_client(&row));
        batch.insert(
            self.rows,
            encoding::sums_key(self.bucket),
            encoding::encode_sums(&sums),
        );
        self.store.commit(batch)?;
        Ok(row.batch.map(|batch| batch.outcomes).unwrap_or_default())
    }

    /// Reads the row of each content, on a few threads if there are many.
    fn read(&self, contents: &[&[(RowKey, usize)]]) -> Result<Vec<Option<Counted>>, DdiError> {
        let row_of = |same: &&[(RowKey, usize)]| self.store.row(self.rows, self.bucket, &same[0].0);
        let read = |part: &[&[(RowKey, usize)]]| part.iter().map(row_of).collect::<Result<Vec<_>, _>>();
        let threads = (contents.len() / THREAD_ROWS_MIN).clamp(1, self.store.threads_max);
        let mut parts = contents.chunks(contents.len().div_ceil(threads).max(1));
        let own = parts.next().unwrap_or_default();
        std::thread::scope(|scope| {
            let others: Vec<_> = parts.map(|part| scope.spawn(move || read(part))).collect();
            let mut rows = read(own)?;
            for other in others {
                let part = other.join().unwrap_or_else(|panic| resume_unwind(panic));
                rows.append(&mut part?);
            }
            Ok(rows)
        })
    }

    fn sums(&self) -> Result<BucketStatistics, DdiError> {
        let key = encoding::sums_key(self.bucket);
        match self.store.get(self.rows, &key)? {
            Some(bytes) => self.store.decoded(encoding::decode_sums(self.bucket, &bytes)),
            None => Ok(BucketStatistics {
                bucket: self.bucket,
                rows: 0,
                references: 0,
            }),
        }
    }

    fn add(
        &self,
        sums: BucketStatistics,
        before: Option<Counted>,
        after: Option<Counted>,
    ) -> Result<BucketStatistics, DdiError> {
        let references = |row: Option<Counted>| row.map_or(0, |row| row.references);
        let sum = |all: u64, taken: u64, given: u64| all.checked_sub(taken)?.checked_add(given);
        let rows = sum(sums.rows, before.is_some().into(), after.is_some().into());
        let references = sum(sums.references, references(before), references(after));
        match (rows, references) {
            (Some(rows), Some(references)) => Ok(BucketStatistics {
                rows,
                references,
                ..sums
            }),
            _ => Err(self.store.damaged(format!(
                "bucket {} has more rows or references than its sums say",
                self.bucket
            ))),
        }
    }
}

/// The contents of operations and the operations' positions, sorted.
fn by_content(operations: &[Operation]) -> Vec<(RowKey, usize)> {
    let keyed = operations.iter().enumerate();
    let mut sorted: Vec<_> = keyed
        .map(|(position, operation)| (RowKey::from(operation.fingerprint()), position))
        .collect();
    sorted.sort_unstable();
    sorted
}
