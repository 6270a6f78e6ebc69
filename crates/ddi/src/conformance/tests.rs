//! The suite on the indexes of this crate.

use std::path::PathBuf;
use std::sync::Mutex;

use proptest::prelude::*;

use crate::{FjallIndex, FjallOptions, MemoryIndex};

use super::*;

#[derive(Debug)]
struct InMemory;

impl Maker for InMemory {
    fn create(&self) -> Box<dyn DuplicatesIndex> {
        Box::new(MemoryIndex::new(POOL))
    }

    fn reopen(&self, index: Box<dyn DuplicatesIndex>) -> Box<dyn DuplicatesIndex> {
        index
    }
}

#[derive(Debug)]
struct OnDisk {
    folder: tempfile::TempDir,
    made: Mutex<u32>,
}

impl OnDisk {
    fn new() -> Self {
        Self {
            folder: tempfile::tempdir().unwrap(),
            made: Mutex::default(),
        }
    }

    fn last(&self) -> PathBuf {
        self.folder.path().join(self.made.lock().unwrap().to_string())
    }
}

impl Maker for OnDisk {
    fn create(&self) -> Box<dyn DuplicatesIndex> {
        *self.made.lock().unwrap() += 1;
        Box::new(FjallIndex::create(&self.last(), POOL, FjallOptions::default()).unwrap())
    }

    fn reopen(&self, index: Box<dyn DuplicatesIndex>) -> Box<dyn DuplicatesIndex> {
        drop(index);
        Box::new(FjallIndex::open(&self.last(), FjallOptions::default()).unwrap())
    }
}

#[test]
fn the_index_in_memory_conforms() {
    check(&InMemory);
}

#[test]
fn the_index_on_disk_conforms() {
    check(&OnDisk::new());
}

fn operations() -> impl Strategy<Value = Vec<StepOperation>> {
    let operation =
        (any::<bool>(), 0u8..12, 0u8..3, 1u8..4).prop_map(|(is_increment, content, block, count)| {
            StepOperation {
                is_increment,
                content,
                block,
                count,
            }
        });
    proptest::collection::vec(operation, 0..40)
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let batch = (0u8..3, 0u8..4, operations(), any::<bool>()).prop_map(
        |(bucket, client, operations, is_repeated)| Step::Batch {
            bucket,
            client,
            operations,
            is_repeated,
        },
    );
    let step = prop_oneof![
        12 => batch,
        1 => (0u8..4, 0u8..3).prop_map(|(client, by)| Step::Ahead { client, by }),
        1 => (0u8..4).prop_map(|client| Step::Forget { client }),
        1 => Just(Step::Reopen),
        1 => Just(Step::Rebuild),
    ];
    proptest::collection::vec(step, 1..40)
}

proptest! {
    #[test]
    fn the_index_in_memory_is_a_map(steps in steps()) {
        check_steps(&InMemory, &steps);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn the_index_on_disk_is_a_map(steps in steps()) {
        check_steps(&OnDisk::new(), &steps);
    }
}
