//! A checkpoint of the index in memory: one object, written in one piece from the pages
//! [Guo 3.2.3].
//!
//! ```text
//! front   magic 8, version u16, 0 u16, length of the meta u32, meta
//! pages   the pool's, as they are, in stretches of 64 KiB
//! digest  16: of the digests of the front and of each stretch
//! ```
//!
//! Pages have no addresses, so they are loaded unchanged. Then counts and the order of tags are
//! checked. A bad image is ignored: runs have all of its content (INV-4). Like runs, an image is
//! not sealed. It has fewer bits of each fingerprint than they have.

use env::{Storage, StorageError};
use format::names::IndexRunName;
use format::wire::{Reader, Writer, digest};
use types::{ObjectName, StoreId};

use crate::object_header::{HEAD_BYTES, Head};
use crate::sampling::{SamplingRate, SamplingRates};
use crate::table::directory::PageRef;
use crate::table::pages::stretches_of;
use crate::table::slots::SlotLayout;
use crate::table::tables::Tables;

const HEAD: Head = Head {
    magic: *b"1FOLDimg",
    version: 1,
    what: "an image",
};
const DIGEST_BYTES: usize = 16;
const WHAT: &str = "index image";

pub(crate) fn write(
    tables: &Tables,
    storage: &dyn Storage,
    store: StoreId,
    name: &ObjectName,
    filled: &[IndexRunName],
) -> Result<(), StorageError> {
    let front = front(tables, store, filled);
    let stretches = tables.pages.stretches();
    let value = whole(&front, stretches.clone()).to_le_bytes();
    let mut parts: Vec<&[u8]> = vec![&front];
    parts.extend(stretches);
    parts.push(&value);
    storage.put(name, &parts)
}

fn whole<'a>(front: &'a [u8], stretches: impl Iterator<Item = &'a [u8]>) -> u128 {
    let each = std::iter::once(front).chain(stretches);
    let digests: Vec<u8> = each.flat_map(|bytes| digest(bytes).to_le_bytes()).collect();
    digest(&digests)
}

fn front(tables: &Tables, store: StoreId, filled: &[IndexRunName]) -> Vec<u8> {
    let mut meta = Vec::new();
    let mut w = Writer::new(&mut meta);
    w.store(store);
    w.varint(tables.budget_bytes() as u64);
    w.u8(tables.rates.data.halvings());
    w.u8(tables.rates.node.halvings());
    w.varint(tables.forgotten);
    w.list(filled, |w, part| {
        w.session(part.first);
        w.session(part.last);
        w.varint32(part.number);
    });
    w.varint32(tables.ordinals.len());
    w.list(tables.ordinals.page_numbers(), |w, page| w.varint32(*page));
    for table in &tables.kinds {
        let layout = table.layout();
        w.varint(layout.bytes as u64);
        w.varint32(layout.tag_bits);
        for segment in 0..table.segments().segments() {
            let row: Vec<PageRef> = table.segments().row(segment).collect();
            w.list(&row, |w, page| {
                w.varint32(page.number);
                w.u16(page.count);
            });
        }
    }
    HEAD.write(&meta)
}

/// Restores an image; `None` if it has another budget; else the reason for refusing it.
pub(crate) fn read(
    bytes: &[u8],
    store: StoreId,
    budget_bytes: usize,
) -> Result<Option<(Tables, Vec<IndexRunName>)>, String> {
    let text = |e: format::FormatError| e.to_string();
    let mut r = Reader::new(WHAT, bytes);
    let meta = HEAD.read(&mut r)?;
    let (front, rest) = bytes.split_at(HEAD_BYTES + meta.len());
    let Some((pages, stored)) = rest.split_last_chunk::<DIGEST_BYTES>() else {
        return Err("it is truncated".to_owned());
    };
    let mut of = Reader::new(WHAT, meta);
    if of.store().map_err(text)? == store && of.varint().map_err(text)? != budget_bytes as u64 {
        return Ok(None);
    }
    let mut tables = Tables::new(budget_bytes);
    if !tables.pages.fits(pages.len()) {
        return Err("it is truncated or too long".to_owned());
    }
    if whole(front, stretches_of(pages)).to_le_bytes() != *stored {
        return Err("it is damaged".to_owned());
    }
    tables.pages.load(pages);
    let filled = read_meta(&mut tables, meta, store).map_err(text)?;
    Ok(Some((tables, filled)))
}

fn read_meta(tables: &mut Tables, meta: &[u8], store: StoreId) -> format::Result<Vec<IndexRunName>> {
    let mut r = Reader::new(WHAT, meta);
    let of = r.store()?;
    r.require(of == store, "it is of another store")?;
    let budget = r.varint()?;
    r.require(budget == tables.budget_bytes() as u64, "it is of another budget")?;
    let rate = |halvings| SamplingRate::new(halvings).unwrap_or(SamplingRate::MIN);
    tables.rates = SamplingRates {
        data: rate(r.u8()?),
        node: rate(r.u8()?),
    };
    tables.forgotten = r.varint()?;
    let filled = r.list(3, |r| {
        Ok(IndexRunName {
            first: r.session()?,
            last: r.session()?,
            number: r.varint32()?,
        })
    })?;
    let containers = r.varint32()?;
    let of_ordinals = r.list(1, Reader::varint32)?;
    let mut in_use = vec![false; tables.pages.allocated()];
    // Each page may occur once.
    let mut take = |page: u32| {
        let page = in_use.get_mut(page as usize);
        page.is_some_and(|in_use| !std::mem::replace(in_use, true))
    };
    let mut loaded = of_ordinals.iter().all(|page| take(*page));
    loaded = loaded && tables.ordinals.load(&tables.pages, of_ordinals, containers);
    r.require(loaded, "containers have no pages")?;
    for table in &mut tables.kinds {
        let (bytes, tag_bits) = (r.varint32()?, r.varint32()?);
        let layout = SlotLayout::checked(bytes, tag_bits);
        r.require(layout.is_some(), "slots are of no size")?;
        let mut segments = Vec::with_capacity(table.segments().segments());
        for _ in 0..table.segments().segments() {
            segments.push(r.list(3, |r| Ok((r.varint32()?, r.u16()?)))?);
        }
        let taken = segments.iter().flatten().all(|page: &(u32, u16)| take(page.0));
        let loaded = taken && layout.is_some_and(|layout| table.load(&mut tables.pages, layout, segments));
        r.require(loaded, "entries have no pages, or are not in order")?;
    }
    tables.pages.set_in_use(&in_use);
    r.finish()?;
    Ok(filled)
}
