//! Frames over any stream of bytes, and TLS around one.
//!
//! A [`Channel`] has two halves, which two threads may use at once. A [`Connector`] or an
//! [`Acceptor`] puts TLS 1.3 around a channel. A client knows its server by the key of the server's
//! [`Authority`] ([`Pin`]), not by a name. So servers may move, and certificates may be renewed. A
//! [`Tunnel`] needs no TLS: `ssh`, or a socket of this machine.

mod address;
mod authority;
mod channel;
mod error;
mod frames;
mod secure;
mod tunnel;

pub use address::{Address, Invitation, PORT, is_namespace};
pub use authority::{Authority, Leaf, Pin};
pub use channel::{Channel, Closer, Input, Output, prepare};
pub use error::TransportError;
pub use frames::{FrameReader, FrameWriter, Traffic};
pub use secure::{Acceptor, Connector};
pub use tunnel::{Tunnel, TunnelEnd};

#[cfg(test)]
mod tests;
