//! What only one backup reaches, of each that is about to be forgotten: for who asks before.
//!
//! Walks what would be dead and nothing else: a node that lives reaches what lives. Backups that share something with each
//! other, and with none that stays, have it all the same, so what they have alone may be less than what goes with all of
//! them. Reads a catalog of each container that it counts bytes of; memory is the slots that would be dead, some times over.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use format::manifest::Manifest;
use format::reclaim::ContainerSlots;
use session::{ManifestList, SessionError, StoredManifest};
use types::{ChunkLocation, ContainerId, SessionId, SlotRange};

use crate::decide::stored_share;
use crate::error::{ReclaimError, Result};
use crate::mark::{self, Visit, Walk};
use crate::moves::Moves;
use crate::prune::Context;
use crate::slots::{SlotMap, SlotSet};

/// The manifests of these backups, those that can be read.
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

/// What of the dead a backup reaches.
struct Reached<'a> {
    dead: &'a SlotMap,
    slots: SlotMap,
}

impl Visit for Reached<'_> {
    fn node(&mut self, at: ChunkLocation) -> bool {
        self.dead.contains(at.container, at.slot) && self.slots.insert(at.container, SlotRange::one(at.slot))
    }

    fn chunks(&mut self, container: ContainerId, slots: SlotRange) {
        if let Some(dead) = self.dead.get(container) {
            self.slots.add(container, &dead.within(slots));
        }
    }
}

/// Stored bytes, about, that each of these backups has alone. `dead` is what nothing would reach without them, by all
/// names.
pub(crate) fn bytes(
    context: &Context<'_>,
    dead: &[ContainerSlots],
    backups: &[Arc<StoredManifest>],
    moves: &Moves,
) -> Result<BTreeMap<SessionId, u64>> {
    let dead = all_of(dead);
    let (mut seen, mut shared) = (SlotMap::default(), SlotMap::default());
    let mut reached = Vec::with_capacity(backups.len());
    for stored in backups {
        let (Manifest::Commit(backup) | Manifest::Revised(backup)) = &stored.manifest else {
            continue;
        };
        let mut visit = Reached {
            dead: &dead,
            slots: SlotMap::default(),
        };
        let mut walk = Walk::new(context.nodes, context.progress);
        let walked = mark::backup(&mut walk, backup, &mut visit).map_err(|error| error.of(stored.session));
        moves.settle(&mut visit.slots);
        match walked {
            Ok(()) => {}
            // What it reaches beyond is not known: it is not told of, and nobody has alone what it has, too.
            Err(ReclaimError::Unmarkable { .. }) => {
                for (container, slots) in visit.slots.iter() {
                    shared.add(container, slots);
                }
                continue;
            }
            Err(error) => return Err(error),
        }
        for (container, slots) in visit.slots.iter() {
            let again = seen.get(container).map(|seen| slots.common(seen));
            if let Some(again) = again.filter(|again| !again.is_empty()) {
                shared.add(container, &again);
            }
            seen.add(container, slots);
        }
        reached.push((stored.session, visit.slots));
    }
    let mut bytes = BTreeMap::new();
    for (session, slots) in reached {
        let mut sum = 0;
        for (container, slots) in slots.iter() {
            let alone = match shared.get(container) {
                Some(shared) => slots.without(shared),
                None => slots.clone(),
            };
            if !alone.is_empty() {
                sum += stored(context, container, &alone)?;
            }
        }
        bytes.insert(session, sum);
    }
    Ok(bytes)
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

/// Of what is damaged nobody knows how much it is.
fn stored(context: &Context<'_>, container: ContainerId, slots: &SlotSet) -> Result<u64> {
    match context.containers.catalog(container) {
        Ok(view) => Ok(stored_share(&view, slots)),
        Err(error) if error.is_damage() => Ok(0),
        Err(error) => Err(error.into()),
    }
}
