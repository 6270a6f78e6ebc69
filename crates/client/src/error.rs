//! Why a server gave no answer.

use ingest::IngestError;
use recipe::RecipeError;
use transport::{Address, TransportError};
use wire::{Refusal, RefusalKind};

/// The error of a client.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum ClientError {
    /// The server refused the request.
    #[error("the server: {0}")]
    Refused(Refusal),
    /// The connection could not be made, or broke.
    #[error("{0}")]
    Connection(String),
    /// The other end is not the server of the invitation, or cannot be spoken to safely.
    #[error("{0}")]
    Untrusted(String),
    /// The server does not keep to the protocol.
    #[error("the server breaks the protocol: {0}")]
    Protocol(String),
    /// This machine has no token for the namespace.
    #[error(
        "this machine has not joined {0}; ask for an invitation (`onefold server invite`), and run `onefold join`"
    )]
    NotJoined(Address),
    /// The folder for listings cannot be made.
    #[error("the folder for what this machine keeps of its backups: {0}")]
    Cache(String),
    /// The folder with tokens cannot be read or written.
    #[error("the folder with tokens: {0}")]
    Tokens(String),
}

impl ClientError {
    pub(crate) fn protocol(error: &format::FormatError) -> Self {
        Self::Protocol(error.to_string())
    }

    /// Whether the connection broke. A new one may do better.
    pub(crate) fn is_of_connection(&self) -> bool {
        matches!(self, Self::Connection(_)) || self.is_busy()
    }

    /// Whether the server did nothing, because others use it.
    pub(crate) fn is_busy(&self) -> bool {
        matches!(self, Self::Refused(refusal) if refusal.kind == RefusalKind::Busy)
    }
}

impl From<TransportError> for ClientError {
    fn from(error: TransportError) -> Self {
        match error {
            TransportError::Unreachable { .. } | TransportError::Broken(_) | TransportError::Closed => {
                Self::Connection(error.to_string())
            }
            other => Self::Untrusted(other.to_string()),
        }
    }
}

impl From<ClientError> for IngestError {
    fn from(error: ClientError) -> Self {
        match error {
            ClientError::Refused(refusal) if refusal.kind == RefusalKind::Previous => {
                Self::Previous(RecipeError::Unreadable(refusal.why))
            }
            other => Self::Connection(other.into()),
        }
    }
}

impl From<ClientError> for RecipeError {
    fn from(error: ClientError) -> Self {
        match error {
            ClientError::Refused(refusal) if refusal.kind == RefusalKind::Unreadable => {
                Self::Unreadable(refusal.why)
            }
            other => Self::Other(other.into()),
        }
    }
}

impl From<ClientError> for onefold::Error {
    fn from(error: ClientError) -> Self {
        match error {
            ClientError::Refused(refusal) if refusal.kind == RefusalKind::NotFound => {
                Self::NotFound(refusal.why)
            }
            ClientError::Refused(refusal) if refusal.kind == RefusalKind::Previous => {
                Self::Ingest(IngestError::Previous(RecipeError::Unreadable(refusal.why)))
            }
            other => Self::Elsewhere {
                is_broken: other.is_of_connection(),
                why: other.to_string(),
            },
        }
    }
}
