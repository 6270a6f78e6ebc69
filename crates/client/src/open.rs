//! Opening a namespace, of either kind.

use std::sync::Arc;

use env::{Clock, Entropy};

use crate::dial::{Dialer, Target};
use crate::error::ClientError;
use crate::repository::RemoteRepository;
use crate::storage::RemoteStorage;

/// A namespace of a server.
#[derive(Debug)]
pub enum Opened {
    /// Backups in a store that the server has open.
    Repository(RemoteRepository),
    /// A vault: the objects of a store that this process opens itself.
    Vault(RemoteStorage),
}

impl Opened {
    /// The namespace of a store that the server has open.
    ///
    /// # Errors
    /// `Protocol` if it is a vault.
    pub fn into_repository(self) -> Result<RemoteRepository, ClientError> {
        match self {
            Self::Repository(repository) => Ok(repository),
            Self::Vault(_) => Err(ClientError::Protocol("the namespace is a vault".to_owned())),
        }
    }
}

/// Logs in to a namespace.
///
/// # Errors
/// If the server cannot be reached, is another one, or refuses the token.
pub fn open(
    target: Target,
    clock: &Arc<dyn Clock>,
    entropy: &Arc<dyn Entropy>,
) -> Result<Opened, ClientError> {
    let dialer = Dialer::new(target, clock)?;
    let (connection, told) = dialer.log_in_told()?;
    Ok(match told.vault {
        None => Opened::Repository(RemoteRepository::of(dialer, connection, clock, entropy)),
        Some(handle) => {
            let storage = RemoteStorage::new(dialer, connection, handle, &told.rights, clock);
            Opened::Vault(storage)
        }
    })
}
