//! Sealed objects, revisions and the config, over storages that fail, race and are tampered with.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on says where")]

mod config;
mod crash;
mod damage;
mod race;
mod revisions;
mod sealer;
mod support;
