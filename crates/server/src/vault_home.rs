//! What the server's folder has of vaults: their folders, and who began their sessions.

use std::path::PathBuf;

use env::{Access, LocalStorage, StorageError};
use serde::{Deserialize, Serialize};
use types::{ObjectName, SessionId};

use crate::error::ServerError;
use crate::home::Home;

/// The token that began a session of a vault.
#[derive(Debug, Serialize, Deserialize)]
struct Owner {
    token: String,
}

fn owner(vault: &str, session: SessionId) -> String {
    format!("owners/{vault}/{session}")
}

impl Home {
    /// The folder with the objects of a vault.
    pub(crate) fn vault_folder(&self, namespace: &str) -> PathBuf {
        self.folder.join("vaults").join(namespace)
    }

    pub(crate) fn make_vault_folder(&self, namespace: &str) -> Result<(), ServerError> {
        if !transport::is_namespace(namespace) {
            return Err(ServerError::Refused(format!(
                "{namespace:?} is no name for a namespace: it has 1 to 64 small letters, digits, '-', '_' and '.', and \
                 does not begin with '.'"
            )));
        }
        LocalStorage::create_for(self.vault_folder(namespace), Access::Owner)?;
        Ok(())
    }

    /// Whether this token began the session.
    pub(crate) fn owns(&self, vault: &str, session: SessionId, token: &str) -> Result<bool, ServerError> {
        let owner: Option<Owner> = self.record(&owner(vault, session))?;
        Ok(owner.is_some_and(|owner| owner.token == token))
    }

    /// Records that this token began the session: it has created its claim. If the claim is new, an
    /// older record is of a session that gave the number back. Otherwise the owner stays. Returns
    /// whether the session is the token's.
    pub(crate) fn set_owner(
        &self,
        vault: &str,
        session: SessionId,
        token: &str,
        is_new: bool,
    ) -> Result<bool, ServerError> {
        let name = owner(vault, session);
        let record = Owner {
            token: token.to_owned(),
        };
        loop {
            match self.put_record(&name, &record) {
                Err(ServerError::Storage(StorageError::AlreadyExists { .. })) => {}
                put => return put.map(|()| true),
            }
            let is_own = self.owns(vault, session, token)?;
            if is_own || !is_new {
                return Ok(is_own);
            }
            self.drop_owner(vault, session)?;
        }
    }

    /// Forgets who began the session.
    pub(crate) fn drop_owner(&self, vault: &str, session: SessionId) -> Result<(), ServerError> {
        match self.env.storage.delete(&ObjectName::new(owner(vault, session))?) {
            Ok(()) | Err(StorageError::NotFound { .. }) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}
