//! Finds what is damaged in a container.

use std::collections::{BTreeMap, BTreeSet};

use container::{CatalogView, ContainerError, Containers, PlainRegion};
use env::StorageError;
use format::container::CatalogEntry;
use types::{ContainerId, Generation, RegionIndex, Slot, SlotRange};

use crate::error::Result;
use crate::objects::Objects;
use crate::slots::SlotSet;

use super::copies::Copies;
use super::lists::{Listed, OnRecord};
use super::wanted::Wanted;

/// The facts known of a container before it is read.
#[derive(Clone, Copy)]
pub(super) struct Known<'a> {
    /// What lists of damage say.
    pub(super) listed: &'a Listed,
    pub(super) record: &'a OnRecord,
    /// The slots that backups need. `None`: nobody has looked, and any may be needed.
    pub(super) needed: Option<&'a SlotSet>,
    /// Copies of catalogs.
    pub(super) copies: &'a Copies,
}

impl Known<'_> {
    pub(super) fn is_needed(&self, slot: Slot) -> bool {
        self.needed.is_none_or(|needed| needed.contains(slot))
    }
}

/// Whether backups need any of these slots. `slots` is `None`: any slot of the container.
pub(super) fn is_any_needed(needed: Option<&SlotSet>, slots: Option<&[SlotRange]>) -> bool {
    match (needed, slots) {
        (None, _) => true,
        (Some(needed), None) => !needed.is_empty(),
        (Some(needed), Some(slots)) => slots.iter().any(|range| !needed.within(*range).is_empty()),
    }
}

/// The readable part of a damaged container.
pub(super) struct Patient {
    pub(super) id: ContainerId,
    /// The generations with readable catalogs, newest first.
    pub(super) views: Vec<CatalogView>,
    /// Slots of the newest one that cannot be read, and whether the storage refuses them; it may
    /// give them later.
    pub(super) bad: BTreeMap<Slot, bool>,
    /// Slots that the newest one lacks, as an older one or a copy of the catalog lists them.
    /// `None`: a list of damage names the slot, and nothing says what was in it.
    pub(super) absent: BTreeMap<Slot, Option<Wanted>>,
    /// The generation of that copy.
    copied: Generation,
    /// The newest generation exists, but its catalog cannot be read.
    pub(super) is_newest_unread: bool,
    /// The storage refused the catalog of a generation; it may give it later.
    pub(super) is_refused: bool,
    /// Slots that were removed since. Used if the newest readable generation is an older one.
    pub(super) removed: BTreeSet<Slot>,
    /// Why healing is impossible, if it is.
    pub(super) hopeless: Option<&'static str>,
}

impl Patient {
    /// Reads the newest readable generation whole. If the container lacks listed slots, it also
    /// reads the copy of the catalog.
    pub(super) fn examine(
        containers: &Containers,
        id: ContainerId,
        found: &Objects,
        known: Known<'_>,
    ) -> Result<Self> {
        let mut patient = Self {
            id,
            views: Vec::new(),
            bad: BTreeMap::new(),
            absent: BTreeMap::new(),
            copied: Generation::FIRST,
            is_newest_unread: false,
            is_refused: false,
            removed: BTreeSet::new(),
            hopeless: None,
        };
        for generation in found.generations.keys().rev() {
            match containers.generation(id, *generation) {
                Ok(view) => patient.views.push(view),
                Err(error) if error.is_damage() || matches!(error, ContainerError::Vanished { .. }) => {
                    patient.is_newest_unread |= patient.views.is_empty();
                    // A main copy that is missing may come back, whatever the mirror copy is.
                    let has_main = found.generations[generation].main.is_some();
                    patient.is_refused |= is_refused(&error) || !has_main;
                }
                Err(error) => return Err(error.into()),
            }
        }
        if let Some(view) = patient.views.first() {
            patient.bad = bad_slots(containers, view)?;
            if patient.is_newest_unread {
                let slots = view.entries().iter().map(|entry| entry.slot);
                let is_removed = |slot: &Slot| !known.record.may_return(id, *slot);
                patient.removed = slots.filter(is_removed).collect();
            }
        }
        patient.look_for_absent(containers, known)?;
        if patient.is_newest_unread && known.record.is_unsure() {
            patient.hopeless = Some("a removed list cannot be read, which may say that it was removed");
        }
        Ok(patient)
    }

    /// Finds slots that the newest generation should have and lacks.
    fn look_for_absent(&mut self, containers: &Containers, known: Known<'_>) -> Result<()> {
        let (id, record) = (self.id, known.record);
        let Some((newest, older)) = self.views.split_first() else {
            return self.look_into_copy_of_lost(containers, known);
        };
        let is_lacking = |slot: &Slot| newest.entry(*slot).is_none();
        let listed = known.listed.slots.ranges().flat_map(SlotRange::iter);
        let mut lacking: BTreeSet<Slot> = listed
            .filter(|slot| is_lacking(slot) && known.is_needed(*slot))
            .collect();
        // A body has slots that its trimmed generation no longer lists.
        let older_own = older
            .iter()
            .filter(|view| newest.body() != Some(view.generation()));
        let of_older = older_own.flat_map(|view| view.entries().iter().map(|entry| entry.slot));
        if !id.kind.is_mirrored() {
            // A chunk that comes back without need harms nobody. A list that named it may be lost.
            lacking.extend(of_older.filter(is_lacking));
        } else if known.listed.is_whole {
            // Nobody knows which slots it lost. A node must be needed: what it reaches may be gone.
            lacking.extend(of_older.filter(|slot| is_lacking(slot) && known.is_needed(*slot)));
        }
        if lacking.is_empty() {
            return Ok(());
        }
        if record.is_unsure() {
            self.hopeless = Some("a removed list cannot be read, which may name the slots that it lacks");
            return Ok(());
        }
        for slot in lacking.into_iter().filter(|slot| record.may_return(id, *slot)) {
            let entry = older.iter().find_map(|view| view.entry(slot));
            self.absent.insert(slot, entry.map(Wanted::of));
        }
        if self.absent.values().any(Option::is_none)
            && let Some(copy) = known.copies.of(containers, id)?
        {
            self.copied = copy.generation;
            for entry in &copy.entries {
                if let Some(absent @ None) = self.absent.get_mut(&entry.slot) {
                    *absent = Some(Wanted::of_copy(entry));
                }
            }
        }
        Ok(())
    }

    /// The slots of a container without a readable generation.
    fn look_into_copy_of_lost(&mut self, containers: &Containers, known: Known<'_>) -> Result<()> {
        if known.record.is_unsure() {
            self.hopeless = Some("a removed list cannot be read, which may say that it was removed");
            return Ok(());
        }
        let Some(copy) = known.copies.of(containers, self.id)? else {
            self.hopeless = Some("it is lost, and no copy of its catalog says what it held");
            return Ok(());
        };
        self.copied = copy.generation;
        let may_return = |slot| known.record.may_return(self.id, slot) && known.is_needed(slot);
        let entries = copy.entries.iter().filter(|entry| may_return(entry.slot));
        self.absent = entries
            .map(|entry| (entry.slot, Some(Wanted::of_copy(entry))))
            .collect();
        Ok(())
    }

    /// Whether nothing is damaged.
    pub(super) fn is_sound(&self) -> bool {
        let is_whole = self.bad.is_empty() && self.absent.is_empty();
        !self.views.is_empty() && is_whole && !self.is_newest_unread && self.hopeless.is_none()
    }

    /// Whether it is lost, and no backup needs any of it.
    pub(super) fn is_needless(&self, known: Known<'_>) -> bool {
        self.views.is_empty() && !self.is_newest_unread && !is_any_needed(known.needed, None)
    }

    /// Whether all of the newest generation can be read, and no backup needs what it lacks.
    pub(super) fn lacks_only_needless(&self, known: Known<'_>) -> bool {
        let is_whole = !self.views.is_empty() && self.bad.is_empty() && !self.is_newest_unread;
        let is_needless = |slot: &Slot| known.needed.is_some() && !known.is_needed(*slot);
        is_whole && self.hopeless.is_none() && self.absent.keys().all(is_needless)
    }

    /// The slots that are damaged now. `None`: the whole container is, or it is not known which
    /// ones are.
    pub(super) fn damaged(&self) -> Option<Vec<SlotRange>> {
        let newest = self.views.first()?;
        let is_all_bad = self.bad.len() == newest.entries().len();
        if is_all_bad || self.is_newest_unread || self.hopeless.is_some() {
            return None;
        }
        let slots: BTreeSet<Slot> = self.bad.keys().chain(self.absent.keys()).copied().collect();
        Some(to_ranges(&slots))
    }

    /// The unreadable slots that only chunks of other containers can restore.
    pub(super) fn depends_on_others(&self) -> bool {
        self.views.len() <= 1 && !self.is_newest_unread && self.hopeless.is_none()
    }

    /// Entries that it holds, and chunks that it lacks.
    pub(super) fn entry_count(&self) -> u64 {
        let held = self.views.iter().map(|view| view.entries().len()).sum::<usize>();
        (held + self.absent.len()) as u64
    }

    /// The newest generation, if it is the highest of all objects and all its copies exist.
    pub(super) fn whole_newest(&self, found: &Objects) -> Option<&CatalogView> {
        let view = self.views.first()?;
        let copies = found.generations.get(&view.generation())?;
        let is_whole = copies.main.is_some() && copies.mirror.is_some() == self.id.kind.is_mirrored();
        (is_whole && found.highest() == Some(view.generation())).then_some(view)
    }

    /// The generation of the catalog copy. A container that is made again gets a higher one than an
    /// object that may come back.
    pub(super) fn generation_of_copy(&self) -> Generation {
        self.copied
    }

    /// The chunks to find elsewhere.
    pub(super) fn wanted(&self) -> impl Iterator<Item = Wanted> + '_ {
        let entries = self.views.first().map_or(&[][..], CatalogView::entries);
        let bad = entries.iter().filter(|entry| self.is_bad_chunk(entry));
        let absent = self.absent.values().filter_map(|wanted| *wanted);
        bad.map(Wanted::of).chain(absent)
    }

    fn is_bad_chunk(&self, entry: &CatalogEntry) -> bool {
        entry.level.get() == 0 && self.bad.contains_key(&entry.slot)
    }
}

/// Slots as ranges.
pub(super) fn to_ranges(slots: &BTreeSet<Slot>) -> Vec<SlotRange> {
    let set: SlotSet = slots.iter().map(|slot| SlotRange::one(*slot)).collect();
    set.to_ranges()
}

/// The unreadable slots of a generation, and whether the storage refuses them.
fn bad_slots(containers: &Containers, view: &CatalogView) -> Result<BTreeMap<Slot, bool>> {
    let mut bad = BTreeMap::new();
    let regions = (0u32..).zip(view.rows());
    for (number, _) in regions.filter(|(_, row)| row.entry_count > 0) {
        let Ok(index) = RegionIndex::new(number) else {
            continue;
        };
        let entries = &view.entries()[view.positions_in(index)];
        match read(containers, view, index)? {
            Err(error) => {
                let is_refused = is_refused(&error);
                bad.extend(entries.iter().map(|entry| (entry.slot, is_refused)));
            }
            Ok(region) => {
                let is_bad = |entry: &&CatalogEntry| {
                    let bytes = region.slot_bytes(view, entry.slot);
                    bytes.is_none_or(|bytes| containers.verify_chunk(view, entry.slot, bytes).is_err())
                };
                bad.extend(entries.iter().filter(is_bad).map(|entry| (entry.slot, false)));
            }
        }
    }
    Ok(bad)
}

/// Whether the storage does not give the bytes now, and may give them later. A missing object may
/// come back with all that was in it.
pub(super) fn is_refused(error: &ContainerError) -> bool {
    matches!(
        error,
        ContainerError::Storage(StorageError::Io { .. })
            | ContainerError::BodyMissing { .. }
            | ContainerError::Vanished { .. }
    )
}

/// Reads a region, or returns its damage.
pub(super) fn read(
    containers: &Containers,
    view: &CatalogView,
    region: RegionIndex,
) -> Result<std::result::Result<PlainRegion, ContainerError>> {
    match containers.read_region(view, region) {
        Ok(plain) => Ok(Ok(plain)),
        Err(error) if error.is_damage() || matches!(error, ContainerError::Vanished { .. }) => Ok(Err(error)),
        Err(error) => Err(error.into()),
    }
}
