//! Merging as a removed list says it: small containers give their slots to one of them, and become stubs that lead there.
//!
//! In rounds with a barrier after each, for some merges at once: a new generation of the container that takes the slots
//! over, with what survives of all of them; then the stubs; then the older generations go. Each round looks at what stands:
//! whoever finds a rival's generation, or what was left of an attempt, goes on from there once all of it was read.
//!
//! What must hold: no stub stands that is durable while the newest generation of the container that it leads to lacks its
//! slots; nothing is deleted of a container before its stub is durable. A container that cannot be read whole is not
//! merged and stays as it is, and so do all where there is no space: the list names both of its names all the same.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use container::{CatalogView, ContainerBuilder, ContainerError, SealedContainer};
use format::reclaim::{Moved, Removed};
use types::{ContainerId, Generation, SlotRange};

use super::{ROUNDS_MAX, Run, is_elsewhere, is_full};
use crate::compact::{Part, is_rid_of, join};
use crate::error::{ReclaimError, Result};
use crate::objects::{self, Doomed, Kept, Objects};

/// Rounds of one merge: three, and room for rivals.
const MERGE_ROUNDS_MAX: usize = 3 + ROUNDS_MAX;
/// Of a stub that was lost with all that stood below it.
const LOST_GENERATION: u32 = 1 << 24;

/// Containers that become one.
struct Merge<'a> {
    target: ContainerId,
    sources: Vec<&'a Moved>,
    /// Sources that cannot be read whole, and stay as they are.
    apart: BTreeSet<ContainerId>,
    /// The generation of the target that was whole and had all slots before the last barrier.
    durable: Option<Generation>,
    /// Stubs that are whole, before the last barrier or since.
    stubs: BTreeSet<ContainerId>,
    /// Whether all stubs stood before the last barrier.
    has_stubs: bool,
}

/// What a look at a merge came to.
enum Step {
    /// Something was put or found: to be looked at again after a barrier.
    Next,
    /// As that, and these are deleted in between: there is no space for what comes next.
    MakeRoom(Vec<Doomed>),
    /// Nothing is left to do but to delete these.
    Done(Vec<Doomed>),
}

/// What stands of a source.
enum Source {
    /// Nothing.
    Gone,
    /// Its slots are where they were.
    Whole(Objects),
    /// A stub leads to the target; other generations may stand still.
    Stub(Objects, Generation),
}

impl Run<'_> {
    /// Merges what the list says, of kinds that are mirrored or of the others.
    pub(super) fn merge(&mut self, removed: &Removed, is_mirrored: bool) -> Result<()> {
        let mut merges: BTreeMap<ContainerId, Merge<'_>> = BTreeMap::new();
        let new = removed.moved.iter().filter(|moved| moved.is_new);
        for moved in new.filter(|moved| moved.to.kind.is_mirrored() == is_mirrored) {
            let of_target = merges.entry(moved.to).or_insert_with(|| Merge {
                target: moved.to,
                sources: Vec::new(),
                apart: BTreeSet::new(),
                durable: None,
                stubs: BTreeSet::new(),
                has_stubs: false,
            });
            of_target.sources.push(moved);
        }
        // The largest that a merge can come to, and what it is merged from stands beside it.
        let largest = self.how.packing.container_bytes / 4 * 5 * if is_mirrored { 2 } else { 1 };
        let mut merges = merges.into_values().peekable();
        while merges.peek().is_some() {
            self.merge_some(removed, &mut merges, largest)?;
        }
        Ok(())
    }

    /// Takes some merges to their end, side by side: as many as there may be copies of, by what they came to.
    fn merge_some<'a>(
        &mut self,
        removed: &Removed,
        merges: &mut impl Iterator<Item = Merge<'a>>,
        largest: u64,
    ) -> Result<()> {
        let mut open: VecDeque<Merge<'a>> = VecDeque::new();
        for round in 0..MERGE_ROUNDS_MAX {
            if !(self.how.is_current)()? {
                return Err(ReclaimError::Overtaken);
            }
            let (mut again, mut doomed) = (VecDeque::new(), Vec::new());
            let copied_before = self.out.copied_bytes;
            loop {
                let copied = self.out.copied_bytes - copied_before;
                let has_room = again.is_empty() || copied + largest <= self.how.copies_bytes_max;
                let more = if round == 0 && has_room {
                    merges.next()
                } else {
                    None
                };
                let Some(mut merge) = open.pop_front().or(more) else {
                    break;
                };
                self.check_cancelled()?;
                match self.step(removed, &mut merge)? {
                    Step::Next => again.push_back(merge),
                    Step::MakeRoom(old) => {
                        doomed.extend(old);
                        again.push_back(merge);
                    }
                    Step::Done(old) => doomed.extend(old),
                }
            }
            self.storage.barrier()?;
            self.out.freed_bytes += objects::delete(self.storage, &doomed)?;
            if again.is_empty() {
                return Ok(());
            }
            open = again;
        }
        Err(ReclaimError::Overtaken)
    }

    /// Looks at what stands, and does the next thing.
    fn step(&mut self, removed: &Removed, merge: &mut Merge<'_>) -> Result<Step> {
        let Some(found) = self.list_one(merge.target)? else {
            return Ok(Step::Done(Vec::new()));
        };
        let mut sources = Vec::new();
        for moved in merge
            .sources
            .iter()
            .filter(|moved| !merge.apart.contains(&moved.from))
        {
            sources.push((*moved, self.source(moved, &merge.stubs)?));
        }
        let dead = dead_of(removed, merge.target);
        let Some(highest) = found.highest() else {
            return Ok(Step::Done(Vec::new()));
        };
        let newest = self.readable(merge.target, highest)?;
        if let Some(view) = &newest {
            for (moved, source) in &mut sources {
                // Its slots are there, and the way to them is lost.
                if matches!(source, Source::Gone)
                    && view.merged().iter().any(|range| range.from == moved.from)
                {
                    *source = Source::Whole(Objects::default());
                }
            }
        }
        let has_all = newest.as_ref().is_some_and(|view| {
            let is_in = |from| view.merged().iter().any(|range| range.from == from);
            let wanted = sources
                .iter()
                .filter(|(_, source)| !matches!(source, Source::Gone));
            view.moved_to().is_none()
                && is_rid_of(view, dead)
                && wanted.clone().all(|(moved, _)| is_in(moved.from))
        });
        let is_durable = has_all && merge.durable == Some(highest);
        if !is_durable {
            let is_whole = found.alone(merge.target.kind).is_some();
            if has_all && (is_whole || self.is_sound(merge.target, highest)?) {
                // Left of an attempt, or another's, who may not have come to a barrier.
                merge.durable = Some(highest);
                return Ok(Step::Next);
            }
            return self.take_over(removed, merge, &found, &sources);
        }
        let whole: Vec<_> = sources
            .iter()
            .filter_map(|(moved, source)| match source {
                Source::Whole(objects) => Some((*moved, objects)),
                _ => None,
            })
            .collect();
        if !whole.is_empty() || !merge.has_stubs {
            for (moved, objects) in whole {
                match self.put_stub(moved, objects) {
                    Ok(true) => _ = merge.stubs.insert(moved.from),
                    Ok(false) => {}
                    Err(error) if is_full(&error) => {
                        let old = found.but(merge.target, newest.as_ref().map(Kept::of));
                        if old.is_empty() {
                            return Err(error.into());
                        }
                        return Ok(Step::MakeRoom(old));
                    }
                    Err(error) => return Err(error.into()),
                }
            }
            merge.has_stubs = true;
            return Ok(Step::Next);
        }
        let kept = newest.as_ref().map(Kept::of);
        let mut doomed = found.but(merge.target, kept);
        for (moved, source) in &sources {
            if let Source::Stub(objects, generation) = source {
                let kept = Kept {
                    generation: *generation,
                    body: None,
                };
                doomed.extend(objects.but(moved.from, Some(kept)));
                self.containers.forget(moved.from);
            }
        }
        self.merged_into.insert(merge.target);
        self.out.kept.push(merge.target);
        Ok(Step::Done(doomed))
    }

    /// What stands of a source. `known` are stubs that need not be read again.
    fn source(&self, moved: &Moved, known: &BTreeSet<ContainerId>) -> Result<Source> {
        let Some(objects) = self.list_one(moved.from)? else {
            return Ok(Source::Gone);
        };
        let Some(highest) = objects.highest() else {
            return Ok(Source::Gone);
        };
        let view = self.readable(moved.from, highest)?;
        let leads_there = view.is_some_and(|view| view.moved_to() == Some(moved.to));
        let is_alone = || objects.alone(moved.from.kind).is_some();
        // One copy of two, or half of one, may be what an attempt left.
        let is_stub = leads_there
            && (is_alone() || known.contains(&moved.from) || self.is_sound(moved.from, highest)?);
        Ok(if is_stub {
            Source::Stub(objects, highest)
        } else {
            Source::Whole(objects)
        })
    }

    /// Puts the target's next generation, with what it lacks, of the newest one that can be had whole.
    fn take_over(
        &mut self,
        removed: &Removed,
        merge: &mut Merge<'_>,
        found: &Objects,
        sources: &[(&Moved, Source)],
    ) -> Result<Step> {
        let Some(highest) = found.highest() else {
            return Ok(Step::Done(Vec::new()));
        };
        let (mut damage, mut had) = (None, BTreeSet::new());
        for generation in found.generations.keys().rev() {
            let base = match self.containers.generation(merge.target, *generation) {
                Ok(base) => base,
                Err(error) if is_elsewhere(&error) => {
                    damage = damage.or(Some(error));
                    continue;
                }
                Err(error) => return Err(error.into()),
            };
            if damage.is_some() && self.lacks_sources(&base, |moved| !moved.is_new) {
                continue;
            }
            had.extend(base.merged().iter().map(|range| range.from));
            match self.joined(removed, merge, (base, highest.next()), sources, &had)? {
                Joined::Sealed(sealed) => return self.put_target(merge, &sealed, sources),
                Joined::Bad(error) => damage = damage.or(Some(error)),
                // Nothing is merged after all.
                Joined::Nothing => return Ok(Step::Done(Vec::new())),
            }
        }
        // An older generation lacks what stubs lead to: it must not take the place of this one.
        self.merged_into.insert(merge.target);
        if let Some(error) = damage {
            self.out.damaged.push((merge.target, error));
        }
        Ok(Step::Done(Vec::new()))
    }

    /// `had`: what this generation or a newer one has, and must not be lost.
    fn joined(
        &mut self,
        removed: &Removed,
        merge: &mut Merge<'_>,
        (base, generation): (CatalogView, Generation),
        sources: &[(&Moved, Source)],
        had: &BTreeSet<ContainerId>,
    ) -> Result<Joined> {
        let is_needed = |from: ContainerId| {
            let mut stubs = sources
                .iter()
                .filter(|(_, source)| matches!(source, Source::Stub(..)));
            had.contains(&from) || stubs.any(|(moved, _)| moved.from == from)
        };
        let has = |from: ContainerId| base.merged().iter().any(|range| range.from == from);
        loop {
            let mut views = Vec::new();
            for (moved, source) in sources {
                if has(moved.from) || merge.apart.contains(&moved.from) {
                    continue;
                }
                let objects = match source {
                    Source::Gone => continue,
                    Source::Whole(objects) | Source::Stub(objects, _) => objects,
                };
                match self.newest_whole(moved, objects)? {
                    Ok(view) => views.push((*moved, view)),
                    // What the stub leads to has its slots, or nothing has.
                    Err(error) if is_needed(moved.from) => return Ok(Joined::Bad(error)),
                    Err(error) => {
                        merge.apart.insert(moved.from);
                        self.out.damaged.push((moved.from, error));
                    }
                }
            }
            let target = Part {
                view: &base,
                dead: dead_of(removed, merge.target),
                moved: None,
            };
            let is_merged = sources.iter().any(|(moved, _)| has(moved.from));
            if views.is_empty() && !is_merged {
                return Ok(Joined::Nothing);
            }
            let mut parts: Vec<Part<'_>> = views
                .iter()
                .map(|(moved, view)| Part {
                    view,
                    dead: dead_of(removed, moved.from),
                    moved: Some(*moved),
                })
                .collect();
            // Neighbours of a series lie as their backups do.
            let order = |part: &Part<'_>| (part.view.id().session, part.view.id().sequence);
            let at = parts.partition_point(|part| order(part) < order(&target));
            parts.insert(at, target);
            match join(
                self.containers,
                merge.target,
                &parts,
                generation,
                self.how.packing,
            ) {
                Ok(Some(sealed)) => return Ok(Joined::Sealed(sealed)),
                Ok(None) => return Ok(Joined::Nothing),
                Err((n, error)) if is_elsewhere(&error) => match parts[n].moved {
                    None => return Ok(Joined::Bad(error)),
                    Some(moved) if is_needed(moved.from) => return Ok(Joined::Bad(error)),
                    Some(moved) => {
                        merge.apart.insert(moved.from);
                        self.out.damaged.push((moved.from, error));
                    }
                },
                Err((_, error)) => return Err(error.into()),
            }
        }
    }

    /// The newest generation of a source that is no stub and can be read.
    fn newest_whole(
        &self,
        moved: &Moved,
        objects: &Objects,
    ) -> Result<std::result::Result<CatalogView, ContainerError>> {
        let mut damage = None;
        for generation in objects.generations.keys().rev() {
            match self.containers.generation(moved.from, *generation) {
                Ok(view) if view.moved_to().is_none() => return Ok(Ok(view)),
                Ok(_) => {}
                Err(error) if is_elsewhere(&error) => damage = damage.or(Some(error)),
                Err(error) => return Err(error.into()),
            }
        }
        Ok(Err(damage.unwrap_or(ContainerError::Missing {
            container: moved.from,
        })))
    }

    fn put_target(
        &mut self,
        merge: &mut Merge<'_>,
        sealed: &SealedContainer,
        sources: &[(&Moved, Source)],
    ) -> Result<Step> {
        // Merging is no reason to need space, unless a stub leads here: the next epoch tries it again. One copy of two stays
        // where it is, for a session may know it by now.
        let is_begun = || {
            let mut sources = sources.iter();
            sources.any(|(_, source)| matches!(source, Source::Stub(..)))
        };
        match self.containers.put(sealed) {
            Err(error) if is_full(&error) && !is_begun() => Ok(Step::Done(Vec::new())),
            Ok(()) => {
                self.out.copied_bytes += sealed.stored_bytes_total();
                merge.durable = Some(sealed.generation());
                Ok(Step::Next)
            }
            Err(ContainerError::AlreadyExists { .. }) => Ok(Step::Next),
            Err(error) => Err(error.into()),
        }
    }

    /// Whether it is ours; else it is looked at again. One of which nothing is left gets a number that was never reached: who
    /// knows an older generation must not take this for it.
    fn put_stub(&mut self, moved: &Moved, objects: &Objects) -> std::result::Result<bool, ContainerError> {
        let generation = objects.highest().map_or_else(lost_generation, Generation::next);
        let stub = ContainerBuilder::stub(moved.from, generation, moved.to).seal(self.containers)?;
        match self.containers.put(&stub) {
            Ok(()) => {
                self.out.copied_bytes += stub.stored_bytes_total();
                self.out.merged += 1;
                self.containers.forget(moved.from);
                Ok(true)
            }
            Err(ContainerError::AlreadyExists { .. }) => Ok(false),
            Err(error) => Err(error),
        }
    }

    pub(super) fn list_one(&self, id: ContainerId) -> Result<Option<Objects>> {
        Ok(objects::list(self.storage, id.session, id.kind, &[id])?.remove(&id))
    }

    /// The catalog of a generation, where it can be read.
    pub(super) fn readable(&self, id: ContainerId, generation: Generation) -> Result<Option<CatalogView>> {
        match self.containers.generation(id, generation) {
            Ok(view) => Ok(Some(view)),
            Err(error) if is_elsewhere(&error) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }
}

pub(super) fn lost_generation() -> Generation {
    Generation::new(LOST_GENERATION).expect("it is within the limit")
}

/// What came of putting together a new generation.
enum Joined {
    Sealed(SealedContainer),
    /// Of this generation it cannot be made.
    Bad(ContainerError),
    /// There is nothing to put.
    Nothing,
}

/// What the list says of a container.
pub(super) fn dead_of(removed: &Removed, id: ContainerId) -> &[SlotRange] {
    let at = removed.slots.binary_search_by_key(&id, |entry| entry.container);
    at.ok()
        .and_then(|at| removed.slots[at].slots.as_deref())
        .unwrap_or_default()
}
