//! The object that holds a generation's regions, and the check of its header.

use std::ops::Range;

use format::container::{ContainerHeader, HEADER_BYTES, RegionRow};

use types::RegionIndex;

use crate::identity::Identity;
use crate::load::Trailer;

/// The object with a generation's regions.
pub(super) struct Object {
    pub(super) at: Identity,
    pub(super) header: [u8; HEADER_BYTES],
    pub(super) rows: Vec<RegionRow>,
    pub(super) len: u64,
}

impl Object {
    pub(super) fn of(trailer: &Trailer, at: Identity) -> Self {
        let rows = trailer.rows.clone();
        match &trailer.body {
            None => Self {
                at,
                header: trailer.header.encode(),
                rows,
                len: trailer.object_len,
            },
            Some(body) => {
                let header = ContainerHeader {
                    generation: body.generation,
                    salt: body.salt,
                    ..trailer.header
                };
                Self {
                    at: Identity::body(at.id, body.generation),
                    header: header.encode(),
                    rows,
                    len: body.len,
                }
            }
        }
    }
}

pub(super) fn region_index(number: usize) -> RegionIndex {
    let number = u32::try_from(number).ok().and_then(|n| RegionIndex::new(n).ok());
    number.expect("no more regions than entries")
}

pub(super) fn entries_of(row: &RegionRow) -> Range<u32> {
    row.first_entry..row.first_entry.saturating_add(row.entry_count)
}
