//! What executing a list would do where nothing is damaged and nobody comes between: told from listings and catalogs.
//!
//! Goes the way of [`super::execute`], and writes nothing. What goes whole or is trimmed is told to the byte; of what is
//! copied the length is [`compact::len_of`]. A container that cannot be read stays as it is here, too.

use std::collections::{BTreeMap, BTreeSet};

use container::{ContainerBuilder, Containers};
use format::reclaim::{ContainerSlots, Moved, Removed};
use types::{ContainerId, Generation};

use super::merging::{dead_of, lost_generation};
use super::trimming::Trim;
use super::{Executed, Execution, Run, folders, list_folder, passes};
use crate::compact::{self, Packing, Part, is_rid_of};
use crate::decide::copies;
use crate::error::Result;
use crate::objects::{Doomed, Kept, Objects};

/// What [`super::execute`] would come to.
pub(crate) fn forecast(containers: &Containers, removed: &Removed, packing: Packing) -> Result<Executed> {
    let how = Execution {
        packing,
        copies_bytes_max: 0,
        is_current: &|| Ok(true),
        progress: &(),
    };
    let mut run = Run::new(containers, removed, how);
    for (is_nodes, list) in passes(removed) {
        run.foresee_whole(&list)?;
        let merged = run.foresee_merges(removed, is_nodes)?;
        run.foresee_parts(&list, &merged)?;
    }
    Ok(run.out)
}

fn bytes(doomed: &[Doomed]) -> u64 {
    doomed.iter().map(|(_, len)| len).sum()
}

impl Run<'_> {
    fn foresee_whole(&mut self, list: &[&ContainerSlots]) -> Result<()> {
        let whole: Vec<&ContainerSlots> = list.iter().filter(|e| e.slots.is_none()).copied().collect();
        for folder in folders(&whole) {
            for (id, found) in list_folder(self.storage, folder)? {
                self.out.freed_bytes += bytes(&found.but(id, None));
                self.out.removed += 1;
            }
        }
        Ok(())
    }

    /// What becomes of containers that take others over, and of those. Their names come back.
    fn foresee_merges(&mut self, removed: &Removed, is_mirrored: bool) -> Result<BTreeSet<ContainerId>> {
        let mut merges: BTreeMap<ContainerId, Vec<&Moved>> = BTreeMap::new();
        let new = removed.moved.iter().filter(|moved| moved.is_new);
        for moved in new.filter(|moved| moved.to.kind.is_mirrored() == is_mirrored) {
            merges.entry(moved.to).or_default().push(moved);
        }
        let mut merged = BTreeSet::new();
        for (target, all) in merges {
            if self.foresee_merge(removed, target, &all)? {
                merged.insert(target);
                merged.extend(all.iter().map(|moved| moved.from));
            }
        }
        Ok(merged)
    }

    fn foresee_merge(&mut self, removed: &Removed, target: ContainerId, all: &[&Moved]) -> Result<bool> {
        let found = self.list_one(target)?;
        let Some((found, highest)) = found.and_then(with_highest) else {
            return Ok(false);
        };
        let base = self.readable(target, highest)?;
        let Some(base) = base.filter(|base| base.moved_to().is_none()) else {
            return Ok(false);
        };
        let has = |from: ContainerId| base.merged().iter().any(|range| range.from == from);
        let mut sources = Vec::new();
        for moved in all {
            let objects = self.list_one(moved.from)?.unwrap_or_default();
            let Some(highest) = objects.highest() else {
                if has(moved.from) {
                    sources.push((*moved, objects, None));
                }
                continue;
            };
            match self.readable(moved.from, highest)? {
                Some(view) if view.moved_to().is_none() => sources.push((*moved, objects, Some(view))),
                // Somebody has come so far before.
                Some(stub) => self.out.freed_bytes += bytes(&objects.but(moved.from, Some(Kept::of(&stub)))),
                None => {}
            }
        }
        let dead = dead_of(removed, target);
        let is_rid = is_rid_of(&base, dead);
        let moved = |(moved, _, view): &'_ (&Moved, _, Option<_>)| has(moved.from) || view.is_some();
        if !sources.iter().any(moved) {
            if is_rid {
                self.out.freed_bytes += bytes(&found.but(target, Some(Kept::of(&base))));
            }
            return Ok(is_rid);
        }
        let new = sources.iter().filter(|(moved, ..)| !has(moved.from));
        let mut parts: Vec<Part<'_>> = new
            .filter_map(|(moved, _, view)| {
                Some(Part {
                    view: view.as_ref()?,
                    dead: dead_of(removed, moved.from),
                    moved: Some(*moved),
                })
            })
            .collect();
        let mut kept = is_rid.then(|| Kept::of(&base));
        if !parts.is_empty() || !is_rid {
            parts.push(Part {
                view: &base,
                dead,
                moved: None,
            });
            // Neighbours of a series lie as their backups do.
            parts.sort_by_key(|part| (part.view.id().session, part.view.id().sequence));
            let Some(len) = compact::len_of(&parts, self.how.packing) else {
                return Ok(false);
            };
            self.out.copied_bytes += len * copies(target);
            kept = None;
        }
        self.out.freed_bytes += bytes(&found.but(target, kept));
        for (moved, objects, _) in &sources {
            let generation = objects.highest().map_or_else(lost_generation, Generation::next);
            let stub = ContainerBuilder::stub(moved.from, generation, moved.to).seal(self.containers)?;
            self.out.copied_bytes += stub.stored_bytes_total();
            self.out.freed_bytes += bytes(&objects.but(moved.from, None));
            self.out.merged += 1;
        }
        Ok(true)
    }

    fn foresee_parts(&mut self, list: &[&ContainerSlots], merged: &BTreeSet<ContainerId>) -> Result<()> {
        let is_part = |entry: &&&ContainerSlots| entry.slots.is_some() && !merged.contains(&entry.container);
        let parts: Vec<&ContainerSlots> = list.iter().filter(is_part).copied().collect();
        for folder in folders(&parts) {
            let mut found = list_folder(self.storage, folder)?;
            for entry in folder {
                let objects = found.remove(&entry.container);
                if let Some((objects, highest)) = objects.and_then(with_highest) {
                    self.foresee_part(entry, &objects, highest)?;
                }
            }
        }
        Ok(())
    }

    fn foresee_part(&mut self, entry: &ContainerSlots, found: &Objects, highest: Generation) -> Result<()> {
        let (id, dead) = (entry.container, entry.slots.as_deref().unwrap_or_default());
        let view = self.readable(id, highest)?;
        let Some(view) = view.filter(|view| view.moved_to().is_none()) else {
            return Ok(());
        };
        if is_rid_of(&view, dead) {
            self.out.freed_bytes += bytes(&found.but(id, Some(Kept::of(&view))));
            return Ok(());
        }
        if found.alone(id.kind).is_some()
            && let Some(sealed) = self.trimmed(&view, dead, highest.next())?
        {
            let trim = Trim::of(&sealed.catalog(), &view);
            let kept = Kept::of(&sealed.catalog());
            self.out.trimmed += 1;
            self.out.copied_bytes += sealed.stored_bytes_total();
            self.out.freed_bytes += bytes(&found.but(id, Some(kept))) + trim.map_or(0, |trim| trim.bytes());
            return Ok(());
        }
        self.out.freed_bytes += bytes(&found.but(id, None));
        let part = Part {
            view: &view,
            dead,
            moved: None,
        };
        match compact::len_of(&[part], self.how.packing) {
            Some(len) => {
                self.out.compacted += 1;
                self.out.copied_bytes += len * copies(id);
            }
            None => self.out.removed += 1,
        }
        Ok(())
    }
}

fn with_highest(objects: Objects) -> Option<(Objects, Generation)> {
    let highest = objects.highest()?;
    Some((objects, highest))
}
