//! The suite that every duplicates index must pass.
//!
//! [`check`] runs all of [`CASES`], each on an index of its own. [`check_steps`] runs a sequence of
//! steps beside a plain map; a property test brings its own steps, and [`random_steps`] makes some
//! from a seed.
//!
//! If the index breaks a promise of [`DuplicatesIndex`], these functions panic, like a test's
//! assertion: they are for tests only. They do not check durability, because nothing here can end
//! the process.

mod counting;
mod model;
mod rebuilding;
mod rows;
mod sequences;
#[cfg(test)]
mod tests;

use format::pool::frame::PoolId;
use types::{BatchSequence, BlockNumber, Fingerprint, VolumeId};

use crate::{Bucket, DdiError, DuplicatesIndex, Operation, Outcome, Row, RowKey};

pub use model::{Step, StepOperation, check_steps, random_steps};

/// The pool of the suite's indexes.
pub const POOL: PoolId = *b"a pool of a test";

/// Makes indexes for the suite.
pub trait Maker {
    /// An empty index of the pool [`POOL`].
    fn create(&self) -> Box<dyn DuplicatesIndex>;

    /// Closes the index that was created last, and opens it again. An index that cannot be closed
    /// returns as it is.
    fn reopen(&self, index: Box<dyn DuplicatesIndex>) -> Box<dyn DuplicatesIndex>;
}

/// A case: its name, and the function that runs it.
pub type Case = (&'static str, fn(&dyn Maker));

/// All cases.
pub const CASES: &[Case] = &[
    ("register-hit", counting::a_new_content_is_registered_and_then_hit),
    ("decrement", counting::the_last_reference_frees_the_block),
    ("unknown", counting::what_was_not_counted_is_not_taken),
    ("order", counting::operations_of_a_batch_apply_in_order),
    ("hot", counting::one_content_may_be_the_whole_batch),
    ("large", counting::a_batch_may_be_large),
    ("refusals", counting::a_refused_batch_changes_nothing),
    ("overflow", counting::references_do_not_wrap),
    ("retry", sequences::a_repeated_batch_has_the_same_outcomes),
    (
        "retry-reopened",
        sequences::a_batch_may_be_repeated_after_reopening,
    ),
    ("wrong-turn", sequences::a_batch_out_of_turn_is_refused),
    ("two-clients", sequences::clients_share_rows_but_not_sequences),
    ("two-buckets", sequences::buckets_share_nothing),
    ("forget", sequences::a_forgotten_client_begins_again),
    ("empty", sequences::an_empty_batch_takes_its_turn),
    ("scan", rows::a_scan_is_in_order_and_may_end_early),
    ("scan-moment", rows::a_scan_is_of_one_moment),
    ("look-up", rows::a_look_up_changes_nothing),
    ("sums", rows::the_sums_are_those_of_the_rows),
    ("threads", rows::clients_count_at_the_same_time),
    ("pool", rebuilding::an_index_is_that_of_one_pool),
    ("rebuild", rebuilding::a_rebuild_replaces_everything),
    ("rebuild-dropped", rebuilding::a_dropped_rebuild_changes_nothing),
    ("rebuild-alone", rebuilding::a_rebuild_excludes_batches),
    ("rebuild-invalid", rebuilding::invalid_rows_are_refused),
];

/// Runs every case, and a random sequence of steps beside a map.
///
/// # Panics
/// If an index differs from the contract of [`DuplicatesIndex`].
pub fn check(maker: &dyn Maker) {
    for (_, case) in CASES {
        case(maker);
    }
    check_steps(maker, &random_steps(1, 400));
}

/// A fingerprint that depends on all bits of the number, in each of its bytes.
fn content(number: u64) -> Fingerprint {
    let mut bytes = [0; 32];
    for (part, word) in bytes.chunks_exact_mut(8).zip(1u64..) {
        part.copy_from_slice(&mixed(number.wrapping_mul(4).wrapping_add(word)).to_be_bytes());
    }
    Fingerprint::from_bytes(bytes)
}

/// A one-to-one function of 64 bits without visible order (the finisher of `MurmurHash3`).
fn mixed(mut word: u64) -> u64 {
    word ^= word >> 33;
    word = word.wrapping_mul(0xff51_afd7_ed55_8ccd);
    word ^= word >> 33;
    word = word.wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    word ^ (word >> 33)
}

fn block(number: u64) -> BlockNumber {
    BlockNumber::new(number).expect("the suite's blocks are blocks")
}

fn volume(number: u32) -> VolumeId {
    VolumeId::new(number).expect("the suite's volumes are volumes")
}

fn sequence(number: u64) -> BatchSequence {
    BatchSequence::new(number).expect("the suite's batches have numbers")
}

fn bucket(number: u16) -> Bucket {
    Bucket::new(number).expect("the suite's buckets are buckets")
}

fn increment(number: u64, at: u64, count: u32) -> Operation {
    Operation::Increment {
        fingerprint: content(number),
        block: block(at),
        count,
    }
}

fn decrement(number: u64, at: u64, count: u32) -> Operation {
    Operation::Decrement {
        fingerprint: content(number),
        block: block(at),
        count,
    }
}

fn row(number: u64, at: u64, references: u64) -> Row {
    Row {
        key: RowKey::from(&content(number)),
        block: block(at),
        references,
    }
}

/// Applies a batch of volume 1 in the first bucket.
#[track_caller]
fn apply(index: &dyn DuplicatesIndex, number: u64, operations: &[Operation]) -> Vec<Outcome> {
    index
        .apply(Bucket::FIRST, volume(1), sequence(number), operations)
        .expect("a batch in turn is applied")
}

#[track_caller]
fn refused(result: Result<Vec<Outcome>, DdiError>) -> DdiError {
    match result {
        Ok(outcomes) => panic!("the batch is not refused: {outcomes:?}"),
        Err(error) if error.is_refusal() => error,
        Err(error) => panic!("the batch failed: {error}"),
    }
}

#[track_caller]
fn rows_of(index: &dyn DuplicatesIndex, bucket: Bucket) -> Vec<Row> {
    let mut rows = Vec::new();
    let mut visit = |row| {
        rows.push(row);
        std::ops::ControlFlow::Continue(())
    };
    index.scan(bucket, &mut visit).expect("the rows can be read");
    rows
}

/// The rows in the order of a scan.
fn sorted(mut rows: Vec<Row>) -> Vec<Row> {
    rows.sort_by_key(|row| row.key);
    rows
}

#[track_caller]
fn assert_rows(index: &dyn DuplicatesIndex, bucket: Bucket, wanted: Vec<Row>) {
    assert_eq!(rows_of(index, bucket), sorted(wanted));
}
