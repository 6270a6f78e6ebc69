//! Tenants: each is a store of its own, in a folder or in an object store.
//!
//! The record of a tenant has the place of its store, and no secret: the credentials of an object
//! store come from the server's environment.

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use env::{Access, Env};
use onefold::{Credential, InitOptions, ObjectStoreLocation, ObjectStoreOptions, OpenOptions, Store};
use serde::{Deserialize, Serialize};

use crate::error::ServerError;
use crate::home::Home;
use crate::namespaces::ensure_name;

/// Where the store of a tenant is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StorePlace {
    /// In a folder. A relative path begins at the server's folder.
    Folder(PathBuf),
    /// In an object store.
    ObjectStore(ObjectStoreLocation),
}

impl fmt::Display for StorePlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Folder(folder) => folder.display().fmt(f),
            Self::ObjectStore(location) => location.fmt(f),
        }
    }
}

/// A tenant of a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TenantInfo {
    /// Its name.
    pub name: String,
    /// Where its store is.
    pub store: StorePlace,
}

#[derive(Debug, Serialize, Deserialize)]
struct Tenant {
    /// The folder of its store, absolute or `stores/<name>`; or a location in an object store.
    store: PathBuf,
}

impl Tenant {
    fn place(&self) -> Result<StorePlace, ServerError> {
        let text = self.store.to_str();
        match text.filter(|text| ObjectStoreLocation::is_meant(text)) {
            None => Ok(StorePlace::Folder(self.store.clone())),
            Some(text) => match ObjectStoreLocation::from_str(text) {
                Ok(location) => Ok(StorePlace::ObjectStore(location)),
                Err(error) => Err(ServerError::Refused(error.to_string())),
            },
        }
    }
}

impl Home {
    /// Makes a tenant. Its store is at the given place, or in the server's folder.
    ///
    /// # Errors
    /// `Refused` if it exists; of the store.
    pub fn add_tenant(
        &self,
        name: &str,
        place: Option<&StorePlace>,
        credential: &Credential,
        options: &InitOptions,
    ) -> Result<(), ServerError> {
        ensure_name(name)?;
        if self.has_tenant(name)? {
            return Err(ServerError::Refused(format!("there is a tenant {name} already")));
        }
        let own = StorePlace::Folder(Path::new("stores").join(name));
        let place = place.unwrap_or(&own);
        let env = match place {
            StorePlace::Folder(folder) => Env::create_local_for(self.folder.join(folder), Access::Owner),
            StorePlace::ObjectStore(location) => {
                Env::create_object_store(location, &ObjectStoreOptions::default())
            }
        };
        env.map_err(onefold::Error::from)
            .and_then(|env| Store::init(&env, credential, options, None))
            .map_err(|error| of_store(name, error))?;
        let store = match place {
            StorePlace::Folder(folder) => folder.clone(),
            StorePlace::ObjectStore(location) => location.to_string().into(),
        };
        self.put_record(&format!("tenants/{name}"), &Tenant { store })
    }

    /// All tenants, by name.
    ///
    /// # Errors
    /// Of the storage; `Damaged`.
    pub fn tenants(&self) -> Result<Vec<TenantInfo>, ServerError> {
        let all = self.records::<Tenant>("tenants")?.into_iter();
        all.map(|(name, tenant)| {
            let store = tenant.place()?;
            Ok(TenantInfo { name, store })
        })
        .collect()
    }

    pub(crate) fn has_tenant(&self, name: &str) -> Result<bool, ServerError> {
        Ok(self.record::<Tenant>(&format!("tenants/{name}"))?.is_some())
    }

    /// Opens a tenant's store.
    ///
    /// # Errors
    /// `Refused` if there is no such tenant; `Away` if its object store cannot be used now; of the
    /// store.
    pub fn store(
        &self,
        name: &str,
        credential: &Credential,
        options: &OpenOptions,
    ) -> Result<Store, ServerError> {
        let tenant: Option<Tenant> = self.record(&format!("tenants/{name}"))?;
        let tenant = tenant.ok_or_else(|| ServerError::Refused(format!("there is no tenant {name}")))?;
        let place = tenant.place()?;
        let env = match &place {
            StorePlace::Folder(folder) => Store::find_local(&self.folder.join(folder)),
            StorePlace::ObjectStore(location) => {
                Env::object_store(location, &ObjectStoreOptions::default()).map_err(onefold::Error::from)
            }
        };
        let opened = env.and_then(|env| Store::open(&env, credential, options));
        opened.map_err(|error| match place {
            StorePlace::ObjectStore(_) if error.is_of_storage() => ServerError::Away {
                tenant: name.to_owned(),
                why: Some(Box::new(error)),
            },
            _ => of_store(name, error),
        })
    }
}

fn of_store(tenant: &str, error: onefold::Error) -> ServerError {
    ServerError::Store {
        tenant: tenant.to_owned(),
        source: Box::new(error),
    }
}
