//! Explicit-state models of two protocols: of sessions and reclamation, and of block volumes.
//!
//! Every state within a scenario's bounds is visited. With all rules on no property may be
//! violated; with a rule off, its scenario must show why the rule is there. The first protocol has
//! the modules of this crate's top; the second is [`volumes`]. Both use [`mod@search`].
//! `docs/protocol-model.md` and `docs/volumes-model.md` have the tables.

#![forbid(unsafe_code)]

pub mod action;
mod adoption;
pub mod archival;
pub mod cases;
pub mod environment;
pub mod explore;
mod marking;
pub mod properties;
pub mod reclaimer;
pub mod rewriting;
pub mod rules;
pub mod scenario;
pub mod scenarios;
pub mod search;
pub mod session;
pub mod slots;
pub mod state;
pub mod volumes;
