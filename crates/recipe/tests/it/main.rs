//! Recipes against a plain model, over stores in memory.
#![allow(clippy::unwrap_used, reason = "a failing helper fails its test")]

mod cache;
mod counts;
mod damage;
mod forward;
mod gaps;
mod layout;
mod model;
mod splice;
mod store;
mod tree;
