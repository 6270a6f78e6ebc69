//! The NBD protocol: fixed newstyle negotiation, and transmission with simple and structured
//! replies.
//!
//! This crate has values and state machines only. It neither reads nor writes a socket, so every
//! byte of it can be tested. [`ServerHaggle`] is the server's side of the negotiation. [`Request`]
//! and [`Rules`] are what a server needs of the transmission, and [`reply`] encodes its answers.
//! [`client`] is the other side.
//!
//! Bytes come from strangers: nothing here panics on them, or stores more than [`OPTION_BYTES_MAX`]
//! of them. All numbers are big endian. The section names in the comments are those of the
//! protocol's document, `doc/proto.md` of the project `NetworkBlockDevice/nbd`.

mod bytes;
pub mod client;
mod export;
mod fault;
mod flags;
mod haggle;
pub mod numbers;
mod option;
pub mod probe;
pub mod reply;
mod request;
mod session;
#[cfg(test)]
mod tests;

pub use export::{ALLOCATION_CONTEXT, BlockSizes, ExportDetails, SelectedContext};
pub use fault::OptionFault;
pub use flags::{CommandFlags, TransmissionFlags};
pub use haggle::ServerHaggle;
pub use numbers::Errno;
pub use option::{ClientOption, MetaQuery, Wants};
pub use request::{Command, REQUEST_BYTES, Request, RequestFault, Rules};
pub use session::{CloseReason, GREETING, Step, TlsMode, Transmission};

/// A string of the protocol has at most so many bytes ("Conventions").
pub const STRING_BYTES_MAX: usize = 4096;
/// A server reads at most so many bytes of an option's data. It skips the data of a longer one.
pub const OPTION_BYTES_MAX: usize = 64 << 10;
/// The payload of a request or of a chunk of a reply that every client may use ("Size
/// constraints").
pub const PAYLOAD_BYTES_MAX: u32 = 32 << 20;
