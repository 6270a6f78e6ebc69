//! The layouts under comparison.

use std::path::Path;

use onefold::{InitOptions, Layout, SettingsChange};

use crate::error::LabError;
use crate::reproduce::stores::engine::Engine;

/// Bytes of a chunk as in the paper, on average or fixed.
const CHUNK_BYTES: u32 = 4 << 10;

/// A layout of backups.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum StoreLayout {
    /// Layout `inline`, no cap: the paper's Conv.
    Conventional,
    /// Layout `hybrid`.
    Hybrid {
        /// Bytes of a segment on average.
        segment_bytes: u32,
        /// Number of newest backups that stay as they were written.
        live: u16,
        /// What layout repair may copy for the newest backup, in percent of newly stored bytes.
        repair: u16,
    },
}

impl StoreLayout {
    /// A new store, in memory or in a new folder.
    ///
    /// # Errors
    /// Errors of the engine.
    pub(super) fn store(self, folder: Option<&Path>, container_bytes: u32) -> Result<Engine, LabError> {
        let series = match self {
            Self::Conventional => SettingsChange::default(),
            Self::Hybrid {
                segment_bytes,
                live,
                repair,
            } => SettingsChange::default()
                .layout(Some(Layout::Hybrid))
                .live_window(Some(live))
                .segment_bytes(Some(segment_bytes))
                .repair_percent((repair > 0).then_some(repair)),
        };
        let init = InitOptions::default()
            .container_bytes(container_bytes)
            .chunk_avg_bytes(CHUNK_BYTES)
            .series(series);
        Engine::new(folder, &init, None)
    }
}
