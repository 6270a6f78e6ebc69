//! Chunks and node boundaries through the public interface.
#![allow(clippy::unwrap_used, reason = "a failing helper fails its test")]

mod bytes;
mod common;
mod nodes;
