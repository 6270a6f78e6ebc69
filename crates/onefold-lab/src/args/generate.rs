//! Arguments of `onefold-lab generate`. Each workload takes only those that concern it.

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
    /// Files that change a little every day and are backed up in full once a week [Lillibridge 4.2]
    #[command(name = "2year")]
    TwoYear(TwoYear),
    /// The machines of a group of engineers: daily incremental and weekly synthetic full backups,
    /// those of a day as one [Lillibridge 4.2]
    Workgroup(Workgroup),
    /// A disk image, in full every week: each day 2 % of the files change by 10 %, and 10 of 8000
    /// MB are new [RevDedup 4.1]
    Sg1(Sg),
    /// As sg1, but 4 % of the files change
    Sg2(Sg),
    /// As sg1, but files change by 20 %
    Sg3(Sg),
    /// As sg1, but 20 of 8000 MB are new
    Sg4(Sg),
    /// As sg1, but 10 % of the files change
    Sg5(Sg),
    /// Several disk images that begin as one and change as sg1 does, each by itself [RevDedup 4.1]
    Gp(Gp),
    /// The virtual machines of a course, from one master image, in blocks of 4 KiB [RevDedup 4.1]
    VmSeries(VmSeries),
    /// Streams with lineages: generations that add, delete and move data in clusters [DD Boost
    /// IV-B]
    Lineages(Lineages),
    /// Streams of unique data, and the same again [Guo 4.1]
    Unique(Unique),
    /// Four versions of the image of a virtual machine, in blocks of 4 KiB [Guo 4.2, table 4]
    Vm(Vm),
    /// A stream that is edited: insertion, deletion, overwriting, relocation, repetition, zeros
    Edits(Edits),
}

#[derive(Debug, Args)]
#[command(group = ArgGroup::new("to").required(true).args(["trace", "destor", "files"]))]
pub(crate) struct To {
    /// What all is drawn from: the same seed makes the same backups
    #[arg(long, default_value_t = 1, value_name = "NUMBER")]
    pub(crate) seed: u64,
    /// Write a chunk trace to this file, which must not exist, to a pipe, or to standard output
    /// (`-`)
    #[arg(long, value_name = "FILE")]
    pub(crate) trace: Option<PathBuf>,
    /// Write a trace as destor reads it, one for each backup, to this folder, which must be empty
    /// or not exist
    #[arg(long, value_name = "FOLDER")]
    pub(crate) destor: Option<PathBuf>,
    /// Write the bytes of each backup to a file in this folder, which must be empty or not exist
    #[arg(long, value_name = "FOLDER")]
    pub(crate) files: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct TwoYear {
    /// Bytes of files to begin with, with K, M or G at the end (the paper has 10 GB)
    #[arg(long, default_value = "256M", value_name = "BYTES", value_parser = byte_count)]
    pub(crate) size: u64,
    /// Weeks of five backups each (the paper has 96)
    #[arg(long, default_value_t = 8, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(crate) weeks: u32,
    /// Bytes of a file on average, with K, M or G at the end, 1K or more and no more than `--size`
    /// (the paper does not say) [default: 256K, or `--size` where that is less]
    #[arg(long, value_name = "BYTES", value_parser = byte_count)]
    pub(crate) file_bytes: Option<u64>,
    /// Bytes of a chunk on average, 64 to 1048576, as the trace has them
    #[arg(long, default_value_t = 3850, value_name = "BYTES", value_parser = clap::value_parser!(u32).range(64..=1 << 20))]
    pub(crate) chunk_bytes: u32,
    #[command(flatten)]
    pub(crate) to: To,
}

#[derive(Debug, Args)]
pub(crate) struct Workgroup {
    /// Bytes of a machine's first full backup on average, with K, M or G at the end (the paper's
    /// fulls have 21 GB)
    #[arg(long, default_value = "64M", value_name = "BYTES", value_parser = byte_count)]
    pub(crate) size: u64,
    /// Machines
    #[arg(long, default_value_t = 20, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(crate) machines: u32,
    /// Weeks
    #[arg(long, default_value_t = 18, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(crate) weeks: u32,
    /// How much of a machine's first full backup is files of the group's, that others have too
    #[arg(long, default_value_t = 80.0, value_name = "PERCENT", value_parser = percent)]
    pub(crate) shared: f64,
    #[command(flatten)]
    pub(crate) chunks: Chunks4K,
    #[command(flatten)]
    pub(crate) to: To,
}

#[derive(Debug, Args)]
pub(crate) struct Chunks4K {
    /// Bytes of a chunk on average, 64 to 1048576, as the trace has them
    #[arg(long, default_value_t = 4096, value_name = "BYTES", value_parser = clap::value_parser!(u32).range(64..=1 << 20))]
    pub(crate) chunk_bytes: u32,
}

#[derive(Debug, Args)]
pub(crate) struct Chunks8K {
    /// Bytes of a chunk on average, 64 to 1048576, as the trace has them
    #[arg(long, default_value_t = 8192, value_name = "BYTES", value_parser = clap::value_parser!(u32).range(64..=1 << 20))]
    pub(crate) chunk_bytes: u32,
}

#[derive(Debug, Args)]
pub(crate) struct Image {
    /// Bytes of an image, with K, M or G at the end; what is in it and what is new scales with it
    /// (the paper has 8 GB, of the course 7.6 GB)
    #[arg(long, default_value = "256M", value_name = "BYTES", value_parser = byte_count)]
    pub(crate) size: u64,
    /// Weekly backups of each image [default: the paper's: sg1 to sg5 78, gp 20, vm-series 12]
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(crate) weeks: Option<u32>,
    /// Files that change in a day, the paper's alpha [default: the workload's]
    #[arg(long, value_name = "PERCENT", value_parser = percent)]
    pub(crate) files_changed: Option<f64>,
    /// How much of a file that changes is overwritten, its beta [default: the workload's]
    #[arg(long, value_name = "PERCENT", value_parser = percent)]
    pub(crate) bytes_changed: Option<f64>,
    /// Bytes of new files in a day, with K, M or G at the end, its gamma; not scaled [default: the
    /// workload's, scaled]
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
    /// Images, each a series
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
    /// Virtual machines, each a series
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
    /// Bytes of a stream's generation 0, with K, M or G at the end (the paper has 20 GB)
    #[arg(long, default_value = "256M", value_name = "BYTES", value_parser = byte_count)]
    pub(crate) size: u64,
    /// Streams, each with a lineage of its own (the paper has 1 to 64)
    #[arg(long, default_value_t = 4, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(crate) lineages: u32,
    /// The last generation; it, 0, 1 and every fifth are written
    #[arg(long, default_value_t = 41, value_name = "NUMBER", value_parser = clap::value_parser!(u32).range(..=10_000))]
    pub(crate) generations: u32,
    /// Where the updates of a generation fall
    #[arg(long, value_enum, default_value = "normal", value_name = "HOW")]
    pub(crate) clusters: Clusters,
    /// Bytes of an update on average, with K, M or G at the end
    #[arg(long, default_value = "16K", value_name = "BYTES", value_parser = byte_count)]
    pub(crate) update: u64,
    #[command(flatten)]
    pub(crate) chunks: Chunks8K,
    #[command(flatten)]
    pub(crate) to: To,
}

#[derive(Debug, Args)]
pub(crate) struct Unique {
    /// Bytes of a stream, with K, M or G at the end (the paper's files have 3 GB)
    #[arg(long, default_value = "256M", value_name = "BYTES", value_parser = byte_count)]
    pub(crate) size: u64,
    /// Streams (the paper has 1 to 256)
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
    /// Bytes of the first version's unique chunks, with K, M or G at the end (the paper: 2123 MB);
    /// the first image has 1.2 times as many in all, the fourth 2.6 times
    #[arg(long, default_value = "256M", value_name = "BYTES", value_parser = byte_count)]
    pub(crate) size: u64,
    /// Versions
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
    /// Backups of the stream
    #[arg(long, default_value_t = 10, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(crate) backups: u32,
    /// Bytes of an edit on average, with K, M or G at the end
    #[arg(long, default_value = "64K", value_name = "BYTES", value_parser = byte_count)]
    pub(crate) edit: u64,
    /// New bytes that come between others in each backup
    #[arg(long, default_value_t = 1.0, value_name = "PERCENT", value_parser = percent)]
    pub(crate) insert: f64,
    /// Bytes that go
    #[arg(long, default_value_t = 2.0, value_name = "PERCENT", value_parser = percent)]
    pub(crate) delete: f64,
    /// Bytes that are replaced by new ones
    #[arg(long, default_value_t = 1.0, value_name = "PERCENT", value_parser = percent)]
    pub(crate) overwrite: f64,
    /// Bytes that move to another place
    #[arg(long, default_value_t = 1.0, value_name = "PERCENT", value_parser = percent)]
    pub(crate) relocate: f64,
    /// Bytes that come a second time at another place of the same backup, the first one too
    #[arg(long, default_value_t = 1.0, value_name = "PERCENT", value_parser = percent)]
    pub(crate) repeat: f64,
    /// Bytes that are replaced by zeros
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
        _ => Err("a percentage from 0 to 100 is expected".to_owned()),
    }
}
