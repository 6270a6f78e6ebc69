//! Options that could have no effect, as far as clap cannot detect them.

use std::path::Path;

use clap::error::ErrorKind;
use clap::{ArgMatches, Command as Clap};
use cli_support::idle::{Idle, idle_cap, is_typed, option};
use onefold::Capping;

use super::copy::SOURCE_PASSWORDS;
use super::far::{Far, OF_FAR};
use super::series::{LayoutMode, Series};
use super::typed::{is_in_object_store, is_on_server};
use super::{ALL, Backup, Cat, Cli, Command, CompressionMode, Find, LATEST, Ls, Man, Server, Tenant};
use crate::profile::PASSWORDS;

/// Options of every command that name the store, open it, or configure look-ups.
const OF_STORES: [&str; 7] = [
    "repo",
    "password_file",
    "password_command",
    "insecure_no_password",
    "index_mib",
    "index_memory_mib",
    "no_pin",
];
/// The commands that open no store.
const WITHOUT_STORE: [&str; 7] = [
    "analyze",
    "completions",
    "join",
    "man",
    "pool",
    "self-test",
    "volume",
];
/// The options about the cache of an object store.
const OF_CACHE: [&str; 2] = ["no_cache", "cache_size"];
/// Options of a backup that the store's half of it would need. A server decides these itself.
const OF_STORES_HALF: [&str; 5] = [
    "cap",
    "cap_remember",
    "lookup_mib",
    "lookup_eviction",
    "verify_known",
];

/// Builds all commands. The help of a command that opens no store does not show options about
/// stores.
pub(super) fn built(mut clap: Clap) -> Clap {
    clap.build();
    WITHOUT_STORE.into_iter().fold(clap, |clap, name| {
        clap.mut_subcommand(name, |command| without_store(name, command))
    })
}

/// Hides options about stores in the help of a command and of those below it.
fn without_store(name: &str, command: Clap) -> Clap {
    command
        .mut_args(|arg| {
            let id = arg.get_id().as_str();
            let is_far = name != "self-test" || OF_CACHE.contains(&id);
            let is_idle = OF_STORES.contains(&id) || is_far && OF_FAR.contains(&id);
            if is_idle { arg.hide(true) } else { arg }
        })
        .mut_subcommands(|below| without_store(name, below))
}

impl Cli {
    /// An option that could have no effect, and why. `matches` has the typed words of the innermost
    /// command.
    pub(super) fn idle(&self, matches: &ArgMatches) -> Option<Idle> {
        self.command
            .idle(matches)
            .or_else(|| two_passwords(matches))
            .or_else(|| Far::idle(self.written(), self.command.source(), matches))
            .or_else(|| self.idle_reserve())
            .or_else(|| self.command.idle_in_store(matches))
    }

    /// A reserve was asked for where no disk fills up.
    fn idle_reserve(&self) -> Option<Idle> {
        let Command::Init(init) = &self.command else {
            return None;
        };
        let is_far = is_in_object_store(self.written()?) && init.reserve_mib > Some(0);
        let why = "--reserve-mib sets space aside for a full disk, and an object store does not fill up";
        is_far.then(|| (ErrorKind::ArgumentConflict, why.to_owned()))
    }

    /// The store, or place, that the command writes.
    fn written(&self) -> Option<&Path> {
        match &self.command {
            Command::SelfTest(test) => test.place.as_deref(),
            _ => self.global.repo.as_deref(),
        }
    }

    /// The option for backups of a profile was typed, and there is none.
    pub(super) fn only_without_profile(&self) -> Option<&'static str> {
        let is_idle = matches!(&self.command, Command::Backup(backup) if !backup.only.is_empty());
        is_idle.then_some("--only names a backup of a profile, and none is named: add -P")
    }

    /// An option was typed about a store that this process opens, and the store is on a server. It
    /// has an effect if the namespace is a vault.
    pub(super) fn idle_on_server(&self, matches: &ArgMatches) -> Option<Idle> {
        self.global.repo.as_ref().filter(|repo| is_on_server(repo))?;
        if matches!(self.command, Command::Serve(_) | Command::Server(_)) {
            return None;
        }
        let of_backup: &[&str] = match self.command {
            Command::Backup(_) => &OF_STORES_HALF,
            _ => &[],
        };
        let mut options = OF_STORES[1..].iter().chain(of_backup);
        let idle = options.find(|id| is_typed(matches, id))?;
        let why = format!(
            "{} concerns a store that this command opens, and this one is on a server",
            option(idle)
        );
        Some((ErrorKind::ArgumentConflict, why))
    }
}

/// Two of these options were typed, and only one could count.
fn two_passwords(matches: &ArgMatches) -> Option<Idle> {
    two_of(&PASSWORDS, matches)
}

/// Two of these options were typed, which all say how one store is opened.
fn two_of(ids: &[&str], matches: &ArgMatches) -> Option<Idle> {
    let mut typed = ids.iter().filter(|id| is_typed(matches, id));
    let (one, another) = (typed.next()?, typed.next()?);
    let why = format!(
        "{} and {} both say how the store is opened: leave one of them out",
        option(one),
        option(another)
    );
    Some((ErrorKind::ArgumentConflict, why))
}

impl Command {
    /// The other store that the command reads.
    fn source(&self) -> Option<&Path> {
        match self {
            Self::Copy(copy) => Some(&copy.from.from_repo),
            Self::Repair(repair) => repair.from_repo.as_deref(),
            _ => None,
        }
    }

    /// A global option was typed that this command does not use.
    fn idle_in_store(&self, matches: &ArgMatches) -> Option<Idle> {
        let has_index = matches!(
            self,
            Self::Backup(_)
                | Self::Copy(_)
                | Self::Forget(_)
                | Self::Prune(_)
                | Self::Repair(_)
                | Self::Stats(_)
                | Self::Optimize(_)
                | Self::Index(_)
                | Self::Serve(_)
        );
        let reads_backups = matches!(
            self,
            Self::Restore(_)
                | Self::Copy(_)
                | Self::Dump(_)
                | Self::Mount(_)
                | Self::Ls(_)
                | Self::Diff(_)
                | Self::Find(_)
                | Self::Cat(Cat::Catalog { .. } | Cat::Node { .. })
                | Self::Check(_)
                | Self::Repair(_)
                | Self::Stats(_)
        );
        let idle = |ids: &[&str], why: &str| {
            let id = ids.iter().find(|id| is_typed(matches, id))?;
            Some((ErrorKind::ArgumentConflict, format!("{} {why}", option(id))))
        };
        let of_index = || {
            idle(
                &["index_mib", "index_memory_mib"],
                "concerns the index, which this command does not use",
            )
        };
        let of_pins = || {
            idle(
                &["no_pin"],
                "concerns backups that are read, and this command reads none",
            )
        };
        let found = (!has_index).then(of_index).flatten();
        found.or_else(|| (!reads_backups).then(of_pins).flatten())
    }

    /// An option of this command that could have no effect, and why.
    fn idle(&self, matches: &ArgMatches) -> Option<Idle> {
        match self {
            Self::Forget(forget) if forget.has_idle_limits() => {
                let why = "--max-unused and --max-repack say how space is reclaimed, and nothing is reclaimed here: add \
                           --prune, or -n to see what would be";
                Some((ErrorKind::MissingRequiredArgument, why.to_owned()))
            }
            Self::Optimize(optimize) if optimize.limits.are_given() && !optimize.prune => {
                let why = "--max-unused and --max-repack say how space is reclaimed, and nothing is reclaimed here: add --prune";
                Some((ErrorKind::MissingRequiredArgument, why.to_owned()))
            }
            Self::Backup(backup) => {
                let cap = backup.cap.unwrap_or(Capping::default().cap);
                idle_cap(cap, matches, &["cap_remember"]).or_else(|| idle_backup(backup, matches))
            }
            Self::Copy(copy)
                if copy.compression == CompressionMode::Off && is_typed(matches, "compression_level") =>
            {
                let why = "--compression-level says how to compress, and --compression is `off`";
                Some((ErrorKind::ArgumentConflict, why.to_owned()))
            }
            Self::Repair(repair) if repair.from_repo.is_none() => {
                let typed = SOURCE_PASSWORDS.iter().find(|id| is_typed(matches, id))?;
                let why = format!(
                    "{} is of the store that --from-repo names, and none is named",
                    option(typed)
                );
                Some((ErrorKind::MissingRequiredArgument, why))
            }
            Self::Repair(_) => two_of(&SOURCE_PASSWORDS, matches),
            Self::Copy(_) => two_of(&SOURCE_PASSWORDS, matches).or_else(|| self.idle_filter()),
            Self::Init(init) if init.domain_of.is_none() && is_typed(matches, "from_password_file") => {
                let why = "--from-password-file is of the store that --domain-of names, and none is named";
                Some((ErrorKind::MissingRequiredArgument, why.to_owned()))
            }
            Self::Ls(Ls { long: true, .. }) | Self::Find(Find { long: true, .. })
                if is_typed(matches, "json") =>
            {
                let why = "--json prints all that --long does, whether that is given or not";
                Some((ErrorKind::ArgumentConflict, why.to_owned()))
            }
            Self::Init(init)
                if init.series.is_of_hybrid() && init.series.layout != Some(LayoutMode::Hybrid) =>
            {
                let why = "--live, --archival and --segment say nothing without --layout hybrid";
                Some((ErrorKind::MissingRequiredArgument, why.to_owned()))
            }
            Self::Init(init) if init.series.is_idle_after() => {
                let why = "--optimize-after-backup says nothing without --layout hybrid or --repair";
                Some((ErrorKind::MissingRequiredArgument, why.to_owned()))
            }
            Self::Series(Series::Set(set)) if !set.change.is_given() => {
                let why = "what is to be set? --layout, --live, --archival, --segment, --repair or --optimize-after-backup";
                Some((ErrorKind::MissingRequiredArgument, why.to_owned()))
            }
            Self::Completions(_) | Self::Man(Man { folder: None }) if is_typed(matches, "json") => {
                let why = "--json prints results as JSON, and this command prints a text for another program";
                Some((ErrorKind::ArgumentConflict, why.to_owned()))
            }
            Self::SelfTest(_) => Self::idle_store(matches, &OF_STORES).or_else(|| {
                let idle = OF_CACHE.iter().find(|id| is_typed(matches, id))?;
                let why = format!("{} concerns the cache, and a self-test uses none", option(idle));
                Some((ErrorKind::ArgumentConflict, why))
            }),
            Self::Analyze(_)
            | Self::Join(_)
            | Self::Completions(_)
            | Self::Man(_)
            | Self::Pool(_)
            | Self::Volume(_) => Self::idle_store(matches, &OF_STORES),
            Self::Server(Server::Init(_) | Server::Tenant(Tenant::Add { .. })) | Self::Serve(_) => {
                Self::idle_store(matches, &["repo"])
            }
            Self::Server(_) => Self::idle_store(matches, &OF_STORES),
            _ => self.idle_filter(),
        }
    }

    fn idle_store(matches: &ArgMatches, ids: &[&str]) -> Option<Idle> {
        let idle = ids.iter().find(|id| is_typed(matches, id))?;
        let why = match *idle {
            "repo" if ids.len() == 1 => {
                "--repo names a store, and this command takes the server's folder".to_owned()
            }
            idle => format!("{} concerns a store, and none is opened here", option(idle)),
        };
        Some((ErrorKind::ArgumentConflict, why))
    }

    fn idle_filter(&self) -> Option<Idle> {
        let (ids, filter, takes_all) = match self {
            Self::Forget(forget) => (&forget.ids[..], &forget.filter(), false),
            Self::Restore(restore) => (std::slice::from_ref(&restore.id.id), &restore.filter, false),
            Self::Dump(dump) => (std::slice::from_ref(&dump.id.id), &dump.filter, false),
            Self::Ls(ls) => (std::slice::from_ref(&ls.id.id), &ls.filter, false),
            Self::Diff(diff) => (&diff.ids()[..], &diff.filter, false),
            Self::Find(find) => (&find.snapshot[..], &find.filter, false),
            Self::Tag(tag) => (&tag.ids[..], &tag.filter, false),
            Self::Hold(hold) => (&hold.ids[..], &hold.filter, false),
            Self::Unhold(unhold) => (&unhold.ids[..], &unhold.filter, false),
            Self::Stats(stats) => (&stats.ids[..], &stats.filter, true),
            Self::Copy(copy) => (&copy.ids[..], &copy.filter, false),
            _ => return None,
        };
        let is_chosen = |id: &String| id == LATEST || takes_all && id == ALL;
        let is_idle = filter.is_given() && !ids.is_empty() && !ids.iter().any(is_chosen);
        let why = "--host, --path and --tag say which backup is the latest, and none is asked for: a backup with a number is \
                   that one, whatever they say";
        is_idle.then(|| (ErrorKind::ArgumentConflict, why.to_owned()))
    }
}

/// Options for backups of files and folders.
const OF_TREES: [&str; 15] = [
    "files_from",
    "files_from_verbatim",
    "files_from_raw",
    "exclude",
    "iexclude",
    "exclude_file",
    "iexclude_file",
    "exclude_caches",
    "exclude_if_present",
    "exclude_larger_than",
    "one_file_system",
    "ignore_file",
    "force",
    "ignore_ctime",
    "ignore_inode",
];

fn idle_backup(backup: &Backup, matches: &ArgMatches) -> Option<Idle> {
    let typed = |ids: &[&'static str]| ids.iter().find(|id| is_typed(matches, id)).map(|id| option(id));
    let conflict = |why: String| Some((ErrorKind::ArgumentConflict, why));
    let is_stream = backup.stdin || backup.stdin_from_command;
    if let Some(idle) = typed(&OF_TREES).filter(|_| is_stream || backup.image_kib.is_some()) {
        let what = if is_stream { "a stream" } else { "an image" };
        return conflict(format!(
            "{idle} concerns files and folders, and {what} is backed up here, which is read whole"
        ));
    }
    if let Some(idle) = typed(&["resume"]).filter(|_| !is_stream && backup.image_kib.is_none()) {
        return conflict(format!(
            "{idle} concerns one stream or image; an interrupted backup of files goes on by itself"
        ));
    }
    if let Some(idle) = typed(&["stdin_filename", "stdin_allow_empty"]).filter(|_| !is_stream) {
        return conflict(format!(
            "{idle} concerns what --stdin or --stdin-from-command backs up, and neither is given"
        ));
    }
    if let Some(idle) = typed(&["ignore_ctime", "ignore_inode"]).filter(|_| backup.force) {
        return conflict(format!(
            "{idle} says which files look unchanged, and --force reads all"
        ));
    }
    if let Some(idle) = typed(&["compression_level"]).filter(|_| backup.compression == CompressionMode::Off) {
        return conflict(format!("{idle} says how to compress, and --compression is `off`"));
    }
    if backup.image_kib.is_some() && backup.paths.len() > 1 {
        return conflict("--image-kib takes one path: the image".to_owned());
    }
    None
}
