//! Tests of pools and volumes against a plain model of bytes, also through crashes.

#![expect(clippy::unwrap_used, reason = "a test fails by a panic")]

mod crash;
mod log;
mod model;
mod random;
mod single;
mod world;
