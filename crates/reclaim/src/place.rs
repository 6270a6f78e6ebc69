//! Where the slots of containers that are merged go, and which merges of earlier lists are gone on with.

use std::collections::BTreeSet;
use std::sync::Arc;

use container::{CatalogView, Depth};
use format::reclaim::{Moved, SmallContainer};
use types::{ContainerId, Generation, Slot, SlotRange};

use crate::error::Result;
use crate::merge::Set;
use crate::moves::Moves;
use crate::objects::{self, Objects};
use crate::plan::Unused;
use crate::prune::{Context, PruneOptions};
use crate::record::Record;
use crate::slots::SlotMap;
use crate::sweep;

/// A stub has no more bytes: it has a catalog without entries.
const STUB_BYTES_MAX: u64 = 1 << 10;

/// What becomes of the sets that were chosen.
#[derive(Debug, Default)]
pub(crate) struct Placed {
    pub(crate) moved: Vec<Moved>,
    /// Members that are not merged now, and may be another time.
    pub(crate) back: Vec<SmallContainer>,
    /// Members that cannot be read: whatever was chosen with them would not be merged either, time after time.
    pub(crate) unread: BTreeSet<ContainerId>,
    /// Slots of what is merged that an earlier list removed and that stand all the same: they are removed now, or they
    /// would get a name that is on no list.
    pub(crate) standing: SlotMap,
}

/// Gives the sources of each set slots in its target that were never given. `again` is merged once more, to the slots that
/// it has. What cannot be read is left out.
pub(crate) fn place(
    context: &Context<'_>,
    sets: &[Set],
    moves: &Moves,
    again: &BTreeSet<ContainerId>,
    record: &Record,
) -> Result<Placed> {
    let mut placed = Placed::default();
    for set in sets {
        let target = newest(context, set.target)?;
        if target.is_none() {
            placed.unread.insert(set.target);
        }
        // What was announced and never came to be was announced all the same.
        let announced = moves.sources(set.target).filter_map(Moved::here);
        let announced = announced.map(SlotRange::end).max().unwrap_or(0);
        let mut next = target.as_ref().map(|target| target.slots_end().max(announced));
        for from in &set.sources {
            let Some(source) = of_itself(context, *from)? else {
                placed.unread.insert(*from);
                continue;
            };
            let count = source.slots_end();
            let new = next.and_then(|next| {
                Some(Moved {
                    from: *from,
                    count,
                    to: set.target,
                    first_here: Slot::new(next).ok()?,
                    is_new: true,
                })
            });
            match new.filter(|new| new.here().is_some()) {
                Some(new) => {
                    next = next.map(|next| next + count);
                    placed.moved.push(new);
                    placed.stands(&source, record);
                }
                None => placed.back.push(SmallContainer {
                    container: *from,
                    stored_bytes: source.object_len(),
                }),
            }
        }
    }
    for from in again {
        if let Some(source) = of_itself(context, *from)? {
            placed.stands(&source, record);
        }
    }
    Ok(placed)
}

impl Placed {
    fn stands(&mut self, view: &CatalogView, record: &Record) {
        let listed = record.parts.get(view.id());
        for entry in view.entries() {
            if listed.is_some_and(|listed| listed.contains(entry.slot)) {
                self.standing.insert(view.id(), SlotRange::one(entry.slot));
            }
        }
    }
}

/// The catalog of a container that is not a stub yet.
fn of_itself(context: &Context<'_>, id: ContainerId) -> Result<Option<Arc<CatalogView>>> {
    let view = sweep::catalog(context.containers, id, context.progress)?;
    Ok(view.filter(|view| view.id() == id))
}

/// The catalog of the newest generation, whatever is cached: slots that it gave are not given again.
fn newest(context: &Context<'_>, id: ContainerId) -> Result<Option<Arc<CatalogView>>> {
    let Some(view) = of_itself(context, id)? else {
        return Ok(None);
    };
    let newer = match context.containers.newer(&view) {
        Ok(newer) => newer,
        Err(error) if error.is_damage() => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    Ok(Some(newer.unwrap_or(view)).filter(|view| view.id() == id))
}

/// Containers whose merging came to nothing, or to a half: there was no space, or something could not be read. Those of
/// the list before are looked at, which costs a listing of their folder; if all containers are, then all that were ever
/// merged, and so a stub that was lost is found.
pub(crate) fn unfinished(
    context: &Context<'_>,
    options: &PruneOptions,
    moves: &Moves,
) -> Result<BTreeSet<ContainerId>> {
    let mut again = BTreeSet::new();
    if options.merge_members_min == 0 || options.limits.unused_max == Unused::Unlimited {
        return Ok(again);
    }
    let asked: Vec<&Moved> = moves.all().filter(|moved| moved.is_new || options.all).collect();
    let folder = |moved: &Moved| (moved.from.session, moved.from.kind);
    for of_folder in asked.chunk_by(|a, b| folder(a) == folder(b)) {
        let (session, kind) = folder(of_folder[0]);
        let ids: Vec<ContainerId> = of_folder.iter().map(|moved| moved.from).collect();
        let found = objects::list(&*context.containers.env().storage, session, kind, &ids)?;
        for moved in of_folder {
            let is_done = match found.get(&moved.from) {
                Some(objects) if options.all => is_sound_stub(context, moved, objects)?,
                Some(objects) => looks_like_a_stub(moved.from, objects),
                None => !options.all,
            };
            if !is_done {
                again.insert(moved.from);
            }
        }
    }
    Ok(again)
}

fn looks_like_a_stub(id: ContainerId, objects: &Objects) -> bool {
    objects.alone(id.kind).is_some_and(|generation| {
        let copies = objects.generations.get(&generation).copied().unwrap_or_default();
        generation > Generation::FIRST
            && copies.main.is_some_and(|len| len <= STUB_BYTES_MAX)
            && objects.bodies.is_empty()
    })
}

fn is_sound_stub(context: &Context<'_>, moved: &Moved, objects: &Objects) -> Result<bool> {
    let Some(generation) = objects.alone(moved.from.kind) else {
        return Ok(false);
    };
    match context.containers.generation(moved.from, generation) {
        Ok(view) if view.moved_to() == Some(moved.to) => {
            Ok(context.containers.verify(moved.from, Depth::Digests)?.is_sound())
        }
        Ok(_) => Ok(false),
        Err(error) if error.is_damage() => Ok(false),
        Err(error) => Err(error.into()),
    }
}
