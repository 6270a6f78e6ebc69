//! Changes of settings of series; settings that no store can have.

use chunking::{Cdc, CdcSizes, NODE_AVG_CHILDREN_MAX, NODE_AVG_CHILDREN_MIN};
use format::config::Settings;
use format::series::{ArchivalWindow, Layout};

use crate::error::{Error, Result};

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

/// Fails for settings that no chunker or tree accepts. A store with such settings could take no
/// backup.
pub(crate) fn check_cutting(settings: &Settings) -> Result<()> {
    let sizes = CdcSizes {
        min: settings.chunk_min_bytes,
        avg: settings.chunk_avg_bytes,
        max: settings.chunk_max_bytes,
    };
    Cdc::new(sizes, &[0; chunking::GEAR_TABLE_WORDS]).map_err(|error| Error::Setting(error.to_string()))?;
    let children = settings.node_avg_children;
    if !children.is_power_of_two() || !(NODE_AVG_CHILDREN_MIN..=NODE_AVG_CHILDREN_MAX).contains(&children) {
        return Err(Error::Setting(format!(
            "a node cannot have {children} children on average: a power of two from {NODE_AVG_CHILDREN_MIN} to \
             {NODE_AVG_CHILDREN_MAX} is needed"
        )));
    }
    Ok(())
}
