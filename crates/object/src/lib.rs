//! Sealed small objects by name, revisions of them, and the store's config.
//!
//! - [`Sealer`] puts and gets one object: a frame whose digest finds rot without a key, and whose
//!   tag binds it to its store, kind and name.
//! - [`Revisions`] creates the next object of a numbered series. The first creator wins.
//! - [`several`] reads many objects concurrently.
//! - [`config`] creates a store, opens it, and changes its passwords.
//!
//! Invariant: nothing is overwritten, so a rival or a crash leaves an object whole or absent. Bytes
//! from the storage never cause a panic (INV-8). Many threads and processes may call everything
//! here at once. An error says which object, what was found, and what to do next.

pub mod config;
mod error;
mod revisions;
mod sealer;
mod several;
mod slot_id;

pub use error::ObjectError;
pub use revisions::{Head, Next, Outcome, Revisions};
pub use sealer::{Sealer, list_named};
pub use several::{several, threaded};
