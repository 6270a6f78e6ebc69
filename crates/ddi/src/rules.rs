//! The rules of counting, which all indexes share: whose turn a batch is, and what an operation
//! does to a row. No I/O.

use format::pool::frame::PoolId;
use types::{BatchSequence, BlockNumber, VolumeId};

use crate::client::ClientRow;
use crate::{Bucket, ClientPosition, DdiError, Operation, Outcome, RebuildFault, Row, RowKey};

/// The most operations of a batch: those of a GiB of blocks.
pub(crate) const OPERATIONS_MAX: usize = 1 << 18;

/// A row without its key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Counted {
    pub(crate) block: BlockNumber,
    pub(crate) references: u64,
}

impl Counted {
    pub(crate) const fn row(self, key: RowKey) -> Row {
        Row {
            key,
            block: self.block,
            references: self.references,
        }
    }
}

/// Refuses a pool unless it is the one that an index was made for. `place` is that of the index.
pub(crate) fn check_pool(
    found: PoolId,
    wanted: PoolId,
    place: impl FnOnce() -> String,
) -> Result<(), DdiError> {
    if found == wanted {
        return Ok(());
    }
    Err(DdiError::OtherPool {
        place: place(),
        found,
        wanted,
    })
}

/// Refuses a batch that no index accepts.
pub(crate) fn check_operations(operations: &[Operation]) -> Result<(), DdiError> {
    if operations.len() > OPERATIONS_MAX {
        return Err(DdiError::TooManyOperations {
            given: operations.len(),
            max: OPERATIONS_MAX,
        });
    }
    match operations.iter().position(|operation| operation.count() == 0) {
        Some(position) => Err(DdiError::ZeroCount { position }),
        None => Ok(()),
    }
}

/// What to do with a batch.
#[derive(PartialEq, Eq, Debug)]
pub(crate) enum Turn {
    /// It is the next one.
    Apply,
    /// It was applied before; its outcomes are these.
    Repeat(Vec<Outcome>),
}

/// Decides by the client's row what to do with a batch.
pub(crate) fn turn(
    bucket: Bucket,
    client: VolumeId,
    row: Option<ClientRow>,
    given: BatchSequence,
    digest: [u8; 16],
) -> Result<Turn, DdiError> {
    let last = row.as_ref().map_or(0, |row| row.last.get());
    if given.get() == last + 1 {
        return Ok(Turn::Apply);
    }
    if given.get() > last {
        return Err(DdiError::SequenceAhead {
            client,
            bucket,
            last,
            given,
        });
    }
    match row {
        Some(row) if row.last == given => {
            let Some(batch) = row.batch else {
                return Err(DdiError::ForgottenOutcomes {
                    client,
                    bucket,
                    sequence: given,
                });
            };
            if batch.digest != digest {
                return Err(DdiError::DifferentBatch {
                    client,
                    bucket,
                    sequence: given,
                });
            }
            Ok(Turn::Repeat(batch.outcomes))
        }
        Some(_) | None => Err(DdiError::SequenceBehind {
            client,
            bucket,
            last,
            given,
        }),
    }
}

/// Applies one operation to the row of its content.
pub(crate) fn step(row: &mut Option<Counted>, operation: &Operation) -> Result<Outcome, DdiError> {
    match *operation {
        Operation::Increment {
            ref fingerprint,
            block,
            count,
        } => match row {
            None => {
                *row = Some(Counted {
                    block,
                    references: u64::from(count),
                });
                Ok(Outcome::Registered)
            }
            Some(counted) => {
                let sum = counted.references.checked_add(u64::from(count));
                counted.references = sum.ok_or(DdiError::TooManyReferences {
                    key: RowKey::from(fingerprint),
                })?;
                Ok(Outcome::Hit { block: counted.block })
            }
        },
        Operation::Decrement { block, count, .. } => {
            let Some(counted) = row.as_mut().filter(|counted| counted.block == block) else {
                return Ok(Outcome::Unknown);
            };
            let Some(rest) = counted.references.checked_sub(u64::from(count)) else {
                return Ok(Outcome::Unknown);
            };
            if rest == 0 {
                *row = None;
                return Ok(Outcome::Freed);
            }
            counted.references = rest;
            Ok(Outcome::Remaining(rest))
        }
    }
}

/// Checks that the rows of a rebuild are in order.
#[derive(Debug, Default)]
pub(crate) struct LoadOrder {
    last: Option<(Bucket, RowKey)>,
}

impl LoadOrder {
    pub(crate) fn check(&mut self, bucket: Bucket, row: &Row) -> Result<(), DdiError> {
        let key = row.key;
        if self.last.is_some_and(|last| (bucket, key) <= last) {
            let fault = RebuildFault::OutOfOrder { bucket, key };
            return Err(DdiError::InvalidRebuild { fault });
        }
        if row.references == 0 {
            let fault = RebuildFault::NoReference { bucket, key };
            return Err(DdiError::InvalidRebuild { fault });
        }
        self.last = Some((bucket, key));
        Ok(())
    }
}

/// Sorts the positions of a rebuild by client and bucket, and refuses two of one kind.
pub(crate) fn sorted_positions(clients: &[ClientPosition]) -> Result<Vec<ClientPosition>, DdiError> {
    let mut sorted = clients.to_vec();
    sorted.sort_by_key(|position| (position.client, position.bucket));
    for pair in sorted.windows(2) {
        let (first, second) = (pair[0], pair[1]);
        if (first.client, first.bucket) == (second.client, second.bucket) {
            let fault = RebuildFault::TwoPositions {
                bucket: first.bucket,
                client: first.client,
            };
            return Err(DdiError::InvalidRebuild { fault });
        }
    }
    Ok(sorted)
}
