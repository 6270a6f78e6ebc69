//! Arguments of `init`.

use std::path::PathBuf;

use clap::Args;

use super::Change;
use super::typed::own_store;

#[derive(Debug, Args)]
pub(crate) struct Init {
    /// Share the fingerprint domain of this store, and its chunk length: `copy` between the two
    /// then moves only what the other one lacks
    #[arg(long, value_name = "STORE", value_parser = own_store())]
    pub(crate) domain_of: Option<PathBuf>,
    /// File with the password of the store named by --domain-of (default: the same password)
    #[arg(long, value_name = "FILE", env = "ONEFOLD_FROM_PASSWORD_FILE")]
    pub(crate) from_password_file: Option<PathBuf>,
    /// Let the group of the store's folder read and write the store; without this only its owner
    /// can, whatever the umask is
    #[arg(long)]
    pub(crate) group_access: bool,
    /// Average chunk length in KiB, a power of two from 1 to 128 (default: 8, or that of the store
    /// named by --domain-of)
    #[arg(long, value_name = "KIB", value_parser = clap::value_parser!(u32).range(1..=128))]
    pub(crate) chunk_kib: Option<u32>,
    /// Target size of a container in MiB, 1 to 256
    #[arg(long, default_value_t = 16, value_name = "MIB", value_parser = clap::value_parser!(u32).range(1..=256))]
    pub(crate) container_mib: u32,
    /// Space to set aside in MiB, given up when the disk is full so that pruning can begin: 1 grows
    /// with the store, up to 64; any other size stays; 0 for none (default: 1; none in object
    /// stores, which do not fill up)
    #[arg(long, value_name = "MIB", value_parser = clap::value_parser!(u16).range(0..=1024))]
    pub(crate) reserve_mib: Option<u16>,
    /// What holds for every series for which nothing else is set
    #[command(flatten)]
    pub(crate) series: Change,
}
