//! The streams of a directory backup, and the backup that unchanged files are taken from.

use recipe::TreeRoot;
use tree::Trust;

use crate::dedup::StreamIndex;

/// Positions of a directory backup's streams in its manifest.
pub(crate) const CONTENT: StreamIndex = StreamIndex(0);
pub(crate) const LISTING: StreamIndex = StreamIndex(1);
pub(crate) const FENCES: StreamIndex = StreamIndex(2);

/// The backup that unchanged files are taken from.
#[derive(Debug, Clone)]
pub struct ParentTree {
    /// Its content.
    pub content: TreeRoot,
    /// Its listing.
    pub listing: TreeRoot,
    /// What of its metadata is believed.
    pub trust: Trust,
    /// Whether all files are read, also those that look unchanged.
    pub reads_all: bool,
}
