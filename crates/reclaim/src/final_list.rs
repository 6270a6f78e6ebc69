//! Makes the final list from the condemned slots and the slots in use.
//!
//! Pure, except for sizes: they come from catalogs of containers that are dead in part, and from
//! the storage.

use std::cell::Cell;
use std::collections::{BTreeMap, HashMap, HashSet};

use container::{CatalogView, Containers};
use env::StorageError;
use format::names;
use format::reclaim::{ContainerSlots, LeftSlots};
use types::{ContainerId, ContainerKind, Generation, RegionIndex, SessionId};

use crate::context::Context;
use crate::error::Result;
use crate::objects::{can_trim, copies};
use crate::plan::{self, Limits, Partial, Price, Trimmable};
use crate::slots::{SlotMap, SlotSet, entry};
use crate::sweep::{all_slots, catalog, holds_nodes};

/// A file system keeps a part of a block at both ends of the bytes that it gives back.
const BLOCK_BYTES: u64 = 4096;

/// A trim must give back at least so many times the bytes that are written for it.
const TRIMMED_MIN: u64 = 4;

/// The final list, the slots that stay, and the size of both.
#[derive(Debug, Default)]
pub(crate) struct Decided {
    pub(crate) slots: Vec<ContainerSlots>,
    pub(crate) left: Vec<LeftSlots>,
    pub(crate) stored_bytes: u64,
}

/// The inputs of a decision, besides the condemned slots and those in use.
pub(crate) struct Ground<'a> {
    /// The slots that the epoch before left in place, with their sizes.
    pub(crate) known: &'a [LeftSlots],
    /// What is stored now.
    pub(crate) stored_bytes: u64,
    pub(crate) limits: Limits,
}

/// The facts about each container that is dead in part.
struct Deciding<'a> {
    context: &'a Context<'a>,
    live: &'a SlotMap,
    known: HashMap<ContainerId, &'a LeftSlots>,
    out: Decided,
    /// Containers without a slot in use, and their bytes.
    whole: Vec<(ContainerSlots, u64)>,
    partials: Vec<Partial>,
    /// Whether the storage gives back parts of objects; `None` before it was asked.
    trims: Cell<Option<bool>>,
    /// The condemned slots of each container of `partials`.
    condemned: BTreeMap<ContainerId, SlotSet>,
}

/// Decides.
pub(crate) fn decide(
    context: &Context<'_>,
    condemned: &[ContainerSlots],
    live: &SlotMap,
    ground: Ground<'_>,
) -> Result<Decided> {
    let mut deciding = Deciding {
        context,
        live,
        known: ground
            .known
            .iter()
            .map(|left| (left.slots.container, left))
            .collect(),
        out: Decided::default(),
        whole: Vec::new(),
        partials: Vec::new(),
        trims: Cell::new(None),
        condemned: BTreeMap::new(),
    };
    let in_use = |entry: &&ContainerSlots| entry.slots.is_none() && live.get(entry.container).is_some();
    let rescued: HashSet<SessionId> = condemned
        .iter()
        .filter(in_use)
        .map(|entry| entry.container.session)
        .collect();
    for slots in condemned {
        let id = slots.container;
        if id.kind == ContainerKind::Catalog && rescued.contains(&id.session) {
            deciding.leave(slots.clone(), 0, 0);
        } else {
            deciding.one(slots)?;
        }
    }
    let whole = &deciding.whole;
    let bytes = object::several(context.containers.env().storage.is_far(), whole.len(), |at| {
        stored_len(context.containers, whole[at].0.container)
    })?;
    for ((_, of_one), bytes) in deciding.whole.iter_mut().zip(bytes) {
        *of_one = bytes;
    }
    deciding.choose(ground.stored_bytes, ground.limits)
}

impl Deciding<'_> {
    fn one(&mut self, condemned: &ContainerSlots) -> Result<()> {
        let id = condemned.container;
        let in_use = self.live.get(id);
        if condemned.slots.is_none() && in_use.is_none() {
            self.whole.push((condemned.clone(), 0));
            return Ok(());
        }
        if let (None, Some(known)) = (
            in_use,
            // The size of slots that stayed for a session's sake is not known.
            self.known
                .get(&id)
                .filter(|known| known.dead_bytes > 0 && known.slots == *condemned),
        ) {
            let dead: SlotSet = condemned.slots.iter().flatten().copied().collect();
            let (dead_bytes, live_bytes) = (known.dead_bytes, known.live_bytes);
            self.partial(condemned, dead.clone(), dead, (dead_bytes, live_bytes), true);
            return Ok(());
        }
        let Some(view) = catalog(self.context.containers, id, self.context.progress)? else {
            if holds_nodes(id.kind) {
                self.unread_nodes(condemned, in_use);
            } else {
                self.leave(condemned.clone(), 0, 0);
            }
            return Ok(());
        };
        let all = all_slots(&view);
        let listed: SlotSet = match &condemned.slots {
            None => all.clone(),
            Some(ranges) => all.common(&ranges.iter().copied().collect()),
        };
        if listed.is_empty() && holds_nodes(id.kind) {
            // The sweep could not read the catalog, so it condemned slots that do not exist.
            self.out.slots.push(condemned.clone());
            return Ok(());
        }
        let dead = listed.without(in_use.unwrap_or(&SlotSet::default()));
        let dead_bytes = stored_share(&view, &dead);
        let live_bytes = (view.stored_bytes() * copies(id)).saturating_sub(dead_bytes);
        self.partial(condemned, listed, dead, (dead_bytes, live_bytes), false);
        Ok(())
    }

    /// Lists the slots that are not in use, of a container with nodes whose catalog cannot be read.
    /// What its dead nodes reach is removed, so look-ups must not find them. Removal reports that
    /// the container is damaged.
    fn unread_nodes(&mut self, condemned: &ContainerSlots, in_use: Option<&SlotSet>) {
        let id = condemned.container;
        let all = match &condemned.slots {
            None => SlotSet::all(),
            Some(ranges) => ranges.iter().copied().collect(),
        };
        let dead = in_use.map_or_else(|| all.clone(), |in_use| all.without(in_use));
        let stays = all.without(&dead);
        if !dead.is_empty() {
            self.out.slots.push(entry(id, Some(&dead)));
        }
        if !stays.is_empty() {
            self.leave(entry(id, Some(&stays)), 0, 0);
        }
    }

    fn partial(
        &mut self,
        condemned: &ContainerSlots,
        listed: SlotSet,
        dead: SlotSet,
        (dead_bytes, live_bytes): (u64, u64),
        is_left: bool,
    ) {
        if dead.is_empty() {
            self.leave(condemned.clone(), 0, live_bytes);
            return;
        }
        let container = condemned.container;
        self.condemned.insert(container, listed);
        self.partials.push(Partial {
            container,
            dead,
            dead_bytes,
            live_bytes,
            is_left,
        });
    }

    fn leave(&mut self, slots: ContainerSlots, dead_bytes: u64, live_bytes: u64) {
        self.out.left.push(LeftSlots {
            slots,
            dead_bytes,
            live_bytes,
        });
    }

    fn choose(mut self, stored_bytes: u64, limits: Limits) -> Result<Decided> {
        let (nodes, data): (Vec<_>, Vec<_>) = std::mem::take(&mut self.partials)
            .into_iter()
            .partition(|partial| holds_nodes(partial.container.kind));
        let whole_bytes: u64 = self.whole.iter().map(|(_, bytes)| bytes).sum();
        let left_bytes = stored_bytes.saturating_sub(whole_bytes);
        let choice = plan::choose(data, left_bytes, limits, |partial| self.trimmable(partial))?;
        let going = || nodes.iter().chain(&choice.compacted);
        let trims = || choice.trimmed.iter().map(|(_, part)| part);
        let price = Price {
            copied_for_nodes: nodes.iter().map(|partial| partial.live_bytes).sum(),
            copied: going().map(|partial| partial.live_bytes).sum::<u64>()
                + trims().map(|part| part.copied).sum::<u64>(),
            freed: whole_bytes
                + going().map(|partial| partial.dead_bytes).sum::<u64>()
                + trims().map(|part| part.bytes).sum::<u64>(),
            dead: whole_bytes
                + going()
                    .chain(&choice.left)
                    .chain(choice.trimmed.iter().map(|(partial, _)| partial))
                    .map(|partial| partial.dead_bytes)
                    .sum::<u64>(),
        };
        if plan::can_wait(&price, stored_bytes, limits) {
            let trimmed = choice.trimmed.into_iter().map(|(partial, _)| partial);
            let all = nodes.into_iter().chain(choice.compacted).chain(choice.left);
            return Ok(self.leave_all(all.chain(trimmed), stored_bytes));
        }
        let mut freed_bytes = whole_bytes;
        let whole = std::mem::take(&mut self.whole);
        self.out.slots.extend(whole.into_iter().map(|(slots, _)| slots));
        for partial in nodes.into_iter().chain(choice.compacted) {
            freed_bytes += partial.dead_bytes;
            // Condemned slots that are in use stay, and are swept again.
            let condemned = self.condemned.remove(&partial.container);
            let rest = condemned.map(|condemned| condemned.without(&partial.dead));
            if let Some(rest) = rest.filter(|rest| !rest.is_empty()) {
                self.leave(entry(partial.container, Some(&rest)), 0, partial.live_bytes);
            }
            self.out.slots.push(entry(partial.container, Some(&partial.dead)));
        }
        for (partial, part) in choice.trimmed {
            freed_bytes += part.bytes;
            let condemned = self.condemned.remove(&partial.container);
            let rest = condemned.map(|condemned| condemned.without(&part.dead));
            if let Some(rest) = rest.filter(|rest| !rest.is_empty()) {
                let is_dead = !partial.dead.without(&part.dead).is_empty();
                let dead_bytes = (partial.dead_bytes - part.bytes).max(1);
                let rest = entry(partial.container, Some(&rest));
                self.leave(rest, if is_dead { dead_bytes } else { 0 }, partial.live_bytes);
            }
            self.out.slots.push(entry(partial.container, Some(&part.dead)));
        }
        for partial in choice.left {
            let condemned = self.condemned.remove(&partial.container);
            let slots = entry(partial.container, Some(&condemned.unwrap_or(partial.dead)));
            self.leave(slots, partial.dead_bytes.max(1), partial.live_bytes);
        }
        self.out.slots.sort_unstable_by_key(|slots| slots.container);
        self.out.left.sort_unstable_by_key(|left| left.slots.container);
        self.out.stored_bytes = stored_bytes.saturating_sub(freed_bytes);
        Ok(self.out)
    }

    /// Removes nothing now. A dead node that stays keeps everything that it reaches.
    fn leave_all(mut self, partials: impl Iterator<Item = Partial>, stored_bytes: u64) -> Decided {
        for (slots, bytes) in std::mem::take(&mut self.whole) {
            self.leave(slots, bytes, 0);
        }
        for partial in partials {
            let condemned = self.condemned.remove(&partial.container);
            let slots = entry(partial.container, Some(&condemned.unwrap_or(partial.dead)));
            self.leave(slots, partial.dead_bytes.max(1), partial.live_bytes);
        }
        self.out.left.sort_unstable_by_key(|left| left.slots.container);
        self.out.stored_bytes = stored_bytes;
        self.out
    }

    /// The bytes of a data container that can be removed without a copy, if the storage can give
    /// them back. A new generation does not pay if they are less than a few times what is written
    /// for it.
    fn trimmable(&self, partial: &Partial) -> Result<Option<Trimmable>> {
        let id = partial.container;
        // The answer for one container holds for all, because they are in one storage.
        if id.kind.is_mirrored() || self.trims.get() == Some(false) {
            return Ok(None);
        }
        let containers = self.context.containers;
        let view = match containers.catalog(id) {
            Ok(view) => view,
            // The rewriting reports the damage.
            Err(error) if error.is_damage() => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        let dead_regions: Vec<RegionIndex> = view.dead_regions(|slot| partial.dead.contains(slot)).collect();
        let runs = dead_regions.chunk_by(|a, b| a.get() + 1 == b.get());
        let stored = |region: &RegionIndex| view.row(*region).map_or(0, |row| u64::from(row.stored_len));
        let bytes = runs
            .map(|run| run.iter().map(stored).sum::<u64>().saturating_sub(BLOCK_BYTES))
            .sum();
        let regions_end = view
            .rows()
            .last()
            .map_or(0, |row| row.offset + u64::from(row.stored_len));
        let copied = match view.body() {
            Some(_) => view.object_len(),
            None => view.object_len().saturating_sub(regions_end),
        };
        if bytes < copied.saturating_mul(TRIMMED_MIN) || bytes == 0 {
            return Ok(None);
        }
        if self.trims.get().is_none() {
            self.trims.set(Some(can_trim(&*containers.env().storage, &view)?));
        }
        if self.trims.get() == Some(false) {
            return Ok(None);
        }
        let slots = dead_regions.iter().flat_map(|region| view.slots_in(*region));
        let dead: SlotSet = slots.collect();
        // If everything dead is removed, its share of the catalog is too.
        let bytes = if dead == partial.dead {
            partial.dead_bytes
        } else {
            bytes
        };
        Ok(Some(Trimmable { dead, bytes, copied }))
    }
}

/// Stored bytes of a container, all copies; 0 if it was deleted.
fn stored_len(containers: &Containers, id: ContainerId) -> Result<u64> {
    let storage = &containers.env().storage;
    let len = |generation| match storage.head(&names::container(id, generation)) {
        Ok(meta) => Ok(Some(meta.len * copies(id))),
        Err(StorageError::NotFound { .. }) => Ok(None),
        Err(error) => Err(error),
    };
    if let Some(len) = len(Generation::FIRST)? {
        return Ok(len);
    }
    match containers.generations(id)?.pop() {
        // A trimmed container has a body besides its own object.
        Some(generation) if !id.kind.is_mirrored() => match containers.generation(id, generation) {
            Ok(view) => Ok(view.stored_bytes()),
            Err(_) => Ok(len(generation)?.unwrap_or(0)),
        },
        Some(generation) => Ok(len(generation)?.unwrap_or(0)),
        None => Ok(0),
    }
}

/// Stored bytes of some slots of a container, all copies, catalogs and seals shared out.
pub(crate) fn stored_share(view: &CatalogView, slots: &SlotSet) -> u64 {
    let (mut total, mut plain) = (0, 0);
    for entry in view.entries() {
        total += u128::from(entry.len);
        if slots.contains(entry.slot) {
            plain += u128::from(entry.len);
        }
    }
    let share = u128::from(view.stored_bytes()) * plain / total.max(1);
    u64::try_from(share).unwrap_or(u64::MAX) * copies(view.id())
}

#[cfg(test)]
mod tests;
