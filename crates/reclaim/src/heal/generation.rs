//! Finds what is damaged in a container, and makes the next generation, which repairs it.

use std::collections::{BTreeMap, BTreeSet};

use container::{
    CatalogView, CompressedRegion, ContainerBuilder, ContainerError, Containers, PlainRegion,
    SealedContainer, compress_region,
};
use env::StorageError;
use format::container::{CatalogCopy, CatalogEntry, Codec};
use format::names;
use types::{ContainerId, ContainerKind, Generation, Level, RegionIndex, Slot, SlotRange};

use crate::error::Result;
use crate::objects::Objects;
use crate::prune::Context;

use super::donors::{Donors, Wanted, slot_bytes};
use super::lists::OnRecord;

/// The reason to keep bytes that the disk refuses.
const REFUSED: &str = "the disk does not give some of it now, which may end, and no other place has it";

/// The readable part of a damaged container.
pub(super) struct Patient {
    id: ContainerId,
    /// The generations with readable catalogs, newest first.
    views: Vec<CatalogView>,
    /// Slots of the newest one that cannot be read, and whether the disk refuses them; the disk may
    /// give them later.
    bad: BTreeMap<Slot, bool>,
    /// Slots that no generation has, as a copy of the catalog lists them.
    absent: BTreeMap<Slot, Wanted>,
    /// The generation of that copy.
    copied: Generation,
    /// The newest generation exists, but its catalog cannot be read.
    is_newest_unread: bool,
    /// The disk refused the catalog of a generation; the disk may give it later.
    is_refused: bool,
    /// Slots that were removed since. Used if the newest readable generation is an older one.
    removed: BTreeSet<Slot>,
    /// Why healing is impossible, if it is.
    hopeless: Option<&'static str>,
}

impl Patient {
    /// Reads the newest readable generation whole. If the container lacks listed slots, it also
    /// reads the copy of the catalog.
    pub(super) fn examine(
        containers: &Containers,
        id: ContainerId,
        found: &Objects,
        listed: Option<&[SlotRange]>,
        record: &OnRecord,
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
                    patient.is_refused |= is_refused(&error);
                }
                Err(error) => return Err(error.into()),
            }
        }
        if let Some(view) = patient.views.first() {
            patient.bad = bad_slots(containers, view)?;
            if patient.is_newest_unread {
                let slots = view.entries().iter().map(|entry| entry.slot);
                patient.removed = slots.filter(|slot| !record.may_return(id, *slot)).collect();
            }
        }
        let newest = patient.views.first();
        let lacks = |slot: Slot| newest.is_none_or(|view| view.entry(slot).is_none());
        let is_lost = newest.is_none();
        let is_short = listed.is_some_and(|ranges| ranges.iter().flat_map(|range| range.iter()).any(lacks));
        if (is_lost || is_short) && !record.is_unsure() {
            if let Some(copy) = catalog_copy(containers, id)? {
                patient.copied = copy.generation;
                let is_listed = |slot| {
                    is_lost || listed.is_some_and(|ranges| ranges.iter().any(|range| range.contains(slot)))
                };
                for entry in &copy.entries {
                    if lacks(entry.slot) && is_listed(entry.slot) && record.may_return(id, entry.slot) {
                        let wanted = Wanted {
                            prefix: entry.fingerprint_prefix,
                            len: entry.len,
                        };
                        patient.absent.insert(entry.slot, wanted);
                    }
                }
            } else if is_lost {
                patient.hopeless = Some("it is lost, and no copy of its catalog says what it held");
            }
        } else if is_lost || patient.is_newest_unread && record.is_unsure() {
            patient.hopeless = Some("a removed list cannot be read, which may say that it was removed");
        }
        Ok(patient)
    }

    /// Whether nothing is damaged.
    pub(super) fn is_sound(&self) -> bool {
        !self.views.is_empty() && self.bad.is_empty() && self.absent.is_empty() && !self.is_newest_unread
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
        bad.map(Wanted::of).chain(self.absent.values().copied())
    }

    fn is_bad_chunk(&self, entry: &CatalogEntry) -> bool {
        entry.level.get() == 0 && self.bad.contains_key(&entry.slot)
    }
}

/// The new generation, and the slots that it does not repair.
pub(super) struct Made {
    pub(super) sealed: SealedContainer,
    pub(super) healed: u64,
    pub(super) left: Vec<SlotRange>,
}

/// Makes the next generation, or says why it cannot.
pub(super) fn make(
    context: &Context<'_>,
    patient: &Patient,
    donors: &Donors<'_>,
    generation: Generation,
) -> Result<std::result::Result<Made, String>> {
    if let Some(why) = patient.hopeless {
        return Ok(Err(why.to_owned()));
    }
    let mut maker = Maker {
        context,
        patient,
        donors,
        builder: ContainerBuilder::new(patient.id, generation),
        healed: 0,
        left: BTreeSet::new(),
        hinders: None,
    };
    if let Some((view, others)) = patient.views.split_first() {
        let regions = (0u32..).zip(view.rows());
        for (number, _) in regions.filter(|(_, row)| row.entry_count > 0) {
            if let Ok(region) = RegionIndex::new(number) {
                maker.carry(view, others, region)?;
            }
        }
    }
    maker.add_absent();
    if patient.is_refused && !maker.left.is_empty() {
        maker.hinders = Some(REFUSED);
    }
    if let Some(why) = maker.hinders {
        return Ok(Err(why.to_owned()));
    }
    if maker.healed == 0 && !patient.is_newest_unread || maker.builder.entry_count() == 0 {
        return Ok(Err("no other place has its chunks yet".to_owned()));
    }
    let left: Vec<SlotRange> = maker.left.iter().map(|slot| SlotRange::one(*slot)).collect();
    let sealed = maker.builder.seal(context.containers)?;
    Ok(Ok(Made {
        sealed,
        healed: maker.healed,
        left: crate::slots::SlotSet::from_iter(left).to_ranges(),
    }))
}

struct Maker<'a> {
    context: &'a Context<'a>,
    patient: &'a Patient,
    donors: &'a Donors<'a>,
    builder: ContainerBuilder,
    healed: u64,
    left: BTreeSet<Slot>,
    /// Why the slots in `left` must not be given up.
    hinders: Option<&'static str>,
}

impl Maker<'_> {
    /// Copies a region of the newest generation, with all bytes that were found. It writes zeros
    /// for the others, which have another fingerprint. Their entries stay, so that the nodes that
    /// name them can be verified.
    fn carry(&mut self, view: &CatalogView, others: &[CatalogView], region: RegionIndex) -> Result<()> {
        let entries = view.entries()[view.positions_in(region)].iter().copied();
        let entries: Vec<CatalogEntry> = entries
            .filter(|entry| !self.patient.removed.contains(&entry.slot))
            .collect();
        if entries.is_empty() {
            return Ok(());
        }
        let containers = self.context.containers;
        let read = read(containers, view, region)?.ok();
        let mut plain = Vec::new();
        for entry in &entries {
            let own = read
                .as_ref()
                .filter(|_| !self.patient.bad.contains_key(&entry.slot));
            match own.and_then(|region| region.slot_bytes(view, entry.slot)) {
                Some(bytes) => plain.extend_from_slice(bytes),
                None => match self.found(others, entry) {
                    Some(bytes) => {
                        self.healed += 1;
                        plain.extend_from_slice(&bytes);
                    }
                    None => {
                        self.leave(entry);
                        plain.resize(plain.len() + entry.len as usize, 0);
                    }
                },
            }
        }
        let is_raw = view.row(region).is_none_or(|row| row.codec == Codec::Raw);
        let region = if is_raw {
            CompressedRegion::raw(plain)
        } else {
            compress_region(plain, self.context.packing.compression)
        };
        self.builder.append_survivors(region, &entries);
        Ok(())
    }

    fn found(&self, others: &[CatalogView], entry: &CatalogEntry) -> Option<Vec<u8>> {
        let containers = self.context.containers;
        let mut own = others
            .iter()
            .filter_map(|view| slot_bytes(containers, view, entry));
        own.next().or_else(|| {
            let is_chunk = entry.level.get() == 0;
            let (found, bytes) = is_chunk.then(|| self.donors.fetch(Wanted::of(entry)))??;
            (found == entry.fingerprint).then_some(bytes)
        })
    }

    fn leave(&mut self, entry: &CatalogEntry) {
        self.left.insert(entry.slot);
        if entry.level.get() > 0 {
            self.hinders = Some("a node in it is lost in all copies, and nodes are not made again");
        } else if self.patient.bad.get(&entry.slot) == Some(&true) {
            self.hinders = Some(REFUSED);
        }
    }

    /// Adds slots that no generation has any more.
    fn add_absent(&mut self) {
        let (mut plain, mut entries) = (Vec::new(), Vec::new());
        let level = Level::new(0).expect("0 is a level");
        for (slot, wanted) in &self.patient.absent {
            let found = self.donors.has(*wanted).then(|| self.donors.fetch(*wanted));
            let Some((fingerprint, bytes)) = found.flatten() else {
                self.left.insert(*slot);
                continue;
            };
            plain.extend_from_slice(&bytes);
            entries.push(CatalogEntry {
                slot: *slot,
                fingerprint,
                len: wanted.len,
                level,
                logical_len: u64::from(wanted.len),
            });
            self.healed += 1;
            if plain.len() >= self.context.packing.region_bytes {
                self.close(&mut plain, &mut entries);
            }
        }
        self.close(&mut plain, &mut entries);
    }

    fn close(&mut self, plain: &mut Vec<u8>, entries: &mut Vec<CatalogEntry>) {
        if !entries.is_empty() {
            let region = compress_region(std::mem::take(plain), self.context.packing.compression);
            self.builder.append_survivors(region, &std::mem::take(entries));
        }
    }
}

/// The unreadable slots of a generation, and whether the disk refuses them.
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

/// Whether the disk refuses the bytes now.
fn is_refused(error: &ContainerError) -> bool {
    matches!(error, ContainerError::Storage(StorageError::Io { .. }))
}

/// Reads a region, or returns its damage.
fn read(
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

/// The copy of a container's catalog with the highest generation. Containers of kind `catalog` of
/// the same session have such copies. Unreadable ones are skipped.
fn catalog_copy(containers: &Containers, id: ContainerId) -> Result<Option<CatalogCopy>> {
    let folder = names::container_folder(ContainerKind::Catalog, id.session);
    let listed = containers.env().storage.list(&folder)?;
    let ids: BTreeSet<ContainerId> = listed
        .iter()
        .filter_map(|object| names::parse_container(&object.name))
        .map(|(id, _)| id)
        .collect();
    let mut found: Option<CatalogCopy> = None;
    for copies in ids {
        let read = containers.catalog_copies(copies, |copy| {
            let is_newer = found
                .as_ref()
                .is_none_or(|found| found.generation < copy.generation);
            if copy.container == id && is_newer {
                found = Some(copy);
            }
        });
        match read {
            Ok(()) => {}
            Err(error) if error.is_gone() || matches!(error, ContainerError::BadCatalogCopy { .. }) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(found)
}
