//! The settings of a series (docs/format.md, "Settings of a series").
//!
//! Settings have revisions, like manifests. Nothing is overwritten, and the highest readable
//! revision counts.

use std::num::NonZeroU16;

use crate::error::Result;
use crate::manifest::{SeriesName, read_series_name, series_name_rules, write_series_name};
use crate::payload::{Payload, payload, rule};
use crate::wire::{Reader, Writer};

/// The shortest average segment that settings may name.
pub const SEGMENT_BYTES_MIN: u32 = 64 << 10;
/// The longest average segment that settings may name.
pub const SEGMENT_BYTES_MAX: u32 = 256 << 20;

/// The layout of a series' backups in the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum Layout {
    /// Every chunk is stored once, when it first occurs.
    #[default]
    Inline,
    /// A backup refers to segments that are known whole, and stores all other segments again, in
    /// order. Reverse deduplication later removes the duplicates from older backups [RevDedup 2.1]
    /// (R1, R2).
    Hybrid,
}

/// The number of archival backups behind the live window of a series. Both windows together are the
/// retention window [RevDedup 2.1].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum ArchivalWindow {
    /// All backups that are not forgotten.
    #[default]
    All,
    /// The newest so many. `optimize` forgets the older ones.
    Newest(NonZeroU16),
}

/// One revision under `series/`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SeriesSettings {
    /// The name of the series, for users who have no backup of it at hand. `None`: the settings of
    /// series without their own.
    pub name: Option<SeriesName>,
    /// The layout of future backups.
    pub layout: Layout,
    /// How many of the newest backups stay as they were written, at least 1 [RevDedup 2.1] (R5).
    pub live_window: u16,
    /// For layout hybrid: the number of backups behind the live window.
    pub archival_window: ArchivalWindow,
    /// Average length of a segment in bytes: a power of two from [`SEGMENT_BYTES_MIN`] to
    /// [`SEGMENT_BYTES_MAX`].
    pub segment_bytes: u32,
    /// Whether a process that makes a backup does the due work of `optimize` afterwards.
    pub optimize_after_backup: bool,
    /// How many bytes layout repair may copy for the newest backup. The unit is percent of the
    /// bytes that live backups of the series have newly stored. What earlier repairs have copied is
    /// subtracted. 0: none.
    pub repair_percent: u16,
}

impl SeriesSettings {
    /// The default average length of segments [RevDedup 4.1].
    pub const SEGMENT_BYTES: u32 = 4 << 20;

    /// The settings of a series for which none were ever set.
    #[must_use]
    pub const fn unset(name: Option<SeriesName>) -> Self {
        Self {
            name,
            layout: Layout::Inline,
            live_window: 1,
            archival_window: ArchivalWindow::All,
            segment_bytes: Self::SEGMENT_BYTES,
            optimize_after_backup: false,
            repair_percent: 0,
        }
    }

    /// How many of the newest backups stay, live and archival ones together; `None`: all that are
    /// not forgotten.
    #[must_use]
    pub fn retention_window(&self) -> Option<u32> {
        match self.archival_window {
            ArchivalWindow::Newest(archival) if self.layout == Layout::Hybrid => {
                Some(u32::from(self.live_window) + u32::from(archival.get()))
            }
            _ => None,
        }
    }

    /// Whether work of `optimize` may be due after a backup.
    #[must_use]
    pub fn is_optimized(&self) -> bool {
        self.layout == Layout::Hybrid || self.repair_percent > 0
    }
}

impl Layout {
    /// Every layout, in the order of their numbers.
    pub const ALL: [Self; 2] = [Self::Inline, Self::Hybrid];

    /// Its number in settings; never reused.
    #[must_use]
    pub const fn number(self) -> u8 {
        match self {
            Self::Inline => 0,
            Self::Hybrid => 1,
        }
    }

    /// Its word in options and output.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Inline => "inline",
            Self::Hybrid => "hybrid",
        }
    }
}

/// Added to a layout's number if an archival window follows. Old settings have none.
const WITH_ARCHIVAL_WINDOW: u8 = 2;

payload!(SeriesSettings);

impl Payload for SeriesSettings {
    const WHAT: &'static str = "settings of a series";
    const VERSION: u8 = 1;

    fn write(&self, w: &mut Writer<'_>) {
        w.flag(self.name.is_some());
        if let Some(name) = &self.name {
            write_series_name(w, name);
        }
        match self.archival_window {
            ArchivalWindow::All => w.u8(self.layout.number()),
            ArchivalWindow::Newest(count) => {
                w.u8(self.layout.number() + WITH_ARCHIVAL_WINDOW);
                w.u16(count.get());
            }
        }
        w.u16(self.live_window);
        w.u32(self.segment_bytes);
        w.flag(self.optimize_after_backup);
        w.u16(self.repair_percent);
    }

    fn read(r: &mut Reader<'_>) -> Result<Self> {
        let name = r.option(read_series_name)?;
        let unknown = r.fault("the layout is not known");
        let number = r.u8()?;
        let with_window = number.checked_sub(WITH_ARCHIVAL_WINDOW);
        let layout = Layout::ALL
            .into_iter()
            .find(|layout| layout.number() == with_window.unwrap_or(number));
        let layout = layout.ok_or(unknown)?;
        let none = r.fault("an archival window of no backup");
        let archival_window = match with_window {
            None => ArchivalWindow::All,
            Some(_) => ArchivalWindow::Newest(NonZeroU16::new(r.u16()?).ok_or(none)?),
        };
        Ok(Self {
            name,
            layout,
            archival_window,
            live_window: r.u16()?,
            segment_bytes: r.u32()?,
            optimize_after_backup: r.flag()?,
            repair_percent: r.u16()?,
        })
    }

    fn rules(&self) -> Result<(), &'static str> {
        self.name.as_ref().map_or(Ok(()), series_name_rules)?;
        rule(self.live_window >= 1, "no backup is kept live")?;
        let fits = (SEGMENT_BYTES_MIN..=SEGMENT_BYTES_MAX).contains(&self.segment_bytes);
        rule(
            fits && self.segment_bytes.is_power_of_two(),
            "the average segment is no power of two within the limits",
        )
    }
}
