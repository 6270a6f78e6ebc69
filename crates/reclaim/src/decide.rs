//! From what was condemned and what is still in use to the final list.
//!
//! Pure but for the sizes, which come from catalogs of containers that are dead in part, and from the storage.

use std::collections::{BTreeMap, HashMap, HashSet};

use env::StorageError;
use format::names;
use format::reclaim::{ContainerSlots, LeftSlots};
use types::{ContainerId, ContainerKind, Generation, SessionId};

use crate::error::Result;
use crate::plan::{self, Limits, Partial, Price};
use crate::prune::Context;
use crate::slots::{SlotMap, SlotSet, entry};
use crate::sweep::{all_slots, catalog, holds_nodes};

/// The final list, what stays, and what that comes to.
#[derive(Debug, Default)]
pub(crate) struct Decided {
    pub(crate) slots: Vec<ContainerSlots>,
    pub(crate) left: Vec<LeftSlots>,
    pub(crate) whole: u64,
    pub(crate) compacted: u64,
    pub(crate) freed_bytes: u64,
    pub(crate) copied_bytes: u64,
    pub(crate) stored_bytes: u64,
}

/// What is known of each container that is dead in part.
struct Deciding<'a> {
    context: &'a Context<'a>,
    live: &'a SlotMap,
    known: HashMap<ContainerId, &'a LeftSlots>,
    out: Decided,
    /// Containers of which nothing is in use, and their bytes.
    whole: Vec<(ContainerSlots, u64)>,
    partials: Vec<Partial>,
    /// What was condemned of each container of `partials`.
    condemned: BTreeMap<ContainerId, SlotSet>,
}

/// Decides. `known` is what the epoch before left in place, with its sizes; `stored_bytes` is what is stored now.
pub(crate) fn decide(
    context: &Context<'_>,
    condemned: &[ContainerSlots],
    live: &SlotMap,
    known: &[LeftSlots],
    stored_bytes: u64,
    limits: Limits,
) -> Result<Decided> {
    let mut deciding = Deciding {
        context,
        live,
        known: known.iter().map(|left| (left.slots.container, left)).collect(),
        out: Decided::default(),
        whole: Vec::new(),
        partials: Vec::new(),
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
    Ok(deciding.choose(stored_bytes, limits))
}

impl Deciding<'_> {
    fn one(&mut self, condemned: &ContainerSlots) -> Result<()> {
        let id = condemned.container;
        let in_use = self.live.get(id);
        if condemned.slots.is_none() && in_use.is_none() {
            let bytes = self.stored_len(id)?;
            self.whole.push((condemned.clone(), bytes));
            return Ok(());
        }
        if let (None, Some(known)) = (
            in_use,
            // Of what stayed for somebody's sake it is not known how much it is.
            self.known
                .get(&id)
                .filter(|known| known.dead_bytes > 0 && known.slots == *condemned),
        ) {
            let dead: SlotSet = condemned.slots.iter().flatten().copied().collect();
            let (dead_bytes, live_bytes) = (known.dead_bytes, known.live_bytes);
            self.partial(condemned, dead.clone(), dead, dead_bytes, live_bytes);
            return Ok(());
        }
        let Some(view) = catalog(self.context.containers, id, self.context.progress)? else {
            if holds_nodes(id.kind) && condemned.slots.is_some() && in_use.is_none() {
                // What it reaches goes, so nobody may be given its nodes: removal will say that it is damaged.
                self.out.slots.push(condemned.clone());
            } else {
                self.leave(condemned.clone(), 0, 0);
            }
            return Ok(());
        };
        let all = all_slots(&view);
        let listed: SlotSet = match &condemned.slots {
            None => all.clone(),
            Some(ranges) => ranges.iter().copied().collect(),
        };
        let dead = listed.without(in_use.unwrap_or(&SlotSet::default()));
        let plain = |set: &SlotSet| -> u64 {
            let entries = view.entries().iter().filter(|entry| set.contains(entry.slot));
            entries.map(|entry| u64::from(entry.len)).sum()
        };
        let (total, dead_plain) = (plain(&all).max(1), plain(&dead));
        let dead_bytes = u128::from(view.object_len()) * u128::from(dead_plain) / u128::from(total);
        let dead_bytes = u64::try_from(dead_bytes).unwrap_or(u64::MAX) * copies(id);
        let live_bytes = (view.object_len() * copies(id)).saturating_sub(dead_bytes);
        self.partial(condemned, listed, dead, dead_bytes, live_bytes);
        Ok(())
    }

    fn partial(
        &mut self,
        condemned: &ContainerSlots,
        listed: SlotSet,
        dead: SlotSet,
        dead_bytes: u64,
        live_bytes: u64,
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
        });
    }

    fn leave(&mut self, slots: ContainerSlots, dead_bytes: u64, live_bytes: u64) {
        self.out.left.push(LeftSlots {
            slots,
            dead_bytes,
            live_bytes,
        });
    }

    fn choose(mut self, stored_bytes: u64, limits: Limits) -> Decided {
        let (nodes, data): (Vec<_>, Vec<_>) = std::mem::take(&mut self.partials)
            .into_iter()
            .partition(|partial| holds_nodes(partial.container.kind));
        let whole_bytes: u64 = self.whole.iter().map(|(_, bytes)| bytes).sum();
        let choice = plan::choose(data, stored_bytes.saturating_sub(whole_bytes), limits);
        let going = || nodes.iter().chain(&choice.compacted);
        let price = Price {
            copied_for_nodes: nodes.iter().map(|partial| partial.live_bytes).sum(),
            copied: going().map(|partial| partial.live_bytes).sum(),
            freed: whole_bytes + going().map(|partial| partial.dead_bytes).sum::<u64>(),
            dead: whole_bytes
                + going()
                    .chain(&choice.left)
                    .map(|partial| partial.dead_bytes)
                    .sum::<u64>(),
        };
        if plan::can_wait(&price, stored_bytes, limits) {
            return self.leave_all(
                nodes.into_iter().chain(choice.compacted).chain(choice.left),
                stored_bytes,
            );
        }
        self.out.whole = self.whole.len() as u64;
        self.out.freed_bytes = whole_bytes;
        let whole = std::mem::take(&mut self.whole);
        self.out.slots.extend(whole.into_iter().map(|(slots, _)| slots));
        for partial in nodes.into_iter().chain(choice.compacted) {
            self.out.compacted += 1;
            self.out.freed_bytes += partial.dead_bytes;
            self.out.copied_bytes += partial.live_bytes;
            // What was condemned and is in use stays, and is swept again.
            let condemned = self.condemned.remove(&partial.container);
            let rest = condemned.map(|condemned| condemned.without(&partial.dead));
            if let Some(rest) = rest.filter(|rest| !rest.is_empty()) {
                self.leave(entry(partial.container, Some(&rest)), 0, partial.live_bytes);
            }
            self.out.slots.push(entry(partial.container, Some(&partial.dead)));
        }
        for partial in choice.left {
            let condemned = self.condemned.remove(&partial.container);
            let slots = entry(partial.container, Some(&condemned.unwrap_or(partial.dead)));
            self.leave(slots, partial.dead_bytes.max(1), partial.live_bytes);
        }
        self.out.slots.sort_unstable_by_key(|slots| slots.container);
        self.out.left.sort_unstable_by_key(|left| left.slots.container);
        self.out.stored_bytes = stored_bytes.saturating_sub(self.out.freed_bytes);
        self.out
    }

    /// Nothing goes now: a dead node that stays keeps all that it reaches.
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

    /// Stored bytes of a container, all copies; 0 where it is gone.
    fn stored_len(&self, id: ContainerId) -> Result<u64> {
        let storage = &self.context.containers.env().storage;
        let len = |generation| match storage.head(&names::container(id, generation)) {
            Ok(meta) => Ok(Some(meta.len * copies(id))),
            Err(StorageError::NotFound { .. }) => Ok(None),
            Err(error) => Err(error),
        };
        if let Some(len) = len(Generation::FIRST)? {
            return Ok(len);
        }
        match self.context.containers.generations(id)?.pop() {
            Some(generation) => Ok(len(generation)?.unwrap_or(0)),
            None => Ok(0),
        }
    }
}

const fn copies(id: ContainerId) -> u64 {
    if id.kind.is_mirrored() { 2 } else { 1 }
}
