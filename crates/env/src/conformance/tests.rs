//! All storages of this crate pass; broken ones do not.

use std::sync::Arc;

use proptest::prelude::*;
use types::ByteRange;

use super::*;
use crate::fault::FaultStorage;
use crate::{
    LocalOptions, LocalStorage, LockState, MemoryStorage, ObjectMeta, ObjectStoreStorage, ProcessLock,
    PublishWay, StorageError,
};

fn remote(prefix: &str) -> ObjectStoreStorage {
    ObjectStoreStorage::new(Arc::new(object_store::memory::InMemory::new()), prefix).unwrap()
}

fn local(way: PublishWay) -> (tempfile::TempDir, LocalStorage) {
    let folder = tempfile::tempdir().unwrap();
    let options = LocalOptions {
        first_way: way,
        ..LocalOptions::default()
    };
    let storage = LocalStorage::open_with(folder.path(), options).unwrap();
    (folder, storage)
}

#[test]
fn memory_passes() {
    check(&MemoryStorage::new());
}

#[test]
fn fault_passes_while_nothing_fails() {
    check(&FaultStorage::new());
}

#[test]
fn an_object_store_passes() {
    check(&remote(""));
    check(&remote("some/prefix"));
}

#[test]
fn local_passes_in_each_way() {
    for way in [PublishWay::Link, PublishWay::Rename, PublishWay::Exclusive] {
        let (_folder, storage) = local(way);
        check(&storage);
    }
}

fn operations() -> impl Strategy<Value = Vec<Op>> {
    let small = 0..600_u16;
    let op = prop_oneof![
        4 => (any::<u8>(), small.clone(), any::<u8>(), 1..300_u16)
            .prop_map(|(name, len, first, part)| Op::Put { name, len, first, part }),
        2 => any::<u8>().prop_map(Op::Delete),
        1 => any::<u8>().prop_map(Op::Get),
        2 => (any::<u8>(), small.clone(), small.clone())
            .prop_map(|(name, offset, len)| Op::Range { name, offset, len }),
        1 => (any::<u8>(), small).prop_map(|(name, len)| Op::Tail { name, len }),
        1 => any::<u8>().prop_map(Op::Head),
        1 => any::<u8>().prop_map(Op::List),
        1 => any::<u8>().prop_map(Op::ListFolders),
        1 => Just(Op::Barrier),
    ];
    prop::collection::vec(op, 0..60)
}

proptest! {
    #[test]
    fn any_operations_on_memory_agree_with_a_map(ops in operations()) {
        check_operations(&MemoryStorage::new(), "m", &ops);
    }

    #[test]
    fn any_operations_on_fault_agree_with_a_map(ops in operations()) {
        check_operations(&FaultStorage::new(), "m", &ops);
    }

    #[test]
    fn any_operations_on_an_object_store_agree_with_a_map(ops in operations()) {
        check_operations(&remote("p"), "m", &ops);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: ProptestConfig::default().cases.div_ceil(16), ..ProptestConfig::default() })]

    #[test]
    fn any_operations_on_local_agree_with_a_map(ops in operations(), way in 0..3_usize) {
        let way = [PublishWay::Link, PublishWay::Rename, PublishWay::Exclusive][way];
        let (_folder, storage) = local(way);
        check_operations(&storage, "m", &ops);
    }
}

/// A storage with one flaw.
#[derive(Debug)]
struct Broken(MemoryStorage, Flaw);

#[derive(Debug, Clone, Copy, PartialEq)]
enum Flaw {
    Overwrites,
    ForgetsTheLastByte,
    CutsRanges,
    MissesWhatIsListed,
    ListsByBeginning,
    DeletesNothing,
    LocksForAll,
}

impl Storage for Broken {
    fn put(&self, name: &ObjectName, parts: &[&[u8]]) -> Result<(), StorageError> {
        match self.1 {
            Flaw::Overwrites => {
                self.0.delete(name).ok();
                self.0.put(name, parts)
            }
            Flaw::ForgetsTheLastByte => {
                let bytes = parts.concat();
                self.0.put(name, &[&bytes[..bytes.len().saturating_sub(1)]])
            }
            _ => self.0.put(name, parts),
        }
    }
    fn barrier(&self) -> Result<(), StorageError> {
        self.0.barrier()
    }
    fn get(&self, name: &ObjectName) -> Result<Vec<u8>, StorageError> {
        self.0.get(name)
    }
    fn get_range(&self, name: &ObjectName, range: ByteRange) -> Result<Vec<u8>, StorageError> {
        match (self.1, self.0.get_range(name, range)) {
            (Flaw::CutsRanges, Err(StorageError::PastEnd { len, .. })) if range.offset <= len => {
                self.0.get_range(
                    name,
                    ByteRange {
                        offset: range.offset,
                        len: len - range.offset,
                    },
                )
            }
            (_, outcome) => outcome,
        }
    }
    fn get_tail(&self, name: &ObjectName, len: u64) -> Result<(Vec<u8>, u64), StorageError> {
        self.0.get_tail(name, len)
    }
    fn head(&self, name: &ObjectName) -> Result<ObjectMeta, StorageError> {
        self.0.head(name)
    }
    fn list(&self, folder: &str) -> Result<Vec<ObjectMeta>, StorageError> {
        match self.1 {
            Flaw::MissesWhatIsListed => Ok(self.0.list(folder)?.into_iter().skip(1).collect()),
            Flaw::ListsByBeginning => {
                self.0.list(folder)?;
                let all = self.0.list("")?.into_iter();
                Ok(all
                    .filter(|meta| meta.name.as_str().starts_with(folder))
                    .collect())
            }
            _ => self.0.list(folder),
        }
    }
    fn list_folders(&self, folder: &str) -> Result<Vec<String>, StorageError> {
        self.0.list_folders(folder)
    }
    fn delete(&self, name: &ObjectName) -> Result<(), StorageError> {
        if self.1 == Flaw::DeletesNothing {
            self.0.head(name).map(drop)
        } else {
            self.0.delete(name)
        }
    }
    fn lock(&self, name: &ObjectName) -> Result<Option<Box<dyn ProcessLock>>, StorageError> {
        if self.1 == Flaw::LocksForAll {
            self.0.drop_lock(name)?;
        }
        self.0.lock(name)
    }
    fn lock_state(&self, name: &ObjectName) -> Result<LockState, StorageError> {
        self.0.lock_state(name)
    }
    fn drop_lock(&self, name: &ObjectName) -> Result<(), StorageError> {
        self.0.drop_lock(name)
    }
}

#[test]
fn the_suite_finds_each_flaw() {
    for flaw in [
        Flaw::Overwrites,
        Flaw::ForgetsTheLastByte,
        Flaw::CutsRanges,
        Flaw::MissesWhatIsListed,
        Flaw::ListsByBeginning,
        Flaw::DeletesNothing,
        Flaw::LocksForAll,
    ] {
        let broken = Broken(MemoryStorage::new(), flaw);
        // On another thread, so that the panic's message does not fill the test's output.
        let outcome = std::thread::scope(|scope| scope.spawn(|| check(&broken)).join());
        assert!(outcome.is_err(), "{flaw:?} was not found");
    }
}
