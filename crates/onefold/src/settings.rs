//! Changes of settings of series.

use format::series::{ArchivalWindow, Layout};

/// What is to be set; what is `None` stays as it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct SettingsChange {
    /// The layout.
    pub layout: Option<Layout>,
    /// Backups that stay as they were written.
    pub live_window: Option<u16>,
    /// Archival backups that stay behind those.
    pub archival_window: Option<ArchivalWindow>,
    /// Bytes of a segment on average.
    pub segment_bytes: Option<u32>,
    /// Whether what has become due is done after each backup.
    pub optimize_after_backup: Option<bool>,
    /// What layout repair may copy, in percent of what is stored anew; 0: nothing.
    pub repair_percent: Option<u16>,
}

impl SettingsChange {
    /// Nothing is to be set.
    pub const NONE: Self = Self {
        layout: None,
        live_window: None,
        archival_window: None,
        segment_bytes: None,
        optimize_after_backup: None,
        repair_percent: None,
    };
}

types::setters!(const SettingsChange {
    layout: Option<Layout>,
    live_window: Option<u16>,
    archival_window: Option<ArchivalWindow>,
    segment_bytes: Option<u32>,
    optimize_after_backup: Option<bool>,
    repair_percent: Option<u16>,
});
