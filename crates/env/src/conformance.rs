//! The suite that every storage passes.
