//! The listing and fences streams of a directory backup: writing them entry by entry, reading them as
//! they come.
//!
//! The listing is a sequence of records (`format::listing`). A fence stands for a part of it, so that one
//! path is found without reading the rest; fences lie in pages, and pages below pages.

mod fence_writer;
mod fences;
mod reader;
mod records;
mod writer;

pub use fences::{Fences, ListingPlace, ReadRange};
pub use reader::{Listed, ListingReader};
pub use writer::ListingWriter;

#[cfg(test)]
mod tests;
