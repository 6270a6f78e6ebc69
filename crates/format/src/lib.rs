//! Every persistent byte of Onefold: encode, decode, golden vectors.

pub mod config;
pub mod container;
pub mod listing;
pub mod manifest;
pub mod node;
pub mod reclaim;
pub mod session;
