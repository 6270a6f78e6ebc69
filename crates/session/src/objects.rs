//! The sealed objects that sessions read and write, by name and type.
//!
//! This module alone knows the object kind of each structure. It distinguishes a *missing* or
//! *damaged* object, for which the protocol has rules, from a failing storage, for which it has
//! none. Stateless; may be called from many threads.

use std::sync::Arc;

use env::{Clock, Storage, StorageError};
use format::frame::ObjectKind;
use format::manifest::Manifest;
use format::reclaim::{Condemned, Damaged, Removed};
use format::session::{Checkpoint, Claim, Heartbeat, Lease};
use format::{FormatError, names};
use object::Sealer;
use types::{ObjectName, Revision, SeriesId, SessionId};

use crate::damaged::DamagedObject;
use crate::error::{EndedBy, Result};

/// A structure with an object kind of its own.
pub(crate) trait Payload: Sized {
    const KIND: ObjectKind;
    fn bytes(&self) -> Result<Vec<u8>, FormatError>;
    fn parse(bytes: &[u8]) -> Result<Self, FormatError>;
}

macro_rules! payloads {
    ($($type:ty => $kind:ident),* $(,)?) => {$(
        impl Payload for $type {
            const KIND: ObjectKind = ObjectKind::$kind;
            fn bytes(&self) -> Result<Vec<u8>, FormatError> {
                self.check()?;
                Ok(self.to_bytes())
            }
            fn parse(bytes: &[u8]) -> Result<Self, FormatError> {
                Self::decode(bytes)
            }
        }
    )*};
}

payloads!(
    Manifest => Manifest,
    Claim => Claim,
    Heartbeat => Heartbeat,
    Checkpoint => Checkpoint,
    Lease => Lease,
    Condemned => Condemned,
    Removed => Removed,
    Damaged => Damaged,
);

/// The result of reading an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Read<T> {
    /// The whole object.
    Whole(T),
    /// No such object.
    Missing,
    /// The object is not what its name promises.
    Damaged(DamagedObject),
}

/// The result of an attempt to create an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Put {
    /// This call created the object.
    Created,
    /// Another object has the name.
    Taken,
}

/// Typed access to the store's small objects. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Objects {
    sealer: Sealer,
}

impl Objects {
    pub(crate) fn new(sealer: &Sealer) -> Self {
        Self {
            sealer: sealer.clone(),
        }
    }

    pub(crate) fn sealer(&self) -> &Sealer {
        &self.sealer
    }

    pub(crate) fn storage(&self) -> &Arc<dyn Storage> {
        &self.sealer.env().storage
    }

    pub(crate) fn clock(&self) -> &Arc<dyn Clock> {
        &self.sealer.env().clock
    }

    pub(crate) fn barrier(&self) -> Result<()> {
        Ok(self.storage().barrier()?)
    }

    pub(crate) fn put<P: Payload>(&self, name: &ObjectName, value: &P) -> Result<Put> {
        match self.sealer.put(name, P::KIND, &value.bytes()?) {
            Ok(()) => Ok(Put::Created),
            Err(error) if error.is_already_exists() => Ok(Put::Taken),
            Err(error) => Err(error.into()),
        }
    }

    /// Creates an object and makes it durable, after all that was put or read before.
    pub(crate) fn put_durably<P: Payload>(&self, name: &ObjectName, value: &P) -> Result<Put> {
        self.barrier()?;
        let put = self.put(name, value)?;
        if put == Put::Created {
            self.barrier()?;
        }
        Ok(put)
    }

    pub(crate) fn read<P: Payload>(&self, name: &ObjectName) -> Result<Read<P>> {
        let read = self.read_once(name)?;
        // A cache may have kept wrong bytes.
        if matches!(read, Read::Damaged(_)) && self.storage().drop_cached(name) {
            return self.read_once(name);
        }
        Ok(read)
    }

    fn read_once<P: Payload>(&self, name: &ObjectName) -> Result<Read<P>> {
        let stored = match self.storage().get(name) {
            Ok(stored) => stored,
            Err(StorageError::NotFound { .. }) => return Ok(Read::Missing),
            Err(error) => return Err(error.into()),
        };
        Ok(self.open(name, stored))
    }

    /// Opens bytes that were read as the object `name`.
    pub(crate) fn open<P: Payload>(&self, name: &ObjectName, stored: Vec<u8>) -> Read<P> {
        let damaged = |why: String| {
            Read::Damaged(DamagedObject {
                name: name.clone(),
                why,
                is_unread: false,
            })
        };
        match self.sealer.open_bytes(name, P::KIND, stored) {
            Ok(plain) => match P::parse(&plain) {
                Ok(value) => Read::Whole(value),
                Err(source) => damaged(format!("{name}: opens, but cannot be understood: {source}")),
            },
            Err(error) => damaged(error.to_string()),
        }
    }

    pub(crate) fn exists(&self, name: &ObjectName) -> Result<bool> {
        match self.storage().head(name) {
            Ok(_) => Ok(true),
            Err(StorageError::NotFound { .. }) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// Deletes an object. It is no error if another process has deleted it.
    pub(crate) fn delete(&self, name: &ObjectName) -> Result<()> {
        Ok(self.storage().delete_many(std::slice::from_ref(name))?)
    }

    /// How a session has ended, if it has.
    pub(crate) fn ending(&self, series: SeriesId, session: SessionId) -> Result<Option<EndedBy>> {
        let name = names::manifest(series, session, Revision::FIRST);
        Ok(match self.read::<Manifest>(&name)? {
            Read::Missing => None,
            Read::Whole(manifest) => Some(EndedBy::of(&manifest)),
            Read::Damaged(_) => Some(EndedBy::Unreadable),
        })
    }
}
