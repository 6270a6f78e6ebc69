//! The listing and fences streams of a directory backup: writes them entry by entry, and reads them
//! piece by piece.
//!
//! The listing is a sequence of records (`format::listing`). A fence describes one part of it, so
//! that a reader finds one path without reading the rest. Fences are in pages, and each page has a
//! fence in a page above.

mod compare;
mod fence_writer;
mod fences;
mod reader;
mod records;
mod writer;

pub use compare::{Base, ComparedListing, Comparing, Difference, UnequalParts};
pub use fences::{Fences, ListingPlace, ReadRange};
pub use reader::{Listed, ListingReader};
pub use writer::ListingWriter;

#[cfg(test)]
mod compare_tests;
#[cfg(test)]
mod tests;
