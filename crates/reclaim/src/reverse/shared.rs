//! Finds the chunks of a backup that other live backups of any series refer to [RevDedup 2.4.2]
//! (R3).
//!
//! Those chunks stay where they are. An error here loses nothing: marks decide what is removed, and
//! they know every backup. A chunk that is missed here is stored twice, and no more. So archival
//! backups of other series, of which there may be thousands, are not read, and neither are backups
//! that came later.
//!
//! The other backups are read once for many due backups, because reading all recipes for each would
//! cost too much. For a due backup, those backups count that are not due before it. The one that it
//! will refer forward to does not count (if that one shares a chunk, it shares the damage). So
//! backups are walked in an order in which all that count for a backup come before it: first those
//! that are not due, then the due ones, the last one first. For each slot the first two backups are
//! kept, and a node that two backups have reached is not read again: if any backup counts for a due
//! one, one of those two does.
//!
//! Memory: the slots of the due backups, of as many at once as [`WANTED_BYTES_MAX`] allows; one bit
//! for each node of the live ones.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use format::manifest::Backup;
use recipe::{ChunkRefs, NodeCache, Place, RecipeError, TreeRoot};
use session::{ManifestEntry, ManifestList};
use types::{ChunkLocation, ContainerId, ContainerKind, SessionId, Slot, SlotRange};

use super::slot_owners::SlotOwners;
use super::{Due, is_due, len};
use crate::context::Context;
use crate::error::{ReclaimError, Result};
use crate::links::Links;
use crate::mark::{self, Visit, Walk, WalkError};
use crate::progress::{Part, Progress};
use crate::rewrite::OptimizeOptions;
use crate::slots::SlotMap;
use crate::warning::Warning;

/// Backups are handled together until their references take this many bytes; the owners of the
/// slots take as much again, and more if owners change from slot to slot.
const WANTED_BYTES_MAX: usize = 32 << 20;

/// The chunks that backups which are due one after another share with others. Empty at first.
#[derive(Debug, Default)]
pub struct Sharing {
    met: SlotOwners,
    /// The backups of the query, and the backup that each will refer forward to.
    due: HashMap<SessionId, Option<SessionId>>,
    /// The place of each backup in the order of the walk.
    places: HashMap<SessionId, u32>,
}

/// The shared chunks of one backup.
#[derive(Debug, Clone, Copy)]
pub(super) struct Shared<'a> {
    met: &'a SlotOwners,
    /// Backups before this place count.
    place: u32,
    /// Except the backup at this place.
    onto: Option<u32>,
}

impl Shared<'_> {
    /// Whether another backup has the slot, under its present place.
    pub(super) fn contains(&self, container: ContainerId, slot: Slot) -> bool {
        let counts = |who| who < self.place && Some(who) != self.onto;
        self.met.by(container, slot).any(counts)
    }
}

impl Sharing {
    /// The shared chunks of this backup. `None`: it was not in the query.
    pub(super) fn of(&self, due: Due) -> Option<Shared<'_>> {
        let place = |id| self.places.get(&id).copied();
        self.due
            .get(&due.backup)
            .filter(|onto| **onto == due.onto)
            .and_then(|onto| {
                Some(Shared {
                    met: &self.met,
                    place: place(due.backup)?,
                    onto: onto.and_then(place),
                })
            })
    }

    /// Finds the shared chunks of the first of these backups, and of as many of the next ones as
    /// there is room for. It warns `told` of damaged other backups, and counts this percentage of
    /// the bytes of the backups in the query.
    ///
    /// # Errors
    /// `Interrupted`; of the storage.
    pub(super) fn find(
        context: &Context<'_>,
        options: &OptimizeOptions,
        list: &ManifestList,
        due: &[Due],
        (told, percent): (&dyn Progress, u64),
    ) -> Result<Self> {
        let mut found = Self::default();
        let mut wanted = Wanted {
            seen: SlotMap::default(),
            slots: SlotMap::default(),
        };
        // A backup that was archival refers to shared chunks through the backups that it refers
        // forward to.
        let archival = due.iter().filter_map(|due| list.get(due.backup));
        let links = Arc::new(Links::of(context.manifests.chains(list, archival)?));
        let chained = NodeCache::new(context.containers.clone(), options.node_cache_bytes);
        let chained = chained.with_streams(links);
        let mut walk = Walk::new(context.nodes, context.progress);
        let (mut asked, mut bytes) = (Vec::new(), 0u64);
        for due in due {
            let Some(backup) = backup_of(list, due.backup).filter(|_| is_due(list, *due)) else {
                continue;
            };
            // The rewrite of this backup will report its unreadable nodes.
            went_on(match backup.next {
                None => mark::backup(&mut walk, backup, &mut wanted),
                Some(_) => wanted.add_chunks(&chained, backup, context.progress),
            })?;
            found.due.insert(due.backup, due.onto);
            asked.push((due.backup, backup));
            bytes = bytes.saturating_add(len(backup));
            if wanted.slots.memory_bytes() > WANTED_BYTES_MAX {
                break;
            }
        }
        found.met = SlotOwners::none_of(wanted.slots);
        let ontos: HashSet<SessionId> = found.due.values().copied().flatten().collect();
        let others = list
            .backups()
            .filter_map(|entry| Some((entry.session(), entry.backup()?)));
        let others = others.filter(|(id, _)| !found.due.contains_key(id));
        // First the backups that count for all.
        let (last, first): (Vec<_>, Vec<_>) = others.partition(|(id, _)| ontos.contains(id));
        let order: Vec<_> = first
            .into_iter()
            .chain(last)
            .chain(asked.into_iter().rev())
            .collect();
        let numbers = (0u32..).zip(&order);
        found.places = numbers.map(|(place, (id, _))| (*id, place)).collect();
        let live = |(_, backup): &&(SessionId, &Backup)| backup.next.is_none();
        let total = order.iter().filter(live).map(|(_, backup)| len(backup)).sum();
        let walking = Part::of(told, percent, bytes, total);
        let mut meeting = Meeting {
            met: &mut found.met,
            seen: Seen::default(),
            who: 0,
            is_onto: false,
        };
        let is_any = !meeting.met.is_empty();
        for (id, backup) in order.iter().filter(live).filter(|_| is_any) {
            meeting.who = found.places[id];
            meeting.is_onto = ontos.contains(id);
            meeting.seen.own = SlotMap::default();
            if let Some(error) = went_on(mark::backup(&mut walk, backup, &mut meeting))? {
                // Chunks shared with it may be stored twice.
                told.warn(Warning::SharingUnknown {
                    backup: *id,
                    why: error.to_string(),
                });
            }
            walking.add_done(len(backup));
        }
        walking.finish();
        Ok(found)
    }
}

fn backup_of(list: &ManifestList, id: SessionId) -> Option<&Backup> {
    list.get(id).and_then(ManifestEntry::backup)
}

/// The damage that ended a walk. A failing storage is an error.
fn went_on(walked: std::result::Result<(), WalkError>) -> Result<Option<RecipeError>> {
    match walked {
        Err(WalkError::Interrupted) => Err(ReclaimError::Interrupted),
        Err(WalkError::Recipe(RecipeError::Container(error))) if !error.is_gone() => Err(error.into()),
        Err(WalkError::Recipe(error)) => Ok(Some(error)),
        Ok(()) => Ok(None),
    }
}

/// Collects the slots that the due backups refer to.
struct Wanted {
    seen: SlotMap,
    slots: SlotMap,
}

impl Wanted {
    /// Adds the chunks of an archival backup, at the ends of its forward references.
    fn add_chunks(
        &mut self,
        nodes: &NodeCache,
        backup: &Backup,
        progress: &dyn Progress,
    ) -> std::result::Result<(), WalkError> {
        for stream in &backup.streams {
            for reference in ChunkRefs::whole(nodes, &TreeRoot::from(stream)) {
                if progress.is_cancelled() {
                    return Err(WalkError::Interrupted);
                }
                if let Place::At(at) = reference?.place {
                    self.slots.insert(at.container, SlotRange::one(at.slot));
                }
            }
        }
        Ok(())
    }
}

impl Visit for Wanted {
    fn node(&mut self, at: ChunkLocation) -> bool {
        self.seen.insert(at.container, SlotRange::one(at.slot))
    }

    fn chunks(&mut self, container: ContainerId, slots: SlotRange) {
        // Chunks that it has archived before stay where they are.
        if container.kind != ContainerKind::Archive {
            self.slots.insert(container, slots);
        }
    }
}

/// Nodes that the walks have visited.
#[derive(Default)]
struct Seen {
    /// Visited for the backup that is walked now.
    own: SlotMap,
    /// Visited for one backup that another will refer forward to. It does not count for that one.
    once: SlotMap,
    /// Visited for one backup that counts for all, or for two backups.
    done: SlotMap,
}

/// Records which of the other backups refer to the slots.
struct Meeting<'a> {
    met: &'a mut SlotOwners,
    seen: Seen,
    /// The backup that is walked now.
    who: u32,
    /// Whether others will refer forward to it.
    is_onto: bool,
}

impl Visit for Meeting<'_> {
    fn node(&mut self, at: ChunkLocation) -> bool {
        let slot = SlotRange::one(at.slot);
        if self.seen.done.contains(at.container, at.slot) || !self.seen.own.insert(at.container, slot) {
            return false;
        }
        if !self.is_onto || !self.seen.once.insert(at.container, slot) {
            self.seen.done.insert(at.container, slot);
        }
        true
    }

    fn chunks(&mut self, container: ContainerId, slots: SlotRange) {
        self.met.add(container, slots, self.who);
    }
}
