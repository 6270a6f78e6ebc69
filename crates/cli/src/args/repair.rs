//! Arguments of `repair`.

use std::path::PathBuf;

use clap::Args;

use super::copy::FromPassword;
use super::typed::store_place;

#[derive(Debug, Args)]
pub(crate) struct Repair {
    /// Another store, as --repo is one, that has copies of the backups of this one
    #[arg(
        long,
        env = "ONEFOLD_FROM_REPOSITORY",
        value_name = "FOLDER",
        value_parser = store_place()
    )]
    pub(crate) from_repo: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) password: FromPassword,
}
