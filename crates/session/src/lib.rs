//! Sessions: one process's work with the store, and the manifests that end it.
//!
//! A session claims a number that is never used again, shows that it lives, and declares its
//! references. It ends in exactly one way: by the object `backups/<series>/<session>.0`, which
//! commit, expiry and adoption race to create. The protocol needs only the storage's create-only
//! put: there is no coordinator, and clocks of two hosts are never compared. `docs/protocol.md` has
//! the order of operations on each object, and for each clause the function and the test.
//!
//! Invariant: INV-1 (a manifest follows what it reaches), INV-3 and INV-9 (the session's half: list
//! epochs, drain, obey the lists, answer, declare parents). All types may be shared between
//! threads. A process may die or sleep at any point of any function here; a later process ends what
//! it left.

mod adopt;
mod chain;
mod checkpoint;
mod claim;
mod commit;
mod damaged;
mod epoch_guard;
mod epochs;
mod error;
mod expire;
mod gc_sessions;
mod heartbeat;
mod heartbeat_thread;
mod lease;
mod list;
mod listed;
mod lost;
mod manifests;
mod named;
mod objects;
mod parents;
mod policy;
mod read;
mod revise;
mod select;
mod session;
mod session_listing;
mod session_table;
mod standing;
mod unreadable;
mod view;
mod watch;

#[cfg(test)]
mod tests;

pub use adopt::{Adoptable, Adopted};
pub use chain::ChainLink;
pub use checkpoint::{CheckpointTurn, Draft};
pub use claim::Begin;
pub use commit::Committed;
pub use damaged::DamagedObject;
pub use epoch_guard::EpochGuard;
pub use error::{EndedBy, SessionError};
pub use gc_sessions::{CollectedSessions, Tidier};
pub use heartbeat::Tick;
pub use heartbeat_thread::{HeartbeatTask, HeartbeatThread};
pub use lease::HeldLease;
pub use list::{CoveredBackup, ManifestEntry, ManifestList, StoredManifest};
pub use lost::LostBackup;
pub use manifests::Manifests;
pub use named::NamedContainers;
pub use policy::SessionPolicy;
pub use read::ReadEnd;
pub use revise::{Forgetting, Present, Seen};
pub use select::{Filter, bears};
pub use session::Session;
pub use session_listing::{Listing, SessionListing};
pub use session_table::{SessionInfo, SessionTable};
pub use unreadable::UnreadableSession;
pub use view::ReclaimView;
pub use watch::{DeadBecause, DeathWatch, Life};
