//! The server's folder.
//!
//! | object | content |
//! |---|---|
//! | `authority` | the secret key of the server's authority, PKCS 8 |
//! | `tenants/<name>` | JSON: where the tenant's store is |
//! | `namespaces/<name>` | JSON: the tenant that it belongs to; a vault belongs to none |
//! | `owners/<vault>/<session>` | JSON: the token that began a session of a vault |
//! | `limits/<namespace>/<revision>` | JSON: limits; the highest revision counts |
//! | `tokens/<id>` | JSON: a token, with the hash of its secret |
//! | `invitations/<id>` | JSON: an invitation, with the hash of its code |
//! | `spent/<id>` | empty: the invitation was used |
//! | `audit/<time>-<random>` | JSON: an event; of a refusal, the name ends with `-refused` |
//!
//! The objects are in the sub-folder `state`. Each is created once, and none is changed. A token
//! ends by the removal of its object. The objects of a vault are in `vaults/<name>`.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use env::{Access, Env, LocalStorage, StorageError};
use onefold::{Credential, InitOptions};
use serde::Serialize;
use serde::de::DeserializeOwned;
use transport::{Authority, Pin};
use types::ObjectName;

use crate::error::ServerError;
use crate::refusals::Refusals;

const AUTHORITY: &str = "authority";
const STATE: &str = "state";
/// The first tenant.
pub(crate) const MAIN: &str = "main";

/// The server's folder.
#[derive(Clone)]
pub struct Home {
    pub(crate) env: Env,
    pub(crate) folder: PathBuf,
    pub(crate) refusals: Arc<Refusals>,
}

impl Home {
    /// Makes a server's folder, with a first tenant whose store takes this credential.
    ///
    /// # Errors
    /// `Exists`; of the storage.
    pub fn init(
        folder: &Path,
        credential: &Credential,
        options: &InitOptions,
    ) -> Result<(Self, Pin), ServerError> {
        let storage = LocalStorage::create_for(folder.join(STATE), Access::Owner)?;
        let home = Self {
            env: Env::system(Arc::new(storage)),
            folder: folder.to_owned(),
            refusals: Arc::default(),
        };
        let exists = || ServerError::Exists(folder.display().to_string());
        if home.has_authority()? {
            return Err(exists());
        }
        home.add_tenant(MAIN, None, credential, options)?;
        // The last object: without it the folder is no server's.
        let authority = Authority::generate()?;
        match home.put(AUTHORITY, &[authority.key()]) {
            Err(ServerError::Storage(StorageError::AlreadyExists { .. })) => return Err(exists()),
            put => put?,
        }
        let pin = authority.pin()?;
        Ok((home, pin))
    }

    /// The server's folder, which exists.
    ///
    /// # Errors
    /// `NoServer`; of the storage.
    pub fn open(folder: &Path) -> Result<Self, ServerError> {
        let none = || ServerError::NoServer(folder.display().to_string());
        let storage = match LocalStorage::open(folder.join(STATE)) {
            Err(StorageError::NoFolder { .. }) => return Err(none()),
            opened => opened?,
        };
        let home = Self {
            env: Env::system(Arc::new(storage)),
            folder: folder.to_owned(),
            refusals: Arc::default(),
        };
        if home.has_authority()? {
            Ok(home)
        } else {
            Err(none())
        }
    }

    fn has_authority(&self) -> Result<bool, ServerError> {
        match self.env.storage.head(&ObjectName::new(AUTHORITY)?) {
            Err(StorageError::NotFound { .. }) => Ok(false),
            found => Ok(found.map(|_| true)?),
        }
    }

    /// The authority that signs the server's certificates.
    ///
    /// # Errors
    /// If its key cannot be read.
    pub fn authority(&self) -> Result<Authority, ServerError> {
        let key = self.env.storage.get(&ObjectName::new(AUTHORITY)?)?;
        Ok(Authority::from_key(&key)?)
    }

    pub(crate) fn put(&self, name: &str, parts: &[&[u8]]) -> Result<(), ServerError> {
        self.env.storage.put(&ObjectName::new(name)?, parts)?;
        Ok(self.env.storage.barrier()?)
    }

    pub(crate) fn put_record(&self, name: &str, record: &impl Serialize) -> Result<(), ServerError> {
        let text = serde_json::to_vec_pretty(record).map_err(|error| damaged(name, &error))?;
        self.put(name, &[&text])
    }

    /// A record, if it exists.
    pub(crate) fn record<T: DeserializeOwned>(&self, name: &str) -> Result<Option<T>, ServerError> {
        match self.env.storage.get(&ObjectName::new(name)?) {
            Err(StorageError::NotFound { .. }) => Ok(None),
            Err(error) => Err(error.into()),
            Ok(text) => serde_json::from_slice(&text)
                .map(Some)
                .map_err(|error| damaged(name, &error)),
        }
    }

    /// All records of a folder, by the last part of their names.
    pub(crate) fn records<T: DeserializeOwned>(&self, folder: &str) -> Result<Vec<(String, T)>, ServerError> {
        let mut all = Vec::new();
        for meta in self.env.storage.list(folder)? {
            let name = meta.name.as_str();
            if let Some(record) = self.record(name)? {
                let last = name.rsplit('/').next().unwrap_or_default();
                all.push((last.to_owned(), record));
            }
        }
        Ok(all)
    }
}

fn damaged(name: &str, error: &serde_json::Error) -> ServerError {
    ServerError::Damaged {
        name: name.to_owned(),
        why: error.to_string(),
    }
}

impl fmt::Debug for Home {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Home")
            .field("folder", &self.folder)
            .finish_non_exhaustive()
    }
}
