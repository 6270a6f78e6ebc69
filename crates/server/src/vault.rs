//! Vaults: namespaces that hold a client's whole store as objects that the server cannot read.
//!
//! The client has the keys. It looks up, packs and seals, and its storage is a folder of the
//! server.
//!
//! A *handle* is the storage as this process has opened it. A barrier covers what clients have done
//! with the same handle, so each handle has a name, and clients notice when it changes. After a
//! failed barrier the next login gets a new handle.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use env::{LocalStorage, StorageError};
use types::ObjectName;
use wire::{OBJECT_BYTES_MAX, Refusal, RefusalKind};

use crate::error::ServerError;
use crate::home::Home;

/// A vault that this process has opened.
#[derive(Debug)]
pub(crate) struct Vault {
    pub(crate) storage: LocalStorage,
    /// Names the handle.
    pub(crate) handle: [u8; 16],
    /// Bytes of objects whose last part has not come.
    partial_bytes: AtomicU64,
}

impl Vault {
    pub(crate) fn open(home: &Home, namespace: &str) -> Result<Self, ServerError> {
        let mut handle = [0; 16];
        home.env.entropy.fill(&mut handle);
        Ok(Self {
            storage: LocalStorage::open(home.vault_folder(namespace))?,
            handle,
            partial_bytes: AtomicU64::new(0),
        })
    }
}

/// The first parts of an object, for as long as the connection lasts.
pub(crate) struct Upload {
    vault: Arc<Vault>,
    pub(crate) name: ObjectName,
    /// They are not kept apart: a client may send an object byte by byte.
    pub(crate) bytes: Vec<u8>,
}

impl Upload {
    pub(crate) fn new(vault: &Arc<Vault>, name: &ObjectName) -> Self {
        Self {
            vault: Arc::clone(vault),
            name: name.clone(),
            bytes: Vec::new(),
        }
    }

    /// Adds a part. Memory for parts of all clients of a vault is bounded.
    pub(crate) fn push(&mut self, part: &[u8]) -> Result<(), Refusal> {
        let len = part.len() as u64;
        let partial = &self.vault.partial_bytes;
        if partial.fetch_add(len, Ordering::AcqRel) + len > OBJECT_BYTES_MAX {
            partial.fetch_sub(len, Ordering::AcqRel);
            let busy = "too many large objects arrive at the same time; try again later";
            return Err(Refusal::new(RefusalKind::Busy, busy));
        }
        self.bytes.extend_from_slice(part);
        Ok(())
    }
}

impl Drop for Upload {
    fn drop(&mut self) {
        let len = self.bytes.len() as u64;
        self.vault.partial_bytes.fetch_sub(len, Ordering::AcqRel);
    }
}

/// The refusal for an error of the storage.
pub(crate) fn refusal(error: &StorageError) -> Refusal {
    let kind = match error {
        StorageError::NotFound { .. } => RefusalKind::NotFound,
        StorageError::AlreadyExists { .. } => RefusalKind::AlreadyExists,
        StorageError::PastEnd { .. } => RefusalKind::PastEnd,
        StorageError::NoSpace { .. } => RefusalKind::NoSpace,
        _ => RefusalKind::Failed,
    };
    Refusal::new(kind, error.to_string())
}
