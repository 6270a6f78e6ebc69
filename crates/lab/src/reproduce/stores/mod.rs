//! Stores of the engine that experiments create, and the data for them.

pub(super) mod array;
pub(super) mod cold;
pub(super) mod content;
pub(super) mod engine;
