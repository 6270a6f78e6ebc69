//! Options that could have no effect: what clap itself cannot tell.

use clap::error::ErrorKind;

use super::{ALL, Command, LATEST};

impl Command {
    /// A command with an option that could have no effect, and why.
    pub(super) fn idle(&self) -> Option<(&'static str, ErrorKind, &'static str)> {
        let (name, ids, filter) = match self {
            Self::Forget(forget) if forget.has_idle_limits() => {
                let why = "--max-unused and --max-repack say how space is reclaimed, and nothing is reclaimed here: add \
                           --prune, or -n to see what would be";
                return Some(("forget", ErrorKind::MissingRequiredArgument, why));
            }
            Self::Forget(forget) => ("forget", &forget.ids[..], &forget.filter()),
            Self::Restore(restore) => ("restore", std::slice::from_ref(&restore.id), &restore.filter),
            Self::Dump(dump) => ("dump", std::slice::from_ref(&dump.id), &dump.filter),
            Self::Ls(ls) => ("ls", std::slice::from_ref(&ls.id), &ls.filter),
            Self::Tag(tag) => ("tag", &tag.ids[..], &tag.filter),
            Self::Hold(hold) => ("hold", &hold.ids[..], &hold.filter),
            Self::Unhold(unhold) => ("unhold", &unhold.ids[..], &unhold.filter),
            Self::Stats(stats) => ("stats", &stats.ids[..], &stats.filter),
            _ => return None,
        };
        let is_chosen = |id: &String| id == LATEST || (id == ALL && name == "stats");
        let is_idle = filter.is_given() && !ids.is_empty() && !ids.iter().any(is_chosen);
        let why = "--host, --path and --tag say which backup is the latest, and none is asked for: a backup with a number is \
                   that one, whatever they say";
        is_idle.then_some((name, ErrorKind::ArgumentConflict, why))
    }
}
