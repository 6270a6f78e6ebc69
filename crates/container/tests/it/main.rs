//! Containers as their users see them: round trips, damage, generations, mirrors, cache, I/O
//! counts.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod cache;
mod damage;
mod generations;
mod io_counts;
mod mirror;
mod rewrite;
mod round_trip;
mod store;
mod trim;
mod verify;
