//! Arguments of `onefold-lab generate`. Each workload has its own.

use std::path::PathBuf;

use clap::{ArgGroup, Args, Subcommand, ValueEnum};

use cli_support::values::byte_count;

#[derive(Debug, Args)]
#[command(
    subcommand_value_name = "WORKLOAD",
    subcommand_help_heading = "Workloads",
    disable_help_subcommand = true
)]
pub(crate) struct Generate {
    #[command(subcommand)]
    pub(crate) workload: Workload,
}

/// A workload.
#[derive(Debug, Subcommand)]
#[expect(clippy::doc_markdown, reason = "help, for a terminal")]
pub(crate) enum Workload {
    /// Files that change a little every day, with a full backup once a week [Lillibridge 4.2]
    #[command(name = "2year")]
    TwoYear(TwoYear),
    /// The machines of a group of engineers, with daily incremental and weekly synthetic full
    /// backups; the backups of a day are one [Lillibridge 4.2]
    Workgroup(Workgroup),
    /// A disk image with a full backup every week: each day, 2 % of the files change by 10 %, and
    /// 10 of 8000 MB are new [RevDedup 4.1]
    Sg1(Sg),
    /// As sg1, but 4 % of the files change
    Sg2(Sg),
    /// As sg1, but files change by 20 %
    Sg3(Sg),
    /// As sg1, but 20 of 8000 MB are new
    Sg4(Sg),
    /// As sg1, but 10 % of the files change
    Sg5(Sg),
    /// Several disk images that begin as one; each changes by itself, as sg1 does [RevDedup 4.1]
    Gp(Gp),
    /// The virtual machines of a course, copied from one image, in blocks of 4 KiB [RevDedup 4.1]
    VmSeries(VmSeries),
    /// Streams with lineages: each generation adds, deletes and moves data in clusters [DD Boost
    /// IV-B]
    Lineages(Lineages),
    /// Streams of unique data, and then the same streams again [Guo 4.1]
    Unique(Unique),
    /// Four versions of the image of a virtual machine, in blocks of 4 KiB [Guo 4.2, table 4]
    Vm(Vm),
    /// An edited stream: insertion, deletion, overwriting, relocation, repetition, zeros
    Edits(Edits),
}

#[derive(Debug, Args)]
#[command(group = ArgGroup::new("to").required(true).args(["trace", "destor", "files"]))]
pub(crate) struct To {
    /// Seed of all random choices: the same seed makes the same backups
    #[arg(long, default_value_t = 1, value_name = "NUMBER")]
    pub(crate) seed: u64,
    /// Write a chunk trace to this new file, to this pipe, or to standard output (`-`)
    #[arg(long, value_name = "FILE")]
    pub(crate) trace: Option<PathBuf>,
    /// Write a trace in destor's format for each backup to this folder, which must be empty or new
    #[arg(long, value_name = "FOLDER")]
    pub(crate) destor: Option<PathBuf>,
    /// Write the bytes of each backup to a file in this folder, which must be empty or new
    #[arg(long, value_name = "FOLDER")]
    pub(crate) files: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct TwoYear {
    /// Bytes of all files at the beginning, with K, M or G at the end (the paper: 10 GB)
    #[arg(long, default_value = "256M", value_name = "BYTES", value_parser = byte_count)]
    pub(crate) size: u64,
    /// Weeks of five backups each (the paper: 96)
    #[arg(long, default_value_t = 8, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(crate) weeks: u32,
    /// Average bytes of a file, with K, M or G at the end: at least 1K, and at most `--size` (the
    /// paper gives no figure) [default: 256K, or `--size` if that is less]
    #[arg(long, value_name = "BYTES", value_parser = byte_count)]
    pub(crate) file_bytes: Option<u64>,
    /// Average bytes of a chunk in the trace, 64 to 1048576
    #[arg(long, default_value_t = 3850, value_name = "BYTES", value_parser = clap::value_parser!(u32).range(64..=1 << 20))]
    pub(crate) chunk_bytes: u32,
    #[command(flatten)]
    pub(crate) to: To,
}

#[derive(Debug, Args)]
pub(crate) struct Workgroup {
    /// Average bytes of a machine's first full backup, with K, M or G at the end (the paper: 21 GB
    /// for a full backup)
    #[arg(long, default_value = "64M", value_name = "BYTES", value_parser = byte_count)]
    pub(crate) size: u64,
    /// Number of machines
    #[arg(long, default_value_t = 20, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(crate) machines: u32,
    /// Number of weeks
    #[arg(long, default_value_t = 18, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(crate) weeks: u32,
    /// Share of a machine's first full backup in files that other machines of the group have, too
    #[arg(long, default_value_t = 80.0, value_name = "PERCENT", value_parser = percent)]
    pub(crate) shared: f64,
    #[command(flatten)]
    pub(crate) chunks: Chunks4K,
    #[command(flatten)]
    pub(crate) to: To,
}

#[derive(Debug, Args)]
pub(crate) struct Chunks4K {
    /// Average bytes of a chunk in the trace, 64 to 1048576
    #[arg(long, default_value_t = 4096, value_name = "BYTES", value_parser = clap::value_parser!(u32).range(64..=1 << 20))]
    pub(crate) chunk_bytes: u32,
}

#[derive(Debug, Args)]
pub(crate) struct Chunks8K {
    /// Average bytes of a chunk in the trace, 64 to 1048576
    #[arg(long, default_value_t = 8192, value_name = "BYTES", value_parser = clap::value_parser!(u32).range(64..=1 << 20))]
    pub(crate) chunk_bytes: u32,
}

#[derive(Debug, Args)]
pub(crate) struct Image {
    /// Bytes of an image, with K, M or G at the end. Files and new data scale with it (the paper: 8
    /// GB, and 7.6 GB for the course)
    #[arg(long, default_value = "256M", value_name = "BYTES", value_parser = byte_count)]
    pub(crate) size: u64,
    /// Weekly backups of each image [default, as in the paper: sg1 to sg5 78, gp 20, vm-series 12]
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(crate) weeks: Option<u32>,
    /// Share of the files that change in a day, alpha in the paper [default: the workload's]
    #[arg(long, value_name = "PERCENT", value_parser = percent)]
    pub(crate) files_changed: Option<f64>,
    /// Overwritten share of a changed file, beta in the paper [default: the workload's]
    #[arg(long, value_name = "PERCENT", value_parser = percent)]
    pub(crate) bytes_changed: Option<f64>,
    /// Bytes of new files in a day, with K, M or G at the end, gamma in the paper; does not scale
    /// with `--size` [default: the workload's, scaled]
    #[arg(long, value_name = "BYTES", value_parser = byte_count)]
    pub(crate) new: Option<u64>,
}

#[derive(Debug, Args)]
pub(crate) struct Sg {
    #[command(flatten)]
    pub(crate) image: Image,
    #[command(flatten)]
    pub(crate) chunks: Chunks4K,
    #[command(flatten)]
    pub(crate) to: To,
}

#[derive(Debug, Args)]
pub(crate) struct Gp {
    /// Number of images; each has a series of its own
    #[arg(long, default_value_t = 16, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(crate) series: u32,
    #[command(flatten)]
    pub(crate) image: Image,
    #[command(flatten)]
    pub(crate) chunks: Chunks4K,
    #[command(flatten)]
    pub(crate) to: To,
}

#[derive(Debug, Args)]
pub(crate) struct VmSeries {
    /// Number of virtual machines; each has a series of its own
    #[arg(long, default_value_t = 80, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(crate) series: u32,
    #[command(flatten)]
    pub(crate) image: Image,
    #[command(flatten)]
    pub(crate) to: To,
}

/// Places of updates.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Clusters {
    /// Around the centres of clusters
    Normal,
    /// Anywhere
    Uniform,
}

#[derive(Debug, Args)]
pub(crate) struct Lineages {
    /// Bytes of generation 0 of a stream, with K, M or G at the end (the paper: 20 GB)
    #[arg(long, default_value = "256M", value_name = "BYTES", value_parser = byte_count)]
    pub(crate) size: u64,
    /// Number of streams; each has a lineage of its own (the paper: 1 to 64)
    #[arg(long, default_value_t = 4, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(crate) lineages: u32,
    /// The last generation. The workload has generations 0, 1, every fifth and the last
    #[arg(long, default_value_t = 41, value_name = "NUMBER", value_parser = clap::value_parser!(u32).range(..=10_000))]
    pub(crate) generations: u32,
    /// Write only these generations (may be a list)
    #[arg(long, value_name = "NUMBER", value_delimiter = ',')]
    pub(crate) only: Vec<u32>,
    /// Places of the updates of a generation
    #[arg(long, value_enum, default_value = "normal", value_name = "HOW")]
    pub(crate) clusters: Clusters,
    /// Average bytes of an update, with K, M or G at the end
    #[arg(long, default_value = "16K", value_name = "BYTES", value_parser = byte_count)]
    pub(crate) update: u64,
    /// Overwrite blocks of so many bytes in place with new data, as in a disk image: 5 % of them in
    /// a generation. The blocks are the chunks of the trace. Without this option, updates add,
    /// delete and move data
    #[arg(long, value_name = "BYTES", conflicts_with = "chunk_bytes", value_parser = clap::value_parser!(u32).range(64..=1 << 20))]
    pub(crate) block_bytes: Option<u32>,
    #[command(flatten)]
    pub(crate) chunks: Chunks8K,
    #[command(flatten)]
    pub(crate) to: To,
}

#[derive(Debug, Args)]
pub(crate) struct Unique {
    /// Bytes of a stream, with K, M or G at the end (the paper: files of 3 GB)
    #[arg(long, default_value = "256M", value_name = "BYTES", value_parser = byte_count)]
    pub(crate) size: u64,
    /// Number of streams (the paper: 1 to 256)
    #[arg(long, default_value_t = 4, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(crate) streams: u32,
    /// Rounds of backups of the same streams: the first is unique, the others are duplicates
    #[arg(long, default_value_t = 2, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(crate) rounds: u32,
    #[command(flatten)]
    pub(crate) chunks: Chunks4K,
    #[command(flatten)]
    pub(crate) to: To,
}

#[derive(Debug, Args)]
pub(crate) struct Vm {
    /// Bytes of the unique chunks of the first version, with K, M or G at the end (the paper: 2123
    /// MB). The first image has 1.2 times as many bytes, and the fourth 2.6 times
    #[arg(long, default_value = "256M", value_name = "BYTES", value_parser = byte_count)]
    pub(crate) size: u64,
    /// Number of versions
    #[arg(long, default_value_t = 4, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..=4))]
    pub(crate) versions: u32,
    #[command(flatten)]
    pub(crate) to: To,
}

/// Shares are of the stream's bytes before the backup.
#[derive(Debug, Args)]
pub(crate) struct Edits {
    /// Bytes of the first backup, with K, M or G at the end
    #[arg(long, default_value = "256M", value_name = "BYTES", value_parser = byte_count)]
    pub(crate) size: u64,
    /// Number of backups of the stream
    #[arg(long, default_value_t = 10, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(crate) backups: u32,
    /// Average bytes of an edit, with K, M or G at the end
    #[arg(long, default_value = "64K", value_name = "BYTES", value_parser = byte_count)]
    pub(crate) edit: u64,
    /// Inserted bytes in each backup
    #[arg(long, default_value_t = 1.0, value_name = "PERCENT", value_parser = percent)]
    pub(crate) insert: f64,
    /// Deleted bytes in each backup
    #[arg(long, default_value_t = 2.0, value_name = "PERCENT", value_parser = percent)]
    pub(crate) delete: f64,
    /// Bytes that new ones replace
    #[arg(long, default_value_t = 1.0, value_name = "PERCENT", value_parser = percent)]
    pub(crate) overwrite: f64,
    /// Bytes that move to another place
    #[arg(long, default_value_t = 1.0, value_name = "PERCENT", value_parser = percent)]
    pub(crate) relocate: f64,
    /// Bytes that each backup repeats at another place, the first backup too
    #[arg(long, default_value_t = 1.0, value_name = "PERCENT", value_parser = percent)]
    pub(crate) repeat: f64,
    /// Bytes that zeros replace
    #[arg(long, default_value_t = 1.0, value_name = "PERCENT", value_parser = percent)]
    pub(crate) zero: f64,
    #[command(flatten)]
    pub(crate) chunks: Chunks8K,
    #[command(flatten)]
    pub(crate) to: To,
}

fn percent(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(percent) if (0.0..=100.0).contains(&percent) => Ok(percent),
        _ => Err("give a percentage from 0 to 100".to_owned()),
    }
}
