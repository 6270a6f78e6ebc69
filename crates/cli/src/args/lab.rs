//! Arguments of `onefold lab`.

mod generate;

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::{AssemblyMode, memory};

pub(crate) use generate::{Generate, Workload};

#[derive(Debug, Subcommand)]
pub(crate) enum Lab {
    /// Make a workload of the papers: as a chunk trace, or as files
    Generate(Generate),
    /// Make a chunk trace of files, tars or disk images
    Trace(Trace),
    /// Say what a store would hold of the backups in a chunk trace, and what restoring them would read
    Simulate(Simulate),
}

#[derive(Debug, Args)]
pub(crate) struct Trace {
    /// The backups, in this order: each a file, or a folder of which all files are cut one by one
    #[arg(value_name = "PATH", required = true)]
    pub(crate) paths: Vec<PathBuf>,
    /// Write the chunk trace to this file, which must not exist
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: PathBuf,
    /// Average chunk length in KiB, 1 to 128
    #[arg(long, default_value_t = 8, value_name = "KIB", value_parser = clap::value_parser!(u32).range(1..=128))]
    pub(crate) chunk_kib: u32,
    /// Cut into fixed chunks of so many KiB, as disk images are
    #[arg(
        long,
        value_name = "KIB",
        conflicts_with = "chunk_kib",
        value_parser = clap::value_parser!(u32).range(4..=1024)
    )]
    pub(crate) image_kib: Option<u32>,
}

#[derive(Debug, Args)]
pub(crate) struct Simulate {
    /// Chunk traces, or traces of destor: one backup each, in this order
    #[arg(value_name = "FILE", required = true)]
    pub(crate) traces: Vec<PathBuf>,
    /// Size of a container in MiB, 1 to 256 (the paper has 4 MB)
    #[arg(long, default_value_t = 4, value_name = "MIB", value_parser = clap::value_parser!(u32).range(1..=256))]
    pub(crate) container_mib: u32,
    /// Let each backup begin a container of its own, as sessions do
    #[arg(long)]
    pub(crate) seal: bool,
    /// Keep so many backups: the oldest goes before the next comes (the paper's cycle keeps 29 and the new one: 30)
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) keep: Option<u32>,
    /// Restore with so much memory, in bytes or with K, M or G at the end (may be a list)
    #[arg(long, default_value = "32M,128M,1G", value_name = "BYTES", value_delimiter = ',', value_parser = memory)]
    pub(crate) memory: Vec<u64>,
    /// How memory is used (may be a list)
    #[arg(
        long,
        value_enum,
        default_value = "lru,fixed,rolling",
        value_name = "HOW",
        value_delimiter = ','
    )]
    pub(crate) assembly: Vec<AssemblyMode>,
    /// Do not restore the first so many backups
    #[arg(long, default_value_t = 0, value_name = "COUNT")]
    pub(crate) skip: u64,
}
