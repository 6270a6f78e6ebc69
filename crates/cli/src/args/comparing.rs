//! Arguments of commands that read several backups: `diff`, `find`.

use clap::Args;
use onefold::UnixNanos;

use super::filter::Filter;
use super::retention::moment;
use super::typed::{BackupPath, backup_path};

#[derive(Debug, Args)]
pub(crate) struct Diff {
    /// The first backup: an id, or `latest`; `ID:PATH` compares that folder
    #[arg(value_name = "ID[:PATH]", value_parser = backup_path())]
    pub(crate) before: BackupPath,
    /// The second backup
    #[arg(value_name = "ID[:PATH]", value_parser = backup_path())]
    pub(crate) after: BackupPath,
    /// Print entries of which only mode, owner, time, attributes or flags changed, too
    #[arg(long)]
    pub(crate) metadata: bool,
    #[command(flatten)]
    pub(crate) filter: Filter,
}

impl Diff {
    /// Both ids.
    pub(crate) fn ids(&self) -> [String; 2] {
        [self.before.id.clone(), self.after.id.clone()]
    }
}

#[derive(Debug, Args)]
pub(crate) struct Find {
    /// Print entries that match one of these patterns, which are as of `backup --exclude`: `/x`
    /// from the root, `./x` from here, `x` in any folder; `\[` is a bracket
    #[arg(value_name = "PATTERN", required = true)]
    pub(crate) patterns: Vec<String>,
    /// Match letters of either case
    #[arg(short, long)]
    pub(crate) ignore_case: bool,
    /// Search this backup, an id or `latest` (may be repeated; default: all)
    #[arg(short, long, value_name = "ID")]
    pub(crate) snapshot: Vec<String>,
    /// Only entries that were modified then or later: a date, or date and time, such as 2030-01-31
    /// or `2030-01-31 12:00`, local; or RFC 3339
    #[arg(short = 'O', long, value_name = "DATE", value_parser = moment)]
    pub(crate) oldest: Option<UnixNanos>,
    /// Only entries that were modified then or earlier
    #[arg(short = 'N', long, value_name = "DATE", value_parser = moment)]
    pub(crate) newest: Option<UnixNanos>,
    /// Begin with the oldest backup, not with the newest
    #[arg(short = 'R', long)]
    pub(crate) reverse: bool,
    /// Print mode, owner, size and local time
    #[arg(short, long, conflicts_with = "json")]
    pub(crate) long: bool,
    #[command(flatten)]
    pub(crate) filter: Filter,
}
