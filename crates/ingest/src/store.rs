//! The store's half of a backup: finds duplicates, packs, writes, commits.

mod builders;
mod close;
mod decide;
mod existence;
mod hooks;
pub(crate) mod local;
mod lookups;
mod opening;
mod pack;
pub(crate) mod pools;
mod previous;
mod refetch;
mod region_order;
pub(crate) mod sealed_containers;
mod sequences;
pub(crate) mod session;
mod unplaced;
mod unsound;
mod write;
