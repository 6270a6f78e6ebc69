//! The protocol of volumes: interceptor, finder, collector, index of duplicates, crashes.
//!
//! `docs/volumes-model.md` has the tables.

pub mod action;
pub mod cases;
pub mod crash;
pub mod device;
pub mod explore;
pub mod finder;
pub mod handover;
pub mod index;
pub mod interceptor;
mod larger;
pub mod log;
pub mod properties;
pub mod root;
pub mod rules;
pub mod scenario;
pub mod scenarios;
pub mod sets;
pub mod snapshot;
pub mod state;
