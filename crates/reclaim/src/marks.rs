//! Marks: which slots the backups of a group reach, and which marks are in force.
//!
//! `groups/<group>.<revision>` [Guo 3.3] (G8). Marks that drop bits count from the moment when the removed list of
//! their epoch names them; marks that only add count at once. Whatever stands in a folder beside those is left of a
//! process that died or lost, and never counts. Held encoded, some five bytes a container.

use std::collections::BTreeMap;

use format::frame::ObjectKind;
use format::names;
use format::reclaim::{CoveredManifest, GroupId, Marks, Removed};
use object::Sealer;
use session::{ManifestEntry, ManifestList};
use types::{Revision, SeriesId, SessionId};

use crate::epochs;
use crate::error::Result;

/// Backups in a group at most. More make re-marking dearer, fewer make merging dearer [Guo 4.1.2].
pub(crate) const GROUP_BACKUPS_MAX: usize = 16;

/// One group's marks, as stored.
#[derive(Debug, Clone)]
pub(crate) struct StoredMarks {
    pub(crate) revision: Revision,
    pub(crate) marks: Marks,
}

/// The marks of all groups that count at one moment.
#[derive(Debug, Clone, Default)]
pub(crate) struct InForce {
    pub(crate) groups: BTreeMap<GroupId, StoredMarks>,
    /// Every revision that is listed, in force or not.
    pub(crate) listed: BTreeMap<GroupId, Vec<Revision>>,
    /// Groups whose marks should be there and cannot be read: every container must be swept.
    pub(crate) missing: Vec<GroupId>,
}

impl InForce {
    /// Reads the marks that count after the epoch of `removed`, the newest finished one.
    pub(crate) fn load(sealer: &Sealer, removed: Option<&Removed>) -> Result<Self> {
        let named: BTreeMap<GroupId, Revision> =
            removed.map_or_else(BTreeMap::new, |removed| removed.marks.iter().copied().collect());
        let mut all = Self::default();
        for ((group, revision), _) in sealer.list(names::GROUPS_FOLDER, names::parse_marks)? {
            all.listed.entry(group).or_default().push(revision);
        }
        for (group, revisions) in &mut all.listed {
            revisions.sort_unstable();
            let base = named.get(group).copied();
            let mut unreadable = false;
            for revision in revisions
                .iter()
                .rev()
                .copied()
                .take_while(|revision| base <= Some(*revision))
            {
                match read(sealer, *group, revision)? {
                    Some(marks) if marks.epoch.is_none() || base == Some(revision) => {
                        all.groups.insert(*group, StoredMarks { revision, marks });
                        break;
                    }
                    Some(_) => {}
                    None => unreadable = true,
                }
            }
            // One that cannot be read may have been the one that counts.
            if unreadable {
                all.missing.push(*group);
            }
        }
        let gone = named.keys().filter(|group| !all.groups.contains_key(group));
        let gone: Vec<_> = gone.copied().collect();
        all.missing.extend(gone);
        all.missing.sort_unstable();
        all.missing.dedup();
        Ok(all)
    }

    /// Exactly these revisions. One that cannot be read is in `missing`.
    pub(crate) fn named(sealer: &Sealer, marks: &[(GroupId, Revision)]) -> Result<Self> {
        let mut all = Self::default();
        for (group, revision) in marks {
            match read(sealer, *group, *revision)? {
                Some(marks) => {
                    let revision = *revision;
                    all.groups.insert(*group, StoredMarks { revision, marks });
                }
                None => all.missing.push(*group),
            }
        }
        Ok(all)
    }

    /// The number for a group's next marks: no number is used twice, whatever is deleted below.
    pub(crate) fn next_revision(&self, group: GroupId) -> Revision {
        match self.listed.get(&group).and_then(|revisions| revisions.last()) {
            Some(highest) => highest.next(),
            None => Revision::FIRST,
        }
    }

    /// What is said of each session's manifest.
    pub(crate) fn covers(&self) -> BTreeMap<SessionId, CoveredManifest> {
        let covered = self.groups.values().flat_map(|stored| &stored.marks.covers);
        covered.map(|covered| (covered.session, *covered)).collect()
    }

    /// Groups and revisions, as lists name them.
    pub(crate) fn revisions(&self) -> Vec<(GroupId, Revision)> {
        let each = self.groups.iter();
        each.map(|(group, stored)| (*group, stored.revision)).collect()
    }
}

/// `None`: missing or damaged.
fn read(sealer: &Sealer, group: GroupId, revision: Revision) -> Result<Option<Marks>> {
    match sealer.read(&names::marks(group, revision), ObjectKind::Marks, Marks::decode) {
        Ok(marks) if marks.group == group => Ok(Some(marks)),
        Ok(_) => Ok(None),
        Err(error) if error.is_not_found() || epochs::is_lost(&error) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Writes a group's marks; whether the number was free. Not durable before the next barrier.
pub(crate) fn put(sealer: &Sealer, revision: Revision, marks: &Marks) -> Result<bool> {
    let name = names::marks(marks.group, revision);
    match sealer.put(&name, ObjectKind::Marks, &marks.to_bytes()) {
        Ok(()) => Ok(true),
        Err(error) if error.is_already_exists() => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// What a manifest is covered as.
pub(crate) fn covered(entry: &ManifestEntry) -> CoveredManifest {
    CoveredManifest {
        session: entry.session(),
        revision: entry.stored.revision,
        digest: entry.stored.digest,
        forgotten: entry.is_forgotten(),
    }
}

/// Groups with their manifests as they are now.
pub(crate) type Members<'a> = BTreeMap<GroupId, Vec<&'a ManifestEntry>>;

/// Sorts all backups, forgotten ones too, into groups: those that there are, and new ones for what came since.
pub(crate) fn members<'a>(list: &'a ManifestList, in_force: &InForce) -> Members<'a> {
    let mut groups: Members<'a> = in_force.groups.keys().map(|group| (*group, Vec::new())).collect();
    let covers = in_force.covers();
    let backups = list
        .entries
        .iter()
        .filter(|entry| entry.backup().is_some() || entry.is_forgotten());
    let lowest = SessionId::new(0).expect("0 is a session");
    for entry in backups {
        let (series, session) = (entry.series(), entry.session());
        let id = |first| GroupId { series, first };
        let below = groups.range(id(lowest)..=id(session)).next_back();
        let mut group = below.map_or_else(|| id(session), |(group, _)| *group);
        let is_full = groups
            .get(&group)
            .is_some_and(|held| held.len() >= GROUP_BACKUPS_MAX);
        if is_full && !covers.contains_key(&session) && is_last(&groups, series, group) {
            group = id(session);
        }
        groups.entry(group).or_default().push(entry);
    }
    groups
}

fn is_last(groups: &Members<'_>, series: SeriesId, group: GroupId) -> bool {
    let mut from = groups.range(group..).skip(1);
    from.next().is_none_or(|(next, _)| next.series != series)
}

/// What has happened to a group since its marks were made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Change {
    None,
    /// Backups came.
    Added,
    /// Something that was marked is no more, or is another revision.
    Dropped,
}

/// Compares a group's manifests with what its marks cover. The second is a covered backup whose manifest is gone.
pub(crate) fn change(
    before: &[CoveredManifest],
    now: &[&ManifestEntry],
    has_same_reach: &dyn Fn(&CoveredManifest, &ManifestEntry) -> bool,
) -> (Change, Option<SessionId>) {
    let mut rest: BTreeMap<SessionId, CoveredManifest> = now
        .iter()
        .map(|entry| (entry.session(), covered(entry)))
        .collect();
    let (mut change, mut lost) = (Change::None, None);
    for old in before {
        let of_one = match rest.remove(&old.session) {
            Some(new) if new == *old => Change::None,
            // Its tombstone was dropped at last.
            None if old.forgotten => Change::Added,
            None => {
                lost = Some(old.session);
                Change::Dropped
            }
            Some(_) => {
                let now = now.iter().find(|entry| entry.session() == old.session);
                let is_same = !old.forgotten && now.is_some_and(|now| has_same_reach(old, now));
                if is_same { Change::Added } else { Change::Dropped }
            }
        };
        change = change.max(of_one);
    }
    if !rest.is_empty() {
        change = change.max(Change::Added);
    }
    (change, lost)
}
