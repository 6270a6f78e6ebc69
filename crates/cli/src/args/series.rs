//! The options that choose a series, and the settings to change.

use std::path::PathBuf;

use clap::{ArgGroup, Args, Subcommand, ValueEnum};
use cli_support::values::byte_count;
use onefold::{ArchivalWindow, Layout, SettingsChange};

use super::typed::{name, path};

#[derive(Debug, Subcommand)]
pub(crate) enum Series {
    /// List the series and their settings
    List,
    /// Show the settings of a series
    Show(Which),
    /// Set how the next backups of a series are stored
    Set(Set),
}

/// A series, or the default.
#[derive(Debug, Args)]
#[command(group = ArgGroup::new("series").required(true).args(["id", "default", "path", "stdin_filename"]))]
pub(crate) struct Which {
    #[command(flatten)]
    pub(crate) named: Named,
    /// The settings of every series that has none of its own
    #[arg(long)]
    pub(crate) default: bool,
}

/// A series, by its id or by what `backup` would make it of.
#[derive(Debug, Args)]
#[command(group = ArgGroup::new("named").args(["id", "path", "stdin_filename"]))]
#[command(group = ArgGroup::new("source").args(["path", "stdin_filename"]))]
pub(crate) struct Named {
    /// The series' id as `series list` shows it, or the beginning of it
    #[arg(value_name = "ID")]
    pub(crate) id: Option<String>,
    /// The series that `backup` of this path makes (may be repeated: of all of them)
    #[arg(long, value_name = "PATH", value_parser = path())]
    pub(crate) path: Vec<PathBuf>,
    /// The series that `backup --stdin` makes under this name
    #[arg(long, value_name = "NAME", value_parser = name)]
    pub(crate) stdin_filename: Option<String>,
    /// The host of that series (default: this one)
    #[arg(short = 'H', long, value_name = "HOST", value_parser = name, requires = "source")]
    pub(crate) host: Option<String>,
}

impl Named {
    /// Whether any is given.
    pub(crate) fn is_given(&self) -> bool {
        self.id.is_some() || !self.path.is_empty() || self.stdin_filename.is_some()
    }
}

#[derive(Debug, Args)]
pub(crate) struct Set {
    #[command(flatten)]
    pub(crate) which: Which,
    #[command(flatten)]
    pub(crate) change: Change,
}

/// What is to be set.
#[derive(Debug, Args)]
pub(crate) struct Change {
    /// How backups of a series are stored
    #[arg(long, value_enum, value_name = "LAYOUT")]
    pub(crate) layout: Option<LayoutMode>,
    /// With layout hybrid: how many of the newest backups stay as they were written (default: 1)
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) live: Option<u16>,
    /// With layout hybrid: how many archival backups to keep behind the live ones, or `all`;
    /// `optimize` forgets older ones that are not held (default: all)
    #[arg(long, value_name = "COUNT", value_parser = archival)]
    pub(crate) archival: Option<ArchivalWindow>,
    /// With layout hybrid: average length of a segment in bytes, or with K, M or G at its end; a
    /// power of two from 64K to 256M (default: 4M)
    #[arg(long, value_name = "BYTES", value_parser = segment)]
    pub(crate) segment: Option<u32>,
    /// Let `optimize` copy scattered data of the newest backup together: at most this percentage of
    /// the bytes that the live backups of the series have stored, less what earlier repairs copied
    /// (default: 0, no repair)
    #[arg(long, value_name = "PERCENT")]
    pub(crate) repair: Option<u16>,
    /// With layout hybrid or repair: whether `optimize` of the series runs after each backup
    /// (default: no)
    #[arg(long, value_enum, value_name = "ANSWER")]
    pub(crate) optimize_after_backup: Option<Answer>,
}

/// Whether or not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Answer {
    /// It is
    Yes,
    /// It is not
    No,
}

impl Change {
    /// Whether any setting is to be changed.
    pub(crate) fn is_given(&self) -> bool {
        self.layout.is_some()
            || self.repair.is_some()
            || self.is_of_hybrid()
            || self.optimize_after_backup.is_some()
    }

    /// Whether a setting is to be changed that only layout hybrid has.
    pub(crate) fn is_of_hybrid(&self) -> bool {
        self.live.is_some() || self.archival.is_some() || self.segment.is_some()
    }

    /// Whether `optimize` would run after backups with nothing to do, if no other setting is
    /// changed.
    pub(crate) fn is_idle_after(&self) -> bool {
        let does_something =
            self.layout == Some(LayoutMode::Hybrid) || self.repair.is_some_and(|percent| percent > 0);
        self.optimize_after_backup.is_some() && !does_something
    }

    /// The library's form of the change.
    pub(crate) fn change(&self) -> SettingsChange {
        SettingsChange::default()
            .layout(self.layout.map(LayoutMode::layout))
            .live_window(self.live)
            .archival_window(self.archival)
            .segment_bytes(self.segment)
            .optimize_after_backup(self.optimize_after_backup.map(|answer| answer == Answer::Yes))
            .repair_percent(self.repair)
    }
}

/// How backups of a series are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum LayoutMode {
    /// Store each chunk once, in the first backup that has it
    Inline,
    /// Store a changed segment as a whole, so that the newest backup lies together
    Hybrid,
}

impl LayoutMode {
    /// The library's form of the layout.
    pub(crate) const fn layout(self) -> Layout {
        match self {
            Self::Inline => Layout::Inline,
            Self::Hybrid => Layout::Hybrid,
        }
    }
}

/// Parses a number of backups, or `all`. 0 is refused: a user who wants archival backups does not
/// mean it, and a user who wants no limit may.
fn archival(text: &str) -> Result<ArchivalWindow, String> {
    if text == "all" {
        return Ok(ArchivalWindow::All);
    }
    let count = text.parse().map(ArchivalWindow::Newest);
    count.map_err(|_| "a number of backups from 1 to 65535, or `all`".to_owned())
}

/// Parses the bytes of a segment; `4MiB` is `4M`.
fn segment(text: &str) -> Result<u32, String> {
    let bytes = byte_count(text.strip_suffix("iB").unwrap_or(text))?;
    let fits = (1 << 16..=1 << 28).contains(&bytes) && bytes.is_power_of_two();
    let bytes = u32::try_from(bytes).ok().filter(|_| fits);
    bytes.ok_or_else(|| "a power of two from 64K to 256M is needed".to_owned())
}
