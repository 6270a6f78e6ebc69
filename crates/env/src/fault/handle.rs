//! The operations of a process on the machine.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use types::{ByteRange, ObjectName};

use super::world::{Verdict, World};
use super::{FaultStorage, OpKind, Operation};
use crate::memory::Shared;
use crate::plain::{folder_prefix, folders_in, is_in, range_of, sub_folders, tail_of};
use crate::{LockState, ObjectBytes, ObjectMeta, ProcessLock, Storage, StorageError};

impl FaultStorage {
    /// Runs one operation: admits it, carries it out, and returns its outcome or an error.
    fn operate<T>(
        &self,
        operation: Operation,
        carry_out: impl FnOnce(&mut World, u64, Verdict) -> Result<T, StorageError>,
    ) -> Result<T, StorageError> {
        let (id, kind) = (self.process.id, operation.kind);
        let mut world = self.world();
        let verdict = world.begin(id, operation)?;
        let result = carry_out(&mut world, id, verdict);
        let unheard = world.finish(id, kind, verdict);
        // If the caller never learns of a lock, dropping the lock frees it, and needs the world for
        // that.
        drop(world);
        unheard.map_or(result, Err)
    }

    fn list_wanted(
        &self,
        folder: &str,
        is_wanted: impl Fn(&ObjectName) -> bool,
    ) -> Result<Vec<ObjectMeta>, StorageError> {
        self.operate(Operation::at(OpKind::List, folder), |world, id, _| {
            let rows = world.list(id, is_wanted).into_iter();
            Ok(rows
                .map(|(name, version)| ObjectMeta {
                    name,
                    len: version.bytes.len() as u64,
                    space: version.space(),
                    put_at: version.put_at,
                })
                .collect())
        })
    }
}

impl Storage for FaultStorage {
    fn put(&self, name: &ObjectName, parts: &[&[u8]]) -> Result<(), StorageError> {
        let bytes = parts.concat();
        self.operate(Operation::on(OpKind::Put, name), |world, id, verdict| {
            world.put(id, name, bytes, verdict == Verdict::Torn)
        })
    }

    fn barrier(&self) -> Result<(), StorageError> {
        self.operate(Operation::at(OpKind::Barrier, ""), |world, id, _| {
            world.barrier(id);
            Ok(())
        })
    }

    fn get(&self, name: &ObjectName) -> Result<Vec<u8>, StorageError> {
        self.map(name).map(|bytes| bytes.to_vec())
    }

    fn get_range(&self, name: &ObjectName, range: ByteRange) -> Result<Vec<u8>, StorageError> {
        self.operate(Operation::on(OpKind::Get, name), |world, id, _| {
            let version = world.read(id, name)?;
            let bytes = range_of(name, &version.bytes, range)?;
            world.gives(name, range)?;
            world.returned(id, bytes.len() as u64);
            Ok(bytes.to_vec())
        })
    }

    fn get_tail(&self, name: &ObjectName, len: u64) -> Result<(Vec<u8>, u64), StorageError> {
        self.operate(Operation::on(OpKind::Get, name), |world, id, _| {
            let version = world.read(id, name)?;
            let bytes = tail_of(&version.bytes, len);
            let len = bytes.len() as u64;
            let offset = version.bytes.len() as u64 - len;
            world.gives(name, ByteRange { offset, len })?;
            world.returned(id, bytes.len() as u64);
            Ok((bytes.to_vec(), version.bytes.len() as u64))
        })
    }

    fn map(&self, name: &ObjectName) -> Result<ObjectBytes, StorageError> {
        self.operate(Operation::on(OpKind::Get, name), |world, id, _| {
            let version = world.read(id, name)?;
            let len = version.bytes.len() as u64;
            world.gives(name, ByteRange { offset: 0, len })?;
            world.returned(id, len);
            Ok(ObjectBytes::new(Shared(version.bytes)))
        })
    }

    fn head(&self, name: &ObjectName) -> Result<ObjectMeta, StorageError> {
        self.operate(Operation::on(OpKind::Head, name), |world, id, _| {
            let version = world.read(id, name)?;
            Ok(ObjectMeta {
                name: name.clone(),
                len: version.bytes.len() as u64,
                space: version.space(),
                put_at: version.put_at,
            })
        })
    }

    fn list(&self, folder: &str) -> Result<Vec<ObjectMeta>, StorageError> {
        let prefix = folder_prefix(folder)?;
        self.list_wanted(folder, |name| name.as_str().starts_with(&prefix))
    }

    fn list_in(&self, folder: &str, sub_folders: &BTreeSet<String>) -> Result<Vec<ObjectMeta>, StorageError> {
        folders_in(folder, sub_folders)?;
        self.list_wanted(folder, |name| is_in(name, folder, sub_folders))
    }

    fn list_folders(&self, folder: &str) -> Result<Vec<String>, StorageError> {
        let prefix = folder_prefix(folder)?;
        self.operate(Operation::at(OpKind::List, folder), |world, id, _| {
            let folders = sub_folders(world.live_names(), &prefix);
            world.count_listed(id, folders.len() as u64);
            Ok(folders)
        })
    }

    fn delete(&self, name: &ObjectName) -> Result<(), StorageError> {
        self.operate(Operation::on(OpKind::Delete, name), |world, id, _| {
            world.delete(id, name)
        })
    }

    fn can_trim(&self, name: &ObjectName) -> Result<bool, StorageError> {
        self.operate(Operation::on(OpKind::Head, name), |world, id, _| {
            world.read(id, name).map(|_| true)
        })
    }

    fn trim(&self, from: &ObjectName, to: &ObjectName, ranges: &[ByteRange]) -> Result<bool, StorageError> {
        self.operate(Operation::on(OpKind::Trim, from), |world, id, _| {
            world.trim(id, from, to, ranges)
        })
    }

    fn lock(&self, name: &ObjectName) -> Result<Option<Box<dyn ProcessLock>>, StorageError> {
        self.operate(Operation::on(OpKind::Lock, name), |world, id, _| {
            let token = world.lock(id, name)?;
            let world = Arc::clone(&self.process.world);
            let lock: Box<dyn ProcessLock> = Box::new(FaultLock {
                name: name.clone(),
                token,
                world,
            });
            Ok(Some(lock))
        })
    }

    fn lock_state(&self, name: &ObjectName) -> Result<LockState, StorageError> {
        self.operate(Operation::on(OpKind::Lock, name), |world, id, _| {
            Ok(world.lock_state(id, name))
        })
    }

    fn drop_lock(&self, name: &ObjectName) -> Result<(), StorageError> {
        self.operate(Operation::on(OpKind::Lock, name), |world, _, _| {
            world.drop_lock(name);
            Ok(())
        })
    }
}

struct FaultLock {
    name: ObjectName,
    token: u64,
    world: Arc<Mutex<World>>,
}

impl fmt::Debug for FaultLock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "FaultLock({})", self.name)
    }
}

impl ProcessLock for FaultLock {}

impl Drop for FaultLock {
    fn drop(&mut self) {
        self.world
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .unlock(&self.name, self.token);
    }
}
