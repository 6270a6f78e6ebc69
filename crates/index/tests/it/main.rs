//! The index from its users' view: answers against a model, damage, merging, catching up,
//! resolving.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod answers;
mod budget;
mod damage;
mod efficiency;
mod golden;
mod hostile;
mod image;
mod memory;
mod merging;
mod resident;
mod resolving;
mod rewritten;
mod sampling;
mod sessions;
mod store;
mod unindexed;
