//! Marks: which slots the backups of a group reach, and which marks count.
//!
//! `groups/<group>.<revision>` [Guo 3.3] (G8). Marks that drop bits count once the removed list of
//! their epoch names them; marks that only add bits count at once. Other revisions in the folder
//! are left from a process that died or lost, and never count.
//!
//! Memory: for all groups, which manifests their marks cover; and the encoded slots, some five
//! bytes a container, within one budget for all, new marks included. Marks beyond the budget are
//! put at once ([`crate::mark_overflow`]), and read again when needed, one group at a time.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use format::frame::ObjectKind;
use format::names;
use format::reclaim::{CoveredManifest, GroupId, Marks, Removed, SlotList};
use format::session::{ARCHIVAL_SERIES, READ_SERIES};
use object::Sealer;
use session::{CoveredBackup, ManifestEntry, ManifestList};
use types::{Revision, SeriesId, SessionId};

use crate::epochs;
use crate::error::{ReclaimError, Result};
use crate::forward_pins::ForwardPins;
use crate::objects;

pub(crate) use put::{put, put_all};

mod put;

/// The most backups in a group. More make re-marking dearer, fewer make merging dearer [Guo 4.1.2].
pub(crate) const GROUP_BACKUPS_MAX: usize = 16;

/// One group's marks, as stored.
#[derive(Debug)]
pub(crate) struct StoredMarks {
    pub(crate) revision: Revision,
    pub(crate) covers: Vec<CoveredManifest>,
    /// `None`: the slots exceed the memory budget.
    live: Option<SlotList>,
}

impl StoredMarks {
    /// Keeps all slots in memory.
    pub(crate) fn new(revision: Revision, marks: Marks) -> Self {
        Self {
            revision,
            covers: marks.covers,
            live: Some(marks.live),
        }
    }

    /// Whether all backups that it covers are forgotten, so that it marks no slot.
    pub(crate) fn is_of_no_backup(&self) -> bool {
        !self.covers.iter().any(CoveredManifest::is_marked)
    }

    /// Whether the slots are not in memory. Then the object is in the storage.
    pub(crate) fn is_put(&self) -> bool {
        self.live.is_none()
    }

    /// Drops the slots from memory, because the object is in the storage.
    pub(crate) fn let_go(&mut self) {
        self.live = None;
    }

    /// The marked slots.
    ///
    /// # Errors
    /// Of the storage, if the slots have to be read again.
    pub(crate) fn live(&self, sealer: &Sealer, group: GroupId) -> Result<Cow<'_, SlotList>> {
        if let Some(live) = &self.live {
            return Ok(Cow::Borrowed(live));
        }
        let again = read(sealer, group, self.revision)?.ok_or_else(|| ReclaimError::Damaged {
            what: format!(
                "{}: could be read a moment ago, and cannot be read again; run prune once more",
                names::marks(group, self.revision)
            ),
        })?;
        Ok(Cow::Owned(again.live))
    }
}

/// The marks of all groups that count at one moment.
#[derive(Debug, Clone, Default)]
pub(crate) struct InForce {
    pub(crate) groups: BTreeMap<GroupId, Arc<StoredMarks>>,
    /// Every revision that is listed, in force or not.
    pub(crate) listed: BTreeMap<GroupId, Vec<Revision>>,
    /// Groups whose marks should exist and cannot be read: every container must be swept.
    pub(crate) missing: Vec<GroupId>,
    /// The memory left for slots.
    pub(crate) budget: Arc<Budget>,
}

impl InForce {
    /// Reads the marks that count after the epoch of `removed`, the newest finished one. It keeps
    /// up to `bytes_max` of slots in memory, over all groups.
    pub(crate) fn load(sealer: &Sealer, removed: Option<&Removed>, bytes_max: u64) -> Result<Self> {
        Self::load_of(sealer, removed, bytes_max, &|_| true)
    }

    /// Does the same as [`Self::load`], but reads only the wanted groups. It lists all groups.
    pub(crate) fn load_of(
        sealer: &Sealer,
        removed: Option<&Removed>,
        bytes_max: u64,
        is_wanted: &dyn Fn(&GroupId) -> bool,
    ) -> Result<Self> {
        let named: BTreeMap<GroupId, Revision> =
            removed.map_or_else(BTreeMap::new, |removed| removed.marks.iter().copied().collect());
        let mut all = Self::default();
        for ((group, revision), _) in sealer.list(names::GROUPS_FOLDER, names::parse_marks)? {
            if revision.get() >= Revision::MAX.get() - 1 {
                return Err(objects::no_next(&names::marks(group, revision)));
            }
            all.listed.entry(group).or_default().push(revision);
        }
        all.listed
            .values_mut()
            .for_each(|revisions| revisions.sort_unstable());
        let wanted = all.listed.iter().filter(|(group, _)| is_wanted(group));
        let wanted: Vec<(GroupId, &Vec<Revision>)> = wanted.map(|(group, listed)| (*group, listed)).collect();
        let budget = Arc::new(Budget::new(bytes_max));
        let read = object::several(sealer.env().storage.is_far(), wanted.len(), |at| {
            let (group, revisions) = wanted[at];
            in_force(sealer, group, revisions, named.get(&group).copied(), &budget)
        })?;
        let groups: Vec<GroupId> = wanted.into_iter().map(|(group, _)| group).collect();
        all.budget = budget;
        for (group, (stored, is_unreadable)) in groups.into_iter().zip(read) {
            all.groups.extend(stored.map(|stored| (group, Arc::new(stored))));
            // The unreadable revision may be the one that counts.
            if is_unreadable {
                all.missing.push(group);
            }
        }
        let gone = named
            .keys()
            .filter(|group| is_wanted(group) && !all.groups.contains_key(group));
        let gone: Vec<_> = gone.copied().collect();
        all.missing.extend(gone);
        all.missing.sort_unstable();
        all.missing.dedup();
        Ok(all)
    }

    /// Reads exactly these revisions, as far as they can be read. A manifest that only another
    /// revision covered counts as uncovered: a decision by these marks walks it again.
    pub(crate) fn named(sealer: &Sealer, marks: &[(GroupId, Revision)], bytes_max: u64) -> Result<Self> {
        let budget = Budget::new(bytes_max);
        let read = object::several(sealer.env().storage.is_far(), marks.len(), |at| {
            let (group, revision) = marks[at];
            let marks = read(sealer, group, revision)?;
            Ok::<_, ReclaimError>(marks.map(|marks| (group, Arc::new(budget.hold(revision, marks)))))
        })?;
        Ok(Self {
            groups: read.into_iter().flatten().collect(),
            ..Self::default()
        })
    }

    /// The revision of a group's next marks. No revision is used twice, because it is above all
    /// listed ones.
    pub(crate) fn next_revision(&self, group: GroupId) -> Revision {
        match self.listed.get(&group).and_then(|revisions| revisions.last()) {
            Some(highest) => highest.next(),
            None => Revision::FIRST,
        }
    }

    /// Whether a revision above the one that counts is listed.
    pub(crate) fn is_behind(&self, group: GroupId) -> bool {
        let in_force = self.groups.get(&group).map(|stored| stored.revision);
        let highest = self.listed.get(&group).and_then(|revisions| revisions.last());
        in_force.is_some() && highest.copied() > in_force
    }

    /// What marks cover of each session's manifest.
    pub(crate) fn covers(&self) -> BTreeMap<SessionId, CoveredManifest> {
        let covered = self.groups.values().flat_map(|stored| &stored.covers);
        covered.map(|covered| (covered.session, *covered)).collect()
    }

    /// Groups and revisions, as lists name them.
    pub(crate) fn revisions(&self) -> Vec<(GroupId, Revision)> {
        let each = self.groups.iter();
        each.map(|(group, stored)| (*group, stored.revision)).collect()
    }
}

/// The marks of a group that count, and whether a revision that may count cannot be read.
fn in_force(
    sealer: &Sealer,
    group: GroupId,
    revisions: &[Revision],
    base: Option<Revision>,
    budget: &Budget,
) -> Result<(Option<StoredMarks>, bool)> {
    let mut is_unreadable = false;
    let above = revisions.iter().rev().copied();
    for revision in above.take_while(|revision| base <= Some(*revision)) {
        match read(sealer, group, revision)? {
            Some(marks) if marks.epoch.is_none() || base == Some(revision) => {
                return Ok((Some(budget.hold(revision, marks)), is_unreadable));
            }
            Some(_) => {}
            None => is_unreadable = true,
        }
    }
    Ok((None, is_unreadable))
}

/// The memory budget for slots.
#[derive(Debug, Default)]
pub(crate) struct Budget {
    bytes_left: AtomicU64,
}

impl Budget {
    const fn new(bytes_max: u64) -> Self {
        Self {
            bytes_left: AtomicU64::new(bytes_max),
        }
    }

    /// Whether these slots still fit, and if so, takes their bytes.
    pub(crate) fn takes(&self, live: &SlotList) -> bool {
        let bytes = live.bytes_in_memory();
        let take = |left: u64| left.checked_sub(bytes);
        let taken = self
            .bytes_left
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, take);
        taken.is_ok()
    }

    fn hold(&self, revision: Revision, marks: Marks) -> StoredMarks {
        let fits = self.takes(&marks.live);
        let mut stored = StoredMarks::new(revision, marks);
        if !fits {
            stored.live = None;
        }
        stored
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

/// How marks cover a manifest.
pub(crate) fn covered(entry: &ManifestEntry, kept: &ForwardPins) -> CoveredManifest {
    CoveredManifest {
        session: entry.session(),
        revision: entry.stored.revision,
        digest: entry.stored.digest,
        forgotten: entry.is_forgotten(),
        kept: kept.has(entry.session()),
        next: kept.next_of(entry),
        rewritten: kept.is_rewritten(entry),
    }
}

/// A backup's manifest as it is now, forgotten or not.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Member<'a> {
    /// A manifest that was read, and how marks will cover it.
    Read(&'a ManifestEntry, CoveredManifest),
    /// A manifest that marks in force cover as it is.
    AsCovered(&'a CoveredBackup),
}

impl<'a> Member<'a> {
    pub(crate) fn series(self) -> SeriesId {
        match self {
            Self::Read(entry, _) => entry.series(),
            Self::AsCovered(backup) => backup.series,
        }
    }

    pub(crate) fn session(self) -> SessionId {
        self.covered().session
    }

    /// How marks cover it.
    pub(crate) fn covered(self) -> CoveredManifest {
        match self {
            Self::Read(_, covered) => covered,
            Self::AsCovered(backup) => backup.covered,
        }
    }

    pub(crate) fn read(self) -> Option<&'a ManifestEntry> {
        match self {
            Self::Read(entry, _) => Some(entry),
            Self::AsCovered(_) => None,
        }
    }
}

/// Groups with their manifests as they are now.
pub(crate) type Members<'a> = BTreeMap<GroupId, Vec<Member<'a>>>;

/// Sorts all backups, forgotten ones too, into groups: existing groups, and new ones for new
/// backups. An archival backup has a group of its own, so it can be removed without reading others
/// (R4).
pub(crate) fn members<'a>(list: &'a ManifestList, in_force: &InForce, kept: &ForwardPins) -> Members<'a> {
    let mut groups: Members<'a> = in_force.groups.keys().map(|group| (*group, Vec::new())).collect();
    let covers = in_force.covers();
    let read = list
        .entries
        .iter()
        .filter(|entry| entry.backup().is_some() || entry.is_forgotten());
    let mut backups: Vec<Member<'a>> = read
        .map(|entry| Member::Read(entry, covered(entry, kept)))
        .collect();
    backups.extend(list.as_covered.iter().map(Member::AsCovered));
    backups.sort_unstable_by_key(|member| member.session());
    let lowest = SessionId::new(0).expect("0 is a session");
    for entry in backups {
        let (series, session) = (entry.series(), entry.session());
        let is_rewrite = series == ARCHIVAL_SERIES;
        if entry.covered().next.is_some() && !is_rewrite {
            let own = GroupId {
                series: ARCHIVAL_SERIES,
                first: session,
            };
            groups.entry(own).or_default().push(entry);
            continue;
        }
        // A rewrite of which no backup has the roots. Nearly always all of them are forgotten.
        let series = if is_rewrite { READ_SERIES } else { series };
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

/// How a group has changed since its marks were made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Change {
    None,
    /// Only new backups were added.
    Added,
    /// A marked backup no longer exists, or has another revision.
    Dropped,
}

/// Compares a group's manifests with those that its marks cover. The second value is a covered
/// backup without a manifest. If `is_elsewhere` is true for a backup, the marks of another group
/// cover it now.
pub(crate) fn change(
    before: &[CoveredManifest],
    now: &[Member<'_>],
    has_same_reach: &dyn Fn(&CoveredManifest, &ManifestEntry) -> bool,
    is_elsewhere: &dyn Fn(SessionId) -> bool,
) -> (Change, Option<SessionId>) {
    let mut rest: BTreeMap<SessionId, CoveredManifest> = now
        .iter()
        .map(|member| (member.session(), member.covered()))
        .collect();
    let (mut change, mut lost) = (Change::None, None);
    for old in before {
        let of_one = match rest.remove(&old.session) {
            Some(new) if new == *old => Change::None,
            None if is_elsewhere(old.session) => Change::Dropped,
            // Its tombstone was deleted in the end.
            None if !old.is_marked() => Change::Added,
            None => {
                lost = Some(old.session);
                Change::Dropped
            }
            Some(_) => {
                let now = now.iter().find(|member| member.session() == old.session);
                let now = now.and_then(|member| member.read());
                let is_same = old.is_marked() && now.is_some_and(|now| has_same_reach(old, now));
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

#[cfg(test)]
mod tests {
    use types::{Revision, UnixNanos};

    use super::*;

    /// A session with a lower number may commit later. So more than one group's marks may cover a
    /// backup, until the older ones are replaced (`session` reads all of them for that reason).
    #[test]
    fn a_backup_that_commits_late_may_move_a_later_one_to_a_new_group() {
        let series = SeriesId::from_bytes([7; 16]);
        let id = |n| SessionId::new(n).unwrap();
        let group = |n| GroupId { series, first: id(n) };
        let covered = |n| CoveredManifest {
            session: id(n),
            revision: Revision::FIRST,
            digest: 0,
            forgotten: false,
            kept: false,
            next: None,
            rewritten: false,
        };
        let before: Vec<u64> = (1..=15).chain([18]).collect();
        let marks = Marks {
            group: group(1),
            epoch: None,
            covers: before.iter().map(|n| covered(*n)).collect(),
            live: SlotList::default(),
        };
        let mut in_force = InForce::default();
        let stored = StoredMarks::new(Revision::FIRST, marks);
        in_force.groups.insert(group(1), Arc::new(stored));
        let backup = |n| CoveredBackup {
            series,
            covered: covered(n),
            committed_at: UnixNanos::new(0),
        };
        let list = |of: &mut dyn Iterator<Item = u64>| ManifestList {
            as_covered: of.map(backup).collect(),
            ..ManifestList::default()
        };
        let groups = |list: &ManifestList| {
            let groups = members(list, &in_force, &ForwardPins::default());
            let sessions = groups.into_iter().map(|(group, members)| {
                let sessions = members.iter().map(|member| member.session().get());
                (group.first.get(), sessions.collect::<Vec<_>>())
            });
            sessions.collect::<Vec<_>>()
        };
        assert_eq!(groups(&list(&mut before.iter().copied())), [(1, before.clone())]);
        assert_eq!(
            groups(&list(&mut (1..=18))),
            [(1, (1..=16).collect()), (17, vec![17, 18])]
        );
    }
}
