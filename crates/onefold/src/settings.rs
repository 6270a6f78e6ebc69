//! Changes of settings of series.

use format::series::{ArchivalWindow, Layout};

/// The settings to change. `None`: this one stays as it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct SettingsChange {
    /// The layout.
    pub layout: Option<Layout>,
    /// How many of the newest backups stay as they were written.
    pub live_window: Option<u16>,
    /// How many archival backups stay behind those.
    pub archival_window: Option<ArchivalWindow>,
    /// Average length of a segment in bytes.
    pub segment_bytes: Option<u32>,
    /// Whether due backups are rewritten after each backup.
    pub optimize_after_backup: Option<bool>,
    /// How much layout repair may copy, in percent of the bytes stored anew; 0: nothing.
    pub repair_percent: Option<u16>,
}

impl SettingsChange {
    /// No change.
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
