//! Walks a directory as a backup does, to count its entries.

pub use tree::{FolderId, Lister, Looked, Looker, Marker, Roots, Stretch, Walk, WalkEntry, WalkOptions};
