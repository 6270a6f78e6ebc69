//! Chunks and node boundaries from outside.

mod bytes;
mod common;
mod nodes;
