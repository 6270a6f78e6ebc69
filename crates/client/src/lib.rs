//! Stores on a server, used like stores on this machine.
//!
//! [`join`] trades an invitation for a token, which [`Tokens`] keeps. A [`RemoteRepository`] is a
//! namespace of a server: backing up, listing, restoring and dumping work on it as on a local
//! store.

mod cache;
mod calls;
mod connection;
mod dial;
mod error;
mod inbox;
mod link;
mod listings;
mod reader;
mod repository;
mod session;
mod tokens;

pub use dial::{Access, Target, join};
pub use error::ClientError;
pub use listings::Listings;
pub use repository::RemoteRepository;
pub use tokens::Tokens;
