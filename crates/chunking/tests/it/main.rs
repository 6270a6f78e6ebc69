//! Chunks and node boundaries from outside.
#![allow(clippy::unwrap_used, reason = "a failing helper fails its test")]

mod bytes;
mod common;
mod nodes;
