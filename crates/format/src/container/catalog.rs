//! The catalog's plain encoding, in columns: similar values are together and compress well.

use types::{Fingerprint, Level, Slot};

use crate::container::{Catalog, CatalogEntry, REGION_PLAIN_BYTES_MAX, RegionRow, slots};
use crate::error::{FormatError, Result};
use crate::payload::{Payload, payload, rule};
use crate::wire::{Reader, Writer};

/// The most entries of a container: as many as there are slots.
pub const CATALOG_ENTRIES_MAX: u32 = Slot::MAX.get() + 1;

/// A flag: the catalog has the columns that only nodes need.
const FLAG_NODES: u8 = 1;

payload!(Catalog);

impl Payload for Catalog {
    const WHAT: &'static str = "catalog";
    const VERSION: u8 = 1;

    fn write(&self, w: &mut Writer<'_>) {
        let has_nodes = self.entries.iter().any(is_node);
        w.u8(if has_nodes { FLAG_NODES } else { 0 });
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
    }

    fn read(r: &mut Reader<'_>) -> Result<Self> {
        let unknown = r.fault("a flag is not known");
        let flags = r.u8()?;
        if flags & !FLAG_NODES != 0 {
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
        Ok(Self { entries })
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
        Ok(())
    }
}

impl Catalog {
    /// Checks the catalog against the rows of its container. The numbers of entries must agree, and
    /// no region may have too many plain bytes.
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
}

fn is_node(entry: &CatalogEntry) -> bool {
    entry.level.get() > 0
}
