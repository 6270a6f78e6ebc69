//! Arguments of `self-test`.

use std::path::PathBuf;

use clap::Args;
use cli_support::values::byte_count;

use super::typed::tested_place;

#[derive(Debug, Args)]
pub(crate) struct SelfTest {
    /// Also test this place: a folder, or a prefix in an object store,
    /// s3:https://HOST/BUCKET/PREFIX. All is written below a fresh name there, and deleted again
    #[arg(long, value_name = "PLACE", value_parser = tested_place())]
    pub(crate) place: Option<PathBuf>,
    /// How much memory to test: bytes, or K, M, G
    #[arg(long, value_name = "BYTES", default_value = "64M", value_parser = byte_count)]
    pub(crate) memory: u64,
}
