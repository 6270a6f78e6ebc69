//! Makes the next generation of a container, which repairs it.

use std::collections::{BTreeMap, BTreeSet};

use container::{
    CatalogView, CompressedRegion, ContainerBuilder, PlainRegion, SealedContainer, compress_region,
};
use format::container::{CatalogEntry, Codec};
use types::{Generation, Level, RegionIndex, Slot, SlotRange};

use crate::context::Context;
use crate::error::Result;

use super::donors::Donors;
use super::patient::{Patient, is_refused, read, to_ranges};
use super::wanted::Wanted;

/// The reason to keep bytes that the storage refuses.
const REFUSED: &str = "the storage does not give some of it now, which may end, and no other place has it";

/// The reason when no chunk was found.
pub(super) const NOT_FOUND: &str = "no other place has its chunks yet";

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
    let mut maker = Maker::new(context, patient, donors, generation);
    maker.carry_all()?;
    maker.add_absent()?;
    if patient.is_refused && !maker.left.is_empty() {
        maker.hinders = Some(REFUSED);
    }
    if let Some(why) = maker.hinders {
        return Ok(Err(why.to_owned()));
    }
    if maker.healed == 0 && !patient.is_newest_unread || maker.builder.entry_count() == 0 {
        return Ok(Err(NOT_FOUND.to_owned()));
    }
    let left = to_ranges(&maker.left);
    let sealed = maker.builder.seal(context.containers)?;
    Ok(Ok(Made {
        sealed,
        healed: maker.healed,
        left,
    }))
}

/// Makes the next generation of a container of which every slot can be read. `None`: not all can be
/// read any more.
pub(super) fn again(
    context: &Context<'_>,
    patient: &Patient,
    donors: &Donors<'_>,
    generation: Generation,
) -> Result<Option<SealedContainer>> {
    let mut maker = Maker::new(context, patient, donors, generation);
    maker.carry_all()?;
    if maker.hinders.is_some() || !maker.left.is_empty() || maker.builder.entry_count() == 0 {
        return Ok(None);
    }
    Ok(Some(maker.builder.seal(context.containers)?))
}

struct Maker<'a> {
    context: &'a Context<'a>,
    patient: &'a Patient,
    donors: &'a Donors<'a>,
    builder: ContainerBuilder,
    healed: u64,
    left: BTreeSet<Slot>,
    /// Slots that the storage refuses in an older generation.
    refused: BTreeSet<Slot>,
    /// Why the slots in `left` must not be given up.
    hinders: Option<&'static str>,
    /// Of each older generation the region that was read last: it may have the next slot, too.
    held: BTreeMap<Generation, (RegionIndex, Region)>,
}

/// A region, or whether the storage refuses it.
type Region = std::result::Result<PlainRegion, bool>;

impl<'a> Maker<'a> {
    fn new(
        context: &'a Context<'a>,
        patient: &'a Patient,
        donors: &'a Donors<'a>,
        generation: Generation,
    ) -> Self {
        Self {
            context,
            patient,
            donors,
            builder: ContainerBuilder::new(patient.id, generation),
            healed: 0,
            left: BTreeSet::new(),
            refused: BTreeSet::new(),
            hinders: None,
            held: BTreeMap::new(),
        }
    }

    /// Copies all regions of the newest generation.
    fn carry_all(&mut self) -> Result<()> {
        let Some((view, others)) = self.patient.views.split_first() else {
            return Ok(());
        };
        let regions = (0u32..).zip(view.rows());
        for (number, _) in regions.filter(|(_, row)| row.entry_count > 0) {
            if let Ok(region) = RegionIndex::new(number) {
                self.carry(view, others, region)?;
            }
        }
        Ok(())
    }

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
        let is_bad = |entry: &CatalogEntry| self.patient.bad.contains_key(&entry.slot);
        let read = if entries.iter().all(is_bad) {
            None
        } else {
            let read = read(self.context.containers, view, region)?;
            if read.is_err() {
                // It was readable when it was examined, and may be again.
                self.hinders = Some(REFUSED);
            }
            read.ok()
        };
        let mut plain = Vec::new();
        for entry in &entries {
            let own = read
                .as_ref()
                .filter(|_| !self.patient.bad.contains_key(&entry.slot));
            match own.and_then(|region| region.slot_bytes(view, entry.slot)) {
                Some(bytes) => plain.extend_from_slice(bytes),
                None => match self.found(others, entry)? {
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

    fn found(&mut self, others: &[CatalogView], entry: &CatalogEntry) -> Result<Option<Vec<u8>>> {
        for view in others {
            if let Some(bytes) = self.in_generation(view, entry)? {
                return Ok(Some(bytes));
            }
        }
        let is_chunk = entry.level.get() == 0;
        let fetched = is_chunk.then(|| self.donors.fetch(Wanted::of(entry))).flatten();
        Ok(fetched.and_then(|(found, bytes)| (found == entry.fingerprint).then_some(bytes)))
    }

    /// The bytes of a slot in an older generation, if they are those of the entry.
    fn in_generation(&mut self, view: &CatalogView, entry: &CatalogEntry) -> Result<Option<Vec<u8>>> {
        let containers = self.context.containers;
        let same = |found: &&CatalogEntry| found.fingerprint == entry.fingerprint && found.len == entry.len;
        let Some(region) = view
            .entry(entry.slot)
            .filter(same)
            .and_then(|_| view.region_of(entry.slot))
        else {
            return Ok(None);
        };
        let is_held = |(held, _): &&(RegionIndex, Region)| *held == region;
        if self.held.get(&view.generation()).filter(is_held).is_none() {
            let read = read(containers, view, region)?.map_err(|error| is_refused(&error));
            self.held.insert(view.generation(), (region, read));
        }
        let region = match self.held.get(&view.generation()) {
            Some((_, Ok(region))) => region,
            Some((_, Err(true))) => {
                self.refused.insert(entry.slot);
                return Ok(None);
            }
            Some((_, Err(false))) | None => return Ok(None),
        };
        let bytes = region.slot_bytes(view, entry.slot);
        let whole = bytes.filter(|bytes| containers.verify_chunk(view, entry.slot, bytes).is_ok());
        Ok(whole.map(<[u8]>::to_vec))
    }

    fn leave(&mut self, entry: &CatalogEntry) {
        self.leave_slot(entry.slot);
        if entry.level.get() > 0 {
            self.hinders = Some("a node in it is lost in all copies, and nodes are not made again");
        }
    }

    fn leave_slot(&mut self, slot: Slot) {
        self.left.insert(slot);
        if self.patient.bad.get(&slot) == Some(&true) || self.refused.contains(&slot) {
            self.hinders = Some(REFUSED);
        }
    }

    /// Adds slots that the newest generation lacks: from older ones, or with chunks found
    /// elsewhere.
    fn add_absent(&mut self) -> Result<()> {
        let (mut plain, mut entries) = (Vec::new(), Vec::new());
        let (patient, level) = (self.patient, Level::new(0).expect("0 is a level"));
        for (slot, wanted) in &patient.absent {
            let Some((entry, bytes)) = self.absent(*slot, *wanted, level)? else {
                self.leave_slot(*slot);
                continue;
            };
            plain.extend_from_slice(&bytes);
            entries.push(entry);
            self.healed += 1;
            if plain.len() >= self.context.packing.region_bytes {
                self.close(&mut plain, &mut entries);
            }
        }
        self.close(&mut plain, &mut entries);
        Ok(())
    }

    fn absent(
        &mut self,
        slot: Slot,
        wanted: Option<Wanted>,
        level: Level,
    ) -> Result<Option<(CatalogEntry, Vec<u8>)>> {
        for view in self.patient.views.iter().skip(1) {
            if let Some(entry) = view.entry(slot).copied()
                && let Some(bytes) = self.in_generation(view, &entry)?
            {
                return Ok(Some((entry, bytes)));
            }
        }
        let fetched = wanted.and_then(|wanted| self.donors.fetch(wanted));
        Ok(fetched.zip(wanted).map(|((fingerprint, bytes), wanted)| {
            let entry = CatalogEntry {
                slot,
                fingerprint,
                len: wanted.len,
                level,
                logical_len: u64::from(wanted.len),
            };
            (entry, bytes)
        }))
    }

    fn close(&mut self, plain: &mut Vec<u8>, entries: &mut Vec<CatalogEntry>) {
        if !entries.is_empty() {
            let region = compress_region(std::mem::take(plain), self.context.packing.compression);
            self.builder.append_survivors(region, &std::mem::take(entries));
        }
    }
}
