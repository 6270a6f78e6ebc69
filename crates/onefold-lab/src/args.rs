//! The arguments of each command of the laboratory.

pub(crate) mod generate;
mod reproduce;
mod streams;

use std::path::PathBuf;

use clap::error::ErrorKind;
use clap::{ArgGroup, Args, CommandFactory, FromArgMatches, Parser, Subcommand, ValueEnum};
use cli_support::OutputOptions;
use cli_support::idle::{idle_cap, innermost};
use cli_support::values::{memory, parse_cap};
use onefold::Cap;

pub(crate) use reproduce::{Draw, Host, Reproduce};
use simulate::{Assembly, SamplingRate};
pub(crate) use streams::{Record, Replay, Synthesize};

/// The laboratory of Onefold.
#[derive(Debug, Parser)]
#[command(
    name = "onefold-lab",
    version,
    about = "The laboratory of Onefold: workloads, chunk traces, a simulator, and the experiments of papers",
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
        if let Command::Reproduce(reproduce) = &cli.command
            && let Err(why) = reproduce.check()
        {
            let (clap, _) = innermost(&mut clap, &matches);
            return Err(clap.error(ErrorKind::ArgumentConflict, why));
        }
        Ok(cli)
    }
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Make a workload from the papers, as a chunk trace or as files
    Generate(generate::Generate),
    /// Make a chunk trace from files, tars or disk images
    Trace(Trace),
    /// Simulate a store with the backups of a chunk trace: the bytes it stores, and the containers
    /// that restores read
    Simulate(Simulate),
    /// Measure the figures of a paper again, and plot both results
    Reproduce(Reproduce),
    /// Be a host of an experiment that `reproduce` runs
    #[command(hide = true)]
    ReproduceHost(Host),
    /// Draw the plots of a file of results as SVG
    Plot(Draw),
    /// Stand between clients and a server, and record what they say to each other, until Ctrl-C or
    /// SIGTERM
    Record(Record),
    /// Play the client's side of recordings again, against a copy of the server
    Replay(Replay),
    /// Back up a file as a virtual full backup: copy what the last backup of the series has, and
    /// read only the rest
    Synthesize(Synthesize),
}

#[derive(Debug, Args)]
#[command(group = ArgGroup::new("to").required(true).args(["output", "destor"]))]
pub(crate) struct Trace {
    /// The backups, in this order. Each is a file or a folder; the command chunks the files of a
    /// folder one by one
    #[arg(value_name = "PATH", required = true)]
    pub(crate) paths: Vec<PathBuf>,
    /// Write the chunk trace to this new file, to this pipe, or to standard output (`-`)
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    /// Write a trace in destor's format for each backup to this folder, which must be empty or
    /// new. A trace's name is the backup's number and the last part of its path
    #[arg(long, value_name = "FOLDER")]
    pub(crate) destor: Option<PathBuf>,
    /// Average chunk length in KiB, 1 to 128
    #[arg(long, default_value_t = 8, value_name = "KIB", value_parser = clap::value_parser!(u32).range(1..=128))]
    pub(crate) chunk_kib: u32,
    /// Cut fixed chunks of this many KiB, as for disk images
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
    /// Chunk traces, or destor's traces with one backup each, in this order; `-` is standard input
    #[arg(value_name = "FILE", required = true)]
    pub(crate) traces: Vec<PathBuf>,
    /// Container size in MiB, 1 to 256 (the paper: 4 MB)
    #[arg(long, default_value_t = 4, value_name = "MIB", value_parser = clap::value_parser!(u32).range(1..=256))]
    pub(crate) container_mib: u32,
    /// Begin a new container with each backup, as sessions do
    #[arg(long, conflicts_with = "engine")]
    pub(crate) seal: bool,
    /// Keep this many backups: the simulator deletes the oldest before it stores the next (the
    /// paper's cycle: 30, which are 29 and the new one)
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) keep: Option<u32>,
    /// Keep the newest backup, and this many of the last backups, of the full ones, and of every
    /// fourth full one
    #[arg(long, value_name = "SONS,FATHERS,GRANDFATHERS", value_parser = parse_generations, conflicts_with = "keep")]
    pub(crate) keep_generations: Option<[usize; 3]>,
    /// Find chunks as the engine does, with sampled hooks and prefetched catalogs. Without this
    /// option, the simulator finds every stored chunk
    #[arg(long)]
    pub(crate) engine: bool,
    /// The containers that a window of each backup may refer to: `none` for no limit, a number,
    /// `adaptive:NUMBER` for an average, or `least:BYTES` (K, M, G) for all that hold at least this
    /// many bytes of the window
    #[arg(long, default_value = "none", value_name = "CAP", value_parser = parse_cap, requires = "engine")]
    pub(crate) cap: Cap,
    /// Do not count containers that one of the last COUNT windows referred to (default: 3 with
    /// `least:BYTES`, else 0)
    #[arg(
        long,
        value_name = "COUNT",
        value_parser = clap::value_parser!(u32).range(0..=1024),
        requires = "engine"
    )]
    pub(crate) cap_remember: Option<u32>,
    /// Length of a window, in bytes or with K, M or G at the end (the paper: 20 MB)
    #[arg(long, default_value = "20000000", value_name = "BYTES", value_parser = memory, requires = "engine")]
    pub(crate) cap_window: u64,
    /// Memory for chunk look-ups in MiB, 1 to 65536
    #[arg(
        long,
        default_value_t = 32,
        value_name = "MIB",
        value_parser = clap::value_parser!(u64).range(1..=65536),
        requires = "engine"
    )]
    pub(crate) lookup_mib: u64,
    /// Keep prefetched catalogs for the next backup. The engine never does this; it is faster, and
    /// finds a few more chunks
    #[arg(long, requires = "engine")]
    pub(crate) warm: bool,
    /// Memory of the index in MiB, 1 to 65536. A full index drops every other hook
    #[arg(
        long,
        default_value_t = 256,
        value_name = "MIB",
        value_parser = clap::value_parser!(u32).range(1..=65_536),
        requires = "engine"
    )]
    pub(crate) index_mib: u32,
    /// Keep the hook of one chunk in COUNT (a power of two), even if the index has memory for more
    #[arg(long, default_value = "1", value_name = "COUNT", value_parser = parse_sampling, requires = "engine")]
    pub(crate) sample: SamplingRate,
    /// Memory of a restore, in bytes or with K, M or G at the end (may be a list)
    #[arg(long, default_value = "32M,128M,1G", value_name = "BYTES", value_delimiter = ',', value_parser = memory)]
    pub(crate) memory: Vec<u64>,
    /// How a restore uses its memory (may be a list)
    #[arg(
        long,
        value_enum,
        default_value = "lru,fixed,rolling",
        value_name = "HOW",
        value_delimiter = ','
    )]
    pub(crate) assembly: Vec<AssemblyMode>,
    /// Do not restore the first COUNT backups
    #[arg(long, default_value_t = 0, value_name = "COUNT")]
    pub(crate) skip: u64,
}

/// How a restore uses memory to read few containers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum AssemblyMode {
    /// A forward assembly area that rolls: restored bytes make room for the next ones
    Rolling,
    /// A forward assembly area that is filled and emptied as a whole
    Fixed,
    /// Whole containers; drops the least recently used one
    Lru,
    /// Single chunks, kept until their next use, which the recipe names
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
    rate.ok_or_else(|| format!("`{text}` is no power of two from 1 to 2147483648"))
}
