//! Serves devices by NBD: sockets, TLS, threads.
//!
//! A [`Server`] listens on Unix sockets and networks, and serves anything behind the trait
//! [`Export`]. The protocol itself is in crate `nbd`. [`client`] is a small client, for tests.
//!
//! What a request costs, if several wait: a part of one receive and of one send, and the export's
//! own work; no allocation, and no lock that another thread wants. A request that waits for a
//! device hands receiving to another thread ([`ServerSettings::threads_of_connection_max`]).

pub mod client;
mod connection;
mod deadline;
mod error;
mod execute;
mod export;
mod handshake;
mod holes;
mod input;
mod listen;
mod output;
mod pace;
mod pool;
mod server;
mod shared;
mod socket;
mod stats;
mod threads;
mod tls;

pub use error::ServeError;
pub use export::{Export, ExportError, ExportRead, Exports, RunState, Runs, Zeroing};
pub use holes::Holes;
pub use listen::Place;
pub use pool::PoolExports;
pub use server::Server;
pub use shared::{ServerSettings, TlsSettings};
pub use stats::ExportStats;
pub use tls::TlsIdentity;
