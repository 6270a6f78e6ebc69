//! The index as its users see it: answers against a model, damage, merging, catching up, resolving.

mod answers;
mod damage;
mod merging;
mod resolving;
mod sessions;
mod store;
