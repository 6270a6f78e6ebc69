//! Arguments of `repair`.

use clap::Args;

use super::copy::From;

#[derive(Debug, Args)]
pub(crate) struct Repair {
    #[command(flatten)]
    pub(crate) from: Option<From>,
}
