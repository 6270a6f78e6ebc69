//! Why a server cannot start.

use std::io;

/// The target of events in the log.
pub(crate) const TARGET: &str = "onefold::volume-server";

/// The error of a server. What happens to a single connection is logged instead.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServeError {
    /// The server cannot listen there.
    #[error("cannot listen on {place}: {source}")]
    Listen {
        /// The address or path.
        place: String,
        /// The system's error.
        source: io::Error,
    },
    /// The path of a socket is another file.
    #[error("cannot listen on {place}: it is a file and not a socket; name another path")]
    NoSocket {
        /// The path.
        place: String,
    },
    /// Another server listens on the path.
    #[error("cannot listen on {place}: another server uses it; end that server first")]
    InUse {
        /// The path.
        place: String,
    },
    /// A certificate or key cannot be read.
    #[error("{what} cannot be read: {why}")]
    Certificate {
        /// The certificate or key.
        what: &'static str,
        /// What is wrong.
        why: String,
    },
    /// The system starts no thread.
    #[error("the system starts no thread: {0}")]
    Thread(#[source] io::Error),
}

/// Why a connection ended early.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Broken {
    /// The socket.
    #[error("the connection broke: {0}")]
    Io(#[from] io::Error),
    /// TLS.
    #[error("TLS failed: {0}")]
    Tls(#[from] rustls::Error),
    /// The negotiation.
    #[error("{0}")]
    Closed(#[from] nbd::CloseReason),
    /// What the client sent where a request begins.
    #[error("{0}")]
    Request(#[from] nbd::RequestFault),
    /// A write that is too long to skip.
    #[error("the client sends a write of {bytes} bytes")]
    LongWrite {
        /// Its bytes.
        bytes: u32,
    },
    /// A read failed whose first bytes were sent. The protocol has no other way to tell it.
    #[error("a read failed after its first bytes were sent")]
    HalfRead,
}
