//! Trimmed containers, while another process executes the same list.

use std::fmt;
use std::sync::Mutex;

use env::{LockState, ObjectMeta, ProcessLock};
use types::ByteRange;

use super::*;

/// A storage in which something happens once, before an object is first read.
struct BeforeRead {
    storage: FaultStorage,
    name: ObjectName,
    once: Mutex<Option<Box<dyn FnOnce() + Send>>>,
}

impl BeforeRead {
    fn of(&self, name: &ObjectName) -> &FaultStorage {
        if *name == self.name {
            let once = self.once.lock().unwrap().take();
            if let Some(once) = once {
                once();
            }
        }
        &self.storage
    }
}

impl fmt::Debug for BeforeRead {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.storage.fmt(f)
    }
}

impl Storage for BeforeRead {
    fn put(&self, name: &ObjectName, parts: &[&[u8]]) -> Result<(), StorageError> {
        self.storage.put(name, parts)
    }
    fn barrier(&self) -> Result<(), StorageError> {
        self.storage.barrier()
    }
    fn get(&self, name: &ObjectName) -> Result<Vec<u8>, StorageError> {
        self.of(name).get(name)
    }
    fn get_range(&self, name: &ObjectName, range: ByteRange) -> Result<Vec<u8>, StorageError> {
        self.of(name).get_range(name, range)
    }
    fn get_tail(&self, name: &ObjectName, len: u64) -> Result<(Vec<u8>, u64), StorageError> {
        self.of(name).get_tail(name, len)
    }
    fn head(&self, name: &ObjectName) -> Result<ObjectMeta, StorageError> {
        self.storage.head(name)
    }
    fn list(&self, folder: &str) -> Result<Vec<ObjectMeta>, StorageError> {
        self.storage.list(folder)
    }
    fn list_folders(&self, folder: &str) -> Result<Vec<String>, StorageError> {
        self.storage.list_folders(folder)
    }
    fn delete(&self, name: &ObjectName) -> Result<(), StorageError> {
        self.storage.delete(name)
    }
    fn can_trim(&self, name: &ObjectName) -> Result<bool, StorageError> {
        self.storage.can_trim(name)
    }
    fn trim(&self, from: &ObjectName, to: &ObjectName, ranges: &[ByteRange]) -> Result<bool, StorageError> {
        self.storage.trim(from, to, ranges)
    }
    fn lock(&self, name: &ObjectName) -> Result<Option<Box<dyn ProcessLock>>, StorageError> {
        self.storage.lock(name)
    }
    fn lock_state(&self, name: &ObjectName) -> Result<LockState, StorageError> {
        self.storage.lock_state(name)
    }
    fn drop_lock(&self, name: &ObjectName) -> Result<(), StorageError> {
        self.storage.drop_lock(name)
    }
}

/// A container of four regions. The first one is given back, and the list names half of the second
/// one.
fn trimmed() -> (FaultStorage, ContainerId, Model, Removed) {
    let storage = FaultStorage::new();
    let (data, mut model) = (id(ContainerKind::Data, 1, 1), Model::new());
    put(&open(&storage), data, &[2000; 16], &mut model);
    storage.barrier().unwrap();
    let first = list(vec![entry(data, Some(&[(0, 4)]))]);
    let out = run(&storage, &first).unwrap();
    assert_eq!((out.trimmed, out.compacted), (1, 0), "{out:?}");
    let view = open(&storage).catalog(data).unwrap();
    assert_eq!(view.body(), Some(generation(0)));
    model.retain(|(_, slot), _| *slot >= 4);
    let second = Removed {
        epoch: Epoch::new(2).unwrap(),
        ..list(vec![entry(data, Some(&[(4, 2)]))])
    };
    (storage, data, model, second)
}

/// When the run is about to copy out of the body, another process has executed the whole list, and
/// deleted the body with its generation.
#[test]
fn a_body_that_another_deletes_meanwhile_is_not_missed() {
    let (storage, data, model, list) = trimmed();
    let (rival, of_rival) = (storage.handle(), list.clone());
    let came = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&came);
    let beside = BeforeRead {
        storage: storage.clone(),
        name: names::body(data, generation(0)),
        once: Mutex::new(Some(Box::new(move || {
            let out = run(&rival, &of_rival).unwrap();
            assert_eq!((out.compacted, out.damaged.len()), (1, 0), "{out:?}");
            counted.fetch_add(1, Ordering::Relaxed);
        }))),
    };
    let out = run_with(&open_on(Arc::new(beside)), &list, 3000).unwrap();
    assert_eq!(came.load(Ordering::Relaxed), 1, "nobody read the body");
    assert!(out.damaged.is_empty(), "{out:?}");
    check_done(&storage, &model, &list);
}

/// A lost body is reported, and its container stays as it is.
#[test]
fn a_body_that_is_lost_meanwhile_is_missed() {
    let (storage, data, _, list) = trimmed();
    let (body, other) = (names::body(data, generation(0)), storage.handle());
    let beside = BeforeRead {
        storage: storage.clone(),
        name: body.clone(),
        once: Mutex::new(Some(Box::new(move || assert!(other.lose(&body))))),
    };
    let out = run_with(&open_on(Arc::new(beside)), &list, 3000).unwrap();
    assert!(matches!(&out.damaged[..], [(id, _)] if *id == data), "{out:?}");
    assert_eq!(open(&storage).generations(data).unwrap(), [generation(1)]);
}
