//! The streams of a directory backup, and the parent from which unchanged files are taken.

use recipe::TreeRoot;
use tree::Trust;

use crate::dedup::StreamIndex;

/// Positions of a directory backup's streams in its manifest.
pub(crate) const CONTENT: StreamIndex = StreamIndex(0);
pub(crate) const LISTING: StreamIndex = StreamIndex(1);
pub(crate) const FENCES: StreamIndex = StreamIndex(2);

/// The backup from which unchanged files are taken.
#[derive(Debug, Clone)]
pub struct ParentTree {
    /// Its content.
    pub content: TreeRoot,
    /// Its listing.
    pub listing: TreeRoot,
    /// Which metadata of its files to trust.
    pub trust: Trust,
    /// Whether all files are read, including those that look unchanged.
    pub reads_all: bool,
}
