//! The arguments. Verbs and options are those of restic, as far as possible.

mod backup;
mod cat;
mod check;
mod comparing;
mod copy;
mod documents;
mod environment;
mod far;
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
mod repair;
mod retention;
mod self_test;
mod series;
mod serving;
mod typed;
mod verify;
mod volume;

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;

use clap::error::ErrorKind;
use clap::{Args, Command as Clap, CommandFactory, FromArgMatches, Parser, Subcommand};
use cli_support::{Output, OutputOptions};
use tracing_subscriber::filter::Targets;

use crate::log;

pub(crate) use backup::{Backup, CompressionMode, EvictionMode};
pub(crate) use cat::Cat;
pub(crate) use check::{Check, Reading};
pub(crate) use comparing::{Diff, Find};
pub(crate) use copy::{Copy, FromPassword};
pub(crate) use documents::{Completions, Man, ShellName};
pub(crate) use far::Far;
pub(crate) use filter::{ALL, Filter, LATEST};
pub(crate) use init::Init;
pub(crate) use key::{Key, NewPassword};
pub(crate) use mount::Mount;
pub(crate) use optimize::Optimize;
pub(crate) use pool::{Pool, PoolInit, PoolStats};
pub(crate) use profiled::Typed;
pub(crate) use prune::{Prune, PruneLimits};
pub(crate) use reading::{ArchiveMode, Dump, Ls, OverwriteMode, OwnersMode, Restore, SparseMode};
pub(crate) use repair::Repair;
pub(crate) use retention::{Forget, Hold, Tag, Unhold};
pub(crate) use self_test::SelfTest;
pub(crate) use series::{Change, Named, Series, Which};
pub(crate) use serving::{Invite, Join, Namespace, Serve, Server, Tenant, Token};
use typed::store_place;
pub(crate) use typed::{BackupPath, TagList};
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
    #[arg(
        long,
        global = true,
        env = "ONEFOLD_PASSWORD_COMMAND",
        hide_env_values = true,
        value_name = "COMMAND"
    )]
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
    /// Print more, such as what each stage of a backup waited for; twice, or =2: also each file
    #[arg(
        short,
        long,
        global = true,
        value_name = "LEVEL",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "1",
        value_parser = clap::value_parser!(u8).range(0..=2)
    )]
    pub(crate) verbose: Vec<u8>,
    #[command(flatten)]
    pub(crate) output: OutputOptions,
    #[command(flatten)]
    pub(crate) far: Far,
}

impl Global {
    /// Where results go, and in which form.
    pub(crate) fn output(&self) -> Output {
        Output::new(&self.output).verbose(self.verbosity() > 0)
    }

    /// How much to print: 0, 1 or 2.
    pub(crate) fn verbosity(&self) -> u8 {
        self.verbose.iter().sum::<u8>().min(2)
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
    /// Copy backups from another store to this one
    Copy(Copy),
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
    /// Repair damage: from second copies, from other places in the store, and from another store
    /// with copies of the damaged backups
    Repair(Repair),
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
    /// Test whether this program works right on this machine and, with --place, with a place for
    /// stores
    SelfTest(SelfTest),
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

impl Command {
    /// Whether it changes nothing and prints what it would do.
    pub(crate) fn is_dry_run(&self) -> bool {
        match self {
            Self::Backup(args) => args.dry_run,
            Self::Restore(args) => args.dry_run,
            Self::Copy(args) => args.dry_run,
            Self::Forget(args) => args.dry_run,
            Self::Prune(args) => args.dry_run,
            Self::Optimize(args) => args.dry_run,
            _ => false,
        }
    }
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

#[derive(Debug, Args)]
pub(crate) struct Stats {
    /// Backups whose restore is measured (default: the latest); `all` for every one
    pub(crate) ids: Vec<String>,
    /// Also show what only one series or backup has: what would come back without it. This reads
    /// the recipes of all backups
    #[arg(long)]
    pub(crate) exclusive: bool,
    /// Draw how the speed factor of each series has changed, into this new SVG file
    #[arg(long, value_name = "FILE")]
    pub(crate) svg: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) filter: Filter,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Index {
    /// Make the index again, from the containers
    Rebuild,
}
