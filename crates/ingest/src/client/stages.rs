//! Statistics of the client's stages.

use std::sync::Arc;

use crate::stage::StageStats;

/// In the order in which a byte passes them.
#[derive(Debug)]
pub(crate) struct ClientStages {
    /// Walks a directory.
    pub(crate) walk: Arc<StageStats>,
    /// Compares entries with the previous backup, and takes read files, in order.
    pub(crate) source: Arc<StageStats>,
    /// Reads files: groups of small ones, and sections of large ones.
    pub(crate) read: Arc<StageStats>,
    pub(crate) chunk: Arc<StageStats>,
    /// Fingerprints and compresses.
    pub(crate) work: Arc<StageStats>,
    pub(crate) segment: Arc<StageStats>,
    pub(crate) gather: Arc<StageStats>,
}

impl ClientStages {
    pub(crate) fn new() -> Self {
        Self {
            walk: StageStats::new("walk"),
            source: StageStats::new("source"),
            read: StageStats::new("read"),
            chunk: StageStats::new("chunk"),
            work: StageStats::new("work"),
            segment: StageStats::new("segment"),
            gather: StageStats::new("gather"),
        }
    }

    pub(crate) fn into_list(self) -> Vec<Arc<StageStats>> {
        vec![
            self.walk,
            self.source,
            self.read,
            self.chunk,
            self.work,
            self.segment,
            self.gather,
        ]
    }
}
