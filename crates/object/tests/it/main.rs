//! Sealed objects, revisions and the config, over storages that fail, race and are tampered with.

mod config;
mod crash;
mod damage;
mod race;
mod revisions;
mod sealer;
mod support;
