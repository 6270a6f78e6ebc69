//! The bytes that only one backup reaches, or only one series: of backups that are about to be
//! forgotten, or of all. A user sees them before they decide.
//!
//! Before backups are forgotten, only the slots that would be dead are walked: a live node reaches
//! only live slots. Data that
//! several forgotten backups share counts for none of them, so the sum may be less than a prune
//! frees. Each node is read once, however many backups have it, and one catalog for each container
//! with counted bytes. Memory is a few times the slots that would be dead, and the nodes of one
//! level, however many backups there are.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use format::reclaim::ContainerSlots;
use session::{ManifestList, SessionError, StoredManifest};
use types::{ChunkLocation, ContainerId, Level, SeriesId, SessionId, SlotRange};

use crate::context::Context;
use crate::error::{ReclaimError, Result};
use crate::final_list::stored_share;
use crate::manifests::backup_of;
use crate::mark::{Below, Walk, WalkError};
use crate::slots::{SlotMap, SlotSet};

/// The manifests of these backups, as far as they can be read.
pub(crate) fn manifests(
    context: &Context<'_>,
    list: &ManifestList,
    backups: &BTreeSet<SessionId>,
) -> Result<Vec<Arc<StoredManifest>>> {
    let read = list.backups().filter(|entry| backups.contains(&entry.session()));
    let mut all: Vec<_> = read.map(|entry| Arc::clone(&entry.stored)).collect();
    for known in &list.as_covered {
        let covered = known.covered;
        if backups.contains(&covered.session) {
            match context
                .manifests
                .read(known.series, covered.session, covered.revision)
            {
                Err(SessionError::Damaged(_)) => {}
                read => all.push(read?),
            }
        }
    }
    Ok(all)
}

/// The owners that reach a slot or node: one of them, by its place in the list, or several. An
/// owner is a backup or a series.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Owner {
    One(usize),
    Several,
}

impl Owner {
    fn and(self, other: Self) -> Self {
        if self == other { self } else { Self::Several }
    }
}

/// Which owners reach which slots.
struct Owners {
    /// Only these count. `None`: all slots.
    dead: Option<SlotMap>,
    /// Nodes that are not read yet. The nodes of a level are read after all nodes of the level
    /// above, when it is known which backups reach them. So each is read once.
    open: BTreeMap<Level, BTreeMap<ChunkLocation, Owner>>,
    /// For each backup, the slots that it reaches alone, as far as is known yet.
    of_one: Vec<SlotMap>,
    met: SlotMap,
    several: SlotMap,
}

impl Owners {
    fn add(&mut self, below: &Below, owner: Owner) {
        match *below {
            Below::Node(at, level) => self.add_node(at, level, owner),
            Below::Chunks(container, slots) => self.add_chunks(container, slots, owner),
        }
    }

    fn add_node(&mut self, at: ChunkLocation, level: Level, owner: Owner) {
        let counts = |dead: &SlotMap| dead.contains(at.container, at.slot);
        if self.dead.as_ref().is_none_or(counts) {
            let of_level = self.open.entry(level).or_default();
            let known = of_level.entry(at).or_insert(owner);
            *known = known.and(owner);
        }
    }

    fn add_chunks(&mut self, container: ContainerId, slots: SlotRange, owner: Owner) {
        let counted = match &self.dead {
            None => SlotSet::from_iter([slots]),
            Some(dead) => dead
                .get(container)
                .map(|dead| dead.within(slots))
                .unwrap_or_default(),
        };
        if !counted.is_empty() {
            self.own(container, &counted, owner);
        }
    }

    fn own(&mut self, container: ContainerId, slots: &SlotSet, owner: Owner) {
        let Owner::One(one) = owner else {
            self.several.add(container, slots);
            return;
        };
        let own = &mut self.of_one[one];
        if let Some(met) = self.met.get(container) {
            let of_others = match own.get(container) {
                Some(own) => slots.common(met).without(own),
                None => slots.common(met),
            };
            self.several.add(container, &of_others);
        }
        self.met.add(container, slots);
        own.add(container, slots);
    }

    /// Reads all nodes, from the highest level down. Returns the backups with an unreadable node
    /// that no other backup reaches: it is not known what else they reach. An unreadable node that
    /// several backups reach does not matter, because no backup reaches alone what is below it.
    fn read(&mut self, walk: &mut Walk<'_>) -> Result<BTreeSet<usize>> {
        let mut unread = BTreeSet::new();
        while let Some((level, nodes)) = self.open.pop_last() {
            for (at, owner) in nodes {
                self.own(
                    at.container,
                    &SlotSet::from_iter([SlotRange::one(at.slot)]),
                    owner,
                );
                match (walk.node(at, level, &mut |below| self.add(&below, owner)), owner) {
                    (Err(WalkError::Interrupted), _) => return Err(ReclaimError::Interrupted),
                    (Err(WalkError::Recipe(_)), Owner::One(one)) => _ = unread.insert(one),
                    (Err(WalkError::Recipe(_)), Owner::Several) | (Ok(()), _) => {}
                }
            }
        }
        Ok(unread)
    }
}

/// About how many stored bytes each of these backups reaches alone. `dead` has the slots that only
/// these backups reach.
pub(crate) fn bytes(
    context: &Context<'_>,
    dead: &[ContainerSlots],
    backups: &[Arc<StoredManifest>],
) -> Result<BTreeMap<SessionId, u64>> {
    let owned: Vec<(usize, &StoredManifest)> = backups.iter().map(|stored| &**stored).enumerate().collect();
    let sums = of_owners(context, Some(all_of(dead)), &owned, backups.len())?;
    let sums = sums.into_iter().zip(backups);
    Ok(sums
        .filter_map(|(sum, stored)| Some((stored.session, sum?)))
        .collect())
}

/// What only one backup reaches, and what only one series does.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Exclusive {
    /// About how many stored bytes no other backup reaches. A backup that cannot be read has no
    /// entry.
    pub by_backup: BTreeMap<SessionId, u64>,
    /// About how many stored bytes no backup of another series reaches. A series with a backup that
    /// cannot be read has no entry.
    pub by_series: BTreeMap<SeriesId, u64>,
}

/// Finds what only one backup or series reaches, of all backups. It reads each node twice.
///
/// # Errors
/// `Interrupted`; of the storage.
pub fn exclusive(context: &Context<'_>) -> Result<Exclusive> {
    let list = context.manifests.list()?;
    let backups: Vec<Arc<StoredManifest>> = list.backups().map(|entry| Arc::clone(&entry.stored)).collect();
    let owned: Vec<(usize, &StoredManifest)> = backups.iter().map(|stored| &**stored).enumerate().collect();
    let of_backups = of_owners(context, None, &owned, backups.len())?;
    let series: BTreeSet<SeriesId> = backups.iter().map(|stored| stored.series).collect();
    let series: Vec<SeriesId> = series.into_iter().collect();
    let owner = |stored: &StoredManifest| series.binary_search(&stored.series).unwrap_or_default();
    let owned: Vec<(usize, &StoredManifest)> =
        backups.iter().map(|stored| (owner(stored), &**stored)).collect();
    let of_series = of_owners(context, None, &owned, series.len())?;
    let backups = backups.iter().zip(of_backups);
    let series = series.into_iter().zip(of_series);
    Ok(Exclusive {
        by_backup: backups
            .filter_map(|(stored, sum)| Some((stored.session, sum?)))
            .collect(),
        by_series: series.filter_map(|(id, sum)| Some((id, sum?))).collect(),
    })
}

/// About how many stored bytes each owner reaches alone, of so many owners: of the slots that are
/// `dead`, or of all. `None`: something of the owner cannot be read.
fn of_owners(
    context: &Context<'_>,
    dead: Option<SlotMap>,
    backups: &[(usize, &StoredManifest)],
    count: usize,
) -> Result<Vec<Option<u64>>> {
    let mut owners = Owners {
        dead,
        open: BTreeMap::new(),
        of_one: vec![SlotMap::default(); count],
        met: SlotMap::default(),
        several: SlotMap::default(),
    };
    let mut unread = BTreeSet::new();
    for (one, stored) in backups {
        let Some(backup) = backup_of(&stored.manifest) else {
            unread.insert(*one);
            continue;
        };
        for stream in &backup.streams {
            owners.add_node(stream.location, stream.level, Owner::One(*one));
        }
    }
    unread.extend(owners.read(&mut Walk::new(context.nodes, context.progress))?);
    let mut sums = vec![None; count];
    for (one, sum) in sums
        .iter_mut()
        .enumerate()
        .filter(|(one, _)| !unread.contains(one))
    {
        let mut bytes = 0;
        for (container, slots) in owners.of_one[one].iter() {
            let alone = match owners.several.get(container) {
                Some(several) => slots.without(several),
                None => slots.clone(),
            };
            if !alone.is_empty() {
                bytes += self::stored(context, container, &alone)?;
            }
        }
        *sum = Some(bytes);
    }
    Ok(sums)
}

fn all_of(dead: &[ContainerSlots]) -> SlotMap {
    let mut all = SlotMap::default();
    for listed in dead {
        let slots = match &listed.slots {
            Some(ranges) => ranges.iter().copied().collect(),
            None => SlotSet::all(),
        };
        all.add(listed.container, &slots);
    }
    all
}

/// A damaged container counts as 0 bytes, because its size is not known.
fn stored(context: &Context<'_>, container: ContainerId, slots: &SlotSet) -> Result<u64> {
    match context.containers.catalog(container) {
        Ok(view) => Ok(stored_share(&view, slots)),
        Err(error) if error.is_damage() => Ok(0),
        Err(error) => Err(error.into()),
    }
}
