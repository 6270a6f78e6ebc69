//! Tests of the library, over storage in memory and real files.

#![allow(missing_docs, clippy::unwrap_used, clippy::print_stdout, reason = "tests")]

#[path = "../common/mod.rs"]
mod common;
#[path = "../damage_support/mod.rs"]
mod damage_support;

mod archival_window;
mod caches;
mod capping;
mod check;
mod copies;
mod copy;
mod copy_meanwhile;
mod costs;
mod disk_cache;
mod epochs;
mod examples;
mod expiry_together;
mod far;
mod forget;
mod formats;
mod formats_support;
mod heal;
mod hybrid;
mod index_in_memory;
mod old_configs;
mod open_file;
mod optimize;
mod optimize_costs;
mod optimize_damaged;
mod optimize_progress;
mod optimize_rules;
mod optimize_unread;
mod paths;
mod prune;
mod prune_clocks;
mod prune_costs;
mod prune_lists;
mod prune_preview;
mod prune_trim;
mod reading;
mod repair;
mod repair_again;
mod repair_holds;
mod repair_hybrid;
mod repair_rules;
mod repair_twins;
mod restore_stops;
mod resume;
mod retained;
mod seam;
mod self_test;
mod series;
mod sources;
mod together;
mod unread;
mod unreadable_session;
