//! Long sweeps: a crash at every operation, every kind of damage, random runs, processes beside
//! each other.

#![allow(missing_docs, clippy::unwrap_used, clippy::print_stdout, reason = "tests")]

#[path = "../common/mod.rs"]
mod common;
#[path = "../damage_support/mod.rs"]
mod damage_support;

mod copy_crash;
mod crash;
mod damage;
mod full_disk;
mod full_disk_prune;
mod loss_support;
mod losses;
mod optimize_crash;
mod optimize_kill;
mod optimize_meanwhile;
mod prune_answer;
mod prune_beside;
mod prune_crash;
mod prune_meanwhile;
mod prune_random;
mod repair_crash;
mod repair_damage;
mod repair_meanwhile;
