//! Tests of pools and volumes against a plain model of bytes, also through crashes.

#![expect(clippy::unwrap_used, reason = "a test fails by a panic")]

mod away;
mod costs;
mod crash;
mod faults;
mod full;
mod gates;
mod index;
mod log;
mod manage;
mod model;
mod random;
mod single;
mod threads;
mod together;
mod torn;
mod unreadable;
mod world;
