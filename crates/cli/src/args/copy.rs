//! Arguments of `copy`.

use std::path::PathBuf;

use clap::Args;

use super::CompressionMode;
use super::filter::Filter;
use super::reading::Assembling;
use super::typed::store_place;

/// The options that say how the store to copy from is opened.
pub(super) const SOURCE_PASSWORDS: [&str; 3] = [
    "from_password_file",
    "from_password_command",
    "from_insecure_no_password",
];

#[derive(Debug, Args)]
pub(crate) struct Copy {
    /// Copy these backups: ids, or `latest` (default: all that the destination does not have)
    #[arg(value_name = "ID")]
    pub(crate) ids: Vec<String>,
    #[command(flatten)]
    pub(crate) from: From,
    #[command(flatten)]
    pub(crate) filter: Filter,
    /// Show which backups would be copied, and copy none
    #[arg(short = 'n', long)]
    pub(crate) dry_run: bool,
    /// What to compress
    #[arg(long, value_enum, default_value_t = CompressionMode::Auto, env = "ONEFOLD_COMPRESSION")]
    pub(crate) compression: CompressionMode,
    /// zstd level, 1 to 19; a higher level is smaller and slower (default: 1, and 3 while the
    /// network to a server is what slows the copy)
    #[arg(long, value_name = "LEVEL", value_parser = clap::value_parser!(i32).range(1..=19))]
    pub(crate) compression_level: Option<i32>,
    #[command(flatten)]
    pub(crate) assembling: Assembling,
}

/// The other store.
#[derive(Debug, Args)]
pub(crate) struct From {
    /// The store to copy from: as --repo, which is the one to copy to
    #[arg(
        long,
        alias = "from-repository",
        env = "ONEFOLD_FROM_REPOSITORY",
        value_name = "FOLDER",
        value_parser = store_place()
    )]
    pub(crate) from_repo: PathBuf,
    #[command(flatten)]
    pub(crate) password: FromPassword,
}

/// How the other store is opened.
#[derive(Debug, Args)]
pub(crate) struct FromPassword {
    /// Read its password from the first line of this file (default: the password of the other
    /// store)
    #[arg(long, value_name = "FILE", env = "ONEFOLD_FROM_PASSWORD_FILE")]
    pub(crate) from_password_file: Option<PathBuf>,
    /// Run this command through the shell and take the first line it prints as its password
    #[arg(
        long,
        value_name = "COMMAND",
        env = "ONEFOLD_FROM_PASSWORD_COMMAND",
        hide_env_values = true
    )]
    pub(crate) from_password_command: Option<String>,
    /// It has no password
    #[arg(long)]
    pub(crate) from_insecure_no_password: bool,
}
