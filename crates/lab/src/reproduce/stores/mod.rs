//! Stores of the engine's that experiments make, with what is backed up into them.

pub(super) mod array;
pub(super) mod cold;
pub(super) mod content;
pub(super) mod engine;
