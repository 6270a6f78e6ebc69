//! The server: many machines back up to its stores.
//!
//! A server has a folder ([`Home`]) with its identity, its tokens and its tenants. A tenant is a
//! store of its own; a namespace belongs to one tenant, and is what a token is for. [`Server`]
//! speaks the protocol of `wire` with any number of clients, each on a thread of its own.
//!
//! Invariants:
//! - The server stores no chunk whose bytes do not match the fingerprint under which later backups
//!   find it, and no segment whose chunks do not (B2).
//! - A client sees and names only backups of the namespace that its token is for, and only with the
//!   rights that the token has.
//! - Secrets of tokens and invitations are stored hashed.
//! - A namespace may be a vault instead: the objects of a store that the server cannot read. A
//!   client without the right to maintain it creates only what a backup creates, and deletes
//!   nothing but what its own sessions leave.

mod accepting;
mod access;
mod backup;
mod balance;
mod calls;
mod checked;
mod connection;
mod error;
mod gate;
mod guests;
mod home;
mod listen;
mod manifests;
mod memory;
mod namespaces;
mod peer;
mod quota;
mod rate;
mod reading;
mod refusals;
mod rights;
mod running;
mod server;
mod shares;
mod socket;
mod state;
mod stores;
mod tenants;
#[cfg(test)]
mod tests;
mod token_watch;
mod vault;
mod vault_home;
mod vault_reading;
mod vault_rights;
mod vault_serving;
#[cfg(test)]
mod vault_tests;

pub use access::{Invited, TokenInfo};
pub use connection::Granted;
pub use error::ServerError;
pub use home::Home;
pub use listen::Listener;
pub use namespaces::{Limits, NamespaceInfo};
pub use peer::Deadline;
pub use rights::{Right, Rights};
pub use server::Server;
pub use socket::SocketListener;
pub use tenants::{StorePlace, TenantInfo};
