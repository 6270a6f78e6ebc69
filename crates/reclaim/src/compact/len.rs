//! Computes the length of a new generation from catalogs only.
//!
//! Follows the steps of [`super::rewrite`]. For raw regions, and for regions that stay as they are,
//! the length is exact. For a region that must be compressed again, it is an estimate by the ratio
//! of the old region.

use container::CatalogView;
use format::container::{
    Catalog, CatalogEntry, Codec, FOOTER_BYTES, HEADER_BYTES, REGION_ROW_BYTES, RegionRow,
};
use format::frame::TAG_BYTES;
use types::SlotRange;

use super::{Packing, Survivors, takes_whole};

/// Bytes of one copy of the container that [`super::rewrite`] would seal. `None`: nothing survives.
pub(crate) fn len_of(view: &CatalogView, dead: &[SlotRange], packing: Packing) -> Option<u64> {
    let mut lens = Lens {
        packing,
        entries: Vec::new(),
        regions: 0,
        stored: 0,
        open: None,
    };
    lens.add_all(Survivors { view, dead });
    lens.close();
    let catalog = Catalog {
        entries: lens.entries,
    };
    if catalog.entries.is_empty() {
        return None;
    }
    let mut encoded = Vec::new();
    catalog.encode(&mut encoded);
    let trailer = encoded.len() + TAG_BYTES + lens.regions * REGION_ROW_BYTES + FOOTER_BYTES;
    Some((HEADER_BYTES + trailer) as u64 + lens.stored)
}

/// The chunks gathered for one region.
struct Open {
    plain_len: usize,
    /// The stored length, if it compresses as before.
    stored_len: u64,
    is_raw: bool,
}

struct Lens {
    packing: Packing,
    entries: Vec<CatalogEntry>,
    regions: usize,
    /// Stored bytes of all regions, tags included.
    stored: u64,
    open: Option<Open>,
}

impl Lens {
    fn add_all(&mut self, part: Survivors<'_>) {
        for region in part.regions() {
            let (Some(row), all) = (part.view.row(region), part.view.positions_in(region)) else {
                continue;
            };
            let entries = &part.view.entries()[all.clone()];
            let survivors = entries.iter().filter(|entry| part.survives(entry)).copied();
            let survivors: Vec<CatalogEntry> = survivors.collect();
            let plain_len = plain_len(part.view, all);
            let gathered = self.open.as_ref().map_or(0, |open| open.plain_len);
            let is_whole = row.codec == Codec::Zstd && survivors.len() == entries.len();
            if is_whole && takes_whole(&self.packing, gathered, self.open.is_none(), plain_len) {
                self.close();
                self.stored += u64::from(row.stored_len);
                self.regions += 1;
            } else {
                survivors.iter().for_each(|entry| self.add(entry, row, plain_len));
            }
            self.entries.extend(survivors);
        }
    }

    fn add(&mut self, entry: &CatalogEntry, row: &RegionRow, region_len: usize) {
        let is_raw = row.codec == Codec::Raw;
        let differs = |open: &Open| is_raw != open.is_raw && open.plain_len >= self.packing.region_bytes / 4;
        if self.open.as_ref().is_some_and(differs) {
            self.close();
        }
        let was_raw = self.open.as_ref().is_none_or(|open| open.is_raw);
        let open = self.open.get_or_insert(Open {
            plain_len: 0,
            stored_len: 0,
            is_raw: true,
        });
        open.is_raw = is_raw && was_raw;
        open.plain_len += entry.len as usize;
        open.stored_len += if is_raw {
            u64::from(entry.len)
        } else {
            let stored = u64::from(row.stored_len).saturating_sub(TAG_BYTES as u64);
            (stored * u64::from(entry.len)).div_ceil(region_len.max(1) as u64)
        };
        if open.plain_len >= self.packing.region_bytes {
            self.close();
        }
    }

    fn close(&mut self) {
        if let Some(open) = self.open.take() {
            let plain_len = open.plain_len as u64;
            let len = if open.is_raw {
                plain_len
            } else {
                open.stored_len.min(plain_len)
            };
            self.stored += len + TAG_BYTES as u64;
            self.regions += 1;
        }
    }
}

fn plain_len(view: &CatalogView, positions: std::ops::Range<usize>) -> usize {
    view.entries()[positions]
        .iter()
        .map(|entry| entry.len as usize)
        .sum()
}
