//! Blocks of pools: samples, round trips, rules, damage, and their page of the documents.

mod damage;
mod docs;
mod entries;
mod free;
mod round_trip;
mod rules;
pub(crate) mod samples;
mod strategies;
