//! Copies of catalogs: they show what a lost container held.

use types::ContainerKind;

use crate::container::{CATALOG_ENTRIES_MAX, CatalogCopy, CatalogCopyEntry, REGION_PLAIN_BYTES_MAX, slots};
use crate::error::Result;
use crate::payload::{Payload, payload, rule};
use crate::wire::{Reader, Writer};

payload!(CatalogCopy);

impl Payload for CatalogCopy {
    const WHAT: &'static str = "catalog copy";
    const VERSION: u8 = 1;

    fn write(&self, w: &mut Writer<'_>) {
        w.container(self.container);
        w.generation(self.generation);
        w.count(self.entries.len());
        slots::write(w, self.entries.iter().map(|e| e.slot));
        for e in &self.entries {
            w.varint32(e.len);
        }
        for e in &self.entries {
            w.put(&e.fingerprint_prefix);
        }
    }

    fn read(r: &mut Reader<'_>) -> Result<Self> {
        let (container, generation) = (r.container()?, r.generation()?);
        let count = r.count(1 + 16)?;
        let runs = slots::read(r, count)?;
        let lens: Vec<u32> = (0..count).map(|_| r.varint32()).collect::<Result<_>>()?;
        let mut entries = Vec::with_capacity(count);
        for (slot, len) in runs.iter().flat_map(|run| run.iter()).zip(lens) {
            entries.push(CatalogCopyEntry {
                slot,
                fingerprint_prefix: r.array()?,
                len,
            });
        }
        Ok(Self {
            container,
            generation,
            entries,
        })
    }

    fn rules(&self) -> Result<(), &'static str> {
        rule(
            self.container.kind != ContainerKind::Catalog,
            "it copies the catalog of a catalog container",
        )?;
        rule(
            self.entries.len() <= CATALOG_ENTRIES_MAX as usize,
            "there are more entries than slots",
        )?;
        rule(
            slots::are_distinct(self.entries.iter().map(|e| e.slot)),
            "a slot stands twice",
        )?;
        let possible = |e: &CatalogCopyEntry| e.len > 0 && e.len <= REGION_PLAIN_BYTES_MAX;
        rule(
            self.entries.iter().all(possible),
            "an entry's length is impossible",
        )
    }
}
