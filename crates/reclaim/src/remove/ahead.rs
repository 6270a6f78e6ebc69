//! Containers are rewritten several at once: that is opening, comparing and compressing, and takes processors. What comes of it is put
//! one after another, in the list's order.
//!
//! Only what is as it mostly is, one generation in all its copies, is made ahead; whatever else there may be is seen to in its turn.

use std::collections::{BTreeMap, VecDeque};
use std::num::NonZero;
use std::thread;

use container::{CatalogView, ContainerError, Containers, SealedContainer};
use format::reclaim::ContainerSlots;
use types::{ContainerId, Generation, SlotRange};

use crate::compact::{self, Packing, is_rid_of, rewrite};
use crate::objects::{Kept, Objects};

/// Containers in memory at once, read and made anew.
const AT_ONCE_MAX: usize = 4;
/// What they hold, by the store's size of containers, where more than one is.
const BYTES_MAX: u64 = 16 << 20;

/// What came of rewriting; `None`: nothing of it survives.
pub(super) type Rewritten = Result<Option<SealedContainer>, ContainerError>;

/// The highest generation of a container, and what came of rewriting it.
pub(super) struct Made {
    pub(super) view: CatalogView,
    pub(super) sealed: Rewritten,
}

/// What was made ahead of its turn, in the order of turns.
pub(super) struct Ahead<'a> {
    containers: &'a Containers,
    made: VecDeque<(ContainerId, Option<Made>)>,
}

impl<'a> Ahead<'a> {
    pub(super) const fn new(containers: &'a Containers) -> Self {
        Self {
            containers,
            made: VecDeque::new(),
        }
    }

    /// What was made of the first of `list`; where nothing is left that was made, it is made now, of several.
    pub(super) fn take(
        &mut self,
        list: &[&ContainerSlots],
        found: &BTreeMap<ContainerId, Objects>,
        ours: &BTreeMap<ContainerId, Kept>,
        packing: Packing,
    ) -> Option<Made> {
        let first = list.first()?.container;
        if self.made.is_empty() {
            let at_once = at_once(packing);
            let wanted = list.iter().filter_map(|entry| {
                let id = entry.container;
                let generation = found.get(&id)?.alone(id.kind)?;
                (!ours.contains_key(&id)).then_some((
                    id,
                    generation,
                    entry.slots.as_deref().unwrap_or_default(),
                ))
            });
            let wanted: Vec<_> = wanted.take(at_once).collect();
            if wanted.len() > 1 && wanted[0].0 == first {
                self.make(&wanted, packing);
            }
        }
        let (_, made) = self.made.pop_front_if(|(id, _)| *id == first)?;
        made
    }

    fn make(&mut self, wanted: &[(ContainerId, Generation, &[SlotRange])], packing: Packing) {
        let containers = self.containers;
        let made: Vec<_> = thread::scope(|scope| {
            let threads = wanted.iter().map(|(id, generation, dead)| {
                (
                    *id,
                    scope.spawn(|| make(containers, *id, *generation, dead, packing)),
                )
            });
            let threads: Vec<_> = threads.collect();
            let each = threads.into_iter();
            each.map(|(id, thread)| (id, thread.join().expect("rewriting does not panic")))
                .collect()
        });
        self.made.extend(made);
    }
}

fn at_once(packing: Packing) -> usize {
    let processors = thread::available_parallelism().map_or(1, NonZero::get);
    let fit = usize::try_from(BYTES_MAX / packing.container_bytes.max(1)).unwrap_or(usize::MAX);
    processors.min(AT_ONCE_MAX).min(fit)
}

/// `None`: to be seen to in its turn.
fn make(
    containers: &Containers,
    id: ContainerId,
    generation: Generation,
    dead: &[SlotRange],
    packing: Packing,
) -> Option<Made> {
    let view = containers.generation(id, generation).ok()?;
    if view.moved_to().is_some() || view.body().is_some() || is_rid_of(&view, dead) {
        return None;
    }
    // Where whole regions are dead nothing may have to be copied.
    if compact::trim(containers, &view, dead, generation.next())
        .ok()?
        .is_some()
    {
        return None;
    }
    let sealed = rewrite(containers, &view, dead, generation.next(), packing);
    Some(Made { view, sealed })
}
