//! The backups that a rewrite is for.
//!
//! Invariant: all processes that publish a rewrite mean the same backups. Otherwise one could
//! forget the rewrite while another is about to put a root of it into a manifest. So only the
//! rewrite's commit counts: its parents, in the revisions that it names, and its streams. The
//! process that made the rewrite asks [`target`], as one that completes it does. A backup may get
//! trees made from another's streams if both have the same roots, and never otherwise
//! ([`Rewrite::without`]). Every backup that gets anything gets a root that no backup had before.
//! Otherwise replaced roots could come back, and pass for the roots that were read.

use std::collections::BTreeSet;

use format::manifest::{Backup, StreamRoot};
use session::{ManifestEntry, ManifestList, SessionError};
use types::{SeriesId, SessionId, UnixNanos};

use crate::context::Context;
use crate::error::Result;

use super::distinct_backups::known;

/// A rewrite that is stored, and not committed.
pub(crate) struct Rewrite {
    /// The commit of the session, without its streams; these are made from the parents' streams.
    pub(crate) backup: Backup,
    /// The backups that it may be for: all parents of layout repair, the one that is repaired
    /// first; of an archival rewrite the eldest.
    pub(crate) parents: Vec<Parent>,
    /// The storage's time: a hold until before it is over.
    pub(crate) now: UnixNanos,
}

/// A backup that a rewrite may be for.
#[derive(Debug)]
pub(crate) struct Parent {
    pub(crate) series: SeriesId,
    pub(crate) of: SessionId,
    /// The streams that were read.
    pub(crate) from: Vec<StreamRoot>,
    /// What was made of them; none, where nothing was.
    pub(crate) made: Vec<StreamRoot>,
}

/// A backup that is rewritten.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Target {
    pub(super) series: SeriesId,
    pub(super) of: SessionId,
    /// The streams that were read.
    pub(super) from: Vec<StreamRoot>,
    /// What becomes of them.
    pub(super) streams: Vec<StreamRoot>,
    pub(super) next: Option<SessionId>,
    pub(super) rewritten: Option<u64>,
}

/// The backups that a rewrite is for, as far as can be told.
pub(super) struct Targets {
    pub(super) all: Vec<Target>,
    /// There may be others: the rewrite stands until what it was made of can be read.
    pub(super) is_unsure: bool,
}

impl Rewrite {
    /// The parents that somebody has come to hold meanwhile.
    ///
    /// # Errors
    /// Of the storage.
    pub(super) fn held(&self, context: &Context<'_>) -> Result<BTreeSet<SessionId>> {
        let all: BTreeSet<SeriesId> = self.parents.iter().map(|parent| parent.series).collect();
        let mut held = BTreeSet::new();
        for series in all {
            let list = context.manifests.list_series(series)?;
            let is_held = |id: &SessionId| {
                let until = list.get(*id).and_then(|entry| entry.backup()?.hold_until);
                until.is_some_and(|until| until > self.now)
            };
            let of_it = self.parents.iter().filter(|parent| parent.series == series);
            held.extend(of_it.map(|parent| parent.of).filter(is_held));
        }
        Ok(held)
    }

    /// The commit of the session, and the backups that it is for, without those that are held.
    /// There is no commit if the first backup is held, or if a held one would get trees made from
    /// another's streams: a process that completes the rewrite cannot see that it is held. Nor is
    /// there one if a backup would get trees made from other roots than its own, which may be
    /// damaged; such backups are mostly left out before ([`super::DistinctBackups`]).
    pub(super) fn without(
        mut self,
        session: SessionId,
        held: &BTreeSet<SessionId>,
    ) -> Option<(Backup, Vec<Target>)> {
        let first = self.parents.first()?.of;
        let is_made = |parent: &&Parent| !held.contains(&parent.of) && !parent.made.is_empty();
        let made: Vec<&Parent> = self.parents.iter().filter(is_made).collect();
        let of_made = made.iter().flat_map(|parent| parent.made.iter().cloned());
        self.backup.streams = of_made.collect();
        let sources: Vec<&StreamRoot> = made.iter().flat_map(|parent| &parent.from).collect();
        let rewrite = Committed {
            session,
            backup: &self.backup,
            repaired: self.backup.rewritten.map(|_| first),
        };
        let each = self.parents.iter();
        let all = each.filter_map(|parent| target(&rewrite, (parent.series, parent.of), &parent.from));
        let (places, all): (Vec<usize>, Vec<Target>) = all.unzip();
        let is_first = all.first().is_some_and(|target| target.of == first);
        let is_any_held = all.iter().any(|target| held.contains(&target.of));
        let is_own = |(at, target): (&usize, &Target)| {
            sources[*at..]
                .iter()
                .copied()
                .take(target.from.len())
                .eq(&target.from)
        };
        let is_each_own = places.iter().zip(&all).all(is_own);
        (is_first && !is_any_held && is_each_own).then_some((self.backup, all))
    }
}

/// What the commit of a rewrite says.
struct Committed<'a> {
    session: SessionId,
    backup: &'a Backup,
    /// The backup whose layout is repaired.
    repaired: Option<SessionId>,
}

/// What becomes of one of the backups that a rewrite may be for, which had these streams, and where
/// what it gets begins among the rewrite's; `None`: it is not for that one.
fn target(
    rewrite: &Committed<'_>,
    (series, of): (SeriesId, SessionId),
    from: &[StreamRoot],
) -> Option<(usize, Target)> {
    let to = rewrite.backup;
    let at = place_of(rewrite.session, &to.streams, from)?;
    let target = Target {
        series,
        of,
        from: from.to_vec(),
        streams: to.streams[at..at + from.len()].to_vec(),
        next: to.next,
        rewritten: match (to.rewritten, to.next) {
            (Some(bytes), _) if rewrite.repaired == Some(of) => Some(bytes),
            // It refers forward to none.
            (_, None) => Some(0),
            (_, Some(_)) => None,
        },
    };
    Some((at, target))
}

/// Where among a rewrite's streams those begin that stand for a backup's: the first that have their
/// fingerprints, so that they have its bytes, and a root that the rewrite has put.
pub(crate) fn place_of(session: SessionId, all: &[StreamRoot], from: &[StreamRoot]) -> Option<usize> {
    let is_equal = |some: &[StreamRoot]| some.iter().map(known).eq(from.iter().map(known));
    let is_new = |root: &StreamRoot| root.location.container.session == session;
    let mut each = all.windows(from.len().max(1));
    each.position(|some| is_equal(some) && some.iter().any(is_new))
}

/// The backups that a committed rewrite is for, but those that are forgotten.
///
/// # Errors
/// Of the storage.
pub(super) fn of_committed(
    context: &Context<'_>,
    list: &ManifestList,
    session: SessionId,
    rewrite: &Backup,
) -> Result<Targets> {
    // An archival rewrite is of the eldest, which refers forward to the others; layout repair is of
    // all.
    let parents = match rewrite.rewritten {
        None => rewrite.parents.get(..1).unwrap_or_default(),
        Some(_) => &rewrite.parents[..],
    };
    let committed = Committed {
        session,
        backup: rewrite,
        repaired: repaired(list, rewrite),
    };
    let mut targets = Targets {
        all: Vec::with_capacity(parents.len()),
        is_unsure: false,
    };
    for (of, revision) in parents.iter().copied() {
        let Some(entry) = list.get(of) else {
            targets.is_unsure |= list.damaged_of(of).next().is_some();
            continue;
        };
        if entry.is_forgotten() {
            continue;
        }
        let read = match context.manifests.read(entry.series(), of, revision) {
            Ok(read) => read,
            Err(SessionError::Damaged(_) | SessionError::NoBackup { .. }) => {
                targets.is_unsure = true;
                continue;
            }
            Err(error) => return Err(error.into()),
        };
        let from = crate::manifests::backup_of(&read.manifest).map_or(&[][..], |backup| &backup.streams);
        let target = target(&committed, (entry.series(), of), from);
        targets.all.extend(target.map(|(_, target)| target));
    }
    Ok(targets)
}

/// The backup whose layout was repaired: the newest of its series among the parents, which may be
/// forgotten since.
fn repaired(list: &ManifestList, rewrite: &Backup) -> Option<SessionId> {
    rewrite.rewritten?;
    let named = |entry: &&ManifestEntry| {
        let backup = entry.backup();
        backup.is_some_and(|backup| backup.series == rewrite.series)
    };
    let entries = || rewrite.parents.iter().filter_map(|(of, _)| list.get(*of));
    let series = entries().find(named).map(ManifestEntry::series)?;
    let of_it = entries().filter(|entry| entry.series() == series);
    of_it.map(ManifestEntry::session).max()
}

#[cfg(test)]
mod tests;
