//! What executing a list would do if nothing is damaged and nobody interferes, from listings and
//! catalogs.
//!
//! It follows the steps of [`super::execute`], and writes nothing. Bytes of deleted and trimmed
//! containers are exact; the length of a copy is [`compact::len_of`]. A container that cannot be
//! read stays as it is, as in a run.

use container::Containers;
use format::reclaim::{ContainerSlots, Removed};
use types::Generation;

use super::trimming::Trim;
use super::{Executed, Execution, Removal, folders, list_folder, passes};
use crate::compact::{self, Packing, is_rid_of};
use crate::error::Result;
use crate::objects::copies;
use crate::objects::{Doomed, Objects, StandingObjects};
use crate::slots::SlotSet;

/// The result that [`super::execute`] would return.
pub(crate) fn forecast(containers: &Containers, removed: &Removed, packing: Packing) -> Result<Executed> {
    let how = Execution {
        packing,
        copies_bytes_max: 0,
        gives_up: false,
        is_again: false,
        damaged: &|_| Ok(SlotSet::default()),
        progress: &(),
    };
    let mut run = Removal::new(containers, how);
    for list in passes(removed) {
        run.foresee_whole(&list)?;
        run.foresee_parts(&list)?;
    }
    Ok(run.out)
}

fn bytes(doomed: &[Doomed]) -> u64 {
    doomed.iter().map(|(_, len)| len).sum()
}

impl Removal<'_> {
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

    fn foresee_parts(&mut self, list: &[&ContainerSlots]) -> Result<()> {
        let parts: Vec<&ContainerSlots> = list.iter().filter(|e| e.slots.is_some()).copied().collect();
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
        let Some(view) = self.readable(id, highest)? else {
            return Ok(());
        };
        if is_rid_of(&view, dead) {
            self.out.freed_bytes += bytes(&found.but(id, Some(StandingObjects::of(&view))));
            return Ok(());
        }
        if found.alone(id.kind).is_some()
            && let Some(sealed) = self.trimmed(&view, dead, highest.next())?
        {
            let trim = Trim::of(&sealed.catalog(), &view);
            let kept = StandingObjects::of(&sealed.catalog());
            self.out.trimmed += 1;
            self.out.copied_bytes += sealed.stored_bytes_total();
            self.out.freed_bytes += bytes(&found.but(id, Some(kept))) + trim.map_or(0, |trim| trim.bytes());
            return Ok(());
        }
        self.out.freed_bytes += bytes(&found.but(id, None));
        match compact::len_of(&view, dead, self.how.packing) {
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
