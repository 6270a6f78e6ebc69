//! Arguments of `optimize`: windows, archival backups, layout repair.

use clap::Args;

use super::{Named, PruneLimits};

#[derive(Debug, Args)]
pub(crate) struct Optimize {
    /// Backups of one series alone, where one is named
    #[command(flatten)]
    pub(crate) series: Named,
    /// Repair the layout of the newest backup and copy at most so many percent of the bytes that
    /// the live backups of its series have stored anew, less what earlier repairs have copied,
    /// whatever is set
    #[arg(long, value_name = "PERCENT", value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) repair: Option<u16>,
    /// Say what is due, and change nothing
    #[arg(short = 'n', long, conflicts_with = "prune")]
    pub(crate) dry_run: bool,
    /// Run `prune` afterwards, which frees the unused copies
    #[arg(long)]
    pub(crate) prune: bool,
    #[command(flatten)]
    pub(crate) limits: PruneLimits,
}
