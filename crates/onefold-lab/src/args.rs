//! The arguments: each command of the laboratory takes its own.

pub(crate) mod generate;
mod reproduce;

use std::path::PathBuf;

use clap::{ArgGroup, Args, CommandFactory, FromArgMatches, Parser, Subcommand, ValueEnum};
use cli_support::OutputOptions;
use cli_support::idle::{idle_cap, innermost};
use cli_support::values::{memory, parse_cap};
use onefold::Cap;

pub(crate) use reproduce::Reproduce;
use simulate::{Assembly, SamplingRate};

/// The laboratory of Onefold.
#[derive(Debug, Parser)]
#[command(
    name = "onefold-lab",
    version,
    about = "The laboratory of Onefold: workloads, chunk traces, a simulator, the experiments of papers",
    max_term_width = 110
)]
pub(crate) struct Cli {
    #[command(flatten, next_help_heading = "Options of every command")]
    pub(crate) output: OutputOptions,
    #[command(subcommand)]
    pub(crate) command: Command,
}

impl Cli {
    /// Parses the process's arguments.
    ///
    /// # Errors
    /// An argument is unknown or could have no effect, or help was requested.
    pub(crate) fn typed() -> Result<Self, clap::Error> {
        let mut clap = Self::command();
        clap.build();
        let matches = clap.try_get_matches_from_mut(std::env::args_os())?;
        let cli = Self::from_arg_matches(&matches).map_err(|error| error.format(&mut clap))?;
        if let Command::Simulate(simulate) = &cli.command {
            let (clap, matches) = innermost(&mut clap, &matches);
            if let Some((kind, why)) = idle_cap(simulate.cap, matches, &["cap_remember", "cap_window"]) {
                return Err(clap.error(kind, why));
            }
        }
        Ok(cli)
    }
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Make a workload of the papers: as a chunk trace, or as files
    Generate(generate::Generate),
    /// Make a chunk trace of files, tars or disk images
    Trace(Trace),
    /// Say what a store would hold of the backups in a chunk trace, and what restoring them would
    /// read
    Simulate(Simulate),
    /// Measure a paper's figures again, and draw them beside its own
    Reproduce(Reproduce),
}

#[derive(Debug, Args)]
#[command(group = ArgGroup::new("to").required(true).args(["output", "destor"]))]
pub(crate) struct Trace {
    /// The backups, in this order: each a file, or a folder of which all files are cut one by one
    #[arg(value_name = "PATH", required = true)]
    pub(crate) paths: Vec<PathBuf>,
    /// Write the chunk trace to this file, which must not exist, to a pipe, or to standard output
    /// (`-`)
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    /// Write a trace as destor reads it, one for each backup, to this folder, which must be empty
    /// or not exist: named by the backup's number and the end of its path
    #[arg(long, value_name = "FOLDER")]
    pub(crate) destor: Option<PathBuf>,
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
    /// Chunk traces, or traces of destor: one backup each, in this order; `-` is standard input
    #[arg(value_name = "FILE", required = true)]
    pub(crate) traces: Vec<PathBuf>,
    /// Size of a container in MiB, 1 to 256 (the paper has 4 MB)
    #[arg(long, default_value_t = 4, value_name = "MIB", value_parser = clap::value_parser!(u32).range(1..=256))]
    pub(crate) container_mib: u32,
    /// Let each backup begin a container of its own, as sessions do
    #[arg(long, conflicts_with = "engine")]
    pub(crate) seal: bool,
    /// Keep so many backups: the oldest goes before the next comes (the paper's cycle keeps 29 and
    /// the new one: 30)
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) keep: Option<u32>,
    /// Beside the newest, keep so many of the last backups, of the full ones, and of every fourth
    /// full one
    #[arg(long, value_name = "SONS,FATHERS,GRANDFATHERS", value_parser = parse_generations, conflicts_with = "keep")]
    pub(crate) keep_generations: Option<[usize; 3]>,
    /// Find chunks as the engine does, through sampled hooks and prefetched catalogs; without it
    /// all are found
    #[arg(long)]
    pub(crate) engine: bool,
    /// How many containers a window of each backup may refer to: `none`, a number,
    /// `adaptive:NUMBER` for an average, or `least:BYTES` (K, M, G): any number that each hold so
    /// many bytes of the window
    #[arg(long, default_value = "none", value_name = "CAP", value_parser = parse_cap, requires = "engine")]
    pub(crate) cap: Cap,
    /// Containers that so many windows before referred to do not count towards the cap (default: 3
    /// with `least:BYTES`, else 0)
    #[arg(
        long,
        value_name = "COUNT",
        value_parser = clap::value_parser!(u32).range(0..=1024),
        requires = "engine"
    )]
    pub(crate) cap_remember: Option<u32>,
    /// Length of a window, in bytes or with K, M or G at the end (the paper's is 20 MB)
    #[arg(long, default_value = "20000000", value_name = "BYTES", value_parser = memory, requires = "engine")]
    pub(crate) cap_window: u64,
    /// Memory for looking up chunks in MiB, 1 to 65536
    #[arg(
        long,
        default_value_t = 32,
        value_name = "MIB",
        value_parser = clap::value_parser!(u64).range(1..=65536),
        requires = "engine"
    )]
    pub(crate) lookup_mib: u64,
    /// Keep prefetched catalogs for the next backup, which no backup of the engine's does: faster,
    /// and a little more is found
    #[arg(long, requires = "engine")]
    pub(crate) warm: bool,
    /// Memory of the index in MiB, 1 to 65536: when it is used up, every other hook goes
    #[arg(
        long,
        default_value_t = 256,
        value_name = "MIB",
        value_parser = clap::value_parser!(u32).range(1..=65_536),
        requires = "engine"
    )]
    pub(crate) index_mib: u32,
    /// Keep the hook of one chunk in so many, a power of two, even where the index has memory for
    /// more
    #[arg(long, default_value = "1", value_name = "COUNT", value_parser = parse_sampling, requires = "engine")]
    pub(crate) sample: SamplingRate,
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

/// How a restore uses memory to read few containers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum AssemblyMode {
    /// A forward assembly area that rolls: what has left makes room for what comes
    Rolling,
    /// A forward assembly area, filled and left as a whole
    Fixed,
    /// Whole containers, of which the least recently used goes
    Lru,
    /// Single chunks, kept for their next use, which the recipe tells
    LookAhead,
}

impl AssemblyMode {
    /// The corresponding mode of the simulator.
    pub(crate) const fn assembly(self) -> Assembly {
        match self {
            Self::Rolling => Assembly::Rolling,
            Self::Fixed => Assembly::Fixed,
            Self::Lru => Assembly::Lru,
            Self::LookAhead => Assembly::LookAhead,
        }
    }
}

fn parse_generations(text: &str) -> Result<[usize; 3], String> {
    let counts = text.split(',').map(|count| count.trim().parse().ok());
    let counts: Option<Vec<usize>> = counts.collect();
    let counts = counts.and_then(|counts| <[usize; 3]>::try_from(counts).ok());
    counts.ok_or_else(|| format!("`{text}` is not three numbers of backups, such as 7,4,6"))
}

fn parse_sampling(text: &str) -> Result<SamplingRate, String> {
    let one_in: Option<u64> = text.parse().ok().filter(|number: &u64| number.is_power_of_two());
    let rate = one_in.and_then(|number| SamplingRate::new(u8::try_from(number.trailing_zeros()).ok()?));
    rate.ok_or_else(|| format!("`{text}` is no power of two up to 2147483648"))
}
