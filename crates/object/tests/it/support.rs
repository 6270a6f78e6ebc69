//! Shared code of the tests: cheap passwords, environments, and a storage that lets a rival act in
//! between.

use std::fmt;
use std::sync::{Arc, Mutex};

use env::{Env, LockState, ObjectMeta, ProcessLock, Storage, StorageError};
use format::config::Settings;
use format::names::{self, ConfigCopy};
use object::ObjectError;
use object::config::{self, Argon2Cost, Credential, NewSlot, OpenConfig};
use types::{ByteRange, ObjectName, Revision};

pub(crate) const SETTINGS: Settings = Settings {
    chunk_avg_bytes: 8192,
    chunk_min_bytes: 4096,
    chunk_max_bytes: 65536,
    node_avg_children: 512,
    region_bytes: 131_072,
    container_bytes: 16 << 20,
};

pub(crate) fn slot(password: &str) -> NewSlot<'_> {
    let cost = Argon2Cost {
        memory_kib: 8,
        passes: 1,
        lanes: 1,
    };
    NewSlot {
        credential: Credential::Password(password.as_bytes()),
        label: "me@here",
        cost,
    }
}

pub(crate) fn env_on(storage: impl Storage + 'static, seed: u64) -> Env {
    Env::simulated(Arc::new(storage), seed).0
}

pub(crate) fn create(env: &Env, passwords: &[&str]) -> Result<OpenConfig, ObjectError> {
    let slots: Vec<NewSlot<'_>> = passwords.iter().map(|password| slot(password)).collect();
    config::create(env, &SETTINGS, &slots, None)
}

pub(crate) fn open(env: &Env, password: &str) -> Result<OpenConfig, ObjectError> {
    config::open(env, Credential::Password(password.as_bytes()))
}

pub(crate) fn opens(env: &Env, password: &str) -> bool {
    match open(env, password) {
        Ok(_) => true,
        Err(ObjectError::WrongPassword) => false,
        Err(other) => panic!("opening with {password}: {other}"),
    }
}

pub(crate) fn revision(n: u32) -> Revision {
    Revision::new(n).unwrap()
}

pub(crate) fn copy(n: u32, copy: ConfigCopy) -> ObjectName {
    names::config(revision(n), copy)
}

type Interlude = Box<dyn FnOnce() + Send>;

/// A storage in which another process acts before the n-th put, counted from now.
pub(crate) struct Interrupted {
    inner: Arc<dyn Storage>,
    interludes: Mutex<Vec<(u32, Interlude)>>,
    puts: Mutex<u32>,
    lies: Mutex<bool>,
}

impl Interrupted {
    pub(crate) fn new(inner: Arc<dyn Storage>) -> Arc<Self> {
        Arc::new(Self {
            inner,
            interludes: Mutex::default(),
            puts: Mutex::default(),
            lies: Mutex::default(),
        })
    }

    pub(crate) fn before_put(&self, n: u32, interlude: impl FnOnce() + Send + 'static) {
        let due = *self.puts.lock().unwrap() + n;
        self.interludes.lock().unwrap().push((due, Box::new(interlude)));
    }

    /// The next put is carried out twice, and the caller gets the second answer.
    pub(crate) fn ask_twice(&self) {
        *self.lies.lock().unwrap() = true;
    }
}

impl fmt::Debug for Interrupted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Interrupted")
    }
}

impl Storage for Interrupted {
    fn put(&self, name: &ObjectName, parts: &[&[u8]]) -> Result<(), StorageError> {
        let now = {
            let mut puts = self.puts.lock().unwrap();
            *puts += 1;
            *puts
        };
        let mut due = Vec::new();
        self.interludes.lock().unwrap().retain_mut(|(at, interlude)| {
            if *at != now {
                return true;
            }
            due.push(std::mem::replace(interlude, Box::new(|| {})));
            false
        });
        due.into_iter().for_each(|interlude| interlude());
        let first = self.inner.put(name, parts);
        if std::mem::take(&mut *self.lies.lock().unwrap()) {
            return self.inner.put(name, parts);
        }
        first
    }

    fn barrier(&self) -> Result<(), StorageError> {
        self.inner.barrier()
    }

    fn get(&self, name: &ObjectName) -> Result<Vec<u8>, StorageError> {
        self.inner.get(name)
    }

    fn get_range(&self, name: &ObjectName, range: ByteRange) -> Result<Vec<u8>, StorageError> {
        self.inner.get_range(name, range)
    }

    fn get_tail(&self, name: &ObjectName, len: u64) -> Result<(Vec<u8>, u64), StorageError> {
        self.inner.get_tail(name, len)
    }

    fn head(&self, name: &ObjectName) -> Result<ObjectMeta, StorageError> {
        self.inner.head(name)
    }

    fn list(&self, folder: &str) -> Result<Vec<ObjectMeta>, StorageError> {
        self.inner.list(folder)
    }

    fn list_folders(&self, folder: &str) -> Result<Vec<String>, StorageError> {
        self.inner.list_folders(folder)
    }

    fn delete(&self, name: &ObjectName) -> Result<(), StorageError> {
        self.inner.delete(name)
    }

    fn lock(&self, name: &ObjectName) -> Result<Option<Box<dyn ProcessLock>>, StorageError> {
        self.inner.lock(name)
    }

    fn lock_state(&self, name: &ObjectName) -> Result<LockState, StorageError> {
        self.inner.lock_state(name)
    }

    fn drop_lock(&self, name: &ObjectName) -> Result<(), StorageError> {
        self.inner.drop_lock(name)
    }
}
