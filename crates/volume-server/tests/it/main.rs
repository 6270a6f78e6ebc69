//! Tests of the server over real sockets.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on panics")]

mod common;
mod hostile;
mod serving;
mod together;
mod tools;
