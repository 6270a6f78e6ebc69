//! Reclaiming space: retention, grouped mark-and-sweep, removal beside running backups [Guo 2.2,
//! 3.3] (G7-G9).
//!
//! Invariant: nothing is removed that a kept backup, a running session, a declared parent or
//! an adoption that counts may reach (INV-3). No look-up returns data that is about to be removed
//! (INV-9). Every step may be repeated, and any process may die or sleep between two steps
//! (docs/protocol.md, "The reclaimer's half").

mod compact;
mod context;
mod dead_sessions;
mod epoch;
mod epochs;
mod error;
mod exclusive_bytes;
mod expire_metadata;
mod final_list;
mod forward_pins;
mod heal;
mod hooks;
mod in_use;
mod inputs;
mod links;
mod list;
mod log;
mod lost_backups;
mod manifests;
mod mark;
mod mark_overflow;
mod mark_sweep;
mod marks;
mod objects;
mod open;
mod options;
mod plan;
mod preview;
mod progress;
mod prune;
mod remove;
mod repair;
mod reverse;
mod rewrite;
mod scarce;
mod slots;
mod sweep;
#[cfg(test)]
mod test_store;
mod warning;

pub use compact::Packing;
pub use context::Context;
pub use error::{ReclaimError, Result};
pub use exclusive_bytes::{Exclusive, exclusive};
pub use heal::{HealReport, Healed, heal, rewrite};
pub use links::Links;
pub use options::{PruneOptions, PruneReport};
pub use plan::{Limits, Unused};
pub use preview::{Preview, preview};
pub use progress::{Progress, Waiting, WaitingRole};

pub use prune::prune;
pub use repair::{Repair, Repaired, repair};
pub use reverse::{Due, Optimized, Sharing, optimize};
pub use rewrite::{OptimizeOptions, complete};
pub use warning::Warning;
pub mod reserve;
pub mod retention;
