//! Object stores, through the `object_store` crate.
//!
//! Invariant: the storage creates objects and replaces none, so the object store must support
//! conditional puts. An object is durable when its put returns, so `barrier` has nothing to do.
//! There are no locks, so heartbeats show which sessions live. One put, read or head is one
//! request. A delete is two, because object stores do not say whether the object existed.
//!
//! The workspace is synchronous. Requests run on a private runtime, driven by the calling threads,
//! any number of them at once. So the methods must not be called from asynchronous code.
//!
//! A put whose answer was lost may have succeeded. So each put has an id of its own, which the
//! object keeps as metadata. If the name is taken by an object with that id, the put has succeeded.

mod ahead;
mod azure;
mod connect;
mod credentials;
mod failure;
mod google;
mod limited;
mod listings;
mod location;
mod options;
mod pace;
mod probe;
mod profile;
mod reads;
#[cfg(test)]
mod tests;
mod uploads;

use std::collections::BTreeSet;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::{StreamExt, future};
use object_store::path::Path;
use object_store::{
    Attribute, Attributes, Error, GetOptions, GetRange, GetResult, ObjectMeta as RemoteMeta, ObjectStore,
    ObjectStoreExt, PutMode, PutOptions, PutPayload,
};
use types::{ByteRange, ObjectName, UnixNanos};

use self::ahead::{Ahead, Step};
use self::connect::Place;
use self::failure::{is_break, is_unanswered, storage_error};
use self::limited::PIECE_BYTES;
use self::listings::{Listings, folders_of, objects_of};
pub use self::location::{LocationError, ObjectStoreLocation};
pub use self::options::{ObjectStoreOptions, StorageClass, StorageClassError};
use crate::plain::{each_deleted, folder_prefix};
use crate::{
    Entropy, ListingOf, LockState, Moment, ObjectMeta, ProcessLock, Storage, StorageError, SystemEntropy,
};

/// The metadata with the id of the put that created an object.
const PUT_ID: &str = "onefold-put";
/// The same at Azure, where such names are words.
const AZURE_PUT_ID: &str = "onefoldput";
/// How often a put without an answer is repeated, and how long each repetition waits.
const REPEATS_MAX: u32 = 5;
const PAUSE: Duration = Duration::from_secs(1);

/// A storage in an object store, under a prefix.
#[derive(Debug)]
pub struct ObjectStoreStorage {
    store: Arc<dyn ObjectStore>,
    /// Empty, or ending in a slash.
    prefix: String,
    place: Place,
    put_id: &'static str,
    class: Option<StorageClass>,
    /// Objects are sent piece by piece.
    is_limited: bool,
    listings: Listings,
    ahead: Ahead,
    runtime: tokio::runtime::Runtime,
}

impl ObjectStoreStorage {
    /// All objects of this object store whose names begin with `prefix` and a slash; all objects
    /// with `""`.
    ///
    /// # Errors
    /// `Io` if the prefix is not allowed, or no runtime can be made.
    pub fn new(store: Arc<dyn ObjectStore>, prefix: &str) -> Result<Self, StorageError> {
        let fail = |source| StorageError::Io {
            action: "open",
            name: prefix.to_owned(),
            source,
        };
        let path =
            Path::parse(prefix).map_err(|error| fail(io::Error::new(io::ErrorKind::InvalidInput, error)))?;
        let prefix = if path.as_ref().is_empty() {
            String::new()
        } else {
            format!("{path}/")
        };
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(fail)?;
        Ok(Self {
            store,
            place: Place {
                shown: prefix.clone(),
                host: String::new(),
                identity: None,
            },
            prefix,
            put_id: PUT_ID,
            class: None,
            is_limited: false,
            listings: Listings::default(),
            ahead: Ahead::default(),
            runtime,
        })
    }

    fn path(&self, name: &ObjectName) -> Path {
        Path::from(format!("{}{name}", self.prefix))
    }

    /// The path to list: `None` means everything, without any prefix.
    fn folder_path(&self, folder: &str) -> Result<Option<Path>, StorageError> {
        let whole = format!("{}{}", self.prefix, folder_prefix(folder)?);
        let whole = whole.trim_end_matches('/');
        Ok((!whole.is_empty()).then(|| Path::from(whole)))
    }

    /// The name of one of our objects. There may be foreign ones.
    fn name_of(&self, path: &Path) -> Option<ObjectName> {
        ObjectName::new(path.as_ref().strip_prefix(&self.prefix)?).ok()
    }

    fn meta_of(name: ObjectName, meta: &RemoteMeta) -> ObjectMeta {
        let put_at = UnixNanos::new(meta.last_modified.timestamp_nanos_opt().unwrap_or(0));
        ObjectMeta {
            name,
            len: meta.size,
            space: meta.size,
            put_at,
        }
    }

    async fn request(&self, name: &ObjectName, range: Option<GetRange>) -> Result<GetResult, Error> {
        self.store
            .get_opts(
                &self.path(name),
                GetOptions {
                    range,
                    ..GetOptions::default()
                },
            )
            .await
    }

    /// An id that no other put has.
    fn fresh_id() -> String {
        let mut bytes = [0; 16];
        SystemEntropy.fill(&mut bytes);
        bytes.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// Creates an object. `AlreadyExists` if another put has created it.
    async fn create(
        &self,
        path: &Path,
        payload: PutPayload,
        class: Option<&StorageClass>,
    ) -> Result<(), Error> {
        let id = Self::fresh_id();
        let attribute = Attribute::Metadata(self.put_id.into());
        let mut attributes = Attributes::new();
        attributes.insert(attribute.clone(), id.clone().into());
        if let Some(class) = class {
            attributes.insert(Attribute::StorageClass, class.word.clone().into());
        }
        let mut repeats = 0;
        loop {
            let options = PutOptions {
                mode: PutMode::Create,
                attributes: attributes.clone(),
                ..PutOptions::default()
            };
            let Err(error) = self.store.put_opts(path, payload.clone(), options).await else {
                return Ok(());
            };
            let is_taken = matches!(error, Error::AlreadyExists { .. } | Error::Precondition { .. });
            if is_taken {
                let head = GetOptions {
                    head: true,
                    ..GetOptions::default()
                };
                match self.store.get_opts(path, head).await {
                    Ok(found) if found.attributes.get(&attribute).is_some_and(|it| **it == *id) => {
                        return Ok(());
                    }
                    Ok(_) => {
                        return Err(Error::AlreadyExists {
                            path: path.to_string(),
                            source: error.into(),
                        });
                    }
                    // It was deleted meanwhile. S3 also says so of a put beside a delete.
                    Err(Error::NotFound { .. }) if repeats < REPEATS_MAX => {}
                    Err(Error::NotFound { .. }) => {
                        return Err(Error::Generic {
                            store: "object store",
                            source: "it says again and again that there is an object, and has none".into(),
                        });
                    }
                    Err(error) => return Err(error),
                }
            } else if !is_unanswered(&error) {
                return Err(error);
            }
            if repeats == REPEATS_MAX {
                return Err(error);
            }
            repeats += 1;
            tokio::time::sleep(PAUSE * repeats).await;
        }
    }

    async fn head_of(&self, name: &ObjectName) -> Result<RemoteMeta, StorageError> {
        self.store
            .head(&self.path(name))
            .await
            .map_err(|error| storage_error("look up", name.as_str(), error))
    }
}

impl Storage for ObjectStoreStorage {
    fn put(&self, name: &ObjectName, parts: &[&[u8]]) -> Result<(), StorageError> {
        // Pieces share the bytes of their part.
        let pieces = |part: &&[u8]| {
            let whole = Bytes::copy_from_slice(part);
            let step = if self.is_limited {
                PIECE_BYTES
            } else {
                whole.len().max(1)
            };
            let begins = (0..whole.len()).step_by(step);
            let pieces = begins.map(|begin| whole.slice(begin..whole.len().min(begin + step)));
            pieces.collect::<Vec<Bytes>>()
        };
        let payload: PutPayload = parts.iter().flat_map(pieces).collect();
        self.ahead.forget(name);
        let path = self.path(name);
        let class = self.class.as_ref().filter(|class| class.is_of(name.as_str()));
        match self.runtime.block_on(self.create(&path, payload, class)) {
            Ok(()) => Ok(()),
            Err(Error::AlreadyExists { .. }) => Err(StorageError::AlreadyExists { name: name.clone() }),
            Err(error) => Err(storage_error("put", name.as_str(), error)),
        }
    }

    fn barrier(&self) -> Result<(), StorageError> {
        Ok(())
    }

    fn get(&self, name: &ObjectName) -> Result<Vec<u8>, StorageError> {
        self.runtime.block_on(async {
            let fail = |error| storage_error("read", name.as_str(), error);
            Ok(self
                .request(name, None)
                .await
                .map_err(fail)?
                .bytes()
                .await
                .map_err(fail)?
                .into())
        })
    }

    fn get_range(&self, name: &ObjectName, range: ByteRange) -> Result<Vec<u8>, StorageError> {
        let wanted = match self.ahead.step(name, range) {
            Step::Kept(bytes) => return Ok(bytes),
            Step::Read(wanted) => wanted,
        };
        self.runtime.block_on(async {
            if wanted > range.len {
                let read = self.read_ahead(name, range, wanted).await;
                if let Some(bytes) = read.map_err(|error| storage_error("read", name.as_str(), error))? {
                    return Ok(bytes);
                }
            }
            self.read_range(name, range).await
        })
    }

    fn get_tail(&self, name: &ObjectName, len: u64) -> Result<(Vec<u8>, u64), StorageError> {
        self.runtime.block_on(self.read_tail(name, len))
    }

    fn head(&self, name: &ObjectName) -> Result<ObjectMeta, StorageError> {
        let meta = self.runtime.block_on(self.head_of(name))?;
        Ok(Self::meta_of(name.clone(), &meta))
    }

    fn list(&self, folder: &str) -> Result<Vec<ObjectMeta>, StorageError> {
        Ok(objects_of(self.listed(ListingOf::Objects(folder), None)?))
    }

    fn list_folders(&self, folder: &str) -> Result<Vec<String>, StorageError> {
        Ok(folders_of(self.listed(ListingOf::Folders(folder), None)?))
    }

    fn list_in(&self, folder: &str, sub_folders: &BTreeSet<String>) -> Result<Vec<ObjectMeta>, StorageError> {
        self.runtime.block_on(self.list_some(folder, sub_folders))
    }

    fn is_far(&self) -> bool {
        true
    }

    fn identity(&self) -> Option<String> {
        self.place.identity.clone()
    }

    fn moment(&self) -> Moment {
        self.listings.now()
    }

    fn look_ahead(&self, all: &[ListingOf<'_>]) {
        let each = all.iter().map(|of| self.list_now(*of));
        self.runtime.block_on(future::join_all(each));
    }

    fn list_since(&self, folder: &str, since: Moment) -> Result<Vec<ObjectMeta>, StorageError> {
        Ok(objects_of(self.listed(ListingOf::Objects(folder), Some(since))?))
    }

    fn list_folders_since(&self, folder: &str, since: Moment) -> Result<Vec<String>, StorageError> {
        Ok(folders_of(self.listed(ListingOf::Folders(folder), Some(since))?))
    }

    fn delete(&self, name: &ObjectName) -> Result<(), StorageError> {
        self.ahead.forget(name);
        self.runtime.block_on(async {
            self.head_of(name).await?;
            let path = self.path(name);
            let mut repeats = 0;
            loop {
                match self.store.delete(&path).await {
                    Ok(()) => return Ok(()),
                    Err(error) if is_break(&error) && repeats < REPEATS_MAX => {}
                    Err(error) => {
                        return match storage_error("delete", name.as_str(), error) {
                            // It was there. A rival has deleted it, or an attempt without answer.
                            StorageError::NotFound { .. } => Ok(()),
                            error => Err(error),
                        };
                    }
                }
                repeats += 1;
                tokio::time::sleep(PAUSE * repeats).await;
            }
        })
    }

    fn delete_many(&self, names: &[ObjectName]) -> Result<(), StorageError> {
        for name in names {
            self.ahead.forget(name);
        }
        let paths: Vec<Result<Path, Error>> = names.iter().map(|name| Ok(self.path(name))).collect();
        let paths = futures::stream::iter(paths).boxed();
        let deleted = self.store.delete_stream(paths);
        let is_done = |done: &Result<Path, Error>| matches!(done, Ok(_) | Err(Error::NotFound { .. }));
        let done = self
            .runtime
            .block_on(deleted.all(|done| future::ready(is_done(&done))));
        if done {
            return Ok(());
        }
        // Not every object store deletes many at once. One by one shows what is wrong.
        each_deleted(names, |name| self.delete(name))
    }

    fn drop_cached(&self, name: &ObjectName) -> bool {
        self.ahead.forget(name)
    }

    fn lock(&self, _: &ObjectName) -> Result<Option<Box<dyn ProcessLock>>, StorageError> {
        Ok(None)
    }

    fn lock_state(&self, _: &ObjectName) -> Result<LockState, StorageError> {
        Ok(LockState::Unknown)
    }

    fn drop_lock(&self, _: &ObjectName) -> Result<(), StorageError> {
        Ok(())
    }
}

fn short(name: &ObjectName) -> StorageError {
    let source = io::ErrorKind::UnexpectedEof.into();
    StorageError::Io {
        action: "read",
        name: name.to_string(),
        source,
    }
}
