//! The tokens of this machine's user, in a folder that only he may read.
//!
//! One object for each namespace, `servers/<place>`, as JSON.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use env::{Access as Readers, LocalStorage, Storage, StorageError};
use serde::{Deserialize, Serialize};
use transport::Address;
use types::ObjectName;

use crate::dial::Access;
use crate::error::ClientError;

/// The folder with tokens.
#[derive(Debug, Clone)]
pub struct Tokens {
    folder: PathBuf,
}

#[derive(Serialize, Deserialize)]
struct Record {
    address: String,
    pin: String,
    token: String,
    rights: String,
}

fn failed(error: impl std::fmt::Display) -> ClientError {
    ClientError::Tokens(error.to_string())
}

/// The object of a namespace. Other characters than these are written as their numbers.
fn name(address: &Address) -> Result<ObjectName, ClientError> {
    let mut name = "servers/".to_owned();
    for c in format!("{}/{}", address.place(), address.namespace).chars() {
        if c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-' {
            name.push(c);
        } else {
            write!(name, "_{:x}.", u32::from(c)).map_err(failed)?;
        }
    }
    ObjectName::new(name).map_err(failed)
}

impl Tokens {
    /// The tokens in this folder, which need not exist.
    #[must_use]
    pub fn of(folder: impl AsRef<Path>) -> Self {
        Self {
            folder: folder.as_ref().to_owned(),
        }
    }

    /// Keeps the access to a namespace, instead of an earlier one.
    ///
    /// # Errors
    /// Of the storage.
    pub fn keep(&self, access: &Access) -> Result<(), ClientError> {
        let storage = LocalStorage::create_for(&self.folder, Readers::Owner).map_err(failed)?;
        let name = name(&access.address)?;
        let record = Record {
            address: access.address.to_string(),
            pin: access.pin.to_string(),
            token: access.token.clone(),
            rights: access.rights.clone(),
        };
        let text = serde_json::to_vec_pretty(&record).map_err(failed)?;
        match storage.delete(&name) {
            Ok(()) | Err(StorageError::NotFound { .. }) => {}
            Err(error) => return Err(failed(error)),
        }
        storage.put(&name, &[&text]).map_err(failed)?;
        storage.barrier().map_err(failed)
    }

    /// The access to a namespace.
    ///
    /// # Errors
    /// `NotJoined`; of the storage.
    pub fn find(&self, address: &Address) -> Result<Access, ClientError> {
        let none = || ClientError::NotJoined(address.clone());
        let storage = match LocalStorage::open(&self.folder) {
            Err(StorageError::NoFolder { .. }) => return Err(none()),
            opened => opened.map_err(failed)?,
        };
        let text = match storage.get(&name(address)?) {
            Err(StorageError::NotFound { .. }) => return Err(none()),
            read => read.map_err(failed)?,
        };
        let record: Record = serde_json::from_slice(&text).map_err(failed)?;
        let pin = record
            .pin
            .parse()
            .map_err(|()| failed("a pin that is not whole"))?;
        Ok(Access {
            address: address.clone(),
            pin,
            token: record.token,
            rights: record.rights,
        })
    }
}
