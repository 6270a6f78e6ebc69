//! Tests of the index as its users have it.
#![allow(clippy::unwrap_used, reason = "a failing helper fails its test")]

mod killed;
