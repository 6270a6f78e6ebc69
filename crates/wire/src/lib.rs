//! The messages between a client and a server, without any I/O.
//!
//! Both ends send frames ([`Head`]) over any stream of bytes. A frame carries one message in the
//! encoding of [`Wire`]. A client asks with a number, and the answer has the same number. While a
//! backup runs, the server also sends verdicts unasked. [`request`] and [`reply`] list the kinds.
//!
//! Bytes from the other end never cause a panic. A message that breaks a rule is a
//! [`FormatError`](format::FormatError), and the receiver ends the connection.

mod catalog;
mod children;
mod codec;
mod control;
mod frame;
mod kinds;
mod offer;
#[doc(hidden)]
pub mod probe;
mod refusal;
mod session;
mod storage;

pub use catalog::{AskedRegions, SentCatalog};
pub use children::{KnownStream, SentChildren};
pub use codec::Wire;
pub use control::{Hello, Joined, Joining, Login, Manifests, Progress, ReadBegun, Welcome};
pub use frame::{ANSWER_BYTES_MAX, FRAME_BYTES_MAX, FrameError, HEAD_BYTES, Head, frame_into};
pub use kinds::{reply, request};
pub use offer::{RegionHead, Sendable, Sent};
pub use refusal::{Refusal, RefusalKind};
pub use session::{Begin, Begun, CommittedBackup, Parents, REPLACED_MAX, SentManifest, Sought};
pub use storage::{
    GOT_BYTES_MAX, LISTED_MAX, LoggedIn, OBJECT_BYTES_MAX, PUT_BYTES_MAX, PutPart, StorageRequest,
    WantedBytes,
};

/// The newest version of the protocol that this crate speaks, ...
pub const VERSION: u16 = 1;
/// ... and the oldest.
pub const VERSION_MIN: u16 = 1;
/// The first bytes of the first message of a client.
pub const MAGIC: [u8; 8] = *b"onefold1";

#[cfg(test)]
mod tests;
