//! Marks what changed, and finds dead slots: the first half of an epoch, which removes nothing.
//!
//! A group whose manifests equal those that its marks cover is not marked again [Guo 3.3] (G8). New
//! backups extend the marks; the bits of nodes show which nodes were visited. A group that lost a
//! backup is marked again, alone.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use format::manifest::Backup;
use format::reclaim::{ContainerSlots, CoveredManifest, GroupId, LeftSlots, Marks, Removed};
use format::session::{ARCHIVAL_SERIES, READ_SERIES};
use session::{
    CoveredBackup, EndedBy, ManifestEntry, ManifestList, Manifests, SessionError, SessionTable,
    StoredManifest,
};
use types::{ContainerId, Epoch, Revision, SessionId};

use crate::context::Context;
use crate::error::Result;
use crate::forward_pins::ForwardPins;
use crate::in_use::has_ended;
use crate::lost_backups;
use crate::manifests::{backup_of, unreadable};
use crate::mark::{self, Marker, Walk};
use crate::mark_overflow::MarkOverflow;
use crate::marks::{self, Change, InForce, Member, StoredMarks};
use crate::options::PruneOptions;
use crate::slots::{SlotSet, entry};
use crate::sweep;

/// The result of marking and sweeping.
#[derive(Debug, Default)]
pub(crate) struct Plan {
    /// Groups marked anew, with the revision of their new marks.
    pub(crate) marked: Vec<(GroupId, Revision)>,
    /// The future marks of all groups.
    pub(crate) after: InForce,
    /// Dead slots, in order of their containers.
    pub(crate) condemned: Vec<ContainerSlots>,
    /// Whether one of them is new: no earlier epoch left it in place knowingly.
    pub(crate) has_news: bool,
    /// Whether marks lost bits, or a group no longer exists.
    pub(crate) has_dropped: bool,
    /// Number of nodes read.
    pub(crate) nodes: u64,
    /// Whether a container may have more dead slots, because the storage did not give its catalog.
    pub(crate) is_partial: bool,
    /// Containers with nodes that cannot be read, and whose condemned slots the newest removed list
    /// names already. Another epoch could do no more, and that list stays as long as they do.
    pub(crate) unread: BTreeSet<ContainerId>,
    /// Forgotten backups that are still marked, each with a backup that needs it.
    pub(crate) kept: BTreeMap<SessionId, SessionId>,
}

impl Plan {
    /// Removes the slots of a list from the condemned ones.
    pub(crate) fn take_out(&mut self, listed: &[ContainerSlots], left: &[LeftSlots], ended: &Ended) {
        let condemned = std::mem::take(&mut self.condemned).into_iter();
        let rest = condemned.filter_map(|slots| match on_list(listed, &slots) {
            None => Some(slots),
            Some(listed) => {
                let rest = slots_of(&slots).without(&listed);
                (!rest.is_empty()).then(|| entry(slots.container, Some(&rest)))
            }
        });
        self.condemned = rest.collect();
        self.has_news = self.has_news && self.is_news(&self.condemned, left, ended);
    }

    /// Whether something is dead that no earlier epoch has left in place.
    fn is_news(&self, dead: &[ContainerSlots], left: &[LeftSlots], ended: &Ended) -> bool {
        let was_left = |slots: &ContainerSlots| {
            let at = left.binary_search_by_key(&slots.container, |left| left.slots.container);
            at.is_ok_and(|at| left[at].slots == *slots)
        };
        let of_epoch = |slots: &ContainerSlots| ended.by_epoch.contains(&slots.container.session);
        let is_known = |slots: &ContainerSlots| self.unread.contains(&slots.container);
        !dead
            .iter()
            .all(|slots| was_left(slots) || of_epoch(slots) || is_known(slots))
    }
}

fn slots_of(slots: &ContainerSlots) -> SlotSet {
    match &slots.slots {
        Some(ranges) => ranges.iter().copied().collect(),
        None => SlotSet::all(),
    }
}

/// What a list names of the container.
fn on_list(listed: &[ContainerSlots], slots: &ContainerSlots) -> Option<SlotSet> {
    let at = listed.binary_search_by_key(&slots.container, |listed| listed.container);
    at.ok().map(|at| slots_of(&listed[at]))
}

/// The inputs of a plan.
pub(crate) struct Before<'a> {
    pub(crate) in_force: &'a InForce,
    pub(crate) removed: Option<&'a Removed>,
    /// Whether every container is to be swept.
    pub(crate) sweep_all: bool,
    /// Sessions that ran before manifests were listed.
    pub(crate) running: &'a BTreeSet<SessionId>,
    /// Sessions that count as ended, though no manifest says so.
    pub(crate) ended: &'a Ended,
    /// The epoch that the marks are for.
    pub(crate) epoch: Epoch,
}

/// Sessions that a run would end, and whose data it would remove.
#[derive(Debug, Default)]
pub(crate) struct Ended {
    /// Sessions that the run ends before it plans.
    pub(crate) first: BTreeSet<SessionId>,
    /// Sessions that the run ends if they do not answer an epoch. Without an epoch they stay.
    pub(crate) by_epoch: BTreeSet<SessionId>,
}

impl Ended {
    pub(crate) fn has(&self, session: SessionId) -> bool {
        self.first.contains(&session) || self.by_epoch.contains(&session)
    }
}

/// Marks and sweeps. With `overflow`, it puts marks that exceed the memory budget; it writes
/// nothing else.
pub(crate) fn plan(
    context: &Context<'_>,
    options: &PruneOptions,
    list: &ManifestList,
    before: &Before<'_>,
    overflow: Option<&mut MarkOverflow<'_>>,
) -> Result<Plan> {
    let covers = before.in_force.covers();
    ensure_readable(list, &covers, context.manifests, options.allow_missing_manifests)?;
    let kept = ForwardPins::of(
        list,
        context.manifests,
        &covers,
        &BTreeSet::new(),
        options.allow_missing_manifests,
    )?;
    let mut planning = Planning {
        context,
        options,
        list,
        before,
        overflow,
        covers: covers.into_keys().collect(),
        kept: &kept,
        swept: BTreeSet::new(),
        plan: Plan::default(),
    };
    for (group, entries) in marks::members(list, before.in_force, &kept) {
        planning.group(group, &entries)?;
    }
    planning.ended_by_others()?;
    let plan = planning.sweep()?;
    Ok(Plan {
        kept: kept.into_keepers(),
        ..plan
    })
}

/// Fails if an unreadable manifest may keep slots alive that no readable one reaches.
///
/// No revision adds reach (`Manifests::revise`). So a readable revision of the same backup reaches
/// as much as the unreadable one, or more. There are two exceptions, because a revision that a
/// rewrite made drops what lower ones reach (R2):
///
/// - If marks cover that revision, no lower one can replace it. Before marks cover it, nobody acts
///   on it, so a revision that is lost for good is passed over.
/// - If the storage may give the revision later, no lower one can replace it either: by then, what
///   only the unread revision reaches would be removed.
pub(crate) fn ensure_readable(
    list: &ManifestList,
    covers: &BTreeMap<SessionId, CoveredManifest>,
    manifests: &Manifests,
    allow_missing_manifests: bool,
) -> Result<()> {
    lost_backups::ensure_no_lower(list, covers, allow_missing_manifests)?;
    let rewritten = if list.damaged.iter().any(|object| object.is_unread) {
        match manifests.rewritten(list) {
            Err(SessionError::Damaged(object)) => return Err(unreadable(&object)),
            rewritten => rewritten?,
        }
    } else {
        BTreeSet::new()
    };
    for object in &list.damaged {
        let parsed = format::names::parse_manifest(&object.name);
        if !object.is_unread && parsed.is_some_and(|(series, ..)| series == ARCHIVAL_SERIES) {
            // A commit of a rewrite that is lost for good has no effect.
            continue;
        }
        let session = parsed.map(|(_, session, _)| session);
        let is_told = session.is_some_and(|session| {
            let covered = covers.get(&session).filter(|known| known.is_rewritten());
            let counts = list.get(session).map(|entry| entry.stored.revision);
            let is_as_covered =
                covered.is_none_or(|known| counts.is_none_or(|counts| counts >= known.revision));
            let is_final = list.get(session).is_some_and(ManifestEntry::is_forgotten);
            let may_come_back = object.is_unread && rewritten.contains(&session);
            list.has(session) && is_as_covered && (is_final || !may_come_back)
        });
        if !is_told {
            return Err(unreadable(object));
        }
    }
    Ok(())
}

struct Planning<'a, 's> {
    context: &'a Context<'a>,
    options: &'a PruneOptions,
    list: &'a ManifestList,
    before: &'a Before<'a>,
    /// `None`: all marks stay in memory.
    overflow: Option<&'a mut MarkOverflow<'s>>,
    /// Sessions that some marks cover.
    covers: BTreeSet<SessionId>,
    kept: &'a ForwardPins,
    swept: BTreeSet<ContainerId>,
    plan: Plan,
}

impl Planning<'_, '_> {
    fn group(&mut self, group: GroupId, members: &[Member<'_>]) -> Result<()> {
        let old = self.before.in_force.groups.get(&group);
        let covered = old.map_or(&[][..], |old| &old.covers);
        let (mut change, lost) = marks::change(
            covered,
            members,
            &|old, new| self.has_same_reach(old, new),
            &|session| self.list.has(session),
        );
        // A lost rewrite has no effect.
        let lost = lost.filter(|_| group.series != READ_SERIES);
        lost_backups::ensure_none(lost, self.options.allow_missing_manifests)?;
        // New marks replace an unreadable object, because otherwise every run would sweep
        // everything. They also replace marks that a dead process put for an epoch that was never
        // announced. Deleting these would free their number, and the process may only sleep, and
        // refer to it later.
        let is_behind = || self.before.in_force.is_behind(group);
        if self.before.in_force.missing.contains(&group) || old.is_none() || is_behind() {
            change = change.max(Change::Added);
        }
        // The tombstones of the group were deleted too. If the newest removed list names its marks,
        // a newer list must state the end of the group before its marks are deleted.
        let is_named = || {
            let removed = self.before.removed;
            removed.is_some_and(|removed| removed.marks.iter().any(|(named, _)| *named == group))
        };
        let is_over =
            |old: &Arc<StoredMarks>| old.covers.is_empty() || (old.is_of_no_backup() && !is_named());
        if members.is_empty() && old.is_none_or(is_over) {
            return Ok(());
        }
        match old {
            Some(old) if change == Change::None => {
                self.plan.after.groups.insert(group, Arc::clone(old));
                return Ok(());
            }
            _ => {}
        }
        let marks = self.mark(group, old.map(AsRef::as_ref), change, members)?;
        let new = members.iter().filter_map(|member| member.read());
        let new = new.filter(|entry| !self.covers.contains(&entry.session()));
        let new: Vec<&ManifestEntry> = new.collect();
        let manifests = self.context.manifests;
        let is_far = manifests.sealer().env().storage.is_far();
        let backups = object::several(is_far, new.len(), |at| manifests.last_backup(new[at]))?;
        for (entry, backup) in new.into_iter().zip(backups) {
            self.first_seen(entry.session(), backup.map(|(_, backup)| backup))?;
        }
        let revision = self.before.in_force.next_revision(group);
        self.plan.marked.push((group, revision));
        let stored = match &mut self.overflow {
            Some(overflow) => overflow.hold(&self.before.in_force.budget, group, revision, marks)?,
            None => StoredMarks::new(revision, marks),
        };
        self.plan.after.groups.insert(group, Arc::new(stored));
        Ok(())
    }

    /// Whether only tags or a hold of a manifest have changed.
    fn has_same_reach(&self, old: &CoveredManifest, new: &ManifestEntry) -> bool {
        let before = self
            .context
            .manifests
            .read(new.series(), old.session, old.revision);
        let before = before.ok().filter(|before| before.digest == old.digest);
        let before = before.as_ref().and_then(|before| backup_of(&before.manifest));
        before.zip(new.backup()).is_some_and(|(before, now)| {
            before.streams == now.streams && before.containers == now.containers && before.next == now.next
        })
    }

    /// Reads the manifest of a backup that has not changed since it was marked. The group is marked
    /// again, so the manifest is needed.
    fn read(&self, backup: &CoveredBackup) -> Result<Arc<StoredManifest>> {
        let CoveredManifest {
            session, revision, ..
        } = backup.covered;
        match self.context.manifests.read(backup.series, session, revision) {
            // A lower revision may refer to removed slots, and what only this revision reaches
            // would be removed.
            Err(SessionError::Damaged(object)) if backup.covered.is_rewritten() => Err(unreadable(&object)),
            Err(SessionError::Damaged(object)) => {
                // A lower revision reaches no less, and no removed slot, because marks cover both.
                let list = self.context.manifests.list_series(backup.series)?;
                let below = list.get(session).filter(|entry| entry.backup().is_some());
                below
                    .map(|entry| Arc::clone(&entry.stored))
                    .ok_or_else(|| unreadable(&object))
            }
            read => Ok(read?),
        }
    }

    fn mark(
        &mut self,
        group: GroupId,
        old: Option<&StoredMarks>,
        change: Change,
        members: &[Member<'_>],
    ) -> Result<Marks> {
        let mut marker = Marker::default();
        let kept = old.filter(|_| change == Change::Added);
        if let Some(kept) = kept {
            let before = kept.live(self.context.sealer, group)?;
            marker.marks.add_list(&before);
        }
        let mut walk = Walk::new(self.context.nodes, self.context.progress);
        for member in members {
            if kept.is_some_and(|kept| kept.covers.contains(&member.covered())) {
                continue;
            }
            let read;
            let backup = match member {
                Member::Read(entry, covered) if covered.kept => {
                    self.kept.backup(entry.session()).map(|(_, backup)| backup)
                }
                Member::Read(entry, _) => entry.backup(),
                Member::AsCovered(backup) => {
                    read = self.read(backup)?;
                    backup_of(&read.manifest)
                }
            };
            if let Some(backup) = backup {
                mark::backup(&mut walk, backup, &mut marker).map_err(|error| error.of(member.session()))?;
            }
        }
        self.plan.nodes += walk.read;
        let live = marker.marks.into_list();
        if let Some(old) = old.filter(|_| change == Change::Dropped) {
            let before = old.live(self.context.sealer, group)?;
            self.swept.extend(sweep::lost_bits(&before, &live));
            self.plan.has_dropped = true;
        }
        Ok(Marks {
            group,
            epoch: Some(self.before.epoch),
            covers: members.iter().map(|member| member.covered()).collect(),
            live,
        })
    }

    /// Adds the containers that a backup wrote to the sweep, when it is marked for the first time:
    /// the sweep finds slots that it wrote and does not reach.
    fn first_seen(&mut self, session: SessionId, backup: Option<Backup>) -> Result<()> {
        let Some(backup) = backup else {
            self.swept
                .extend(sweep::listed(self.context.containers, session)?);
            return Ok(());
        };
        self.add_written(session, &backup);
        for (old, _) in &backup.adopted {
            self.swept.extend(sweep::listed(self.context.containers, *old)?);
        }
        Ok(())
    }

    fn add_written(&mut self, session: SessionId, backup: &Backup) {
        let spans = backup.containers.iter();
        self.swept.extend(spans.flat_map(|span| span.ids(session)));
    }

    /// Adds the containers of sessions that others ended. Such a session may have put containers
    /// since, so every run looks at them.
    fn ended_by_others(&mut self) -> Result<()> {
        let mut sessions = BTreeSet::new();
        for entry in &self.list.entries {
            let is_over = match entry.ended_by() {
                Some(EndedBy::Expired { .. }) => true,
                Some(EndedBy::Adopted { by, .. }) => has_ended(self.list, by),
                _ => false,
            };
            if is_over {
                sessions.insert(entry.session());
            }
        }
        let ended = self.before.ended;
        sessions.extend(ended.first.iter().chain(&ended.by_epoch));
        self.swept
            .extend(sweep::listed_of(self.context.containers, &sessions)?);
        Ok(())
    }

    fn sweep(mut self) -> Result<Plan> {
        let context = self.context;
        if self.before.sweep_all {
            self.swept = sweep::everything(context.containers)?;
            self.plan.has_dropped = true;
        }
        let mut running = if self.before.sweep_all {
            // List sessions again: those that began meanwhile have put containers that are on the
            // list by now.
            context.running(&SessionTable::list(context.sealer)?)?
        } else {
            let ended = |id: &SessionId| self.list.has(*id);
            self.before
                .running
                .iter()
                .copied()
                .filter(|id| !ended(id))
                .collect()
        };
        running.retain(|id| !self.before.ended.has(*id));
        self.swept.retain(|id| !running.contains(&id.session));
        // Slots that an earlier epoch left are still dead, unless later backups refer to them.
        let left = self.before.removed.map_or(&[][..], |removed| &removed.left);
        let in_part = |left: &&LeftSlots| left.slots.slots.is_some();
        let whole = left.iter().filter(|left| !in_part(left));
        self.swept.extend(whole.map(|left| left.slots.container));
        let known: Vec<_> = left
            .iter()
            .filter(in_part)
            .filter(|left| !self.swept.contains(&left.slots.container))
            .collect();
        let mut asked = self.swept.clone();
        asked.extend(known.iter().map(|left| left.slots.container));
        let groups = self.plan.after.groups.iter();
        let lists = groups.map(|(group, stored)| stored.live(context.sealer, *group));
        let merged = sweep::merge(lists, &asked)?;
        let is_ended = |session: SessionId| !running.contains(&session);
        let sweep::Swept {
            mut dead,
            is_partial,
            unread,
        } = sweep::dead(
            context.containers,
            &self.swept,
            &merged,
            &is_ended,
            context.progress,
        )?;
        self.plan.is_partial = is_partial;
        let listed = self.before.removed.map_or(&[][..], |removed| &removed.slots);
        let is_listed = |slots: &&ContainerSlots| {
            let named = on_list(listed, slots).unwrap_or_default();
            unread.contains(&slots.container) && slots_of(slots).without(&named).is_empty()
        };
        self.plan.unread = dead
            .iter()
            .filter(is_listed)
            .map(|slots| slots.container)
            .collect();
        self.plan.has_news = self.plan.is_news(&dead, left, self.before.ended);
        for left in known {
            let id = left.slots.container;
            match merged.live.get(id) {
                None => {
                    self.plan.has_news = true;
                    dead.push(entry(id, None));
                }
                Some(live) => {
                    let was: SlotSet = left.slots.slots.clone().unwrap_or_default().into_iter().collect();
                    let still = was.without(live);
                    if !still.is_empty() {
                        dead.push(entry(id, Some(&still)));
                    }
                }
            }
        }
        dead.sort_unstable_by_key(|slots| slots.container);
        dead.dedup_by_key(|slots| slots.container);
        self.plan.condemned = dead;
        Ok(self.plan)
    }
}
