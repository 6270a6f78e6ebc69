//! Arguments of the commands for pools.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::prune::size;

#[derive(Debug, Subcommand)]
pub(crate) enum Pool {
    /// Make a pool of a new file, or of a disk
    Init(PoolInit),
    /// Show how much space the volumes of a pool use, and how much they share
    Stats(PoolStats),
    /// Check that every block of a pool has one use, and that the duplicates index counts right.
    /// Nobody may serve the pool meanwhile
    Check {
        /// The pool's file or disk
        #[arg(value_name = "POOL")]
        pool: PathBuf,
        /// Also read every block that the index has, and compare it with its fingerprint
        #[arg(long)]
        read_data: bool,
    },
    /// Give a pool more space; also while it is served
    Grow {
        /// The pool's file or disk
        #[arg(value_name = "POOL")]
        pool: PathBuf,
        /// The new size, as in 32G or 32GiB: a file gets so long, a disk must be so long already
        #[arg(value_name = "SIZE", value_parser = size)]
        size: u64,
    },
}

#[derive(Debug, Args)]
pub(crate) struct PoolInit {
    /// A file, which must not exist or be empty, or a disk
    #[arg(value_name = "PATH")]
    pub(crate) pool: PathBuf,
    /// The size, as in 16G or 16GiB; a file takes space only where blocks are written. A disk is
    /// used up to this size
    #[arg(long, value_name = "SIZE", value_parser = size)]
    pub(crate) size: u64,
    /// The folder for the duplicates index, which must not exist; by default the file's name with
    /// `.index`. A disk needs this option
    #[arg(long, value_name = "FOLDER")]
    pub(crate) index: Option<PathBuf>,
    /// Make the pool also of a disk that is not empty: what is on it is lost
    #[arg(long)]
    pub(crate) force: bool,
}

#[derive(Debug, Args)]
pub(crate) struct PoolStats {
    /// The pool's file or disk
    #[arg(value_name = "POOL")]
    pub(crate) pool: PathBuf,
    /// Print the text format of Prometheus
    #[arg(long, conflicts_with = "json")]
    pub(crate) prometheus: bool,
}
