//! Arguments of `mount`.

use std::path::PathBuf;

use clap::Args;
use cli_support::values::memory;

use super::filter::Filter;

#[derive(Debug, Args)]
pub(crate) struct Mount {
    /// The folder to mount on
    #[arg(value_name = "DIR")]
    pub(crate) at: PathBuf,
    /// Let other users use it; the kernel then checks owners and modes
    #[arg(long)]
    pub(crate) allow_other: bool,
    /// With --allow-other: let every user read everything
    #[arg(long, requires = "allow_other")]
    pub(crate) no_default_permissions: bool,
    /// Show the superuser as the owner of everything
    #[arg(long)]
    pub(crate) owner_root: bool,
    /// Memory for data that was read, in bytes; K, M and G are multiples of 1024
    #[arg(long, value_name = "BYTES", default_value = "256M", value_parser = memory)]
    pub(crate) memory: u64,
    #[command(flatten)]
    pub(crate) filter: Filter,
}
