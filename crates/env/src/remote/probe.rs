//! Whether an object store keeps the promise on which a store is built: it creates an object once.

use object_store::path::Path;
use object_store::{Error, ObjectStoreExt, PutPayload};

use super::ObjectStoreStorage;
use super::failure::{at_opening, is_unknown_request};
use crate::StorageError;

impl ObjectStoreStorage {
    /// Creates an object twice, and removes it. Call this before a store is made here: if the
    /// object store ignored the condition of a put, two backups would overwrite each other.
    ///
    /// The object's name is none that an object of a store has, so nobody takes it for one.
    ///
    /// # Errors
    /// `Unusable` if the object was overwritten, or could not be created or removed.
    pub fn probe_creates(&self) -> Result<(), StorageError> {
        let path = Path::from(format!("{}.probe-{}", self.prefix, Self::fresh_id()));
        let failed = |error: Error| at_opening(&self.place.shown, &self.place.host, &error);
        let create = |bytes| self.create(&path, PutPayload::from_static(bytes), None);
        self.runtime.block_on(async {
            match create(b"1").await {
                Err(error) if is_unknown_request(&error) => return Err(self.overwrites()),
                created => created.map_err(failed)?,
            }
            let again = create(b"2").await;
            let removed = self.store.delete(&path).await;
            match again {
                Ok(()) => return Err(self.overwrites()),
                Err(Error::AlreadyExists { .. }) => {}
                Err(error) if is_unknown_request(&error) => return Err(self.overwrites()),
                Err(error) => return Err(failed(error)),
            }
            match removed {
                // Credentials that create and do not delete are a good choice for backups. One
                // object of one byte stays.
                Err(Error::PermissionDenied { .. } | Error::Unauthenticated { .. }) => Ok(()),
                removed => removed.map_err(failed),
            }
        })
    }

    fn overwrites(&self) -> StorageError {
        StorageError::Unusable {
            place: self.place.to_string(),
            why: "this object store overwrites an object although the request forbids it (If-None-Match), so backups that \
                  run at once could destroy each other; take an object store that supports conditional writes, or a \
                  newer version of this one"
                .to_owned(),
        }
    }
}
