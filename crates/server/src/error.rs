//! Why a server cannot do something.

use types::NameError;

/// The target of events in the log.
pub(crate) const TARGET: &str = "onefold::server";

/// The error of a server.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServerError {
    /// The server's folder cannot be read or written.
    #[error("the server's folder: {0}")]
    Storage(#[from] env::StorageError),
    /// There is no server in the folder.
    #[error("{0} is no server's folder: make one with `onefold server init`")]
    NoServer(String),
    /// There is a server in the folder already.
    #[error("{0} is a server's folder already")]
    Exists(String),
    /// A record of the folder cannot be read.
    #[error("{name} in the server's folder cannot be read: {why}")]
    Damaged {
        /// The record.
        name: String,
        /// What is wrong.
        why: String,
    },
    /// The connection or the certificate.
    #[error(transparent)]
    Transport(#[from] transport::TransportError),
    /// A tenant's store.
    #[error("the store of tenant {tenant}: {source}")]
    Store {
        /// The tenant.
        tenant: String,
        /// The store's error.
        source: Box<onefold::Error>,
    },
    /// The object store of a tenant cannot be used now. It may be used later.
    #[error(
        "the object store of tenant {tenant} cannot be used now{}",
        why.as_ref().map_or_else(String::new, |why| format!(": {why}"))
    )]
    Away {
        /// The tenant.
        tenant: String,
        /// The reason, if the server has just tried.
        why: Option<Box<onefold::Error>>,
    },
    /// A name that the folder cannot hold.
    #[error("{0}")]
    Name(#[from] NameError),
    /// Something that does not exist, or cannot be done.
    #[error("{0}")]
    Refused(String),
    /// The server cannot listen there.
    #[error("cannot listen on {place}: {source}")]
    Listen {
        /// The address or path.
        place: String,
        /// The system's error.
        source: std::io::Error,
    },
}
