//! The catalog's plain encoding, by columns: what repeats stands together and compresses well.

use types::{Fingerprint, Level, Slot};

use crate::container::{Catalog, CatalogEntry, MergedRange, REGION_PLAIN_BYTES_MAX, RegionRow, slots};
use crate::error::{FormatError, Result};
use crate::payload::{Payload, payload, rule};
use crate::wire::{Reader, Writer};

/// The most entries of a container: as many as there are slots.
pub const CATALOG_ENTRIES_MAX: u32 = Slot::MAX.get() + 1;

/// The catalog has the columns that only nodes need.
const FLAG_NODES: u8 = 1;
/// The catalog is a stub's.
const FLAG_MOVED: u8 = 2;
/// More slots were given than the entries show.
const FLAG_GIVEN: u8 = 4;

payload!(Catalog);

impl Payload for Catalog {
    const WHAT: &'static str = "catalog";
    const VERSION: u8 = 1;

    fn write(&self, w: &mut Writer<'_>) {
        let has_nodes = self.entries.iter().any(is_node);
        let mut flags = 0;
        if has_nodes {
            flags |= FLAG_NODES;
        }
        if self.moved_to.is_some() {
            flags |= FLAG_MOVED;
        }
        if self.slots_given > 0 {
            flags |= FLAG_GIVEN;
        }
        w.u8(flags);
        w.count(self.entries.len());
        slots::write(w, self.entries.iter().map(|e| e.slot));
        for e in &self.entries {
            w.varint32(e.len);
        }
        if has_nodes {
            for e in &self.entries {
                w.level(e.level);
            }
            for e in self.entries.iter().filter(|e| is_node(e)) {
                w.varint(e.logical_len);
            }
        }
        for e in &self.entries {
            w.fingerprint(e.fingerprint);
        }
        w.list(&self.merged, |w, m| {
            w.container(m.from);
            w.slot_range(m.slots);
            w.slot(m.first_here);
        });
        if let Some(container) = self.moved_to {
            w.container(container);
        }
        if self.slots_given > 0 {
            w.varint32(self.slots_given);
        }
    }

    fn read(r: &mut Reader<'_>) -> Result<Self> {
        let unknown = r.fault("a flag is not known");
        let flags = r.u8()?;
        if flags & !(FLAG_NODES | FLAG_MOVED | FLAG_GIVEN) != 0 {
            return Err(unknown);
        }
        let count = r.count(1 + Fingerprint::BYTES)?;
        let runs = slots::read(r, count)?;
        let lens: Vec<u32> = (0..count).map(|_| r.varint32()).collect::<Result<_>>()?;
        let chunk = Level::new(0).expect("0 is a level");
        let mut levels = vec![chunk; count];
        let mut logical: Vec<u64> = lens.iter().map(|&len| len.into()).collect();
        if flags & FLAG_NODES != 0 {
            for level in &mut levels {
                *level = r.level()?;
            }
            r.require(
                levels.iter().any(|&l| l > chunk),
                "there are columns for nodes but no node",
            )?;
            for (len, _) in logical
                .iter_mut()
                .zip(&levels)
                .filter(|(_, level)| **level > chunk)
            {
                *len = r.varint()?;
            }
        }
        let mut entries = Vec::with_capacity(count);
        let columns = runs
            .iter()
            .flat_map(|run| run.iter())
            .zip(lens)
            .zip(levels.into_iter().zip(logical));
        for ((slot, len), (level, logical_len)) in columns {
            entries.push(CatalogEntry {
                slot,
                fingerprint: r.fingerprint()?,
                len,
                level,
                logical_len,
            });
        }
        let merged = r.list(11, |r| {
            Ok(MergedRange {
                from: r.container()?,
                slots: r.slot_range()?,
                first_here: r.slot()?,
            })
        })?;
        let moved_to = if flags & FLAG_MOVED != 0 {
            Some(r.container()?)
        } else {
            None
        };
        let none_given = r.fault("no slots were given, and the flag says so");
        let slots_given = if flags & FLAG_GIVEN != 0 {
            match r.varint32()? {
                0 => return Err(none_given),
                given => given,
            }
        } else {
            0
        };
        Ok(Self {
            entries,
            merged,
            moved_to,
            slots_given,
        })
    }

    fn rules(&self) -> Result<(), &'static str> {
        rule(
            self.entries.len() <= CATALOG_ENTRIES_MAX as usize,
            "there are more entries than slots",
        )?;
        rule(
            slots::are_distinct(self.entries.iter().map(|e| e.slot)),
            "a slot stands twice",
        )?;
        for e in &self.entries {
            rule(
                e.len > 0 && e.len <= REGION_PLAIN_BYTES_MAX,
                "an entry's length is impossible",
            )?;
            rule(
                is_node(e) || e.logical_len == e.len.into(),
                "a chunk's two lengths differ",
            )?;
        }
        for m in &self.merged {
            let last = m.first_here.checked_add(m.slots.count() - 1);
            rule(last.is_some(), "merged slots run past the last slot")?;
        }
        for pair in self.merged.windows(2) {
            let follows = match pair[0].from.cmp(&pair[1].from) {
                std::cmp::Ordering::Less => true,
                std::cmp::Ordering::Equal => pair[0].slots.end() <= pair[1].slots.first().get(),
                std::cmp::Ordering::Greater => false,
            };
            rule(
                follows,
                "merged ranges overlap or are not sorted by container and slot",
            )?;
        }
        rule(
            self.moved_to.is_none() || (self.entries.is_empty() && self.slots_given == 0),
            "a stub has entries or slots",
        )?;
        let is_more = self.slots_given > self.slots_shown() && self.slots_given <= CATALOG_ENTRIES_MAX;
        rule(
            self.slots_given == 0 || is_more,
            "slots were given that the entries show, or that there are not",
        )
    }
}

impl Catalog {
    /// Checks the catalog against the rows of its container: as many entries, and no region with more
    /// plain bytes than a region may have.
    ///
    /// # Errors
    /// `Invalid`.
    pub fn check_rows(&self, rows: &[RegionRow]) -> Result<()> {
        let invalid = |why| FormatError::Invalid {
            what: Self::WHAT,
            why,
        };
        let mut rest = self.entries.as_slice();
        for row in rows {
            let Some((held, after)) = rest.split_at_checked(row.entry_count as usize) else {
                return Err(invalid("the rows have more entries than the catalog"));
            };
            let plain: u64 = held.iter().map(|e| u64::from(e.len)).sum();
            if plain > REGION_PLAIN_BYTES_MAX.into() {
                return Err(invalid("a region has more plain bytes than a region may have"));
            }
            rest = after;
        }
        if rest.is_empty() {
            Ok(())
        } else {
            Err(invalid("the rows have fewer entries than the catalog"))
        }
    }

    /// How many slots, from 0 on, were ever given: what is added gets the next ones (INV-2).
    #[must_use]
    pub fn slots_end(&self) -> u32 {
        self.slots_given.max(self.slots_shown())
    }

    /// As many as the entries show.
    fn slots_shown(&self) -> u32 {
        self.entries.iter().map(|e| e.slot.get() + 1).max().unwrap_or(0)
    }

    /// The slot here of a slot of a container that was merged into this one.
    #[must_use]
    pub fn slot_of_merged(&self, from: types::ContainerId, slot: Slot) -> Option<Slot> {
        let key = (from, slot.get());
        let at = self.merged.partition_point(|m| (m.from, m.slots.end()) <= key);
        let range = self
            .merged
            .get(at)
            .filter(|m| m.from == from && m.slots.contains(slot))?;
        range
            .first_here
            .checked_add(slot.get() - range.slots.first().get())
    }
}

fn is_node(entry: &CatalogEntry) -> bool {
    entry.level.get() > 0
}
