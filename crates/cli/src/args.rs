//! The arguments. Verbs and options are those of restic, as far as possible.

mod cat;
mod comparing;
mod documents;
mod environment;
mod filter;
mod idle;
mod init;
mod key;
mod mount;
mod optimize;
mod pool;
mod profiled;
mod prune;
mod reading;
mod retention;
mod series;
mod serving;
mod typed;
mod verify;
mod volume;

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;

use clap::error::ErrorKind;
use clap::{Args, Command as Clap, CommandFactory, FromArgMatches, Parser, Subcommand, ValueEnum};
use cli_support::values::{capping_of, parse_cap};
use cli_support::{Output, OutputOptions};
use onefold::walk::Marker;
use onefold::{Cap, Capping};
use tracing_subscriber::filter::Targets;

use crate::log;

pub(crate) use cat::Cat;
pub(crate) use comparing::{Diff, Find};
pub(crate) use documents::{Completions, Man, ShellName};
pub(crate) use filter::{ALL, Filter, LATEST};
pub(crate) use init::Init;
pub(crate) use key::{Key, NewPassword};
pub(crate) use mount::Mount;
pub(crate) use optimize::Optimize;
pub(crate) use pool::{Pool, PoolInit, PoolStats};
pub(crate) use profiled::Typed;
pub(crate) use prune::{Prune, PruneLimits};
pub(crate) use reading::{ArchiveMode, Dump, Ls, OverwriteMode, OwnersMode, Restore, SparseMode};
pub(crate) use retention::{Forget, Hold, Tag, Unhold};
pub(crate) use series::{Change, Named, Series, Which};
pub(crate) use serving::{Invite, Join, Namespace, Serve, Server, Tenant, Token};
pub(crate) use typed::{BackupPath, TagList};
use typed::{marker, name, store_place, tag_list};
pub(crate) use volume::{ListenPlace, Settings, Switch, Volume, VolumeServe};

/// Deduplicating backups: equal data is stored once.
#[derive(Debug, Parser)]
#[command(
    name = "onefold",
    version,
    about = "Deduplicating backups: equal data is stored once",
    max_term_width = 110
)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) global: Global,
    #[command(subcommand)]
    pub(crate) command: Command,
    /// Which events are logged, where the environment says so
    #[arg(skip)]
    pub(crate) log_filter: Option<Targets>,
    /// The command that was typed: `prune`, `key add`
    #[arg(skip)]
    pub(crate) verb: String,
    /// The number of the profile's backup that this is
    #[arg(skip)]
    pub(crate) entry: Option<usize>,
}

impl Cli {
    /// All commands and options.
    pub(crate) fn described() -> Clap {
        idle::built(Self::command())
    }

    /// Parses one command line.
    ///
    /// # Errors
    /// The words that clap does not accept; a request for help.
    fn parsed(clap: &Clap, words: &[OsString]) -> Result<Self, clap::Error> {
        let mut clap = clap.clone();
        let matches = clap
            .try_get_matches_from_mut(words)
            .map_err(|error| environment::named(&mut clap, error))?;
        let mut cli = Self::from_arg_matches(&matches).map_err(|error| error.format(&mut clap))?;
        let (clap, matches) = cli_support::idle::innermost(&mut clap, &matches);
        if let Some((kind, why)) = cli.idle(matches) {
            return Err(clap.error(kind, why));
        }
        let on_server = cli.idle_on_server(matches);
        cli.global.idle_on_server = on_server.map(|(kind, why)| Arc::new(clap.error(kind, why)));
        environment::give_way(&mut cli, matches);
        cli.log_filter = log::filter().map_err(|why| clap.error(ErrorKind::ValueValidation, why))?;
        let verb = clap.get_bin_name().unwrap_or_default();
        cli.verb = verb.strip_prefix("onefold ").unwrap_or(verb).to_owned();
        Ok(cli)
    }
}

/// Options of every command.
#[derive(Debug, Args)]
#[command(next_help_heading = "Options of every command")]
pub(crate) struct Global {
    /// What is wrong with the typed options if the server has the store open
    #[arg(skip)]
    pub(crate) idle_on_server: Option<Arc<clap::Error>>,
    /// Take the store, the backups and other options from this profile: `NAME.toml` in
    /// `~/.config/onefold` or `/etc/onefold`, or the path of a file
    #[arg(
        short = 'P',
        long,
        global = true,
        env = "ONEFOLD_PROFILE",
        value_name = "NAME"
    )]
    pub(crate) profile: Option<String>,
    /// The store: a local or mounted folder, s3:https://HOST/BUCKET/PREFIX, or
    /// onefold://HOST:PORT/NAMESPACE
    #[arg(
        short,
        long,
        global = true,
        env = "ONEFOLD_REPOSITORY",
        value_name = "FOLDER",
        value_parser = store_place()
    )]
    pub(crate) repo: Option<PathBuf>,
    /// Read the password from the first line of this file
    #[arg(
        short,
        long,
        global = true,
        env = "ONEFOLD_PASSWORD_FILE",
        value_name = "FILE"
    )]
    pub(crate) password_file: Option<PathBuf>,
    /// Run this command through the shell and take the first line it prints as the password
    #[arg(long, global = true, env = "ONEFOLD_PASSWORD_COMMAND", value_name = "COMMAND")]
    pub(crate) password_command: Option<String>,
    /// Use no password: anyone who can read the store can read everything in it
    #[arg(long, global = true)]
    pub(crate) insecure_no_password: bool,
    /// How large the index may grow on disk; when it is full, it keeps one fingerprint in 2, then
    /// in 4, ...
    #[arg(
        long,
        global = true,
        env = "ONEFOLD_INDEX_MIB",
        value_name = "MIB",
        default_value_t = 256,
        value_parser = clap::value_parser!(u32).range(1..)
    )]
    pub(crate) index_mib: u32,
    /// Load the index into this much memory, instead of reading it from disk
    #[arg(
        long,
        global = true,
        env = "ONEFOLD_INDEX_MEMORY_MIB",
        value_name = "MIB",
        value_parser = clap::value_parser!(u32).range(1..)
    )]
    pub(crate) index_memory_mib: Option<u32>,
    /// Read without writing to the store; a prune may then remove a forgotten backup while it is
    /// read
    #[arg(long, global = true, alias = "no-lock")]
    pub(crate) no_pin: bool,
    /// Append a log to this file, to find the cause of a fault; `ONEFOLD_LOG` says what is logged
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) log: Option<PathBuf>,
    /// Print more, such as what each stage of a backup waited for
    #[arg(short, long, global = true, overrides_with = "verbose")]
    pub(crate) verbose: bool,
    #[command(flatten)]
    pub(crate) output: OutputOptions,
}

impl Global {
    /// Where results go, and in which form.
    pub(crate) fn output(&self) -> Output {
        Output::new(&self.output).verbose(self.verbose)
    }
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Create a new store
    Init(Init),
    /// Back up files and folders, a stream, or a disk image
    Backup(Backup),
    /// Restore a backup
    Restore(Restore),
    /// Write one file of a backup, its stream, or a folder as an archive, to standard output
    Dump(Dump),
    /// Show backups as a read-only file system, until Ctrl-C or umount
    Mount(Mount),
    /// List the backups
    Snapshots(Filter),
    /// List the files in a backup
    Ls(Ls),
    /// Show what changed from one backup to another
    Diff(Diff),
    /// Find files in all backups, or in some
    Find(Find),
    /// Forget backups, by rules or by name; `prune` then reclaims the space that only they need
    Forget(Forget),
    /// Reclaim the space that no backup needs
    Prune(Prune),
    /// Change the tags of backups
    Tag(Tag),
    /// Hold backups, so that no command forgets them before a date
    Hold(Hold),
    /// End the hold of backups
    Unhold(Unhold),
    /// Check the store for damage
    Check(Check),
    /// Show what the store holds, and how many containers a restore reads
    Stats(Stats),
    /// Show or set how the backups of a series are stored
    #[command(subcommand)]
    Series(Series),
    /// Rewrite the backups of all series, or of one, as the settings of their series say. With
    /// layout hybrid, older backups then refer to data of newer ones, and `optimize` forgets
    /// backups beyond the archival window. With repair, it copies scattered data of the newest
    /// backup together
    Optimize(Optimize),
    /// Rebuild the index
    #[command(subcommand)]
    Index(Index),
    /// List, add, change and remove passwords
    #[command(subcommand)]
    Key(Key),
    /// Read backups, measure chunk sizes, caps and memory, and recommend settings; needs no store
    Analyze(Analyze),
    /// Serve the stores of a server's folder to other machines
    Serve(Serve),
    /// Make a server, invite machines, and revoke their tokens
    #[command(subcommand)]
    Server(Server),
    /// Join a server with its invitation; after that, `-r onefold://HOST:PORT/NAMESPACE` is a store
    Join(Join),
    /// Print an object of the store as JSON, to look into it
    #[command(subcommand)]
    Cat(Cat),
    /// Print a script by which a shell completes the words of `onefold`
    Completions(Completions),
    /// Write the manual: a page for each command, or the main page
    Man(Man),
    /// Make, check and grow pools: files or disks with block volumes for virtual machines
    #[command(subcommand)]
    Pool(Pool),
    /// Make and serve volumes, which share the equal blocks of their pool
    #[command(subcommand)]
    Volume(Volume),
}

#[derive(Debug, Args)]
pub(crate) struct Analyze {
    /// Backups of the same data, oldest first: each a file, or a folder with all files below
    #[arg(value_name = "PATH", required = true)]
    pub(crate) paths: Vec<PathBuf>,
    /// Write tables and plots to this HTML file, which must not exist
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: PathBuf,
    /// Cut chunks of one length, as for disk images
    #[arg(long)]
    pub(crate) images: bool,
}

/// How regions are compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum CompressionMode {
    /// Compress with zstd where that makes data smaller
    Auto,
    /// Compress everything with zstd
    On,
    /// Compress nothing
    Off,
}

#[derive(Debug, Args)]
pub(crate) struct Backup {
    /// Files and folders; to follow a symbolic link, end its path with `/`
    #[arg(
        value_name = "PATH",
        required_unless_present_any = ["stdin", "files_from", "files_from_verbatim", "files_from_raw"]
    )]
    pub(crate) paths: Vec<PathBuf>,
    /// Of the backups of the profile, make only the one of this name (may be repeated)
    #[arg(long, value_name = "NAME")]
    pub(crate) only: Vec<String>,
    /// Back up standard input
    #[arg(long, conflicts_with_all = ["paths", "stdin_from_command"])]
    pub(crate) stdin: bool,
    /// Run the command after `--` and back up its standard output; make no backup if it fails
    #[arg(long, conflicts_with = "image_kib")]
    pub(crate) stdin_from_command: bool,
    /// The name under which standard input, or a command's output, is stored
    #[arg(long, default_value = "stdin", value_name = "NAME", value_parser = name)]
    pub(crate) stdin_filename: String,
    /// Make a backup even if standard input, or the command's output, is empty
    #[arg(long)]
    pub(crate) stdin_allow_empty: bool,
    /// Treat the one path as a disk image: fixed chunks of this many KiB; holes are not read or
    /// stored
    #[arg(
        long,
        value_name = "KIB",
        conflicts_with = "stdin",
        value_parser = clap::value_parser!(u32).range(4..=1024)
    )]
    pub(crate) image_kib: Option<u32>,
    /// Read only the changed blocks of the image that this file lists, as `nbdinfo --map` or `rbd
    /// diff` print them (`-`: standard input); take the others from its last backup
    #[arg(long, value_name = "FILE", requires = "image_kib", conflicts_with = "resume")]
    pub(crate) changed_blocks: Option<PathBuf>,
    /// The backup since which the listed blocks have changed (default: the image's last one)
    #[arg(long, value_name = "ID", requires = "changed_blocks")]
    pub(crate) changed_since: Option<String>,
    /// Continue an interrupted backup of the same stream or image, without reading again the bytes
    /// that it stored; these must still be the same
    #[arg(long)]
    pub(crate) resume: bool,
    /// Leave out entries that match this pattern (may be repeated): `/x` from the root, `./x` from
    /// here, `x` in any folder; `\[` is a bracket
    #[arg(short, long, value_name = "PATTERN")]
    pub(crate) exclude: Vec<String>,
    /// Like --exclude, but `a` matches `A` too
    #[arg(long, value_name = "PATTERN")]
    pub(crate) iexclude: Vec<String>,
    /// Leave out entries that match a line of this file; variables and `~` are not replaced
    #[arg(long, value_name = "FILE")]
    pub(crate) exclude_file: Vec<PathBuf>,
    /// Like --exclude-file, but `a` matches `A` too
    #[arg(long, value_name = "FILE")]
    pub(crate) iexclude_file: Vec<PathBuf>,
    /// Leave out the contents of folders with a CACHEDIR.TAG
    #[arg(long)]
    pub(crate) exclude_caches: bool,
    /// Leave out the contents of folders with a file of this name, which begins with HEADER (may be
    /// repeated)
    #[arg(long, value_name = "NAME[:HEADER]", value_parser = marker())]
    pub(crate) exclude_if_present: Vec<Marker>,
    /// Leave out files with more bytes (K, M, G, T)
    #[arg(long, value_name = "SIZE", value_parser = prune::size)]
    pub(crate) exclude_larger_than: Option<u64>,
    /// Back up also what the lines of this file name (`-`: standard input): patterns of paths, such
    /// as `/home/*/docs`; `#` begins a comment
    #[arg(long, value_name = "FILE")]
    pub(crate) files_from: Vec<PathBuf>,
    /// Like --files-from, but each line is a path as it is
    #[arg(long, value_name = "FILE")]
    pub(crate) files_from_verbatim: Vec<PathBuf>,
    /// Like --files-from-verbatim, but paths end with NUL bytes, as `find -print0` prints them
    #[arg(long, value_name = "FILE")]
    pub(crate) files_from_raw: Vec<PathBuf>,
    /// Do not enter other file systems that are mounted below the given paths
    #[arg(short = 'x', long)]
    pub(crate) one_file_system: bool,
    /// Read all files, also those that look unchanged
    #[arg(short, long)]
    pub(crate) force: bool,
    /// Ignore ctime when deciding whether a file has changed
    #[arg(long)]
    pub(crate) ignore_ctime: bool,
    /// Ignore the inode number when deciding whether a file has changed
    #[arg(long)]
    pub(crate) ignore_inode: bool,
    /// A tag for the backup (may be repeated, or separated by commas)
    #[arg(long, value_name = "TAG[,TAG]", value_parser = tag_list)]
    pub(crate) tag: Vec<TagList>,
    /// The host name to store (default: this host's)
    #[arg(short = 'H', long, value_name = "HOST", value_parser = name)]
    pub(crate) host: Option<String>,
    /// What to compress
    #[arg(long, value_enum, default_value_t = CompressionMode::Auto, env = "ONEFOLD_COMPRESSION")]
    pub(crate) compression: CompressionMode,
    /// zstd level, 1 to 19; a higher level is smaller and slower (default: 1, and 3 while the
    /// network to a server is what slows the backup)
    #[arg(long, value_name = "LEVEL", value_parser = clap::value_parser!(i32).range(1..=19))]
    pub(crate) compression_level: Option<i32>,
    /// Which containers each 20 MB of the backup may refer to; data in others is stored again,
    /// which keeps restores fast: `least:BYTES` (K, M, G), those that hold this much of the 20 MB;
    /// a number, so many containers; `adaptive:NUMBER`, so many on average; `none`, all (default:
    /// `least:56K`). Not for a series of layout `hybrid`, which refers to whole segments
    #[arg(long, value_name = "CAP", env = "ONEFOLD_CAP", value_parser = parse_cap)]
    pub(crate) cap: Option<Cap>,
    /// Containers that the last COUNT times 20 MB referred to do not count towards the cap, which
    /// must not be `none` (default: 3 with `least:BYTES`, else 0)
    #[arg(long, hide = true, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(0..=1024))]
    pub(crate) cap_remember: Option<u32>,
    /// Memory in MiB for looking up chunks, 1 to 65536
    #[arg(long, default_value_t = 32, value_name = "MIB", value_parser = clap::value_parser!(u64).range(1..=65536))]
    pub(crate) lookup_mib: u64,
    /// Which prefetched catalogs leave memory first
    #[arg(long, hide = true, value_enum, default_value_t = EvictionMode::Lru)]
    pub(crate) lookup_eviction: EvictionMode,
    /// Read and verify this share of the containers that the backup refers to, such as 5%, or
    /// `none`; damaged data is stored again (default: 1%, and no more than 1 GiB)
    #[arg(long, value_name = "SHARE", env = "ONEFOLD_VERIFY_KNOWN", value_parser = verify::parse_share)]
    pub(crate) verify_known: Option<f64>,
}

impl Backup {
    /// The bound on fragmentation, if an option sets one.
    pub(crate) fn capping(&self) -> Option<Capping> {
        let usual = || self.cap_remember.map(|_| Capping::default().cap);
        let cap = self.cap.or_else(usual)?;
        Some(capping_of(cap, self.cap_remember))
    }
}

/// Which prefetched catalogs are forgotten first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum EvictionMode {
    /// The least recently used catalog, as a whole
    Lru,
    /// A bucket of fingerprints; a catalog is loaded again once a tenth of it has left
    Threshold,
    /// A bucket of fingerprints; its catalogs are loaded again when a hook names them
    Immediate,
}

#[derive(Debug, Args)]
pub(crate) struct Check {
    /// Read and verify every stored byte, or those of a share of the containers, such as 5%
    #[arg(long, value_name = "SHARE", num_args = 0..=1, default_missing_value = "100%", require_equals = true)]
    pub(crate) read_data: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct Stats {
    /// Backups whose restore is measured (default: the latest); `all` for every one
    pub(crate) ids: Vec<String>,
    #[command(flatten)]
    pub(crate) filter: Filter,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Index {
    /// Make the index again, from the containers
    Rebuild,
}
