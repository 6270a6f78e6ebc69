//! One sealed object by name.
//!
//! Invariant: an object that opens was put by a holder of the store's keys, in this store, as this
//! kind, under this name. The order of checks shows the cause: first the digest, which needs no key
//! and finds rot and torn writes; then the tag, which finds malice. Clones share all state. Many
//! threads may call everything at once. A failed put leaves the object whole or absent, as the
//! storage guarantees. A failed get changes nothing.

use std::fmt;
use std::sync::Arc;

use crypto::EncryptionKey;
use env::{Env, ObjectMeta, StorageError};
use format::FormatError;
use format::frame::{
    DIGEST_BYTES, FRAME_HEADER_BYTES, FRAME_OVERHEAD_BYTES, Frame, FrameHeader, ObjectKind, SEAL_PURPOSE,
    append_digest, associated_data,
};
use types::{ObjectName, StoreId};

use crate::ObjectError;

/// Puts and gets the sealed small objects of one store. Cheap to clone.
#[derive(Clone)]
pub struct Sealer(Arc<Inner>);

struct Inner {
    env: Env,
    store: StoreId,
    key: EncryptionKey,
}

impl Sealer {
    /// A sealer for the store with that id and key. It does nothing yet.
    #[must_use]
    pub fn new(env: Env, store: StoreId, key: EncryptionKey) -> Self {
        Self(Arc::new(Inner { env, store, key }))
    }

    /// The environment: storage, time and randomness.
    #[must_use]
    pub fn env(&self) -> &Env {
        &self.0.env
    }

    /// The store's id.
    #[must_use]
    pub fn store(&self) -> StoreId {
        self.0.store
    }

    /// The key under which everything in the store is sealed.
    #[must_use]
    pub fn key(&self) -> &EncryptionKey {
        &self.0.key
    }

    /// Seals and creates an object. May return before it is durable.
    ///
    /// If the name is taken, the object there is compared with ours: after a lost answer, the
    /// storage may have repeated the put and found its own object.
    ///
    /// # Errors
    /// Errors of the storage; [`ObjectError::is_already_exists`] if a rival took the name.
    pub fn put(&self, name: &ObjectName, kind: ObjectKind, plain: &[u8]) -> Result<(), ObjectError> {
        let object = self.seal(name, kind, plain);
        put_or_same(&self.0.env, name, &object)
    }

    /// Reads and opens an object.
    ///
    /// # Errors
    /// [`ObjectError::is_not_found`]; `Rot`, `Forged`, `WrongKind`, `Newer`; errors of the storage.
    pub fn get(&self, name: &ObjectName, kind: ObjectKind) -> Result<Vec<u8>, ObjectError> {
        let storage = &self.0.env.storage;
        match self.open_bytes(name, kind, storage.get(name)?) {
            // A cache may have kept wrong bytes.
            Err(_) if storage.drop_cached(name) => self.open_bytes(name, kind, storage.get(name)?),
            opened => opened,
        }
    }

    /// Reads, opens and decodes an object.
    ///
    /// # Errors
    /// As [`Sealer::get`]; also `Content` or `Newer`, as `decode` returns.
    pub fn read<T>(
        &self,
        name: &ObjectName,
        kind: ObjectKind,
        decode: impl FnOnce(&[u8]) -> Result<T, FormatError>,
    ) -> Result<T, ObjectError> {
        let plain = self.get(name, kind)?;
        decode(&plain).map_err(|source| match source {
            FormatError::NewerVersion { .. } => ObjectError::Newer {
                name: name.clone(),
                source,
            },
            _ => ObjectError::Content {
                name: name.clone(),
                source,
            },
        })
    }

    /// Opens an object's bytes, however they were read.
    ///
    /// # Errors
    /// `Rot`, `Forged`, `WrongKind`, `Newer`.
    pub fn open_bytes(
        &self,
        name: &ObjectName,
        kind: ObjectKind,
        mut object: Vec<u8>,
    ) -> Result<Vec<u8>, ObjectError> {
        let frame = split(name, &object)?;
        let FrameHeader { kind: found, salt } = frame.header;
        if found != kind {
            return Err(ObjectError::WrongKind {
                name: name.clone(),
                expected: kind,
                found,
            });
        }
        let aad = associated_data(self.0.store, frame.header_bytes, name);
        let forged = || ObjectError::Forged { name: name.clone() };
        object.truncate(object.len().saturating_sub(DIGEST_BYTES));
        let sealed = object.get_mut(FRAME_HEADER_BYTES..).ok_or_else(forged)?;
        let key = self.0.key.seal_key(SEAL_PURPOSE, &salt);
        let plain_len = key.open(0, &aad, sealed).map_err(|_| forged())?.len();
        object.truncate(FRAME_HEADER_BYTES + plain_len);
        object.drain(..FRAME_HEADER_BYTES);
        Ok(object)
    }

    /// The bytes of the whole object, under a fresh salt.
    #[must_use]
    pub fn seal(&self, name: &ObjectName, kind: ObjectKind, plain: &[u8]) -> Vec<u8> {
        let mut salt = [0; 32];
        self.0.env.entropy.fill(&mut salt);
        let header = FrameHeader { kind, salt }.encode();
        let aad = associated_data(self.0.store, &header, name);
        let mut object = Vec::with_capacity(plain.len() + FRAME_OVERHEAD_BYTES);
        object.extend_from_slice(&header);
        object.extend_from_slice(plain);
        self.0
            .key
            .seal_key(SEAL_PURPOSE, &salt)
            .seal(0, &aad, &mut object, FRAME_HEADER_BYTES);
        append_digest(&mut object);
        object
    }

    /// Checks an object's digest without its key. This shows whether it is whole, but not who
    /// sealed it.
    ///
    /// # Errors
    /// [`ObjectError::is_not_found`]; `Rot`, `Newer`; errors of the storage.
    pub fn check_digest(env: &Env, name: &ObjectName) -> Result<ObjectKind, ObjectError> {
        let object = env.storage.get(name)?;
        Ok(split(name, &object)?.header.kind)
    }

    /// Returns when everything that was put, deleted, read or listed before is durable.
    ///
    /// # Errors
    /// Errors of the storage.
    pub fn barrier(&self) -> Result<(), ObjectError> {
        Ok(self.0.env.storage.barrier()?)
    }

    /// The objects of a folder whose names parse, in the order of their names. Foreign names are
    /// skipped.
    ///
    /// # Errors
    /// Errors of the storage.
    pub fn list<T>(
        &self,
        folder: &str,
        parse: impl Fn(&ObjectName) -> Option<T>,
    ) -> Result<Vec<(T, ObjectMeta)>, ObjectError> {
        list_named(&self.0.env, folder, parse)
    }
}

impl fmt::Debug for Sealer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sealer")
            .field("store", &self.0.store)
            .finish_non_exhaustive()
    }
}

/// The objects of a folder whose names parse, in the order of their names. Needs no key. Foreign
/// names are skipped.
///
/// # Errors
/// Errors of the storage.
pub fn list_named<T>(
    env: &Env,
    folder: &str,
    parse: impl Fn(&ObjectName) -> Option<T>,
) -> Result<Vec<(T, ObjectMeta)>, ObjectError> {
    let listed = env.storage.list(folder)?;
    Ok(listed
        .into_iter()
        .filter_map(|meta| Some((parse(&meta.name)?, meta)))
        .collect())
}

/// Creates an object. If an object with equal bytes has the name, it counts as created.
pub(crate) fn put_or_same(env: &Env, name: &ObjectName, object: &[u8]) -> Result<(), ObjectError> {
    match env.storage.put(name, &[object]) {
        Err(taken @ StorageError::AlreadyExists { .. }) => match env.storage.get(name) {
            Ok(there) if there == object => Ok(()),
            // The object is gone again or unreadable, so it does not count as ours.
            Ok(_) | Err(_) => Err(taken.into()),
        },
        done => Ok(done?),
    }
}

fn split<'a>(name: &ObjectName, object: &'a [u8]) -> Result<Frame<'a>, ObjectError> {
    Frame::split(object).map_err(|source| match source {
        FormatError::NewerVersion { .. } => ObjectError::Newer {
            name: name.clone(),
            source,
        },
        _ => ObjectError::Rot {
            name: name.clone(),
            source,
        },
    })
}
