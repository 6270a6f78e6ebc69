//! Tests of the format as a whole: one binary, so that it links once.

#![expect(
    clippy::cast_possible_truncation,
    reason = "samples are small, and random bytes are cut on purpose"
)]
#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

mod damage;
mod docs;
mod golden;
mod hostile;
mod names;
mod pool;
mod round_trip;
mod rules;
mod samples;
mod series;
mod strategies;
