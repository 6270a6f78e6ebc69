//! Walking a directory as a backup does, to count what is there.

pub use tree::{FolderId, Lister, Looked, Looker, Marker, Roots, Stretch, Walk, WalkEntry, WalkOptions};
