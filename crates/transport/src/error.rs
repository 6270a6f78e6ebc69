//! Why a connection cannot go on.

use std::io;

use wire::FrameError;

/// The error of a connection.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TransportError {
    /// An address or an invitation that is not understood.
    #[error("{text:?} is no address of a server: {why}")]
    Address {
        /// As it was typed.
        text: String,
        /// The rule that it breaks.
        why: &'static str,
    },
    /// Nobody answers there.
    #[error("cannot reach {place}: {source}; is the server running, and its port open?")]
    Unreachable {
        /// Host and port.
        place: String,
        /// The system's error.
        source: io::Error,
    },
    /// The system's error.
    #[error("the connection broke: {0}")]
    Broken(#[from] io::Error),
    /// The other end has closed the connection in the middle of a frame.
    #[error("the connection broke: the other end closed it")]
    Closed,
    /// TLS refused the other end.
    #[error("the other end is not the expected one: {0}")]
    Untrusted(rustls::Error),
    /// The server's key or certificate cannot be made.
    #[error("the server's certificate cannot be made: {0}")]
    Certificate(String),
    /// A frame that this end does not read.
    #[error("the other end breaks the protocol: {0}")]
    Frame(#[from] FrameError),
}
