//! Namespaces, and their limits.

use env::StorageError;
use onefold::TimeSpan;
use serde::{Deserialize, Serialize};
use types::ObjectName;

use crate::error::ServerError;
use crate::home::{Home, MAIN};

#[derive(Debug, Serialize, Deserialize)]
struct Namespace {
    /// `None`: it is a vault.
    tenant: Option<String>,
}

/// Where a namespace's backups are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Place {
    /// In the store of this tenant.
    Tenant(String),
    /// In a vault.
    Vault,
}

/// What a namespace may not do. The server enforces it, whatever rights a token has.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    /// Nobody forgets a younger backup over the network, by the clock of the store.
    pub minimum_age: Option<TimeSpan>,
    /// Bytes that its backups may add to the store.
    pub quota_bytes: Option<u64>,
    /// Bytes a second that its clients may send and receive.
    #[serde(default)]
    pub rate_bytes: Option<u64>,
}

/// A namespace of a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamespaceInfo {
    /// Its name.
    pub name: String,
    /// The tenant that it belongs to. `None`: it is a vault.
    pub tenant: Option<String>,
    /// Its limits.
    pub limits: Limits,
}

impl Home {
    /// Where the backups of a namespace are, if there is such a namespace.
    pub(crate) fn place_of(&self, namespace: &str) -> Result<Option<Place>, ServerError> {
        let found: Option<Namespace> = self.record(&format!("namespaces/{namespace}"))?;
        Ok(found.map(|namespace| namespace.tenant.map_or(Place::Vault, Place::Tenant)))
    }

    /// Makes a namespace of this tenant. It may exist.
    ///
    /// # Errors
    /// `Refused` if it belongs to another tenant, or there is no such tenant; of the storage.
    pub fn ensure_namespace(&self, namespace: &str, tenant: Option<&str>) -> Result<(), ServerError> {
        if let Some(present) = self.place_of(namespace)? {
            return match (present, tenant) {
                (_, None) => Ok(()),
                (Place::Tenant(present), Some(tenant)) if present == tenant => Ok(()),
                (Place::Tenant(present), _) => Err(ServerError::Refused(format!(
                    "the namespace {namespace} belongs to the tenant {present}"
                ))),
                (Place::Vault, _) => Err(ServerError::Refused(format!(
                    "the namespace {namespace} is a vault"
                ))),
            };
        }
        ensure_name(namespace)?;
        let tenant = tenant.unwrap_or(MAIN).to_owned();
        if !self.has_tenant(&tenant)? {
            return Err(ServerError::Refused(format!(
                "there is no tenant {tenant}; `onefold server tenant add` makes one"
            )));
        }
        let tenant = Some(tenant);
        self.put_record(&format!("namespaces/{namespace}"), &Namespace { tenant })?;
        self.record_event("namespace", namespace)
    }

    /// Makes a namespace that is a vault. It may exist.
    ///
    /// # Errors
    /// `Refused` if it belongs to a tenant, or cannot be a namespace's name; of the storage.
    pub fn ensure_vault(&self, namespace: &str) -> Result<(), ServerError> {
        match self.place_of(namespace)? {
            Some(Place::Vault) => return Ok(()),
            Some(Place::Tenant(tenant)) => {
                return Err(ServerError::Refused(format!(
                    "the namespace {namespace} belongs to the tenant {tenant}, and cannot become a vault"
                )));
            }
            None => {}
        }
        self.make_vault_folder(namespace)?;
        self.put_record(&format!("namespaces/{namespace}"), &Namespace { tenant: None })?;
        self.record_event("vault", namespace)
    }

    /// All namespaces, by name.
    ///
    /// # Errors
    /// Of the storage; `Damaged`.
    pub fn namespaces(&self) -> Result<Vec<NamespaceInfo>, ServerError> {
        let all = self.records::<Namespace>("namespaces")?.into_iter();
        all.map(|(name, Namespace { tenant })| {
            Ok(NamespaceInfo {
                limits: self.limits(&name)?,
                name,
                tenant,
            })
        })
        .collect()
    }

    /// The limits of a namespace.
    ///
    /// # Errors
    /// Of the storage; `Damaged`.
    pub fn limits(&self, namespace: &str) -> Result<Limits, ServerError> {
        loop {
            let Some(newest) = self.limits_of(namespace)?.pop() else {
                return Ok(Limits::default());
            };
            // It is gone if a newer one replaced it meanwhile.
            if let Some(limits) = self.record(newest.as_str())? {
                return Ok(limits);
            }
        }
    }

    /// Changes the limits of a namespace. They hold from its next operation on.
    ///
    /// # Errors
    /// `Refused` if there is no such namespace; of the storage.
    pub fn change_limits(
        &self,
        namespace: &str,
        change: impl Fn(Limits) -> Limits,
    ) -> Result<Limits, ServerError> {
        match self.place_of(namespace)? {
            Some(Place::Tenant(_)) => {}
            Some(Place::Vault) => {
                let Limits {
                    minimum_age: None,
                    quota_bytes: None,
                    ..
                } = change(Limits::default())
                else {
                    return Err(ServerError::Refused(format!(
                        "the namespace {namespace} is a vault: the server cannot tell its backups apart, and limits \
                         their rate alone"
                    )));
                };
            }
            None => {
                return Err(ServerError::Refused(format!(
                    "there is no namespace {namespace}; `onefold server namespace list` shows them"
                )));
            }
        }
        loop {
            let before = self.limits_of(namespace)?;
            let revision = before.last().map_or(0, |name| revision_of(name) + 1);
            let limits = change(self.limits(namespace)?);
            match self.put_record(&format!("limits/{namespace}/{revision:010}"), &limits) {
                // Somebody else changed them at the same time.
                Err(ServerError::Storage(StorageError::AlreadyExists { .. })) => continue,
                put => put?,
            }
            for old in before {
                match self.env.storage.delete(&old) {
                    Err(StorageError::NotFound { .. }) => {}
                    deleted => deleted?,
                }
            }
            self.record_event("limits", namespace)?;
            return Ok(limits);
        }
    }

    /// The revisions of a namespace's limits, in order.
    fn limits_of(&self, namespace: &str) -> Result<Vec<ObjectName>, ServerError> {
        let listed = self.env.storage.list(&format!("limits/{namespace}"))?;
        let mut names: Vec<ObjectName> = listed.into_iter().map(|meta| meta.name).collect();
        names.sort();
        Ok(names)
    }
}

/// Refuses names that no address can have.
pub(crate) fn ensure_name(name: &str) -> Result<(), ServerError> {
    if transport::is_namespace(name) {
        return Ok(());
    }
    Err(ServerError::Refused(format!(
        "{name:?} is no name: it needs 1 to 64 small letters, digits, '-', '_' and '.', and does not begin with '.'"
    )))
}

fn revision_of(name: &ObjectName) -> u64 {
    name.parts()
        .last()
        .and_then(|last| last.parse().ok())
        .unwrap_or(0)
}
