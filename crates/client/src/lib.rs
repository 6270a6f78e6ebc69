//! Stores on a server, used like stores on this machine.
//!
//! [`join`] trades an invitation for a token, which [`Tokens`] keeps. [`open`] logs in to a
//! namespace of a server. If a store of the server has it, it is a [`RemoteRepository`]: backing
//! up, listing, restoring and dumping work on it as on a local store. If it is a vault, it is a
//! [`RemoteStorage`], and this process opens the store in it.

mod cache;
mod calls;
mod connection;
mod dial;
mod error;
mod inbox;
mod line;
mod link;
mod listings;
mod open;
mod reader;
mod repository;
mod session;
mod storage;
mod tokens;
mod vault_link;

pub use dial::{Access, Target, join};
pub use error::ClientError;
pub use listings::Listings;
pub use open::{Opened, open};
pub use repository::RemoteRepository;
pub use storage::RemoteStorage;
pub use tokens::Tokens;
