//! The backups that a rewrite is for.
//!
//! Invariant: all processes that publish a rewrite choose the same targets. Otherwise one could
//! forget the rewrite while another is about to put a root of it into a manifest. So only the
//! rewrite's commit counts: its parents, in the revisions that it names, and its streams. The
//! process that made the rewrite calls [`target`], and so does a process that completes it. A
//! backup may get trees made from another's streams if both have the same roots, and never
//! otherwise ([`Rewrite::without`]). Every target gets a root that no backup had before. Otherwise
//! replaced roots could come back, and look like the roots that were read.

use std::collections::BTreeSet;

use format::manifest::{Backup, StreamRoot};
use session::{ManifestEntry, ManifestList, SessionError};
use types::{SeriesId, SessionId, UnixNanos};

use crate::context::Context;
use crate::error::Result;

use super::distinct_backups::known;

/// A rewrite whose data is stored, and which is not committed yet.
pub(crate) struct Rewrite {
    /// The commit of the session, without its streams; these are made from the parents' streams.
    pub(crate) backup: Backup,
    /// The possible targets. For layout repair: all parents, the repaired one first. For an
    /// archival rewrite: the oldest one.
    pub(crate) parents: Vec<Parent>,
    /// The storage's time. A hold that ends before it is over.
    pub(crate) now: UnixNanos,
}

/// A possible target of a rewrite.
#[derive(Debug)]
pub(crate) struct Parent {
    pub(crate) series: SeriesId,
    pub(crate) of: SessionId,
    /// The streams that were read.
    pub(crate) from: Vec<StreamRoot>,
    /// The new streams made from them; empty if none was made.
    pub(crate) made: Vec<StreamRoot>,
}

/// A backup that is rewritten.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Target {
    pub(super) series: SeriesId,
    pub(super) of: SessionId,
    /// The streams that were read.
    pub(super) from: Vec<StreamRoot>,
    /// The new streams.
    pub(super) streams: Vec<StreamRoot>,
    pub(super) next: Option<SessionId>,
    pub(super) rewritten: Option<u64>,
}

/// The targets of a rewrite, as far as they are known.
pub(super) struct Targets {
    pub(super) all: Vec<Target>,
    /// There may be other targets. The rewrite stays until the manifests of its parents can be
    /// read.
    pub(super) is_unsure: bool,
}

impl Rewrite {
    /// The parents that a user has held meanwhile.
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

    /// The commit of the session and its targets, without those that are held. There are three
    /// reasons for no commit:
    ///
    /// - The first backup is held.
    /// - A held backup would get trees made from another one's streams: a process that completes
    ///   the rewrite cannot see that it is held.
    /// - A backup would get trees made from other roots than its own, whose data may be damaged.
    ///   Most of these are left out before ([`super::DistinctBackups`]).
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

/// The commit of a rewrite.
struct Committed<'a> {
    session: SessionId,
    backup: &'a Backup,
    /// The backup whose layout is repaired.
    repaired: Option<SessionId>,
}

/// The target for one possible backup with these streams, and where its new streams begin among
/// those of the rewrite. `None`: the backup is no target.
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
            // It does not refer forward.
            (_, None) => Some(0),
            (_, Some(_)) => None,
        },
    };
    Some((at, target))
}

/// Where the streams that replace a backup's streams begin in a rewrite. They are the first with
/// the same fingerprints, and so the same bytes, and with at least one root that the rewrite has
/// put.
pub(crate) fn place_of(session: SessionId, all: &[StreamRoot], from: &[StreamRoot]) -> Option<usize> {
    let is_equal = |some: &[StreamRoot]| some.iter().map(known).eq(from.iter().map(known));
    let is_new = |root: &StreamRoot| root.location.container.session == session;
    let mut each = all.windows(from.len().max(1));
    each.position(|some| is_equal(some) && some.iter().any(is_new))
}

/// The targets of a committed rewrite that are not forgotten.
///
/// # Errors
/// Of the storage.
pub(super) fn of_committed(
    context: &Context<'_>,
    list: &ManifestList,
    session: SessionId,
    rewrite: &Backup,
) -> Result<Targets> {
    // The target of an archival rewrite is the oldest parent, which refers forward to the others.
    // The targets of layout repair are all parents.
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

/// The backup whose layout was repaired: the newest of its series among the parents. It may be
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
