//! Arguments of making backups archival.

use clap::Args;

use super::PruneLimits;

#[derive(Debug, Args)]
pub(crate) struct Optimize {
    /// Backups of this series alone: its id as `series list` shows it, or the beginning of it
    #[arg(value_name = "SERIES")]
    pub(crate) series: Option<String>,
    /// Say which backups are due, and change nothing
    #[arg(short = 'n', long, conflicts_with = "prune")]
    pub(crate) dry_run: bool,
    /// Reclaim afterwards what they have let go of
    #[arg(long)]
    pub(crate) prune: bool,
    #[command(flatten)]
    pub(crate) limits: PruneLimits,
}
