//! Arguments of commands that read a backup: `restore`, `dump`, `ls`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use cli_support::values::memory;

use super::filter::Filter;
use super::typed::{BackupPath, backup_path};

#[derive(Debug, Args)]
pub(crate) struct Restore {
    /// A backup's id, or `latest`; `ID:PATH` restores the contents of that folder into the target
    #[arg(value_name = "ID[:PATH]", value_parser = backup_path())]
    pub(crate) id: BackupPath,
    /// The folder to restore to; the restore creates the backup's paths below it
    #[arg(short, long, value_name = "DIR")]
    pub(crate) target: PathBuf,
    /// Restore only this path and everything below it (may be repeated); with `*` or `?` it is a
    /// pattern, and the restore takes the entries that match
    #[arg(short, long, value_name = "PATH")]
    pub(crate) include: Vec<PathBuf>,
    /// Leave out entries that match this pattern (may be repeated): `/x` from the root, `./x` from
    /// here, `x` in any folder; `\[` is a bracket
    #[arg(short, long, value_name = "PATTERN")]
    pub(crate) exclude: Vec<String>,
    /// The same, with letters of either case
    #[arg(long, value_name = "PATTERN")]
    pub(crate) iexclude: Vec<String>,
    /// What to do with existing files; the restore does not read the content of files that stay
    #[arg(long, value_enum, default_value_t = OverwriteMode::Always)]
    pub(crate) overwrite: OverwriteMode,
    /// Delete what the restored folders of the target have and the backup does not, except what
    /// --exclude matches
    #[arg(long)]
    pub(crate) delete: bool,
    /// Delete also if the backup lacks entries that could not be read when it was made: it then
    /// deletes these from the target
    #[arg(long, requires = "delete")]
    pub(crate) delete_unread: bool,
    /// Restore and delete nothing, and say what a restore would do; with -vv, for each entry
    #[arg(short = 'n', long)]
    pub(crate) dry_run: bool,
    /// Then read the restored files again, and compare them with the backup
    #[arg(long, conflicts_with = "dry_run")]
    pub(crate) verify: bool,
    /// Where to make holes in files; `--sparse` alone means `--sparse=zeros`
    #[arg(
        long,
        value_enum,
        value_name = "WHERE",
        default_value_t = SparseMode::Source,
        num_args = 0..=1,
        default_missing_value = "zeros",
        require_equals = true
    )]
    pub(crate) sparse: SparseMode,
    /// How to find the owners of restored entries; only the superuser can choose
    #[arg(long, value_enum, default_value_t = OwnersMode::Numbers, value_name = "BY")]
    pub(crate) owners: OwnersMode,
    #[command(flatten)]
    pub(crate) assembling: Assembling,
    #[command(flatten)]
    pub(crate) filter: Filter,
}

#[derive(Debug, Args)]
pub(crate) struct Dump {
    /// A backup's id, or `latest`; `ID:PATH` names the file, too
    #[arg(value_name = "ID[:PATH]", value_parser = backup_path())]
    pub(crate) id: BackupPath,
    /// The file, or with --archive the folder; not needed for a backup of a stream or a disk image
    #[arg(value_name = "PATH")]
    pub(crate) file: Option<PathBuf>,
    /// Write a folder as one archive, or, without a path, all of the backup. In the archive, names
    /// begin at the root, and with ID:PATH at that folder
    #[arg(short, long, value_enum, value_name = "FORMAT")]
    pub(crate) archive: Option<ArchiveMode>,
    /// Write to this file, not to standard output
    #[arg(short, long, value_name = "FILE")]
    pub(crate) target: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) assembling: Assembling,
    #[command(flatten)]
    pub(crate) filter: Filter,
}

/// The format of an archive.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ArchiveMode {
    /// With any names, exact times, owners, attributes, links and devices
    Tar,
    /// For other systems: with modes, times and symbolic links alone
    Zip,
}

/// How a restore assembles what it reads.
#[derive(Debug, Args)]
pub(crate) struct Assembling {
    /// Memory for data that is read ahead or kept for its next use, in bytes; K, M and G are
    /// multiples of 1024
    #[arg(long, value_name = "BYTES", default_value = "96M", value_parser = memory)]
    pub(crate) memory: u64,
    /// How many reads run at the same time [default: 8, or the number of cores and 2 if that is
    /// more]; more are faster with many disks or a distant storage
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u16).range(1..=256))]
    pub(crate) requests: Option<u16>,
}

impl Assembling {
    /// The library's options, for this machine.
    pub(crate) fn options(&self) -> onefold::AssembleOptions {
        let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        let options = onefold::AssembleOptions::for_cores(cores).budget_bytes(self.memory);
        match self.requests {
            None => options,
            Some(requests) => options.with_requests(requests.into()),
        }
    }
}

/// What to do with existing files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum OverwriteMode {
    /// Replace them
    Always,
    /// Replace those whose size or time differs
    IfChanged,
    /// Replace those that are older than the backup's entry
    IfNewer,
    /// Replace none
    Never,
}

/// Where to make holes in files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum SparseMode {
    /// Where the source had holes
    Source,
    /// Wherever a block is zeros
    Zeros,
    /// Nowhere
    Never,
}

/// How to find the owners of restored entries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum OwnersMode {
    /// By the numbers that the source had
    Numbers,
    /// By name, and by number where the name is unknown here
    Names,
}

#[derive(Debug, Args)]
pub(crate) struct Ls {
    /// A backup's id, or `latest`; `ID:PATH` names a path, too
    #[arg(value_name = "ID[:PATH]", value_parser = backup_path())]
    pub(crate) id: BackupPath,
    /// Only this path and everything below it
    pub(crate) paths: Vec<PathBuf>,
    /// Print mode, owner, size and local time
    #[arg(short, long, conflicts_with = "json")]
    pub(crate) long: bool,
    #[command(flatten)]
    pub(crate) filter: Filter,
}
