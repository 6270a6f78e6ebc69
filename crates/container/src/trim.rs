//! Trimmed generations: regions without a live slot are given back, without copying.
//!
//! Invariant: a trimmed generation lists no slot of a region that it gives back. Every other slot
//! of the previous generation keeps its place and its number (INV-2). Pure: nothing is read or put
//! here.

use env::AlignedBuffer;
use format::container::{Body, Catalog, ContainerHeader, HEADER_BYTES, RegionRow};
use types::{ByteRange, Generation, RegionIndex, Slot};

use crate::builder::append_trailer;
use crate::containers::Containers;
use crate::error::{ContainerError, Part};
use crate::identity::{Identity, seal_key};
use crate::sealed::SealedContainer;
use crate::view::{CatalogView, Contents, Regions};

impl CatalogView {
    /// The regions that have slots, all of which are dead.
    pub fn dead_regions(&self, is_dead: impl Fn(Slot) -> bool) -> impl Iterator<Item = RegionIndex> {
        let number = |number| RegionIndex::new(number).ok();
        let is_whole = move |region: &RegionIndex| {
            let entries = &self.entries()[self.positions_in(*region)];
            !entries.is_empty() && entries.iter().all(|entry| is_dead(entry.slot))
        };
        (0u32..)
            .zip(self.rows())
            .filter_map(move |(n, _)| number(n))
            .filter(is_whole)
    }

    /// For a trimmed generation: the ranges of its body without any reference, its former trailer
    /// included.
    #[must_use]
    pub fn given_back(&self) -> Vec<ByteRange> {
        let Some(body) = self.contents().body() else {
            return Vec::new();
        };
        let mut ranges: Vec<ByteRange> = Vec::new();
        let mut add = |offset: u64, len: u64| match ranges.last_mut() {
            Some(last) if last.end() == offset => last.len += len,
            _ => ranges.push(ByteRange { offset, len }),
        };
        let mut end = HEADER_BYTES as u64;
        for row in self.rows() {
            end = row.offset + u64::from(row.stored_len);
            if row.entry_count == 0 {
                add(row.offset, row.stored_len.into());
            }
        }
        if end < body.len {
            add(end, body.len - end);
        }
        ranges
    }
}

impl Containers {
    /// A generation of `view` without its dead slots, whose other regions stay where they are.
    /// `None` if dead slots share a region with live ones, if nothing is left, if nothing is dead,
    /// or if there is a mirror copy that would have to be trimmed too.
    ///
    /// # Errors
    /// `Inconsistent` if the catalog breaks a rule of the format.
    pub fn trimmed(
        &self,
        view: &CatalogView,
        is_dead: impl Fn(Slot) -> bool,
        generation: Generation,
    ) -> Result<Option<SealedContainer>, ContainerError> {
        let (contents, id) = (view.contents(), view.id());
        let Some(regions) = contents.regions.as_ref().filter(|_| !id.kind.is_mirrored()) else {
            return Ok(None);
        };
        let dead: Vec<RegionIndex> = view.dead_regions(&is_dead).collect();
        let mut rows: Vec<RegionRow> = Vec::with_capacity(view.rows().len());
        let mut entries = Vec::with_capacity(view.entries().len());
        for (row, number) in view.rows().iter().zip(0u32..) {
            let first_entry = u32::try_from(entries.len()).expect("no more than slots");
            let of = row.first_entry as usize..(row.first_entry + row.entry_count) as usize;
            let index = RegionIndex::new(number).expect("no more regions than slots");
            if dead.binary_search(&index).is_err() {
                entries.extend_from_slice(&view.entries()[of]);
            }
            let after = u32::try_from(entries.len()).expect("no more than slots");
            rows.push(RegionRow {
                first_entry,
                entry_count: after - first_entry,
                ..*row
            });
        }
        let is_mixed = entries.iter().any(|entry| is_dead(entry.slot));
        if is_mixed || dead.is_empty() || entries.is_empty() {
            return Ok(None);
        }
        let catalog = Catalog { entries };
        let at = Identity::main(id, generation);
        catalog
            .check()
            .map_err(|e| at.refused(Part::Catalog, HEADER_BYTES as u64, 0, e))?;
        let body = regions.body.unwrap_or(Body {
            generation: contents.at.generation,
            len: contents.object_len,
            salt: contents.salt,
        });
        let mut salt = [0; 32];
        self.env().entropy.fill(&mut salt);
        let key = seal_key(self.encryption(), &salt);
        let header = ContainerHeader {
            store: self.store(),
            id,
            generation,
            salt,
        };
        let mut bytes = AlignedBuffer::with_capacity(HEADER_BYTES);
        bytes.extend_from_slice(&header.encode());
        append_trailer(&mut bytes, self, &header, &key, &catalog, Some(&body), &rows);
        let regions = Regions::of(at, Some(body), key, self.encryption());
        let len = bytes.len() as u64;
        let contents = Contents::new(at, salt, len, catalog, rows, Some(regions))
            .map_err(|e| at.refused(Part::Catalog, HEADER_BYTES as u64, len, e))?;
        Ok(Some(SealedContainer::new(bytes, contents)))
    }
}
