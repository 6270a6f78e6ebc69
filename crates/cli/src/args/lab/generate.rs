//! Arguments of `onefold lab generate`.

use std::path::PathBuf;

use clap::{ArgGroup, Args, ValueEnum};

use crate::args::memory;

/// A workload.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Workload {
    /// Files that change a little every day and are backed up in full once a week [Lillibridge 4.2]
    #[value(name = "2year")]
    TwoYear,
}

#[derive(Debug, Args)]
#[command(group = ArgGroup::new("to").required(true).args(["trace", "destor", "files"]))]
pub(crate) struct Generate {
    /// The workload
    #[arg(value_enum)]
    pub(crate) workload: Workload,
    /// What all is drawn from: the same seed makes the same backups
    #[arg(long, default_value_t = 1, value_name = "NUMBER")]
    pub(crate) seed: u64,
    /// Bytes to begin with, with K, M or G at the end (the paper has 10 GB)
    #[arg(long, default_value = "256M", value_name = "BYTES", value_parser = memory)]
    pub(crate) size: u64,
    /// Weeks of five backups each (the paper has 96)
    #[arg(long, default_value_t = 8, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(crate) weeks: u32,
    /// Write a chunk trace to this file, which must not exist
    #[arg(long, value_name = "FILE")]
    pub(crate) trace: Option<PathBuf>,
    /// Write a trace as destor reads it, one for each backup, to this folder, which must be empty or not exist
    #[arg(long, value_name = "FOLDER")]
    pub(crate) destor: Option<PathBuf>,
    /// Write the bytes of each backup to a file in this folder, which must be empty or not exist
    #[arg(long, value_name = "FOLDER")]
    pub(crate) files: Option<PathBuf>,
}
