//! The client's half of a backup: reads the source, cuts, fingerprints, and compresses the chunks
//! that the store wants.

pub(crate) mod changed_blocks;
pub(crate) mod chunk;
mod content;
pub(crate) mod directory;
pub(crate) mod fed;
mod gather;
mod parallel_walk;
mod parent_check;
mod piece;
pub(crate) mod pools;
pub(crate) mod read_ahead;
pub(crate) mod read_regions;
mod resume;
pub(crate) mod run;
mod sections;
mod segment;
pub(crate) mod source_input;
pub(crate) mod spool;
pub(crate) mod stages;
pub(crate) mod stream;
pub(crate) mod stream_source;
pub(crate) mod turns;
mod unchanged_entries;
mod ungathered;
mod unread;

#[cfg(test)]
mod tests;
