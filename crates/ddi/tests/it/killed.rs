//! A process that applies batches is killed, again and again: every acknowledged batch is in the
//! index exactly once.
//!
//! The test starts its own program with [`FOLDER`] in the environment; that child applies batches
//! without end, and writes a line after each. The parent kills it at some moment.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::ops::ControlFlow;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use ddi::{Bucket, DuplicatesIndex, FjallIndex, FjallOptions, Operation, Outcome, RowKey};
use env::{Clock, SystemClock};
use types::{BatchSequence, BlockNumber, Fingerprint, VolumeId};

const FOLDER: &str = "ONEFOLD_DDI_KILLED_FOLDER";
const POOL: [u8; 16] = [5; 16];
const KILLS: u64 = 12;
const CONTENTS: u64 = 700;

/// The child's side: nothing, unless the parent says where.
#[test]
fn child() {
    if let Some(folder) = std::env::var_os(FOLDER) {
        apply_without_end(Path::new(&folder));
    }
}

fn volume() -> VolumeId {
    VolumeId::new(1).unwrap()
}

fn open(folder: &Path) -> FjallIndex {
    FjallIndex::open(folder, FjallOptions::default()).unwrap()
}

/// The operations of a batch; its number decides them.
fn operations(number: u64) -> Vec<Operation> {
    // The large ones fill journals and tables, so kills meet their changes too.
    let size = [3, 40, 7_000, 120_000][usize::try_from(number % 4).unwrap()];
    (0..size)
        .map(|n| {
            let which = (number * 31 + n * n) % CONTENTS;
            let mut bytes = [0; 32];
            bytes[..8].copy_from_slice(&which.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes());
            let (fingerprint, block) = (Fingerprint::from_bytes(bytes), BlockNumber::new(which).unwrap());
            if (number + n).is_multiple_of(3) {
                Operation::Decrement {
                    fingerprint,
                    block,
                    count: 1,
                }
            } else {
                Operation::Increment {
                    fingerprint,
                    block,
                    count: 2,
                }
            }
        })
        .collect()
}

/// The child: repeats the last batch, and goes on behind it.
fn apply_without_end(folder: &Path) {
    let index = open(folder);
    let last = index.client(Bucket::FIRST, volume()).unwrap();
    let mut number = last.map_or(1, BatchSequence::get);
    let mut out = std::io::stderr();
    loop {
        let sequence = BatchSequence::new(number).unwrap();
        index
            .apply(Bucket::FIRST, volume(), sequence, &operations(number))
            .unwrap();
        writeln!(out, "{number}").unwrap();
        out.flush().unwrap();
        number += 1;
    }
}

/// What the batches up to this number do, one operation after another.
#[derive(Default)]
struct Model {
    applied: u64,
    rows: BTreeMap<RowKey, (BlockNumber, u64)>,
    last: Vec<Outcome>,
}

impl Model {
    fn apply_to(&mut self, number: u64) {
        while self.applied < number {
            self.applied += 1;
            let operations = operations(self.applied);
            self.last = operations
                .iter()
                .map(|operation| self.outcome(operation))
                .collect();
        }
    }

    fn outcome(&mut self, operation: &Operation) -> Outcome {
        let key = RowKey::from(operation.fingerprint());
        let known = self.rows.get(&key).copied();
        match (*operation, known) {
            (Operation::Increment { block, count, .. }, None) => {
                self.rows.insert(key, (block, count.into()));
                Outcome::Registered
            }
            (Operation::Increment { count, .. }, Some((block, references))) => {
                self.rows.insert(key, (block, references + u64::from(count)));
                Outcome::Hit { block }
            }
            (Operation::Decrement { .. }, None) => Outcome::Unknown,
            (Operation::Decrement { .. }, Some((_, 1))) => {
                self.rows.remove(&key);
                Outcome::Freed
            }
            (Operation::Decrement { count, .. }, Some((block, references))) => {
                let rest = references - u64::from(count);
                self.rows.insert(key, (block, rest));
                Outcome::Remaining(rest)
            }
        }
    }
}

#[test]
fn acknowledged_batches_survive_kills() {
    let parent = tempfile::tempdir().unwrap();
    let folder = parent.path().join("index");
    drop(FjallIndex::create(&folder, POOL, FjallOptions::default()).unwrap());
    let mut model = Model::default();
    for kill in 0..KILLS {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "killed::child", "--nocapture"])
            .env(FOLDER, &folder)
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let mut acknowledged = model.applied;
        for _ in 0..1 + kill * 5 {
            acknowledged = lines.next().unwrap().unwrap().parse().unwrap();
        }
        // The child is anywhere in the next batches.
        SystemClock.sleep(Duration::from_millis(kill * 7 % 23));
        child.kill().unwrap();
        child.wait().unwrap();
        // What it wrote before it died counts as acknowledged; the last line may be half.
        for line in lines.map_while(Result::ok) {
            if let Ok(number) = line.parse::<u64>()
                && number == acknowledged + 1
            {
                acknowledged = number;
            }
        }
        check(&open(&folder), acknowledged, &mut model);
    }
    assert!(model.applied > KILLS, "{} batches", model.applied);
}

fn check(index: &FjallIndex, acknowledged: u64, model: &mut Model) {
    let last = index.client(Bucket::FIRST, volume()).unwrap().unwrap();
    assert!(
        last.get() == acknowledged || last.get() == acknowledged + 1,
        "batch {acknowledged} was acknowledged, and the index has batch {last}"
    );
    model.apply_to(last.get());
    let mut rows = BTreeMap::new();
    let mut visit = |row: ddi::Row| {
        rows.insert(row.key, (row.block, row.references));
        ControlFlow::Continue(())
    };
    index.scan(Bucket::FIRST, &mut visit).unwrap();
    assert!(rows == model.rows, "the rows after batch {last} differ");
    let statistics = index.statistics().unwrap();
    assert_eq!(
        statistics.references(),
        rows.values().map(|row| row.1).sum::<u64>()
    );
    let outcomes = index
        .apply(Bucket::FIRST, volume(), last, &operations(last.get()))
        .unwrap();
    assert!(outcomes == model.last, "the outcomes of batch {last} differ");
}
