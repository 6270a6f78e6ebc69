//! The listing and fences streams of a directory backup: writing them entry by entry, reading them as
//! they come.
//!
//! Both are plain sequences of records (`format::listing`). A fence stands for the place where a part of
//! the listing of about [`PART_BYTES`] begins, so that one path is found without reading the rest.

mod fences;
mod reader;
mod records;
mod writer;

pub use fences::{Fences, ListingPart};
pub use reader::{Listed, ListingReader};
pub use writer::ListingWriter;

/// A part of the listing ends with the entry that reaches this many bytes.
const PART_BYTES: u64 = 64 << 10;

#[cfg(test)]
mod tests;
